/* pool.c - stream-ordered allocation. A pool takes device memory in steps of 2 MiB and keeps what
 * is freed, up to its release threshold, from one synchronisation to the next. */
#include "sim.h"

#include <stdlib.h>

struct CUmemPoolHandle_st {
    enum sim_magic magic;
    int device; /* -1: host */
    bool is_default, imported;
    CUmemoryPool next;
    CUmemPoolProps props;
    uint64_t threshold;
    uint64_t used, used_high, reserved, reserved_high;
    uint64_t reuse[4]; /* the three attributes of that name, by number */
    unsigned access;   /* bits of devices other than its own */
    uint64_t blocks;   /* live allocations */
    bool doomed;       /* destroyed by its user, but not empty */
};

static CUmemoryPool pools;
static bool dirty; /* something was freed since the last synchronisation */

/* --- size ----------------------------------------------------------------------------------- */

static bool grow(CUmemoryPool pool, uint64_t bytes)
{
    uint64_t needed = pool->used + bytes;
    if (pool->props.maxSize && needed > pool->props.maxSize)
        return false;
    if (needed > pool->reserved) {
        uint64_t step = ALIGN(needed - pool->reserved, SIM_LARGE_GRANULE);
        if (pool->device >= 0 && !take(pool->device, GPUSIM_POOL, step))
            return false;
        pool->reserved += step;
    }
    pool->used += bytes;
    if (pool->used_high < pool->used)
        pool->used_high = pool->used;
    if (pool->reserved_high < pool->reserved)
        pool->reserved_high = pool->reserved;
    return true;
}

static void trim(CUmemoryPool pool, uint64_t keep)
{
    uint64_t floor = ALIGN(pool->used, SIM_LARGE_GRANULE);
    if (keep < floor)
        keep = floor;
    keep = ALIGN(keep, SIM_LARGE_GRANULE);
    if (pool->reserved <= keep)
        return;
    if (pool->device >= 0)
        give(pool->device, GPUSIM_POOL, pool->reserved - keep);
    pool->reserved = keep;
}

void pool_sync(void)
{
    if (likely(!dirty))
        return;
    sim_lock();
    dirty = false;
    for (CUmemoryPool pool = pools; pool; pool = pool->next)
        if (pool->reserved > pool->threshold)
            trim(pool, pool->threshold);
    sim_unlock();
}

/* Give back what no allocation uses, because memory is short. */
static void trim_device(int device)
{
    for (CUmemoryPool pool = pools; pool; pool = pool->next)
        if (pool->device == device)
            trim(pool, 0);
}

/* --- pools ---------------------------------------------------------------------------------- */

static CUmemoryPool pool_new(int device, const CUmemPoolProps *props)
{
    CUmemoryPool pool = calloc(1, sizeof(*pool));
    NEED(pool, NULL);
    pool->magic = SIM_POOL;
    pool->device = device;
    pool->props = *props;
    for (int i = 0; i < 4; i++)
        pool->reuse[i] = 1;
    pool->next = pools;
    pools = pool;
    return pool;
}

CUresult pool_default(int device)
{
    struct device *d = &sim.devices[device];
    if (d->default_pool)
        return CUDA_SUCCESS;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    d->default_pool = pool_new(device, &props);
    NEED(d->default_pool, CUDA_ERROR_OUT_OF_MEMORY);
    d->default_pool->is_default = true;
    d->pool = d->default_pool;
    return CUDA_SUCCESS;
}

static void pool_remove(CUmemoryPool pool)
{
    CUmemoryPool *link = &pools;
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    trim(pool, 0);
    pool->magic = 0;
    free(pool);
}

