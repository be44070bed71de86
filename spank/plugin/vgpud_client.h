/* vgpud_client.h - what the plugin says to vgpud, each over a connection of its own. */
#ifndef VGPU_VGPUD_CLIENT_H
#define VGPU_VGPUD_CLIENT_H

#include "proto/wire.h"

/* How long a caller waits, in milliseconds since its call. */
struct vgpud_patience {
    uint32_t start_ms;  /* while nobody listens at the socket, or vgpud goes away in between */
    uint32_t answer_ms; /* for an answer */
};

/* One question and its answer. `reply` has room for `room` bytes; *n holds the room in fds and,
 * after, how many descriptors came (NULL, NULL: none wanted). Returns 0, or -1 with err. */
int vgpud_ask(const char *socket, struct vgpud_patience patience, const void *request,
              size_t length, void *reply, size_t room, int *fds, size_t *n, vgpu_error_t *err);

/* VGPU_UNBIND_STEP, VGPU_UNBIND_JOB or VGPU_STEP_FATE of a step. Returns 0 with the reply, or -1
 * with err. */
int vgpud_tell(const char *socket, struct vgpud_patience patience, enum vgpu_type type,
               uint32_t job, uint32_t step, struct vgpu_status_reply *reply, vgpu_error_t *err);

#endif
