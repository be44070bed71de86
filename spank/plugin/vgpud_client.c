#include "vgpud_client.h"

#include "clock.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define RETRY_MS 20

static int socket_open(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static int wait_for(int fd, short event, uint64_t deadline)
{
    struct pollfd wanted = {.fd = fd, .events = event};
    int n;
    do
        n = poll(&wanted, 1, clock_left_ms(deadline));
    while (n < 0 && errno == EINTR);
    if (n == 0)
        errno = ETIMEDOUT;
    return n > 0 ? 0 : -1;
}

/* One try. Returns 0, or -1 with errno. */
static int try_once(const char *path, uint64_t deadline, const void *request, size_t length,
                    void *reply, size_t room, int *fds, size_t *n)
{
    size_t n_room = n ? *n : 0;
    int fd = socket_open(path);
    if (fd < 0)
        return -1;
    long received = -1;
    if (wait_for(fd, POLLOUT, deadline) == 0 && vgpu_send(fd, request, length, NULL, 0) == 0 &&
        wait_for(fd, POLLIN, deadline) == 0)
        received = vgpu_receive(fd, reply, room, fds, n);
    int error = received == 0 ? ECONNRESET : errno;
    close(fd);
    if (received > 0)
        return 0;
    if (n)
        *n = n_room;
    errno = error;
    return -1;
}

/* Errors that a vgpud which is about to (re)start makes. EAGAIN: more callers than it queues. */
static bool worth_another_try(int error)
{
    return error == ENOENT || error == ECONNREFUSED || error == ECONNRESET || error == EPIPE ||
           error == EAGAIN;
}

int vgpud_ask(const char *socket, struct vgpud_patience patience, const void *request,
              size_t length, void *reply, size_t room, int *fds, size_t *n, vgpu_error_t *err)
{
    uint64_t now = clock_ms(), start = now + patience.start_ms, deadline = now + patience.answer_ms;
    const struct vgpu_head *asked = request, *answered = reply;
    while (try_once(socket, deadline, request, length, reply, room, fds, n) != 0) {
        int error = errno;
        if (!worth_another_try(error) || clock_left_ms(start) <= RETRY_MS)
            return vgpu_errorf(err, "vgpud does not answer at %s (%s)", socket, strerror(error));
        clock_sleep_ms(RETRY_MS);
    }
    if (answered->type == asked->type)
        return 0;
    while (n && *n > 0)
        close(fds[--*n]);
    return vgpu_errorf(err, "vgpud answers at %s with another message than was asked for", socket);
}

int vgpud_tell(const char *socket, struct vgpud_patience patience, enum vgpu_type type,
               uint32_t job, uint32_t step, struct vgpu_status_reply *reply, vgpu_error_t *err)
{
    struct vgpu_unbind_request request = {.job = job, .step = step};
    vgpu_head_init(&request.head, type, sizeof request);
    return vgpud_ask(socket, patience, &request, sizeof request, reply, sizeof *reply, NULL, NULL,
                     err);
}
