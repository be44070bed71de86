/* The arbiter in virtual time: saturating clients on a device that time-slices between processes
 * every 2 ms, against the fluid schedule. Everything is arithmetic, so the figures are the same on
 * every machine. */
#include "claim.h"
#include "vgpud/arbiter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define US  1000LL
#define MS  1000000LL
#define SEC 1000000000LL
#ifdef __SANITIZE_ADDRESS__ /* a part is enough to find what sanitizers find */
#define EVERY       23
#define FUZZ_ROUNDS 10
#else
#define EVERY       1
#define FUZZ_ROUNDS 300
#endif

#define MAX_CLIENTS 8
#define MAX_PROCS   4
#define HOST_GAP    (20 * US) /* of a client that synchronises, between two launches */
#define REPORT      (60 * US) /* from the end of the work to vgpud's knowing */
#define QUANTUM     (2 * MS)  /* of the device */
#define TIGHT       (1500 * US)
#define LOOSE       (5 * MS)

struct client {
    double guaranteed, max;
    int64_t kernel_ns, slice_ns, burst_ns;
    int sync_every; /* 0: never */
    int procs;
    int64_t work_ns, period_ns; /* not saturating: this much work in every period */
    bool foretells;             /* when what it has submitted will be done */
    int64_t early_ns;           /* it says so much too early */
};

struct process {
    int64_t queued;   /* ns of work on the device queue */
    int64_t ready_at; /* when the host may launch next */
    int since_sync;
};

struct sim {
    struct arbiter arbiter;
    int n;
    struct client client[MAX_CLIENTS];
    struct process process[MAX_CLIENTS][MAX_PROCS];
    enum arbiter_gate gate[MAX_CLIENTS];
    bool wanting[MAX_CLIENTS], draining[MAX_CLIENTS];
    int64_t report_at[MAX_CLIENTS], idle_since[MAX_CLIENTS], backlog[MAX_CLIENTS],
        arrives[MAX_CLIENTS];
    int64_t started[MAX_CLIENTS], worst_latency[MAX_CLIENTS];
    int64_t busy[MAX_CLIENTS], begin[MAX_CLIENTS];
    int last[MAX_CLIENTS]; /* the process that launched last */
    int64_t now, total_busy;
    int run_client, run_proc;
    int64_t quantum_left;
};

static void on_gate(void *context, int member, enum arbiter_gate gate)
{
    struct sim *s = context;
    if (s->gate[member] == ARBITER_CLOSED && gate != ARBITER_CLOSED)
        s->begin[member] = -1;
    s->gate[member] = gate;
    s->draining[member] = gate == ARBITER_CLOSED;
    s->report_at[member] = ARBITER_NEVER;
    s->wanting[member] = false;
    s->idle_since[member] = ARBITER_NEVER;
}

static int64_t outstanding(const struct sim *s, int c);

static int64_t on_foretold(void *context, int member)
{
    const struct sim *s = context;
    const struct client *c = &s->client[member];
    return c->foretells ? s->now + outstanding(s, member) - c->early_ns : 0;
}

static bool saturating(const struct sim *s, int c)
{
    return s->client[c].period_ns == 0;
}

static int64_t outstanding(const struct sim *s, int c)
{
    int64_t sum = 0;
    for (int p = 0; p < s->client[c].procs; p++)
        sum += s->process[c][p].queued;
    return sum;
}

static bool may_launch(const struct sim *s, int c, int p)
{
    const struct process *q = &s->process[c][p];
    const struct client *cl = &s->client[c];
    if (q->ready_at > s->now || (!saturating(s, c) && s->backlog[c] <= 0))
        return false;
    if (cl->sync_every && q->since_sync >= cl->sync_every && q->queued > 0)
        return false;
    /* The bound is the vGPU's: its processes share what may be queued ahead, so that long kernels
     * come one at a time. */
    int64_t ahead = s->gate[c] == ARBITER_FREE ? LOOSE : TIGHT, queued = outstanding(s, c);
    return queued == 0 || queued + cl->kernel_ns <= ahead;
}

static void launch(struct sim *s, int c, int p)
{
    struct process *q = &s->process[c][p];
    if (s->client[c].sync_every && q->since_sync >= s->client[c].sync_every)
        q->since_sync = 0;
    q->queued += s->client[c].kernel_ns;
    q->since_sync++;
    s->last[c] = p;
    if (s->begin[c] < 0)
        s->begin[c] = s->now;
    if (!saturating(s, c))
        s->backlog[c] -= s->client[c].kernel_ns;
}

