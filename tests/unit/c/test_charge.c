/* Charging the quota, by threads and by processes that are killed at any moment. A fake vgpud
 * repairs as proto/pages.h says. */
#include "claim.h"
#include "shim/charge.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB     (1ull << 20)
#define QUOTA   (64 * MIB)
#define WORKERS 6
#define ROUNDS  40
#define LIFE_US 4000
#define THREADS 4

struct pages {
    struct vgpu_control control;
    struct vgpu_account account;
    /* What the driver would know: bytes that a worker really holds, per worker. */
    _Atomic uint64_t held[WORKERS];
    _Atomic uint32_t stop;
};

static struct pages *pages_make(void)
{
    struct pages *pages =
        mmap(NULL, sizeof *pages, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pages->control.quota = QUOTA;
    return pages;
}

static struct charge charge_of(struct pages *pages, int i)
{
    return (struct charge){&pages->control, &pages->account, &pages->account.processes[i]};
}

static uint64_t sum_charged(const struct pages *pages)
{
    uint64_t sum = 0;
    for (int i = 0; i < VGPU_MAX_PROCESSES; i++)
        sum += pages->account.processes[i].charged;
    return sum;
}

/* --- one process --------------------------------------------------------------------------------
 */

static void test_that_sizes_are_rounded_up_to_the_granule_and_never_wrap(void)
{
    CHECK(charge_round(0) == 0);
    CHECK(charge_round(1) == VGPU_CHARGE_GRANULE);
    CHECK(charge_round(VGPU_CHARGE_GRANULE) == VGPU_CHARGE_GRANULE);
    CHECK(charge_round(UINT64_MAX) == UINT64_MAX);
    CHECK(charge_round(UINT64_MAX - 511) == UINT64_MAX - 511);
    CHECK(charge_round(UINT64_MAX - 510) == UINT64_MAX);
}

static void test_that_the_last_byte_of_the_quota_is_given_and_not_one_more(void)
{
    struct pages *pages = pages_make();
    struct charge charge = charge_of(pages, 0);

    CHECK(charge_take(&charge, VGPU_KIND_LINEAR, QUOTA - 512, QUOTA - 512, false) == QUOTA - 512);
    CHECK(charge_take(&charge, VGPU_KIND_LINEAR, 1024, 1024, false) == 0);
    CHECK(charge_take(&charge, VGPU_KIND_VMM, 512, 512, false) == 512);
    CHECK(charge_take(&charge, VGPU_KIND_LINEAR, 1, 1, false) == 0);
    CHECK(charge_left(&charge) == 0);
    CHECK(charge.process->kind[VGPU_KIND_LINEAR] == QUOTA - 512);
    CHECK(charge.process->kind[VGPU_KIND_VMM] == 512);
    charge_give(&charge, VGPU_KIND_LINEAR, QUOTA - 512);
    charge_give(&charge, VGPU_KIND_VMM, 512);
    CHECK(pages->account.charged == 0 && charge.process->charged == 0);
    CHECK(pages->account.peak == QUOTA);
    munmap(pages, sizeof *pages);
}

static void test_that_no_size_wraps_around_the_quota(void)
{
    struct pages *pages = pages_make();
    struct charge charge = charge_of(pages, 0);

    charge_take(&charge, VGPU_KIND_LINEAR, MIB, MIB, false);
    CHECK(charge_take(&charge, VGPU_KIND_LINEAR, UINT64_MAX, UINT64_MAX, false) == 0);
    CHECK(charge_take(&charge, VGPU_KIND_LINEAR, UINT64_MAX - MIB, UINT64_MAX - MIB, false) == 0);
    CHECK(pages->account.charged == MIB);
    munmap(pages, sizeof *pages);
}

static void test_that_an_ended_vgpu_gives_nothing(void)
{
    struct pages *pages = pages_make();
    struct charge charge = charge_of(pages, 0);
    uint64_t since = 0;

    pages->control.flags = VGPU_CONTROL_ENDED;
    CHECK(charge_take(&charge, VGPU_KIND_LINEAR, 512, 512, false) == 0);
    CHECK(!charge_await(&charge, 512, &since));
    munmap(pages, sizeof *pages);
}

static void test_that_a_quota_made_smaller_refuses_until_it_fits_again(void)
{
    struct pages *pages = pages_make();
    struct charge charge = charge_of(pages, 0);

    charge_take(&charge, VGPU_KIND_LINEAR, QUOTA, QUOTA, false);
    pages->control.quota = QUOTA / 2;
    CHECK(charge_left(&charge) == 0);
    charge_give(&charge, VGPU_KIND_LINEAR, QUOTA / 2);
    CHECK(charge_take(&charge, VGPU_KIND_LINEAR, 512, 512, false) == 0);
    charge_give(&charge, VGPU_KIND_LINEAR, 512);
    CHECK(charge_take(&charge, VGPU_KIND_LINEAR, 512, 512, false) == 512);
    munmap(pages, sizeof *pages);
}

static void test_that_what_is_forced_counts_and_blocks(void)
{
    struct pages *pages = pages_make();
    struct charge charge = charge_of(pages, 0);

    charge_force(&charge, VGPU_KIND_CONTEXT, QUOTA + MIB);
    CHECK(pages->account.charged == QUOTA + MIB && charge_left(&charge) == 0);
    CHECK(charge_take(&charge, VGPU_KIND_LINEAR, 512, 512, false) == 0);
    charge_give(&charge, VGPU_KIND_CONTEXT, QUOTA + MIB);
    CHECK(charge_left(&charge) == QUOTA);
    munmap(pages, sizeof *pages);
}

static void test_that_provisional_bytes_are_as_many_as_are_left(void)
{
    struct pages *pages = pages_make();
    struct charge charge = charge_of(pages, 0);

    charge_take(&charge, VGPU_KIND_LINEAR, MIB, MIB, false);
    uint64_t held = charge_take(&charge, VGPU_KIND_CONTEXT, 1, UINT64_MAX, true);
    CHECK(held == QUOTA - MIB);
    CHECK(charge.process->provisional == held);
    charge_settle(&charge, VGPU_KIND_CONTEXT, held, 3 * MIB);
    CHECK(charge.process->provisional == 0);
    CHECK(pages->account.charged == 4 * MIB && charge.process->kind[VGPU_KIND_CONTEXT] == 3 * MIB);
    munmap(pages, sizeof *pages);
}

/* --- threads ------------------------------------------------------------------------------------
 */

static void *settle_soon(void *arg)
{
    struct charge *charge = arg;
    nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
    charge_settle(charge, VGPU_KIND_CONTEXT, charge->process->provisional, MIB);
    return NULL;
}

static void test_that_nobody_is_refused_for_provisional_bytes(void)
{
    struct pages *pages = pages_make();
    struct charge maker = charge_of(pages, 0), other = charge_of(pages, 1);
    pthread_t thread;
    uint64_t since = 0, got;

    charge_take(&maker, VGPU_KIND_CONTEXT, 1, UINT64_MAX, true);
    pthread_create(&thread, NULL, settle_soon, &maker);
    while ((got = charge_take(&other, VGPU_KIND_LINEAR, MIB, MIB, false)) == 0 &&
           charge_await(&other, MIB, &since))
        ;
    CHECK(got == MIB);
    pthread_join(thread, NULL);
    CHECK(pages->account.charged == 2 * MIB);
    munmap(pages, sizeof *pages);
}

static void test_that_a_refusal_is_at_once_when_nobody_gives_anything_back(void)
{
    struct pages *pages = pages_make();
    struct charge full = charge_of(pages, 0), other = charge_of(pages, 1);
    uint64_t since = 0;

    full.process->pid = other.process->pid = (uint32_t)getpid();
    charge_take(&full, VGPU_KIND_LINEAR, QUOTA, QUOTA, false);
    CHECK(!charge_await(&other, MIB, &since));
    munmap(pages, sizeof *pages);
}

static void *repair_later(void *arg)
{
    struct pages *pages = arg;
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    pages->control.repairing = 0;
    return NULL;
}

static void test_that_charges_wait_while_vgpud_repairs(void)
{
    struct pages *pages = pages_make();
    struct charge charge = charge_of(pages, 0);
    pthread_t thread;

    pages->control.repairing = 1;
    pthread_create(&thread, NULL, repair_later, pages);
    CHECK(charge_take(&charge, VGPU_KIND_LINEAR, MIB, MIB, false) == MIB);
    CHECK(pages->control.repairing == 0);
    CHECK(charge.process->busy == 0);
    pthread_join(thread, NULL);
    munmap(pages, sizeof *pages);
}

static void *take_and_give(void *arg)
{
    struct charge *charge = arg;
    for (int i = 0; i < 5000; i++) {
        uint64_t bytes = 512u * (uint64_t)(1 + i % 64);
        if (charge_take(charge, VGPU_KIND_LINEAR, bytes, bytes, false))
            charge_give(charge, VGPU_KIND_LINEAR, bytes);
    }
    return NULL;
}

static void test_that_threads_lose_nothing(void)
{
    struct pages *pages = pages_make();
    struct charge charge = charge_of(pages, 0);
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, take_and_give, &charge);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(pages->account.charged == 0 && charge.process->charged == 0);
    CHECK(charge.process->kind[VGPU_KIND_LINEAR] == 0 && charge.process->busy == 0);
    munmap(pages, sizeof *pages);
}

