/* listener.c - listening sockets in the file system. */
#include "listener.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 512

/* The socket is named through the folder's descriptor, since the path of a socket may have 107
 * bytes only; and it gets its name when it can be connected to, so that nobody meets one that
 * refuses. */
int listener_make(int dir, const char *name, mode_t mode)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char temporary[64];
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    snprintf(temporary, sizeof temporary, "%s.new", name);
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", dir, temporary);
    unlinkat(dir, temporary, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        fchmodat(dir, temporary, mode, 0) == 0 && listen(fd, BACKLOG) == 0 &&
        renameat(dir, temporary, dir, name) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}
