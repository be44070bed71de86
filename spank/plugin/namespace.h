/* namespace.h - a task's own view of the node: what it may not open is covered, what it needs is
 * mounted. */
#ifndef VGPU_NAMESPACE_H
#define VGPU_NAMESPACE_H

#include "proto/conf.h"

#include <stdbool.h>

struct namespace_plan {
    const char *step_dir; /* mounted at VGPU_STEP_DIR; NULL: a step without slots */
    const char *preload;  /* file over /etc/ld.so.preload, with step_dir */
    const char *cover;    /* mode-000 file over the device files that the step may not open */
    uint32_t n_covered;
    uint32_t covered[VGPU_MAX_GPUS]; /* minor numbers */
};

/* Does the plan change anything? */
bool namespace_needed(const struct namespace_plan *plan);

/* Give the calling process a mount namespace of its own and change it. Nothing of it reaches the
 * node. Returns 0, or -1 with err: the process must then not go on as the user. */
int namespace_enter(const struct namespace_plan *plan, vgpu_error_t *err);

#endif
