/* driver.h - the driver functions that a test program calls: linked to libcuda.so.1, or, with
 * DRIVER_DLOPEN, looked up as programs do that run without a GPU too. */
#ifndef DRIVER_H
#define DRIVER_H

#include <cuda.h>

#define DRIVER_FUNCTIONS(X)                                                                        \
    X(cuInit)                                                                                      \
    X(cuDeviceGetCount)                                                                            \
    X(cuDeviceGet)                                                                                 \
    X(cuDeviceGetName)                                                                             \
    X(cuDeviceGetUuid)                                                                             \
    X(cuDeviceTotalMem)                                                                            \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuCtxSetCurrent)                                                                             \
    X(cuCtxSynchronize)                                                                            \
    X(cuMemGetInfo)                                                                                \
    X(cuMemAlloc)                                                                                  \
    X(cuMemAllocPitch)                                                                             \
    X(cuMemAllocManaged)                                                                           \
    X(cuMemFree)                                                                                   \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleGetFunction)                                                                         \
    X(cuLaunchKernel)

#ifdef DRIVER_DLOPEN

/* One pointer for each function, named as it is. cuda.h maps names to their newest versions, as in
 * cuMemAlloc -> cuMemAlloc_v2, which is the name that is looked up. */
#define DRIVER_PASTE(name)   driver_##name
#define DRIVER_POINTER(name) DRIVER_PASTE(name)
#define DRIVER_DECLARE(name) extern __typeof__(&name) DRIVER_POINTER(name);
DRIVER_FUNCTIONS(DRIVER_DECLARE)
#define CU(name) DRIVER_POINTER(name)

#else

#define CU(name) name

#endif

/* Find the driver. Returns 0, or -1 after saying on stderr what is missing. */
int driver_open(void);

#endif
