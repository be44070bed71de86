/* From pointers to sizes: against a plain array, with collisions, removals and threads. */
#include "claim.h"
#include "shim/table.h"

#include <stdlib.h>
#include <string.h>

#define KEYS    4096
#define STEPS   200000
#define THREADS 4

static struct table table;

static struct table_entry block(uint64_t key, uint64_t size)
{
    return (struct table_entry){.tag = TABLE_BLOCK, .key = key, .size = size};
}

static void test_that_an_empty_table_knows_nothing(void)
{
    struct table_entry entry;
    CHECK(!table_find(&table, TABLE_BLOCK, 0, &entry));
    CHECK(!table_remove(&table, TABLE_BLOCK, 42, &entry));
    CHECK(table_count(&table, TABLE_BLOCK) == 0);
}

static void test_that_the_same_number_is_two_things_under_two_tags(void)
{
    struct table_entry entry, pointer = block(7, 100),
                              handle = {.tag = TABLE_HANDLE, .key = 7, .size = 200};

    table_put(&table, &pointer);
    table_put(&table, &handle);
    CHECK(table_find(&table, TABLE_BLOCK, 7, &entry) && entry.size == 100);
    CHECK(table_remove(&table, TABLE_HANDLE, 7, &entry) && entry.size == 200);
    CHECK(table_remove(&table, TABLE_BLOCK, 7, &entry) && entry.size == 100);
    CHECK(!table_remove(&table, TABLE_BLOCK, 7, &entry));
}

static void test_that_a_second_entry_replaces_the_first(void)
{
    struct table_entry entry, first = block(9, 1), second = block(9, 2);

    table_put(&table, &first);
    table_put(&table, &second);
    CHECK(table_count(&table, TABLE_BLOCK) == 1);
    CHECK(table_remove(&table, TABLE_BLOCK, 9, &entry) && entry.size == 2);
}

/* Addresses as an allocator gives them out: multiples of 512, used again and again. */
static void test_that_any_order_of_puts_and_removals_is_remembered_exactly(void)
{
    static uint64_t model[KEYS];
    int wrong = 0;

    srand(1);
    for (int step = 0; step < STEPS; step++) {
        size_t i = (size_t)rand() % KEYS;
        uint64_t key = 0x7f0000000000u + 512 * i;
        struct table_entry entry;
        if (model[i]) {
            wrong += !table_remove(&table, TABLE_BLOCK, key, &entry) || entry.size != model[i];
            model[i] = 0;
        } else {
            wrong += table_find(&table, TABLE_BLOCK, key, &entry);
            entry = block(key, model[i] = (uint64_t)step + 1);
            wrong += !table_put(&table, &entry);
        }
    }
    CHECK_MSG(wrong == 0, "%d", wrong);
    size_t live = 0;
    for (size_t i = 0; i < KEYS; i++) {
        struct table_entry entry;
        live += model[i] != 0;
        if (model[i])
            wrong += !table_remove(&table, TABLE_BLOCK, 0x7f0000000000u + 512 * i, &entry);
    }
    CHECK(live > 0 && wrong == 0 && table_count(&table, TABLE_BLOCK) == 0);
}

static void test_that_a_table_that_breathes_does_not_grow(void)
{
    size_t room = 0;
    for (int round = 0; round < 20; round++) {
        struct table_entry entry;
        for (uint64_t key = 0; key < 1000; key++) {
            entry = block(key * 4096 + (uint64_t)round, 1);
            table_put(&table, &entry);
        }
        for (uint64_t key = 0; key < 1000; key++)
            table_remove(&table, TABLE_BLOCK, key * 4096 + (uint64_t)round, &entry);
        size_t now = 0;
        for (size_t s = 0; s < TABLE_SHARDS; s++)
            now += table.shards[s].room;
        if (round == 1)
            room = now;
    }
    size_t now = 0;
    for (size_t s = 0; s < TABLE_SHARDS; s++)
        now += table.shards[s].room;
    CHECK_MSG(now <= 2 * room, "%zu, then %zu", room, now);
}

static void remove_it(const struct table_entry *entry, void *arg)
{
    struct table_entry gone;
    *(size_t *)arg += table_remove(&table, (enum table_tag)entry->tag, entry->key, &gone);
}

static void test_that_a_walk_may_change_the_table(void)
{
    size_t removed = 0;
    for (uint64_t key = 1; key <= 500; key++) {
        struct table_entry entry = block(key, key);
        table_put(&table, &entry);
    }
    table_walk(&table, TABLE_BLOCK, remove_it, &removed);
    CHECK(removed == 500 && table_count(&table, TABLE_BLOCK) == 0);
}

static void *churn(void *arg)
{
    uint64_t base = (uint64_t)(uintptr_t)arg << 32;
    uintptr_t wrong = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        struct table_entry entry = block(base + (i % 200) * 512, i + 1);
        if (i >= 100) {
            struct table_entry old;
            wrong += !table_remove(&table, TABLE_BLOCK, base + ((i - 100) % 200) * 512, &old) ||
                     old.size != i - 99;
        }
        wrong += !table_put(&table, &entry);
    }
    return (void *)wrong;
}

static void test_that_threads_do_not_disturb_each_other(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, churn, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        CHECK(wrong == NULL);
    }
    CHECK(table_count(&table, TABLE_BLOCK) == THREADS * 100);
}

int main(void)
{
    test_that_an_empty_table_knows_nothing();
    test_that_the_same_number_is_two_things_under_two_tags();
    test_that_a_second_entry_replaces_the_first();
    test_that_any_order_of_puts_and_removals_is_remembered_exactly();
    test_that_a_table_that_breathes_does_not_grow();
    test_that_a_walk_may_change_the_table();
    test_that_threads_do_not_disturb_each_other();
    return claim_result();
}
