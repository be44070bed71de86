/* fault.h - faults to inject, from /run/gpusim/faults. One statement per line, # starts a comment:
 *
 *   fail NAME [at N | from N] with CODE [garbage]
 *       The N-th use of NAME (from N: this and all later ones; neither: every one) in each process
 *       returns CODE and does nothing. `garbage` fills its first out-parameter with 0xdb.
 *   hide NAME
 *       The library has no such symbol: not for dlsym, not for cuGetProcAddress. (Decided when the
 *       process loads the library.)
 *   xid GPU CODE
 *       GPU (index in the machine) reports this XID once; contexts that exist on it are lost.
 *   nvml KEY GPU VALUE
 *       NVML answers VALUE about this GPU, whatever is true. KEY is utilization (per cent, of the
 *       GPU and of each process), pid (of each process), processes (at most so many are listed),
 *       timestamp (of samples, us), temperature; of NVLink N: link.N (0: inactive), and the error
 *       counts crc-flit.N, crc-data.N, replay.N, recovery.N, ecc.N.
 *   release Nms
 *       The memory of a process that dies stays listed and in use so long.
 *
 * The file is read again when it changes, and counting starts anew.
 */
#ifndef GPUSIM_FAULT_H
#define GPUSIM_FAULT_H

#include "state.h"

/* Zero-initialised before the first use. */
struct gpusim_faults {
    pthread_mutex_t lock;
    char path[256];
    uint64_t version; /* of the file as last read; 0: none */
    struct gpusim_fault *list;
};

/* Name the file DIR/faults. Returns whether it exists. */
bool gpusim_faults_open(struct gpusim_faults *faults, const char *dir);

/* Look whether the file changed, and if so read it and apply to the state (may be NULL) what
 * concerns the whole machine. A bad line is reported on stderr, and the file is ignored. */
void gpusim_faults_refresh(struct gpusim_faults *faults, struct gpusim_state *state);

/* Count a use of the call. Returns the code it is to fail with (0: none); *garbage as stated. */
int gpusim_fault(struct gpusim_faults *faults, const char *call, bool *garbage);

/* What NVML is to answer for the key; false: what is true. *value is kept then. */
bool gpusim_faults_value(struct gpusim_faults *faults, const char *key, uint32_t gpu,
                         uint64_t *value);

bool gpusim_faults_hide(struct gpusim_faults *faults, const char *symbol);

/* hide.c: make the library that contains the address forget its hidden symbols. */
void gpusim_hide_symbols(struct gpusim_faults *faults, const void *inside);

#endif
