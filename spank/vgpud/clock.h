/* clock.h - the one clock of vgpud: monotonic nanoseconds. */
#ifndef VGPUD_CLOCK_H
#define VGPUD_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_MS  1000000ull
#define NS_PER_SEC 1000000000ull

static inline uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_SEC + (uint64_t)now.tv_nsec;
}

#endif
