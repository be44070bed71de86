#include "vgpud/leases.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MS 1000000LL

#define TIGHT_NS 1500000 /* queued ahead while others wait */
#define LOOSE_NS 20000000
#define GRACE_NS 150000
/* Work that is to end later than this is not foretold. */
#define FORETOLD_MAX_NS (100 * MS)

/* A process that does not report is looked at this often: is it stopped, dead? */
#define LOOK_NS (20 * MS)
/* And after this long it has lost its say, whatever the reason: the card's own time slicing shares
 * it out from there. */
#define DRAIN_MAX_NS (5000 * MS)

enum standing {
    ABSENT,
    CALM,    /* nothing to run, nothing running */
    WANTING, /* a launch waits */
    RUNNING, /* let in */
};

struct lease_process {
    uint8_t standing; /* enum standing */
    bool owes;        /* a report: its gate was closed while it ran */
    pid_t pid;
    int64_t launch_ns;
};

struct lease_member {
    struct vgpu_lease *page;            /* NULL: free */
    const struct vgpu_process *account; /* by index of the process */
    struct arbiter_share share;
    uint32_t epoch;
    enum vgpu_gate gate;
    uint32_t turn, last_turn;
    int64_t begin, end; /* of this epoch, over the processes that have reported */
    int64_t closed_at, look_at;
    uint32_t n_processes; /* highest index in use + 1 */
    struct lease_process processes[VGPU_MAX_PROCESSES];
};

struct leases {
    struct arbiter arbiter;
    struct lease_member *members[ARBITER_MEMBERS];
    int64_t now;
    bool unsettled; /* some member may have become drained or wanting since it was last looked at */
};

static void futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void publish(struct lease_member *m)
{
    atomic_store(&m->page->turn, m->turn);
    atomic_store(&m->page->gate, m->epoch << VGPU_EPOCH_SHIFT | (uint32_t)m->gate);
    futex_wake(&m->page->gate);
}

/* Kernels longer than what may be queued would add up over the processes of a vGPU: then one
 * process at a time has the turn. */
static uint32_t choose_turn(const struct lease_member *m)
{
    int wanting = 0;
    int64_t longest = 0;
    uint32_t next = VGPU_TURN_ANY, first = VGPU_TURN_ANY;
    for (uint32_t i = 0; i < m->n_processes; i++) {
        const struct lease_process *p = &m->processes[i];
        if (p->standing != WANTING)
            continue;
        wanting++;
        longest = p->launch_ns > longest ? p->launch_ns : longest;
        if (first == VGPU_TURN_ANY)
            first = i;
        if (next == VGPU_TURN_ANY && i > m->last_turn)
            next = i;
    }
    if (wanting < 2 || longest * 2 <= TIGHT_NS)
        return VGPU_TURN_ANY;
    return next != VGPU_TURN_ANY ? next : first;
}

static void let_in(struct lease_member *m)
{
    for (uint32_t i = 0; i < m->n_processes; i++)
        if (m->processes[i].standing == WANTING && (m->turn == VGPU_TURN_ANY || m->turn == i))
            m->processes[i].standing = RUNNING;
}

static void open_for(struct lease_member *m, enum vgpu_gate gate)
{
    if (m->gate == VGPU_GATE_CLOSED) {
        m->epoch++;
        m->begin = INT64_MAX;
        m->end = 0;
    }
    m->gate = gate;
    m->turn = gate == VGPU_GATE_FREE ? VGPU_TURN_ANY : choose_turn(m);
    if (m->turn != VGPU_TURN_ANY)
        m->last_turn = m->turn;
    let_in(m);
}

/* Whoever was let in owes a report. */
static void close_for(struct leases *l, struct lease_member *m)
{
    for (uint32_t i = 0; i < m->n_processes; i++) {
        struct lease_process *p = &m->processes[i];
        p->owes = p->standing == RUNNING;
        if (p->owes)
            p->standing = CALM;
    }
    m->gate = VGPU_GATE_CLOSED;
    m->closed_at = l->now;
    m->look_at = l->now + LOOK_NS;
    l->unsettled = true;
}

static void on_gate(void *context, int member, enum arbiter_gate gate)
{
    struct leases *l = context;
    struct lease_member *m = l->members[member];
    if (gate == ARBITER_CLOSED)
        close_for(l, m);
    else
        open_for(m, gate == ARBITER_FREE ? VGPU_GATE_FREE : VGPU_GATE_TIGHT);
    publish(m);
}

/* When the last of those that owe a report expects to be done. The job writes this page: a far
 * future is as good as not known. */
static int64_t on_foretold(void *context, int member)
{
    struct leases *l = context;
    const struct lease_member *m = l->members[member];
    int64_t last = 0;
    for (uint32_t i = 0; i < m->n_processes; i++) {
        if (!m->processes[i].owes)
            continue;
        uint64_t until = atomic_load_explicit(&m->account[i].until, memory_order_relaxed);
        if (until == 0 || until > (uint64_t)(l->now + FORETOLD_MAX_NS))
            return 0;
        last = (int64_t)until > last ? (int64_t)until : last;
    }
    return last;
}

