/* capture.c - stream capture. */
#include "sim.h"

CUresult capture_forbids(void)
{
    return CUDA_SUCCESS;
}
CUresult capture_forbids_on(CUstream stream)
{
    (void)stream;
    return CUDA_SUCCESS;
}
CUresult capture_forbids_event(CUevent event)
{
    (void)event;
    return CUDA_SUCCESS;
}
CUresult capture_forbids_sync(CUcontext ctx)
{
    (void)ctx;
    return CUDA_SUCCESS;
}
CUresult capture_forbids_legacy(CUcontext ctx)
{
    (void)ctx;
    return CUDA_SUCCESS;
}
CUresult capture_unsupported(CUstream stream)
{
    (void)stream;
    return CUDA_SUCCESS;
}
CUresult capture_add(CUstream stream, struct work *w)
{
    (void)stream;
    (void)w;
    return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult capture_record(CUstream stream, CUevent e)
{
    (void)stream;
    (void)e;
    return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult capture_wait(CUstream stream, CUevent e)
{
    (void)stream;
    (void)e;
    return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult capture_alloc(CUstream stream, CUdeviceptr *p, uint64_t n, int d)
{
    (void)stream;
    (void)p;
    (void)n;
    (void)d;
    return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult capture_free(CUstream stream, CUdeviceptr p)
{
    (void)stream;
    (void)p;
    return CUDA_ERROR_NOT_SUPPORTED;
}
void capture_invalidate(struct capture *capture)
{
    (void)capture;
}
void external_unmap(struct block *block)
{
    (void)block;
}
void array_forget(struct block *block)
{
    (void)block;
}
CUresult memory_do(CUstream s, struct work *w)
{
    if (w->type != WORK_FREE)
        return CUDA_ERROR_NOT_SUPPORTED;
    sim_lock();
    struct block *block = memory_find((void *)w->memory.pointer);
    if (block)
        memory_free(block);
    sim_unlock();
    work_occupy(s, 0);
    return CUDA_SUCCESS;
}
