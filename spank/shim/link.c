/* link.c - the connection to vgpud that stays. */
#include "shim/link.h"
#include "shim/connect.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#define MEASURE_SECS 2 /* NVML on a busy node */
#define RENEW_SECS   1

void link_set(struct link *link, int fd)
{
    struct timeval limit = {.tv_sec = MEASURE_SECS};
    struct stat st;

    if (fstat(fd, &st) != 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    link->device = st.st_dev;
    link->inode = st.st_ino;
    link->fd_plus_1 = fd + 1;
}

/* The descriptor, if it still is the socket that we opened; else -1. */
static int link_fd(const struct link *link)
{
    int fd = link->fd_plus_1 - 1;
    struct stat st;

    if (fd < 0 || fstat(fd, &st) != 0 || st.st_dev != link->device || st.st_ino != link->inode)
        return -1;
    return fd;
}

bool link_alive(const struct link *link)
{
    struct pollfd look = {.fd = link_fd(link), .events = POLLRDHUP};

    return look.fd >= 0 && (poll(&look, 1, 0) == 0 || (look.revents & (POLLRDHUP | POLLHUP)) == 0);
}

bool link_send(const struct link *link, const void *message, size_t length)
{
    int fd = link_fd(link);
    return fd >= 0 && vgpu_send(fd, message, length, NULL, 0) == 0;
}

static void drop(struct link *link)
{
    int fd = link_fd(link);

    link->fd_plus_1 = 0;
    if (fd >= 0)
        close(fd);
}

/* Under the lock. */
static bool renew(struct link *link)
{
    struct vgpu_attach_reply reply;
    int fds[VGPU_MAX_FDS];
    size_t n_fds;

    if (link_alive(link))
        return true;
    drop(link);
    int fd = connect_attach_once(RENEW_SECS, VGPU_ATTACH_AGAIN, &reply, fds, &n_fds);
    if (fd < 0)
        return false;
    for (size_t i = 0; i < n_fds; i++)
        close(fds[i]); /* the pages are mapped already */
    if (reply.status != VGPU_OK) {
        close(fd);
        return false;
    }
    link_set(link, fd);
    return true;
}

bool link_renew(struct link *link)
{
    pthread_mutex_lock(&link->lock);
    bool back = renew(link);
    pthread_mutex_unlock(&link->lock);
    return back;
}

/* Under the lock. An answer that does not come must not be taken for that to the next question. */
static int ask(struct link *link, uint64_t vgpu_id, uint64_t *bytes)
{
    struct vgpu_measure_request request = {.vgpu_id = vgpu_id};
    struct vgpu_measure_reply reply = {0};
    size_t n_fds = 0;

    vgpu_head_init(&request.head, VGPU_MEASURE, sizeof request);
    if (!link_send(link, &request, sizeof request) ||
        vgpu_receive(link_fd(link), &reply, sizeof reply, NULL, &n_fds) <= 0 ||
        reply.head.type != VGPU_MEASURE) {
        drop(link);
        return -1;
    }
    *bytes = reply.driver;
    return reply.status == VGPU_OK ? 0 : -1;
}

int link_measure(struct link *link, uint64_t vgpu_id, uint64_t *bytes)
{
    pthread_mutex_lock(&link->lock);
    int rc = renew(link) ? ask(link, vgpu_id, bytes) : -1;
    pthread_mutex_unlock(&link->lock);
    return rc;
}
