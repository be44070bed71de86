/* pulse - work in bursts, as inference and training do.
 *
 *   pulse WORK_NS KERNEL_NS PERIOD_NS SECONDS          a request every PERIOD_NS
 *   pulse WORK_NS KERNEL_NS +HOST_NS SECONDS           HOST_NS of host work (asleep) after each
 *
 * Each request is WORK_NS of kernels of KERNEL_NS, and a wait for the GPU. Says "ready" when it
 * begins, and at the end one line of JSON: how many requests, and how long one took (ns): median,
 * 99th percentile and longest.
 */
#include "kinds.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define REQUESTS 1000000

static long long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void sleep_until(long long at)
{
    struct timespec t = {at / 1000000000, at % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

static void check(const char *what, CUresult rc)
{
    if (rc != CUDA_SUCCESS)
        kinds_fail("pulse:", what, rc);
}

static void request(CUfunction kernel, long long work, long long each)
{
    for (long long done = 0; done < work; done += each) {
        unsigned long long ns = (unsigned long long)(work - done < each ? work - done : each);
        void *arguments[] = {&ns};
        check("cuLaunchKernel",
              cuLaunchKernel(kernel, 64, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
    }
    check("cuCtxSynchronize", cuCtxSynchronize());
}

static int ascending(const void *a, const void *b)
{
    long long x = *(const long long *)a, y = *(const long long *)b;
    return (x > y) - (x < y);
}

static void report(long long *took, size_t n)
{
    qsort(took, n, sizeof *took, ascending);
    printf("{\"requests\": %zu, \"median_ns\": %lld, \"p99_ns\": %lld, \"longest_ns\": %lld}\n", n,
           n ? took[n / 2] : 0, n ? took[n * 99 / 100] : 0, n ? took[n - 1] : 0);
}

int main(int argc, char **argv)
{
    static long long took[REQUESTS];
    CUmodule module;
    CUfunction kernel;
    size_t n = 0;
    if (argc != 5) {
        fputs("Usage: pulse WORK_NS KERNEL_NS PERIOD_NS|+HOST_NS SECONDS\n", stderr);
        return 2;
    }
    long long work = atoll(argv[1]), each = atoll(argv[2]), gap = llabs(atoll(argv[3]));
    kinds_start();
    check("cuModuleLoadData", cuModuleLoadData(&module, "simulated"));
    check("cuModuleGetFunction", cuModuleGetFunction(&kernel, module, "spin"));
    puts("ready");
    fflush(stdout);
    long long start = now_ns(), end = start + (long long)(atof(argv[4]) * 1e9);
    for (long long due = start; due < end && n < REQUESTS; n++) {
        sleep_until(due);
        long long began = now_ns();
        request(kernel, work, each);
        took[n] = now_ns() - began;
        due = argv[3][0] == '+' ? now_ns() + gap : due + gap;
    }
    report(took, n);
    return 0;
}
