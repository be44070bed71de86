#include "vgpud/arbiter.h"

#include <math.h>
#include <string.h>

/* A member that was quiet for less than this is treated as if the machine had not scheduled it:
 * what it is owed is kept. */
#define LAG_KEPT_NS 100000000
/* The next member is let in a little before the old one's work is expected to end, as long as
 * members take to begin, so that the card does not stand still: at first LEAD_NS. Bounded, since
 * the device's own round robin serves both in between. */
#define LEAD_NS     150000
#define LEAD_MIN_NS 50000
#define LEAD_MAX_NS 300000
/* Its first work should come so much before that end. */
#define MARGIN_NS 50000
/* But only where that end is known as well as this. */
#define ERROR_MAX_NS 100000
/* And, where it is not foretold but learned, only where draining is short: a long kernel of the old
 * one would be cut up by the device's own round robin. */
#define EARLY_MAX_NS 2000000
/* A slice is never cut to less than this by the time that draining is expected to take. */
#define RUN_MIN_NS 1000000
#define REST_NS    5000000

void arbiter_fill(double total, int n, const double *guaranteed, const double *max, double *share)
{
    bool full[ARBITER_MEMBERS] = {0};
    double left = total;
    for (int i = 0; i < n; i++)
        share[i] = 0;
    /* Each round fixes those that reach their maximum at the present lambda; with n members at most
     * n rounds. */
    for (int round = 0; round <= n; round++) {
        double demand = 0;
        for (int i = 0; i < n; i++)
            demand += full[i] ? 0 : guaranteed[i];
        if (demand <= 0)
            break;
        double lambda = left / demand;
        bool changed = false;
        for (int i = 0; i < n; i++) {
            if (full[i] || lambda * guaranteed[i] < max[i])
                continue;
            full[i] = changed = true;
            share[i] = max[i];
        }
        if (!changed) {
            for (int i = 0; i < n; i++)
                share[i] = full[i] ? share[i] : lambda * guaranteed[i];
            return;
        }
        left = total;
        for (int i = 0; i < n; i++)
            left -= full[i] ? share[i] : 0;
    }
}

static bool active(const struct arbiter_member *m)
{
    return m->present && m->state != ARBITER_QUIET;
}

static bool ready(const struct arbiter_member *m)
{
    return m->present && (m->state == ARBITER_WAITING || m->state == ARBITER_HOLDING ||
                          (m->state == ARBITER_DRAINING && m->wants));
}

/* The fluid shares of those who want to run now. */
static void weigh(struct arbiter *a)
{
    int who[ARBITER_MEMBERS], n = 0;
    double guaranteed[ARBITER_MEMBERS], max[ARBITER_MEMBERS], share[ARBITER_MEMBERS], sum = 0;
    for (int i = 0; i < ARBITER_MEMBERS; i++) {
        a->members[i].weight = 0;
        if (!active(&a->members[i]))
            continue;
        who[n] = i;
        guaranteed[n] = a->members[i].share.guaranteed;
        max[n++] = fmin(a->members[i].share.max, a->sms);
    }
    arbiter_fill(a->sms, n, guaranteed, max, share);
    for (int i = 0; i < n; i++)
        sum += a->members[who[i]].weight = share[i] / a->sms;
    a->rest_weight = n && sum < 1 - 1e-9 ? 1 - sum : 0;
    if (a->rest_weight == 0)
        a->rest_lag = 0;
}

/* Everyone is owed the fluid share of the time that passed. */
static void credit(struct arbiter *a, int64_t passed)
{
    for (int i = 0; i < ARBITER_MEMBERS; i++) {
        struct arbiter_member *m = &a->members[i];
        m->lag += (double)passed * m->weight;
        m->numbers.entitled_ns += (int64_t)((double)passed * m->weight);
    }
    a->rest_lag += (double)passed * a->rest_weight;
}

/* Charge the time up to `now` to the owner. */
static void charge(struct arbiter *a, int64_t now)
{
    int64_t passed = now - a->charged_to;
    if (passed <= 0)
        return;
    a->charged_to = now;
    if (a->owner == ARBITER_NONE && !a->resting)
        return;
    credit(a, passed);
    if (a->resting) {
        a->rest_lag -= (double)passed;
        return;
    }
    a->members[a->owner].lag -= (double)passed;
    a->members[a->owner].numbers.used_ns += passed;
}

struct candidate {
    int member; /* NONE: the rest */
    bool eligible;
    double deadline;
    bool valid;
};

static bool better(const struct candidate *x, const struct candidate *y)
{
    if (!y->valid || x->eligible != y->eligible)
        return !y->valid || x->eligible;
    return x->deadline < y->deadline;
}

