/* table.h - what this process holds: from a pointer or handle of the driver to its size and owner.
 * No CUDA in here.
 *
 * Open addressing in shards, each with its own lock; a shard doubles when it is two thirds full, so
 * an operation costs the same at ten entries and at a million. Memory comes from mmap, never from
 * the program's malloc. A table that is all zeros is empty and ready.
 */
#ifndef VGPU_SHIM_TABLE_H
#define VGPU_SHIM_TABLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TABLE_SHARDS 64

/* What the key is; a device address and a handle may be the same number. */
enum table_tag {
    TABLE_NONE,
    TABLE_BLOCK,      /* device address of cuMemAlloc and its kin; owner: context */
    TABLE_ARRAY,      /* array or mipmapped array; owner: context */
    TABLE_POOL,       /* a pool; size: what is charged for it */
    TABLE_DEFERRED,   /* an event behind the asynchronous free of a block */
    TABLE_GRAPH,      /* graph that allocates; size: peak; owner: kept; count: device, did it run */
    TABLE_ALLOCATION, /* VMM memory, by a number of ours; count: handles and mappings */
    TABLE_HANDLE,     /* VMM handle; owner: allocation; count: references through this handle */
    TABLE_MAPPING,    /* device address where an allocation is mapped; size: of the mapping */
    TABLE_TILE,       /* place in a sparse array where an allocation is mapped; size: the array */
};

struct table_entry {
    uint64_t key;
    uint64_t size; /* bytes charged, unless said otherwise above */
    uint64_t owner;
    uint32_t count;
    uint8_t tag;  /* enum table_tag */
    uint8_t kind; /* enum vgpu_kind */
    uint8_t vgpu; /* index in the step */
};

struct table {
    struct table_shard {
        pthread_mutex_t lock;
        struct table_entry *entries;
        size_t room, used; /* used: entries and the graves of removed ones */
        _Atomic size_t live;
    } shards[TABLE_SHARDS];
};

/* Add an entry (its tag must not be TABLE_NONE), or replace the one with the same tag and key.
 * False: no memory. */
bool table_put(struct table *table, const struct table_entry *entry);

/* Remove and return. False: unknown. */
bool table_remove(struct table *table, enum table_tag tag, uint64_t key, struct table_entry *entry);

/* Look up a copy. False: unknown. */
bool table_find(struct table *table, enum table_tag tag, uint64_t key, struct table_entry *entry);

/* Walk a copy of each shard in turn; `each` may use the table. */
void table_walk(struct table *table, enum table_tag tag,
                void (*each)(const struct table_entry *, void *), void *arg);

size_t table_count(struct table *table, enum table_tag tag);

#endif
