/* environment.h - the variables that a task of a step with vGPUs gets. No Slurm in here. */
#ifndef VGPU_ENVIRONMENT_H
#define VGPU_ENVIRONMENT_H

#include "proto/wire.h"

#include <stdbool.h>

#define UUID_TEXT_MAX    41 /* GPU-01234567-89ab-cdef-0123-456789abcdef */
#define DEVICES_TEXT_MAX (VGPU_MAX_GPUS * UUID_TEXT_MAX)

/* CUDA_VISIBLE_DEVICES of a task: the GPUs by UUID, its own first and the others after it in the
 * order of the ranks, around; only its own with `own_only`. Task r's own is number r, counted
 * around. */
void environment_devices(char text[DEVICES_TEXT_MAX], const struct vgpu_desc *vgpus, uint32_t n,
                         uint32_t task, bool own_only);

/* The same of only those vGPUs whose slots Slurm gave this task (SLURM_TASK_VGPUS). Returns how
 * many are left. */
uint32_t environment_narrow(struct vgpu_desc *vgpus, uint32_t n, const uint16_t *slots,
                            uint32_t n_slots);

/* `value` with `item` joined by `separator`, `item` first or last. Returns 0, or -1 if there is no
 * room. An item that is there already is not added again. */
int environment_join(char *out, size_t room, const char *value, const char *item, char separator,
                     bool first);

#endif