/* The host side of every client at this instant. */
static void clients(struct sim *s)
{
    for (int c = 0; c < s->n; c++) {
        for (int turn = 0; turn < s->client[c].procs; turn++) {
            int p = (s->last[c] + 1 + turn) % s->client[c].procs;
            while (s->gate[c] != ARBITER_CLOSED && may_launch(s, c, p))
                launch(s, c, p);
            bool blocked = s->gate[c] == ARBITER_CLOSED && s->process[c][p].ready_at <= s->now &&
                           (saturating(s, c) || s->backlog[c] > 0);
            if (blocked && !s->wanting[c]) {
                s->wanting[c] = true;
                arbiter_want(&s->arbiter, c, s->now);
            }
        }
        if (s->draining[c] && outstanding(s, c) == 0 && s->report_at[c] == ARBITER_NEVER)
            s->report_at[c] = s->now + REPORT;
        bool idle = s->gate[c] == ARBITER_TIGHT && !saturating(s, c) && s->backlog[c] <= 0 &&
                    outstanding(s, c) == 0;
        if (idle && s->idle_since[c] == ARBITER_NEVER)
            s->idle_since[c] = s->now;
        else if (!idle)
            s->idle_since[c] = ARBITER_NEVER;
    }
}

static void reports(struct sim *s)
{
    for (int c = 0; c < s->n; c++) {
        if (s->draining[c] && s->report_at[c] <= s->now) {
            s->draining[c] = false;
            s->report_at[c] = ARBITER_NEVER;
            arbiter_drained(&s->arbiter, c, s->begin[c], s->now - REPORT, s->now);
        }
        if (s->idle_since[c] != ARBITER_NEVER && s->idle_since[c] + 150 * US <= s->now)
            arbiter_idle(&s->arbiter, c, s->begin[c], s->idle_since[c], s->now);
        if (!saturating(s, c) && s->arrives[c] <= s->now) {
            s->backlog[c] += s->client[c].work_ns;
            s->started[c] = s->now;
            s->arrives[c] += s->client[c].period_ns;
        }
    }
    if (arbiter_deadline(&s->arbiter) <= s->now)
        arbiter_timer(&s->arbiter, s->now);
}

/* The device goes to the next process that has work. */
static bool device_pick(struct sim *s)
{
    if (s->run_client >= 0 && s->process[s->run_client][s->run_proc].queued > 0 &&
        s->quantum_left > 0)
        return true;
    int at = s->run_client < 0 ? 0 : s->run_client * MAX_PROCS + s->run_proc;
    for (int step = 1; step <= MAX_CLIENTS * MAX_PROCS; step++) {
        int next = (at + step) % (MAX_CLIENTS * MAX_PROCS);
        int c = next / MAX_PROCS, p = next % MAX_PROCS;
        if (c < s->n && p < s->client[c].procs && s->process[c][p].queued > 0) {
            s->run_client = c;
            s->run_proc = p;
            s->quantum_left = QUANTUM;
            return true;
        }
    }
    s->run_client = -1;
    return false;
}

static void earliest(int64_t *at, int64_t candidate, int64_t now)
{
    if (candidate > now && candidate < *at)
        *at = candidate;
}

static int64_t next_event(const struct sim *s, bool running)
{
    int64_t at = s->now + MS;
    earliest(&at, arbiter_deadline(&s->arbiter), s->now);
    for (int c = 0; c < s->n; c++) {
        earliest(&at, s->report_at[c], s->now);
        earliest(&at, s->arrives[c], s->now);
        if (s->idle_since[c] != ARBITER_NEVER)
            earliest(&at, s->idle_since[c] + 150 * US, s->now);
        for (int p = 0; p < s->client[c].procs; p++)
            earliest(&at, s->process[c][p].ready_at, s->now);
    }
    if (running) {
        int64_t left = s->process[s->run_client][s->run_proc].queued;
        int64_t kernel = s->client[s->run_client].kernel_ns;
        int64_t to_boundary = left % kernel ? left % kernel : kernel;
        earliest(&at, s->now + to_boundary, s->now);
        earliest(&at, s->now + s->quantum_left, s->now);
    }
    return at;
}

