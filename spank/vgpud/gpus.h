/* gpus.h - the GPUs of vgpu.conf as they are on this machine. */
#ifndef VGPUD_GPUS_H
#define VGPUD_GPUS_H

#include "daemon.h"

/* Find each GPU of vgpu.conf by its minor number, and how they are linked, through NVML; without
 * NVML by what vgpu.conf states. Fills daemon->gpus and, if there is an NVML, daemon->nvml. Returns
 * -1 with err. */
int gpus_find(struct daemon *daemon, struct links *links, vgpu_error_t *err);

#endif
