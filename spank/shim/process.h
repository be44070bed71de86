/* process.h - this process and its vGPUs: which step it belongs to, which pages it maps.
 *
 * All that changes is in one struct on pages that a fork wipes (MADV_WIPEONFORK): a child begins
 * with zeros, locks included, whatever its parent's threads were doing, and becomes a process of
 * its own at its next CUDA call. Nothing is registered for that and nothing is asked on the launch
 * path.
 */
#ifndef VGPU_SHIM_PROCESS_H
#define VGPU_SHIM_PROCESS_H

#include "proto/wire.h"
#include "shim/charge.h"
#include "shim/connect.h"
#include "shim/cuda_api.h"
#include "shim/lease.h"
#include "shim/table.h"

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define PROCESS_MAX_DEVICES 64 /* CUDA ordinals whose vGPU is remembered */

/* One vGPU of the step. */
struct vgpu {
    struct charge charge;
    struct vgpu_desc desc;
    struct lease *lease;
    CUcontext primary; /* the primary context while this process holds it */

    /* Calls between their charge and the driver's answer; the measurer keeps new ones out and waits
     * for the others. */
    alignas(64) _Atomic uint64_t started;
    _Atomic uint64_t finished;
    _Atomic uint32_t measuring;

    pthread_mutex_t measure_lock;
    _Atomic bool unmeasured; /* the driver may have taken or freed memory on its own account */
    uint64_t measure_after;  /* CLOCK_MONOTONIC ns: not before, vgpud did not answer */

    pthread_mutex_t pool_lock;
    _Atomic bool pools;           /* there are pools, or frees on their way */
    _Atomic bool pools_stale;     /* they may have shrunk since they were asked */
    uint64_t pool_chunk;          /* largest step by which a pool was seen to grow */
    _Atomic uint64_t pitch_align; /* of cuMemAllocPitch, as seen */
};

struct process {
    struct lease_gate
        *gate; /* the launch path reads this only; NULL: not attached yet, or several vGPUs */
    _Atomic bool ready;    /* for CUDA: attached (or outside a step), the driver loaded */
    _Atomic bool attached; /* pages mapped, or known to be outside a step */
    bool told;             /* the user has been told why CUDA does not work */
    uint32_t generation;   /* of what threads remember about contexts */
    pthread_mutex_t short_lock, attach_lock;
    struct link link; /* to vgpud, for leases */
    uint32_t n_vgpus; /* 0 outside a step */
    struct vgpu vgpus[VGPU_MAX_GPUS];
    _Atomic int16_t device_vgpu[PROCESS_MAX_DEVICES]; /* CUDA ordinal -> index + 1; 0: not asked;
                                                         -1: not a vGPU */
    pthread_mutex_t vmm_lock;
    uint64_t allocations;         /* VMM allocations so far: their numbers */
    _Atomic bool tiles;           /* some are mapped into sparse arrays */
    _Atomic bool graphs_allocate; /* there is a graph with allocation nodes */
    struct table table;           /* blocks, arrays, graphs, VMM */
    struct table pools;           /* pools, and frees on their way: few, and looked through often */
};

extern struct process process;

/* A lock for a few instructions, under which nothing blocks and nothing outside this library is
 * called. */
void process_lock(void);
void process_unlock(void);

/* At the first CUDA or NVML call: attach to vgpud. Not CUDA_SUCCESS: what the call is to return. */
CUresult process_attach(void);

/* The same at the first NVML call, without loading CUDA. */
bool process_attach_for_nvml(void);

/* Before anything else in every hook. */
static inline CUresult process_enter(void)
{
    return likely(atomic_load_explicit(&process.ready, memory_order_acquire)) ? CUDA_SUCCESS
                                                                              : process_attach();
}

/* The vGPU behind a CUDA device; NULL: the device is not one (a whole GPU beside vGPUs; outside a
 * step). */
struct vgpu *process_vgpu_of_device(CUdevice device);

/* The vGPU of the current context, and the context; NULL: none. */
struct vgpu *process_current(CUcontext *context);

/* The vGPU on which a stream runs. */
struct vgpu *process_vgpu_of_stream(CUstream stream);

/* Contexts have come or gone: forget what threads remember. */
void process_forget_contexts(void);

/* What the driver lists for this process on a vGPU's GPU, by vgpud. -1: no answer. */
int process_measure(const struct vgpu *vgpu, uint64_t *bytes);

#endif
