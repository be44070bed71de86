/* account.c - who holds how many bytes of which GPU.
 *
 * The facts are the processes' own words used[kind]; every sum is made from them, and made anew
 * when a process died while it held the lock.
 */
#include "state.h"

#include <errno.h>
#include <string.h>

static void raise_peak(_Atomic uint64_t *peak, uint64_t value)
{
    if (*peak < value)
        *peak = value;
}

/* Sums of one GPU from the processes' rows. Memory lock held. */
static void sum_up(struct gpusim_state *state, int gpu)
{
    uint64_t total = state->gpus[gpu].orphaned;
    uint64_t groups[GPUSIM_MAX_GROUPS] = {0};
    for (int i = 0; i < (int)state->process_limit; i++) {
        struct gpusim_process *process = &state->processes[i];
        uint64_t bytes = 0;
        for (int kind = 0; kind < GPUSIM_KINDS; kind++)
            bytes += process->gpus[gpu].used[kind];
        process->gpus[gpu].bytes = bytes;
        total += bytes;
        if (process->group >= 0 && process->state != GPUSIM_FREE)
            groups[process->group] += bytes;
    }
    state->gpus[gpu].used = total;
    for (int i = 0; i < GPUSIM_MAX_GROUPS; i++)
        state->groups[i].gpus[gpu].bytes = groups[i];
}

void gpusim_lock_memory(struct gpusim_state *state, int gpu)
{
    if (pthread_mutex_lock(&state->gpus[gpu].memory_lock) == EOWNERDEAD) {
        sum_up(state, gpu);
        pthread_mutex_consistent(&state->gpus[gpu].memory_lock);
    }
}

void gpusim_unlock_memory(struct gpusim_state *state, int gpu)
{
    pthread_mutex_unlock(&state->gpus[gpu].memory_lock);
}

void gpusim_account_repair(struct gpusim_state *state, int gpu, uint64_t orphaned)
{
    gpusim_lock_memory(state, gpu);
    state->gpus[gpu].orphaned = orphaned;
    sum_up(state, gpu);
    gpusim_unlock_memory(state, gpu);
}

uint64_t gpusim_account_sum(struct gpusim_state *state, int gpu,
                            const bool marked[GPUSIM_MAX_PROCESSES])
{
    uint64_t sum = 0;
    gpusim_lock_memory(state, gpu);
    for (int i = 0; i < (int)state->process_limit; i++)
        if (marked[i])
            sum += state->processes[i].gpus[gpu].bytes;
    gpusim_unlock_memory(state, gpu);
    return sum;
}

/* Change a process' word and every sum over it. Memory lock held. */
static void change(struct gpusim_state *state, int i, int gpu, enum gpusim_kind kind,
                   uint64_t delta)
{
    struct gpusim_process *process = &state->processes[i];
    struct gpusim_account *account = &process->gpus[gpu];
    account->used[kind] += delta;
    account->bytes += delta;
    state->gpus[gpu].used += delta;
    raise_peak(&account->peak, account->bytes);
    raise_peak(&state->gpus[gpu].peak, state->gpus[gpu].used);
    if (process->group >= 0) {
        struct gpusim_group *group = &state->groups[process->group];
        group->gpus[gpu].bytes += delta;
        raise_peak(&group->gpus[gpu].peak, group->gpus[gpu].bytes);
    }
}

static bool try_take(struct gpusim_state *state, int process, int gpu, enum gpusim_kind kind,
                     uint64_t bytes)
{
    gpusim_lock_memory(state, gpu);
    bool fits = bytes <= state->machine.gpus[gpu].memory - state->gpus[gpu].used;
    if (fits)
        change(state, process, gpu, kind, bytes);
    gpusim_unlock_memory(state, gpu);
    return fits;
}

bool gpusim_take(struct gpusim_state *state, int process, int gpu, enum gpusim_kind kind,
                 uint64_t bytes)
{
    struct gpusim_account *account = &state->processes[process].gpus[gpu];
    bool taken = try_take(state, process, gpu, kind, bytes);
    if (!taken && bytes <= state->machine.gpus[gpu].memory) {
        gpusim_reap(state);
        taken = try_take(state, process, gpu, kind, bytes);
    }
    atomic_fetch_add_explicit(taken ? &account->allocations : &account->refusals, 1,
                              memory_order_relaxed);
    return taken;
}

