/* access.h - may this process use the GPUs? As a real driver finds out: by opening the device
 * files.
 *
 * A file that nobody may open (mode 000), laid over a device file to hide a GPU, counts as refused
 * for root too: what root would open there is not the device.
 */
#ifndef GPUSIM_ACCESS_H
#define GPUSIM_ACCESS_H

#include <stdint.h>

/* /dev/nvidiactl: 0, or the errno that says why not. */
int gpusim_access_control(void);

/* /dev/nvidia<minor>, likewise. */
int gpusim_access_gpu(uint32_t minor);

#endif
