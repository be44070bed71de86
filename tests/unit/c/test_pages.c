/* The pages of a vGPU: how they are made and found again, and that no kill -9 leaves bytes charged
 * that nobody holds. */
#include "claim.h"
#include "shim/charge.h"
#include "vgpud/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static vgpu_error_t err;
static struct pages pages;
static char folder[] = "/tmp/vgpu-pages-XXXXXX";
static int dir;

static void fresh_pages(void)
{
    pages_close(&pages);
    CHECK_MSG(pages_make_control(&pages, dir, 7, &err) == 0, "%s", err.text);
    CHECK_MSG(pages_make_account(&pages, &err) == 0, "%s", err.text);
}

static void test_that_what_a_job_gets_can_neither_be_written_nor_cut(void)
{
    fresh_pages();
    CHECK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, pages.control_fd, 0) == MAP_FAILED);
    CHECK(write(pages.control_fd, "x", 1) == -1);
    CHECK(ftruncate(pages.account_fd, 0) == -1 && errno == EPERM);
    CHECK(ftruncate(pages.account_fd, 1 << 24) == -1 && errno == EPERM);
    CHECK(fcntl(pages.account_fd, F_ADD_SEALS, F_SEAL_WRITE) == -1);
    CHECK(pages.control->vgpu_id == 7 && pages.control->magic == VGPU_PAGE_MAGIC);
    CHECK(pages.account->process_count == VGPU_MAX_PROCESSES && pages.account->charged == 0);
}

static void test_that_a_control_page_is_taken_up_and_another_one_is_not(void)
{
    struct pages again = {.control_fd = -1, .account_fd = -1};
    fresh_pages();
    pages.control->quota = 12345;
    CHECK(pages_open_control(&again, dir, 7, &err) == 0 && again.control->quota == 12345);
    pages_close(&again);
    CHECK(pages_open_control(&again, dir, 8, &err) == -1);
    CHECK(strcmp(err.text, "control page 8: No such file or directory") == 0);
    pages.control->vgpu_id = 9;
    CHECK(pages_open_control(&again, dir, 7, &err) == -1);
    CHECK(strcmp(err.text, "control page 7 is not one") == 0);
    pages_close(&again);
    pages_remove_control(dir, 7);
}

