/* vmm.c - virtual memory management: an allocation stays charged until its last handle and its last
 * mapping are gone. */
#include "shim/vmm.h"
#include "shim/claim.h"

/* All of this under one lock, the driver's call included: a handle or an address that the driver
 * gives back may be handed out again at once. */

/* --- references: a handle, a mapping, a tile of a sparse array ------------------------------- */

static void reference(uint64_t allocation)
{
    struct table_entry entry;

    if (allocation == 0 || !table_find(&process.table, TABLE_ALLOCATION, allocation, &entry))
        return;
    entry.count++;
    table_put(&process.table, &entry);
}

static void release(uint64_t allocation)
{
    struct table_entry entry;

    if (allocation == 0 || !table_find(&process.table, TABLE_ALLOCATION, allocation, &entry))
        return;
    if (--entry.count > 0) {
        table_put(&process.table, &entry);
    } else if (claim_free(TABLE_ALLOCATION, allocation, &entry)) {
        claim_freed(&entry, CUDA_SUCCESS);
    }
}

/* 0: not one of ours (imported, on the host). */
static uint64_t allocation_of(CUmemGenericAllocationHandle handle)
{
    struct table_entry entry;
    return table_find(&process.table, TABLE_HANDLE, handle, &entry) ? entry.owner : 0;
}

/* --- handles --------------------------------------------------------------------------------- */

static void record(CUmemGenericAllocationHandle handle, uint64_t allocation)
{
    const struct table_entry entry = {
        .tag = TABLE_HANDLE, .key = handle, .owner = allocation, .count = 1};

    table_put(&process.table, &entry);
    reference(allocation);
}

/* One more reference through a handle that is known. */
static bool again(CUmemGenericAllocationHandle handle)
{
    struct table_entry entry;

    if (!table_find(&process.table, TABLE_HANDLE, handle, &entry))
        return false;
    entry.count++;
    table_put(&process.table, &entry);
    reference(entry.owner);
    return true;
}

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                            const CUmemAllocationProp *prop, unsigned long long flags)
{
    struct claim claim = {0};
    CUresult rc = process_enter();

    if (rc != CUDA_SUCCESS)
        return rc;
    bool on_device = prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    struct vgpu *vgpu = on_device ? process_vgpu_of_device(prop->location.id) : NULL;
    rc = claim_begin_on(&claim, vgpu, VGPU_KIND_VMM, size);
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&process.vmm_lock);
    uint64_t allocation = ++process.allocations;
    rc = claim_end(&claim, REAL(cuMemCreate)(handle, size, prop, flags), TABLE_ALLOCATION,
                   allocation);
    if (rc == CUDA_SUCCESS && vgpu)
        record(*handle, allocation);
    pthread_mutex_unlock(&process.vmm_lock);
    return rc;
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    struct table_entry entry;
    CUresult rc = process_enter();

    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&process.vmm_lock);
    rc = REAL(cuMemRelease)(handle);
    if (rc == CUDA_SUCCESS && table_remove(&process.table, TABLE_HANDLE, handle, &entry)) {
        if (--entry.count > 0)
            table_put(&process.table, &entry);
        release(entry.owner);
    }
    pthread_mutex_unlock(&process.vmm_lock);
    return rc;
}

/* Importing what this process itself has exported may give the handle that it has already. */
EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
                                               CUmemAllocationHandleType shHandleType)
{
    CUresult rc = process_enter();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&process.vmm_lock);
    rc = REAL(cuMemImportFromShareableHandle)(handle, osHandle, shHandleType);
    if (rc == CUDA_SUCCESS)
        again(*handle);
    pthread_mutex_unlock(&process.vmm_lock);
    return rc;
}

/* --- mappings -------------------------------------------------------------------------------- */

struct search {
    uint64_t address, allocation;
};

static void contains(const struct table_entry *mapping, void *arg)
{
    struct search *search = arg;
    if (search->address - mapping->key < mapping->size)
        search->allocation = mapping->owner;
}

EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    struct search search = {.address = (uint64_t)(uintptr_t)addr};
    CUresult rc = process_enter();

    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&process.vmm_lock);
    rc = REAL(cuMemRetainAllocationHandle)(handle, addr);
    if (rc == CUDA_SUCCESS && !again(*handle)) {
        table_walk(&process.table, TABLE_MAPPING, contains, &search);
        if (search.allocation != 0)
            record(*handle, search.allocation);
    }
    pthread_mutex_unlock(&process.vmm_lock);
    return rc;
}

