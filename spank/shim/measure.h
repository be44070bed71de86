/* measure.h - memory that the driver takes on its own account: contexts, code, heaps.
 *
 * No call says how much that is, so it is measured: what the driver lists for this process (vgpud
 * asks NVML), less what is charged for everything else, is charged as VGPU_KIND_CONTEXT. One figure
 * per vGPU, no record per context or module: nested retains, resets and lazy loading come out right
 * by themselves.
 *
 * A measurement needs a moment in which no allocation is between its charge and the driver's
 * answer: allocations pass through measure_enter and measure_leave, which cost two additions.
 */
#ifndef VGPU_SHIM_MEASURE_H
#define VGPU_SHIM_MEASURE_H

#include "shim/process.h"

void measure_await(struct vgpu *vgpu);

/* Around everything that changes the charge of another kind together with the driver's memory. */
static inline void measure_enter(struct vgpu *vgpu)
{
    vgpu->started += 1;
    if (unlikely(vgpu->measuring != 0))
        measure_await(vgpu);
}

static inline void measure_leave(struct vgpu *vgpu)
{
    vgpu->finished += 1;
}

/* The driver may have taken or freed memory on its own account: measure before the next decision.
 */
void measure_later(struct vgpu *vgpu);
void measure_later_all(void);

/* Measure if that is due. False: more than the quota has room for was found; it is charged all the
 * same. */
bool measure_if_due(struct vgpu *vgpu);

/* Measure now. */
bool measure_now(struct vgpu *vgpu);

/* Before the driver makes a context: charge what one takes, or, while that is not known, all that
 * is left. CUDA_SUCCESS: make it, then measure_end_context, in any case. */
CUresult measure_begin_context(struct vgpu *vgpu, uint64_t *held);

/* After it: charge what it really took. CUDA_ERROR_OUT_OF_MEMORY: that does not fit, the caller
 * destroys it and calls measure_now. */
CUresult measure_end_context(struct vgpu *vgpu, uint64_t held, bool made);

#endif