/* A process that has the account open, or only mapped, until it is killed. */
static pid_t start_holder(bool open)
{
    int ready[2];
    char byte;
    if (pipe(ready))
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        if (!open)
            close(pages.account_fd);
        if (write(ready[1], "x", 1) != 1)
            _exit(1);
        pause();
        _exit(0);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void stop(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void test_that_an_account_is_found_at_whoever_has_it_open_or_mapped(void)
{
    /* What another process has mapped is root's to open. */
    for (int open = 1; open >= (geteuid() == 0 ? 0 : 1); open--) {
        struct pages again = {.control_fd = -1, .account_fd = -1};
        fresh_pages();
        pid_t holder = start_holder(open);
        uint64_t inode = pages.account_inode;
        pages.account->charged = 4096;
        munmap(pages.account, sizeof *pages.account);
        close(pages.account_fd);
        pages.account = NULL;
        pages.account_fd = -1;
        CHECK(pages_find_account(&again, holder, inode + 1) == -1);
        CHECK(pages_find_account(&again, holder, inode) == 0 && again.account->charged == 4096);
        pages_close(&again);
        stop(holder);
        CHECK(pages_find_account(&again, holder, inode) == -1);
    }
}

static void test_that_counters_outlive_their_process_and_garbage_is_clamped(void)
{
    struct account_counters counters = {0};
    fresh_pages();
    struct vgpu_process *process = &pages.account->processes[3];
    memset((void *)process, 0xff, sizeof *process);
    process->allocations = 5;
    pages.account->processes[4].charged = 512;
    CHECK(account_charged(pages.account, 3, 1000) == 1000);
    account_recount(pages.account);
    CHECK(pages.account->charged == UINT64_MAX); /* the job's own loss */
    account_clear(pages.account, 3, &counters);
    CHECK(counters.allocations == 5 && counters.launches == UINT64_MAX);
    CHECK(process->charged == 0 && process->busy == 0 && process->pid == 0);
    CHECK(process->provisional == 0 && process->kind[VGPU_KIND_VMM] == 0);
    account_recount(pages.account);
    CHECK(pages.account->charged == 512);
}

static void test_that_a_stopped_process_delays_and_a_dead_one_does_not(void)
{
    const uint16_t live[] = {1, 2};
    fresh_pages();
    pages.account->processes[5].busy = 1; /* died inside */
    CHECK(account_is_quiet(pages.account, live, 2));
    pages.account->processes[2].busy = 1;
    CHECK(!account_is_quiet(pages.account, live, 2));
    pages.account->charged = 3000;
    pages.account->processes[5].charged = 1000;
    account_subtract(pages.account, 5);
    CHECK(pages.account->charged == 2000);
    pages.account->processes[5].charged = 9000; /* more than there is: never below nothing */
    account_subtract(pages.account, 5);
    CHECK(pages.account->charged == 0);
}

/* --- kill -9 at any instruction -------------------------------------------------------------- */

#define PROCESSES 4
#define QUOTA     (64u << 20)
#define ROUNDS    150

/* Allocate and free until killed; with pauses, for other tests' sake. */
static void churn(uint32_t entry, unsigned seed)
{
    struct charge charge = {pages.control, pages.account, &pages.account->processes[entry]};
    uint64_t held[16] = {0};
    for (unsigned i = seed;; i = i * 1664525u + 1013904223u) {
        unsigned slot = i >> 28;
        if ((i >> 8) % 128 == 0)
            usleep(200);
        if (held[slot]) {
            charge_give(&charge, VGPU_KIND_LINEAR, held[slot]);
            held[slot] = 0;
        } else {
            uint64_t wanted = charge_round(1 + (i >> 4) % (8u << 20));
            held[slot] = charge_take(&charge, VGPU_KIND_LINEAR, wanted, wanted, false);
        }
    }
}

static pid_t start_churn(uint32_t entry, unsigned seed)
{
    pid_t pid = fork();
    if (pid == 0) {
        churn(entry, seed);
        _exit(0);
    }
    return pid;
}

/* What vgpud does once the driver has let go of a dead process' memory. */
static void repair(uint32_t dead, const pid_t *pids)
{
    struct account_counters counters = {0};
    uint16_t live[PROCESSES];
    size_t n = 0;
    for (uint32_t entry = 0; entry < PROCESSES; entry++)
        if (entry != dead && pids[entry])
            live[n++] = (uint16_t)entry;
    pages.control->repairing = 1;
    while (!account_is_quiet(pages.account, live, n))
        usleep(50);
    account_clear(pages.account, dead, &counters);
    account_recount(pages.account);
    uint64_t sum = 0;
    for (uint32_t entry = 0; entry < PROCESSES; entry++)
        sum += pages.account->processes[entry].charged;
    CHECK(pages.account->charged == sum && sum <= QUOTA);
    pages.control->repairing = 0;
}

static void test_that_kill_9_at_any_instruction_loses_no_byte_of_quota(void)
{
    pid_t pids[PROCESSES] = {0};
    unsigned seed = 12345;
    fresh_pages();
    pages.control->quota = QUOTA;
    for (uint32_t entry = 0; entry < PROCESSES; entry++)
        pids[entry] = start_churn(entry, seed += 7919);
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t entry = (uint32_t)round % PROCESSES;
        usleep((unsigned)rand() % 2000);
        stop(pids[entry]);
        pids[entry] = 0;
        repair(entry, pids);
        pids[entry] = start_churn(entry, seed += 7919);
    }
    for (uint32_t entry = 0; entry < PROCESSES; entry++) {
        stop(pids[entry]);
        pids[entry] = 0;
        repair(entry, pids);
    }
    CHECK(pages.account->charged == 0);
    CHECK_MSG(pages.account->peak <= QUOTA && pages.account->peak > QUOTA / 2, "%llu",
              (unsigned long long)pages.account->peak);
}

int main(void)
{
    pages = (struct pages){.control_fd = -1, .account_fd = -1};
    if (!mkdtemp(folder) || (dir = open(folder, O_RDONLY | O_DIRECTORY)) < 0)
        return 1;
    test_that_what_a_job_gets_can_neither_be_written_nor_cut();
    test_that_a_control_page_is_taken_up_and_another_one_is_not();
    test_that_an_account_is_found_at_whoever_has_it_open_or_mapped();
    test_that_counters_outlive_their_process_and_garbage_is_clamped();
    test_that_a_stopped_process_delays_and_a_dead_one_does_not();
    test_that_kill_9_at_any_instruction_loses_no_byte_of_quota();
    pages_close(&pages);
    pages_remove_control(dir, 7);
    close(dir);
    rmdir(folder);
    return claim_result();
}
