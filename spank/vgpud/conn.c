/* conn.c - connections: one message at a time from each, validated before anything is done. */
#include "conn.h"

#include "log.h"
#include "proc.h"
#include "process.h"
#include "waiters.h"

#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define FEW_CONNS  64                       /* what a step, and root, may always have */
#define MANY_CONNS (2 * VGPU_MAX_PROCESSES) /* more than a step can have a use for */

/* Longest message that anybody sends; longer ones (of a newer minor version) are cut. */
union request {
    struct vgpu_head head;
    struct vgpu_bind_request bind;
    char bytes[8192];
};
_Static_assert(sizeof(struct vgpu_bind_request) <= 8192, "the longest message fits");

/* --- sending --------------------------------------------------------------------------------- */

void conn_send(struct conn *conn, const void *message, size_t length, const int *fds, size_t n)
{
    if (conn->source.fd >= 0 && vgpu_send(conn->source.fd, message, length, fds, n))
        conn_close(conn);
}

void conn_status(struct conn *conn, uint16_t type, enum vgpu_status status, const char *text)
{
    struct vgpu_status_reply reply = {.status = status};
    vgpu_head_init(&reply.head, type, sizeof reply);
    snprintf(reply.error.text, sizeof reply.error.text, "%s", text);
    conn_send(conn, &reply, sizeof reply, NULL, 0);
}

/* --- receiving ------------------------------------------------------------------------------- */

/* What arrived is not a message: say so, in words that fit. */
static void refuse_message(struct conn *conn, const struct vgpu_head *head)
{
    if (head->magic == VGPU_WIRE_MAGIC && head->major != VGPU_WIRE_MAJOR)
        conn_status(conn, head->type, VGPU_BAD_VERSION,
                    "vgpud speaks another major version of the protocol");
    else
        conn_status(conn, 0, VGPU_BAD_MESSAGE, "this is not a message of vgpud's protocol");
}

static void dispatch(struct conn *conn, const union request *request)
{
    const struct handler *handler = conn->is_root ? root_handlers : step_handlers;
    while (handler->type && handler->type != request->head.type)
        handler++;
    if (!handler->type)
        conn_status(conn, request->head.type, VGPU_BAD_MESSAGE,
                    "this socket does not take messages of that type");
    else if (conn->waiting)
        conn_status(conn, request->head.type, VGPU_BAD_MESSAGE,
                    "the answer to the message before is still to come");
    else if (!conn->is_root && !conn->step && !conn->process)
        conn_close(conn);
    else
        handler->handle(conn, request);
}

static void conn_ready(struct loop_source *source, uint32_t events)
{
    struct conn *conn = container_of(source, struct conn, source);
    union request request;
    (void)events;
    long length = vgpu_receive(source->fd, &request, sizeof request, NULL, NULL);
    if (length > 0)
        dispatch(conn, &request);
    else if (length < 0 && errno == EPROTO)
        refuse_message(conn, &request.head);
    else if (length == 0 || (errno != EAGAIN && errno != EINTR))
        conn_close(conn);
}

/* --- coming and going ------------------------------------------------------------------------ */

static bool may_have_another(const struct daemon *daemon, const struct step *step)
{
    uint32_t share = daemon->max_conns / (daemon->n_steps + 1);
    if (share < FEW_CONNS)
        share = FEW_CONNS;
    if (share > MANY_CONNS)
        share = MANY_CONNS;
    return daemon->n_conns < daemon->max_conns && (!step || step->n_conns < share);
}

/* No descriptor is left: give up the spare one for a moment, to take the caller off the queue and
 * turn it away. */
static void shed_caller(struct daemon *daemon, int listener)
{
    close(daemon->spare_fd);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    daemon->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void turn_away(int fd)
{
    struct vgpu_status_reply reply = {.status = VGPU_TOO_MANY,
                                      .error.text = "there are too many connections to vgpud"};
    vgpu_head_init(&reply.head, 0, sizeof reply);
    vgpu_send(fd, &reply, sizeof reply, NULL, 0);
    close(fd);
}

void conn_accept(struct daemon *daemon, int listener, struct step *step)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE)
            shed_caller(daemon, listener);
        return;
    }
    struct conn *conn = may_have_another(daemon, step) ? calloc(1, sizeof *conn) : NULL;
    if (!conn) {
        turn_away(fd);
        return;
    }
    conn->daemon = daemon;
    conn->source = (struct loop_source){.fd = fd, .ready = conn_ready};
    conn->step = step;
    conn->is_root = !step;
    if (step ? loop_group_add(&step->group, &conn->source, EPOLLIN)
             : loop_add(&daemon->loop, &conn->source, EPOLLIN)) {
        close(fd);
        free(conn);
        return;
    }
    conn->next = daemon->conns;
    daemon->conns = conn;
    daemon->n_conns++;
    if (step)
        step->n_conns++;
}

void conn_close(struct conn *conn)
{
    struct daemon *daemon = conn->daemon;
    struct conn **place = &daemon->conns;
    if (conn->source.fd < 0)
        return;
    while (*place != conn)
        place = &(*place)->next;
    *place = conn->next;
    daemon->n_conns--;
    if (conn->step)
        conn->step->n_conns--;
    loop_remove(&conn->source);
    if (conn->process)
        process_check_image(conn->process);
    if (conn->waiting == VGPU_UNBIND_JOB) /* who asked has lost patience */
        unbind_job(daemon, conn->job);
    loop_free(&daemon->loop, conn);
}

void conn_forget_step(struct step *step)
{
    struct conn *next;
    for (struct conn *conn = step->daemon->conns; conn; conn = next) {
        next = conn->next;
        if (conn->step != step)
            continue;
        conn->step = NULL;
        if (loop_add(&step->daemon->loop, &conn->source, EPOLLIN))
            conn_close(conn);
    }
}

void conn_forget_process(struct process *process)
{
    for (struct conn *conn = process->daemon->conns; conn; conn = conn->next)
        if (conn->process == process)
            conn->process = NULL;
}

void conn_wait(struct conn *conn, uint16_t type, uint64_t timeout_ns)
{
    struct daemon *daemon = conn->daemon;
    conn->waiting = type;
    conn->asked_ns = now_ns();
    conn->deadline_ns = conn->asked_ns + timeout_ns;
    if (!daemon->waiters.due_ns || conn->deadline_ns < daemon->waiters.due_ns)
        loop_set_timer(&daemon->loop, &daemon->waiters, conn->deadline_ns);
}
