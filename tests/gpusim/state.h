/* state.h - the state of the simulated GPUs of one machine: a file that all processes of all users
 * map.
 *
 * It is the truth about the simulated hardware: who holds how many bytes of which kind, and who
 * used a GPU for how long. libcuda.so.1 changes it, libnvidia-ml.so.1 and `gpusim stat` read it.
 * Everybody looks through the functions below: they first bring the state up to date (reap the
 * dead, let time pass).
 *
 * A process may die at any instruction. Every lock is a robust mutex; what is inside is either one
 * word per fact, or is computed again from the processes' own rows when the holder died. A process
 * is known to be alive by a robust mutex that its keeper thread holds as long as the process runs
 * (the kernel marks it at death, at kill -9 and at execve), and while it registers by pid and start
 * time.
 *
 * GPU time is arithmetic: see timeline.c.
 */
#ifndef GPUSIM_STATE_H
#define GPUSIM_STATE_H

#include "machine.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#define GPUSIM_DIR           "/run/gpusim"
#define GPUSIM_MAGIC         0x6d697370u /* "psim" */
#define GPUSIM_LAYOUT        1
#define GPUSIM_MAX_PROCESSES 1024
#define GPUSIM_MAX_GROUPS    64
#define GPUSIM_MAX_SHARES    1024
#define GPUSIM_MAX_EVENTS    1024
#define GPUSIM_GROUP_NAME    48
#define GPUSIM_LOG           256 /* runs of a process on a GPU that are remembered, for event times */

/* Busy time by window of 100 ms, for utilisation over the last seconds. */
#define GPUSIM_WINDOW_NS 100000000ull
#define GPUSIM_WINDOWS   64

enum gpusim_kind {
    GPUSIM_LINEAR, /* alloc, pitch */
    GPUSIM_MANAGED,
    GPUSIM_POOL,
    GPUSIM_VMM,
    GPUSIM_ARRAY,
    GPUSIM_GRAPH, /* the graph memory pool */
    GPUSIM_CONTEXT,
    GPUSIM_MODULE,
    GPUSIM_KINDS
};

extern const char *const gpusim_kind_names[GPUSIM_KINDS];

struct gpusim_usage {
    _Atomic uint64_t window;             /* number of the newest window: time / GPUSIM_WINDOW_NS */
    _Atomic uint32_t ns[GPUSIM_WINDOWS]; /* busy ns in window w at w % GPUSIM_WINDOWS */
};

/* From `time` on the process ran; it had had `work` ns of the GPU before. */
struct gpusim_run {
    uint64_t time, work;
};

/* What one process holds and did on one GPU. */
struct gpusim_account {
    _Atomic uint64_t used[GPUSIM_KINDS]; /* bytes; GPU's memory lock */
    _Atomic uint64_t bytes, peak;        /* sum of used, its high-water mark */
    _Atomic uint32_t contexts;
    _Atomic uint64_t allocations; /* successful */
    _Atomic uint64_t refusals;    /* out of memory */
    _Atomic uint64_t launches;    /* kernels */
    /* time; GPU's time lock */
    _Atomic uint64_t submitted; /* ns of work given to the GPU */
    _Atomic uint64_t consumed;  /* ns of it done: the busy time of this process */
    uint64_t log_count;         /* entries ever written; entry i is log[i % GPUSIM_LOG] */
    struct gpusim_usage usage;
    struct gpusim_run log[GPUSIM_LOG];
};

enum gpusim_process_state {
    GPUSIM_FREE,
    GPUSIM_CLAIMED, /* registering: alive by pid and start time */
    GPUSIM_ALIVE,   /* alive by `life` */
    GPUSIM_DEAD,    /* dead, its memory not yet released (slow release) */
};

/* In which of NVML's lists a process is: what GPUSIM_TYPE=graphics or mps in its environment says
 * at cuInit. */
enum gpusim_process_type {
    GPUSIM_COMPUTE,
    GPUSIM_GRAPHICS,
    GPUSIM_MPS,
};

struct gpusim_process {
    _Atomic uint32_t state; /* enum gpusim_process_state */
    _Atomic int32_t pid;
    uint32_t uid;
    uint32_t type;       /* enum gpusim_process_type */
    int32_t group;       /* index into groups; -1: none */
    uint64_t start_time; /* clock ticks after boot, as in /proc/PID/stat */
    uint64_t release_at; /* DEAD: CLOCK_MONOTONIC ns */
    pthread_mutex_t life;
    char name[64];
    _Atomic uint64_t capture_violations; /* calls that a stream capture does not allow */
    alignas(64) struct gpusim_account gpus[GPUSIM_MAX_GPUS];
};

