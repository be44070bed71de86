/* launch.h - around everything that starts work on a GPU. */
#ifndef VGPU_SHIM_LAUNCH_H
#define VGPU_SHIM_LAUNCH_H

#include "shim/process.h"

/* A NULL stream of the per-thread entry points is the thread's own. */
#define PER_THREAD(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)

struct launch {
    struct lease *lease; /* NULL: nothing to do afterwards */
    CUstream stream;
};

/* May the launch go without more ado? False also: this process is not attached yet, or has several
 * vGPUs. */
static inline bool launch_open(void)
{
    struct lease_gate *gate = process.gate;
    return likely(gate != NULL) && likely(lease_open(gate));
}

/* Otherwise. CUDA_SUCCESS: launch, then launch_end. Else: what the call is to return. */
CUresult launch_begin(struct launch *launch, CUstream stream);
void launch_end(struct launch *launch);

#endif
