/* wire.c - one message at a time over SOCK_SEQPACKET, with descriptors. */
#include "proto/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* Room for the descriptors of the largest message, aligned as the kernel wants it. */
union fd_room {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(VGPU_MAX_FDS * sizeof(int))];
};

void vgpu_head_init(struct vgpu_head *head, enum vgpu_type type, size_t length)
{
    *head = (struct vgpu_head){
        .magic = VGPU_WIRE_MAGIC,
        .major = VGPU_WIRE_MAJOR,
        .minor = VGPU_WIRE_MINOR,
        .type = (uint16_t)type,
        .length = (uint32_t)length,
    };
}

int vgpu_send(int fd, const void *message, size_t length, const int *fds, size_t n)
{
    union fd_room room;
    struct iovec part = {.iov_base = (void *)message, .iov_len = length};
    struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1};

    if (n > VGPU_MAX_FDS) {
        errno = EINVAL;
        return -1;
    }
    if (n > 0) {
        memset(&room, 0, sizeof room);
        msg.msg_control = room.bytes;
        msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(cmsg), fds, n * sizeof(int));
    }
    ssize_t sent;
    do
        sent = sendmsg(fd, &msg, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -1 : 0;
}

/* Move the received descriptors into fds; close those that there is no room for. Returns how many
 * were kept. */
static size_t take_fds(struct msghdr *msg, int *fds, size_t room)
{
    size_t kept = 0;
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
        if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof fd, sizeof fd);
            if (kept < room)
                fds[kept++] = fd;
            else
                close(fd);
        }
    }
    return kept;
}

static int check_head(const struct vgpu_head *head, size_t received)
{
    if (received >= sizeof *head && head->magic == VGPU_WIRE_MAGIC &&
        head->major == VGPU_WIRE_MAJOR && head->length == received)
        return 0;
    errno = EPROTO;
    return -1;
}

static void close_all(const int *fds, size_t n)
{
    int saved = errno;
    for (size_t i = 0; i < n; i++)
        close(fds[i]);
    errno = saved;
}

long vgpu_receive(int fd, void *message, size_t length, int *fds, size_t *n)
{
    union fd_room room;
    struct iovec part = {.iov_base = message, .iov_len = length};
    struct msghdr msg = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = room.bytes,
        .msg_controllen = sizeof room.bytes,
    };
    size_t capacity = n ? *n : 0;
    ssize_t received;

    if (n)
        *n = 0;
    memset(message, 0, length);
    /* MSG_TRUNC: the length of the message as sent, even if only its beginning fits. */
    do
        received = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | MSG_TRUNC);
    while (received < 0 && errno == EINTR);
    if (received < 0)
        return -1;

    size_t kept = take_fds(&msg, fds, capacity);
    if (received == 0)
        return 0;
    if (length < sizeof(struct vgpu_head) || check_head(message, (size_t)received)) {
        errno = EPROTO;
        close_all(fds, kept);
        return -1;
    }
    if (n)
        *n = kept;
    return received;
}
