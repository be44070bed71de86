/* proc.c - what /proc says about a process. */
#include "proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* The beginning of /proc/PID/name as a string. Returns its length, or -1. */
static ssize_t read_text(pid_t pid, const char *name, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t length = read(fd, text, size - 1);
    close(fd);
    if (length >= 0)
        text[length] = '\0';
    return length;
}

/* Field of /proc/PID/stat by its number in proc(5); `rest` begins at field 3. */
static uint64_t stat_field(const char *rest, int number)
{
    for (int field = 3; field < number && rest; field++) {
        rest = strchr(rest, ' ');
        rest += rest != NULL;
    }
    return rest ? strtoull(rest, NULL, 10) : 0;
}

uid_t proc_uid(pid_t pid)
{
    char text[1024];
    const char *line =
        read_text(pid, "status", text, sizeof text) < 0 ? NULL : strstr(text, "\nUid:");
    return line ? (uid_t)strtoul(line + 5, NULL, 10) : (uid_t)-1;
}

int proc_read(pid_t pid, struct proc_info *info)
{
    char text[2048];
    if (pid <= 0 || read_text(pid, "stat", text, sizeof text) < 0)
        return -1;
    /* "PID (NAME) STATE ...": the name may contain anything, the last parenthesis ends it. */
    char *name = strchr(text, '('), *end = strrchr(text, ')');
    if (!name || !end || end[1] != ' ' || end[2] == 'Z' || end[2] == 'X')
        return -1;
    *end = '\0';
    snprintf(info->name, sizeof info->name, "%.31s", name + 1);
    info->parent = (pid_t)stat_field(end + 2, 4);
    info->start_time = stat_field(end + 2, 22);
    info->start_stack = stat_field(end + 2, 28);
    return 0;
}

int proc_open(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0); /* close-on-exec by itself */
}

int proc_kill(int pidfd)
{
    return (int)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
}

int proc_peer(int socket, pid_t *pid, int *pidfd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length))
        return -1;
    *pid = peer.pid;
    if (!pidfd)
        return 0;
    /* Linux 6.5 keeps the peer's pidfd itself; before, its pid could in theory have been given out
     * again. */
    length = sizeof *pidfd;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, pidfd, &length) == 0)
        return 0;
    *pidfd = proc_open(peer.pid);
    return *pidfd < 0 ? -1 : 0;
}

int proc_folder(pid_t pid, const char *path, struct folder_id *id)
{
    char theirs[128];
    struct stat st;
    snprintf(theirs, sizeof theirs, "/proc/%d/root%s", (int)pid, path);
    int fd = open(theirs, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int result = fstat(fd, &st);
    close(fd);
    *id = (struct folder_id){.device = st.st_dev, .inode = st.st_ino};
    return result;
}

void proc_parse_step_cgroup(char *text, char *path, size_t size)
{
    *path = '\0';
    /* "HIERARCHY:CONTROLLERS:PATH" lines; the first whose path has a step in it. */
    for (char *line = text, *rest; (line = strtok_r(line, "\n", &rest)); line = NULL) {
        char *group = strchr(line, '/'), *step = group ? strstr(group, "/step_") : NULL;
        if (!step)
            continue;
        step[1 + strcspn(step + 1, "/")] = '\0';
        if (strlen(group) < size)
            strcpy(path, group);
        return;
    }
}

void proc_cgroups(pid_t pid, char text[PROC_CGROUPS_MAX])
{
    if (read_text(pid, "cgroup", text, PROC_CGROUPS_MAX) < 0)
        *text = '\0';
}

void proc_step_cgroup(pid_t pid, char *path, size_t size)
{
    char text[PROC_CGROUPS_MAX];
    proc_cgroups(pid, text);
    proc_parse_step_cgroup(text, path, size);
}

bool proc_parse_in_cgroup(const char *text, const char *path, size_t length)
{
    for (const char *line = length > 0 ? text : NULL; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *group = line + strcspn(line, "/\n");
        if (strncmp(group, path, length) == 0 && strchr("/\n", group[length]))
            return true;
    }
    return false;
}

static bool parse_step(const char *text, uint32_t *step)
{
    static const struct {
        const char *name;
        uint32_t step;
    } special[] = {{"interactive", 0xfffffffau}, {"batch", 0xfffffffbu}, {"extern", 0xfffffffcu}};
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (strncmp(text, special[i].name, strlen(special[i].name)) == 0) {
            *step = special[i].step;
            return true;
        }
    char *end;
    *step = (uint32_t)strtoul(text, &end, 10);
    return end != text;
}

bool proc_parse_stepd_title(const char *text, uint32_t *job, uint32_t *step)
{
    const char *title = strchr(text, '[');
    char *end;
    if (!title)
        return false;
    *job = (uint32_t)strtoul(title + 1, &end, 10);
    return end != title + 1 && *end == '.' && parse_step(end + 1, step);
}

bool proc_stepd_title(pid_t pid, uint32_t *job, uint32_t *step)
{
    char text[256];
    return read_text(pid, "cmdline", text, sizeof text) >= 0 &&
           proc_parse_stepd_title(text, job, step);
}

void proc_each(void (*each)(void *context, pid_t pid), void *context)
{
    DIR *dir = opendir("/proc");
    if (!dir)
        return;
    for (struct dirent *entry; (entry = readdir(dir));) {
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        if (pid > 0 && *end == '\0')
            each(context, (pid_t)pid);
    }
    closedir(dir);
}
