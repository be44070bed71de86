/* work.c - commands: done at once, or held back until what they wait for has happened.
 *
 * The order of the GPU's own queue (timeline.c) expresses every dependency within this process on
 * one GPU. Host functions, waits for values in memory, and events of other GPUs or processes are
 * outside it: such a command, and all after it in its stream, is held back, and a worker thread
 * does it when its time has come.
 */
#include "sim.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POLL_NS 100000ull /* looking at a value in memory */

static struct {
    pthread_cond_t wake; /* the worker: something was held back */
    pthread_cond_t done; /* waiters: the worker did something */
    bool started;
    uint64_t number;
} worker = {.done = PTHREAD_COND_INITIALIZER};

/* --- occupying the GPU ---------------------------------------------------------------------- */

static void lift(_Atomic uint64_t *point, uint64_t value)
{
    uint64_t old = atomic_load_explicit(point, memory_order_relaxed);
    while (old < value && !atomic_compare_exchange_weak(point, &old, value))
        ;
}

static bool is_blocking(CUstream s)
{
    return !s->legacy && !(s->flags & CU_STREAM_NON_BLOCKING);
}

/* What the next command of the stream comes after. */
static uint64_t dependency(CUstream s)
{
    uint64_t tail = s->tail, other = 0;
    if (s->legacy)
        other = s->ctx->blocking_tail;
    else if (is_blocking(s))
        other = s->ctx->legacy->tail;
    return tail > other ? tail : other;
}

/* All so far in the stream is done at this point. */
static void set_tail(CUstream s, uint64_t tail)
{
    atomic_store_explicit(&s->tail, tail, memory_order_relaxed);
    lift(&s->ctx->tail, tail);
    if (is_blocking(s))
        lift(&s->ctx->blocking_tail, tail);
}

void work_occupy(CUstream s, uint64_t ns)
{
    CUcontext ctx = s->ctx;
    struct device *d = device_of(ctx);
    uint64_t tail = dependency(s);
    if (ns) {
        /* A launch waits when too many are on their way, as for room in a real queue. */
        uint64_t n = atomic_fetch_add_explicit(&ctx->launches, 1, memory_order_relaxed);
        _Atomic uint64_t *slot = &ctx->in_flight[n % SIM_IN_FLIGHT];
        if (unlikely(*slot > d->account->consumed))
            gpusim_wait(sim.state, sim.process, d->gpu, *slot, 0);
        tail = gpusim_submit(sim.state, sim.process, d->gpu, ns);
        atomic_store_explicit(slot, tail, memory_order_relaxed);
    } else if (tail == s->tail) {
        return;
    }
    set_tail(s, tail);
}

/* --- doing ---------------------------------------------------------------------------------- */

static void do_copy(CUstream s, struct work *w)
{
    const struct area *to = &w->copy.to, *from = &w->copy.from;
    bool flat = w->copy.height == 1 && w->copy.depth == 1;
    for (size_t z = 0; !flat && z < w->copy.depth; z++)
        for (size_t y = 0; y < w->copy.height; y++)
            memmove(to->base + z * to->slice + y * to->pitch,
                    from->base + z * from->slice + y * from->pitch, w->copy.width);
    if (flat)
        memmove(to->base, from->base, w->copy.width);
    work_occupy(s, w->copy.device_bytes * 1000000000u / device_of(s->ctx)->spec->bandwidth);
}

static void set_row(char *p, size_t width, unsigned element, unsigned value)
{
    if (element == 1) {
        memset(p, (int)value, width);
        return;
    }
    for (size_t i = 0; i < width; i++) {
        if (element == 2)
            ((uint16_t *)p)[i] = (uint16_t)value;
        else
            ((uint32_t *)p)[i] = value;
    }
}

static void do_set(CUstream s, struct work *w)
{
    for (size_t y = 0; y < w->set.height; y++)
        set_row(w->set.base + y * w->set.pitch, w->set.width, w->set.element, w->set.value);
    uint64_t bytes = w->set.width * w->set.element * w->set.height;
    work_occupy(s, bytes * 1000000000u / device_of(s->ctx)->spec->bandwidth);
}

static void do_value(CUstream s, const CUstreamBatchMemOpParams *op)
{
    if (op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32)
        __atomic_store_n((uint32_t *)op->writeValue.address, op->writeValue.value,
                         __ATOMIC_RELEASE);
    else if (op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64)
        __atomic_store_n((uint64_t *)op->writeValue.address, op->writeValue.value64,
                         __ATOMIC_RELEASE);
    work_occupy(s, 0);
}

