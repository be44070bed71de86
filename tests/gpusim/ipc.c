/* ipc.c - memory and events of other processes: legacy IPC handles, exported pools, external
 * memory.
 *
 * All allocations of a process are in one memory file (heap.c). A handle says which process, which
 * descriptor there and where in the file; the other process opens it through /proc, which the
 * kernel allows to the same user, and maps that part. What is mapped so is charged to the exporter
 * only.
 */
#include "sim.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEMORY_MAGIC 0x6d656d69u
#define EVENT_MAGIC  0x74766569u
#define POOL_MAGIC   0x6c6f6f70u

/* What is in a handle or beside an exported pool. */
struct token {
    uint32_t magic;
    int32_t process; /* row in the state */
    int32_t pid;
    int32_t fd; /* there */
    uint64_t start_time;
    uint64_t offset, size;
    int32_t gpu;
    uint32_t event, generation;
};

_Static_assert(sizeof(struct token) <= sizeof(CUipcMemHandle), "a token fits in a handle");
_Static_assert(sizeof(struct token) <= sizeof(CUmemPoolPtrExportData), "and in a pool pointer's");

static struct token my_token(uint32_t magic)
{
    const struct gpusim_process *me = &sim.state->processes[sim.process];
    return (struct token){.magic = magic,
                          .process = sim.process,
                          .pid = me->pid,
                          .fd = heap_descriptor(),
                          .start_time = me->start_time};
}

static bool is_alive(const struct token *t)
{
    if (t->process < 0 || t->process >= GPUSIM_MAX_PROCESSES)
        return false;
    const struct gpusim_process *p = &sim.state->processes[t->process];
    return p->state == GPUSIM_ALIVE && p->pid == t->pid && p->start_time == t->start_time;
}

static int visible_device(int gpu)
{
    for (int i = 0; i < sim.n_devices; i++)
        if (sim.devices[i].gpu == gpu)
            return i;
    return -1;
}

/* --- memory of another process -------------------------------------------------------------- */

static const uint64_t page = 4096;

/* The mapping of a token that this process has already; NULL: none. */
static struct token *known;
static struct block *found;

static void compare(struct block *block)
{
    const struct token *t = block->type == MEMORY_IPC ? block->token : NULL;
    if (t && memcmp(t, known, sizeof(*t)) == 0)
        found = block;
}

static struct block *find_open(struct token *t)
{
    known = t;
    found = NULL;
    range_each(NULL, compare);
    return found;
}

/* sim.lock held. */
static CUresult open_memory(const struct token *t, CUcontext ctx, struct block **out)
{
    char path[64];
    int device = visible_device(t->gpu);
    NEED(is_alive(t), CUDA_ERROR_INVALID_VALUE);
    NEED(device >= 0, CUDA_ERROR_INVALID_DEVICE);
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", t->pid, t->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    NEED(fd >= 0, CUDA_ERROR_INVALID_VALUE);
    uint64_t start = t->offset / page * page, delta = t->offset - start;
    char *p = mmap(NULL, t->size + delta, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
                   (off_t)start);
    close(fd);
    NEED(p != MAP_FAILED, CUDA_ERROR_MAP_FAILED);
    struct block *block = range_add(p + delta, t->size, MEMORY_IPC);
    struct token *copy = malloc(sizeof(*copy));
    if (!block || !copy) {
        munmap(p, t->size + delta);
        free(copy);
        if (block)
            range_remove(block);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *copy = *t;
    block->token = copy;
    block->ctx = ctx;
    block->device = device;
    block->references = 1;
    *out = block;
    return CUDA_SUCCESS;
}

/* Any mapping of foreign memory: take it away. */
void external_unmap(struct block *block)
{
    if (block->type == MEMORY_IPC) {
        uint64_t delta = (uintptr_t)block->base % page;
        munmap(block->base - delta, block->size + delta);
        free(block->token);
    }
    range_remove(block);
}

CUresult sim_cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer)
{
    struct token t = my_token(MEMORY_MAGIC);
    NEED(handle, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    const struct block *block = heap_find((void *)pointer);
    bool valid = block && block->type == MEMORY_LINEAR;
    if (valid) {
        t.offset = heap_offset(block->base);
        t.size = block->size;
        t.gpu = sim.devices[block->device].gpu;
    }
    sim_unlock();
    NEED(valid, CUDA_ERROR_INVALID_VALUE);
    memset(handle, 0, sizeof(*handle));
    memcpy(handle, &t, sizeof(t));
    return CUDA_SUCCESS;
}

CUresult sim_cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned flags)
{
    CUcontext ctx;
    struct token t;
    NEED(pointer && flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, CUDA_ERROR_INVALID_VALUE);
    TRY(context_current(&ctx));
    TRY(capture_forbids());
    memcpy(&t, &handle, sizeof(t));
    NEED(t.magic == MEMORY_MAGIC, CUDA_ERROR_INVALID_VALUE);
    NEED(t.process != sim.process, CUDA_ERROR_INVALID_CONTEXT); /* not for one's own */
    sim_lock();
    struct block *block = find_open(&t);
    CUresult rc = CUDA_SUCCESS;
    if (block)
        block->references++;
    else
        rc = open_memory(&t, ctx, &block);
    if (rc == CUDA_SUCCESS)
        *pointer = (CUdeviceptr)block->base;
    sim_unlock();
    return rc;
}

