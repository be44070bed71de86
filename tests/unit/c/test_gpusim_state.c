/* Claims about the shared state of the simulated GPUs: bytes, and processes that die at bad
 * moments. */
#include "../../gpusim/state.h"
#include "claim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ull << 20)

static char dir[] = "/tmp/gpusim-test-XXXXXX";
static char path[256];
static struct gpusim_state *state;
static struct gpusim_error err;
static int self;

static void write_file(const char *name, const char *text)
{
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
}

/* A child that is registered, does something, tells so, and waits to be killed. */
static pid_t child(void (*act)(int process))
{
    int ready[2];
    char byte = 0;
    if (pipe(ready))
        abort();
    pid_t pid = fork();
    if (pid == 0) {
        struct gpusim_state *own = gpusim_open(dir, NULL);
        state = own;
        int process = gpusim_register(own, "group", NULL);
        act(process);
        if (write(ready[1], &byte, 1) != 1)
            abort();
        for (;;)
            pause();
    }
    close(ready[1]);
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static int row_of(pid_t pid)
{
    for (int i = 0; i < (int)state->process_limit; i++)
        if (state->processes[i].pid == pid && state->processes[i].state != GPUSIM_FREE)
            return i;
    return -1;
}

static void hold_600(int process)
{
    CHECK(gpusim_take(state, process, 0, GPUSIM_LINEAR, 600 * MIB));
    CHECK(gpusim_take(state, process, 1, GPUSIM_VMM, 1 * MIB));
}

static void the_last_byte_is_granted_and_none_beyond(void)
{
    CHECK(gpusim_take(state, self, 0, GPUSIM_LINEAR, 1000 * MIB));
    CHECK(gpusim_take(state, self, 0, GPUSIM_POOL, 24 * MIB));
    CHECK(!gpusim_take(state, self, 0, GPUSIM_LINEAR, 1));
    CHECK(!gpusim_take(state, self, 0, GPUSIM_LINEAR, UINT64_MAX));
    CHECK(state->gpus[0].used == 1024 * MIB && state->gpus[0].peak == 1024 * MIB);
    gpusim_give(state, self, 0, GPUSIM_LINEAR, 1000 * MIB);
    gpusim_give(state, self, 0, GPUSIM_POOL, 24 * MIB);
    const struct gpusim_account *account = &state->processes[self].gpus[0];
    CHECK(state->gpus[0].used == 0 && account->bytes == 0 && account->peak == 1024 * MIB);
    CHECK(account->allocations == 2 && account->refusals == 2);
}

static void a_killed_process_gives_back_at_once(void)
{
    pid_t pid = child(hold_600);
    CHECK(state->gpus[0].used == 600 * MIB && state->gpus[1].used == MIB);
    CHECK(!gpusim_take(state, self, 0, GPUSIM_LINEAR, 900 * MIB));
    CHECK(row_of(pid) >= 0 && gpusim_listed(state, row_of(pid)));
    int group = state->processes[row_of(pid)].group;
    CHECK(group >= 0 && state->groups[group].gpus[0].bytes == 600 * MIB);
    end(pid);
    CHECK(gpusim_take(state, self, 0, GPUSIM_LINEAR, 900 * MIB));
    CHECK(row_of(pid) == -1);
    CHECK(state->groups[group].gpus[0].bytes == 0 &&
          state->groups[group].gpus[0].peak == 600 * MIB);
    gpusim_give(state, self, 0, GPUSIM_LINEAR, 900 * MIB);
    CHECK(state->gpus[0].used == 0 && state->gpus[1].used == 0);
}

static void a_program_that_another_replaces_gives_back(void)
{
    int gone[2];
    char byte;
    if (pipe2(gone, O_CLOEXEC))
        abort();
    pid_t pid = fork();
    if (pid == 0) {
        state = gpusim_open(dir, NULL);
        hold_600(gpusim_register(state, NULL, NULL));
        execl("/bin/sleep", "sleep", "60", (char *)NULL);
        _exit(1);
    }
    close(gone[1]);
    CHECK(read(gone[0], &byte, 1) == 0); /* closed by exec */
    close(gone[0]);
    gpusim_reap(state);
    CHECK(kill(pid, 0) == 0 && row_of(pid) == -1 && state->gpus[0].used == 0);
    end(pid);
}

static void die_holding_the_memory_lock(int process)
{
    hold_600(process);
    pthread_mutex_lock(&state->gpus[0].memory_lock);
    state->processes[process].gpus[0].used[GPUSIM_LINEAR] += 7; /* half of a change */
}

static void death_inside_the_lock_spoils_no_sum(void)
{
    CHECK(gpusim_take(state, self, 0, GPUSIM_ARRAY, 10 * MIB));
    end(child(die_holding_the_memory_lock));
    CHECK(gpusim_take(state, self, 0, GPUSIM_ARRAY, 10 * MIB));
    gpusim_reap(state);
    CHECK(state->gpus[0].used == 20 * MIB);
    gpusim_give(state, self, 0, GPUSIM_ARRAY, 20 * MIB);
    CHECK(state->gpus[0].used == 0);
}

static void die_holding_the_table_lock(int process)
{
    hold_600(process);
    gpusim_lock(state);
}

static void death_inside_the_table_lock_stops_nobody(void)
{
    end(child(die_holding_the_table_lock));
    gpusim_reap(state);
    CHECK(state->gpus[0].used == 0 && state->gpus[1].used == 0);
}

static void memory_can_outlive_its_process_for_a_stated_time(void)
{
    state->release_delay_ns = 200000000;
    pid_t pid = child(hold_600);
    uint64_t before = gpusim_now();
    end(pid);
    gpusim_reap(state);
    CHECK(row_of(pid) >= 0 && gpusim_listed(state, row_of(pid)) &&
          state->gpus[0].used == 600 * MIB);
    while (row_of(pid) >= 0 && gpusim_now() < before + 10000000000ull) {
        usleep(1000);
        gpusim_reap(state);
    }
    CHECK(gpusim_now() >= before + 200000000 && state->gpus[0].used == 0);
    state->release_delay_ns = 0;
}

static void export_memory(int process)
{
    CHECK(gpusim_take(state, process, 0, GPUSIM_VMM, 64 * MIB));
    CHECK(gpusim_share_create(state, process, 0, 64 * MIB, 42, 4711) >= 0);
}

static void exported_memory_stays_until_the_last_holder_lets_go(void)
{
    pid_t pid = child(export_memory);
    int share = gpusim_share_join(state, self, 42, 4711);
    CHECK(share >= 0 && gpusim_share_join(state, self, 42, 4712) == -1);
    CHECK(state->gpus[0].used == 64 * MIB && state->processes[self].gpus[0].bytes == 0);
    end(pid);
    gpusim_reap(state);
    CHECK(state->gpus[0].used == 64 * MIB && state->gpus[0].orphaned == 64 * MIB);
    gpusim_share_leave(state, self, share);
    CHECK(state->gpus[0].used == 0 && state->gpus[0].orphaned == 0 &&
          state->shares[share].inode == 0);
}

static void an_exporter_that_lets_go_last_is_charged_to_the_end(void)
{
    CHECK(gpusim_take(state, self, 0, GPUSIM_VMM, 8 * MIB));
    int share = gpusim_share_create(state, self, 0, 8 * MIB, 1, 2);
    CHECK(gpusim_share_join(state, self + 1, 1, 2) == share);
    gpusim_share_leave(state, self + 1, share);
    CHECK(state->processes[self].gpus[0].bytes == 8 * MIB);
    gpusim_share_leave(state, self, share);
    CHECK(state->processes[self].gpus[0].bytes == 0 && state->gpus[0].used == 0);
}

static void an_event_of_a_dead_process_counts_as_done(void)
{
    int event = gpusim_event_create(state, self);
    uint32_t generation = state->events[event].generation;
    CHECK(gpusim_event_join(state, self + 1, event, generation));
    CHECK(!gpusim_event_join(state, self + 1, event, generation + 1));
    state->events[event].process = self + 1;
    gpusim_lock(state);
    gpusim_events_clear(state, self + 1);
    gpusim_unlock(state);
    CHECK(state->events[event].process == -1);
    gpusim_event_leave(state, self, event);
    CHECK(!gpusim_event_join(state, self, event, generation));
}

static void a_bad_machine_file_is_reported(void)
{
    char other[] = "/tmp/gpusim-test-XXXXXX";
    CHECK(mkdtemp(other) != NULL);
    CHECK(gpusim_open(other, &err) == NULL);
    CHECK_MSG(strstr(err.text, "machine"), "%s", err.text);
    snprintf(path, sizeof(path), "%s/state", other);
    unlink(path);
    rmdir(other);
}

/* Processes killed at random moments of taking and giving: no byte is left, no lock stuck. */
static void killing_at_random_moments_leaves_nothing_behind(void)
{
    srand(11);
    for (int round = 0; round < 60; round++) {
        pid_t pid = fork();
        if (pid == 0) {
            state = gpusim_open(dir, NULL);
            int process = gpusim_register(state, NULL, NULL);
            for (unsigned i = 0;; i++) {
                gpusim_take(state, process, (int)(i % 2), GPUSIM_LINEAR, MIB);
                gpusim_submit(state, process, (int)(i % 2), 1000);
                if (i % 4 == 3)
                    gpusim_give(state, process, (int)(i % 2), GPUSIM_LINEAR, MIB);
            }
        }
        usleep((useconds_t)(rand() % 20000));
        end(pid);
        for (int gpu = 0; gpu < 2; gpu++) {
            CHECK(gpusim_take(state, self, gpu, GPUSIM_LINEAR, 1024 * MIB));
            gpusim_give(state, self, gpu, GPUSIM_LINEAR, 1024 * MIB);
            gpusim_advance(state, gpu);
        }
    }
    gpusim_reap(state);
    CHECK(state->gpus[0].used == 0 && state->gpus[1].used == 0);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    write_file("machine", "machine=unit\ngpu=0-1 name=g memory=1GiB sms=4\n");
    umask(077);
    state = gpusim_open(dir, &err);
    CHECK_MSG(state != NULL, "%s", err.text);
    snprintf(path, sizeof(path), "%s/state", dir);
    struct stat st;
    CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0666);
    self = gpusim_register(state, NULL, &err);
    CHECK_MSG(self >= 0, "%s", err.text);

    the_last_byte_is_granted_and_none_beyond();
    a_killed_process_gives_back_at_once();
    a_program_that_another_replaces_gives_back();
    death_inside_the_lock_spoils_no_sum();
    death_inside_the_table_lock_stops_nobody();
    memory_can_outlive_its_process_for_a_stated_time();
    exported_memory_stays_until_the_last_holder_lets_go();
    an_exporter_that_lets_go_last_is_charged_to_the_end();
    an_event_of_a_dead_process_counts_as_done();
    a_bad_machine_file_is_reported();
    killing_at_random_moments_leaves_nothing_behind();

    unlink(path);
    snprintf(path, sizeof(path), "%s/state", dir);
    unlink(path);
    snprintf(path, sizeof(path), "%s/machine", dir);
    unlink(path);
    rmdir(dir);
    gpusim_close(state);
    return claim_result();
}
