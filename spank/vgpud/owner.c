/* owner.c - which step does a process belong to? */
#include "owner.h"

#include "proc.h"
#include "process.h"
#include "proto/paths.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_ANCESTORS 128
#define MAX_CGROUP    1024
#define KTHREADD      2 /* the parent of kernel threads */

static struct owner owner_of_step(const struct step *step)
{
    return (struct owner){OWNER_STEP, step->record->job, step->record->step};
}

/* It attached: who has the step's socket is of the step. */
static bool by_attachment(const struct daemon *daemon, pid_t pid, const struct proc_info *info,
                          struct owner *owner)
{
    const struct process *process = process_find(daemon, pid);
    if (!process || process->record->start_time != info->start_time)
        return false;
    *owner = (struct owner){OWNER_STEP, process->record->job, process->record->step};
    return true;
}

static bool by_folder(const struct daemon *daemon, pid_t pid, struct owner *owner)
{
    struct folder_id seen;
    struct stat own;
    if (proc_folder(pid, VGPU_STEP_DIR, &seen))
        return false;
    for (const struct step *step = daemon->steps; step; step = step->next)
        if (fstat(step->dir, &own) == 0 && own.st_ino == seen.inode && own.st_dev == seen.device) {
            *owner = owner_of_step(step);
            return true;
        }
    return false;
}

static bool is_slurmstepd(pid_t pid, const struct proc_info *info)
{
    return strcmp(info->name, "slurmstepd") == 0 && proc_uid(pid) == 0;
}

static bool by_ancestors(const struct daemon *daemon, const struct proc_info *self,
                         struct owner *owner)
{
    struct proc_info info = *self;
    for (int i = 0; i < MAX_ANCESTORS && info.parent > 1; i++) {
        pid_t pid = info.parent;
        for (const struct step *step = daemon->steps; step; step = step->next)
            if (step->record->holder == pid) {
                *owner = owner_of_step(step);
                return true;
            }
        if (proc_read(pid, &info))
            return false;
        if (is_slurmstepd(pid, &info)) {
            *owner = (struct owner){OWNER_OTHER, 0, VGPU_NO_STEP};
            proc_stepd_title(pid, &owner->job, &owner->step);
            return true;
        }
    }
    return false;
}

/* The length of the job's part of a step's control group: without "/step_N". */
static size_t job_part(const char *group)
{
    return (size_t)(strrchr(group, '/') - group);
}

/* Version 1 may have slurmstepd itself in the group of its job only, and that in one hierarchy. */
static bool by_cgroup(const struct daemon *daemon, pid_t pid, struct owner *owner)
{
    char theirs[MAX_CGROUP], groups[PROC_CGROUPS_MAX];
    proc_step_cgroup(pid, theirs, sizeof theirs);
    if (!*theirs)
        return false;
    *owner = (struct owner){OWNER_OTHER, 0, VGPU_NO_STEP};
    for (const struct step *step = daemon->steps; step; step = step->next) {
        proc_cgroups(step->record->holder, groups);
        if (proc_parse_in_cgroup(groups, theirs, strlen(theirs))) {
            *owner = owner_of_step(step);
            return true;
        }
        if (proc_parse_in_cgroup(groups, theirs, job_part(theirs)))
            *owner = (struct owner){OWNER_JOB, step->record->job, VGPU_NO_STEP};
    }
    return true;
}

struct owner owner_find(const struct daemon *daemon, pid_t pid)
{
    struct owner owner = {OWNER_NONE, 0, VGPU_NO_STEP};
    struct proc_info info;
    if (proc_read(pid, &info) || info.parent == KTHREADD)
        return owner;
    /* slurmstepd is at work for the step, but it is Slurm's, not the step's. */
    if (is_slurmstepd(pid, &info))
        return owner;
    for (const struct step *step = daemon->steps; step; step = step->next)
        if (step->record->holder == pid)
            return owner;
    if (!by_attachment(daemon, pid, &info, &owner) && !by_folder(daemon, pid, &owner) &&
        !by_ancestors(daemon, &info, &owner))
        by_cgroup(daemon, pid, &owner);
    return owner;
}