static void do_wait(CUstream s, struct work *w)
{
    uint64_t work = 0, tail = dependency(s);
    sim_lock();
    if (!event_local(w->event.event, s->ctx, w->event.version, &work))
        work = 0; /* it was waited for before */
    sim_unlock();
    set_tail(s, tail > work ? tail : work);
}

static void do_host(struct work *w)
{
    if (w->host.callback)
        w->host.callback(w->host.stream, CUDA_SUCCESS, w->host.data);
    else
        w->host.fn(w->host.data);
}

CUresult work_do(CUstream s, struct work *w)
{
    CUresult rc = CUDA_SUCCESS;
    switch (w->type) {
    case WORK_KERNEL:
        return kernel_do(s, w);
    case WORK_COPY:
        do_copy(s, w);
        break;
    case WORK_SET:
        do_set(s, w);
        break;
    case WORK_HOST:
        do_host(w);
        break;
    case WORK_RECORD:
        sim_lock();
        event_record(w->event.event, s, w->event.version);
        sim_unlock();
        break;
    case WORK_WAIT:
        do_wait(s, w);
        break;
    case WORK_ALLOC:
    case WORK_FREE:
        rc = memory_do(s, w);
        break;
    case WORK_VALUE:
        do_value(s, &w->value);
        break;
    case WORK_NOTHING:
    case WORK_GRAPH:
        break;
    }
    work_drop(w);
    return rc;
}

void work_drop(struct work *w)
{
    if (w->type == WORK_COPY) {
        free(w->copy.staging);
        free(w->copy.given);
        w->copy.staging = NULL;
        w->copy.given = NULL;
    }
}

/* --- holding back --------------------------------------------------------------------------- */

