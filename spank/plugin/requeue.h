/* requeue.h - what becomes of a job that the node cannot give its vGPUs now: another try elsewhere,
 * where that makes sense. */
#ifndef VGPU_REQUEUE_H
#define VGPU_REQUEUE_H

#include "plugin.h"

#define REQUEUE_TRIES 3

struct requeue_facts {
    bool batch;          /* the job has a script, which Slurm can start again */
    bool allowed;        /* neither --no-requeue nor JobRequeue=0 */
    bool started;        /* the job has vGPUs on this node already: its work would be lost */
    uint32_t tries;      /* starts that failed so, before this one */
    uint32_t nodes;      /* that it needs */
    uint32_t nodes_left; /* that could take it, without this one */
};

enum requeue_verdict { REQUEUE_NOT, REQUEUE_AGAIN, REQUEUE_HOLD };

enum requeue_verdict requeue_decide(const struct requeue_facts *facts);

/* After a bind that failed because of this node's state: put the job back into the queue if that is
 * right. The step's error is then completed with what was done. Call in task_init_privileged of
 * local task 0, just before the end of the task. */
void requeue_try(const struct vgpu_plugin *plugin, vgpu_error_t *error);

#endif
