/* table.c - from a pointer or handle of the driver to its size and owner. */
#include "shim/table.h"

#include <string.h>
#include <sys/mman.h>

#define FIRST_ROOM 128       /* one page of entries */
#define GRAVE      UINT8_MAX /* tag of a removed entry: a search goes on behind it */

static uint64_t hash(enum table_tag tag, uint64_t key)
{
    uint64_t h = (key ^ ((uint64_t)tag << 56)) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

static struct table_entry *make_room(size_t room)
{
    void *p = mmap(NULL, room * sizeof(struct table_entry), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* The entry with this tag and key, or NULL; *gap is where it could be put. */
static struct table_entry *seek(const struct table_shard *shard, uint64_t h, enum table_tag tag,
                                uint64_t key, struct table_entry **gap)
{
    struct table_entry *grave = NULL;

    for (size_t i = h / TABLE_SHARDS;; i++) {
        struct table_entry *entry = &shard->entries[i & (shard->room - 1)];
        if (entry->tag == TABLE_NONE) {
            *gap = grave ? grave : entry;
            return NULL;
        }
        if (entry->tag == tag && entry->key == key)
            return entry;
        if (entry->tag == GRAVE && grave == NULL)
            grave = entry;
    }
}

/* Make sure that one more entry fits. Also the place where graves are cleared away. */
static bool grow(struct table_shard *shard)
{
    if (3 * (shard->used + 1) <= 2 * shard->room)
        return true;
    size_t room = shard->room == 0                ? FIRST_ROOM
                  : 3 * shard->live > shard->room ? 2 * shard->room
                                                  : shard->room;
    struct table_shard bigger = {.entries = make_room(room), .room = room};
    if (bigger.entries == NULL)
        return false;
    for (size_t i = 0; i < shard->room; i++) {
        const struct table_entry *entry = &shard->entries[i];
        struct table_entry *gap;
        if (entry->tag == TABLE_NONE || entry->tag == GRAVE)
            continue;
        seek(&bigger, hash(entry->tag, entry->key), entry->tag, entry->key, &gap);
        *gap = *entry;
    }
    if (shard->entries)
        munmap(shard->entries, shard->room * sizeof *shard->entries);
    shard->entries = bigger.entries;
    shard->room = room;
    shard->used = shard->live;
    return true;
}

static struct table_shard *shard_of(struct table *table, uint64_t h)
{
    struct table_shard *shard = &table->shards[h % TABLE_SHARDS];
    pthread_mutex_lock(&shard->lock);
    return shard;
}

bool table_put(struct table *table, const struct table_entry *entry)
{
    uint64_t h = hash(entry->tag, entry->key);
    struct table_shard *shard = shard_of(table, h);
    bool ok = grow(shard);

    if (ok) {
        struct table_entry *gap, *old = seek(shard, h, entry->tag, entry->key, &gap);
        if (old) {
            *old = *entry;
        } else {
            shard->used += gap->tag == TABLE_NONE;
            shard->live++;
            *gap = *entry;
        }
    }
    pthread_mutex_unlock(&shard->lock);
    return ok;
}

/* No grave is needed where no search goes on. */
static void bury(struct table_shard *shard, struct table_entry *entry)
{
    size_t next = (size_t)(entry - shard->entries + 1) & (shard->room - 1);
    bool last = shard->entries[next].tag == TABLE_NONE;

    entry->tag = last ? TABLE_NONE : GRAVE;
    shard->used -= last;
    shard->live--;
}

static bool look(struct table *table, enum table_tag tag, uint64_t key, struct table_entry *entry,
                 bool remove)
{
    uint64_t h = hash(tag, key);
    struct table_shard *shard = shard_of(table, h);
    struct table_entry *gap, *found = shard->room > 0 ? seek(shard, h, tag, key, &gap) : NULL;

    if (found) {
        *entry = *found;
        if (remove) {
            bury(shard, found);
        }
    }
    pthread_mutex_unlock(&shard->lock);
    return found != NULL;
}

bool table_remove(struct table *table, enum table_tag tag, uint64_t key, struct table_entry *entry)
{
    return look(table, tag, key, entry, true);
}

bool table_find(struct table *table, enum table_tag tag, uint64_t key, struct table_entry *entry)
{
    return look(table, tag, key, entry, false);
}

static size_t count_in(const struct table_shard *shard, enum table_tag tag)
{
    size_t n = 0;
    for (size_t i = 0; i < shard->room; i++)
        n += shard->entries[i].tag == tag;
    return n;
}

/* A copy of the shard's entries with this tag; *n is their number. Release with munmap. */
static struct table_entry *copy_shard(struct table_shard *shard, enum table_tag tag, size_t *n)
{
    struct table_entry *copy = NULL;

    *n = 0;
    if (shard->live == 0) /* whoever adds one just now is as well served by the next walk */
        return NULL;
    pthread_mutex_lock(&shard->lock);
    size_t room = count_in(shard, tag);
    if (room > 0)
        copy = make_room(room);
    for (size_t i = 0; copy && i < shard->room; i++)
        if (shard->entries[i].tag == tag)
            copy[(*n)++] = shard->entries[i];
    pthread_mutex_unlock(&shard->lock);
    return copy;
}

void table_walk(struct table *table, enum table_tag tag,
                void (*each)(const struct table_entry *, void *), void *arg)
{
    for (size_t s = 0; s < TABLE_SHARDS; s++) {
        size_t n;
        struct table_entry *copy = copy_shard(&table->shards[s], tag, &n);
        for (size_t i = 0; i < n; i++)
            each(&copy[i], arg);
        if (copy)
            munmap(copy, n * sizeof *copy);
    }
}

static void count_one(const struct table_entry *entry, void *arg)
{
    (void)entry;
    ++*(size_t *)arg;
}

size_t table_count(struct table *table, enum table_tag tag)
{
    size_t n = 0;
    table_walk(table, tag, count_one, &n);
    return n;
}
