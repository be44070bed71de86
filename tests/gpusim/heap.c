/* heap.c - address space for allocations: one big window over a memory file without pages, which
 * appear when touched.
 *
 * The window consists of chunks. A chunk is cut into slots of one power of two; an allocation that
 * is bigger than half a chunk has a run of chunks of its own. So what an address belongs to is
 * found by arithmetic, and allocating and freeing cost the same at any number of live blocks. How
 * much address space is wasted does not matter: device memory is counted elsewhere. sim.lock guards
 * it all.
 */
#include "sim.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHUNK_SHIFT 25 /* 32 MiB */
#define CHUNK       (1ull << CHUNK_SHIFT)
#define MIN_SHIFT   9 /* 512 bytes, the driver's granule */
#define ORDERS      (CHUNK_SHIFT - MIN_SHIFT)
#define MAX_WINDOW  (1ull << 44)
#define MIN_WINDOW  (1ull << 30) /* all that valgrind may leave */
#define PURGE       (2 * MIB)    /* host pages of less stay after a free */

struct chunk {
    struct block *blocks;       /* NULL: unused, or not the first of a run */
    uint32_t run;               /* chunks in the run, at its first one */
    uint32_t first;             /* distance back to the first one of the run */
    uint32_t shift;             /* log2 of the slot size; of a run of several chunks: 63 */
    uint32_t used, fresh, high; /* slots: in use, ever used, most in use since the last purge */
    struct block *free;
    struct chunk *before, *after; /* among those of the same order with a free slot */
};

static struct {
    char *base;
    uint64_t size;
    int fd;
    struct chunk *chunks;
    size_t n_chunks; /* up to here some were used */
    size_t lowest;   /* no unused chunk is below */
    struct chunk *partial[ORDERS];
    uint64_t next_id;
} heap = {.fd = -1};

/* As much address space as we can get. NULL: not even the least. */
static void *map_window(int fd, uint64_t *size)
{
    for (*size = MAX_WINDOW; *size >= MIN_WINDOW; *size /= 2) {
        if (ftruncate(fd, (off_t)*size))
            continue;
        void *p = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        if (p != MAP_FAILED)
            return p;
    }
    return NULL;
}