/* --- processes that are killed
 * --------------------------------------------------------------------- */

/* Allocates and frees until it is killed; pages->held says what the driver has given it. */
static void work(struct pages *pages, int self, unsigned seed)
{
    struct charge charge = charge_of(pages, self);
    uint64_t blocks[32] = {0};

    charge.process->pid = (uint32_t)getpid();
    for (;;) {
        size_t i = (seed = seed * 1103515245u + 12345u) >> 16 & 31;
        if (blocks[i]) {
            pages->held[self] -= blocks[i];
            charge_give(&charge, VGPU_KIND_LINEAR, blocks[i]);
            blocks[i] = 0;
            continue;
        }
        uint64_t bytes = charge_round(((seed >> 3) % 4096 + 1) * 1024);
        if (charge_take(&charge, VGPU_KIND_LINEAR, bytes, bytes, false)) {
            pages->held[self] += bytes;
            blocks[i] = bytes;
        }
    }
}

static pid_t start(struct pages *pages, int self, unsigned seed)
{
    pid_t pid = fork();
    if (pid == 0) {
        work(pages, self, seed);
        _exit(0);
    }
    return pid;
}

/* As vgpud does it: `dead` is no more, the others live. */
static void repair(struct pages *pages, int dead)
{
    pages->control.repairing = 1;
    for (int i = 0; i < WORKERS; i++)
        while (i != dead && pages->account.processes[i].busy)
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    memset(&pages->account.processes[dead], 0, sizeof pages->account.processes[dead]);
    pages->account.charged = sum_charged(pages);
    pages->control.repairing = 0;
}

