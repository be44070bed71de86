/* entry.c - the table of the CUDA driver's entry points, cuGetProcAddress and cuInit. */
#include "shim/library.h"
#include "shim/process.h"

struct cuda_real cuda_real;

static const struct hook hooks[] = {
#define HOOK(symbol, since, kind, charged, released)       {#symbol, (void *)symbol, since},
#define GATE(symbol, since, parameters, arguments, stream) {#symbol, (void *)symbol, since},
#define USED(symbol)                                       {#symbol, NULL, 0},
#define NONE(symbol, why)
#include "shim/hooks.def"
};

_Static_assert(sizeof hooks / sizeof hooks[0] == sizeof cuda_real / sizeof(void *),
               "one place for each row");
_Static_assert(sizeof hooks / sizeof hooks[0] < LIBRARY_INDEX / 2, "the index stays sparse");

static CUresult missing(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

struct library cuda_library = {
    .soname = "libcuda.so.1",
    .hooks = hooks,
    .n_hooks = sizeof hooks / sizeof hooks[0],
    .real = (void **)&cuda_real,
    .missing = (void *)missing,
    .version = CUDA_VERSION,
};

EXPORT CUresult cuInit(unsigned int Flags)
{
    CUresult rc = process_enter();
    return rc != CUDA_SUCCESS ? rc : REAL(cuInit)(Flags);
}

/* The driver answers; what is ours is put in place of its own. It is asked by programs before
 * cuInit, so nothing is attached here. */
static void put_ours(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
    if (pfn && *pfn)
        *pfn = library_stand_in_for(&cuda_library, symbol, version,
                                    flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, *pfn);
}

EXPORT CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
    if (!library_open(&cuda_library, true))
        return CUDA_ERROR_NO_DEVICE;
    CUresult rc = REAL(cuGetProcAddress)(symbol, pfn, cudaVersion, flags);
    if (rc == CUDA_SUCCESS)
        put_ours(symbol, pfn, cudaVersion, flags);
    return rc;
}

EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
                                    cuuint64_t flags, CUdriverProcAddressQueryResult *symbolStatus)
{
    if (!library_open(&cuda_library, true))
        return CUDA_ERROR_NO_DEVICE;
    CUresult rc = REAL(cuGetProcAddress_v2)(symbol, pfn, cudaVersion, flags, symbolStatus);
    if (rc == CUDA_SUCCESS)
        put_ours(symbol, pfn, cudaVersion, flags);
    return rc;
}
