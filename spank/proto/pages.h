/* pages.h - the two pages of memory that a vGPU's processes share with vgpud.
 *
 * control: written by vgpud only; the job maps it read-only and cannot reopen it for writing.
 * account: read-write for the job, sealed against shrinking and growing. What a job writes there
 * can hurt only itself: vgpud clamps what it reads and compares it with what the driver says.
 *
 * Charging (the shim's side; see docs/internals.md for why it survives kill -9 at any instruction):
 *   process.busy += 1; while (control.repairing) { process.busy -= 1; wait; process.busy += 1; }
 *   account.charged: compare-and-swap to charged + size if that is at most control.quota, else
 * refuse process.charged += size; process.busy -= 1 Releasing: the driver frees first; then
 * process.charged -= size, then account.charged -= size (inside busy). What a call will take may be
 * known only after it (contexts): the process charges as much as it may need, says so in
 * process.provisional, and gives the rest back at once; who is refused meanwhile waits for that
 * (bounded) and tries again. Repair (vgpud's side, after a process is dead and the driver has let
 * go of its memory): repairing = 1; wait until busy is 0 in every live process (bounded); zero the
 * dead one; account.charged = sum of process.charged; repairing = 0.
 */
#ifndef VGPU_PAGES_H
#define VGPU_PAGES_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

#define VGPU_PAGE_MAGIC     0x75706776u /* "vgpu" */
#define VGPU_PAGE_MAJOR     1
#define VGPU_PAGE_MINOR     0
#define VGPU_MAX_PROCESSES  1024 /* of one vGPU at a time */
#define VGPU_CHARGE_GRANULE 512  /* the driver's own: every charge is rounded up to it */

/* What a charge is for; process.kind[] sums up to process.charged. */
enum vgpu_kind {
    VGPU_KIND_LINEAR, /* alloc, pitch */
    VGPU_KIND_MANAGED,
    VGPU_KIND_POOL, /* stream-ordered, graph memory nodes */
    VGPU_KIND_VMM,
    VGPU_KIND_ARRAY,
    VGPU_KIND_CONTEXT, /* contexts, modules, libraries: measured */
    VGPU_KIND_COUNT = 8
};

enum vgpu_control_flag {
    VGPU_CONTROL_ENDED = 1u << 0, /* the binding is gone: refuse everything */
};

/* Room for the lease words of the GPU-time arbiter (lease.h lays them out). */
#define VGPU_LEASE_BYTES 1024

struct vgpu_control {
    uint32_t magic;
    uint16_t major, minor;
    uint64_t vgpu_id;
    _Atomic uint64_t quota;     /* bytes */
    uint8_t gpu_uuid[16];       /* as cuDeviceGetUuid and, in text, nvmlDeviceGetUUID */
    uint32_t gpu_sms;           /* SMs of the whole card */
    _Atomic uint32_t sms;       /* guaranteed */
    _Atomic uint32_t max_sms;   /* upper bound when others leave time idle */
    _Atomic uint32_t flags;     /* enum vgpu_control_flag */
    _Atomic uint32_t repairing; /* not 0: charges wait (microseconds, bounded by vgpud) */
    _Atomic uint64_t
        context_bytes; /* size of a context on this GPU as last measured; 0: not known yet */
    alignas(64) uint8_t lease[VGPU_LEASE_BYTES];
    alignas(64) uint8_t reserved[2048];
};

struct vgpu_process {
    alignas(64) _Atomic uint32_t busy; /* threads inside a charge or release */
    _Atomic uint32_t pid;              /* as vgpud sees it; information only */
    _Atomic uint64_t charged;          /* bytes, all kinds */
    _Atomic uint64_t kind[VGPU_KIND_COUNT];
    _Atomic uint64_t allocations; /* counters for telemetry */
    _Atomic uint64_t refusals;
    _Atomic uint64_t launches;
    _Atomic uint64_t
        provisional; /* part of charged that is more than needed and about to be given back */
    _Atomic uint64_t until; /* when what it has submitted should be done, CLOCK_MONOTONIC ns; 0: not
                               known */
    _Atomic uint64_t reserved[1];
};

struct vgpu_account {
    uint32_t magic;
    uint16_t major, minor;
    uint32_t process_count; /* VGPU_MAX_PROCESSES */
    alignas(64) _Atomic uint64_t
        charged; /* bytes, all processes: the word that admission is decided on */
    _Atomic uint64_t peak;
    alignas(64) struct vgpu_process processes[VGPU_MAX_PROCESSES];
};

_Static_assert(sizeof(struct vgpu_control) <= 4096, "control is one page");
_Static_assert(sizeof(struct vgpu_process) == 128, "two cache lines a process");

#endif
