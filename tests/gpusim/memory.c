/* memory.c - linear, pitched, managed and host memory. */
#include "sim.h"

#define GRANULE    512ull
#define MAX_SIZE   (1ull << 46)
#define PITCH_STEP 512ull

/* --- what a block takes on its device ------------------------------------------------------- */

static enum gpusim_kind kind_of(const struct block *block)
{
    switch (block->type) {
    case MEMORY_MANAGED:
        return GPUSIM_MANAGED;
    case MEMORY_ARRAY:
        return GPUSIM_ARRAY;
    case MEMORY_GLOBAL:
        return GPUSIM_MODULE;
    default:
        return GPUSIM_LINEAR;
    }
}

static uint64_t charge_of(const struct block *block)
{
    return ALIGN(block->size, block->type == MEMORY_ARRAY ? SIM_LARGE_GRANULE : GRANULE);
}

CUresult memory_alloc(CUcontext ctx, enum memory_type type, uint64_t size, struct block **out)
{
    NEED(size <= MAX_SIZE, CUDA_ERROR_OUT_OF_MEMORY);
    struct block want = {.size = size, .type = (uint8_t)type};
    bool host = type == MEMORY_HOST;
    NEED(host || take(ctx->device, kind_of(&want), charge_of(&want)), CUDA_ERROR_OUT_OF_MEMORY);
    struct block *block = heap_alloc(size);
    if (!block) {
        if (!host)
            give(ctx->device, kind_of(&want), charge_of(&want));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    block->type = (uint8_t)type;
    block->ctx = ctx;
    block->device = host ? -1 : ctx->device;
    *out = block;
    return CUDA_SUCCESS;
}

void memory_free(struct block *block)
{
    if (block->type == MEMORY_POOL) {
        pool_free(block);
        return;
    }
    if (block->type != MEMORY_HOST)
        give(block->device, kind_of(block), charge_of(block));
    heap_free(block);
}

struct block *memory_find(const void *address)
{
    struct block *block = heap_find(address);
    return block ? block : range_find(address);
}

bool memory_valid(const void *address, uint64_t size)
{
    const char *p = address, *end = p + size;
    if (end < p)
        return false;
    while (p < end) {
        struct block *block = memory_find(p);
        if (!block || !block->readable)
            return false;
        p = block->base + ALIGN(block->size, block->type == MEMORY_REGISTERED ? 1 : GRANULE);
    }
    return true;
}

/* Graph memory goes with its graph, arrays through their handles. */
static void free_if_owned(struct block *block)
{
    if (block->type == MEMORY_ARRAY)
        array_forget(block);
    else if (block->type != MEMORY_GRAPH)
        memory_free(block);
}

void memory_free_all(CUcontext ctx)
{
    heap_each(ctx, free_if_owned);
    range_each(ctx, external_unmap);
}

/* The block that begins at the address and is of one of the types (a set of bits). */
static struct block *block_at(const void *address, unsigned types)
{
    struct block *block = memory_find(address);
    return block && block->base == address && types >> block->type & 1 ? block : NULL;
}

/* --- device memory -------------------------------------------------------------------------- */

static CUresult alloc(enum memory_type type, uint64_t size, struct block **block)
{
    CUcontext ctx;
    TRY(context_current(&ctx));
    TRY(capture_forbids());
    NEED(size, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    CUresult rc = memory_alloc(ctx, type, size, block);
    sim_unlock();
    return rc;
}

CUresult sim_cuMemAlloc_v2(CUdeviceptr *pointer, size_t size)
{
    struct block *block;
    NEED(pointer, CUDA_ERROR_INVALID_VALUE);
    TRY(alloc(MEMORY_LINEAR, size, &block));
    *pointer = (CUdeviceptr)block->base;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
                                unsigned element)
{
    struct block *block;
    size_t size;
    NEED(pointer && pitch && width && height, CUDA_ERROR_INVALID_VALUE);
    NEED(element == 4 || element == 8 || element == 16, CUDA_ERROR_INVALID_VALUE);
    NEED(width <= MAX_SIZE && !__builtin_mul_overflow(ALIGN(width, PITCH_STEP), height, &size),
         CUDA_ERROR_OUT_OF_MEMORY);
    TRY(alloc(MEMORY_LINEAR, size, &block));
    *pointer = (CUdeviceptr)block->base;
    *pitch = ALIGN(width, PITCH_STEP);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAllocManaged(CUdeviceptr *pointer, size_t size, unsigned flags)
{
    struct block *block;
    NEED(pointer, CUDA_ERROR_INVALID_VALUE);
    NEED(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST, CUDA_ERROR_INVALID_VALUE);
    TRY(alloc(MEMORY_MANAGED, size, &block));
    block->flags = flags;
    *pointer = (CUdeviceptr)block->base;
    return CUDA_SUCCESS;
}

#define FREEABLE                                                                                   \
    (1u << MEMORY_LINEAR | 1u << MEMORY_MANAGED | 1u << MEMORY_POOL | 1u << MEMORY_EXTERNAL |      \
     1u << MEMORY_GRAPH | 1u << MEMORY_IPC)

/* Freeing waits for what the process has given the GPU: some of it may use the memory. */
CUresult sim_cuMemFree_v2(CUdeviceptr pointer)
{
    CUcontext ctx;
    TRY(context_current(&ctx));
    TRY(capture_forbids());
    if (!pointer)
        return CUDA_SUCCESS;
    sim_lock();
    struct block *block = block_at((void *)pointer, FREEABLE);
    if (block && ((block->type == MEMORY_IPC && !block->owner) || /* that is closed, not freed */
                  (block->type == MEMORY_GRAPH && !block->promised)))
        block = NULL;
    int device = block ? block->device : -1;
    sim_unlock();
    NEED(block, CUDA_ERROR_INVALID_VALUE);
    if (device >= 0) {
        struct device *d = &sim.devices[device];
        gpusim_wait(sim.state, sim.process, d->gpu, d->account->submitted, 0);
    }
    sim_lock();
    if (block->type == MEMORY_EXTERNAL || block->type == MEMORY_IPC) {
        external_unmap(block);
    } else if (block->type == MEMORY_GRAPH) {
        block->promised = false;
        graph_memory_free(block);
    } else {
        memory_free(block);
    }
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult sim_cuMemGetInfo_v2(size_t *free, size_t *total)
{
    CUcontext ctx;
    NEED(free && total, CUDA_ERROR_INVALID_VALUE);
    TRY(context_current(&ctx));
    gpusim_reap(sim.state);
    const struct device *d = device_of(ctx);
    *total = d->spec->memory;
    *free = d->spec->memory - sim.state->gpus[d->gpu].used;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr pointer)
{
    sim_lock();
    const struct block *block = memory_find((void *)pointer);
    CUdeviceptr start = block ? (CUdeviceptr)block->base : 0;
    size_t length = block ? block->size : 0;
    sim_unlock();
    NEED(block, CUDA_ERROR_NOT_FOUND);
    if (base)
        *base = start;
    if (size)
        *size = length;
    return CUDA_SUCCESS;
}

/* --- host memory ---------------------------------------------------------------------------- */

CUresult sim_cuMemHostAlloc(void **out, size_t size, unsigned flags)
{
    CUcontext ctx;
    struct block *block;
    NEED(out && size && !(flags & ~7u), CUDA_ERROR_INVALID_VALUE);
    TRY(context_current(&ctx));
    TRY(capture_forbids());
    sim_lock();
    CUresult rc = memory_alloc(ctx, MEMORY_HOST, size, &block);
    if (rc == CUDA_SUCCESS) {
        block->flags = flags;
        *out = block->base;
    }
    sim_unlock();
    return rc;
}

CUresult sim_cuMemAllocHost_v2(void **out, size_t size)
{
    return sim_cuMemHostAlloc(out, size, 0);
}

CUresult sim_cuMemFreeHost(void *pointer)
{
    CUcontext ctx;
    TRY(context_current(&ctx));
    TRY(capture_forbids());
    if (!pointer)
        return CUDA_SUCCESS;
    sim_lock();
    struct block *block = block_at(pointer, 1u << MEMORY_HOST);
    if (block)
        memory_free(block);
    sim_unlock();
    return block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemHostRegister_v2(void *pointer, size_t size, unsigned flags)
{
    CUcontext ctx;
    CUresult rc = CUDA_SUCCESS;
    NEED(pointer && size && !(flags & ~15u), CUDA_ERROR_INVALID_VALUE);
    TRY(context_current(&ctx));
    TRY(capture_forbids());
    sim_lock();
    struct block *block = NULL;
    if (memory_find(pointer) || memory_find((char *)pointer + size - 1))
        rc = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    else if (!(block = range_add(pointer, size, MEMORY_REGISTERED)))
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    if (block) {
        block->ctx = ctx;
        block->flags = flags;
    }
    sim_unlock();
    return rc;
}

CUresult sim_cuMemHostRegister(void *pointer, size_t size, unsigned flags)
{
    return sim_cuMemHostRegister_v2(pointer, size, flags);
}

CUresult sim_cuMemHostUnregister(void *pointer)
{
    NEED(pointer, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    struct block *block = block_at(pointer, 1u << MEMORY_REGISTERED);
    if (block)
        range_remove(block);
    sim_unlock();
    return block ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

/* Host memory that the GPU can address, and how it was made. */
static struct block *host_block(const void *pointer)
{
    struct block *block = memory_find(pointer);
    return block && (block->type == MEMORY_HOST || block->type == MEMORY_REGISTERED) ? block : NULL;
}

CUresult sim_cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *pointer, unsigned flags)
{
    NEED(out && pointer && !flags, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    bool known = host_block(pointer);
    sim_unlock();
    NEED(known, CUDA_ERROR_INVALID_VALUE);
    *out = (CUdeviceptr)pointer;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemHostGetFlags(unsigned *flags, void *pointer)
{
    NEED(flags && pointer, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    const struct block *block = host_block(pointer);
    if (block)
        *flags = block->flags;
    sim_unlock();
    return block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- managed memory: advice and moving about ------------------------------------------------ */

static CUresult managed_range(CUdeviceptr pointer, size_t size)
{
    NEED(pointer && size, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    const struct block *block = memory_find((void *)pointer);
    bool valid = block && block->type == MEMORY_MANAGED && memory_valid((void *)pointer, size);
    sim_unlock();
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemAdvise(CUdeviceptr pointer, size_t size, CUmem_advise advice, CUdevice device)
{
    (void)device;
    NEED(advice >= CU_MEM_ADVISE_SET_READ_MOSTLY && advice <= CU_MEM_ADVISE_UNSET_ACCESSED_BY,
         CUDA_ERROR_INVALID_VALUE);
    return managed_range(pointer, size);
}

CUresult sim_cuMemAdvise_v2(CUdeviceptr pointer, size_t size, CUmem_advise advice,
                            CUmemLocation location)
{
    return sim_cuMemAdvise(pointer, size, advice, location.id);
}

static CUresult prefetch(CUdeviceptr pointer, size_t size, CUstream handle)
{
    CUstream s;
    TRY(managed_range(pointer, size));
    TRY(stream_get(handle, &s));
    struct work w = {.type = WORK_NOTHING, .ctx = s->ctx};
    return work_submit(s, &w);
}

CUresult sim_cuMemPrefetchAsync(CUdeviceptr pointer, size_t size, CUdevice device, CUstream s)
{
    NEED(device == CU_DEVICE_CPU || is_device(device), CUDA_ERROR_INVALID_DEVICE);
    return prefetch(pointer, size, s);
}

CUresult sim_cuMemPrefetchAsync_v2(CUdeviceptr pointer, size_t size, CUmemLocation location,
                                   unsigned flags, CUstream s)
{
    NEED(!flags, CUDA_ERROR_INVALID_VALUE);
    NEED(location.type != CU_MEM_LOCATION_TYPE_DEVICE || is_device(location.id),
         CUDA_ERROR_INVALID_DEVICE);
    return prefetch(pointer, size, s);
}

CUresult sim_cuMemRangeGetAttribute(void *data, size_t data_size, CUmem_range_attribute attribute,
                                    CUdeviceptr pointer, size_t size)
{
    NEED(data && data_size >= 4, CUDA_ERROR_INVALID_VALUE);
    TRY(managed_range(pointer, size));
    switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
        *(int *)data = 0;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
        for (size_t i = 0; i < data_size / 4; i++)
            ((int *)data)[i] = CU_DEVICE_INVALID;
        return CUDA_SUCCESS;
    default:
        *(int *)data = CU_DEVICE_INVALID;
        return CUDA_SUCCESS;
    }
}

CUresult sim_cuMemRangeGetAttributes(void **data, size_t *sizes, CUmem_range_attribute *attributes,
                                     size_t n, CUdeviceptr pointer, size_t size)
{
    NEED(data && sizes && attributes && n, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < n; i++)
        TRY(sim_cuMemRangeGetAttribute(data[i], sizes[i], attributes[i], pointer, size));
    return CUDA_SUCCESS;
}

/* --- many ranges of managed memory at once -----------------------------------------------------
 */

static CUresult for_each(CUdeviceptr *pointers, size_t *sizes, size_t n, CUstream s)
{
    NEED(pointers && sizes && n, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < n; i++)
        TRY(prefetch(pointers[i], sizes[i], s));
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPrefetchBatchAsync(CUdeviceptr *pointers, size_t *sizes, size_t n,
                                     CUmemLocation *locations, size_t *indices, size_t n_locations,
                                     unsigned long long flags, CUstream s)
{
    NEED(locations && indices && n_locations && !flags, CUDA_ERROR_INVALID_VALUE);
    return for_each(pointers, sizes, n, s);
}

CUresult sim_cuMemDiscardBatchAsync(CUdeviceptr *pointers, size_t *sizes, size_t n,
                                    unsigned long long flags, CUstream s)
{
    NEED(!flags, CUDA_ERROR_INVALID_VALUE);
    return for_each(pointers, sizes, n, s);
}

CUresult sim_cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *pointers, size_t *sizes, size_t n,
                                               CUmemLocation *locations, size_t *indices,
                                               size_t n_locations, unsigned long long flags,
                                               CUstream s)
{
    return sim_cuMemPrefetchBatchAsync(pointers, sizes, n, locations, indices, n_locations, flags,
                                       s);
}
