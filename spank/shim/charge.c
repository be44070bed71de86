/* charge.c - bytes of a vGPU's quota, taken and given back by this process. */
#include "shim/charge.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define POLL_NS 200000 /* between two looks at what somebody else is about to give back */
#define REPAIR_WAIT_NS                                                                             \
    5000000000ull /* vgpud needs microseconds; longer only if it died just then and does not come  \
                     back */
#define SETTLE_WAIT_NS 5000000000ull /* a sibling makes its context */
#define DYING_WAIT_NS                                                                              \
    250000000ull /* vgpud gives back what a dead process had 100 ms after the driver does */

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
}

uint64_t charge_round(uint64_t bytes)
{
    uint64_t rounded = (bytes + VGPU_CHARGE_GRANULE - 1) & ~(uint64_t)(VGPU_CHARGE_GRANULE - 1);
    return rounded < bytes ? UINT64_MAX : rounded;
}

static uint64_t quota_of(const struct charge *charge)
{
    return charge->control->flags & VGPU_CONTROL_ENDED ? 0 : charge->control->quota;
}

uint64_t charge_left(const struct charge *charge)
{
    uint64_t quota = quota_of(charge), charged = charge->account->charged;
    return charged < quota ? quota - charged : 0;
}

/* Between enter and leave vgpud does not repair the account. */
static void enter(struct charge *charge)
{
    struct vgpu_process *self = charge->process;

    self->busy += 1;
    if (charge->control->repairing == 0)
        return;
    uint64_t deadline = now_ns() + REPAIR_WAIT_NS;
    do {
        self->busy -= 1;
        pause_briefly();
        self->busy += 1;
    } while (charge->control->repairing != 0 && now_ns() < deadline);
}

static void leave(struct charge *charge)
{
    charge->process->busy -= 1;
}

static void note_peak(struct vgpu_account *account, uint64_t charged)
{
    uint64_t peak = atomic_load_explicit(&account->peak, memory_order_relaxed);
    while (charged > peak && !atomic_compare_exchange_weak(&account->peak, &peak, charged))
        ;
}

/* Admit: the one place where the quota is compared. */
static uint64_t admit(struct charge *charge, uint64_t least, uint64_t most)
{
    _Atomic uint64_t *charged = &charge->account->charged;
    uint64_t quota = quota_of(charge), before = *charged, bytes;

    do {
        uint64_t left = before < quota ? quota - before : 0;
        if (left < least)
            return 0;
        bytes = left < most ? left : most;
    } while (!atomic_compare_exchange_weak(charged, &before, before + bytes));
    note_peak(charge->account, before + bytes);
    return bytes;
}

uint64_t charge_take(struct charge *charge, enum vgpu_kind kind, uint64_t least, uint64_t most,
                     bool provisional)
{
    struct vgpu_process *self = charge->process;

    if (provisional && charge_left(charge) < least)
        return 0; /* no mark without a chance, or those who wait would wait for each other's marks
                   */
    enter(charge);
    if (provisional) /* before the charge is seen: who meets it must find the reason */
        self->provisional += most;
    uint64_t bytes = admit(charge, least, most);
    if (provisional)
        self->provisional -= most - bytes;
    if (bytes > 0) {
        self->charged += bytes;
        self->kind[kind] += bytes;
        atomic_fetch_add_explicit(&self->allocations, 1, memory_order_relaxed);
    }
    leave(charge);
    return bytes;
}

/* Is an entry of the account that of a process that no longer exists? Only where pids mean the same
 * to vgpud and to us. */
static bool is_dead(const struct charge *charge, const struct vgpu_process *process)
{
    uint32_t pid = process->pid;
    return pid != 0 && charge->process->pid == (uint32_t)getpid() && kill((pid_t)pid, 0) < 0 &&
           errno == ESRCH;
}

/* How long is it worth to wait for others, from the moment of the refusal? 0: nobody is about to
 * give anything back. */
static uint64_t patience(const struct charge *charge)
{
    uint64_t patience_ns = 0;

    for (size_t i = 0; i < VGPU_MAX_PROCESSES; i++) {
        const struct vgpu_process *process = &charge->account->processes[i];
        if (process->charged != 0 && is_dead(charge, process))
            patience_ns = DYING_WAIT_NS;
        else if (process->provisional != 0)
            return SETTLE_WAIT_NS;
    }
    return patience_ns;
}

bool charge_await(const struct charge *charge, uint64_t least, uint64_t *since)
{
    if (least > quota_of(charge))
        return false;
    if (charge_left(charge) >= least && *since != 0)
        return true;
    if (*since == 0)
        *since = now_ns();
    if (now_ns() - *since >= patience(charge))
        return charge_left(charge) >= least; /* somebody may have settled since the refusal */
    pause_briefly();
    return true;
}

void charge_settle(struct charge *charge, enum vgpu_kind kind, uint64_t held, uint64_t keep)
{
    if (held > keep)
        charge_give(charge, kind, held - keep);
    charge->process->provisional -= held;
}

void charge_give(struct charge *charge, enum vgpu_kind kind, uint64_t bytes)
{
    if (bytes == 0)
        return;
    enter(charge);
    charge->process->kind[kind] -= bytes;
    charge->process->charged -= bytes;
    charge->account->charged -= bytes;
    leave(charge);
}

void charge_force(struct charge *charge, enum vgpu_kind kind, uint64_t bytes)
{
    enter(charge);
    note_peak(charge->account, charge->account->charged += bytes);
    charge->process->charged += bytes;
    charge->process->kind[kind] += bytes;
    leave(charge);
}