CUresult heap_init(void)
{
    if (heap.base)
        return CUDA_SUCCESS;
    int fd = memfd_create("gpusim-memory", MFD_CLOEXEC);
    NEED(fd >= 0, CUDA_ERROR_OPERATING_SYSTEM);
    void *p = map_window(fd, &heap.size);
    heap.chunks = p ? calloc(heap.size >> CHUNK_SHIFT, sizeof(*heap.chunks)) : NULL;
    if (!heap.chunks) {
        if (p)
            munmap(p, heap.size);
        close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    madvise(p, heap.size, MADV_DONTDUMP);
    heap.base = p;
    heap.fd = fd;
    return CUDA_SUCCESS;
}

int heap_descriptor(void)
{
    return heap.fd;
}

uint64_t heap_offset(const void *address)
{
    return (uint64_t)((const char *)address - heap.base);
}

static char *chunk_base(const struct chunk *c)
{
    return heap.base + ((uint64_t)(c - heap.chunks) << CHUNK_SHIFT);
}

/* --- chunks --------------------------------------------------------------------------------- */

/* A run of n unused chunks; NULL: the address space is full. */
static struct chunk *take_chunks(size_t n)
{
    size_t limit = heap.size >> CHUNK_SHIFT, run = 0, i = heap.lowest;
    bool skipped = false;
    while (run < n && i < limit) {
        struct chunk *c = &heap.chunks[i];
        if (c->run) {
            run = 0;
            i += c->run;
            continue;
        }
        if (!skipped)
            heap.lowest = i;
        skipped = true;
        run++;
        i++;
    }
    if (run < n)
        return NULL;
    struct chunk *first = &heap.chunks[i - n];
    for (size_t k = 0; k < n; k++)
        first[k] = (struct chunk){.first = (uint32_t)k, .run = (uint32_t)(n - k)};
    if (heap.n_chunks < i)
        heap.n_chunks = i;
    return first;
}

static void purge(void *base, uint64_t size)
{
    madvise(base, size, MADV_REMOVE);
}

static void return_chunks(struct chunk *c)
{
    size_t n = c->run, i = (size_t)(c - heap.chunks);
    free(c->blocks);
    for (size_t k = 0; k < n; k++)
        c[k] = (struct chunk){0};
    if (i < heap.lowest)
        heap.lowest = i;
}

static void link_partial(struct chunk *c)
{
    struct chunk **list = &heap.partial[c->shift - MIN_SHIFT];
    c->before = NULL;
    c->after = *list;
    if (c->after)
        c->after->before = c;
    *list = c;
}

static void unlink_partial(struct chunk *c)
{
    if (c->before)
        c->before->after = c->after;
    else
        heap.partial[c->shift - MIN_SHIFT] = c->after;
    if (c->after)
        c->after->before = c->before;
}

/* --- blocks --------------------------------------------------------------------------------- */

static struct block *fill_in(struct block *block, char *base, uint64_t size)
{
    *block = (struct block){
        .base = base, .size = size, .id = ++heap.next_id, .device = -1, .readable = true};
    block->type = MEMORY_LINEAR;
    return block;
}

static struct block *alloc_run(uint64_t size)
{
    NEED(size <= heap.size, NULL);
    struct chunk *c = take_chunks((size + CHUNK - 1) >> CHUNK_SHIFT);
    NEED(c, NULL);
    c->shift = 63;
    c->used = 1;
    c->blocks = calloc(1, sizeof(*c->blocks));
    if (!c->blocks) {
        return_chunks(c);
        return NULL;
    }
    return fill_in(c->blocks, chunk_base(c), size);
}

static struct chunk *chunk_for(unsigned shift)
{
    struct chunk *c = heap.partial[shift - MIN_SHIFT];
    if (c)
        return c;
    c = take_chunks(1);
    NEED(c, NULL);
    c->shift = shift;
    c->blocks = calloc(CHUNK >> shift, sizeof(*c->blocks));
    if (!c->blocks) {
        return_chunks(c);
        return NULL;
    }
    link_partial(c);
    return c;
}

struct block *heap_alloc(uint64_t size)
{
    unsigned shift =
        size <= 1ull << MIN_SHIFT ? MIN_SHIFT : 64 - (unsigned)__builtin_clzll(size - 1);
    if (shift >= CHUNK_SHIFT)
        return alloc_run(size);
    struct chunk *c = chunk_for(shift);
    NEED(c, NULL);
    struct block *block = c->free;
    if (block)
        c->free = block->owner;
    else
        block = &c->blocks[c->fresh++];
    if (++c->used > c->high)
        c->high = c->used;
    if (!c->free && c->fresh == CHUNK >> shift)
        unlink_partial(c);
    return fill_in(block, chunk_base(c) + ((uint64_t)(block - c->blocks) << shift), size);
}

static struct chunk *chunk_of(const void *address)
{
    uint64_t offset = heap_offset(address);
    if (!heap.base || offset >= heap.size)
        return NULL;
    struct chunk *c = &heap.chunks[offset >> CHUNK_SHIFT];
    c -= c->first;
    return c->blocks ? c : NULL;
}

void heap_free(struct block *block)
{
    struct chunk *c = chunk_of(block->base);
    uint64_t slot = 1ull << (c->shift & 63);
    bool full = c->shift < CHUNK_SHIFT && !c->free && c->fresh == CHUNK >> c->shift;
    if (c->shift >= CHUNK_SHIFT || slot >= PURGE)
        purge(block->base, block->size);
    block->type = MEMORY_NONE;
    if (c->shift >= CHUNK_SHIFT) {
        return_chunks(c);
        return;
    }
    block->owner = c->free;
    c->free = block;
    c->used--;
    if (full)
        link_partial(c);
    if (c->used)
        return;
    if (slot < PURGE && c->high * slot >= PURGE) {
        purge(chunk_base(c), CHUNK);
        c->high = 0;
    }
    if (c->before || c->after) { /* keep one empty chunk of each order */
        unlink_partial(c);
        return_chunks(c);
    }
}

struct block *heap_find(const void *address)
{
    struct chunk *c = chunk_of(address);
    NEED(c, NULL);
    uint64_t offset = (uint64_t)((const char *)address - chunk_base(c));
    struct block *block = &c->blocks[c->shift < CHUNK_SHIFT ? offset >> c->shift : 0];
    return block->type && (const char *)address < block->base + block->size ? block : NULL;
}

void heap_each(CUcontext ctx, void (*visit)(struct block *block))
{
    for (size_t i = 0; i < heap.n_chunks; i++) {
        struct chunk *c = &heap.chunks[i];
        size_t n = c->shift < CHUNK_SHIFT ? c->fresh : 1;
        for (size_t k = 0; c->blocks && k < n; k++) {
            struct block *block = &c->blocks[k];
            if (block->type && (!ctx || block->ctx == ctx))
                visit(block);
        }
    }
}