void gpusim_give(struct gpusim_state *state, int process, int gpu, enum gpusim_kind kind,
                 uint64_t bytes)
{
    gpusim_lock_memory(state, gpu);
    change(state, process, gpu, kind, -bytes);
    gpusim_unlock_memory(state, gpu);
}

/* --- exported memory ------------------------------------------------------------------------ */

static bool holds(const struct gpusim_share *share, int process)
{
    return share->holders[process / 64] >> (process % 64) & 1;
}

static bool held(const struct gpusim_share *share)
{
    uint64_t any = 0;
    for (size_t i = 0; i < sizeof(share->holders) / sizeof(*share->holders); i++)
        any |= share->holders[i];
    return any != 0;
}

static int find_share(const struct gpusim_state *state, uint64_t device, uint64_t inode)
{
    for (int i = 0; i < GPUSIM_MAX_SHARES; i++)
        if (state->shares[i].inode == inode && (!inode || state->shares[i].device == device))
            return i;
    return -1;
}

int gpusim_share_create(struct gpusim_state *state, int process, int gpu, uint64_t bytes,
                        uint64_t device, uint64_t inode)
{
    gpusim_lock(state);
    int i = find_share(state, 0, 0);
    if (i >= 0) {
        struct gpusim_share *share = &state->shares[i];
        *share =
            (struct gpusim_share){.device = device, .bytes = bytes, .gpu = gpu, .owner = process};
        share->holders[process / 64] = 1ull << (process % 64);
        atomic_signal_fence(memory_order_seq_cst);
        share->inode = inode;
    }
    gpusim_unlock(state);
    return i;
}

int gpusim_share_join(struct gpusim_state *state, int process, uint64_t device, uint64_t inode)
{
    gpusim_lock(state);
    int i = inode ? find_share(state, device, inode) : -1;
    if (i >= 0)
        state->shares[i].holders[process / 64] |= 1ull << (process % 64);
    gpusim_unlock(state);
    return i;
}

/* Let go of a share: its memory goes with the last holder; without its owner it is nobody's. The
 * order is such that whoever finds this half done (holder bit still set) can do it again. Table
 * lock held. */
static void leave(struct gpusim_state *state, int process, struct gpusim_share *share)
{
    struct gpusim_gpu *gpu = &state->gpus[share->gpu];
    gpusim_lock_memory(state, share->gpu);
    if (share->owner == process) {
        share->owner = -1;
        gpu->orphaned += share->bytes;
        gpu->used += share->bytes;
        change(state, process, share->gpu, GPUSIM_VMM, -share->bytes);
    }
    share->holders[process / 64] &= ~(1ull << (process % 64));
    if (!held(share)) {
        share->inode = 0;
        gpu->orphaned -= share->bytes;
        gpu->used -= share->bytes;
    }
    gpusim_unlock_memory(state, share->gpu);
}

void gpusim_share_leave(struct gpusim_state *state, int process, int i)
{
    gpusim_lock(state);
    leave(state, process, &state->shares[i]);
    gpusim_unlock(state);
}

/* What a process did stays in its group's sums. */
static void keep_past(struct gpusim_state *state, int group, int gpu,
                      struct gpusim_account *account)
{
    if (group >= 0) {
        state->groups[group].gpus[gpu].past_busy += account->consumed;
        state->groups[group].gpus[gpu].past_launches += account->launches;
    }
    account->submitted = account->consumed = account->launches = 0;
}

void gpusim_account_clear(struct gpusim_state *state, int i)
{
    for (int k = 0; k < GPUSIM_MAX_SHARES; k++)
        if (state->shares[k].inode && holds(&state->shares[k], i))
            leave(state, i, &state->shares[k]);
    for (int gpu = 0; gpu < (int)state->machine.n_gpus; gpu++) {
        struct gpusim_account *account = &state->processes[i].gpus[gpu];
        gpusim_lock_memory(state, gpu);
        for (int kind = 0; kind < GPUSIM_KINDS; kind++)
            change(state, i, gpu, kind, -account->used[kind]);
        account->contexts = 0;
        keep_past(state, state->processes[i].group, gpu, account);
        gpusim_unlock_memory(state, gpu);
    }
}
