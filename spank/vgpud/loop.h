/* loop.h - waits for descriptors and points in time, one thread.
 *
 * Sources that strangers feed are put into groups: in each round a group is served LOOP_TURN times
 * at most, and one that has used up its turn rests for a millisecond. So whoever floods his own
 * sockets has neither the others' time nor a whole core.
 */
#ifndef VGPUD_LOOP_H
#define VGPUD_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Embed in the object that the descriptor belongs to. */
struct loop_source {
    int fd;
    void (*ready)(struct loop_source *source, uint32_t events); /* events as epoll's */
};

struct loop_timer {
    uint64_t due_ns; /* 0: not set */
    void (*due)(struct loop_timer *timer);
    struct loop_timer *next;
};

struct loop {
    int epoll, timerfd;
    struct loop_source timer_source;
    struct loop_timer *timers; /* that are set, earliest first */
    struct loop_garbage *garbage;
    bool stop;
};

#define LOOP_TURN 32

struct loop_group {
    struct loop_source source; /* an epoll of its own */
    struct loop *loop;
    struct loop_timer rest;
};

#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

/* Returns -1 with errno. */
int loop_init(struct loop *loop);
void loop_fini(struct loop *loop);

/* Call source->ready when source->fd has one of the events. Returns -1 with errno. */
int loop_add(struct loop *loop, struct loop_source *source, uint32_t events);

/* Forget the source and close its descriptor. Its memory must stay valid until the current round is
 * over: free it with loop_free(). A source whose fd is -1 is ignored. */
void loop_remove(struct loop_source *source);

/* Returns -1 with errno. */
int loop_group_init(struct loop *loop, struct loop_group *group);
int loop_group_add(struct loop_group *group, struct loop_source *source, uint32_t events);

/* What is still in the group is served no more, until it is added elsewhere. */
void loop_group_fini(struct loop_group *group);

/* Free memory at the end of the current round. */
void loop_free(struct loop *loop, void *memory);

/* Call timer->due once at due_ns (monotonic), replacing what was set; 0 cancels. */
void loop_set_timer(struct loop *loop, struct loop_timer *timer, uint64_t due_ns);

/* Serve until loop->stop. Returns -1 with errno. */
int loop_run(struct loop *loop);

/* One round: wait at most timeout_ms (-1: as long as it takes) for something, and serve it. Returns
 * how much was served, or -1 with errno. */
int loop_once(struct loop *loop, int timeout_ms);

#endif