static void consider(struct candidate *best, int member, double lag, double weight, double excess,
                     double slice)
{
    if (weight <= 0)
        return;
    struct candidate c = {member, lag - excess * weight >= -1, (slice - lag) / weight, true};
    if (better(&c, best))
        *best = c;
}

/* Who is next, if the owner were charged for `ahead` more? Members that joined or left with a lag
 * leave a sum that is not zero; `excess` spreads it over all, as moving the virtual time does. */
static struct candidate pick(const struct arbiter *a, double ahead)
{
    struct candidate best = {ARBITER_NONE, false, 0, false};
    double excess = a->rest_weight > 0 ? a->rest_lag : 0;
    for (int i = 0; i < ARBITER_MEMBERS; i++)
        excess += active(&a->members[i]) ? a->members[i].lag : 0;
    for (int i = 0; i < ARBITER_MEMBERS; i++) {
        const struct arbiter_member *m = &a->members[i];
        if (!ready(m))
            continue;
        double lag = m->lag + ahead * m->weight - (i == a->owner ? ahead : 0);
        consider(&best, i, lag, m->weight, excess, (double)m->share.slice_ns);
    }
    consider(&best, ARBITER_NONE, a->rest_lag + ahead * a->rest_weight - (a->resting ? ahead : 0),
             a->rest_weight, excess, REST_NS);
    return best;
}

/* A waiting member of a burst class that has not used up its credit. */
static int burster(const struct arbiter *a)
{
    int best = ARBITER_NONE;
    for (int i = 0; i < ARBITER_MEMBERS; i++) {
        const struct arbiter_member *m = &a->members[i];
        if (m->present && m->state == ARBITER_WAITING && m->lag > -(double)m->share.burst_ns &&
            m->share.burst_ns > 0 &&
            (best == ARBITER_NONE || m->waiting_since < a->members[best].waiting_since))
            best = i;
    }
    return best;
}

static bool anyone_else(const struct arbiter *a, int member)
{
    for (int i = 0; i < ARBITER_MEMBERS; i++)
        if (i != member && active(&a->members[i]))
            return true;
    return false;
}

/* After a pause: a claim is kept only if the pause was short; a debt was repaid by not running. */
static void settle_pause(struct arbiter_member *m, int64_t pause)
{
    if (m->lag > 0 && pause > LAG_KEPT_NS)
        m->lag = 0;
    if (m->lag < 0)
        m->lag = fmin(0, m->lag + (double)pause * m->weight);
}

static void set_state(struct arbiter *a, int member, enum arbiter_state state, int64_t now)
{
    struct arbiter_member *m = &a->members[member];
    if (m->state == state)
        return;
    charge(a, now);
    if (m->state == ARBITER_WAITING)
        m->numbers.waited_ns += now - m->waiting_since;
    if (state == ARBITER_WAITING)
        m->waiting_since = now;
    bool wakes = m->state == ARBITER_QUIET;
    if (state == ARBITER_QUIET)
        m->quiet_since = now;
    m->state = state;
    weigh(a);
    if (wakes)
        settle_pause(m, now - m->quiet_since);
}

static int64_t run_length(const struct arbiter_member *m)
{
    double run = (double)m->share.slice_ns - m->drain_ns;
    double least = fmin(RUN_MIN_NS, (double)m->share.slice_ns);
    return (int64_t)fmax(run, least);
}

/* Start of a member's own time on the card. */
static void own(struct arbiter *a, int member, int64_t now)
{
    a->owner = member;
    a->resting = false;
    a->handed_over = 0;
    a->slice_start = now;
    a->charged_to = now;
    a->close_at = a->free ? ARBITER_NEVER : now + run_length(&a->members[member]);
}

static void open_gate(struct arbiter *a, int member, int64_t now)
{
    set_state(a, member, ARBITER_HOLDING, now);
    a->holder = member;
    a->free = !anyone_else(a, member) && a->rest_weight == 0;
    a->open_at = ARBITER_NEVER;
    a->members[member].numbers.switches++;
    a->gate(a->context, member, a->free ? ARBITER_FREE : ARBITER_TIGHT);
}

static void rest(struct arbiter *a, int64_t now)
{
    a->resting = true;
    a->owner = a->holder = ARBITER_NONE;
    a->charged_to = now;
    a->close_at = now + REST_NS;
    a->open_at = ARBITER_NEVER;
}

/* The card is nobody's: give it to who is next. */
static void dispatch(struct arbiter *a, int64_t now)
{
    int member = burster(a);
    if (member == ARBITER_NONE) {
        struct candidate c = pick(a, 0);
        if (!c.valid) {
            a->owner = a->holder = ARBITER_NONE;
            a->resting = false;
            a->close_at = a->open_at = ARBITER_NEVER;
            return;
        }
        member = c.member;
    }
    if (member == ARBITER_NONE) {
        rest(a, now);
        return;
    }
    open_gate(a, member, now);
    own(a, member, now);
}

