/* graph_memory.c - memory that graphs allocate: addresses fixed when the node is made, device
 * memory taken from a pool of each device that grows at launch and shrinks when trimmed. */
#include "graph.h"

#include <stdlib.h>

/* block->references counts nodes and steps; the addresses go when there are none and it is not
 * allocated. */

static uint64_t size_of(const struct block *block)
{
    return ALIGN(block->size, 512ull);
}

static struct block *find(CUdeviceptr pointer)
{
    struct block *block = heap_find((void *)pointer);
    return block && block->type == MEMORY_GRAPH && (CUdeviceptr)block->base == pointer ? block
                                                                                       : NULL;
}

static void release_if_unused(struct block *block)
{
    if (!block->references && !block->live)
        heap_free(block);
}

CUresult graph_memory_reserve(CUdeviceptr *out, uint64_t size, int device)
{
    NEED(size <= 1ull << 46, CUDA_ERROR_OUT_OF_MEMORY);
    struct block *block = heap_alloc(size);
    NEED(block, CUDA_ERROR_OUT_OF_MEMORY);
    block->type = MEMORY_GRAPH;
    block->device = device;
    block->readable = true;
    block->references = 1;
    *out = (CUdeviceptr)block->base;
    return CUDA_SUCCESS;
}

void graph_memory_hold(CUdeviceptr pointer)
{
    struct block *block = find(pointer);
    if (block)
        block->references++;
}

void graph_memory_drop(CUdeviceptr pointer)
{
    struct block *block = find(pointer);
    if (!block)
        return;
    block->references--;
    release_if_unused(block);
}

/* --- taking and giving ---------------------------------------------------------------------- */

/* sim.lock held. */
static bool ensure(int device, uint64_t needed)
{
    struct device *d = &sim.devices[device];
    if (needed > d->graph_memory.reserved) {
        uint64_t step = ALIGN(needed - d->graph_memory.reserved, SIM_LARGE_GRANULE);
        if (!take(device, GPUSIM_GRAPH, step))
            return false;
        d->graph_memory.reserved += step;
    }
    if (d->graph_memory.reserved_high < d->graph_memory.reserved)
        d->graph_memory.reserved_high = d->graph_memory.reserved;
    return true;
}

static CUresult make_live(struct block *block)
{
    struct device *d = &sim.devices[block->device];
    if (block->live) /* freed by AUTO_FREE_ON_LAUNCH: taken again at once */
        return CUDA_SUCCESS;
    NEED(ensure(block->device, d->graph_memory.used + size_of(block)), CUDA_ERROR_OUT_OF_MEMORY);
    d->graph_memory.used += size_of(block);
    if (d->graph_memory.used_high < d->graph_memory.used)
        d->graph_memory.used_high = d->graph_memory.used;
    block->live = true;
    return CUDA_SUCCESS;
}

void graph_memory_free(struct block *block)
{
    if (!block->live)
        return;
    block->live = false;
    sim.devices[block->device].graph_memory.used -= size_of(block);
    release_if_unused(block);
}

CUresult memory_do(CUstream s, struct work *w)
{
    CUresult rc = CUDA_SUCCESS;
    sim_lock();
    struct block *block = memory_find((void *)w->memory.pointer);
    if (block && w->type == WORK_ALLOC)
        rc = make_live(block);
    else if (block && block->type == MEMORY_GRAPH)
        graph_memory_free(block);
    else if (block)
        memory_free(block);
    sim_unlock();
    work_occupy(s, 0);
    return rc;
}

/* --- before a launch ------------------------------------------------------------------------ */

struct need {
    int64_t now, most;
};

static CUresult add_up(CUgraphExec exec, uint64_t flags, struct need *needs)
{
    for (size_t i = 0; i < exec->n_steps; i++) {
        const struct step *step = &exec->steps[i];
        if (step->child)
            TRY(add_up(step->child, flags, needs));
        bool alloc = step->item.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
        if (!alloc && step->item.type != CU_GRAPH_NODE_TYPE_MEM_FREE)
            continue;
        const struct block *block = find(step->item.work.memory.pointer);
        if (!block)
            continue;
        NEED(!(alloc && block->promised) || flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH,
             CUDA_ERROR_INVALID_VALUE);
        struct need *need = &needs[block->device];
        need->now += alloc ? (block->live ? 0 : (int64_t)size_of(block)) : -(int64_t)size_of(block);
        if (need->most < need->now)
            need->most = need->now;
    }
    return CUDA_SUCCESS;
}

static void promise(CUgraphExec exec)
{
    for (size_t i = 0; i < exec->n_steps; i++) {
        const struct step *step = &exec->steps[i];
        if (step->child)
            promise(step->child);
        bool alloc = step->item.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
        if (alloc || step->item.type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
            struct block *block = find(step->item.work.memory.pointer);
            if (block)
                block->promised = alloc;
        }
    }
}

CUresult graph_memory_prepare(CUgraphExec exec)
{
    struct need needs[GPUSIM_MAX_GPUS] = {0};
    sim_lock();
    CUresult rc = add_up(exec, exec->flags, needs);
    for (int i = 0; rc == CUDA_SUCCESS && i < sim.n_devices; i++)
        if (needs[i].most && !ensure(i, sim.devices[i].graph_memory.used + (uint64_t)needs[i].most))
            rc = CUDA_ERROR_OUT_OF_MEMORY;
    if (rc == CUDA_SUCCESS)
        promise(exec);
    sim_unlock();
    return rc;
}

/* --- the pool of a device ------------------------------------------------------------------- */

CUresult sim_cuDeviceGraphMemTrim(CUdevice device)
{
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    struct device *d = &sim.devices[device];
    sim_lock();
    uint64_t keep = ALIGN(d->graph_memory.used, SIM_LARGE_GRANULE);
    if (d->graph_memory.reserved > keep) {
        give(device, GPUSIM_GRAPH, d->graph_memory.reserved - keep);
        d->graph_memory.reserved = keep;
    }
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                          void *value)
{
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    NEED(value, CUDA_ERROR_INVALID_VALUE);
    const struct device *d = &sim.devices[device];
    cuuint64_t *out = value;
    switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
        *out = d->graph_memory.used;
        return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        *out = d->graph_memory.used_high;
        return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        *out = d->graph_memory.reserved;
        return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        *out = d->graph_memory.reserved_high;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult sim_cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                          void *value)
{
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    NEED(value && *(cuuint64_t *)value == 0, CUDA_ERROR_INVALID_VALUE);
    struct device *d = &sim.devices[device];
    if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
        d->graph_memory.used_high = d->graph_memory.used;
    else if (attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        d->graph_memory.reserved_high = d->graph_memory.reserved;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}
