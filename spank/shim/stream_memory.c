/* stream_memory.c - stream-ordered allocation and explicit pools. */
#include "shim/claim.h"
#include "shim/launch.h"
#include "shim/measure.h"
#include "shim/pool.h"

static bool capturing(CUstream stream)
{
    CUstreamCaptureStatus status;
    return REAL(cuStreamIsCapturing)(stream, &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* --- where a pool lives ---------------------------------------------------------------------- */

#define ON_HOST UINT8_MAX /* vgpu of a pool that takes no device memory of ours */

/* The device whose default or current pool this is; -1: none. */
static CUdevice device_with_pool(CUmemoryPool pool)
{
    int n = 0;

    REAL(cuDeviceGetCount)(&n);
    for (CUdevice device = 0; device < n; device++) {
        CUmemoryPool its = NULL;
        if ((REAL(cuDeviceGetDefaultMemPool)(&its, device) == CUDA_SUCCESS && its == pool) ||
            (REAL(cuDeviceGetMemPool)(&its, device) == CUDA_SUCCESS && its == pool))
            return device;
    }
    return -1;
}

static struct growth growth_of_pool(CUmemoryPool pool)
{
    struct table_entry entry;
    CUcontext context;

    if (process.n_vgpus == 0)
        return (struct growth){0};
    if (table_find(&process.pools, TABLE_POOL, (uint64_t)(uintptr_t)pool, &entry))
        return (struct growth){
            .vgpu = entry.vgpu == ON_HOST ? NULL : &process.vgpus[entry.vgpu],
            .pool = pool,
            .device = (CUdevice)entry.owner,
        };
    CUdevice device = device_with_pool(pool);
    struct vgpu *vgpu = device >= 0 ? process_vgpu_of_device(device) : process_current(&context);
    return (struct growth){.vgpu = vgpu, .pool = pool, .device = device >= 0 ? device : 0};
}

/* Where cuMemAllocAsync on this stream takes its memory from: the current pool of the stream's
 * device. */
static struct growth growth_of_stream(CUstream stream)
{
    struct vgpu *vgpu = process.n_vgpus > 0 ? process_vgpu_of_stream(stream) : NULL;
    CUmemoryPool pool = NULL;
    CUdevice device = 0;

    for (; vgpu && process_vgpu_of_device(device) != vgpu; device++)
        if (device >= PROCESS_MAX_DEVICES)
            return (struct growth){0};
    if (vgpu == NULL || REAL(cuDeviceGetMemPool)(&pool, device) != CUDA_SUCCESS)
        return (struct growth){0};
    return growth_of_pool(pool);
}

EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
    CUresult rc = process_enter();
    if (rc == CUDA_SUCCESS)
        rc = REAL(cuMemPoolCreate)(pool, poolProps);
    if (rc != CUDA_SUCCESS || process.n_vgpus == 0)
        return rc;
    bool on_device = poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    struct vgpu *vgpu = on_device ? process_vgpu_of_device(poolProps->location.id) : NULL;
    const struct table_entry entry = {
        .tag = TABLE_POOL,
        .key = (uint64_t)(uintptr_t)*pool,
        .owner = on_device ? (uint64_t)poolProps->location.id : 0,
        .kind = VGPU_KIND_POOL,
        .vgpu = vgpu ? (uint8_t)(vgpu - process.vgpus) : ON_HOST,
    };
    table_put(&process.pools, &entry);
    return rc;
}

/* --- allocation ------------------------------------------------------------------------------ */

/* The pool grew by more than there is room for. */
static CUresult undo(struct growth *growth, CUdeviceptr pointer, CUstream stream)
{
    REAL(cuMemFreeAsync)(pointer, stream);
    pool_reclaim(growth->vgpu);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult end(struct growth *growth, CUresult rc, CUdeviceptr *pointer, CUstream stream)
{
    bool fits = growth_end(growth);
    return rc == CUDA_SUCCESS && !fits ? undo(growth, *pointer, stream) : rc;
}

/* An allocation that is captured becomes a node of a graph and takes nothing now. */
#define ALLOCATE(symbol, parameters, arguments, size, where, stream)                               \
    EXPORT CUresult symbol parameters                                                              \
    {                                                                                              \
        CUresult rc = process_enter();                                                             \
        if (rc != CUDA_SUCCESS)                                                                    \
            return rc;                                                                             \
        if (process.n_vgpus == 0 || capturing(stream))                                             \
            return REAL(symbol) arguments;                                                         \
        struct growth growth = where;                                                              \
        rc = growth_begin(&growth, size, size);                                                    \
        if (rc != CUDA_SUCCESS)                                                                    \
            return rc;                                                                             \
        return end(&growth, REAL(symbol) arguments, dptr, stream);                                 \
    }

ALLOCATE(cuMemAllocAsync, (CUdeviceptr * dptr, size_t bytesize, CUstream hStream),
         (dptr, bytesize, hStream), bytesize, growth_of_stream(hStream), hStream)
ALLOCATE(cuMemAllocAsync_ptsz, (CUdeviceptr * dptr, size_t bytesize, CUstream hStream),
         (dptr, bytesize, hStream), bytesize, growth_of_stream(PER_THREAD(hStream)),
         PER_THREAD(hStream))
ALLOCATE(cuMemAllocFromPoolAsync,
         (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream),
         (dptr, bytesize, pool, hStream), bytesize, growth_of_pool(pool), hStream)
ALLOCATE(cuMemAllocFromPoolAsync_ptsz,
         (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream),
         (dptr, bytesize, pool, hStream), bytesize, growth_of_pool(pool), PER_THREAD(hStream))

/* --- free ------------------------------------------------------------------------------------ */

/* A block of cuMemAlloc, freed in stream order: it stays charged until the stream has reached the
 * free. An event tells when. */
static void defer(struct table_entry *block, CUstream stream)
{
    CUevent event;

    if (REAL(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS ||
        REAL(cuEventRecord)(event, stream) != CUDA_SUCCESS) {
        REAL(cuStreamSynchronize)(stream);
        claim_freed(block, CUDA_SUCCESS);
        return;
    }
    struct vgpu *vgpu = &process.vgpus[block->vgpu];
    block->tag = TABLE_DEFERRED;
    block->key = (uint64_t)(uintptr_t)event;
    table_put(&process.pools, block);
    measure_leave(vgpu);
    vgpu->pools = true;
    vgpu->pools_stale = true;
}

static CUresult free_async(CUdeviceptr pointer, CUstream stream, CUstream flavoured,
                           CUresult (*call)(CUdeviceptr, CUstream))
{
    struct table_entry block;
    CUresult rc = process_enter();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (process.n_vgpus == 0 || capturing(flavoured) || !claim_free(TABLE_BLOCK, pointer, &block)) {
        rc = call(pointer, stream);
        pool_freed();
        return rc;
    }
    rc = call(pointer, stream);
    if (rc != CUDA_SUCCESS)
        return claim_freed(&block, rc);
    defer(&block, flavoured);
    return rc;
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
    return free_async(dptr, hStream, hStream, REAL(cuMemFreeAsync));
}

EXPORT CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream)
{
    return free_async(dptr, hStream, PER_THREAD(hStream), REAL(cuMemFreeAsync_ptsz));
}

/* --- whatever lets a pool shrink ------------------------------------------------------------- */

#define SHRINKS(symbol, parameters, arguments)                                                     \
    EXPORT CUresult symbol parameters                                                              \
    {                                                                                              \
        CUresult rc = process_enter();                                                             \
        if (rc != CUDA_SUCCESS)                                                                    \
            return rc;                                                                             \
        rc = REAL(symbol) arguments;                                                               \
        pool_synchronised();                                                                       \
        return rc;                                                                                 \
    }

SHRINKS(cuStreamSynchronize, (CUstream hStream), (hStream))
SHRINKS(cuStreamSynchronize_ptsz, (CUstream hStream), (hStream))
SHRINKS(cuEventSynchronize, (CUevent hEvent), (hEvent))
SHRINKS(cuCtxSynchronize, (void), ())
SHRINKS(cuCtxSynchronize_v2, (CUcontext ctx), (ctx))

EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
    CUresult rc = process_enter();
    if (rc == CUDA_SUCCESS)
        rc = REAL(cuMemPoolTrimTo)(pool, minBytesToKeep);
    pool_freed();
    pool_synchronised();
    return rc;
}

/* The memory of a pool that still has blocks out stays until they are freed, but the pool cannot be
 * asked any more: what is left is found by measuring. */
EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    struct table_entry entry;
    CUresult rc = process_enter();

    if (rc != CUDA_SUCCESS)
        return rc;
    bool known = table_remove(&process.pools, TABLE_POOL, (uint64_t)(uintptr_t)pool, &entry);
    rc = REAL(cuMemPoolDestroy)(pool);
    if (known && rc != CUDA_SUCCESS)
        table_put(&process.pools, &entry);
    if (known && rc == CUDA_SUCCESS && entry.vgpu != ON_HOST) {
        charge_give(&process.vgpus[entry.vgpu].charge, VGPU_KIND_POOL, entry.size);
        measure_later(&process.vgpus[entry.vgpu]);
    }
    return rc;
}
