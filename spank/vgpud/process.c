/* process.c - programs that attached, and what becomes of their memory when they die. */
#include "process.h"

#include "clock.h"
#include "conn.h"
#include "gputime.h"
#include "log.h"
#include "proc.h"
#include "vgpu.h"
#include "waiters.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define REAP_NS (10 * NS_PER_MS) /* how often the driver is asked while somebody is dying */
#define NO_ANSWER_NS                                                                               \
    (2 * NS_PER_SEC)             /* a driver that has been failing this long is not waited for */
#define REPLACED_NS   NS_PER_SEC /* nor is the memory of a program that exec replaced */
#define FEW_PROCESSES 64         /* what a step may always have, however many steps there are */

static void process_died(struct loop_source *source, uint32_t events);

/* --- the end of a process -------------------------------------------------------------------- */

static void forget(struct process *process)
{
    struct daemon *daemon = process->daemon;
    struct process **place = &daemon->processes;
    while (*place != process)
        place = &(*place)->next;
    *place = process->next;
    daemon->n_processes--;
    conn_forget_process(process);
    loop_remove(&process->pidfd);
    record_end(&process->record->valid);
    loop_free(&daemon->loop, process);
}

static bool has_vgpu(const struct process *process)
{
    for (uint32_t rank = 0; rank < VGPU_MAX_GPUS; rank++)
        if (process->vgpus[rank])
            return true;
    return false;
}

void process_drop(struct process *process, uint32_t rank)
{
    struct vgpu *vgpu = process->vgpus[rank];
    vgpu->entries[process->record->entries[rank]] = NULL;
    vgpu->n_entries--;
    process->record->vgpus[rank] = 0;
    process->vgpus[rank] = NULL;
    process->holds[rank] = HOLD_NONE;
    if (process->gone_since && !has_vgpu(process))
        forget(process);
}

static void gone(struct process *process)
{
    struct daemon *daemon = process->daemon;
    if (process->gone_since)
        return;
    process->gone_since = now_ns();
    loop_remove(&process->pidfd);
    for (uint32_t rank = 0; rank < VGPU_MAX_GPUS; rank++)
        if (process->vgpus[rank]) {
            process->holds[rank] = HOLD_DYING;
            gputime_process_gone(process->vgpus[rank], process->record->entries[rank]);
        }
    if (!has_vgpu(process))
        forget(process);
    else if (!daemon->reaper.due_ns)
        loop_set_timer(&daemon->loop, &daemon->reaper, now_ns());
}

static void process_died(struct loop_source *source, uint32_t events)
{
    (void)events;
    gone(container_of(source, struct process, pidfd));
}

void process_check_image(struct process *process)
{
    struct proc_info info;
    const struct process_record *record = process->record;
    if (process->gone_since || proc_read(record->pid, &info) ||
        info.start_time != record->start_time || info.start_stack == record->start_stack)
        return;
    process->replaced = true;
    gone(process);
}

/* --- waiting for the driver ------------------------------------------------------------------ */

static bool is_released(const struct process *process, const struct gpu *gpu)
{
    const struct sample *sample = gpu->sample;
    uint64_t now = now_ns();
    if (!sample || (gpu->failing_since && now - gpu->failing_since > NO_ANSWER_NS) ||
        (process->replaced && now - process->gone_since > REPLACED_NS))
        return true;
    return !sample->failed && sample->started_ns >= process->gone_since &&
           sample_find(sample, process->record->pid) < 0;
}

void process_reap(struct daemon *daemon, int gpu)
{
    for (struct process *process = daemon->processes; process; process = process->next)
        for (uint32_t rank = 0; process->gone_since && rank < VGPU_MAX_GPUS; rank++) {
            struct vgpu *vgpu = process->vgpus[rank];
            if (process->holds[rank] == HOLD_DYING && vgpu->gpu == gpu &&
                is_released(process, &daemon->gpus[gpu])) {
                process->holds[rank] = HOLD_RELEASED;
                vgpu->has_released = true;
            }
        }
    for (struct vgpu *vgpu = daemon->vgpus; vgpu; vgpu = vgpu->next)
        if (vgpu->has_released)
            vgpu_repair(vgpu);
}

static gpu_set gpus_of_the_dying(const struct daemon *daemon)
{
    gpu_set set = 0;
    for (const struct process *process = daemon->processes; process; process = process->next)
        for (uint32_t rank = 0; process->gone_since && rank < VGPU_MAX_GPUS; rank++)
            if (process->holds[rank] == HOLD_DYING)
                set |= 1u << process->vgpus[rank]->gpu;
    return set;
}

static void reaper_due(struct loop_timer *timer)
{
    struct daemon *daemon = container_of(timer, struct daemon, reaper);
    gpu_set set = gpus_of_the_dying(daemon);
    for (gpu_set left = set; left; left &= left - 1) {
        int gpu = __builtin_ctz(left);
        if (daemon->sampler)
            sampler_ask(daemon->sampler, gpu);
        else
            process_reap(daemon, gpu);
    }
    if (!daemon->sampler)
        waiters_look(daemon);
    else if (set)
        loop_set_timer(&daemon->loop, &daemon->reaper, now_ns() + REAP_NS);
}

void process_reaper_init(struct daemon *daemon)
{
    daemon->reaper.due = reaper_due;
}

/* --- attaching ------------------------------------------------------------------------------- */

struct process *process_find(const struct daemon *daemon, pid_t pid)
{
    struct process *process = daemon->processes;
    while (process && (process->record->pid != pid || process->gone_since))
        process = process->next;
    return process;
}

