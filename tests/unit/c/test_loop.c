/* The loop: descriptors, points in time, and things that go away while others are being served. */
#include "claim.h"
#include "vgpud/clock.h"
#include "vgpud/loop.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct loop loop;
static int order[8], n_fired;

struct item {
    struct loop_source source;
    struct item *victim;
};

static struct item *last_served;
static int total_served;

static void serve(struct loop_source *source, uint32_t events)
{
    struct item *item = container_of(source, struct item, source);
    (void)events;
    last_served = item;
    total_served++;
    if (item->victim) {
        loop_remove(&item->victim->source);
        loop_free(&loop, item->victim);
        item->victim = NULL;
    }
    loop.stop = true;
}

static struct item *new_item(void)
{
    struct item *item = calloc(1, sizeof *item);
    item->source = (struct loop_source){.fd = eventfd(1, EFD_CLOEXEC), .ready = serve};
    loop_add(&loop, &item->source, EPOLLIN);
    return item;
}

static void test_that_what_is_removed_in_a_round_is_not_served_in_it(void)
{
    struct item *a = new_item(), *b = new_item();
    a->victim = b;
    b->victim = a;
    loop.stop = false;
    CHECK(loop_run(&loop) == 0); /* whichever is served first frees the other */
    CHECK(total_served == 1 && loop.garbage == NULL);
    loop_remove(&last_served->source);
    free(last_served);
}

struct timed {
    struct loop_timer timer;
    int number;
};

static void fire(struct loop_timer *timer)
{
    struct timed *timed = container_of(timer, struct timed, timer);
    order[n_fired++] = timed->number;
    if (timed->number == 9)
        loop.stop = true;
}

static void test_that_timers_fire_once_in_the_order_of_their_time(void)
{
    struct timed timers[5];
    uint64_t now = now_ns();
    for (int i = 0; i < 5; i++)
        timers[i] = (struct timed){.timer.due = fire, .number = i};
    timers[4].number = 9;
    loop_set_timer(&loop, &timers[0].timer, now + 3 * NS_PER_MS);
    loop_set_timer(&loop, &timers[1].timer, now + 1 * NS_PER_MS);
    loop_set_timer(&loop, &timers[2].timer, now + 2 * NS_PER_MS);
    loop_set_timer(&loop, &timers[3].timer, now + 1 * NS_PER_MS);
    loop_set_timer(&loop, &timers[3].timer, 0);                   /* cancelled */
    loop_set_timer(&loop, &timers[1].timer, now + 4 * NS_PER_MS); /* moved */
    loop_set_timer(&loop, &timers[4].timer, now + 5 * NS_PER_MS);
    loop.stop = false;
    CHECK(loop_run(&loop) == 0);
    CHECK(n_fired == 4 && order[0] == 2 && order[1] == 0 && order[2] == 1 && order[3] == 9);
    CHECK(now_ns() >= now + 5 * NS_PER_MS);
    CHECK(timers[0].timer.due_ns == 0 && loop.timers == NULL);
}

static int served_in_group, served_outside;

static void serve_in_group(struct loop_source *source, uint32_t events)
{
    (void)source;
    (void)events;
    served_in_group++;
}

static void serve_outside(struct loop_source *source, uint32_t events)
{
    (void)source;
    (void)events;
    served_outside++;
}

static void test_that_a_flooded_group_takes_its_turn_and_rests(void)
{
    struct loop_source flood[LOOP_TURN + 8];
    struct loop_source outside = {.fd = eventfd(1, EFD_CLOEXEC), .ready = serve_outside};
    struct loop_group group;
    CHECK(loop_group_init(&loop, &group) == 0 && loop_add(&loop, &outside, EPOLLIN) == 0);
    for (int i = 0; i < LOOP_TURN + 8; i++) {
        flood[i] = (struct loop_source){.fd = eventfd(1, EFD_CLOEXEC), .ready = serve_in_group};
        CHECK(loop_group_add(&group, &flood[i], EPOLLIN) == 0);
    }
    while (!served_in_group)
        loop_once(&loop, 100);
    CHECK(served_in_group == LOOP_TURN && group.rest.due_ns);
    CHECK(loop_once(&loop, 0) >= 1 && served_outside >= 1);
    while (served_in_group == LOOP_TURN)
        loop_once(&loop, 100);
    CHECK(served_in_group == 2 * LOOP_TURN);
    for (int i = 0; i < LOOP_TURN + 8; i++)
        loop_remove(&flood[i]);
    loop_group_fini(&group);
    CHECK(group.rest.due_ns == 0);
    loop_remove(&outside);
    CHECK(loop_once(&loop, 0) == 0);
}

int main(void)
{
    if (loop_init(&loop))
        return 1;
    test_that_timers_fire_once_in_the_order_of_their_time();
    test_that_what_is_removed_in_a_round_is_not_served_in_it();
    test_that_a_flooded_group_takes_its_turn_and_rests();
    loop_fini(&loop);
    return claim_result();
}