static uint64_t sum_held(const struct pages *pages)
{
    uint64_t sum = 0;
    for (int i = 0; i < WORKERS; i++)
        sum += pages->held[i];
    return sum;
}

static void kill_one(struct pages *pages, pid_t *pids, int i)
{
    kill(pids[i], SIGKILL);
    waitpid(pids[i], NULL, 0);
    pages->held[i] = 0; /* the driver has let go; only now vgpud repairs */
    repair(pages, i);
}

static void test_that_kill_9_at_any_moment_neither_loses_nor_sticks_a_byte(void)
{
    struct pages *pages = pages_make();
    pid_t pids[WORKERS];
    uint64_t most = 0;

    for (int i = 0; i < WORKERS; i++)
        pids[i] = start(pages, i, (unsigned)i * 7919u + 1);
    for (int round = 0; round < ROUNDS; round++) {
        int i = round % WORKERS;
        nanosleep(&(struct timespec){.tv_nsec = 1000L * (rand() % LIFE_US)}, NULL);
        uint64_t held = sum_held(pages);
        most = held > most ? held : most;
        kill_one(pages, pids, i);
        pids[i] = start(pages, i, (unsigned)rand());
    }
    CHECK(pages->account.peak <= QUOTA);
    CHECK_MSG(most <= QUOTA, "%llu", (unsigned long long)most);
    for (int i = 0; i < WORKERS; i++)
        kill_one(pages, pids, i);
    CHECK(pages->account.charged == 0 && sum_charged(pages) == 0);
    munmap(pages, sizeof *pages);
}

static void test_that_bytes_of_the_dead_are_waited_for(void)
{
    struct pages *pages = pages_make();
    struct charge other = charge_of(pages, 1);
    uint64_t since = 0, got = 0;
    pid_t pid = fork();

    if (pid == 0) {
        struct charge charge = charge_of(pages, 0);
        charge.process->pid = (uint32_t)getpid();
        charge_take(&charge, VGPU_KIND_LINEAR, QUOTA, QUOTA, false);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    other.process->pid = (uint32_t)getpid();
    for (int tries = 0; got == 0 && charge_await(&other, MIB, &since); tries++) {
        if (tries == 20)
            repair(pages, 0);
        got = charge_take(&other, VGPU_KIND_LINEAR, MIB, MIB, false);
    }
    CHECK(got == MIB);
    munmap(pages, sizeof *pages);
}

int main(int argc, char **argv)
{
    bool threads_only = strstr(argv[0], "-threads") != NULL;

    (void)argc;
    test_that_sizes_are_rounded_up_to_the_granule_and_never_wrap();
    test_that_the_last_byte_of_the_quota_is_given_and_not_one_more();
    test_that_no_size_wraps_around_the_quota();
    test_that_an_ended_vgpu_gives_nothing();
    test_that_a_quota_made_smaller_refuses_until_it_fits_again();
    test_that_what_is_forced_counts_and_blocks();
    test_that_provisional_bytes_are_as_many_as_are_left();
    test_that_nobody_is_refused_for_provisional_bytes();
    test_that_a_refusal_is_at_once_when_nobody_gives_anything_back();
    test_that_charges_wait_while_vgpud_repairs();
    test_that_threads_lose_nothing();
    if (!threads_only) { /* the thread sanitizer sees one process only */
        test_that_kill_9_at_any_moment_neither_loses_nor_sticks_a_byte();
        test_that_bytes_of_the_dead_are_waited_for();
    }
    return claim_result();
}
