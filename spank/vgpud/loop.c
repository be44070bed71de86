/* loop.c - epoll and one timerfd. */
#include "loop.h"

#include "clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define BATCH 64

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

int loop_add(struct loop *loop, struct loop_source *source, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};
    return epoll_ctl(loop->epoll, EPOLL_CTL_ADD, source->fd, &event);
}

void loop_remove(struct loop *loop, struct loop_source *source)
{
    if (source->fd < 0)
        return;
    epoll_ctl(loop->epoll, EPOLL_CTL_DEL, source->fd, NULL);
    close(source->fd);
    source->fd = -1;
}

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
    for (int i = 0; i < n; i++) {
        struct loop_source *source = events[i].data.ptr;
        if (source->fd >= 0) /* else removed earlier in this round */
            source->ready(source, events[i].events);
    }
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
