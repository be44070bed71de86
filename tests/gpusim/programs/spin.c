/* spin - keep the GPU busy with kernels that take a given time.
 *
 *   spin NS SECONDS [SYNC_EVERY [GRID]]
 *
 * Launches kernels of NS nanoseconds until SECONDS have passed (0: for ever), waits for the GPU
 * after every SYNC_EVERY of them (0, the default: never), and at the end. Says "ready" when it
 * begins, and at the end how many it launched.
 */
#include "kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void check(const char *what, CUresult rc)
{
    if (rc != CUDA_SUCCESS)
        kinds_fail("spin:", what, rc);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fputs("Usage: spin NS SECONDS [SYNC_EVERY [GRID]]\n", stderr);
        return 2;
    }
    unsigned long long ns = strtoull(argv[1], NULL, 10), launches = 0;
    unsigned long every = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
    unsigned grid = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : 64;
    double seconds = strtod(argv[2], NULL);
    CUmodule module;
    CUfunction kernel;
    void *arguments[] = {&ns};
    kinds_start();
    check("cuModuleLoadData", cuModuleLoadData(&module, "simulated"));
    check("cuModuleGetFunction", cuModuleGetFunction(&kernel, module, "spin"));
    puts("ready");
    fflush(stdout);
    for (double end = now() + seconds; seconds <= 0 || now() < end;) {
        check("cuLaunchKernel",
              cuLaunchKernel(kernel, grid, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
        launches++;
        if (every && launches % every == 0)
            check("cuCtxSynchronize", cuCtxSynchronize());
    }
    check("cuCtxSynchronize", cuCtxSynchronize());
    printf("%llu\n", launches);
    return 0;
}
