/* pointer.c - what is known about an address. */
#include "sim.h"

#include <string.h>

static bool is_host(const struct block *block)
{
    return block->type == MEMORY_HOST || block->type == MEMORY_REGISTERED || block->device < 0;
}

/* Handle types with which the memory can go to another process. */
static int handle_types(const struct block *block)
{
    if (block->type == MEMORY_VMM)
        return (int)vmm_handle_types(block);
    return block->type == MEMORY_POOL ? (int)pool_handle_types(block->owner) : 0;
}

/* Answers of four bytes. */
static bool small(const struct block *block, CUpointer_attribute attribute, unsigned *out)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *out = is_host(block) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return true;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *out = block->sync_memops;
        return true;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *out = block->type == MEMORY_MANAGED;
        return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *out = (unsigned)(block->device >= 0 ? block->device
                          : block->ctx       ? block->ctx->device
                                             : -1);
        return true;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *out = block->type == MEMORY_LINEAR;
        return true;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *out = 1;
        return true;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        *out = 0;
        return true;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *out = block->readable ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE : 0;
        return true;
    default:
        return false;
    }
}

/* Answers of eight. */
static bool large(const struct block *block, CUpointer_attribute attribute, uint64_t *out)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *out = block->type == MEMORY_VMM ? 0 : (uint64_t)block->ctx;
        return true;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        *out = block->id;
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *out = (uint64_t)block->base;
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *out = block->size;
        return true;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *out = (uint64_t)handle_types(block);
        return true;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *out = block->type == MEMORY_POOL ? (uint64_t)block->owner : 0;
        return true;
    default:
        return false;
    }
}

/* The addresses at which host and device reach it are the same here, where both can. */
static CUresult address(const struct block *block, CUpointer_attribute attribute, void *data,
                        CUdeviceptr pointer)
{
    bool both = is_host(block) || block->type == MEMORY_MANAGED;
    NEED(attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER || both, CUDA_ERROR_INVALID_VALUE);
    *(CUdeviceptr *)data = pointer;
    return CUDA_SUCCESS;
}

static CUresult get(void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    const struct block *block = memory_find((void *)pointer);
    NEED(block, CUDA_ERROR_INVALID_VALUE);
    if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER ||
        attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER)
        return address(block, attribute, data, pointer);
    return small(block, attribute, data) || large(block, attribute, data)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer)
{
    CUcontext ctx;
    NEED(data, CUDA_ERROR_INVALID_VALUE);
    TRY(context_current(&ctx));
    sim_lock();
    CUresult rc = get(data, attribute, pointer);
    sim_unlock();
    return rc;
}

/* Bytes of an answer. */
static size_t size_of(CUpointer_attribute attribute)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return 4;
    default:
        return 8;
    }
}

/* Unlike the form for one attribute, this one answers zero where it does not know. */
CUresult sim_cuPointerGetAttributes(unsigned n, CUpointer_attribute *attributes, void **data,
                                    CUdeviceptr pointer)
{
    CUcontext ctx;
    NEED(n && attributes && data, CUDA_ERROR_INVALID_VALUE);
    TRY(context_current(&ctx));
    for (unsigned i = 0; i < n; i++) {
        NEED(data[i] && attributes[i] >= CU_POINTER_ATTRIBUTE_CONTEXT &&
                 attributes[i] <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE,
             CUDA_ERROR_INVALID_VALUE);
        sim_lock();
        CUresult rc = get(data[i], attributes[i], pointer);
        sim_unlock();
        if (rc != CUDA_SUCCESS) {
            memset(data[i], 0, size_of(attributes[i]));
            if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
                *(int *)data[i] = -2; /* as the driver says for memory it does not know */
        }
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                                   CUdeviceptr pointer)
{
    NEED(value && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    struct block *block = memory_find((void *)pointer);
    bool valid = block && block->type != MEMORY_MANAGED;
    if (valid)
        block->sync_memops = *(const unsigned *)value != 0;
    sim_unlock();
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
