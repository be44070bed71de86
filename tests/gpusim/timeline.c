/* timeline.c - GPU time by arithmetic.
 *
 * The work of a process on a GPU is one queue, known by two numbers: how many ns it has submitted
 * and how many it has consumed. An item is done when `consumed` reaches what `submitted` was when
 * the item went in; so items need no records, and nothing has to wake up on time for the account to
 * be exact. Processes with work share the GPU round robin, a time slice each. Whoever looks first
 * lets time pass up to now (advance); only waiting is real.
 *
 * A run is the stretch from when the GPU turns to a process until it turns away or the work ends.
 * The last runs of each process are remembered, so that the moment at which some work was done can
 * be told afterwards.
 */
#include "state.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

/* A waiter among contenders looks again so often: one of them may die and leave the GPU earlier
 * than foreseen. */
#define LOOK_NS 5000000ull

/* --- utilisation ---------------------------------------------------------------------------- */

static void usage_add(struct gpusim_usage *usage, uint64_t from, uint64_t ns)
{
    while (ns) {
        uint64_t window = from / GPUSIM_WINDOW_NS, newest = usage->window;
        uint64_t part = (window + 1) * GPUSIM_WINDOW_NS - from;
        if (part > ns)
            part = ns;
        if (window - newest >= GPUSIM_WINDOWS)
            newest = window - GPUSIM_WINDOWS;
        while (newest < window)
            usage->ns[++newest % GPUSIM_WINDOWS] = 0;
        usage->window = window;
        usage->ns[window % GPUSIM_WINDOWS] += (uint32_t)part;
        from += part;
        ns -= part;
    }
}

uint64_t gpusim_usage_sum(const struct gpusim_usage *usage, uint64_t now, unsigned windows)
{
    uint64_t current = now / GPUSIM_WINDOW_NS, newest = usage->window, sum = 0;
    for (uint64_t w = current - windows; w < current; w++)
        if (w <= newest && newest - w < GPUSIM_WINDOWS)
            sum += usage->ns[w % GPUSIM_WINDOWS];
    return sum;
}

/* --- who runs ------------------------------------------------------------------------------- */

static uint64_t left(const struct gpusim_state *state, int process, int gpu)
{
    const struct gpusim_account *account = &state->processes[process].gpus[gpu];
    return account->submitted - account->consumed;
}

static void set_active(struct gpusim_gpu *g, int process, bool active)
{
    uint64_t bit = 1ull << (process % 64);
    if (active)
        g->active[process / 64] |= bit;
    else
        g->active[process / 64] &= ~bit;
}

/* The next process with work after `process`, in a circle; -1: there is none. */
static int next_active(const struct gpusim_gpu *g, int process)
{
    enum { WORDS = GPUSIM_MAX_PROCESSES / 64 };
    int start = process + 1;
    for (int k = 0; k <= WORDS; k++) {
        int word = (start / 64 + k) % WORDS;
        uint64_t bits = g->active[word];
        if (k == 0 && start < GPUSIM_MAX_PROCESSES)
            bits &= ~0ull << (start % 64);
        if (bits)
            return word * 64 + __builtin_ctzll(bits);
    }
    return -1;
}

static void turn_to(struct gpusim_state *state, int gpu, int process)
{
    struct gpusim_gpu *g = &state->gpus[gpu];
    uint64_t slice = state->machine.timeslice_ns;
    if (process == g->running) { /* alone: slices go on as if somebody had looked at each end */
        g->slice_end += ((g->now - g->slice_end) / slice + 1) * slice;
        return;
    }
    g->slice_end = g->now + slice;
    g->running = process;
    if (process < 0)
        return;
    struct gpusim_account *account = &state->processes[process].gpus[gpu];
    account->log[account->log_count % GPUSIM_LOG] = (struct gpusim_run){g->now, account->consumed};
    account->log_count++;
    if (process != g->last)
        g->switches++;
    g->last = process;
}

