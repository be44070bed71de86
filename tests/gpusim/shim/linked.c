/* linked - a program that is linked to libcuda: prints the total memory of device 0 as the linker
 * found cuDeviceTotalMem, as RTLD_DEFAULT finds it, and as RTLD_NEXT does. */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>

typedef CUresult total_fn(size_t *, CUdevice);

static void ask(const char *way, total_fn *total)
{
    size_t bytes = 0;
    if (total && total(&bytes, 0) == CUDA_SUCCESS)
        printf("%s %zu\n", way, bytes);
    else
        printf("%s nothing\n", way);
}

int main(void)
{
    if (cuInit(0) != CUDA_SUCCESS)
        return 1;
    ask("linked", cuDeviceTotalMem);
    ask("RTLD_DEFAULT", (total_fn *)dlsym(RTLD_DEFAULT, "cuDeviceTotalMem_v2"));
    ask("RTLD_NEXT", (total_fn *)dlsym(RTLD_NEXT, "cuDeviceTotalMem_v2"));
    return 0;
}
