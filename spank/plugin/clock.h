/* clock.h - deadlines in milliseconds of the monotonic clock. */
#ifndef VGPU_CLOCK_H
#define VGPU_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* What is left until the deadline, for poll(). */
static inline int clock_left_ms(uint64_t deadline)
{
    uint64_t now = clock_ms();
    return now < deadline ? (int)(deadline - now) : 0;
}

static inline void clock_sleep_ms(long ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

#endif