/* Store what a run changes such that it is all or nothing, whenever we die. */
static void store_step(struct gpusim_state *state, struct gpusim_gpu *g, int gpu)
{
    struct gpusim_account *account = &state->processes[g->step.process].gpus[gpu];
    account->consumed = g->step.consumed;
    g->busy = g->step.busy;
    g->now = g->step.now;
    atomic_signal_fence(memory_order_seq_cst);
    g->step.valid = 0;
}

/* The running process has the GPU for ns. */
static void run(struct gpusim_state *state, int gpu, uint64_t ns)
{
    struct gpusim_gpu *g = &state->gpus[gpu];
    struct gpusim_account *account = &state->processes[g->running].gpus[gpu];
    usage_add(&g->usage, g->now, ns);
    usage_add(&account->usage, g->now, ns);
    g->step.process = (uint32_t)g->running;
    g->step.consumed = account->consumed + ns;
    g->step.busy = g->busy + ns;
    g->step.now = g->now + ns;
    atomic_signal_fence(memory_order_seq_cst);
    g->step.valid = 1;
    atomic_signal_fence(memory_order_seq_cst);
    store_step(state, g, gpu);
}

/* Let time pass until t. Time lock held. */
static void advance_to(struct gpusim_state *state, int gpu, uint64_t t)
{
    struct gpusim_gpu *g = &state->gpus[gpu];
    while (g->now < t) {
        if (g->running < 0)
            turn_to(state, gpu, next_active(g, g->last));
        if (g->running < 0) {
            g->now = t;
            return;
        }
        int other = next_active(g, g->running);
        uint64_t ns = left(state, g->running, gpu);
        if (ns > t - g->now)
            ns = t - g->now;
        if (other != g->running && ns > g->slice_end - g->now)
            ns = g->slice_end - g->now;
        run(state, gpu, ns);
        if (left(state, g->running, gpu) == 0) {
            set_active(g, g->running, false);
            turn_to(state, gpu, next_active(g, g->running));
        } else if (g->now >= g->slice_end) {
            turn_to(state, gpu, other);
        }
    }
}

/* --- the lock ------------------------------------------------------------------------------- */

/* The holder died: finish the step it was storing and see anew who has work. */
static void repair(struct gpusim_state *state, int gpu)
{
    struct gpusim_gpu *g = &state->gpus[gpu];
    if (g->step.valid)
        store_step(state, g, gpu);
    for (int i = 0; i < (int)state->process_limit; i++)
        set_active(g, i, left(state, i, gpu) != 0);
    if (g->running >= 0 && !left(state, g->running, gpu))
        turn_to(state, gpu, -1);
}

static struct gpusim_gpu *lock_time(struct gpusim_state *state, int gpu)
{
    struct gpusim_gpu *g = &state->gpus[gpu];
    if (pthread_mutex_lock(&g->time_lock) == EOWNERDEAD) {
        repair(state, gpu);
        pthread_mutex_consistent(&g->time_lock);
    }
    return g;
}

static void unlock_time(struct gpusim_gpu *g)
{
    pthread_mutex_unlock(&g->time_lock);
}

/* --- for everybody -------------------------------------------------------------------------- */

void gpusim_advance(struct gpusim_state *state, int gpu)
{
    struct gpusim_gpu *g = lock_time(state, gpu);
    advance_to(state, gpu, gpusim_now());
    unlock_time(g);
}

uint64_t gpusim_submit(struct gpusim_state *state, int process, int gpu, uint64_t ns)
{
    struct gpusim_account *account = &state->processes[process].gpus[gpu];
    if (!ns)
        return account->submitted;
    struct gpusim_gpu *g = lock_time(state, gpu);
    advance_to(state, gpu, gpusim_now());
    account->submitted += ns;
    uint64_t work = account->submitted;
    set_active(g, process, true);
    unlock_time(g);
    return work;
}

bool gpusim_reached(struct gpusim_state *state, int process, int gpu, uint64_t work)
{
    struct gpusim_account *account = &state->processes[process].gpus[gpu];
    if (account->consumed >= work)
        return true;
    gpusim_advance(state, gpu);
    return account->consumed >= work;
}

