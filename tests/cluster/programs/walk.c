/* walk - take GPU memory through a copy of the driver library, whose functions it finds by itself:
 * neither the library's name nor dlsym says what it is about.
 *
 *   walk LIBRARY BYTES MS
 *
 * Says what the driver calls the whole card and what came of the allocation, and holds it for MS
 * milliseconds. */
#include <cuda.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The table of a library's dynamic section with this tag. */
static const void *table(const struct link_map *library, ElfW(Sxword) tag)
{
    for (const ElfW(Dyn) *entry = library->l_ld; entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == tag)
            return (const void *)entry->d_un.d_ptr;
    return NULL;
}

/* A function by its name; symbols end where their names begin. */
static void *find(const struct link_map *library, const char *name)
{
    const ElfW(Sym) *symbol = table(library, DT_SYMTAB);
    const char *names = table(library, DT_STRTAB);
    for (; symbol && names && (const char *)(symbol + 1) <= names; symbol++)
        if (symbol->st_shndx != SHN_UNDEF && strcmp(names + symbol->st_name, name) == 0)
            return (void *)(library->l_addr + symbol->st_value);
    fprintf(stderr, "walk: no %s\n", name);
    exit(2);
}

#define FIND(name) ((__typeof__(&name))find(library, #name))

int main(int argc, char **argv)
{
    struct link_map *library = argc == 4 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!library) {
        fprintf(stderr, "walk: %s\n", argc == 4 ? dlerror() : "LIBRARY BYTES MS are wanted");
        return 2;
    }
    CUcontext context;
    CUdeviceptr block;
    size_t total = 0;
    CUresult result = FIND(cuInit)(0);
    if (result == CUDA_SUCCESS)
        result = FIND(cuDevicePrimaryCtxRetain)(&context, 0);
    if (result == CUDA_SUCCESS)
        result = FIND(cuCtxSetCurrent)(context);
    if (result == CUDA_SUCCESS)
        result = FIND(cuDeviceTotalMem_v2)(&total, 0);
    if (result == CUDA_SUCCESS)
        result = FIND(cuMemAlloc_v2)(&block, strtoull(argv[2], NULL, 10));
    printf("total %zu, result %d\n", total, (int)result);
    fflush(stdout);
    long ms = strtol(argv[3], NULL, 10);
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
    return result == CUDA_SUCCESS ? 0 : 3;
}