CUresult pool_alloc(CUmemoryPool pool, CUcontext ctx, uint64_t size, struct block **out)
{
    NEED(size <= 1ull << 46, CUDA_ERROR_OUT_OF_MEMORY);
    uint64_t bytes = ALIGN(size, 512ull);
    if (!grow(pool, bytes)) {
        if (pool->device >= 0)
            trim_device(pool->device);
        NEED(grow(pool, bytes), CUDA_ERROR_OUT_OF_MEMORY);
    }
    struct block *block = heap_alloc(size);
    if (!block) {
        pool->used -= bytes;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    block->type = MEMORY_POOL;
    block->owner = pool;
    block->ctx = ctx;
    block->device = pool->device;
    pool->blocks++;
    *out = block;
    return CUDA_SUCCESS;
}

void pool_free(struct block *block)
{
    CUmemoryPool pool = block->owner;
    pool->used -= ALIGN(block->size, 512ull);
    pool->blocks--;
    heap_free(block);
    dirty = true;
    if (pool->doomed && !pool->blocks)
        pool_remove(pool);
}

CUresult sim_cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
    NEED(out && props, CUDA_ERROR_INVALID_VALUE);
    NEED(props->allocType == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
    NEED(props->handleTypes == CU_MEM_HANDLE_TYPE_NONE ||
             props->handleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
         CUDA_ERROR_NOT_SUPPORTED);
    int device = -1;
    if (props->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
        device = props->location.id;
        NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    } else {
        NEED(props->location.type == CU_MEM_LOCATION_TYPE_HOST ||
                 props->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA,
             CUDA_ERROR_INVALID_VALUE);
    }
    sim_lock();
    *out = pool_new(device, props);
    sim_unlock();
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuMemPoolDestroy(CUmemoryPool pool)
{
    NEED(IS(pool, SIM_POOL) && !pool->doomed, CUDA_ERROR_INVALID_VALUE);
    NEED(!pool->is_default, CUDA_ERROR_NOT_PERMITTED);
    sim_lock();
    for (int i = 0; i < sim.n_devices; i++)
        if (sim.devices[i].pool == pool)
            sim.devices[i].pool = sim.devices[i].default_pool;
    if (pool->blocks)
        pool->doomed = true;
    else
        pool_remove(pool);
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    NEED(IS(pool, SIM_POOL), CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    trim(pool, keep);
    sim_unlock();
    return CUDA_SUCCESS;
}

/* --- for ipc.c ------------------------------------------------------------------------------ */

bool is_pool(CUmemoryPool pool)
{
    return IS(pool, SIM_POOL);
}

int pool_device(CUmemoryPool pool)
{
    return pool->device;
}

CUmemAllocationHandleType pool_handle_types(CUmemoryPool pool)
{
    return pool->props.handleTypes;
}

/* Another process' pool: nothing is allocated from it here. */
CUresult pool_imported(int device, CUmemoryPool *out)
{
    CUmemPoolProps props = sim.devices[device].default_pool->props;
    *out = pool_new(device, &props);
    NEED(*out, CUDA_ERROR_OUT_OF_MEMORY);
    (*out)->imported = true;
    return CUDA_SUCCESS;
}

/* --- attributes ----------------------------------------------------------------------------- */

static uint64_t *counter(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        return &pool->threshold;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return &pool->reserved;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return &pool->reserved_high;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return &pool->used;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return &pool->used_high;
    default:
        return NULL;
    }
}

static bool is_reuse(CUmemPool_attribute attribute)
{
    return attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
           attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

CUresult sim_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    NEED(IS(pool, SIM_POOL) && value, CUDA_ERROR_INVALID_VALUE);
    if (is_reuse(attribute)) {
        *(int *)value = (int)pool->reuse[attribute];
        return CUDA_SUCCESS;
    }
    const uint64_t *from = counter(pool, attribute);
    NEED(from, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    *(cuuint64_t *)value = *from;
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    NEED(IS(pool, SIM_POOL) && value, CUDA_ERROR_INVALID_VALUE);
    if (is_reuse(attribute)) {
        pool->reuse[attribute] = *(int *)value != 0;
        return CUDA_SUCCESS;
    }
    uint64_t *to = counter(pool, attribute), wanted = *(cuuint64_t *)value;
    NEED(to == &pool->threshold ||
             ((to == &pool->used_high || to == &pool->reserved_high) && !wanted),
         CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    *to = to == &pool->threshold ? wanted : to == &pool->used_high ? pool->used : pool->reserved;
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *list, size_t n)
{
    NEED(IS(pool, SIM_POOL) && (list || !n), CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < n; i++) {
        int device = list[i].location.id;
        NEED(list[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_INVALID_VALUE);
        NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
        NEED(device != pool->device || list[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
             CUDA_ERROR_INVALID_VALUE);
        if (list[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
            pool->access &= ~(1u << device);
        else
            pool->access |= 1u << device;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool,
                                CUmemLocation *location)
{
    NEED(flags && IS(pool, SIM_POOL) && location, CUDA_ERROR_INVALID_VALUE);
    NEED(location->type == CU_MEM_LOCATION_TYPE_DEVICE && is_device(location->id),
         CUDA_ERROR_INVALID_VALUE);
    bool can = location->id == pool->device || pool->access >> location->id & 1;
    *flags = can ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

/* --- which pool a device uses --------------------------------------------------------------- */

CUresult sim_cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    NEED(pool, CUDA_ERROR_INVALID_VALUE);
    *pool = sim.devices[device].default_pool;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    NEED(pool, CUDA_ERROR_INVALID_VALUE);
    *pool = sim.devices[device].pool;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    NEED(IS(pool, SIM_POOL) && !pool->doomed && pool->device == device, CUDA_ERROR_INVALID_VALUE);
    sim.devices[device].pool = pool;
    return CUDA_SUCCESS;
}

static CUresult by_location(const CUmemLocation *location, CUmemAllocationType type,
                            struct device **d)
{
    NEED(location && type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
    NEED(location->type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
    NEED(is_device(location->id), CUDA_ERROR_INVALID_DEVICE);
    *d = &sim.devices[location->id];
    return CUDA_SUCCESS;
}

CUresult sim_cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location,
                                    CUmemAllocationType type)
{
    struct device *d;
    NEED(pool, CUDA_ERROR_INVALID_VALUE);
    TRY(by_location(location, type, &d));
    *pool = d->default_pool;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    struct device *d;
    NEED(pool, CUDA_ERROR_INVALID_VALUE);
    TRY(by_location(location, type, &d));
    *pool = d->pool;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    struct device *d;
    TRY(by_location(location, type, &d));
    return sim_cuDeviceSetMemPool(location->id, pool);
}

/* --- allocating and freeing in a stream ----------------------------------------------------- */

static CUresult alloc_async(CUdeviceptr *out, size_t size, CUmemoryPool pool, CUstream handle)
{
    CUstream s;
    struct block *block;
    NEED(out && size, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_get(handle, &s));
    if (s->capture)
        return capture_alloc(s, out, size, pool ? pool->device : s->ctx->device);
    sim_lock();
    CUresult rc = pool_alloc(pool ? pool : device_of(s->ctx)->pool, s->ctx, size, &block);
    if (rc == CUDA_SUCCESS)
        *out = (CUdeviceptr)block->base;
    sim_unlock();
    return rc;
}

CUresult sim_cuMemAllocAsync(CUdeviceptr *out, size_t size, CUstream s)
{
    return alloc_async(out, size, NULL, s);
}

CUresult sim_cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t size, CUmemoryPool pool, CUstream s)
{
    NEED(IS(pool, SIM_POOL) && !pool->doomed && !pool->imported, CUDA_ERROR_INVALID_VALUE);
    return alloc_async(out, size, pool, s);
}

CUresult sim_cuMemFreeAsync(CUdeviceptr pointer, CUstream handle)
{
    CUstream s;
    TRY(stream_get(handle, &s));
    if (s->capture)
        return capture_free(s, pointer);
    sim_lock();
    struct block *block = memory_find((void *)pointer);
    bool right = block && (CUdeviceptr)block->base == pointer &&
                 (block->type == MEMORY_POOL || block->type == MEMORY_LINEAR ||
                  block->type == MEMORY_MANAGED || block->type == MEMORY_GRAPH);
    if (right)
        block->promised = false;
    sim_unlock();
    NEED(right, CUDA_ERROR_INVALID_VALUE);
    struct work w = {.type = WORK_FREE, .ctx = s->ctx};
    w.memory.pointer = pointer;
    return work_submit(s, &w);
}
