/* link.h - the connection to vgpud that stays, for questions and for leases.
 *
 * The program may close it (closefrom), or have got its number for a file of its own, so it is
 * identified before every use, and made again when it is gone.
 */
#ifndef VGPU_SHIM_LINK_H
#define VGPU_SHIM_LINK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zeros: none yet. */
struct link {
    pthread_mutex_t lock; /* whoever asks, or connects again */
    _Atomic int fd_plus_1;
    uint64_t device, inode;
};

void link_set(struct link *link, int fd);

/* Is it still ours, and vgpud at its other end? */
bool link_alive(const struct link *link);

/* A message that is not answered. */
bool link_send(const struct link *link, const void *message, size_t length);

/* Connect and attach again, after vgpud was gone. True when it is there. */
bool link_renew(struct link *link);

/* The bytes that the driver lists for this process on the vGPU's GPU. -1: no answer. */
int link_measure(struct link *link, uint64_t vgpu_id, uint64_t *bytes);

#endif
