/* conn.h - connections: who may say what, answers that come later, limits. */
#ifndef VGPUD_CONN_H
#define VGPUD_CONN_H

#include "daemon.h"

/* What is done with a kind of message. The message is completed with zeros if it was shorter than
 * its struct. Handlers answer with conn_send, conn_status or conn_wait, or not at all. */
struct handler {
    uint16_t type;
    void (*handle)(struct conn *conn, const void *message);
};

/* Those of vgpud.sock (root_requests.c) and of attach sockets (step_requests.c). Both end with a
 * type of 0. */
extern const struct handler root_handlers[], step_handlers[];

/* A caller at a listening socket: accept it, or turn it away when there are too many. step NULL:
 * vgpud.sock. */
void conn_accept(struct daemon *daemon, int listener, struct step *step);

/* Never blocks: a peer that does not read is disconnected. */
void conn_send(struct conn *conn, const void *message, size_t length, const int *fds, size_t n);

/* An answer that is a status and a sentence: the beginning of every kind of reply. */
void conn_status(struct conn *conn, uint16_t type, enum vgpu_status status, const char *text);

/* Answer later (waiters.h): conn says for what. */
void conn_wait(struct conn *conn, uint16_t type, uint64_t timeout_ns);

void conn_close(struct conn *conn);

/* The step or the process is no more: connections forget it. */
void conn_forget_step(struct step *step);
void conn_forget_process(struct process *process);

#endif
