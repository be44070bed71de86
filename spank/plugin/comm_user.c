#include "comm_user.h"

#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEADLINE_MS 1000

struct answer {
    int status;
    vgpu_error_t err;
    struct comm_matrix matrix;
};

static void reader(const char *path, const struct comm_user *user, int out)
{
    struct answer answer = {.status = -1};
    if (setgroups((size_t)user->n_groups, user->groups) != 0 || setgid(user->gid) != 0 ||
        setuid(user->uid) != 0)
        vgpu_errorf(&answer.err, "no way to become user %u: %s", user->uid, strerror(errno));
    else if (*path != '/' && (!*user->directory || chdir(user->directory) != 0))
        vgpu_errorf(&answer.err, "%s: the folder that the job was submitted from is not there",
                    path);
    else
        answer.status = comm_matrix_read(&answer.matrix, path, &answer.err);
    _exit(write(out, &answer, sizeof answer) != sizeof answer);
}

/* All of the answer, or -1 with errno. */
static int answer_receive(int in, struct answer *answer)
{
    uint64_t deadline = clock_ms() + DEADLINE_MS;
    for (size_t used = 0; used < sizeof *answer;) {
        struct pollfd wanted = {.fd = in, .events = POLLIN};
        if (poll(&wanted, 1, clock_left_ms(deadline)) <= 0) {
            errno = ETIMEDOUT;
            return -1;
        }
        ssize_t n = read(in, (char *)answer + used, sizeof *answer - used);
        if (n <= 0) {
            errno = n == 0 ? EPIPE : errno;
            return -1;
        }
        used += (size_t)n;
    }
    return 0;
}

int comm_user_read(struct comm_matrix *matrix, const char *path, const struct comm_user *user,
                   vgpu_error_t *err)
{
    struct answer answer;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return vgpu_errorf(err, "no pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0)
        reader(path, user, ends[1]);
    int error = errno;
    close(ends[1]);
    int status = pid > 0 ? answer_receive(ends[0], &answer) : -1;
    if (pid > 0 && status != 0)
        error = errno;
    close(ends[0]);
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    if (status != 0)
        return vgpu_errorf(err, "%s cannot be read: %s", path, strerror(error));
    if (answer.status != 0)
        return vgpu_errorf(err, "%s", answer.err.text);
    *matrix = answer.matrix;
    return 0;
}