static bool any(const struct lease_member *m, enum standing standing)
{
    for (uint32_t i = 0; i < m->n_processes; i++)
        if (m->processes[i].standing == standing)
            return true;
    return false;
}

static bool owing(const struct lease_member *m)
{
    for (uint32_t i = 0; i < m->n_processes; i++)
        if (m->processes[i].owes)
            return true;
    return false;
}

static int64_t begin_of(const struct lease_member *m)
{
    return m->begin == INT64_MAX ? 0 : m->begin;
}

/* The turn was one process' and it is done, but others of the vGPU wait: they go on in the same
 * slice. */
static bool pass_turn(struct lease_member *m)
{
    if (m->turn == VGPU_TURN_ANY || !any(m, WANTING))
        return false;
    m->epoch++;
    m->turn = choose_turn(m);
    if (m->turn != VGPU_TURN_ANY)
        m->last_turn = m->turn;
    let_in(m);
    publish(m);
    return true;
}

/* Tell the arbiter what has become of one member. */
static void settle_one(struct leases *l, int member)
{
    struct lease_member *m = l->members[member];
    enum arbiter_state state = l->arbiter.members[member].state;
    if (state == ARBITER_DRAINING && !owing(m)) {
        if (any(m, WANTING))
            arbiter_want(&l->arbiter, member, l->now);
        arbiter_drained(&l->arbiter, member, begin_of(m), m->end ? m->end : l->now, l->now);
    } else if (state == ARBITER_HOLDING && m->gate == VGPU_GATE_TIGHT && !any(m, RUNNING) &&
               !pass_turn(m)) {
        bool more = any(m, WANTING);
        arbiter_idle(&l->arbiter, member, begin_of(m), m->end ? m->end : l->now, l->now);
        if (more && l->arbiter.members[member].state == ARBITER_QUIET)
            arbiter_want(&l->arbiter, member, l->now);
    } else if ((state == ARBITER_QUIET || state == ARBITER_DRAINING) && any(m, WANTING)) {
        arbiter_want(&l->arbiter, member, l->now);
    }
}

/* What the arbiter answers may make another member ready: go on until nothing changes. */
static void settle(struct leases *l)
{
    for (int round = 0; l->unsettled && round < ARBITER_MEMBERS; round++) {
        l->unsettled = false;
        for (int i = 0; i < ARBITER_MEMBERS; i++)
            if (l->members[i])
                settle_one(l, i);
    }
}

struct leases *leases_create(double sms)
{
    struct leases *l = calloc(1, sizeof *l);
    if (l)
        arbiter_init(&l->arbiter, sms, on_gate, on_foretold, l);
    return l;
}

void leases_free(struct leases *l)
{
    for (int i = 0; l && i < ARBITER_MEMBERS; i++)
        free(l->members[i]);
    free(l);
}

/* A launch waits at most until everyone had the longest turn, several times over. */
static int64_t longest_wait(const struct leases *l)
{
    int64_t sum = 1000 * MS;
    for (int i = 0; i < ARBITER_MEMBERS; i++)
        if (l->members[i])
            sum += 20 * l->members[i]->share.slice_ns;
    return sum + DRAIN_MAX_NS;
}

static void publish_bounds(struct leases *l)
{
    int64_t wait = longest_wait(l);
    for (int i = 0; i < ARBITER_MEMBERS; i++)
        if (l->members[i])
            atomic_store(&l->members[i]->page->longest_wait_ns, (uint64_t)wait);
}

int leases_add(struct leases *l, struct vgpu_lease *page, const struct vgpu_process *account,
               struct arbiter_share share)
{
    int member = 0;
    while (member < ARBITER_MEMBERS && l->members[member])
        member++;
    struct lease_member *m = member < ARBITER_MEMBERS ? calloc(1, sizeof *m) : NULL;
    if (!m)
        return -1;
    m->page = page;
    m->account = account;
    m->share = share;
    m->epoch = (atomic_load(&page->gate) >> VGPU_EPOCH_SHIFT) + 1;
    m->turn = VGPU_TURN_ANY;
    l->members[member] = m;
    atomic_store(&page->tight_ns, TIGHT_NS);
    atomic_store(&page->loose_ns, LOOSE_NS);
    atomic_store(&page->grace_ns, GRACE_NS);
    arbiter_join(&l->arbiter, member, share);
    publish_bounds(l);
    publish(m);
    return member;
}

void leases_change(struct leases *l, int member, struct arbiter_share share, int64_t now)
{
    l->now = now;
    l->members[member]->share = share;
    arbiter_change(&l->arbiter, member, share, now);
    publish_bounds(l);
    l->unsettled = true;
    settle(l);
}

