/* pool.h - pools: stream-ordered allocation, explicit pools, and the graph pool.
 *
 * What counts is what a pool has reserved, not what the program has out of it. A pool grows only
 * inside an allocating call, where the growth is charged beforehand; it shrinks whenever the driver
 * likes (at a synchronisation, by a trim), so what is charged may be too much for a while, never
 * too little, and is looked at again before it matters.
 */
#ifndef VGPU_SHIM_POOL_H
#define VGPU_SHIM_POOL_H

#include "shim/process.h"

/* Something may have come back: a free out of a pool, a synchronisation. */
void pool_freed(void);

/* After a synchronisation: give back what has come back. Cheap when there is nothing to look at. */
void pool_synchronised(void);

/* Bring the charge of the vGPU's pools to what they have reserved now. */
void pool_refresh(struct vgpu *vgpu);

/* Let the vGPU's pools give back what they only keep, then refresh: before anybody is refused. */
void pool_reclaim(struct vgpu *vgpu);

/* A call that may make a pool grow. */
struct growth {
    struct vgpu *vgpu; /* NULL: nothing of ours */
    CUmemoryPool pool; /* NULL: the graph pool */
    CUdevice device;
    uint64_t held; /* charged beforehand */
};

/* Charge beforehand what the pool may grow by: at most `most`, and at the least what `size` bytes
 * need beyond what is free in it. CUDA_SUCCESS: make the call, then growth_end in any case. */
CUresult growth_begin(struct growth *growth, uint64_t size, uint64_t most);

/* False: it grew by more than there is room for; the caller undoes it and refreshes. */
bool growth_end(struct growth *growth);

#endif
