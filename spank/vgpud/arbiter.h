/* arbiter.h - whose turn it is on one GPU. Pure: no clock, no socket, no CUDA; the caller passes
 * the time in and carries out what comes back through `gate`.
 *
 * Members (vGPUs) share the card's time by EEVDF (Stoica, Abdel-Wahab: "Earliest Eligible Virtual
 * Deadline First", 1995), written with lags: each member is owed the fluid share of the time that
 * passes and pays with the time that is charged to it; eligible is who is owed something; of those
 * the one goes first that is owed a full slice soonest. Chosen because its lag stays within one
 * quantum (the longer of slice and longest kernel) of the fluid schedule whatever the weights are,
 * where plain stride scheduling lets one large member fall behind many small ones by their number.
 *
 * The fluid share is water-filling: everyone who wants to run gets lambda x guarantee, at most its
 * maximum, and lambda is as large as the card allows. What nobody may use (all are at their
 * maximum) belongs to a silent member, the rest: when the rest is picked, the card stands still.
 * That is what makes a maximum hard.
 *
 * Time is charged from the end of one member's work to the end of the next one's, so all of it is
 * somebody's.
 */
#ifndef VGPU_ARBITER_H
#define VGPU_ARBITER_H

#include <stdbool.h>
#include <stdint.h>

#define ARBITER_MEMBERS 128
#define ARBITER_NONE    (-1)
#define ARBITER_NEVER   INT64_MAX

enum arbiter_gate {
    ARBITER_CLOSED, /* submit nothing more; report when what is submitted is done */
    ARBITER_FREE,   /* nobody waits: submit, no need to look again */
    ARBITER_TIGHT,  /* others wait: submit little ahead; report when idle */
};

struct arbiter_share {
    double guaranteed, max; /* in SMs */
    int64_t slice_ns;
    int64_t
        burst_ns; /* how far it may run ahead of its share when it wakes up; 0: no burst class */
};

struct arbiter_numbers {
    int64_t entitled_ns, used_ns, waited_ns, overrun_ns;
    uint64_t switches;
};

enum arbiter_state {
    ARBITER_QUIET,    /* gate closed, nothing to do */
    ARBITER_WAITING,  /* gate closed, wants to run */
    ARBITER_HOLDING,  /* gate open */
    ARBITER_DRAINING, /* gate closed, work outstanding */
};

struct arbiter_member {
    bool present, wants;
    enum arbiter_state state;
    struct arbiter_share share;
    double weight;       /* its part of the fluid schedule now, 0..1 */
    double lag;          /* ns that it is owed */
    int64_t quiet_since; /* since when it is QUIET */
    int64_t waiting_since;
    double drain_ns, drain_spread_ns; /* learned: from closing the gate to the end of its work */
    double told_error_ns;             /* learned: how far its own forecasts are off */
    struct arbiter_numbers numbers;
};

struct arbiter {
    double sms; /* of the card */
    void (*gate)(void *context, int member, enum arbiter_gate gate);
    /* When the member itself expects what it has submitted to be done; 0: not known. Believed as
     * far as it has been right. NULL: nobody is asked. */
    int64_t (*foretold)(void *context, int member);
    void *context;

    struct arbiter_member members[ARBITER_MEMBERS];
    double rest_weight, rest_lag;
    double lead_ns; /* learned: how much before the end of the old work the next gate is opened */

    int owner;  /* whose work the card is taken to be running; NONE: nobody's, or the rest */
    int holder; /* whose gate is open; differs from owner between an early opening and the end of
                   the old work */
    bool free;  /* the holder's gate is FREE */
    bool resting;
    int64_t charged_to;  /* up to when time has been charged */
    int64_t slice_start; /* of the owner */
    int64_t close_at, open_at;
    /* Of the draining owner: since when, when its work is expected to end, and what it says. */
    int64_t closed_since, forecast, told;
    int64_t handed_over; /* when the owner, let in early, found the card free; 0: it was not */
};

/* gate() and foretold() are called from within the functions below, with the context. */
void arbiter_init(struct arbiter *a, double sms, void (*gate)(void *, int, enum arbiter_gate),
                  int64_t (*foretold)(void *, int), void *context);

void arbiter_join(struct arbiter *a, int member, struct arbiter_share share);
void arbiter_change(struct arbiter *a, int member, struct arbiter_share share, int64_t now);
void arbiter_leave(struct arbiter *a, int member, int64_t now);

/* The member has work and its gate is closed. */
void arbiter_want(struct arbiter *a, int member, int64_t now);

/* The member, its gate open, has had nothing to do since `since`. `begin`, here and below: when it
 * first submitted work after its gate had opened; what passed before that is nobody's. */
void arbiter_idle(struct arbiter *a, int member, int64_t begin, int64_t since, int64_t now);

/* All the work that the member had submitted when its gate was closed ended at `end`. */
void arbiter_drained(struct arbiter *a, int member, int64_t begin, int64_t end, int64_t now);

/* To be called at arbiter_deadline(). */
void arbiter_timer(struct arbiter *a, int64_t now);
int64_t arbiter_deadline(const struct arbiter *a);

/* Numbers up to now. */
struct arbiter_numbers arbiter_numbers(struct arbiter *a, int member, int64_t now);

/* Water-filling: share[i] = min(max[i], lambda guaranteed[i]) with the largest lambda at which the
 * sum is at most `total`. A member without a guarantee takes part in what is left when the others
 * are at their maximum. */
void arbiter_fill(double total, int n, const double *guaranteed, const double *max, double *share);

#endif