void leases_remove(struct leases *l, int member, int64_t now)
{
    l->now = now;
    struct lease_member *m = l->members[member];
    l->members[member] = NULL;
    arbiter_leave(&l->arbiter, member, now);
    free(m);
    publish_bounds(l);
    l->unsettled = true;
    settle(l);
}

static void merge_times(struct leases *l, struct lease_member *m,
                        const struct vgpu_lease_message *message)
{
    int64_t begin = (int64_t)message->begin, end = (int64_t)message->end;
    if (begin > 0 && begin < m->begin)
        m->begin = begin;
    if (end > m->end && end <= l->now)
        m->end = end;
}

/* A process says WANT when it waits at a closed gate, and when it is the first time that it goes
 * through an open one. */
static void want(struct lease_member *m, struct lease_process *p, uint32_t index)
{
    bool open = m->gate != VGPU_GATE_CLOSED && (m->turn == VGPU_TURN_ANY || m->turn == index);
    p->standing = open ? RUNNING : WANTING;
}

static void handle(struct leases *l, struct lease_member *m, uint32_t index,
                   const struct vgpu_lease_message *message)
{
    struct lease_process *p = &m->processes[index];
    bool current = message->epoch == (m->epoch & (UINT32_MAX >> VGPU_EPOCH_SHIFT));
    switch ((enum vgpu_lease_type)message->head.type) {
    case VGPU_LEASE_WANT:
        want(m, p, index);
        break;
    case VGPU_LEASE_IDLE:
        if (!current || m->gate != VGPU_GATE_TIGHT || p->standing != RUNNING)
            return;
        p->standing = CALM;
        merge_times(l, m, message);
        break;
    case VGPU_LEASE_DRAINED:
        if (!p->owes)
            return;
        p->owes = false;
        merge_times(l, m, message);
        break;
    }
    l->unsettled = true;
}

void leases_message(struct leases *l, int member, uint32_t index, pid_t pid,
                    const struct vgpu_lease_message *message, int64_t now)
{
    struct lease_member *m = l->members[member];
    if (!m || index >= VGPU_MAX_PROCESSES)
        return;
    l->now = now;
    if (index >= m->n_processes)
        m->n_processes = index + 1;
    struct lease_process *p = &m->processes[index];
    if (p->standing == ABSENT || p->pid != pid)
        *p = (struct lease_process){.standing = CALM, .pid = pid};
    p->launch_ns = message->launch_ns < INT64_MAX ? (int64_t)message->launch_ns : 0;
    handle(l, m, index, message);
    settle(l);
}

void leases_gone(struct leases *l, int member, uint32_t index, int64_t now)
{
    struct lease_member *m = l->members[member];
    if (!m || index >= m->n_processes)
        return;
    l->now = now;
    m->processes[index] = (struct lease_process){.standing = ABSENT};
    l->unsettled = true;
    settle(l);
}

/* T (stopped) or t (traced), Z or X (dead): it will not report. */
static bool silenced(pid_t pid)
{
    char path[32], text[256];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return true;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    const char *state = strrchr(text, ')');
    return state && state[1] == ' ' && strchr("TtZX", state[2]);
}

/* The gate has been closed for a while and some have not reported. */
static void look(struct leases *l, struct lease_member *m)
{
    bool too_long = l->now - m->closed_at >= DRAIN_MAX_NS;
    for (uint32_t i = 0; i < m->n_processes; i++) {
        struct lease_process *p = &m->processes[i];
        if (!p->owes || !(too_long || silenced(p->pid)))
            continue;
        p->owes = false;
        l->unsettled = true;
    }
    m->look_at = l->now + LOOK_NS;
}

/* A holder that is stopped with its gate TIGHT says nothing either: the end of its slice closes the
 * gate, and look() follows. */
void leases_timer(struct leases *l, int64_t now)
{
    l->now = now;
    for (int i = 0; i < ARBITER_MEMBERS; i++) {
        struct lease_member *m = l->members[i];
        if (m && l->arbiter.members[i].state == ARBITER_DRAINING && m->look_at <= now)
            look(l, m);
    }
    if (arbiter_deadline(&l->arbiter) <= now) {
        arbiter_timer(&l->arbiter, now);
        l->unsettled = true;
    }
    settle(l);
}

int64_t leases_deadline(const struct leases *l)
{
    int64_t at = arbiter_deadline(&l->arbiter);
    for (int i = 0; i < ARBITER_MEMBERS; i++) {
        const struct lease_member *m = l->members[i];
        if (m && l->arbiter.members[i].state == ARBITER_DRAINING && m->look_at < at)
            at = m->look_at;
    }
    return at;
}

struct arbiter_numbers leases_numbers(struct leases *l, int member, int64_t now)
{
    return arbiter_numbers(&l->arbiter, member, now);
}
