#include "shim/lease.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MARKERS       64   /* per context */
#define CONTEXTS      16   /* of one device in one process */
#define STREAMS       1024 /* known by name; the work of any more is bounded by markers only */
#define BATCH_MAX     4096
#define LOOK_MS       50 /* a waiting launch looks whether vgpud is still there */
#define RECONNECT_MS  100
#define QUIET_LOOK_MS 250
#define MS            1000000LL

/* An event behind a number of launches. */
struct marker {
    CUevent event;
    int64_t launched; /* when its last launch was made */
    uint32_t launches;
};

struct lease_context {
    CUcontext handle; /* NULL: free */
    struct marker markers[MARKERS];
    unsigned head, tail; /* unretired: tail .. head-1 */
    CUevent reference;   /* first marker of an epoch: device time 0 */
    bool referenced;
    int64_t offset;   /* CLOCK_MONOTONIC of device time 0, as closely as seen */
    int64_t last_ns;  /* device time of the last retired marker */
    CUevent drain;    /* for streams whose work carries no marker yet */
    unsigned waiting; /* threads inside the driver with one of these events */
};

struct lease_stream {
    CUstream handle;
    int context;
};

struct lease {
    struct lease_gate gate;
    _Atomic uint32_t adrift; /* stands in for the page's gate word while vgpud is gone */
    const struct vgpu_lease *page;
    uint64_t vgpu_id;
    uint32_t process;
    struct vgpu_process *own; /* in the account */
    struct lease_driver driver;
    struct lease_link link;