static void kernel_done(struct sim *s, int c, int p)
{
    struct process *q = &s->process[c][p];
    if (q->queued == 0 && s->client[c].sync_every && q->since_sync >= s->client[c].sync_every)
        q->ready_at = s->now + HOST_GAP;
    if (!saturating(s, c) && s->backlog[c] <= 0 && outstanding(s, c) == 0) {
        int64_t latency = s->now - s->started[c];
        s->worst_latency[c] = latency > s->worst_latency[c] ? latency : s->worst_latency[c];
    }
}

static void step(struct sim *s)
{
    reports(s);
    clients(s);
    bool running = device_pick(s);
    int64_t at = next_event(s, running);
    if (running) {
        int c = s->run_client, p = s->run_proc;
        int64_t ran = at - s->now;
        s->process[c][p].queued -= ran;
        s->busy[c] += ran;
        s->total_busy += ran;
        s->quantum_left -= ran;
        s->now = at;
        if (s->process[c][p].queued % s->client[c].kernel_ns == 0)
            kernel_done(s, c, p);
        return;
    }
    s->now = at;
}

static void sim_init(struct sim *s, double sms, int n, const struct client *clients_)
{
    memset(s, 0, sizeof *s);
    s->n = n;
    s->run_client = -1;
    arbiter_init(&s->arbiter, sms, on_gate, on_foretold, s);
    for (int c = 0; c < n; c++) {
        s->client[c] = clients_[c];
        s->report_at[c] = s->idle_since[c] = ARBITER_NEVER;
        s->arrives[c] = clients_[c].period_ns ? 0 : ARBITER_NEVER;
        struct arbiter_share share = {clients_[c].guaranteed, clients_[c].max, clients_[c].slice_ns,
                                      clients_[c].burst_ns};
        arbiter_join(&s->arbiter, c, share);
    }
}

static void entitlements(const struct sim *s, double *share)
{
    double guaranteed[MAX_CLIENTS], max[MAX_CLIENTS];
    for (int c = 0; c < s->n; c++) {
        guaranteed[c] = s->client[c].guaranteed;
        max[c] = s->client[c].max;
    }
    arbiter_fill(s->arbiter.sms, s->n, guaranteed, max, share);
    for (int c = 0; c < s->n; c++)
        share[c] /= s->arbiter.sms;
}

struct errors {
    double points_1s, points_10s, relative_10s, throughput;
};

/* Run 10 s after a warm-up; errors in points of the whole card, of the time that the card delivered
 * (or, where the maxima leave some of it idle, of the time that passed). */
static struct errors measure(struct sim *s)
{
    struct errors e = {0};
    double share[MAX_CLIENTS], sum = 0;
    entitlements(s, share);
    for (int c = 0; c < s->n; c++)
        sum += share[c];
    while (s->now < SEC / 2)
        step(s);
    int64_t base[MAX_CLIENTS], base_now = s->now, base_total = s->total_busy;
    memcpy(base, s->busy, sizeof base);
    for (int second = 0; second < 10; second++) {
        int64_t from[MAX_CLIENTS], from_now = s->now, from_total = s->total_busy;
        memcpy(from, s->busy, sizeof from);
        while (s->now < from_now + SEC)
            step(s);
        double whole =
            sum < 0.999 ? (double)(s->now - from_now) : (double)(s->total_busy - from_total);
        for (int c = 0; c < s->n; c++)
            e.points_1s =
                fmax(e.points_1s, 100 * fabs((double)(s->busy[c] - from[c]) / whole - share[c]));
    }
    double whole = sum < 0.999 ? (double)(s->now - base_now) : (double)(s->total_busy - base_total);
    for (int c = 0; c < s->n; c++) {
        double off = fabs((double)(s->busy[c] - base[c]) / whole - share[c]);
        e.points_10s = fmax(e.points_10s, 100 * off);
        e.relative_10s = fmax(e.relative_10s, off / share[c]);
    }
    e.throughput = (double)(s->total_busy - base_total) / (double)(s->now - base_now);
    return e;
}

struct split {
    const char *name;
    int n;
    double part[MAX_CLIENTS]; /* of 108 */
};

static const struct split splits[] = {
    {"10:90", 2, {10.8, 97.2}},
    {"30:70", 2, {32.4, 75.6}},
    {"50:50", 2, {54, 54}},
    {"15:15:10 of 108", 3, {15, 15, 10}},
    {"8 equal", 8, {13.5, 13.5, 13.5, 13.5, 13.5, 13.5, 13.5, 13.5}},
};

static const int64_t kernels[][2] = {
    {100 * US, 100 * US}, {MS, MS},    {5 * MS, 5 * MS}, {20 * MS, 20 * MS}, {100 * US, 20 * MS},
    {20 * MS, 100 * US},  {MS, 5 * MS}};

