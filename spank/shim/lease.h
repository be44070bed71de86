/* lease.h - a launch asks here whether it may go: this process' side of GPU time, one struct lease
 * per vGPU.
 *
 * The fast path is one read of the gate and one countdown. Everything else (waiting, bounding what
 * is queued, telling vgpud) is in the slow path, which the launch takes when the gate is not FREE,
 * or when it is time to look how much is queued.
 */
#ifndef VGPU_SHIM_LEASE_H
#define VGPU_SHIM_LEASE_H

#include "proto/lease.h"

#include <cuda.h>
#include <stdbool.h>

/* The driver's own functions. */
struct lease_driver {
    CUresult (*event_create)(CUevent *, unsigned);
    CUresult (*event_destroy)(CUevent);
    CUresult (*event_record)(CUevent, CUstream);
    CUresult (*event_query)(CUevent);
    CUresult (*event_synchronize)(CUevent);
    CUresult (*event_elapsed)(float *, CUevent, CUevent);
    CUresult (*stream_is_capturing)(CUstream, CUstreamCaptureStatus *);
    CUresult (*exchange_capture_mode)(CUstreamCaptureMode *);
    CUresult (*context_push)(CUcontext);
    CUresult (*context_pop)(CUcontext *);
    CUresult (*context_get_current)(CUcontext *);
};

/* The connection to vgpud. */
struct lease_link {
    void *context;
    bool (*send)(void *context, const struct vgpu_lease_message *message);
    bool (*alive)(void *context);
    bool (*connect)(void *context); /* again, after it was lost; true when it is there */
};

struct lease;

/* The part that the fast path reads. */
struct lease_gate {
    const _Atomic uint32_t
        *word;              /* in the control page; of this process' own while vgpud is gone */
    _Atomic int32_t budget; /* launches until it is time to look */
};

/* Returns NULL without memory. `process`: this process' index; `own`: its entry in the account,
 * for its launches and its forecast. */
struct lease *lease_create(const struct vgpu_lease *page, uint64_t vgpu_id, uint32_t process,
                           struct vgpu_process *own, const struct lease_driver *driver,
                           const struct lease_link *link);

/* In a child after fork: forget threads and what the parent had queued, then free. */
void lease_abandon(struct lease *lease);

struct lease_gate *lease_gate(struct lease *lease);

/* Streams and contexts come and go: before the driver destroys one, after it has made one. */
void lease_stream_created(struct lease *lease, CUstream stream);
void lease_stream_dying(struct lease *lease, CUstream stream);
void lease_context_dying(struct lease *lease, CUcontext context);

/* The slow path: may wait. Returns true when lease_leave is to be called after the launch. */
bool lease_enter(struct lease *lease, CUstream stream);
void lease_leave(struct lease *lease, CUstream stream);

/* May a launch go without more ado? */
static inline bool lease_open(struct lease_gate *gate)
{
    const _Atomic uint32_t *word = atomic_load_explicit(&gate->word, memory_order_relaxed);
    if ((atomic_load_explicit(word, memory_order_relaxed) & VGPU_GATE_MASK) != VGPU_GATE_FREE)
        return false;
    /* A lost count among threads only moves the next look by a launch. */
    int32_t left = atomic_load_explicit(&gate->budget, memory_order_relaxed) - 1;
    atomic_store_explicit(&gate->budget, left, memory_order_relaxed);
    return left > 0;
}

#endif
