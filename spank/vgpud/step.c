/* step.c - a bound step: a folder with the socket that its processes attach at. */
#include "step.h"

#include "conn.h"
#include "listener.h"
#include "log.h"
#include "proc.h"
#include "proto/paths.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *folder_name(const struct step_record *record, char *name)
{
    snprintf(name, 24, "%u.%u", record->job, record->step);
    return name;
}

static void attach_ready(struct loop_source *source, uint32_t events)
{
    struct step *step = container_of(source, struct step, listener);
    (void)events;
    conn_accept(step->daemon, source->fd, step);
}

static void holder_gone(struct loop_source *source, uint32_t events)
{
    struct step *step = container_of(source, struct step, holder);
    (void)events;
    log_step(LOG_INFO, step->record->job, step->record->step,
             "its slurmstepd (pid %d) is gone without saying so; the step is over",
             step->record->holder);
    step_destroy(step);
}

/* --- the folder ------------------------------------------------------------------------------ */

/* Remove the files in a folder, and it. */
static void remove_folder(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
    unlinkat(parent, name, AT_REMOVEDIR);
}

void step_remove_leftover(struct daemon *daemon, const char *name)
{
    remove_folder(daemon->steps_dir, name);
}

static int open_folder(struct step *step, vgpu_error_t *err)
{
    struct daemon *daemon = step->daemon;
    char name[24];
    folder_name(step->record, name);
    if ((mkdirat(daemon->steps_dir, name, 0755) && errno != EEXIST) ||
        (step->dir = openat(daemon->steps_dir, name,
                            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0 ||
        fchmod(step->dir, 0755) ||
        /* 0666: who reaches the socket is decided by the step's mounts alone. */
        (step->listener.fd = listener_make(step->dir, VGPU_ATTACH_SOCK, 0666)) < 0 ||
        loop_group_init(&daemon->loop, &step->group) ||
        loop_group_add(&step->group, &step->listener, EPOLLIN))
        return vgpu_errorf(err, "%s/%s/%s: %s", daemon->runtime_dir, VGPU_STEPS, name,
                           strerror(errno));
    return 0;
}

void step_path(const struct step *step, char *path, size_t size)
{
    char name[24];
    snprintf(path, size, "%s/%s/%s", step->daemon->runtime_dir, VGPU_STEPS,
             folder_name(step->record, name));
}

/* --- the holder ------------------------------------------------------------------------------ */

/* Follow the holder's life. Returns -1 if it is gone already. */
static int watch_holder(struct step *step)
{
    struct proc_info info;
    struct step_record *record = step->record;
    step->holder.fd = proc_open(record->holder);
    if (step->holder.fd < 0 || proc_read(record->holder, &info) ||
        (record->holder_start && info.start_time != record->holder_start))
        return -1;
    record->holder_start = info.start_time;
    return loop_add(&step->daemon->loop, &step->holder, EPOLLIN);
}

/* --- steps ----------------------------------------------------------------------------------- */

static struct step *new_step(struct daemon *daemon, struct step_record *record)
{
    struct step *step = calloc(1, sizeof *step);
    if (!step)
        return NULL;
    step->daemon = daemon;
    step->record = record;
    step->dir = -1;
    step->group.source.fd = -1;
    step->listener = (struct loop_source){.fd = -1, .ready = attach_ready};
    step->holder = (struct loop_source){.fd = -1, .ready = holder_gone};
    step->next = daemon->steps;
    daemon->steps = step;
    daemon->n_steps++;
    return step;
}

struct step *step_make(struct daemon *daemon, const struct vgpu_bind_request *request, pid_t holder,
                       const uint64_t *vgpus, uint32_t n, vgpu_error_t *err)
{
    struct step_record *record = state_new_step(daemon->state);
    struct step *step = record ? new_step(daemon, record) : NULL;
    if (!step) {
        vgpu_errorf(err, "node %s: no %s for another step", daemon->conf->node,
                    record ? "memory" : "record");
        return NULL;
    }
    record->job = request->job;
    record->step = request->step;
    record->uid = request->uid;
    record->holder = holder;
    record->n_vgpus = n;
    memcpy(record->vgpus, vgpus, n * sizeof *vgpus);
    if (watch_holder(step)) {
        vgpu_errorf(err, "process %d, which is to hold the pages, does not exist", (int)holder);
        step_destroy(step);
        return NULL;
    }
    if (open_folder(step, err)) {
        step_destroy(step);
        return NULL;
    }
    record_begin(&record->valid);
    return step;
}

struct step *step_take_up(struct daemon *daemon, struct step_record *record, vgpu_error_t *err)
{
    struct step *step = new_step(daemon, record);
    if (!step) {
        vgpu_errorf(err, "no memory");
        return NULL;
    }
    if (watch_holder(step)) {
        vgpu_errorf(err, "its slurmstepd (pid %d) is gone; the step is over", record->holder);
        step_destroy(step);
        return NULL;
    }
    if (open_folder(step, err)) {
        step_destroy(step);
        return NULL;
    }
    return step;
}

struct step *step_find(struct daemon *daemon, uint32_t job, uint32_t step)
{
    struct step *found = daemon->steps;
    while (found && (found->record->job != job || found->record->step != step))
        found = found->next;
    return found;
}

void step_destroy(struct step *step)
{
    struct daemon *daemon = step->daemon;
    struct step **place = &daemon->steps;
    char name[24];

    while (*place != step)
        place = &(*place)->next;
    *place = step->next;
    daemon->n_steps--;
    loop_group_fini(&step->group);
    conn_forget_step(step);
    loop_remove(&step->listener);
    loop_remove(&step->holder);
    if (step->dir >= 0)
        close(step->dir);
    remove_folder(daemon->steps_dir, folder_name(step->record, name));
    record_end(&step->record->valid);
    loop_free(&daemon->loop, step);
}
