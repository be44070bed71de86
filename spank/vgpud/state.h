/* state.h - what outlives vgpud: one mapped file of fixed-size records under the runtime directory.
 *
 * A record counts from the moment its `valid` word is stored, after all else in it; clearing that
 * word ends it. So whatever instruction vgpud is killed at, each record is there or not, and what
 * they say together can be taken up again:
 * - a vGPU counts before the step that uses it: without the step its slots are bound to the job, as
 * between two steps;
 * - a process counts before it is told so: without the answer it attaches again.
 * A state of another boot is thrown away: nothing that it describes exists any more.
 */
#ifndef VGPUD_STATE_H
#define VGPUD_STATE_H

#include "proto/wire.h"

#include <stdatomic.h>
#include <stdbool.h>

#define STATE_VGPUS     2048 /* those of ended jobs whose last processes are still dying included */
#define STATE_STEPS     4096
#define STATE_PROCESSES 16384
#define STATE_FATES     64

struct vgpu_record {
    _Atomic uint32_t valid;
    uint32_t job, uid;
    struct vgpu_desc desc;
    uint8_t slots[VGPU_MAX_SLOTS / 8]; /* bit set */
    uint32_t slice_us;
    char workload[VGPU_NAME_MAX], burst_class[VGPU_NAME_MAX];
    uint64_t account_inode; /* of the memfd, by which a holder's descriptor is known */
    uint64_t allocations, refusals, launches; /* of processes that are gone */
};

struct step_record {
    _Atomic uint32_t valid;
    uint32_t job, step, uid;
    int32_t holder;
    uint32_t n_vgpus;
    uint64_t holder_start;
    uint64_t vgpus[VGPU_MAX_GPUS]; /* ids in rank order */
};

/* A program that has attached. */
struct process_record {
    _Atomic uint32_t valid;
    uint32_t job, step, uid;
    int32_t pid;
    uint32_t n_vgpus;
    uint64_t start_time, start_stack; /* as proc.h */
    uint64_t vgpus[VGPU_MAX_GPUS];    /* ids in rank order; 0: given back */
    uint16_t entries[VGPU_MAX_GPUS];  /* index in account.processes of each */
};

/* Why vgpud ended a step; steps without vGPUs included. */
struct fate_record {
    uint32_t job, step;
    uint64_t when_ns; /* 0: none */
    char text[VGPU_ERROR_MAX];
};

struct state {
    uint32_t magic, layout;
    char boot_id[40];
    char node[VGPU_NAME_MAX];
    _Atomic uint64_t next_id;
    struct vgpu_record vgpus[STATE_VGPUS];
    struct step_record steps[STATE_STEPS];
    struct process_record processes[STATE_PROCESSES];
    struct fate_record fates[STATE_FATES]; /* the oldest is written over */
};

/* Map the state in the directory, making it if there is none of this boot and node. *fresh says
 * that it was made: whatever else lies in the directory is then a leftover. Returns NULL with err.
 */
struct state *state_open(int dir, const char *node, bool *fresh, vgpu_error_t *err);
void state_close(struct state *state);

/* A record that is not valid, zeroed; NULL: there is none left. */
struct vgpu_record *state_new_vgpu(struct state *state);
struct step_record *state_new_step(struct state *state);
struct process_record *state_new_process(struct state *state);

static inline void record_begin(_Atomic uint32_t *valid)
{
    atomic_store_explicit(valid, 1, memory_order_release);
}

static inline void record_end(_Atomic uint32_t *valid)
{
    atomic_store_explicit(valid, 0, memory_order_release);
}

static inline void slot_set(uint8_t *slots, uint32_t slot)
{
    slots[slot / 8] |= (uint8_t)(1u << slot % 8);
}

static inline bool slot_isset(const uint8_t *slots, uint32_t slot)
{
    return slots[slot / 8] >> slot % 8 & 1;
}

#endif