/* When the process will have had `work` if nobody submits more; no later than `limit`. Time lock
 * held. */
static uint64_t foresee(const struct gpusim_state *state, int process, int gpu, uint64_t work,
                        uint64_t limit)
{
    const struct gpusim_gpu *g = &state->gpus[gpu];
    uint64_t needed = work - state->processes[process].gpus[gpu].consumed;
    if (next_active(g, process) == process)
        return g->now + needed;
    uint64_t t = g->now, slice = state->machine.timeslice_ns, done = 0;
    int runner = g->running >= 0 ? g->running : next_active(g, g->last), first = runner;
    for (uint64_t round = 0; t < limit;) {
        uint64_t had = runner == process ? done : round * slice;
        uint64_t rest = left(state, runner, gpu), ns = rest > had ? rest - had : 0;
        uint64_t room = round == 0 && runner == g->running ? g->slice_end - g->now : slice;
        if (ns > room)
            ns = room;
        if (runner == process) {
            if (done + ns >= needed)
                return t + needed - done;
            done += ns;
        }
        t += ns;
        runner = next_active(g, runner);
        round += runner == first;
    }
    return limit;
}

/* Without leaving the thread's timer slack changed. */
void gpusim_sleep_until(uint64_t t)
{
    struct timespec when = {.tv_sec = (time_t)(t / 1000000000u),
                            .tv_nsec = (long)(t % 1000000000u)};
    int slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
    prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL);
    prctl(PR_SET_TIMERSLACK, slack > 0 ? slack : 0, 0, 0, 0);
}

uint64_t gpusim_expect(struct gpusim_state *state, int process, int gpu, uint64_t work)
{
    struct gpusim_account *account = &state->processes[process].gpus[gpu];
    if (account->consumed >= work)
        return 0;
    struct gpusim_gpu *g = lock_time(state, gpu);
    uint64_t now = gpusim_now(), time = 0;
    advance_to(state, gpu, now);
    if (account->consumed < work)
        time = foresee(state, process, gpu, work, now + LOOK_NS);
    bool look = time && now >= g->look;
    if (look)
        g->look = now + LOOK_NS;
    unlock_time(g);
    if (look)
        gpusim_reap(state);
    return time;
}

bool gpusim_wait(struct gpusim_state *state, int process, int gpu, uint64_t work, uint64_t deadline)
{
    uint64_t time;
    while ((time = gpusim_expect(state, process, gpu, work))) {
        if (deadline && deadline <= gpusim_now())
            return false;
        gpusim_sleep_until(deadline && deadline < time ? deadline : time);
    }
    return true;
}

uint64_t gpusim_time_of(struct gpusim_state *state, int process, int gpu, uint64_t work)
{
    struct gpusim_account *account = &state->processes[process].gpus[gpu];
    struct gpusim_gpu *g = lock_time(state, gpu);
    advance_to(state, gpu, gpusim_now());
    uint64_t time = 0;
    if (account->consumed >= work && account->log_count) {
        uint64_t oldest = account->log_count > GPUSIM_LOG ? account->log_count - GPUSIM_LOG : 0;
        uint64_t i = account->log_count - 1;
        while (i > oldest && account->log[i % GPUSIM_LOG].work >= work)
            i--;
        const struct gpusim_run *entry = &account->log[i % GPUSIM_LOG];
        time = entry->time + (work > entry->work ? work - entry->work : 0);
    }
    unlock_time(g);
    return time;
}

void gpusim_timeline_clear(struct gpusim_state *state, int process)
{
    for (int gpu = 0; gpu < (int)state->machine.n_gpus; gpu++) {
        struct gpusim_account *account = &state->processes[process].gpus[gpu];
        struct gpusim_gpu *g = lock_time(state, gpu);
        advance_to(state, gpu, gpusim_now());
        account->submitted = account->consumed;
        set_active(g, process, false);
        if (g->running == process)
            turn_to(state, gpu, -1);
        unlock_time(g);
    }
}
