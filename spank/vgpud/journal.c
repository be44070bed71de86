/* journal.c - journald's native protocol, as systemd documents it: NAME=value lines in one
 * datagram. */
#include "journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define JOURNAL_SOCKET "/run/systemd/journal/socket"

static int journal = -1;

/* systemd names device and inode of the stream that it has given us: stderr may be another by now.
 */
static bool stderr_is_the_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat status;
    unsigned long device, inode;
    return stream && sscanf(stream, "%lu:%lu", &device, &inode) == 2 &&
           fstat(STDERR_FILENO, &status) == 0 && status.st_dev == device && status.st_ino == inode;
}

void journal_open(void)
{
    const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = JOURNAL_SOCKET};
    int fd = stderr_is_the_journal() ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        journal = fd;
    else if (fd >= 0)
        close(fd);
}

bool journal_send(int priority, const char *text, uint32_t job, const char *step_name)
{
    char fields[2048];
    if (journal < 0)
        return false;
    int n = snprintf(fields, sizeof fields, "PRIORITY=%d\nSYSLOG_IDENTIFIER=vgpud\nMESSAGE=%s\n",
                     priority, text);
    /* What a user has named must not become a field of its own. */
    for (char *at = strstr(fields, "MESSAGE="); at < fields + n - 1; at++)
        if (*at == '\n')
            *at = ' ';
    if (step_name) {
        const char *step = strchr(step_name, '.');
        n += snprintf(fields + n, sizeof fields - (size_t)n, "SLURM_JOB_ID=%u\n", job);
        if (step)
            n += snprintf(fields + n, sizeof fields - (size_t)n, "SLURM_STEP_ID=%s\n", step + 1);
    }
    return send(journal, fields, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) == n;
}