static struct errors one_case(const struct split *split, const int64_t *kernel, double sms,
                              int procs, int sync, int64_t slice)
{
    static struct sim s;
    struct client client[MAX_CLIENTS] = {0};
    for (int c = 0; c < split->n; c++)
        client[c] = (struct client){.guaranteed = split->part[c] * sms / 108,
                                    .max = sms,
                                    .kernel_ns = kernel[c % 2],
                                    .slice_ns = slice,
                                    .sync_every = sync,
                                    .procs = procs};
    sim_init(&s, sms, split->n, client);
    return measure(&s);
}

static void check_case(const struct split *split, const int64_t *kernel, double sms, int procs,
                       int sync, int64_t slice, struct errors *worst)
{
    /* With unlike kernels and a synchronisation after each, busy time is not lease time: the pauses
     * differ. */
    if (kernel[0] != kernel[1] && sync == 1)
        return;
    struct errors e = one_case(split, kernel, sms, procs, sync, slice);
    bool small = kernel[0] <= MS && kernel[1] <= MS;
    CHECK_MSG(e.points_10s <= 0.5 && e.points_1s <= 3 && (!small || e.relative_10s <= 0.01),
              "%s, kernels %lld and %lld us, %g SMs, %d processes, sync %d, slice %lld ms: %.3f "
              "points in 10 s, %.2f in 1 s, "
              "%.3f %% of the entitlement, busy %.3f",
              split->name, (long long)(kernel[0] / US), (long long)(kernel[1] / US), sms, procs,
              sync, (long long)(slice / MS), e.points_10s, e.points_1s, 100 * e.relative_10s,
              e.throughput);
    worst->points_1s = fmax(worst->points_1s, e.points_1s);
    worst->points_10s = fmax(worst->points_10s, e.points_10s);
    worst->relative_10s = fmax(worst->relative_10s, small ? e.relative_10s : 0);
}

/* Grids do not appear: the arbiter sees time only. The number of SMs scales the weights, so it is
 * varied for one process. */
static void every_case_of_the_matrix_is_within_the_promise(void)
{
    static const struct {
        double sms;
        int procs;
    } shapes[] = {{20, 1}, {68, 1}, {108, 1}, {132, 1}, {108, 2}, {108, 3}, {108, 4}};
    static const int syncs[] = {1, 16, 0};
    struct errors worst = {0};
    int number = 0;
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++)
        for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
            for (size_t m = 0; m < sizeof shapes / sizeof *shapes; m++)
                for (size_t y = 0; y < sizeof syncs / sizeof *syncs; y++)
                    for (int64_t slice = 5 * MS; slice <= 10 * MS; slice += 5 * MS)
                        if (number++ % EVERY == 0)
                            check_case(&splits[i], kernels[k], shapes[m].sms, shapes[m].procs,
                                       syncs[y], slice, &worst);
    printf("worst: %.3f points over 10 s, %.2f over 1 s, %.3f %% of the entitlement with kernels "
           "of at most 1 ms\n",
           worst.points_10s, worst.points_1s, 100 * worst.relative_10s);
}

static void the_card_stays_busy_while_slices_change_hands(void)
{
    static const int64_t kernel[] = {100 * US, 100 * US};
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        struct errors five = one_case(&splits[i], kernel, 108, 1, 0, 5 * MS);
        struct errors ten = one_case(&splits[i], kernel, 108, 1, 0, 10 * MS);
        CHECK_MSG(five.throughput >= 0.97 && ten.throughput >= 0.99,
                  "%s: %.4f at 5 ms, %.4f at 10 ms", splits[i].name, five.throughput,
                  ten.throughput);
    }
}

/* Two equal clients with kernels of 1 ms, whose ends the closing of a gate does not meet. */
static struct errors foretelling(bool foretells, int64_t early_ns)
{
    static struct sim s;
    struct client client[2];
    for (int c = 0; c < 2; c++)
        client[c] = (struct client){.guaranteed = 54,
                                    .max = 108,
                                    .kernel_ns = 700 * US,
                                    .slice_ns = 5 * MS,
                                    .procs = 1,
                                    .foretells = foretells,
                                    .early_ns = c == 0 ? early_ns : 0};
    sim_init(&s, 108, 2, client);
    return measure(&s);
}

