/* ways - a program that is not linked to libcuda: prints the total memory of device 0 by
 * cuDeviceTotalMem_v2 as found in each way there is to find it. "nothing": that way does not find
 * it. */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>

typedef CUresult total_fn(size_t *, CUdevice);
typedef void *dlsym_fn(void *, const char *);
typedef CUresult address_v1_fn(const char *, void **, int, cuuint64_t);
typedef CUresult address_v2_fn(const char *, void **, int, cuuint64_t,
                               CUdriverProcAddressQueryResult *);

#define NAME "cuDeviceTotalMem_v2"

static void ask(const char *way, void *found)
{
    size_t bytes = 0;
    if (found && ((total_fn *)found)(&bytes, 0) == CUDA_SUCCESS)
        printf("%s %zu\n", way, bytes);
    else
        printf("%s nothing\n", way);
}

/* A dlsym got by some other way than by its name. */
static void ask_by(const char *way, void *found, void *cuda)
{
    ask(way, found ? ((dlsym_fn *)found)(cuda, NAME) : NULL);
}

static void ask_driver(const char *way, void *cuda, const char *asked)
{
    address_v2_fn *address = (address_v2_fn *)dlsym(cuda, asked);
    void *found = NULL;
    if (address)
        address("cuDeviceTotalMem", &found, 3020, 0, NULL);
    ask(way, found);
}

/* The function that finds functions, found by itself, in both arities. */
static void ask_itself(void *cuda)
{
    address_v2_fn *address = (address_v2_fn *)dlsym(cuda, "cuGetProcAddress_v2");
    void *old = NULL, *new = NULL, *found = NULL;
    address("cuGetProcAddress", &old, 11030, 0, NULL);
    address("cuGetProcAddress", &new, 12000, 0, NULL);
    if (old)
        ((address_v1_fn *)old)("cuDeviceTotalMem", &found, 3020, 0);
    ask("cuGetProcAddress at 11030", found);
    found = NULL;
    if (new)
        ((address_v2_fn *)new)("cuDeviceTotalMem", &found, 3020, 0, NULL);
    ask("cuGetProcAddress at 12000", found);
}

int main(void)
{
    ask("RTLD_DEFAULT before", dlsym(RTLD_DEFAULT, NAME));
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    if (!cuda || !libc)
        return 1;
    ((CUresult(*)(unsigned))dlsym(cuda, "cuInit"))(0);
    ask("handle", dlsym(cuda, NAME));
    ask("RTLD_DEFAULT local", dlsym(RTLD_DEFAULT, NAME));
    ask("RTLD_NEXT local", dlsym(RTLD_NEXT, NAME));
    ask("program's handle local", dlsym(dlopen(NULL, RTLD_NOW), NAME));
    ask("dlvsym", dlvsym(cuda, NAME, "GLIBC_2.2.5"));
    ask_by("dlsym of libc", dlsym(libc, "dlsym"), cuda);
    ask_by("dlsym by RTLD_NEXT", dlsym(RTLD_NEXT, "dlsym"), cuda);
    ask_by("dlsym by dlvsym 2.2.5", dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"), cuda);
    ask_by("dlsym by dlvsym 2.34", dlvsym(RTLD_DEFAULT, "dlsym", "GLIBC_2.34"), cuda);
    ask_by("dlsym by dlvsym of libc", dlvsym(libc, "dlsym", "GLIBC_2.34"), cuda);
    ask_driver("cuGetProcAddress_v2", cuda, "cuGetProcAddress_v2");
    ask_itself(cuda);
    dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    ask("RTLD_DEFAULT global", dlsym(RTLD_DEFAULT, NAME));
    ask("RTLD_NEXT global", dlsym(RTLD_NEXT, NAME));
    ask("program's handle global", dlsym(dlopen(NULL, RTLD_NOW), NAME));
    return 0;
}
