/* connect.h - attaching to vgpud, over the step's socket. */
#ifndef VGPU_SHIM_CONNECT_H
#define VGPU_SHIM_CONNECT_H

#include "proto/wire.h"
#include "shim/charge.h"
#include "shim/link.h"

#include <time.h>

enum connect_outcome {
    CONNECT_ATTACHED,
    CONNECT_OUTSIDE, /* this process is not in a step with vGPUs: everything passes through */
    CONNECT_FAILED,  /* err has one sentence for the user */
};

/* Attach this process. With `patient`, try for 5 s if vgpud does not answer. fds receives (control,
 * account) of each vGPU. */
enum connect_outcome connect_attach(struct link *link, struct vgpu_attach_reply *reply, int *fds,
                                    size_t *n_fds, bool patient, vgpu_error_t *err);

/* Ask once. flags: enum vgpu_attach_flag. Returns the connection, or -1 with errno. */
int connect_attach_once(time_t seconds, uint32_t flags, struct vgpu_attach_reply *reply, int *fds,
                        size_t *n_fds);

/* Map the pages of one vGPU. `process` is this process' place in the account. 0, or -1 with err. */
int connect_map(struct charge *charge, int control, int account, uint32_t process,
                vgpu_error_t *err);
void connect_unmap(struct charge *charge);

#endif
