/* Claims about the time of a simulated GPU, with a clock of our own. */
#include <stdint.h>

static uint64_t test_now(void);
#define gpusim_now test_now
#include "../../gpusim/timeline.c"
#undef gpusim_now

#include "claim.h"

#include <stdlib.h>

#define MS 1000000ull

static struct gpusim_state *state;
static uint64_t now;

static uint64_t test_now(void)
{
    return now;
}

static void start(int processes)
{
    free(state);
    state = calloc(1, sizeof(*state));
    now = 1000 * MS;
    state->machine.n_gpus = 1;
    state->machine.timeslice_ns = 2 * MS;
    state->process_limit = (uint32_t)processes;
    state->gpus[0].now = now;
    state->gpus[0].running = state->gpus[0].last = -1;
    pthread_mutex_init(&state->gpus[0].time_lock, NULL);
}

static uint64_t consumed(int process)
{
    gpusim_advance(state, 0);
    return state->processes[process].gpus[0].consumed;
}

static void work_takes_as_long_as_it_is_and_idle_time_is_not_busy(void)
{
    start(1);
    uint64_t first = gpusim_submit(state, 0, 0, 5 * MS);
    now += 4 * MS;
    CHECK(!gpusim_reached(state, 0, 0, first) && consumed(0) == 4 * MS);
    CHECK(gpusim_expect(state, 0, 0, first) == now + 1 * MS);
    now += 10 * MS;
    CHECK(gpusim_reached(state, 0, 0, first) && gpusim_expect(state, 0, 0, first) == 0);
    CHECK(gpusim_time_of(state, 0, 0, first) == 1005 * MS);
    uint64_t second = gpusim_submit(state, 0, 0, 1 * MS);
    now += 20 * MS;
    CHECK(gpusim_time_of(state, 0, 0, second) == 1015 * MS);
    CHECK(gpusim_time_of(state, 0, 0, first) == 1005 * MS);
    CHECK(state->gpus[0].busy == 6 * MS && state->gpus[0].now == now);
    CHECK(gpusim_time_of(state, 0, 0, second + 1) == 0);
}

static void processes_with_work_take_turns_of_a_slice(void)
{
    start(3);
    for (int i = 0; i < 3; i++)
        gpusim_submit(state, i, 0, 100 * MS);
    now += 9 * MS;
    CHECK(consumed(0) == 4 * MS && consumed(1) == 3 * MS && consumed(2) == 2 * MS);
    now += 291 * MS;
    CHECK(consumed(0) == 100 * MS && consumed(1) == 100 * MS && consumed(2) == 100 * MS);
    CHECK(state->gpus[0].busy == 300 * MS && state->gpus[0].running == -1);
}

static void short_work_waits_for_the_end_of_a_slice_at_most(void)
{
    start(2);
    gpusim_submit(state, 0, 0, 1000 * MS);
    now += 101 * MS + 300000;
    uint64_t point = gpusim_submit(state, 1, 0, 10000);
    uint64_t asked = now;
    CHECK(gpusim_expect(state, 1, 0, point) <= asked + 2 * MS + 10000);
    now += 3 * MS;
    CHECK(gpusim_time_of(state, 1, 0, point) <= asked + 2 * MS + 10000);
    CHECK(gpusim_time_of(state, 1, 0, point) > asked + 10000);
    CHECK(consumed(0) == now - 1000 * MS - 10000);
}

static void the_expected_moment_is_never_after_the_real_one(void)
{
    for (unsigned seed = 1; seed <= 200; seed++) {
        srand(seed);
        start(5);
        for (int i = 0; i < 5; i++)
            gpusim_submit(state, i, 0, (uint64_t)(rand() % 9000 + 1) * 1000);
        now += (uint64_t)(rand() % 3000) * 1000;
        uint64_t point = state->processes[2].gpus[0].submitted;
        for (int looks = 0; looks < 100; looks++) {
            uint64_t when = gpusim_expect(state, 2, 0, point);
            if (!when)
                break;
            CHECK_MSG(when > now, "seed %u: expected in the past", seed);
            CHECK_MSG(looks < 50, "seed %u: does not come nearer", seed);
            now = when;
        }
        uint64_t done = gpusim_time_of(state, 2, 0, point);
        CHECK_MSG(done && now >= done && now - done <= 1, "seed %u: woke %llu ns late", seed,
                  (unsigned long long)(now - done));
    }
}

