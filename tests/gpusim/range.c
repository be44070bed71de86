/* range.c - address ranges that are not of the heap: registered host memory, mappings of VMM
 * handles, memory of other processes. Few and long-lived: a sorted array. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

static struct {
    struct block **list; /* by base */
    size_t n, room;
    uint64_t next_id;
} ranges = {.next_id = 1ull << 48};

/* Number of ranges that begin at or before the address. */
static size_t count_up_to(const void *address)
{
    size_t low = 0, high = ranges.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ranges.list[middle]->base <= (const char *)address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct block *range_add(void *base, uint64_t size, enum memory_type type)
{
    if (ranges.n == ranges.room) {
        size_t room = ranges.room ? ranges.room * 2 : 64;
        struct block **list = realloc(ranges.list, room * sizeof(*list));
        NEED(list, NULL);
        ranges.list = list;
        ranges.room = room;
    }
    struct block *block = calloc(1, sizeof(*block));
    NEED(block, NULL);
    *block = (struct block){
        .base = base, .size = size, .id = ++ranges.next_id, .device = -1, .readable = true};
    block->type = (uint8_t)type;
    size_t at = count_up_to(base);
    memmove(&ranges.list[at + 1], &ranges.list[at], (ranges.n - at) * sizeof(*ranges.list));
    ranges.list[at] = block;
    ranges.n++;
    return block;
}

void range_remove(struct block *block)
{
    size_t at = count_up_to(block->base) - 1;
    ranges.n--;
    memmove(&ranges.list[at], &ranges.list[at + 1], (ranges.n - at) * sizeof(*ranges.list));
    free(block);
}

struct block *range_before(const void *address)
{
    size_t n = count_up_to(address);
    return n ? ranges.list[n - 1] : NULL;
}

struct block *range_find(const void *address)
{
    struct block *block = range_before(address);
    return block && (const char *)address < block->base + block->size ? block : NULL;
}

void range_each(CUcontext ctx, void (*visit)(struct block *block))
{
    for (size_t i = ranges.n; i-- > 0;)
        if (i < ranges.n && (!ctx || ranges.list[i]->ctx == ctx))
            visit(ranges.list[i]);
}
