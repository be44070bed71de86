/* connect.h - asking vgpud, over the step's socket.
 *
 * A connection for a question lasts until the answer. The one for leases (link) stays; the program
 * may have closed it, or have got its number for a file of its own, so it is identified before
 * every use.
 */
#ifndef VGPU_SHIM_CONNECT_H
#define VGPU_SHIM_CONNECT_H

#include "proto/wire.h"
#include "shim/charge.h"

enum connect_outcome {
    CONNECT_ATTACHED,
    CONNECT_OUTSIDE, /* this process is not in a step with vGPUs: everything passes through */
    CONNECT_FAILED,  /* err has one sentence for the user */
};

/* A connection that stays. All zeros: none. */
struct link {
    _Atomic int fd_plus_1;
    uint64_t device, inode;
};

/* Attach this process. With `patient`, try for 5 s if vgpud does not answer. fds receives (control,
 * account) of each vGPU. */
enum connect_outcome connect_attach(struct link *link, struct vgpu_attach_reply *reply, int *fds,
                                    size_t *n_fds, bool patient, vgpu_error_t *err);

/* Is the connection still ours and vgpud at its other end? */
bool link_alive(const struct link *link);
bool link_send(struct link *link, const void *message, size_t length);

/* Connect and attach again, after vgpud was gone. True when it is back. */
bool link_renew(struct link *link);

/* Map the pages of one vGPU. `process` is this process' place in the account. 0, or -1 with err. */
int connect_map(struct charge *charge, int control, int account, uint32_t process,
                vgpu_error_t *err);
void connect_unmap(struct charge *charge);

/* The bytes that the driver lists for this process on the vGPU's GPU. -1: no answer. */
int connect_measure(uint64_t vgpu_id, uint64_t *bytes);

#endif
