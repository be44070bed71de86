/* owner.h - which step does a process belong to? For those that did not attach.
 *
 * Nothing that a user can write is believed. In turn:
 * 1. the step's folder, which SPANK mounts at a fixed place inside the step: a process that sees it
 * there is of that step, with or without control groups, whoever its parent is by now;
 * 2. its ancestors: a slurmstepd, which we know (it bound the step) or do not (a step without
 * vGPUs);
 * 3. its control group, compared with that of the slurmstepds that we know: equal down to the step,
 * or to the job (a login that pam_slurm_adopt put there). The names of the groups are not read:
 * they differ between Slurm's releases.
 */
#ifndef VGPUD_OWNER_H
#define VGPUD_OWNER_H

#include "daemon.h"

enum owner_kind {
    OWNER_NONE, /* of no step: a daemon, an administrator's program */
    OWNER_STEP, /* of a step that holds vGPUs */
    OWNER_JOB,  /* of a job that does, by another door */
    OWNER_OTHER /* of a step without vGPUs */
};

struct owner {
    enum owner_kind kind;
    uint32_t job, step; /* step VGPU_NO_STEP: not known; of OWNER_OTHER also the job may be: 0 */
};

struct owner owner_find(const struct daemon *daemon, pid_t pid);

#endif