    pthread_mutex_t lock;
    pthread_cond_t calm;        /* `waiting` of some context fell to 0 */
    bool started;               /* the thread */
    _Atomic uint32_t in_flight; /* launches between enter and leave */
    _Atomic uint32_t given_up;  /* epoch word for which IDLE was said: closed for us */
    _Atomic uint32_t wanted;    /* gate word for which WANT was said */
    uint32_t opened;            /* last epoch in which something was launched */
    uint32_t reported;          /* last closed gate word for which DRAINED was said */
    bool unreported;            /* work of `opened` that no DRAINED or IDLE has covered */
    bool
        untracked; /* some of it was launched while the gate was FREE: every stream may hold work */
    int64_t begin, end; /* of the work in this epoch */
    int64_t launch_ns;  /* of one launch, learned; 0: not known */
    int64_t retired;    /* when the last retired work ended */
    uint32_t queued;    /* launches behind unretired markers */
    uint32_t unmarked;  /* launches since the last marker */
    uint32_t batch;     /* launches per marker */
    uint32_t issued;    /* launches that the countdown was given */
    struct lease_context contexts[CONTEXTS];
    struct lease_stream streams[STREAMS];
    int n_streams;
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static uint32_t mode_of(uint32_t word)
{
    return word & VGPU_GATE_MASK;
}

/* Wait until the word is no longer `seen`, at most `ns`. */
static void gate_wait(const _Atomic uint32_t *word, uint32_t seen, int64_t ns)
{
    struct timespec timeout = {ns / 1000000000, ns % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &timeout, NULL, 0);
}

static bool my_turn(const struct lease *l)
{
    uint32_t turn = atomic_load(&l->page->turn);
    return turn == VGPU_TURN_ANY || turn == l->process;
}

static void tell(struct lease *l, enum vgpu_lease_type type, uint32_t word, int64_t begin,
                 int64_t end)
{
    struct vgpu_lease_message m = {.vgpu_id = l->vgpu_id,
                                   .epoch = word >> VGPU_EPOCH_SHIFT,
                                   .begin = (uint64_t)begin,
                                   .end = (uint64_t)end,
                                   .launch_ns = (uint64_t)l->launch_ns};
    vgpu_head_init(&m.head, (enum vgpu_type)type, sizeof m);
    l->link.send(l->link.context, &m);
}

/* --- contexts and streams: all under the lock
 * ----------------------------------------------------------------- */

static struct lease_context *find_context(struct lease *l, CUcontext handle)
{
    for (int i = 0; i < CONTEXTS; i++)
        if (handle && l->contexts[i].handle == handle)
            return &l->contexts[i];
    return NULL;
}

static void destroy_events(struct lease *l, struct lease_context *c)
{
    for (int i = 0; i < MARKERS; i++)
        if (c->markers[i].event)
            l->driver.event_destroy(c->markers[i].event);
    if (c->reference)
        l->driver.event_destroy(c->reference);
    if (c->drain)
        l->driver.event_destroy(c->drain);
}

/* The current context, with its events made at the first use. NULL: none, or no room; its work then
 * goes unbounded. */
static struct lease_context *current_context(struct lease *l)
{
    CUcontext handle = NULL;
    if (l->driver.context_get_current(&handle) != CUDA_SUCCESS || !handle)
        return NULL;
    struct lease_context *c = find_context(l, handle);
    for (int i = 0; !c && i < CONTEXTS; i++)
        if (!l->contexts[i].handle)
            c = &l->contexts[i];
    if (!c || c->handle == handle)
        return c;
    *c = (struct lease_context){.handle = handle};
    bool made = l->driver.event_create(&c->reference, CU_EVENT_DEFAULT) == CUDA_SUCCESS &&
                l->driver.event_create(&c->drain, CU_EVENT_BLOCKING_SYNC) == CUDA_SUCCESS;
    for (int i = 0; made && i < MARKERS; i++)
        made = l->driver.event_create(&c->markers[i].event, CU_EVENT_BLOCKING_SYNC) == CUDA_SUCCESS;
    if (made)
        return c;
    destroy_events(l, c);
    c->handle = NULL;
    return NULL;
}

static bool capturing(const struct lease *l, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return l->driver.stream_is_capturing(stream, &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* Calls of ours must not disturb a capture in whatever mode this thread is. */
static CUstreamCaptureMode relax(const struct lease *l)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    l->driver.exchange_capture_mode(&mode);
    return mode;
}

static void restore(const struct lease *l, CUstreamCaptureMode mode)
{
    l->driver.exchange_capture_mode(&mode);
}

/* --- markers: under the lock, which is let go while the driver waits
 * -------------------------------------------- */

static void learn(struct lease *l, int64_t took, uint32_t launches)
{
    int64_t each = took / (launches ? launches : 1);
    l->launch_ns = l->launch_ns ? l->launch_ns + (each - l->launch_ns) / 4 : each;
    if (l->launch_ns < 1)
        l->launch_ns = 1;
}

/* The oldest marker is done; `seen` is when that was noticed. */
static void retire(struct lease *l, struct lease_context *c, int64_t seen)
{
    struct marker *m = &c->markers[c->tail++ % MARKERS];
    l->queued -= m->launches;
    float ms = 0;
    int64_t device = 0;
    if (c->referenced && l->driver.event_elapsed(&ms, c->reference, m->event) == CUDA_SUCCESS)
        device = (int64_t)((double)ms * 1e6);
    if (device > 0 && seen - device < c->offset)
        c->offset = seen - device;
    int64_t took = seen - m->launched;
    if (device > c->last_ns && device - c->last_ns < took)
        took = device - c->last_ns;
    learn(l, took, m->launches);
    c->last_ns = device;
    int64_t end = device > 0 && c->offset + device < seen ? c->offset + device : seen;
    if (end > l->end)
        l->end = end;
    l->retired = end;
}

static void retire_done(struct lease *l)
{
    for (int i = 0; i < CONTEXTS; i++) {
        struct lease_context *c = &l->contexts[i];
        while (c->handle && c->tail != c->head &&
               l->driver.event_query(c->markers[c->tail % MARKERS].event) != CUDA_ERROR_NOT_READY)
            retire(l, c, now_ns());
    }
}

static void driver_wait(struct lease *l, struct lease_context *c, CUevent event)
{
    c->waiting++;
    pthread_mutex_unlock(&l->lock);
    l->driver.event_synchronize(event);
    pthread_mutex_lock(&l->lock);
    if (--c->waiting == 0)
        pthread_cond_broadcast(&l->calm);
}

/* The context whose oldest marker is the oldest of all; NULL: nothing is marked. */
static struct lease_context *oldest_context(struct lease *l)
{
    struct lease_context *oldest = NULL;
    for (int i = 0; i < CONTEXTS; i++) {
        struct lease_context *c = &l->contexts[i];
        if (c->handle && c->tail != c->head &&
            (!oldest || c->markers[c->tail % MARKERS].launched <
                            oldest->markers[oldest->tail % MARKERS].launched))
            oldest = c;
    }
    return oldest;
}

/* Wait for the oldest marker of all. False: there is none. */
static bool wait_oldest(struct lease *l)
{
    struct lease_context *c = oldest_context(l);
    if (!c)
        return false;
    unsigned tail = c->tail;
    driver_wait(l, c, c->markers[tail % MARKERS].event);
    if (c->handle && c->tail == tail && c->tail != c->head)
        retire(l, c, now_ns());
    return true;
}

static void mark(struct lease *l, CUstream stream)
{
    struct lease_context *c = current_context(l);
    if (!c)
        return;
    if (c->head - c->tail == MARKERS)
        wait_oldest(l);
    if (c->head - c->tail == MARKERS)
        return;
    struct marker *m = &c->markers[c->head % MARKERS];
    if (l->driver.event_record(m->event, stream) != CUDA_SUCCESS)
        return;
    m->launched = now_ns();
    m->launches = l->unmarked;
    l->queued += l->unmarked;
    l->unmarked = 0;
    c->head++;
}

/* The device's clock against ours, once per epoch: short spans keep the float of milliseconds
 * exact. */
static void set_reference(struct lease *l, CUstream stream)
{
    struct lease_context *c = current_context(l);
    if (!c)
        return;
    c->referenced = l->driver.event_record(c->reference, stream) == CUDA_SUCCESS;
    c->offset = INT64_MAX;
    c->last_ns = 0;
}

/* --- the lease thread
 * ----------------------------------------------------------------------------------------- */

/* Put an event behind whatever a stream holds, and wait for it. */
static void drain_stream(struct lease *l, struct lease_context *c, CUstream stream)
{
    if (!c->handle || l->driver.context_push(c->handle) != CUDA_SUCCESS)
        return;
    if (!capturing(l, stream) && l->driver.event_record(c->drain, stream) == CUDA_SUCCESS)
        driver_wait(l, c, c->drain);
    CUcontext popped;
    l->driver.context_pop(&popped);
}

/* Wait until nothing that this process submitted is outstanding. While the gate was FREE launches
 * left no trace, so every stream is asked; the legacy stream only if nothing is being captured,
 * since a capture forbids to touch it. */
static void drain(struct lease *l, bool ask_streams)
{
    while (wait_oldest(l))
        ;
    bool capture = false;
    for (int i = 0; ask_streams && i < l->n_streams; i++)
        capture |= capturing(l, l->streams[i].handle);
    for (int i = 0; ask_streams && i < l->n_streams; i++)
        drain_stream(l, &l->contexts[l->streams[i].context], l->streams[i].handle);
    for (int i = 0; ask_streams && !capture && i < CONTEXTS; i++)
        drain_stream(l, &l->contexts[i], CU_STREAM_LEGACY);
    l->unmarked = 0;
    if (ask_streams)
        l->end = now_ns();
}

static void report_drained(struct lease *l, uint32_t word)
{
    while (atomic_load(&l->in_flight)) {
        pthread_mutex_unlock(&l->lock);
        struct timespec moment = {0, 20000};
        nanosleep(&moment, NULL);
        pthread_mutex_lock(&l->lock);
    }
    drain(l, l->untracked || l->unmarked);
    l->unreported = l->untracked = false;
    l->reported = word;
    tell(l, VGPU_LEASE_DRAINED, word, l->begin, l->end ? l->end : now_ns());
}

/* With the gate TIGHT: when all is done and nothing new comes within the grace, give the turn back.
 */
static void watch_idle(struct lease *l, uint32_t word)
{
    drain(l, l->untracked || l->unmarked);
    l->untracked = false;
    int64_t end = l->end ? l->end : now_ns();
    pthread_mutex_unlock(&l->lock);
    gate_wait(&l->page->gate, word, (int64_t)atomic_load(&l->page->grace_ns));
    pthread_mutex_lock(&l->lock);
    bool nothing_new = !l->queued && !l->unmarked && !atomic_load(&l->in_flight) && l->end <= end;
    if (!nothing_new || atomic_load(&l->page->gate) != word)
        return;
    atomic_store(&l->given_up, word);
    if (atomic_load(&l->in_flight)) { /* one slipped in: it is ours still */
        atomic_store(&l->given_up, 0);
        return;
    }
    l->unreported = false;
    tell(l, VGPU_LEASE_IDLE, word, l->begin, end);
}

static void set_adrift(struct lease *l, bool adrift)
{
    l->gate.word = adrift ? &l->adrift : &l->page->gate;
    atomic_store(&l->wanted, 0);
    atomic_store(&l->given_up, 0);
}

/* vgpud is gone: run unthrottled until it is back. */
static void reconnect(struct lease *l)
{
    set_adrift(l, true);
    while (!l->link.connect(l->link.context)) {
        pthread_mutex_unlock(&l->lock);
        struct timespec pause = {0, RECONNECT_MS * MS};
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&l->lock);
    }
    l->unreported = l->untracked =
        true; /* what was launched adrift; the new vgpud has closed the gate or will */
    l->begin = 0;
    set_adrift(l, false);
}

static void watch(struct lease *l)
{
    uint32_t word = atomic_load(&l->page->gate);
    int64_t wait = QUIET_LOOK_MS * MS;
    if (!l->link.alive(l->link.context)) {
        reconnect(l);
        return;
    }
    /* Also if it launched nothing: vgpud let it in and waits for its word. */
    if (mode_of(word) == VGPU_GATE_CLOSED && (l->unreported || l->reported != word)) {
        report_drained(l, word);
    } else if (mode_of(word) == VGPU_GATE_TIGHT && my_turn(l) &&
               atomic_load(&l->given_up) != word) {
        watch_idle(l, word);
        return;
    }
    pthread_mutex_unlock(&l->lock);
    gate_wait(&l->page->gate, word, wait);
    pthread_mutex_lock(&l->lock);
}

static void *lease_main(void *arg)
{
    struct lease *l = arg;
    relax(l);
    pthread_mutex_lock(&l->lock);
    for (;;)
        watch(l);
    return NULL;
}

static void start_thread(struct lease *l)
{
    if (l->started)
        return;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* the program's signals are not ours to take */
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    pthread_t thread;
    l->started = pthread_create(&thread, &attributes, lease_main, l) == 0;
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* --- the launch's side
 * ---------------------------------------------------------------------------------------- */

static bool admitted(struct lease *l, uint32_t word)
{
    return mode_of(word) == VGPU_GATE_FREE ||
           (mode_of(word) == VGPU_GATE_TIGHT && my_turn(l) && atomic_load(&l->given_up) != word);
}

/* Wait for an open gate; not longer than the bound, whatever vgpud does. */
static uint32_t wait_gate(struct lease *l)
{
    int64_t until = now_ns() + (int64_t)atomic_load(&l->page->longest_wait_ns);
    for (;;) {
        const _Atomic uint32_t *word = l->gate.word;
        uint32_t seen = atomic_load(word);
        atomic_fetch_add(&l->in_flight, 1);
        if (admitted(l, seen) && atomic_load(word) == seen)
            return seen;
        atomic_fetch_sub(&l->in_flight, 1);
        if (atomic_exchange(&l->wanted, seen) != seen)
            tell(l, VGPU_LEASE_WANT, seen, 0, 0);
        gate_wait(word, seen, LOOK_MS * MS);
        if (atomic_load(word) != seen)
            continue;
        if (!l->link.alive(l->link.context))
            set_adrift(l, true); /* the thread reconnects */
        atomic_store(&l->wanted, 0);
        if (now_ns() > until) {
            atomic_fetch_add(&l->in_flight, 1);
            return seen;
        }
    }
}

/* Launches per marker: eight markers for what may be queued, fewer for short work. */
static uint32_t batch_for(const struct lease *l, int64_t limit)
{
    int64_t batch = l->launch_ns ? limit / 8 / l->launch_ns : 1;
    return batch < 1 ? 1 : batch > BATCH_MAX ? BATCH_MAX : (uint32_t)batch;
}

static int64_t queue_limit(const struct lease *l, uint32_t word)
{
    bool is_free = mode_of(word) == VGPU_GATE_FREE;
    return (int64_t)atomic_load(is_free ? &l->page->loose_ns : &l->page->tight_ns);
}

/* How long the work that is queued will take, as far as it can be foretold; INT64_MAX when it
 * cannot: nothing is known yet, or the oldest takes much longer than expected. */
static int64_t queued_ahead(struct lease *l, int64_t limit)
{
    struct lease_context *c = oldest_context(l);
    if (!c)
        return 0; /* less than a batch, and no marker to wait for (its context may be gone) */
    if (!l->launch_ns)
        return INT64_MAX;
    const struct marker *m = &c->markers[c->tail % MARKERS];
    int64_t running = now_ns() - (m->launched > l->retired ? m->launched : l->retired);
    int64_t expected = (int64_t)m->launches * l->launch_ns;
    if (running > expected + limit)
        return INT64_MAX;
    return ((int64_t)l->queued + l->unmarked) * l->launch_ns -
           (running < expected ? running : expected);
}

/* Say when what is queued should be done, so that vgpud can have the next vGPU ready. While the
 * gate is FREE launches are not counted one by one, and nothing is foretold. */
static void foretell(struct lease *l, uint32_t word)
{
    bool tight = mode_of(word) == VGPU_GATE_TIGHT;
    int64_t ahead = tight ? queued_ahead(l, queue_limit(l, word)) : INT64_MAX;
    uint64_t until = ahead == INT64_MAX ? 0 : (uint64_t)(now_ns() + ahead);
    atomic_store_explicit(&l->own->until, until, memory_order_relaxed);
}

/* Wait until the queue is short enough. False: meanwhile the gate has changed. */
static bool bound_queue(struct lease *l, uint32_t word, int64_t limit)
{
    for (;;) {
        retire_done(l);
        int64_t ahead = queued_ahead(l, limit);
        if (ahead <= limit)
            return true;
        const _Atomic uint32_t *gate = l->gate.word;
        if (ahead == INT64_MAX) {
            wait_oldest(l);
        } else {
            pthread_mutex_unlock(&l->lock);
            gate_wait(gate, word, ahead - limit);
            pthread_mutex_lock(&l->lock);
        }
        if (atomic_load(gate) != word)
            return false;
    }
}

static void begin_epoch(struct lease *l, uint32_t word, CUstream stream)
{
    if (mode_of(word) == VGPU_GATE_FREE)
        l->untracked = true;
    if (l->unreported && word >> VGPU_EPOCH_SHIFT == l->opened >> VGPU_EPOCH_SHIFT)
        return;
    l->opened = word;
    l->unreported = true;
    l->begin = now_ns();
    l->end = 0;
    set_reference(l, stream);
    tell(l, VGPU_LEASE_WANT, word, 0, 0); /* this process takes part in the epoch */
}

/* Launches that the countdown let through since it was last set; the one that ended it is not
 * through yet. */
static uint32_t count_free(struct lease *l)
{
    int32_t left = atomic_load_explicit(&l->gate.budget, memory_order_relaxed);
    int32_t made = (int32_t)l->issued - (left > 0 ? left : 1);
    l->issued = 0;
    if (made <= 0)
        return 0;
    atomic_fetch_add_explicit(&l->own->launches, (uint64_t)made, memory_order_relaxed);
    return (uint32_t)made;
}

bool lease_enter(struct lease *l, CUstream stream)
{
    if (capturing(l, stream))
        return false;
    CUstreamCaptureMode mode = relax(l);
    pthread_mutex_lock(&l->lock);
    start_thread(l);
    l->unmarked += count_free(l);
    for (bool room = false; !room;) {
        pthread_mutex_unlock(&l->lock);
        uint32_t word = wait_gate(l);
        pthread_mutex_lock(&l->lock);
        begin_epoch(l, word, stream);
        room = bound_queue(l, word, queue_limit(l, word));
        if (!room)
            atomic_fetch_sub(&l->in_flight, 1);
        l->batch = batch_for(l, queue_limit(l, word));
    }
    pthread_mutex_unlock(&l->lock);
    restore(l, mode);
    return true;
}

void lease_leave(struct lease *l, CUstream stream)
{
    CUstreamCaptureMode mode = relax(l);
    pthread_mutex_lock(&l->lock);
    bool is_free = mode_of(atomic_load(l->gate.word)) == VGPU_GATE_FREE;
    l->unmarked++;
    /* A per-thread stream can be asked by its own thread only, so its work is marked at once. */
    if (is_free || l->unmarked >= l->batch || stream == CU_STREAM_PER_THREAD)
        mark(l, stream);
    foretell(l, l->opened);
    l->issued = is_free ? l->batch : 0;
    atomic_store_explicit(&l->gate.budget, (int32_t)l->issued, memory_order_relaxed);
    atomic_fetch_add_explicit(&l->own->launches, 1, memory_order_relaxed);
    atomic_fetch_sub(&l->in_flight, 1);
    pthread_mutex_unlock(&l->lock);
    restore(l, mode);
}

/* --- life
 * -----------------------------------------------------------------------------------------------------
 */

struct lease *lease_create(const struct vgpu_lease *page, uint64_t vgpu_id, uint32_t process,
                           struct vgpu_process *own, const struct lease_driver *driver,
                           const struct lease_link *link)
{
    struct lease *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->page = page;
    l->vgpu_id = vgpu_id;
    l->process = process;
    l->own = own;
    l->driver = *driver;
    l->link = *link;
    l->gate.word = &page->gate;
    l->adrift = VGPU_GATE_FREE;
    l->batch = 1;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->calm, NULL);
    return l;
}

void lease_abandon(struct lease *l)
{
    free(l); /* the thread stayed with the parent, and so did the contexts */
}

struct lease_gate *lease_gate(struct lease *l)
{
    return &l->gate;
}

void lease_stream_created(struct lease *l, CUstream stream)
{
    pthread_mutex_lock(&l->lock);
    struct lease_context *c = current_context(l);
    if (c && l->n_streams < STREAMS)
        l->streams[l->n_streams++] = (struct lease_stream){stream, (int)(c - l->contexts)};
    pthread_mutex_unlock(&l->lock);
}

void lease_stream_dying(struct lease *l, CUstream stream)
{
    CUstreamCaptureMode mode = relax(l);
    pthread_mutex_lock(&l->lock);
    for (int i = 0; i < l->n_streams; i++) {
        if (l->streams[i].handle != stream)
            continue;
        if (!capturing(l, stream))
            mark(l, stream); /* its work goes on after it */
        l->streams[i] = l->streams[--l->n_streams];
        break;
    }
    pthread_mutex_unlock(&l->lock);
    restore(l, mode);
}

void lease_context_dying(struct lease *l, CUcontext context)
{
    pthread_mutex_lock(&l->lock);
    struct lease_context *c = find_context(l, context);
    if (c) {
        while (c->waiting)
            pthread_cond_wait(&l->calm, &l->lock);
        for (; c->tail != c->head; c->tail++)
            l->queued -= c->markers[c->tail % MARKERS].launches;
        destroy_events(l, c);
        for (int i = 0; i < l->n_streams; i++)
            if (l->streams[i].context == (int)(c - l->contexts))
                l->streams[i--] = l->streams[--l->n_streams];
        c->handle = NULL;
    }
    pthread_mutex_unlock(&l->lock);
}