/* The sum over the processes that had GPUSIM_GROUP=NAME in their environment at cuInit: the exact
 * high-water mark of several processes together. */
struct gpusim_group {
    char name[GPUSIM_GROUP_NAME]; /* "": free */
    struct {
        _Atomic uint64_t bytes, peak;
        _Atomic uint64_t past_busy, past_launches; /* of processes that are gone */
    } gpus[GPUSIM_MAX_GPUS];
};

/* What an administrator changed through NVML since the machine booted: the value + 1; 0: nothing.
 */
struct gpusim_modes {
    _Atomic uint32_t persistence, compute, mig, accounting, power_limit;
};

/* A mode as it is now. */
static inline uint32_t gpusim_mode(const _Atomic uint32_t *set, uint32_t at_boot)
{
    uint32_t value = atomic_load_explicit(set, memory_order_relaxed);
    return value ? value - 1 : at_boot;
}

struct gpusim_gpu {
    struct gpusim_modes modes;
    pthread_mutex_t memory_lock;
    _Atomic uint64_t used, peak; /* bytes of all processes and orphaned */
    _Atomic uint64_t
        orphaned;          /* exported memory whose exporter is gone but which others still hold */
    _Atomic uint64_t xids; /* number of XID errors so far */
    _Atomic uint32_t last_xid;
    _Atomic uint64_t last_xid_time; /* CLOCK_MONOTONIC ns */

    alignas(64) pthread_mutex_t time_lock;
    _Atomic uint64_t now;  /* CLOCK_MONOTONIC ns up to which time has passed */
    _Atomic uint64_t busy; /* ns, all processes, also past ones */
    uint64_t slice_end;
    int32_t running; /* process that has the GPU; -1: idle */
    int32_t last;    /* that had it last */
    _Atomic uint64_t switches;
    uint64_t look; /* when a waiter is to look for dead contenders again */
    uint64_t active[GPUSIM_MAX_PROCESSES / 64]; /* processes with work not done */
    struct {
        /* What is about to be stored, so that the death of the lock's holder half way loses
         * nothing. */
        uint32_t valid, process;
        uint64_t consumed, now, busy;
    } step;
    struct gpusim_usage usage;
};

/* Device memory that can be, or is, held by several processes (VMM handles made to be exported). */
struct gpusim_share {
    uint64_t device, inode; /* of the memory file; inode 0: free */
    uint64_t bytes;
    int32_t gpu;
    int32_t owner; /* process that it is charged to; -1: orphaned */
    uint64_t holders[GPUSIM_MAX_PROCESSES / 64];
};

/* An event made for other processes too. */
struct gpusim_ipc_event {
    uint64_t holders[GPUSIM_MAX_PROCESSES / 64]; /* none: free */
    _Atomic uint32_t generation;
    _Atomic int32_t process, gpu; /* where it was last recorded; process -1: nowhere, or done */
    _Atomic uint64_t work;        /* done when that process has consumed so much */
};

struct gpusim_state {
    uint32_t magic, layout;
    uint64_t size; /* of this struct */
    struct gpusim_machine machine;
    pthread_mutex_t
        table_lock; /* processes, groups, shares, events; taken before any GPU's locks */
    _Atomic uint32_t process_limit;    /* processes[] beyond were never used */
    _Atomic uint64_t release_delay_ns; /* fault: memory of a dead process stays listed so long */
    _Atomic uint64_t
        faults_applied; /* identifies the version of the faults file whose XIDs were applied */
    struct gpusim_gpu gpus[GPUSIM_MAX_GPUS];
    struct gpusim_group groups[GPUSIM_MAX_GROUPS];
    struct gpusim_share shares[GPUSIM_MAX_SHARES];
    struct gpusim_ipc_event events[GPUSIM_MAX_EVENTS];
    struct gpusim_process processes[GPUSIM_MAX_PROCESSES];
};

/* --- state.c: opening, processes ------------------------------------------------------------ */

/* Map the state of the machine in `dir` (GPUSIM_DIR), making it from dir/machine if nobody has.
 * NULL with err. */
