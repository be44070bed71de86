/* comm_user.h - reads a user's matrix file on the node with the user's rights, not root's. */
#ifndef VGPU_COMM_USER_H
#define VGPU_COMM_USER_H

#include "comm.h"

#include <sys/types.h>

struct comm_user {
    uid_t uid;
    gid_t gid;
    const gid_t *groups;
    int n_groups;
    const char *directory; /* what a relative path starts from; "": none is taken */
};

/* Returns 0, or -1 with err. Takes at most a second, whatever the user's file system does. */
int comm_user_read(struct comm_matrix *matrix, const char *path, const struct comm_user *user,
                   vgpu_error_t *err);

#endif