/* Ask the holder to stop; if the end of its work can be foretold, plan to let the next one in just
 * before. */
static void close_gate(struct arbiter *a, int64_t now)
{
    int member = a->holder;
    struct arbiter_member *m = &a->members[member];
    set_state(a, member, ARBITER_DRAINING, now);
    m->wants = false;
    a->gate(a->context, member, ARBITER_CLOSED);
    a->holder = ARBITER_NONE;
    a->free = false;
    a->closed_since = now;
    a->close_at = ARBITER_NEVER;
    a->told = a->foretold ? a->foretold(a->context, member) : 0;
    bool learned =
        m->drain_ns > a->lead_ns && m->drain_ns < EARLY_MAX_NS && m->drain_spread_ns < ERROR_MAX_NS;
    bool told = a->told > now && m->told_error_ns < ERROR_MAX_NS;
    a->forecast = told ? a->told : now + (int64_t)m->drain_ns;
    a->open_at = told || learned ? a->forecast - (int64_t)a->lead_ns : ARBITER_NEVER;
}

/* The next member's gate opens while the owner's last work still runs. */
static void open_early(struct arbiter *a, int64_t now)
{
    a->open_at = ARBITER_NEVER;
    charge(a, now);
    int member = burster(a);
    if (member == ARBITER_NONE) {
        struct candidate c = pick(a, a->lead_ns);
        member = c.valid ? c.member : ARBITER_NONE;
    }
    if (member != ARBITER_NONE && member != a->owner)
        open_gate(a, member, now);
}

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* The owner's first work came at `begin`: until then the card stood still for everybody, and nobody
 * pays. */
static void refund(struct arbiter *a, int64_t begin)
{
    int64_t stood_still = begin - a->slice_start;
    if (stood_still <= 0)
        return;
    credit(a, -stood_still);
    a->members[a->owner].lag += (double)stood_still;
    a->members[a->owner].numbers.used_ns -= stood_still;
    a->slice_start = begin;
}

/* The owner was let in early and began at `begin`: that should have been just before the end of the
 * old work. Timers, wake-ups and the way to the device are all in it. */
static void learn_lead(struct arbiter *a, int64_t begin)
{
    if (a->handed_over <= 0 || begin <= 0)
        return;
    double late = (double)(begin - a->handed_over) + MARGIN_NS;
    a->lead_ns += fmax(-LEAD_MAX_NS, fmin(late, LEAD_MAX_NS)) / 8;
    a->lead_ns = fmax(LEAD_MIN_NS, fmin(a->lead_ns, LEAD_MAX_NS));
}

void arbiter_init(struct arbiter *a, double sms, void (*gate)(void *, int, enum arbiter_gate),
                  int64_t (*foretold)(void *, int), void *context)
{
    memset(a, 0, sizeof *a);
    a->sms = sms;
    a->gate = gate;
    a->foretold = foretold;
    a->lead_ns = LEAD_NS;
    a->context = context;
    a->owner = a->holder = ARBITER_NONE;
    a->close_at = a->open_at = ARBITER_NEVER;
}

void arbiter_join(struct arbiter *a, int member, struct arbiter_share share)
{
    a->members[member] =
        (struct arbiter_member){.present = true, .state = ARBITER_QUIET, .share = share};
}

void arbiter_change(struct arbiter *a, int member, struct arbiter_share share, int64_t now)
{
    charge(a, now);
    a->members[member].share = share;
    weigh(a);
    if (a->owner == member && a->holder == member && !a->free)
        a->close_at = a->slice_start + run_length(&a->members[member]);
}

void arbiter_leave(struct arbiter *a, int member, int64_t now)
{
    charge(a, now);
    if (a->holder == member)
        a->holder = ARBITER_NONE;
    bool owned = a->owner == member;
    a->members[member] = (struct arbiter_member){0};
    weigh(a);
    if (owned)
        a->owner = ARBITER_NONE;
    if (owned && a->holder != ARBITER_NONE)
        own(a, a->holder, now);
    else if (a->owner == ARBITER_NONE && a->holder == ARBITER_NONE)
        dispatch(a, now);
}

void arbiter_want(struct arbiter *a, int member, int64_t now)
{
    struct arbiter_member *m = &a->members[member];
    if (!m->present || m->state == ARBITER_HOLDING || m->state == ARBITER_WAITING)
        return;
    if (m->state == ARBITER_DRAINING) {
        m->wants = true;
        m->waiting_since = now;
        return;
    }
    set_state(a, member, ARBITER_WAITING, now);
    if (a->owner == ARBITER_NONE) { /* nobody's, or the rest, which anyone ends */
        dispatch(a, now);
    } else if (a->holder == a->owner && (a->free || burster(a) == member)) {
        /* Whether a free holder is at work at all is not known: it is asked by closing its gate. */
        close_gate(a, now);
    }
}

