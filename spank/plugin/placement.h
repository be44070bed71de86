/* placement.h - tells the user where a job's vGPUs are: in AdminComment, which `scontrol show job`
 * prints. */
#ifndef VGPU_PLACEMENT_H
#define VGPU_PLACEMENT_H

#include "plugin.h"

/* Write the placement once, from the job's first node: by the batch script's step, the interactive
 * step, or the first step of a job without either. Call in task_init_privileged of local task 0. */
void placement_tell(const struct vgpu_plugin *plugin);

#endif