static void who_says_when_its_work_ends_leaves_no_gap(void)
{
    struct errors silent = foretelling(false, 0), told = foretelling(true, 0);
    printf("foretold ends: busy %.4f, without %.4f\n", told.throughput, silent.throughput);
    CHECK_MSG(told.throughput >= 0.999, "%.4f", told.throughput);
    CHECK_MSG(silent.throughput < told.throughput, "%.4f, silent %.4f", told.throughput,
              silent.throughput);
}

static void who_lies_about_its_end_wins_nothing(void)
{
    static const int64_t early[] = {50 * US, 99 * US, 300 * US, MS, 10 * MS};
    for (size_t i = 0; i < sizeof early / sizeof *early; i++) {
        struct errors e = foretelling(true, early[i]);
        CHECK_MSG(e.points_10s <= 0.5, "%lld us too early: %.3f points", (long long)(early[i] / US),
                  e.points_10s);
    }
}

static void a_maximum_holds_though_everything_else_is_idle(void)
{
    static struct sim s;
    struct client alone = {
        .guaranteed = 15, .max = 30, .kernel_ns = MS, .slice_ns = 5 * MS, .procs = 1};
    for (int sync = 0; sync <= 1; sync++) {
        alone.sync_every = sync;
        sim_init(&s, 108, 1, &alone);
        while (s.now < SEC)
            step(&s);
        for (int second = 0; second < 5; second++) {
            int64_t from = s.busy[0], at = s.now;
            while (s.now < at + SEC)
                step(&s);
            double share = (double)(s.busy[0] - from) / (double)(s.now - at);
            CHECK_MSG(share <= 30.0 / 108 * 1.01 && share >= 30.0 / 108 * 0.97, "%.4f, sync %d",
                      share, sync);
        }
    }
}

static void one_alone_has_the_whole_card_and_is_never_closed(void)
{
    static struct sim s;
    struct client alone = {
        .guaranteed = 10, .max = 108, .kernel_ns = MS, .slice_ns = 5 * MS, .procs = 2};
    sim_init(&s, 108, 1, &alone);
    while (s.now < SEC)
        step(&s);
    CHECK((double)s.busy[0] / (double)s.now > 0.998);
    CHECK(s.gate[0] == ARBITER_FREE);
    CHECK(s.arbiter.members[0].numbers.switches == 1);
}

static void pauses_are_given_away(void)
{
    static struct sim s;
    struct client clients_[2] = {
        {.guaranteed = 54,
         .max = 108,
         .kernel_ns = 500 * US,
         .slice_ns = 5 * MS,
         .procs = 1,
         .work_ns = 3 * MS,
         .period_ns = 10 * MS},
        {.guaranteed = 54, .max = 108, .kernel_ns = 500 * US, .slice_ns = 5 * MS, .procs = 1},
    };
    sim_init(&s, 108, 2, clients_);
    while (s.now < 5 * SEC)
        step(&s);
    CHECK_MSG((double)s.total_busy / (double)s.now > 0.97, "%.3f",
              (double)s.total_busy / (double)s.now);
    CHECK_MSG((double)s.busy[0] / (double)s.now > 0.29, "%.3f", (double)s.busy[0] / (double)s.now);
}

static void a_burst_gets_the_card_within_one_slice_and_repays(void)
{
    static struct sim s;
    struct client clients_[4] = {{.guaranteed = 27,
                                  .max = 108,
                                  .kernel_ns = 500 * US,
                                  .slice_ns = 10 * MS,
                                  .burst_ns = 50 * MS,
                                  .procs = 1,
                                  .work_ns = 2 * MS,
                                  .period_ns = 20 * MS}};
    for (int c = 1; c < 4; c++)
        clients_[c] = (struct client){
            .guaranteed = 27, .max = 108, .kernel_ns = MS, .slice_ns = 10 * MS, .procs = 1};
    sim_init(&s, 108, 4, clients_);
    while (s.now < 10 * SEC)
        step(&s);
    CHECK_MSG(s.worst_latency[0] <= 10 * MS + 2 * MS, "%.2f ms",
              (double)s.worst_latency[0] / (double)MS);
    CHECK_MSG(fabs((double)s.busy[0] / (double)s.now - 0.1) < 0.002, "%.4f",
              (double)s.busy[0] / (double)s.now);
    for (int c = 1; c < 4; c++)
        CHECK_MSG(fabs((double)s.busy[c] / (double)s.total_busy - 0.3) < 0.005, "%.4f",
                  (double)s.busy[c] / (double)s.total_busy);
}

