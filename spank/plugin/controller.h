/* controller.h - talks to slurmctld from a task's process, in a process of its own: a slow
 * controller delays a task by a known time only, and what goes wrong in Slurm's code does not take
 * the task with it. */
#ifndef VGPU_CONTROLLER_H
#define VGPU_CONTROLLER_H

#include "proto/error.h"

#include <slurm/slurm.h>
#include <stdbool.h>

/* Work with the controller; what it writes to answer comes back to the caller. Returns 0 to 127. */
typedef int (*controller_work)(const void *argument, vgpu_error_t *answer);

/* Do the work in a process of its own and wait for it at most deadline_ms. Returns what it
 * returned, or -1 when there was no answer in time (it then goes on by itself). For
 * task_init_privileged only: before it, on some releases, slurmstepd does not survive an RPC. */
int controller_run(controller_work work, const void *argument, int deadline_ms,
                   vgpu_error_t *answer);

/* The job's record, for use inside a work. NULL with err. Free with slurm_free_job_info_msg. */
job_info_msg_t *controller_load_job(uint32_t job, vgpu_error_t *err);

/* Set AdminComment and, unless NULL, the excluded nodes (which Slurm takes of a pending job only).
 * Returns 0 or Slurm's error. For use inside a work. */
int controller_comment(uint32_t job, char *comment, char *excluded);

/* Is it known that the job was given vGPUs? False when the controller does not answer. */
bool controller_job_has_vgpus(uint32_t job);

#endif
