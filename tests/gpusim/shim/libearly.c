/* libearly - preloaded by the user: looks up names before anything else has begun, and has its own
 * malloc counter and round_up. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

typedef void *calloc_fn(size_t, size_t);

static void *found_malloc, *found_cuda;

int round_up(int value);

int round_up(int value)
{
    return value + 1000;
}

__attribute__((constructor)) static void begin(void)
{
    found_malloc = dlsym(RTLD_NEXT, "malloc");
    found_cuda = dlsym(RTLD_NEXT, "cuInitButNoSuchName");
}

__attribute__((destructor)) static void end(void)
{
    if (!found_malloc || found_cuda || round_up(1) != 1001)
        fprintf(stderr, "libearly: wrong\n");
}
