/* vmm.c - virtual memory management: device memory as handles, mapped at reserved addresses.
 *
 * A handle's pages are a shared mapping of our own (its home); mapping the handle somewhere is a
 * second mapping of the same pages, which mremap makes without a descriptor. The device memory is
 * taken as long as there is a reference to the handle or a mapping.
 */
#include "sim.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct handle {
    uint32_t index, generation;
    struct handle *next; /* among unused ones */
    unsigned references, mappings;
    int device; /* -1: host */
    uint64_t size;
    char *home;
    int fd;    /* memory file, if it can be exported; else -1 */
    int share; /* index into the state's shares, once exported or imported; else -1 */
    CUmemAllocationProp prop;
};

struct reservation {
    struct reservation *next;
    char *base;
    uint64_t size;
};

static struct {
    struct handle **handles, *unused;
    size_t n;
    struct reservation *reservations;
    unsigned shared[GPUSIM_MAX_SHARES]; /* handles of this process to each share */
} vmm;

/* --- handles -------------------------------------------------------------------------------- */

/* A number: place in the table and generation, so that a stale one is recognised. */
static CUmemGenericAllocationHandle id_of(const struct handle *handle)
{
    return (uint64_t)handle->generation << 32 | (handle->index + 1);
}

static struct handle *find(CUmemGenericAllocationHandle id)
{
    size_t i = (id & UINT32_MAX) - 1;
    if (i >= vmm.n || vmm.handles[i]->generation != id >> 32 || !vmm.handles[i]->home)
        return NULL;
    return vmm.handles[i];
}

static struct handle *take_unused(void)
{
    struct handle *handle = vmm.unused;
    if (handle) {
        vmm.unused = handle->next;
        return handle;
    }
    struct handle **table = realloc(vmm.handles, (vmm.n + 1) * sizeof(*table));
    NEED(table, NULL);
    vmm.handles = table;
    handle = calloc(1, sizeof(*handle));
    NEED(handle, NULL);
    handle->index = (uint32_t)vmm.n;
    vmm.handles[vmm.n++] = handle;
    return handle;
}

static void put_unused(struct handle *handle)
{
    handle->home = NULL;
    handle->next = vmm.unused;
    vmm.unused = handle;
}

/* A handle over a memory file, or over nothing but pages (fd -1). */
static struct handle *new_handle(int fd, uint64_t size, int device, const CUmemAllocationProp *prop)
{
    int flags = MAP_SHARED | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0);
    void *home = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (home == MAP_FAILED)
        return NULL;
    struct handle *handle = take_unused();
    if (!handle) {
        munmap(home, size);
        return NULL;
    }
    *handle = (struct handle){.index = handle->index,
                              .generation = handle->generation + 1,
                              .references = 1,
                              .device = device,
                              .size = size,
                              .home = home,
                              .fd = fd,
                              .share = -1,
                              .prop = *prop};
    return handle;
}

static void release_if_unused(struct handle *handle)
{
    if (handle->references || handle->mappings)
        return;
    munmap(handle->home, handle->size);
    if (handle->fd >= 0)
        close(handle->fd);
    if (handle->share < 0) {
        if (handle->device >= 0)
            give(handle->device, GPUSIM_VMM, handle->size);
    } else if (--vmm.shared[handle->share] == 0) {
        gpusim_share_leave(sim.state, sim.process, handle->share);
    }
    put_unused(handle);
}

