/* measure.c - memory that the driver takes on its own account. */
#include "shim/measure.h"
#include "shim/pool.h"

#include <time.h>

#define QUIET_WAIT_NS                                                                              \
    2000000000ull /* a free waits for the GPU; then measure all the same, upwards only */
#define AGAIN_NS        50000000ull    /* vgpud did not answer */
#define UNKNOWN_CONTEXT (256ull << 20) /* stands for a context until it can be measured */

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

void measure_await(struct vgpu *vgpu)
{
    do {
        vgpu->finished += 1;
        while (vgpu->measuring != 0)
            pause_briefly();
        vgpu->started += 1;
    } while (vgpu->measuring != 0);
}

/* Keep allocations out and wait for those inside. False: some did not come out in time. */
static bool hush(struct vgpu *vgpu)
{
    uint64_t deadline = now_ns() + QUIET_WAIT_NS;

    vgpu->measuring = 1;
    while (vgpu->finished != vgpu->started)
        if (now_ns() > deadline)
            return false;
        else
            pause_briefly();
    return true;
}

/* What the driver holds for this process beyond all other charges. *quiet: exact; else at least so
 * much. -1: no answer. */
static int residual(struct vgpu *vgpu, uint64_t *bytes, bool *quiet)
{
    const struct vgpu_process *self = vgpu->charge.process;
    uint64_t listed;

    pool_refresh(vgpu);
    *quiet = hush(vgpu);
    uint64_t other = self->charged - self->kind[VGPU_KIND_CONTEXT];
    int rc = process_measure(vgpu, &listed);
    vgpu->measuring = 0;
    if (rc == 0)
        *bytes = listed > other ? charge_round(listed - other) : 0;
    return rc;
}

void measure_later(struct vgpu *vgpu)
{
    vgpu->unmeasured = true;
}

void measure_later_all(void)
{
    for (uint32_t i = 0; i < process.n_vgpus; i++)
        process.vgpus[i].unmeasured = true;
}

/* Under measure_lock: bring the charge to what was found. False: beyond the quota. */
static bool adjust(struct vgpu *vgpu, uint64_t found, bool quiet)
{
    uint64_t charged = vgpu->charge.process->kind[VGPU_KIND_CONTEXT];

    if (found <= charged) {
        if (quiet)
            charge_give(&vgpu->charge, VGPU_KIND_CONTEXT, charged - found);
        return true;
    }
    uint64_t more = found - charged;
    if (charge_take(&vgpu->charge, VGPU_KIND_CONTEXT, more, more, false) > 0)
        return true;
    charge_force(&vgpu->charge, VGPU_KIND_CONTEXT, more);
    return false;
}

static bool measure(struct vgpu *vgpu, bool only_if_due)
{
    uint64_t found;
    bool quiet, fits = true;

    pthread_mutex_lock(&vgpu->measure_lock);
    if (!only_if_due || (vgpu->unmeasured && now_ns() >= vgpu->measure_after)) {
        vgpu->unmeasured = false; /* what happens from now on is not in this measurement */
        if (residual(vgpu, &found, &quiet) == 0) {
            fits = adjust(vgpu, found, quiet);
        } else {
            vgpu->unmeasured = true;
            vgpu->measure_after = now_ns() + AGAIN_NS;
        }
    }
    pthread_mutex_unlock(&vgpu->measure_lock);
    return fits;
}

bool measure_if_due(struct vgpu *vgpu)
{
    return likely(!atomic_load_explicit(&vgpu->unmeasured, memory_order_relaxed)) ||
           measure(vgpu, true);
}

bool measure_now(struct vgpu *vgpu)
{
    return measure(vgpu, false);
}

CUresult measure_begin_context(struct vgpu *vgpu, uint64_t *held)
{
    uint64_t known = charge_round(vgpu->charge.control->context_bytes), since = 0;
    uint64_t least = known ? known : 1, most = known ? known : UINT64_MAX;

    pthread_mutex_lock(&vgpu->measure_lock);
    do {
        *held = charge_take(&vgpu->charge, VGPU_KIND_CONTEXT, least, most, true);
        if (*held > 0)
            return CUDA_SUCCESS;
        pool_reclaim(vgpu);
    } while (charge_await(&vgpu->charge, least, &since));
    vgpu->charge.process->refusals += 1;
    pthread_mutex_unlock(&vgpu->measure_lock);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* How much of `held` stays charged for the new context. More than that: all of it and an extra
 * charge. False: no room. */
static bool settle(struct vgpu *vgpu, uint64_t held, uint64_t found)
{
    struct charge *charge = &vgpu->charge;
    uint64_t charged = charge->process->kind[VGPU_KIND_CONTEXT];

    if (found > charged &&
        charge_take(charge, VGPU_KIND_CONTEXT, found - charged, found - charged, false) == 0) {
        charge_settle(charge, VGPU_KIND_CONTEXT, held, 0);
        return false;
    }
    uint64_t surplus = found < charged ? charged - found : 0,
             of_held = surplus < held ? surplus : held;
    charge_settle(charge, VGPU_KIND_CONTEXT, held, held - of_held);
    charge_give(charge, VGPU_KIND_CONTEXT, surplus - of_held);
    return true;
}

CUresult measure_end_context(struct vgpu *vgpu, uint64_t held, bool made)
{
    uint64_t found;
    bool quiet, fits = true;

    if (!made) {
        charge_settle(&vgpu->charge, VGPU_KIND_CONTEXT, held, 0);
    } else if (residual(vgpu, &found, &quiet) == 0 && quiet) {
        fits = settle(vgpu, held, found);
    } else {
        uint64_t keep = vgpu->charge.control->context_bytes ? held
                        : held < UNKNOWN_CONTEXT            ? held
                                                            : UNKNOWN_CONTEXT;
        charge_settle(&vgpu->charge, VGPU_KIND_CONTEXT, held, keep);
        measure_later(vgpu);
    }
    pthread_mutex_unlock(&vgpu->measure_lock);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
