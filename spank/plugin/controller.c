#include "controller.h"

#include "clock.h"
#include "compat.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ASK_MS 8000

struct answer {
    int result;
    vgpu_error_t text;
};

/* Let go of the task's pipes, or its step would not end before this process. The numbers stay in
 * use: Slurm's logging may hold one of them. */
static void descriptors_drop(int kept)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    DIR *directory = opendir("/proc/self/fd");
    struct dirent *entry;
    while (null >= 0 && directory && (entry = readdir(directory))) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] != '.' && fd != kept && fd != null && fd != dirfd(directory))
            dup3(null, fd, O_CLOEXEC);
    }
    if (directory)
        closedir(directory);
}

/* The process that works. Its parent is gone at once, so that the task, which will be the user's
 * program, has no child that it does not know. */
static void worker(controller_work work, const void *argument, int out)
{
    sigset_t all;
    struct answer answer = {0};
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    descriptors_drop(out);
    answer.result = work(argument, &answer.text);
    if (write(out, &answer, sizeof answer) != sizeof answer)
        _exit(1);
    _exit(0);
}

static int worker_start(controller_work work, const void *argument, int out)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (fork() == 0)
            worker(work, argument, out);
        _exit(0);
    }
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return pid > 0 ? 0 : -1;
}

static int answer_receive(int in, struct answer *answer, uint64_t deadline)
{
    struct pollfd wanted = {.fd = in, .events = POLLIN};
    int n;
    do
        n = poll(&wanted, 1, clock_left_ms(deadline));
    while (n < 0 && errno == EINTR);
    return n > 0 && read(in, answer, sizeof *answer) == sizeof *answer ? 0 : -1;
}

int controller_run(controller_work work, const void *argument, int deadline_ms,
                   vgpu_error_t *answer)
{
    struct answer received = {0};
    int ends[2], result = -1;
    uint64_t deadline = clock_ms() + (uint64_t)deadline_ms;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    if (worker_start(work, argument, ends[1]) == 0) {
        close(ends[1]);
        ends[1] = -1;
        if (answer_receive(ends[0], &received, deadline) == 0) {
            *answer = received.text;
            result = received.result;
        }
    }
    close(ends[0]);
    if (ends[1] >= 0)
        close(ends[1]);
    return result;
}

job_info_msg_t *controller_load_job(uint32_t job, vgpu_error_t *err)
{
    job_info_msg_t *message = NULL;
    if (vgpu_load_job(&message, job) != SLURM_SUCCESS) {
        vgpu_errorf(err, "slurmctld does not tell about job %u: %s", job, slurm_strerror(errno));
        return NULL;
    }
    if (message->record_count == 1)
        return message;
    slurm_free_job_info_msg(message);
    vgpu_errorf(err, "slurmctld does not know job %u", job);
    return NULL;
}

int controller_comment(uint32_t job, char *comment, char *excluded)
{
    job_desc_msg_t update;
    slurm_init_job_desc_msg(&update);
    update.job_id = job;
    update.admin_comment = comment;
    update.exc_nodes = excluded;
    return slurm_update_job(&update) == SLURM_SUCCESS ? 0 : errno;
}

static bool names_vgpu(const char *text)
{
    return text && (strstr(text, "gres:vgpu") || strstr(text, "gres/vgpu"));
}

static int has_vgpus_work(const void *argument, vgpu_error_t *answer)
{
    job_info_msg_t *message = controller_load_job(*(const uint32_t *)argument, answer);
    if (!message)
        return 0;
    const slurm_job_info_t *job = message->job_array;
    bool has = names_vgpu(job->tres_per_node) || names_vgpu(job->tres_per_job) ||
               names_vgpu(job->tres_per_task) || names_vgpu(job->tres_per_socket) ||
               names_vgpu(job->tres_alloc_str);
    slurm_free_job_info_msg(message);
    return has;
}

bool controller_job_has_vgpus(uint32_t job)
{
    vgpu_error_t answer;
    return controller_run(has_vgpus_work, &job, ASK_MS, &answer) == 1;
}