EXPORT CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                         CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    CUresult rc = process_enter();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&process.vmm_lock);
    rc = REAL(cuMemMap)(ptr, size, offset, handle, flags);
    if (rc == CUDA_SUCCESS) {
        const struct table_entry mapping = {
            .tag = TABLE_MAPPING, .key = ptr, .size = size, .owner = allocation_of(handle)};
        table_put(&process.table, &mapping);
        reference(mapping.owner);
    }
    pthread_mutex_unlock(&process.vmm_lock);
    return rc;
}

EXPORT CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    struct table_entry mapping;
    CUresult rc = process_enter();

    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&process.vmm_lock);
    rc = REAL(cuMemUnmap)(ptr, size);
    /* The range is made of whole mappings, one after the other. */
    for (uint64_t at = ptr; rc == CUDA_SUCCESS && at - ptr < size; at += mapping.size) {
        if (!table_remove(&process.table, TABLE_MAPPING, at, &mapping) || mapping.size == 0)
            break;
        release(mapping.owner);
    }
    pthread_mutex_unlock(&process.vmm_lock);
    return rc;
}

/* --- tiles of sparse arrays ------------------------------------------------------------------ */

/* A number for the place that a map operation names. */
static uint64_t place_of(const CUarrayMapInfo *info)
{
    const uint64_t *words = (const uint64_t *)&info->subresource;
    uint64_t h = (uint64_t)(uintptr_t)info->resource.array;

    for (size_t i = 0; i < sizeof info->subresource / sizeof *words; i++)
        h = (h ^ words[i]) * 0x9e3779b97f4a7c15u;
    return (h ^ (uint64_t)info->subresourceType) * 0x9e3779b97f4a7c15u;
}

static void apply(const CUarrayMapInfo *info)
{
    struct table_entry old;
    struct table_entry tile = {.tag = TABLE_TILE, .key = place_of(info)};

    if (table_remove(&process.table, TABLE_TILE, tile.key, &old))
        release(old.owner);
    if (info->memOperationType != CU_MEM_OPERATION_TYPE_MAP)
        return;
    tile.size = (uint64_t)(uintptr_t)info->resource.array;
    tile.owner = allocation_of(info->memHandle.memHandle);
    table_put(&process.table, &tile);
    reference(tile.owner);
}

static CUresult map_array(CUarrayMapInfo *list, unsigned int count, CUstream stream,
                          CUresult (*call)(CUarrayMapInfo *, unsigned int, CUstream))
{
    CUresult rc = process_enter();
    if (rc != CUDA_SUCCESS)
        return rc;
    pthread_mutex_lock(&process.vmm_lock);
    rc = call(list, count, stream);
    for (unsigned int i = 0; rc == CUDA_SUCCESS && process.n_vgpus > 0 && i < count; i++)
        apply(&list[i]);
    process.tiles = process.tiles || (rc == CUDA_SUCCESS && count > 0);
    pthread_mutex_unlock(&process.vmm_lock);
    return rc;
}

EXPORT CUresult cuMemMapArrayAsync(CUarrayMapInfo *mapInfoList, unsigned int count,
                                   CUstream hStream)
{
    return map_array(mapInfoList, count, hStream, REAL(cuMemMapArrayAsync));
}

EXPORT CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo *mapInfoList, unsigned int count,
                                        CUstream hStream)
{
    return map_array(mapInfoList, count, hStream, REAL(cuMemMapArrayAsync_ptsz));
}

static void drop_tile(const struct table_entry *tile, void *array)
{
    struct table_entry gone;

    if (tile->size == (uint64_t)(uintptr_t)array &&
        table_remove(&process.table, TABLE_TILE, tile->key, &gone))
        release(gone.owner);
}

void vmm_array_gone(void *array)
{
    if (!process.tiles)
        return;
    pthread_mutex_lock(&process.vmm_lock);
    table_walk(&process.table, TABLE_TILE, drop_tile, array);
    pthread_mutex_unlock(&process.vmm_lock);
}
