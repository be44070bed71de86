/* loop.c - epoll and one timerfd. */
#include "loop.h"

#include "clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define BATCH   64
#define REST_NS NS_PER_MS

struct loop_garbage {
    struct loop_garbage *next;
    void *memory;
};

static void arm(struct loop *loop)
{
    uint64_t due = loop->timers ? loop->timers->due_ns : 0;
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(due / NS_PER_SEC), .tv_nsec = (long)(due % NS_PER_SEC)}};
    timerfd_settime(loop->timerfd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void fire_timers(struct loop_source *source, uint32_t events)
{
    struct loop *loop = container_of(source, struct loop, timer_source);
    uint64_t now = now_ns(), expirations;
    (void)events;
    if (read(loop->timerfd, &expirations, sizeof expirations) < 0 && errno != EAGAIN)
        return;
    while (loop->timers && loop->timers->due_ns <= now) {
        struct loop_timer *timer = loop->timers;
        loop->timers = timer->next;
        timer->due_ns = 0;
        timer->due(timer);
    }
    arm(loop);
}

int loop_init(struct loop *loop)
{
    memset(loop, 0, sizeof *loop);
    loop->timerfd = -1;
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll < 0)
        return -1;
    loop->timerfd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    loop->timer_source = (struct loop_source){.fd = loop->timerfd, .ready = fire_timers};
    if (loop->timerfd < 0)
        return -1;
    return loop_add(loop, &loop->timer_source, EPOLLIN);
}

static void empty_garbage(struct loop *loop)
{
    while (loop->garbage) {
        struct loop_garbage *garbage = loop->garbage;
        loop->garbage = garbage->next;
        free(garbage->memory);
        free(garbage);
    }
}

void loop_fini(struct loop *loop)
{
    empty_garbage(loop);
    if (loop->timerfd >= 0)
        close(loop->timerfd);
    if (loop->epoll >= 0)
        close(loop->epoll);
}

static int control(int epoll, int operation, struct loop_source *source, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};
    return epoll_ctl(epoll, operation, source->fd, &event);
}

int loop_add(struct loop *loop, struct loop_source *source, uint32_t events)
{
    return control(loop->epoll, EPOLL_CTL_ADD, source, events);
}

/* The descriptors are nobody else's, so closing one takes it out of the loop, or the group. */
void loop_remove(struct loop_source *source)
{
    if (source->fd >= 0)
        close(source->fd);
    source->fd = -1;
}

static void serve(const struct epoll_event *events, int n)
{
    for (int i = 0; i < n; i++) {
        struct loop_source *source = events[i].data.ptr;
        if (source->fd >= 0) /* else removed earlier in this round */
            source->ready(source, events[i].events);
    }
}

/* --- groups ---------------------------------------------------------------------------------- */

static void group_ready(struct loop_source *source, uint32_t ready)
{
    struct loop_group *group = container_of(source, struct loop_group, source);
    struct epoll_event events[LOOP_TURN];
    int n = epoll_wait(source->fd, events, LOOP_TURN, 0);
    (void)ready;
    if (n == LOOP_TURN) {
        control(group->loop->epoll, EPOLL_CTL_MOD, source, 0);
        loop_set_timer(group->loop, &group->rest, now_ns() + REST_NS);
    }
    serve(events, n);
}

static void rested(struct loop_timer *timer)
{
    struct loop_group *group = container_of(timer, struct loop_group, rest);
    control(group->loop->epoll, EPOLL_CTL_MOD, &group->source, EPOLLIN);
}

int loop_group_init(struct loop *loop, struct loop_group *group)
{
    *group = (struct loop_group){.loop = loop, .rest.due = rested};
    group->source = (struct loop_source){.fd = epoll_create1(EPOLL_CLOEXEC), .ready = group_ready};
    return group->source.fd < 0 ? -1 : loop_add(loop, &group->source, EPOLLIN);
}

int loop_group_add(struct loop_group *group, struct loop_source *source, uint32_t events)
{
    return control(group->source.fd, EPOLL_CTL_ADD, source, events);
}

void loop_group_fini(struct loop_group *group)
{
    if (group->loop)
        loop_set_timer(group->loop, &group->rest, 0);
    loop_remove(&group->source);
}

/* --- timers and garbage ---------------------------------------------------------------------- */

void loop_free(struct loop *loop, void *memory)
{
    struct loop_garbage *garbage = malloc(sizeof *garbage);
    if (!garbage)
        return; /* better a leak than a use after free */
    *garbage = (struct loop_garbage){.next = loop->garbage, .memory = memory};
    loop->garbage = garbage;
}

void loop_set_timer(struct loop *loop, struct loop_timer *timer, uint64_t due_ns)
{
    struct loop_timer **place = &loop->timers, *first = loop->timers;
    uint64_t armed = first ? first->due_ns : 0;
    if (timer->due_ns) {
        while (*place != timer)
            place = &(*place)->next;
        *place = timer->next;
    }
    timer->due_ns = due_ns;
    if (due_ns) {
        for (place = &loop->timers; *place && (*place)->due_ns <= due_ns;)
            place = &(*place)->next;
        timer->next = *place;
        *place = timer;
    }
    if ((loop->timers ? loop->timers->due_ns : 0) != armed)
        arm(loop);
}

int loop_once(struct loop *loop, int timeout_ms)
{
    struct epoll_event events[BATCH];
    int n = epoll_wait(loop->epoll, events, BATCH, timeout_ms);
    if (n < 0)
        return errno == EINTR ? 0 : -1;
    serve(events, n);
    empty_garbage(loop);
    return n;
}

int loop_run(struct loop *loop)
{
    while (!loop->stop)
        if (loop_once(loop, -1) < 0)
            return -1;
    return 0;
}
