/* lease.h - GPU time between vgpud and the shim: words in the control page, and the messages that
 * the shim sends.
 *
 * Down, vgpud to the processes of a vGPU: only the gate word and futex wake-ups on it (a read-only
 * mapping suffices to wait). Up: one small message when a process wants to run, is idle, or has
 * drained. Uncontended, neither happens: the gate is FREE and a launch reads it once.
 */
#ifndef VGPU_LEASE_H
#define VGPU_LEASE_H

#include "pages.h"
#include "wire.h"

enum vgpu_gate {
    VGPU_GATE_CLOSED = 0, /* submit nothing; say WANT to get a turn */
    VGPU_GATE_FREE = 1,   /* nobody waits */
    VGPU_GATE_TIGHT =
        2, /* others wait: at most ahead_ns queued, say IDLE when there is nothing to do */
};

#define VGPU_GATE_MASK   3u
#define VGPU_EPOCH_SHIFT 2

#define VGPU_TURN_ANY UINT32_MAX

/* At the start of control.lease. */
struct vgpu_lease {
    _Atomic uint32_t gate; /* epoch << VGPU_EPOCH_SHIFT | enum vgpu_gate; the epoch counts openings;
                              a futex word */
    _Atomic uint32_t turn; /* which process (index) may use an open gate; VGPU_TURN_ANY: all.
                              Written before gate. */
    _Atomic uint64_t tight_ns; /* how much work may be queued ahead while TIGHT, all processes of
                                  the turn together */
    _Atomic uint64_t loose_ns; /* the same while FREE */
    _Atomic uint64_t grace_ns; /* without work for so long is idle */
    _Atomic uint64_t
        longest_wait_ns; /* a launch that has waited this long goes on, whatever vgpud does */
};

_Static_assert(sizeof(struct vgpu_lease) <= VGPU_LEASE_BYTES, "fits into the control page");

enum vgpu_lease_type {
    VGPU_LEASE_WANT = VGPU_WANT, /* a launch waits at a closed gate, or goes through an open one as
                                    its process' first */
    VGPU_LEASE_IDLE =
        VGPU_WANT +
        1, /* the gate of this epoch is open, and nothing has been running since `end` */
    VGPU_LEASE_DRAINED =
        VGPU_WANT +
        2, /* the gate was closed after this epoch, and all that was submitted ended at `end` */
};

/* Not answered: the gate is the answer. Times are CLOCK_MONOTONIC, ns. */
struct vgpu_lease_message {
    struct vgpu_head head;
    uint64_t vgpu_id;
    uint32_t epoch;
    uint32_t reserved;
    uint64_t begin; /* first submission after the gate opened; 0: none */
    uint64_t end;
    uint64_t launch_ns; /* how long one launch of this process lasts on the device, as it measured;
                           0: not known */
};

#endif
