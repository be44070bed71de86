/* nvml.h - what vgpud asks the driver, through a libnvidia-ml.so.1 found at run time. */
#ifndef VGPUD_NVML_H
#define VGPUD_NVML_H

#include "binding.h"

#include <sys/types.h>

struct nvml;

struct nvml_gpu {
    uint32_t minor;
    char uuid[48];
    char pci[32];
    uint64_t memory;
};

struct nvml_process {
    pid_t pid;
    uint64_t bytes;
};

#define NVML_MAX_PROCESSES 4096 /* of one GPU */

/* Load and initialise. Returns NULL with err; *missing then says that there is no such library at
 * all. */
struct nvml *nvml_open(bool *missing, vgpu_error_t *err);
void nvml_close(struct nvml *nvml);

/* GPUs that NVML sees; their index is NVML's. */
unsigned nvml_count(const struct nvml *nvml);
int nvml_describe(const struct nvml *nvml, unsigned index, struct nvml_gpu *gpu, vgpu_error_t *err);

/* The links among the GPUs with the given indices, each with each. What NVML does not say counts as
 * not linked. */
void nvml_read_links(const struct nvml *nvml, const unsigned *indices, uint32_t n,
                     struct links *links);

/* All processes that hold memory of the GPU, computing or drawing, sorted by pid; one that is on
 * several lists comes once. Room for NVML_MAX_PROCESSES. Returns their number, or -1 with err.
 * Thread-safe; may take its time. */
int nvml_processes(const struct nvml *nvml, unsigned index, struct nvml_process *list,
                   vgpu_error_t *err);

#endif
