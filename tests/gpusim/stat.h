/* stat.h - what the parts of gpusim-stat share. */
#ifndef GPUSIM_STAT_H
#define GPUSIM_STAT_H

#include "state.h"

#include <stdio.h>

/* Print what each GPU and process holds and did, for people or as JSON. To a buffer in memory: a
 * GPU's lock is held meanwhile. */
void stat_table(struct gpusim_state *state, FILE *out);
void stat_json(struct gpusim_state *state, FILE *out);

struct stat_watch {
    const char *pids; /* list, or "all" */
    unsigned hz;
    double seconds;
    bool json;
};

/* Look at the processes' bytes `hz` times a second and print the largest sum per GPU. 0, or -1 with
 * err. */
int stat_watch(struct gpusim_state *state, const struct stat_watch *watch, FILE *out,
               struct gpusim_error *err);

/* Print how the GPUs are linked, in the manner of `nvidia-smi topo -m`, as NVML tells it. 0, or -1
 * with err. */
int stat_topology(FILE *out, struct gpusim_error *err);

/* "1.5GiB" in a buffer of the caller's. */
const char *stat_size(uint64_t bytes, char out[16]);

#endif
