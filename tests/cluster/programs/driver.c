/* driver.c - finds the driver functions of driver.h. */
#include "driver.h"

#ifdef DRIVER_DLOPEN

#include <dlfcn.h>
#include <stdio.h>

#define DRIVER_DEFINE(name) __typeof__(&name) DRIVER_POINTER(name);
DRIVER_FUNCTIONS(DRIVER_DEFINE)

static void *look_up(void *library, const char *name)
{
    void *function = dlsym(library, name);
    if (!function)
        fprintf(stderr, "libcuda.so.1 has no %s\n", name);
    return function;
}

#define DRIVER_TEXT(name) #name
#define DRIVER_NAME(name) DRIVER_TEXT(name)
#define DRIVER_LOOKUP(name)                                                                        \
    if (!(CU(name) = (__typeof__(&name))look_up(library, DRIVER_NAME(name))))                      \
        return -1;

int driver_open(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return -1;
    }
    DRIVER_FUNCTIONS(DRIVER_LOOKUP)
    return 0;
}

#else

int driver_open(void)
{
    return 0;
}

#endif