static struct process *new_process(struct daemon *daemon, struct process_record *record, int pidfd)
{
    struct process *process = calloc(1, sizeof *process);
    if (!process)
        return NULL;
    process->daemon = daemon;
    process->record = record;
    process->pidfd = (struct loop_source){.fd = pidfd, .ready = process_died};
    if (pidfd >= 0 && loop_add(&daemon->loop, &process->pidfd, EPOLLIN)) {
        free(process);
        return NULL;
    }
    process->next = daemon->processes;
    daemon->processes = process;
    daemon->n_processes++;
    return process;
}

static uint32_t processes_of(const struct daemon *daemon, const struct step *step)
{
    uint32_t n = 0;
    for (const struct process *process = daemon->processes; process; process = process->next)
        n += process->record->job == step->record->job &&
             process->record->step == step->record->step;
    return n;
}

/* However many processes other steps have, each step gets its share of what vgpud can follow. */
static bool may_have_another(const struct daemon *daemon, const struct step *step)
{
    uint32_t share = daemon->max_processes / (daemon->n_steps ? daemon->n_steps : 1);
    if (share < FEW_PROCESSES)
        share = FEW_PROCESSES;
    return daemon->n_processes < daemon->max_processes && processes_of(daemon, step) < share;
}

static int fill_record(struct process_record *record, pid_t pid, const struct step_record *step)
{
    struct proc_info info;
    if (proc_read(pid, &info))
        return -1;
    record->pid = pid;
    record->start_time = info.start_time;
    record->start_stack = info.start_stack;
    record->job = step->job;
    record->step = step->step;
    record->uid = step->uid;
    record->n_vgpus = step->n_vgpus;
    memcpy(record->vgpus, step->vgpus, sizeof record->vgpus);
    return 0;
}

/* A place in the account of each vGPU. Returns -1 if one has none left; process_drop undoes what
 * was entered. */
static int enter_vgpus(struct process *process)
{
    struct process_record *record = process->record;
    for (uint32_t rank = 0; rank < record->n_vgpus; rank++) {
        struct vgpu *vgpu = vgpu_find(process->daemon, record->vgpus[rank]);
        int entry = vgpu ? vgpu_enter(vgpu, process) : -1;
        if (entry < 0)
            return -1;
        record->entries[rank] = (uint16_t)entry;
        process->vgpus[rank] = vgpu;
        process->holds[rank] = HOLD_ATTACHED;
        vgpu->pages.account->processes[entry].pid = (uint32_t)record->pid;
    }
    return 0;
}

static enum vgpu_status too_many(const struct step *step, vgpu_error_t *err)
{
    char name[24];
    vgpu_errorf(err, "step %s has too many processes that use its vGPUs",
                step_name(step->record->job, step->record->step, name));
    return VGPU_TOO_MANY;
}

static enum vgpu_status add_process(struct step *step, pid_t pid, int pidfd,
                                    struct process **process, vgpu_error_t *err)
{
    struct daemon *daemon = step->daemon;
    struct process_record *record = state_new_process(daemon->state);
    if (!record || !may_have_another(daemon, step)) {
        close(pidfd);
        return too_many(step, err);
    }
    if (fill_record(record, pid, step->record) ||
        !(*process = new_process(daemon, record, pidfd))) {
        close(pidfd);
        vgpu_errorf(err, "process %d cannot be followed", (int)pid);
        return VGPU_FAILED;
    }
    if (enter_vgpus(*process)) {
        for (uint32_t rank = 0; rank < VGPU_MAX_GPUS; rank++)
            if ((*process)->vgpus[rank])
                process_drop(*process, rank);
        forget(*process);
        return too_many(step, err);
    }
    record_begin(&record->valid);
    return VGPU_OK;
}

enum vgpu_status process_attach(struct conn *conn, bool again, struct process **process,
                                vgpu_error_t *err)
{
    struct proc_info info;
    pid_t pid;
    int pidfd;
    if (proc_peer(conn->source.fd, &pid, &pidfd) || proc_read(pid, &info)) {
        vgpu_errorf(err, "the process that attaches cannot be found: %s", strerror(errno));
        return VGPU_FAILED;
    }
    *process = process_find(conn->daemon, pid);
    if (*process && (*process)->record->job == conn->step->record->job &&
        (*process)->record->step == conn->step->record->step &&
        (*process)->record->start_time == info.start_time && again) {
        close(pidfd);
        return VGPU_OK;
    }
    if (*process) {
        (*process)->replaced = true;
        gone(*process);
    }
    return add_process(conn->step, pid, pidfd, process, err);
}

/* --- taking up ------------------------------------------------------------------------------- */

int process_take_up(struct daemon *daemon, struct process_record *record)
{
    struct proc_info info;
    int pidfd = proc_open(record->pid);
    if (pidfd >= 0 && (proc_read(record->pid, &info) || info.start_time != record->start_time)) {
        close(pidfd);
        pidfd = -1;
    }
    struct process *process = new_process(daemon, record, pidfd);
    if (!process)
        return -1;
    for (uint32_t rank = 0; rank < record->n_vgpus; rank++) {
        struct vgpu *vgpu = record->vgpus[rank] ? vgpu_find(daemon, record->vgpus[rank]) : NULL;
        if (!vgpu)
            continue;
        process->vgpus[rank] = vgpu;
        process->holds[rank] = HOLD_ATTACHED;
        vgpu->entries[record->entries[rank]] = process;
        vgpu->n_entries++;
    }
    if (pidfd < 0)
        gone(process);
    else
        process_check_image(process);
    return 0;
}
