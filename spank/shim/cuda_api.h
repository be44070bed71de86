/* cuda_api.h - the CUDA driver API with every version of every entry point under its exported name,
 * and the driver's own entry points behind ours. */
#ifndef VGPU_SHIM_CUDA_API_H
#define VGPU_SHIM_CUDA_API_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

/* The driver's own entry points, by the rows of the table. */
struct cuda_real {
#define HOOK(symbol, since, kind, charged, released)       __typeof__(&symbol) symbol;
#define GATE(symbol, since, parameters, arguments, stream) __typeof__(&symbol) symbol;
#define USED(symbol)                                       __typeof__(&symbol) symbol;
#define NONE(symbol, why)
#include "shim/hooks.def"
#undef HOOK
#undef GATE
#undef USED
#undef NONE
};

extern struct cuda_real cuda_real;
#define REAL(symbol) (cuda_real.symbol)

/* A function that programs are to find before the driver's. */
#define EXPORT __attribute__((visibility("default")))

#endif
