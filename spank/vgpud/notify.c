/* notify.c - systemd's notification protocol: one datagram of text. */
#include "notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void notify_send(const char *text)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    if (!path || (*path != '/' && *path != '@') || strlen(path) >= sizeof address.sun_path)
        return;
    strcpy(address.sun_path, path);
    if (*path == '@') /* the abstract namespace */
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    /* If it cannot be delivered systemd finds out by itself. */
    (void)!sendto(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&address,
                  length);
    close(fd);
}

uint64_t notify_watchdog_ns(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (!usec || (pid && strtol(pid, NULL, 10) != getpid()))
        return 0;
    return strtoull(usec, NULL, 10) * 1000 / 2;
}