void arbiter_idle(struct arbiter *a, int member, int64_t begin, int64_t since, int64_t now)
{
    struct arbiter_member *m = &a->members[member];
    if (!m->present || m->state != ARBITER_HOLDING || a->free)
        return;
    if (a->owner != member) { /* let in early, but had nothing to do after all */
        set_state(a, member, ARBITER_QUIET, now);
        a->gate(a->context, member, ARBITER_CLOSED);
        a->holder = ARBITER_NONE;
        return;
    }
    charge(a, clamp(since, a->charged_to, now));
    refund(a, clamp(begin, a->slice_start, a->charged_to));
    learn_lead(a, begin);
    a->charged_to = now; /* the pause is nobody's */
    set_state(a, member, ARBITER_QUIET, now);
    a->gate(a->context, member, ARBITER_CLOSED);
    a->owner = a->holder = ARBITER_NONE;
    dispatch(a, now);
}

/* The next one was let in early, and now the card is its own. */
static void take_over(struct arbiter *a, int64_t end)
{
    own(a, a->holder, end);
    a->handed_over = end;
}

/* Quick to lose trust, slow to win it: who says too early an end gets a little of the next one's
 * time. */
static void learn_told(struct arbiter_member *m, double off)
{
    m->told_error_ns += (off - m->told_error_ns) / (off > m->told_error_ns ? 4 : 8);
}

static void learn_drain(struct arbiter_member *m, double took)
{
    double off = fabs(took - m->drain_ns);
    m->drain_spread_ns += (off - m->drain_spread_ns) / 8;
    m->drain_ns += (took - m->drain_ns) / 4;
}

void arbiter_drained(struct arbiter *a, int member, int64_t begin, int64_t end, int64_t now)
{
    struct arbiter_member *m = &a->members[member];
    if (!m->present || m->state != ARBITER_DRAINING)
        return;
    end = clamp(end, a->closed_since, now);
    learn_lead(a, begin);
    learn_drain(m, (double)(end - a->closed_since));
    if (a->told > a->closed_since)
        learn_told(m, fabs((double)(end - a->told)));
    /* If the next one was let in on a forecast and the end came later, it was the next one's work
     * that delayed it. But who has said itself when it ends pays for what it ran longer. */
    bool early = a->holder != ARBITER_NONE;
    if (early && end > a->forecast && a->forecast != a->told)
        end = a->forecast;
    refund(a, clamp(begin, a->slice_start, end));
    charge(a, end);
    int64_t over = end - a->slice_start - m->share.slice_ns;
    m->numbers.overrun_ns += over > 0 ? over : 0;
    a->owner = ARBITER_NONE;
    set_state(a, member, m->wants ? ARBITER_WAITING : ARBITER_QUIET, now);
    m->wants = false;
    if (early)
        take_over(a, end);
    else
        dispatch(a, now);
}

/* The slice is over: go on, if the next slice would be the holder's too. */
static void slice_end(struct arbiter *a, int64_t now)
{
    struct arbiter_member *m = &a->members[a->holder];
    charge(a, now);
    int candidate = burster(a);
    if (candidate == ARBITER_NONE) {
        struct candidate c = pick(a, m->drain_ns);
        candidate = c.valid ? c.member : a->holder;
    }
    if (candidate != a->holder) {
        close_gate(a, now);
        return;
    }
    a->slice_start = now;
    a->close_at = now + run_length(m);
    if (!anyone_else(a, a->holder) && a->rest_weight == 0) {
        a->free = true;
        a->close_at = ARBITER_NEVER;
        a->gate(a->context, a->holder, ARBITER_FREE);
    }
}

void arbiter_timer(struct arbiter *a, int64_t now)
{
    if (a->open_at <= now && a->owner != ARBITER_NONE && a->holder == ARBITER_NONE)
        open_early(a, now);
    if (a->close_at > now)
        return;
    if (a->resting) {
        charge(a, now);
        a->resting = false;
        dispatch(a, now);
    } else if (a->holder != ARBITER_NONE && a->holder == a->owner) {
        slice_end(a, now);
    } else {
        a->close_at = ARBITER_NEVER;
    }
}

int64_t arbiter_deadline(const struct arbiter *a)
{
    return a->close_at < a->open_at ? a->close_at : a->open_at;
}

struct arbiter_numbers arbiter_numbers(struct arbiter *a, int member, int64_t now)
{
    charge(a, now);
    struct arbiter_numbers numbers = a->members[member].numbers;
    if (a->members[member].state == ARBITER_WAITING)
        numbers.waited_ns += now - a->members[member].waiting_since;
    return numbers;
}