static CUresult location_device(const CUmemLocation *location, int *device)
{
    switch (location->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        NEED(is_device(location->id), CUDA_ERROR_INVALID_DEVICE);
        *device = location->id;
        return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        NEED(location->id >= 0 && location->id < 1024, CUDA_ERROR_INVALID_VALUE);
        *device = -1;
        return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        *device = -1;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult check_prop(const CUmemAllocationProp *prop, int *device)
{
    NEED(prop && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED, CUDA_ERROR_INVALID_VALUE);
    NEED(prop->requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE ||
             prop->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
         CUDA_ERROR_NOT_SUPPORTED);
    return location_device(&prop->location, device);
}

CUresult sim_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                           CUmemAllocationGranularity_flags option)
{
    int device;
    NEED(granularity, CUDA_ERROR_INVALID_VALUE);
    NEED(option == CU_MEM_ALLOC_GRANULARITY_MINIMUM ||
             option == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED,
         CUDA_ERROR_INVALID_VALUE);
    TRY(check_prop(prop, &device));
    *granularity = SIM_LARGE_GRANULE;
    return CUDA_SUCCESS;
}

/* sim.lock held. */
static CUresult create(uint64_t size, int device, const CUmemAllocationProp *prop,
                       CUmemGenericAllocationHandle *out)
{
    int fd = -1;
    if (prop->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        fd = memfd_create("gpusim-handle", MFD_CLOEXEC);
        NEED(fd >= 0, CUDA_ERROR_OPERATING_SYSTEM);
        if (ftruncate(fd, (off_t)size)) {
            close(fd);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    bool taken = device < 0 || take(device, GPUSIM_VMM, size);
    struct handle *handle = taken ? new_handle(fd, size, device, prop) : NULL;
    if (!handle) {
        if (taken && device >= 0)
            give(device, GPUSIM_VMM, size);
        if (fd >= 0)
            close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = id_of(handle);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemCreate(CUmemGenericAllocationHandle *out, size_t size,
                         const CUmemAllocationProp *prop, unsigned long long flags)
{
    int device;
    NEED(out && size && !flags, CUDA_ERROR_INVALID_VALUE);
    TRY(check_prop(prop, &device));
    TRY(capture_forbids());
    NEED(size % SIM_LARGE_GRANULE == 0, CUDA_ERROR_INVALID_VALUE);
    NEED(size <= 1ull << 46, CUDA_ERROR_OUT_OF_MEMORY);
    sim_lock();
    CUresult rc = create(size, device, prop, out);
    sim_unlock();
    return rc;
}

CUresult sim_cuMemRelease(CUmemGenericAllocationHandle id)
{
    TRY(capture_forbids());
    sim_lock();
    struct handle *handle = find(id);
    bool valid = handle && handle->references;
    if (valid) {
        handle->references--;
        release_if_unused(handle);
    }
    sim_unlock();
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static struct block *mapping_at(const void *address)
{
    struct block *block = range_find(address);
    return block && block->type == MEMORY_VMM ? block : NULL;
}

CUresult sim_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address)
{
    NEED(out, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    const struct block *block = mapping_at(address);
    if (block) {
        struct handle *handle = block->owner;
        handle->references++;
        *out = id_of(handle);
    }
    sim_unlock();
    return block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                    CUmemGenericAllocationHandle id)
{
    NEED(prop, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    const struct handle *handle = find(id);
    if (handle)
        *prop = handle->prop;
    sim_unlock();
    return handle ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- exporting and importing ---------------------------------------------------------------- */

static CUresult export(struct handle *handle, int *out)
{
    struct stat st;
    NEED(handle && handle->fd >= 0 && fstat(handle->fd, &st) == 0, CUDA_ERROR_INVALID_VALUE);
    if (handle->share < 0 && handle->device >= 0) {
        handle->share = gpusim_share_create(sim.state, sim.process, sim.devices[handle->device].gpu,
                                            handle->size, st.st_dev, st.st_ino);
        NEED(handle->share >= 0, CUDA_ERROR_OUT_OF_MEMORY);
        vmm.shared[handle->share]++;
    }
    *out = fcntl(handle->fd, F_DUPFD_CLOEXEC, 0);
    return *out >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult sim_cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle id,
                                          CUmemAllocationHandleType type, unsigned long long flags)
{
    NEED(out && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && !flags,
         CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    CUresult rc = export(find(id), out);
    sim_unlock();
    return rc;
}

static int visible_device(int gpu)
{
    for (int i = 0; i < sim.n_devices; i++)
        if (sim.devices[i].gpu == gpu)
            return i;
    return -1;
}

/* The memory stays charged to the exporter. sim.lock held. */
static CUresult import(int fd, CUmemGenericAllocationHandle *out)
{
    struct stat st;
    NEED(fstat(fd, &st) == 0, CUDA_ERROR_INVALID_VALUE);
    int share = gpusim_share_join(sim.state, sim.process, st.st_dev, st.st_ino);
    NEED(share >= 0, CUDA_ERROR_INVALID_VALUE);
    vmm.shared[share]++;
    int device = visible_device(sim.state->shares[share].gpu);
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    int own = device >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    struct handle *handle = own >= 0 ? new_handle(own, (uint64_t)st.st_size, device, &prop) : NULL;
    if (!handle) {
        if (own >= 0)
            close(own);
        if (--vmm.shared[share] == 0)
            gpusim_share_leave(sim.state, sim.process, share);
        return device >= 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_DEVICE;
    }
    handle->share = share;
    *out = id_of(handle);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *os_handle,
                                            CUmemAllocationHandleType type)
{
    NEED(out && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    CUresult rc = import((int)(intptr_t)os_handle, out);
    sim_unlock();
    return rc;
}

/* --- addresses ------------------------------------------------------------------------------ */

/* Address space without pages, aligned. NULL: there is none. */
static char *reserve(uint64_t size, uint64_t alignment, CUdeviceptr hint)
{
    uint64_t room = size + alignment;
    char *p =
        mmap((void *)hint, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    char *base = (char *)ALIGN((uintptr_t)p, alignment);
    if (base > p)
        munmap(p, (size_t)(base - p));
    if (base + size < p + room)
        munmap(base + size, (size_t)(p + room - base - size));
    return base;
}

CUresult sim_cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t alignment, CUdeviceptr hint,
                                 unsigned long long flags)
{
    NEED(out && size && size % SIM_LARGE_GRANULE == 0 && !flags, CUDA_ERROR_INVALID_VALUE);
    NEED(!(alignment & (alignment - 1)) && alignment <= GIB * 1024, CUDA_ERROR_INVALID_VALUE);
    NEED(size <= 1ull << 46, CUDA_ERROR_OUT_OF_MEMORY);
    struct reservation *r = malloc(sizeof(*r));
    NEED(r, CUDA_ERROR_OUT_OF_MEMORY);
    r->size = size;
    r->base = reserve(size, alignment > SIM_LARGE_GRANULE ? alignment : SIM_LARGE_GRANULE, hint);
    if (!r->base) {
        free(r);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_lock();
    r->next = vmm.reservations;
    vmm.reservations = r;
    sim_unlock();
    *out = (CUdeviceptr)r->base;
    return CUDA_SUCCESS;
}

/* Is anything mapped between the addresses? */
static bool is_mapped(const char *base, uint64_t size)
{
    const struct block *last = range_before(base + size - 1);
    return last && last->type == MEMORY_VMM && last->base + last->size > base;
}

CUresult sim_cuMemAddressFree(CUdeviceptr pointer, size_t size)
{
    CUresult rc = CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    struct reservation **link = &vmm.reservations;
    while (*link && ((CUdeviceptr)(*link)->base != pointer || (*link)->size != size))
        link = &(*link)->next;
    struct reservation *r = *link;
    if (r && !is_mapped(r->base, r->size)) {
        *link = r->next;
        munmap(r->base, r->size);
        free(r);
        rc = CUDA_SUCCESS;
    }
    sim_unlock();
    return rc;
}

static bool is_reserved(const char *base, uint64_t size)
{
    const struct reservation *r = vmm.reservations;
    while (r && (base < r->base || base + size > r->base + r->size))
        r = r->next;
    return r != NULL;
}

/* sim.lock held. */
static CUresult map(char *base, uint64_t size, struct handle *handle)
{
    NEED(handle && handle->references && size <= handle->size, CUDA_ERROR_INVALID_VALUE);
    NEED(is_reserved(base, size) && !is_mapped(base, size), CUDA_ERROR_INVALID_VALUE);
    void *p = mremap(handle->home, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, base);
    NEED(p == base && mprotect(base, size, PROT_NONE) == 0, CUDA_ERROR_OUT_OF_MEMORY);
    struct block *block = range_add(base, size, MEMORY_VMM);
    NEED(block, CUDA_ERROR_OUT_OF_MEMORY);
    block->owner = handle;
    block->device = handle->device;
    block->readable = false;
    handle->mappings++;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemMap(CUdeviceptr pointer, size_t size, size_t offset,
                      CUmemGenericAllocationHandle id, unsigned long long flags)
{
    NEED(size && !offset && !flags, CUDA_ERROR_INVALID_VALUE);
    NEED(pointer % SIM_LARGE_GRANULE == 0 && size % SIM_LARGE_GRANULE == 0,
         CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    CUresult rc = map((char *)pointer, size, find(id));
    sim_unlock();
    return rc;
}

/* Do whole mappings cover the addresses? */
static bool is_covered(char *base, uint64_t size)
{
    char *p = base;
    while (p < base + size) {
        const struct block *block = mapping_at(p);
        if (!block || block->base != p)
            return false;
        p += block->size;
    }
    return p == base + size;
}

static void unmap(struct block *block)
{
    struct handle *handle = block->owner;
    mmap(block->base, block->size, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    range_remove(block);
    handle->mappings--;
    release_if_unused(handle);
}

CUresult sim_cuMemUnmap(CUdeviceptr pointer, size_t size)
{
    char *base = (char *)pointer;
    TRY(capture_forbids());
    sim_lock();
    bool valid = size && is_covered(base, size);
    for (char *p = base; valid && p < base + size;) {
        struct block *block = mapping_at(p);
        p += block->size;
        unmap(block);
    }
    sim_unlock();
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- access --------------------------------------------------------------------------------- */

static void set_access(struct block *block, const CUmemAccessDesc *desc)
{
    unsigned bit =
        1u << (desc->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? desc->location.id : 31);
    block->readers &= ~bit;
    block->writers &= ~bit;
    if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
        block->readers |= bit;
    if (desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        block->writers |= bit;
    block->readable = block->readers;
    int prot = block->writers ? PROT_READ | PROT_WRITE : block->readers ? PROT_READ : PROT_NONE;
    mprotect(block->base, block->size, prot);
}

static CUresult check_access(const CUmemAccessDesc *desc)
{
    int device;
    TRY(location_device(&desc->location, &device));
    NEED(desc->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
             desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
             desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
         CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemSetAccess(CUdeviceptr pointer, size_t size, const CUmemAccessDesc *list, size_t n)
{
    char *base = (char *)pointer;
    NEED(size && list && n, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < n; i++)
        TRY(check_access(&list[i]));
    sim_lock();
    bool valid = is_covered(base, size);
    for (char *p = base; valid && p < base + size;) {
        struct block *block = mapping_at(p);
        for (size_t i = 0; i < n; i++)
            set_access(block, &list[i]);
        p += block->size;
    }
    sim_unlock();
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                            CUdeviceptr pointer)
{
    int device;
    NEED(flags && location, CUDA_ERROR_INVALID_VALUE);
    TRY(location_device(location, &device));
    unsigned bit = 1u << (device >= 0 ? device : 31);
    sim_lock();
    const struct block *block = mapping_at((void *)pointer);
    if (block)
        *flags = block->writers & bit   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                 : block->readers & bit ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                        : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    sim_unlock();
    return block ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUmemAllocationHandleType vmm_handle_types(const struct block *block)
{
    return ((const struct handle *)block->owner)->prop.requestedHandleTypes;
}
