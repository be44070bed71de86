/* sampler.h - asks the driver who holds how much of which GPU, from a thread of its own: a driver
 * that takes its time must not hold up anybody's lease. Everything else in vgpud is one thread; it
 * gets samples through a descriptor. */
#ifndef VGPUD_SAMPLER_H
#define VGPUD_SAMPLER_H

#include "nvml.h"

struct sampler;

struct sample {
    uint64_t started_ns; /* what the driver says is not older than this; 0: no sample yet */
    bool failed;
    vgpu_error_t error;
    uint32_t n;
    struct nvml_process processes[NVML_MAX_PROCESSES]; /* sorted by pid */
};

/* nvml must outlive the sampler. indices: NVML's, of the n GPUs that are numbered from 0 here.
 * Returns NULL with errno. */
struct sampler *sampler_start(const struct nvml *nvml, const unsigned *indices, uint32_t n);

/* Returns -1 if the driver holds the thread up: then neither it nor NVML can be put away before the
 * process ends. */
int sampler_stop(struct sampler *sampler);

/* Readable when there is a new sample. */
int sampler_fd(const struct sampler *sampler);

/* Ask for a sample of the GPU that begins after now. */
void sampler_ask(struct sampler *sampler, int gpu);

/* A GPU that has a new sample, which goes to *sample; -1: none. Call until it says -1. */
int sampler_take(struct sampler *sampler, struct sample *sample);

/* Bytes of the process; -1: it is not on the list. */
int64_t sample_find(const struct sample *sample, pid_t pid);

#endif
