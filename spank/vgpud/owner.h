/* owner.h - which step does a process belong to?
 *
 * Nothing that a user can write is believed. In turn:
 * 1. it attached at the step's socket;
 * 2. the step's folder, which SPANK mounts at a fixed place inside the step: who sees it there is
 *    of that step, with or without control groups, whoever its parent is by now;
 * 3. its ancestors: a slurmstepd that we know (it bound the step), or one that we do not know (of a
 *    step without vGPUs);
 * 4. its control group, compared with those of the slurmstepds that we know: equal down to the
 * step, or to the job (a login that pam_slurm_adopt put there). The job's part is not read: how it
 * is named differs between Slurm's releases.
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