static bool value_reached(const CUstreamBatchMemOpParams *op)
{
    if (op->operation != CU_STREAM_MEM_OP_WAIT_VALUE_32 &&
        op->operation != CU_STREAM_MEM_OP_WAIT_VALUE_64)
        return true;
    bool wide = op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
    uint64_t wanted = wide ? op->waitValue.value64 : op->waitValue.value;
    uint64_t now = wide ? __atomic_load_n((uint64_t *)op->waitValue.address, __ATOMIC_ACQUIRE)
                        : __atomic_load_n((uint32_t *)op->waitValue.address, __ATOMIC_ACQUIRE);
    switch (op->waitValue.flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return wide ? (int64_t)(now - wanted) >= 0
                    : (int32_t)((uint32_t)now - (uint32_t)wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return now == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
        return (now & wanted) != 0;
    default:
        return (~(now | wanted) & (wide ? UINT64_MAX : UINT32_MAX)) != 0;
    }
}

/* Is it outside the GPU's own order? sim.lock held. */
static bool waits(CUstream s, const struct work *w)
{
    uint64_t work;
    if (w->type == WORK_HOST)
        return true;
    if (w->type == WORK_WAIT)
        return !event_local(w->event.event, s->ctx, w->event.version, &work) &&
               !event_done(w->event.event, w->event.version, NULL);
    return w->type == WORK_VALUE && !value_reached(&w->value);
}

/* Does anything held that the stream's command `number` comes after remain? */
static bool behind(CUstream s, uint64_t number)
{
    if (is_blocking(s))
        return s->ctx->legacy->held && s->ctx->legacy->held->number < number;
    for (CUstream other = s->ctx->streams; s->legacy && other; other = other->next)
        if (is_blocking(other) && other->held && other->held->number < number)
            return true;
    return false;
}

bool work_held(CUstream s)
{
    return s->held || behind(s, UINT64_MAX);
}

/* Has the time of a held command come? If not, *look is lowered to when to look again. */
static bool ready(CUstream s, const struct held *h, uint64_t *look)
{
    uint64_t when = 0, work;
    if (behind(s, h->number))
        return false;
    if (h->work.type == WORK_HOST) {
        when = gpusim_expect(sim.state, sim.process, device_of(s->ctx)->gpu, dependency(s));
    } else if (h->work.type == WORK_WAIT) {
        CUevent event = h->work.event.event;
        if (!event_local(event, s->ctx, h->work.event.version, &work) &&
            !event_done(event, h->work.event.version, &when) && !when)
            return false;
    } else if (h->work.type == WORK_VALUE && !value_reached(&h->work.value)) {
        when = gpusim_now() + POLL_NS;
    }
    if (when && when < *look)
        *look = when;
    return !when;
}

static bool is_event(const struct work *w)
{
    return w->type == WORK_RECORD || w->type == WORK_WAIT;
}

static void pop(CUstream s)
{
    struct held *h = s->held;
    s->held = h->next;
    if (is_event(&h->work))
        event_unhold(h->work.event.event);
    free(h);
    if (!s->held) {
        s->held_end = &s->held;
        s->gated = false;
        s->ctx->gated--;
        if (s->doomed)
            stream_free(s);
    }
    pthread_cond_broadcast(&worker.done);
}

/* Do one held command whose time has come. */
static bool do_one(uint64_t *look)
{
    for (CUcontext ctx = sim.contexts; ctx; ctx = ctx->next) {
        if (!ctx->gated)
            continue;
        for (CUstream s = ctx->streams; s; s = s->next) {
            struct held *h = s->held;
            if (!h || h->running || !ready(s, h, look))
                continue;
            h->running = true;
            sim_unlock();
            if (work_do(s, &h->work) != CUDA_SUCCESS)
                ctx->error = CUDA_ERROR_LAUNCH_FAILED;
            sim_lock();
            pop(s);
            return true;
        }
    }
    return false;
}

static void *work(void *arg)
{
    (void)arg;
    pthread_setname_np(pthread_self(), "cuda-worker");
    sim_lock();
    for (;;) {
        uint64_t look = UINT64_MAX;
        if (do_one(&look))
            continue;
        struct timespec when = {.tv_sec = (time_t)(look / 1000000000u),
                                .tv_nsec = (long)(look % 1000000000u)};
        if (look == UINT64_MAX)
            pthread_cond_wait(&worker.wake, &sim.lock);
        else
            pthread_cond_timedwait(&worker.wake, &sim.lock, &when);
    }
    return NULL;
}

static CUresult start_worker(void)
{
    pthread_condattr_t attr;
    pthread_t thread_id;
    sigset_t all, before;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&worker.wake, &attr);
    pthread_condattr_destroy(&attr);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&thread_id, NULL, work, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    NEED(rc == 0, CUDA_ERROR_OPERATING_SYSTEM);
    pthread_detach(thread_id);
    worker.started = true;
    return CUDA_SUCCESS;
}

static CUresult hold(CUstream s, struct work *w)
{
    if (!worker.started)
        TRY(start_worker());
    struct held *h = malloc(sizeof(*h));
    NEED(h, CUDA_ERROR_OUT_OF_MEMORY);
    *h = (struct held){.number = ++worker.number, .work = *w};
    if (!s->held) {
        s->held_end = &s->held;
        s->gated = true;
        s->ctx->gated++;
    }
    if (is_event(w))
        event_hold(w->event.event);
    *s->held_end = h;
    s->held_end = &h->next;
    pthread_cond_signal(&worker.wake);
    return CUDA_SUCCESS;
}

void work_wait_held(CUstream s)
{
    while (work_held(s))
        pthread_cond_wait(&worker.done, &sim.lock);
}

void work_wait_any(void)
{
    pthread_cond_wait(&worker.done, &sim.lock);
}

void work_forget(CUstream s)
{
    while (s->held && s->held->running)
        pthread_cond_wait(&worker.done, &sim.lock);
    while (s->held) {
        work_drop(&s->held->work);
        pop(s);
    }
}

static CUresult submit_slowly(CUstream s, struct work *w)
{
    sim_lock();
    if (work_held(s) || waits(s, w)) {
        CUresult rc = hold(s, w);
        sim_unlock();
        return rc;
    }
    sim_unlock();
    return work_do(s, w);
}

CUresult work_submit(CUstream s, struct work *w)
{
    if (unlikely(sim.captures)) {
        if (s->capture)
            return capture_add(s, w);
        if (s->legacy)
            TRY(capture_forbids_legacy(s->ctx));
    }
    if (unlikely(s->ctx->gated || w->type == WORK_HOST || w->type == WORK_WAIT ||
                 w->type == WORK_VALUE))
        return submit_slowly(s, w);
    return work_do(s, w);
}