struct gpusim_state *gpusim_open(const char *dir, struct gpusim_error *err);
void gpusim_close(struct gpusim_state *state);

uint64_t gpusim_now(void); /* CLOCK_MONOTONIC ns */

/* Enter the calling process; a thread that keeps it alive starts. Returns its row's index, or -1
 * with err. */
int gpusim_register(struct gpusim_state *state, const char *group, struct gpusim_error *err);

/* Take the dead out, release their memory. Cheap: no system call for processes that are alive. */
void gpusim_reap(struct gpusim_state *state);

/* Is row i in use (alive, or dead with its memory not yet released)? */
bool gpusim_listed(const struct gpusim_state *state, int i);

void gpusim_lock(struct gpusim_state *state); /* the table */
void gpusim_unlock(struct gpusim_state *state);

/* --- account.c: bytes ----------------------------------------------------------------------- */

/* Take bytes of a GPU's memory for a process. False: not so much is free (after reaping the dead).
 */
bool gpusim_take(struct gpusim_state *state, int process, int gpu, enum gpusim_kind kind,
                 uint64_t bytes);
void gpusim_give(struct gpusim_state *state, int process, int gpu, enum gpusim_kind kind,
                 uint64_t bytes);

/* While locked, nobody's bytes on the GPU change. */
void gpusim_lock_memory(struct gpusim_state *state, int gpu);
void gpusim_unlock_memory(struct gpusim_state *state, int gpu);

/* Bytes that the marked processes hold together on a GPU, all at one moment. */
uint64_t gpusim_account_sum(struct gpusim_state *state, int gpu,
                            const bool marked[GPUSIM_MAX_PROCESSES]);

/* Remove a dead process' bytes; exported memory that others hold becomes orphaned. Table lock held.
 */
void gpusim_account_clear(struct gpusim_state *state, int process);

/* Compute a GPU's sums anew. Table lock held. */
void gpusim_account_repair(struct gpusim_state *state, int gpu, uint64_t orphaned);

/* Exported memory. The share is found by the memory file's device and inode. Return its index or
 * -1. */
int gpusim_share_create(struct gpusim_state *state, int process, int gpu, uint64_t bytes,
                        uint64_t device, uint64_t inode);
int gpusim_share_join(struct gpusim_state *state, int process, uint64_t device, uint64_t inode);
void gpusim_share_leave(struct gpusim_state *state, int process, int share);

/* --- ipc_event.c: events for several processes
 * ----------------------------------------------------- */

int gpusim_event_create(struct gpusim_state *state, int process);
bool gpusim_event_join(struct gpusim_state *state, int process, int event, uint32_t generation);
void gpusim_event_leave(struct gpusim_state *state, int process, int event);

/* A dead process holds none, and what it recorded is done. Table lock held. */
void gpusim_events_clear(struct gpusim_state *state, int process);

/* --- timeline.c: time ----------------------------------------------------------------------- */

/* Let time pass on a GPU until now. */
void gpusim_advance(struct gpusim_state *state, int gpu);

/* Give a GPU ns of work of a process. Returns the point of the process' work at which it is done.
 */
uint64_t gpusim_submit(struct gpusim_state *state, int process, int gpu, uint64_t ns);

/* Has the process had so much of the GPU? */
bool gpusim_reached(struct gpusim_state *state, int process, int gpu, uint64_t work);

/* 0 if it has; else when to look again: the earliest moment at which it may have, or 5 ms from now.
 */
uint64_t gpusim_expect(struct gpusim_state *state, int process, int gpu, uint64_t work);

/* Sleep until a moment, to the microsecond. */
void gpusim_sleep_until(uint64_t time);

/* Sleep until it has, or until the deadline (CLOCK_MONOTONIC ns; 0: none). Returns whether it has.
 */
bool gpusim_wait(struct gpusim_state *state, int process, int gpu, uint64_t work,
                 uint64_t deadline);

/* When it had (CLOCK_MONOTONIC ns); 0 if it has not. */
uint64_t gpusim_time_of(struct gpusim_state *state, int process, int gpu, uint64_t work);

/* Remove a dead process' outstanding work from all GPUs. Table lock held. */
void gpusim_timeline_clear(struct gpusim_state *state, int process);

/* Busy ns within the last `windows` full windows (at most GPUSIM_WINDOWS - 1) before now. */
uint64_t gpusim_usage_sum(const struct gpusim_usage *usage, uint64_t now, unsigned windows);

#endif