/* The same submissions, looked at every `step` ns, or only when something is submitted (0). */
static void replay(unsigned seed, uint64_t step, uint64_t *sums, uint64_t *times)
{
    uint64_t points[60];
    int owners[60];
    start(4);
    srand(seed);
    for (int i = 0; i < 60; i++) {
        owners[i] = rand() % 4;
        points[i] = gpusim_submit(state, owners[i], 0, (uint64_t)(rand() % 4000 + 1) * 1000 + 7);
        uint64_t until = now + (uint64_t)(rand() % 5000) * 1000;
        while (step && now + step < until) {
            now += step;
            gpusim_advance(state, 0);
        }
        now = until;
    }
    now += 1000 * MS;
    for (int i = 0; i < 4; i++)
        sums[i] = consumed(i);
    for (int i = 0; i < 60; i++)
        times[i] = gpusim_time_of(state, owners[i], 0, points[i]);
}

static void how_often_somebody_looks_changes_nothing(void)
{
    for (unsigned seed = 1; seed <= 50; seed++) {
        uint64_t sums[2][4], times[2][60], total = 0;
        replay(seed, 0, sums[0], times[0]);
        replay(seed, 173001, sums[1], times[1]);
        for (int i = 0; i < 4; i++) {
            CHECK_MSG(sums[0][i] == sums[1][i], "seed %u, process %d", seed, i);
            total += sums[0][i];
        }
        for (int i = 0; i < 60; i++)
            CHECK_MSG(times[0][i] && times[0][i] == times[1][i], "seed %u, item %d", seed, i);
        CHECK(state->gpus[0].busy == total);
    }
}

static void the_gpu_is_never_idle_while_there_is_work(void)
{
    start(3);
    srand(7);
    uint64_t begin = now;
    for (int i = 0; i < 1000; i++) {
        gpusim_submit(state, rand() % 3, 0, 3 * MS);
        now += (uint64_t)(rand() % 3000) * 1000;
        gpusim_advance(state, 0);
        CHECK(state->gpus[0].busy == now - begin);
    }
}

static void what_a_process_leaves_undone_goes_with_it(void)
{
    start(2);
    gpusim_submit(state, 0, 0, 100 * MS);
    gpusim_submit(state, 1, 0, 10 * MS);
    now += 3 * MS;
    gpusim_timeline_clear(state, 0);
    CHECK(consumed(0) == 2 * MS);
    now += 9 * MS;
    CHECK(consumed(0) == 2 * MS && consumed(1) == 10 * MS);
    CHECK(state->gpus[0].busy == 12 * MS);
}

static void a_step_that_was_being_stored_is_finished_by_the_next(void)
{
    start(1);
    gpusim_submit(state, 0, 0, 10 * MS);
    now += 4 * MS;
    gpusim_advance(state, 0);
    struct gpusim_gpu *g = &state->gpus[0];
    g->step.process = 0; /* the holder of the lock died after the first of three stores */
    g->step.consumed = 5 * MS;
    g->step.busy = 5 * MS;
    g->step.now = now + 1 * MS;
    g->step.valid = 1;
    state->processes[0].gpus[0].consumed = 5 * MS;
    repair(state, 0);
    CHECK(g->busy == 5 * MS && g->now == now + 1 * MS && !g->step.valid);
    now += 6 * MS;
    CHECK(consumed(0) == 10 * MS && g->busy == 10 * MS);
}

static void utilisation_is_busy_time_by_window(void)
{
    start(1);
    now = 5000 * MS;
    gpusim_advance(state, 0);
    gpusim_submit(state, 0, 0, 130 * MS);
    now += 400 * MS;
    gpusim_advance(state, 0);
    const struct gpusim_usage *usage = &state->gpus[0].usage;
    CHECK(gpusim_usage_sum(usage, now, 4) == 130 * MS);
    CHECK(gpusim_usage_sum(usage, now, 3) == 30 * MS);
    CHECK(gpusim_usage_sum(usage, now, 2) == 0);
    CHECK(gpusim_usage_sum(usage, now + 100000 * MS, 40) == 0);
}

int main(void)
{
    work_takes_as_long_as_it_is_and_idle_time_is_not_busy();
    processes_with_work_take_turns_of_a_slice();
    short_work_waits_for_the_end_of_a_slice_at_most();
    the_expected_moment_is_never_after_the_real_one();
    how_often_somebody_looks_changes_nothing();
    the_gpu_is_never_idle_while_there_is_work();
    what_a_process_leaves_undone_goes_with_it();
    a_step_that_was_being_stored_is_finished_by_the_next();
    utilisation_is_busy_time_by_window();
    free(state);
    return claim_result();
}