CUresult sim_cuIpcOpenMemHandle(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned flags)
{
    return sim_cuIpcOpenMemHandle_v2(pointer, handle, flags);
}

CUresult sim_cuIpcCloseMemHandle(CUdeviceptr pointer)
{
    TRY(capture_forbids());
    sim_lock();
    struct block *block = range_find((void *)pointer);
    bool valid =
        block && block->type == MEMORY_IPC && !block->owner && (CUdeviceptr)block->base == pointer;
    if (valid && --block->references == 0)
        external_unmap(block);
    sim_unlock();
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- events --------------------------------------------------------------------------------- */

CUresult sim_cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
    NEED(handle, CUDA_ERROR_INVALID_VALUE);
    NEED(IS(event, SIM_EVENT) && event->ipc >= 0, CUDA_ERROR_INVALID_HANDLE);
    struct token t = my_token(EVENT_MAGIC);
    t.event = (uint32_t)event->ipc;
    t.generation = sim.state->events[event->ipc].generation;
    t.gpu = sim.devices[event->ctx->device].gpu;
    memset(handle, 0, sizeof(*handle));
    memcpy(handle, &t, sizeof(t));
    return CUDA_SUCCESS;
}

CUresult sim_cuIpcOpenEventHandle(CUevent *out, CUipcEventHandle handle)
{
    CUcontext ctx;
    struct token t;
    NEED(out, CUDA_ERROR_INVALID_VALUE);
    TRY(context_current(&ctx));
    memcpy(&t, &handle, sizeof(t));
    NEED(t.magic == EVENT_MAGIC && t.event < GPUSIM_MAX_EVENTS, CUDA_ERROR_INVALID_VALUE);
    NEED(t.process != sim.process, CUDA_ERROR_INVALID_CONTEXT);
    NEED(gpusim_event_join(sim.state, sim.process, (int)t.event, t.generation),
         CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    CUresult rc = event_create(ctx, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS, out);
    if (rc == CUDA_SUCCESS)
        (*out)->ipc = (int)t.event;
    sim_unlock();
    if (rc != CUDA_SUCCESS)
        gpusim_event_leave(sim.state, sim.process, (int)t.event);
    return rc;
}

/* --- pools: a memory file with a token ------------------------------------------------------ */

CUresult sim_cuMemPoolExportToShareableHandle(void *out, CUmemoryPool pool,
                                              CUmemAllocationHandleType type,
                                              unsigned long long flags)
{
    NEED(out && is_pool(pool) && !flags && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
         CUDA_ERROR_INVALID_VALUE);
    NEED(pool_handle_types(pool) == type && pool_device(pool) >= 0, CUDA_ERROR_INVALID_VALUE);
    struct token t = my_token(POOL_MAGIC);
    t.gpu = sim.devices[pool_device(pool)].gpu;
    int fd = memfd_create("gpusim-pool", MFD_CLOEXEC);
    NEED(fd >= 0, CUDA_ERROR_OPERATING_SYSTEM);
    if (write(fd, &t, sizeof(t)) != (ssize_t)sizeof(t)) {
        close(fd);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    *(int *)out = fd;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle,
                                                CUmemAllocationHandleType type,
                                                unsigned long long flags)
{
    struct token t;
    NEED(pool && !flags && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
         CUDA_ERROR_INVALID_VALUE);
    NEED(pread((int)(intptr_t)handle, &t, sizeof(t), 0) == (ssize_t)sizeof(t) &&
             t.magic == POOL_MAGIC && is_alive(&t),
         CUDA_ERROR_INVALID_VALUE);
    int device = visible_device(t.gpu);
    NEED(device >= 0, CUDA_ERROR_INVALID_DEVICE);
    sim_lock();
    CUresult rc = pool_imported(device, pool);
    sim_unlock();
    return rc;
}

CUresult sim_cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr pointer)
{
    struct token t = my_token(MEMORY_MAGIC);
    NEED(data, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    const struct block *block = heap_find((void *)pointer);
    bool valid = block && block->type == MEMORY_POOL && (CUdeviceptr)block->base == pointer &&
                 pool_handle_types(block->owner) != CU_MEM_HANDLE_TYPE_NONE;
    if (valid) {
        t.offset = heap_offset(block->base);
        t.size = block->size;
        t.gpu = sim.devices[block->device].gpu;
    }
    sim_unlock();
    NEED(valid, CUDA_ERROR_INVALID_VALUE);
    memset(data, 0, sizeof(*data));
    memcpy(data, &t, sizeof(t));
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolImportPointer(CUdeviceptr *pointer, CUmemoryPool pool,
                                    CUmemPoolPtrExportData *data)
{
    struct token t;
    struct block *block;
    NEED(pointer && data && is_pool(pool), CUDA_ERROR_INVALID_VALUE);
    memcpy(&t, data, sizeof(t));
    NEED(t.magic == MEMORY_MAGIC, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    CUresult rc = open_memory(&t, NULL, &block);
    if (rc == CUDA_SUCCESS) {
        block->owner = pool; /* freed with cuMemFree, not closed */
        *pointer = (CUdeviceptr)block->base;
    }
    sim_unlock();
    return rc;
}

/* --- external memory: a file that somebody else made ---------------------------------------- */

struct CUextMemory_st {
    enum sim_magic magic;
    char *base;
    uint64_t size;
};

CUresult sim_cuImportExternalMemory(CUexternalMemory *out,
                                    const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
    CUcontext ctx;
    NEED(out && desc, CUDA_ERROR_INVALID_VALUE);
    NEED(desc->type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, CUDA_ERROR_NOT_SUPPORTED);
    TRY(context_current(&ctx));
    struct stat st;
    NEED(desc->size && fstat(desc->handle.fd, &st) == 0 && (uint64_t)st.st_size >= desc->size,
         CUDA_ERROR_INVALID_VALUE);
    CUexternalMemory memory = calloc(1, sizeof(*memory));
    NEED(memory, CUDA_ERROR_OUT_OF_MEMORY);
    *memory = (struct CUextMemory_st){.magic = SIM_EXTERNAL, .size = desc->size};
    memory->base = mmap(NULL, desc->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                        desc->handle.fd, 0);
    if (memory->base == MAP_FAILED) {
        free(memory);
        return CUDA_ERROR_INVALID_VALUE;
    }
    close(desc->handle.fd); /* an imported descriptor belongs to the driver */
    *out = memory;
    return CUDA_SUCCESS;
}

CUresult sim_cuExternalMemoryGetMappedBuffer(CUdeviceptr *pointer, CUexternalMemory memory,
                                             const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
    CUcontext ctx;
    NEED(pointer && desc && !desc->flags, CUDA_ERROR_INVALID_VALUE);
    NEED(IS(memory, SIM_EXTERNAL), CUDA_ERROR_INVALID_HANDLE);
    NEED(desc->size && desc->offset <= memory->size && desc->size <= memory->size - desc->offset,
         CUDA_ERROR_INVALID_VALUE);
    TRY(context_current(&ctx));
    sim_lock();
    struct block *block = range_add(memory->base + desc->offset, desc->size, MEMORY_EXTERNAL);
    if (block) {
        block->ctx = ctx;
        block->device = ctx->device;
        *pointer = (CUdeviceptr)block->base;
    }
    sim_unlock();
    return block ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult
sim_cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *out, CUexternalMemory memory,
                                            const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc)
{
    CUmipmappedArray mipmap;
    uint64_t bytes;
    NEED(out && desc, CUDA_ERROR_INVALID_VALUE);
    NEED(IS(memory, SIM_EXTERNAL), CUDA_ERROR_INVALID_HANDLE);
    TRY(mipmap_new(&desc->arrayDesc, desc->numLevels, &mipmap, &bytes));
    if (desc->offset > memory->size || bytes > memory->size - desc->offset) {
        free(mipmap);
        return CUDA_ERROR_INVALID_VALUE;
    }
    mipmap_place(mipmap, memory->base + desc->offset);
    *out = mipmap;
    return CUDA_SUCCESS;
}

CUresult sim_cuDestroyExternalMemory(CUexternalMemory memory)
{
    NEED(IS(memory, SIM_EXTERNAL), CUDA_ERROR_INVALID_HANDLE);
    sim_lock();
    memory->magic = 0;
    munmap(memory->base, memory->size);
    free(memory);
    sim_unlock();
    return CUDA_SUCCESS;
}