static void a_saturating_burst_class_cannot_take_more_than_its_share_and_credit(void)
{
    static struct sim s;
    struct client clients_[2] = {
        {.guaranteed = 27,
         .max = 108,
         .kernel_ns = MS,
         .slice_ns = 5 * MS,
         .burst_ns = 50 * MS,
         .procs = 1},
        {.guaranteed = 81, .max = 108, .kernel_ns = MS, .slice_ns = 5 * MS, .procs = 1},
    };
    sim_init(&s, 108, 2, clients_);
    while (s.now < 4 * SEC)
        step(&s);
    CHECK_MSG((double)s.busy[0] <= 0.25 * (double)s.now + 60e6, "%.1f ms", (double)s.busy[0] / 1e6);
}

static void a_long_kernel_is_charged_and_nobody_waits_longer_than_it_lasts(void)
{
    static struct sim s;
    struct client clients_[2] = {
        {.guaranteed = 54, .max = 108, .kernel_ns = 2 * SEC, .slice_ns = 5 * MS, .procs = 1},
        {.guaranteed = 54, .max = 108, .kernel_ns = MS, .slice_ns = 5 * MS, .procs = 1},
    };
    sim_init(&s, 108, 2, clients_);
    while (s.now < 20 * SEC)
        step(&s);
    double share = (double)s.busy[0] / (double)s.total_busy;
    CHECK_MSG(fabs(share - 0.5) <= 2.0 / 20 + 0.01, "%.3f", share);
}

/* Whatever comes in whatever order: one gate is open at most and one member drains at most; while
 * someone waits, another drains or a timer is set; the lags of all stay finite. */
struct fuzz {
    enum arbiter_gate gate[ARBITER_MEMBERS];
};

static void fuzz_gate(void *context, int member, enum arbiter_gate gate)
{
    ((struct fuzz *)context)->gate[member] = gate;
}

static void no_order_of_events_leaves_a_waiter_without_a_turn(void)
{
    static struct arbiter a;
    srand(20240607);
    for (int round = 0; round < FUZZ_ROUNDS; round++) {
        struct fuzz f = {{0}};
        arbiter_init(&a, 108, fuzz_gate, NULL, &f);
        int64_t now = 0;
        for (int i = 0; i < 2000; i++) {
            int m = rand() % 6;
            now += rand() % (3 * MS);
            switch (rand() % 8) {
            case 0:
                if (!a.members[m].present)
                    arbiter_join(&a, m,
                                 (struct arbiter_share){1 + rand() % 17, 18 + rand() % 90, 5 * MS,
                                                        rand() % 2 * 20 * MS});
                break;
            case 1:
                if (a.members[m].present && rand() % 20 == 0) {
                    f.gate[m] = ARBITER_CLOSED; /* its page is gone */
                    arbiter_leave(&a, m, now);
                }
                break;
            case 2:
                arbiter_idle(&a, m, now - rand() % MS, now - rand() % MS, now);
                break;
            case 3:
            case 4:
                arbiter_drained(&a, m, now - rand() % (2 * MS), now - rand() % MS, now);
                break;
            case 5:
                if (arbiter_deadline(&a) <= now)
                    arbiter_timer(&a, now);
                break;
            default:
                arbiter_want(&a, m, now);
            }
            int open = 0, waiting = 0, draining = 0;
            for (int c = 0; c < 6; c++) {
                open += f.gate[c] != ARBITER_CLOSED && a.members[c].present;
                waiting += a.members[c].present && a.members[c].state == ARBITER_WAITING;
                draining += a.members[c].present && a.members[c].state == ARBITER_DRAINING;
                CHECK(isfinite(a.members[c].lag));
            }
            CHECK(open <= 1 && draining <= 1);
            CHECK(!waiting || draining || arbiter_deadline(&a) != ARBITER_NEVER);
        }
    }
}

int main(void)
{
    every_case_of_the_matrix_is_within_the_promise();
    the_card_stays_busy_while_slices_change_hands();
    who_says_when_its_work_ends_leaves_no_gap();
    who_lies_about_its_end_wins_nothing();
    a_maximum_holds_though_everything_else_is_idle();
    one_alone_has_the_whole_card_and_is_never_closed();
    pauses_are_given_away();
    a_burst_gets_the_card_within_one_slice_and_repays();
    a_saturating_burst_class_cannot_take_more_than_its_share_and_credit();
    a_long_kernel_is_charged_and_nobody_waits_longer_than_it_lasts();
    no_order_of_events_leaves_a_waiter_without_a_turn();
    return claim_result();
}
