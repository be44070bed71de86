/* What /proc says about processes, and how Slurm names things there. */
#include "claim.h"
#include "vgpud/proc.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t start_child(const char *name)
{
    int ready[2];
    char byte;
    if (pipe(ready))
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_NAME, name);
        if (write(ready[1], "x", 1) == 1)
            pause();
        _exit(0);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void test_that_a_name_can_not_forge_the_other_fields(void)
{
    struct proc_info info, self;
    pid_t pid = start_child(") R 1 1 (x");
    CHECK(proc_read(pid, &info) == 0 && proc_read(getpid(), &self) == 0);
    CHECK(info.parent == getpid() && strcmp(info.name, ") R 1 1 (x") == 0);
    CHECK(info.start_time >= self.start_time && info.start_time > 0);
    CHECK(proc_uid(pid) == getuid() && proc_uid(-1) == (uid_t)-1);
    CHECK(info.start_stack != 0);
    kill(pid, SIGKILL);
    siginfo_t ended;
    waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT);
    CHECK(proc_read(pid, &info) == -1); /* a zombie */
    waitpid(pid, NULL, 0);
    CHECK(proc_read(pid, &info) == -1 && proc_read(0, &info) == -1 && proc_read(-1, &info) == -1);
}

static void test_that_a_peer_is_known_by_its_pidfd(void)
{
    int pair[2], pidfd;
    pid_t pid;
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
    CHECK(proc_peer(pair[0], &pid, &pidfd) == 0 && pid == getpid());
    close(pidfd);
    close(pair[0]);
    close(pair[1]);
    pid = start_child("victim");
    pidfd = proc_open(pid);
    CHECK(pidfd >= 0 && proc_kill(pidfd) == 0);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WTERMSIG(status) == SIGKILL);
    CHECK(proc_kill(pidfd) == -1 && errno == ESRCH);
    close(pidfd);
}

static void test_that_a_folder_is_known_by_what_it_is(void)
{
    struct folder_id id;
    struct stat st;
    CHECK(proc_folder(getpid(), "/proc", &id) == 0 && stat("/proc", &st) == 0);
    CHECK(id.inode == st.st_ino && id.device == st.st_dev);
    CHECK(proc_folder(getpid(), "/nonexistent", &id) == -1);
    CHECK(proc_folder(getpid(), "/proc/self", &id) == -1); /* no links */
}

static void test_that_the_group_of_a_step_is_found_in_both_hierarchies(void)
{
    static const char *const cases[][2] = {
        {"0::/system.slice/slurmstepd.scope/job_5/step_0/user/task_0\n",
         "/system.slice/slurmstepd.scope/job_5/step_0"},
        {"0::/system.slice/slurmstepd.scope/s9JX2/step_batch/slurm\n",
         "/system.slice/slurmstepd.scope/s9JX2/step_batch"},
        {"12:pids:/user.slice\n4:freezer:/slurm/uid_1000/job_5/step_extern\n0::/x\n",
         "/slurm/uid_1000/job_5/step_extern"},
        {"0::/system.slice/slurmd.service\n", ""},
        {"0::/\n", ""},
        {"garbage", ""},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256], path[128];
        strcpy(text, cases[i][0]);
        proc_parse_step_cgroup(text, path, sizeof path);
        CHECK_MSG(strcmp(path, cases[i][1]) == 0, "%s", path);
    }
    char text[] = "0::/a/step_0", path[8];
    proc_parse_step_cgroup(text, path, sizeof path);
    CHECK(path[0] == '\0'); /* too long is none, not half of one */
}

static void test_that_a_group_is_found_in_any_hierarchy_and_is_the_whole_one(void)
{
    static const char text[] = "6:freezer:/slurm/uid_7/job_5\n5:devices:/slurm/uid_7/job_5/step_0\n"
                               "0::/\n";
    static const struct {
        const char *path;
        bool in;
    } cases[] = {
        {"/slurm/uid_7/job_5", true},   {"/slurm/uid_7/job_5/step_0", true},
        {"/slurm/uid_7", true},         {"/slurm/uid_7/job_", false},
        {"/slurm/uid_7/job_55", false}, {"/slurm/uid_7/job_5/step_00", false},
        {"/slurm/uid_8/job_5", false},  {"/job_5", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_MSG(proc_parse_in_cgroup(text, cases[i].path, strlen(cases[i].path)) == cases[i].in,
                  "%s", cases[i].path);
    CHECK(!proc_parse_in_cgroup("", "/slurm", 6) && !proc_parse_in_cgroup("x\n", "/slurm", 6));
}

static void test_that_slurmstepds_title_names_job_and_step(void)
{
    static const struct {
        const char *title;
        uint32_t job, step;
    } cases[] = {
        {"slurmstepd: [5.0]", 5, 0},
        {"slurmstepd: [123456.batch]", 123456, 0xfffffffb},
        {"slurmstepd: [7.extern]", 7, 0xfffffffc},
        {"slurmstepd: [7.interactive]", 7, 0xfffffffa},
        {"slurmstepd: [8.12+1]", 8, 12},
    };
    static const char *const none[] = {"slurmstepd",       "slurmstepd: []",    "slurmstepd: [5]",
                                       "slurmstepd: [5.]", "slurmstepd: [x.0]", ""};
    uint32_t job, step;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(proc_parse_stepd_title(cases[i].title, &job, &step) && job == cases[i].job &&
              step == cases[i].step);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        CHECK_MSG(!proc_parse_stepd_title(none[i], &job, &step), "%s", none[i]);
}

static bool found_self;
static void look(void *context, pid_t pid)
{
    (void)context;
    found_self |= pid == getpid();
}

static void test_that_every_process_is_visited(void)
{
    proc_each(look, NULL);
    CHECK(found_self);
}

int main(void)
{
    test_that_a_name_can_not_forge_the_other_fields();
    test_that_a_peer_is_known_by_its_pidfd();
    test_that_a_folder_is_known_by_what_it_is();
    test_that_the_group_of_a_step_is_found_in_both_hierarchies();
    test_that_a_group_is_found_in_any_hierarchy_and_is_the_whole_one();
    test_that_slurmstepds_title_names_job_and_step();
    test_that_every_process_is_visited();
    return claim_result();
}
