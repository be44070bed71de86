/* proc.h - what /proc says about a process. Every answer may be out of date at once: whoever acts
 * on a pid holds a pidfd. */
#ifndef VGPUD_PROC_H
#define VGPUD_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_info {
    pid_t parent;
    uint64_t start_time;  /* clock ticks after boot: with the pid it names a process for good */
    uint64_t start_stack; /* changes at exec */
    char name[32];
};

/* Returns -1 if there is no such process (a zombie is none). */
int proc_read(pid_t pid, struct proc_info *info);

/* Its real uid; (uid_t)-1: there is no such process. */
uid_t proc_uid(pid_t pid);

/* Refers to the process whatever becomes of its pid. Returns -1 with errno. */
int proc_open(pid_t pid);

/* SIGKILL by pidfd. */
int proc_kill(int pidfd);

/* The process at the other end of a socket: its pid, and a pidfd if the caller wants one. Returns
 * -1 with errno. */
int proc_peer(int socket, pid_t *pid, int *pidfd);

/* Which folder is `path` in the eyes of the process? Returns -1 if it sees none there. */
struct folder_id {
    uint64_t device, inode;
};
int proc_folder(pid_t pid, const char *path, struct folder_id *id);

/* The control group of the process up to the part of the step, ".../step_N": empty if it has none.
 */
void proc_step_cgroup(pid_t pid, char *path, size_t size);

/* The same from the text of /proc/PID/cgroup, which is changed. */
void proc_parse_step_cgroup(char *text, char *path, size_t size);

/* The text of /proc/PID/cgroup: empty if it cannot be read. */
#define PROC_CGROUPS_MAX 4096
void proc_cgroups(pid_t pid, char text[PROC_CGROUPS_MAX]);

/* By that text, is the process, in any hierarchy, in the control group that the first `length`
 * characters of path name, or below it? */
bool proc_parse_in_cgroup(const char *text, const char *path, size_t length);

/* "slurmstepd: [5.batch]" -> job and step. */
bool proc_parse_stepd_title(const char *text, uint32_t *job, uint32_t *step);

/* Job and step of a slurmstepd, from the title that it gives itself ("slurmstepd: [5.batch]"). */
bool proc_stepd_title(pid_t pid, uint32_t *job, uint32_t *step);

/* Every pid of the machine in turn; each() may kill it. */
void proc_each(void (*each)(void *context, pid_t pid), void *context);

#endif
