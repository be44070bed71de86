/* procaddress.h - the table behind cuGetProcAddress; made by cuda_api.py, sorted by name and
 * version. */
#ifndef GPUSIM_PROCADDRESS_H
#define GPUSIM_PROCADDRESS_H

#include <cuda.h>

struct sim_proc {
    const char *name;
    int version;    /* first CUDA version with it */
    int per_thread; /* the variant for per-thread default streams */
    const char *symbol;
    void *address;
};
extern const struct sim_proc sim_procs[];
extern const unsigned sim_n_procs;

#endif
