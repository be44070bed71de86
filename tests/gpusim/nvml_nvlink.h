/* nvml_nvlink.h - the NVLinks of a GPU as NVML numbers them: those to peers in the machine's order,
 * then those to the switches.
 */
#ifndef GPUSIM_NVML_NVLINK_H
#define GPUSIM_NVML_NVLINK_H

#include "nvml_impl.h"

struct nvml_link {
    bool active;
    int peer;                /* GPU in the machine; -1: a switch */
    unsigned int remote;     /* number of the link at the peer; of the switch */
    unsigned int generation; /* of NVLink, 1 to 5 */
};

/* How many NVLinks the GPU has, in use or not; 0: this kind has none. */
unsigned int nvml_link_count(nvmlDevice_t device);

/* Link number `link`, which must be below nvml_link_count. */
struct nvml_link nvml_link(nvmlDevice_t device, unsigned int link);

/* Its nominal speed in one direction, MB/s. */
unsigned int nvml_link_mbps(nvmlDevice_t device, const struct nvml_link *link);

/* As nvmlDeviceGetNvLinkVersion counts: not the generation. */
unsigned int nvml_link_version(const struct nvml_link *link);

/* Errors of a link that a fault injects; key as in fault.h. */
uint64_t nvml_link_errors(nvmlDevice_t device, unsigned int link, const char *key);

#endif
