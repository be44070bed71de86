/* backstop.c - what was taken past the shim.
 *
 * A few times per ToleranceTime NVML is asked who holds how much of each GPU. Two things are wrong:
 * a process of a step that holds memory of a GPU where its job has no vGPU, and a vGPU whose
 * processes hold more than its quota and the tolerance, for longer than ToleranceTime. Then the
 * processes of the step are killed, by pidfd, until none is left; Slurm ends it. Processes of no
 * step (monitoring, an administrator's) are none of our business.
 */
#include "backstop.h"

#include "clock.h"
#include "fate.h"
#include "log.h"
#include "owner.h"
#include "proc.h"
#include "process.h"
#include "step.h"
#include "vgpu.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SHORTEST_NS   (50 * NS_PER_MS) /* between two looks */
#define LONGEST_NS    (500 * NS_PER_MS)
#define IDLE_NS       NS_PER_SEC /* while nothing is bound */
#define TELL_AGAIN_NS (60 * NS_PER_SEC)

/* --- ending a step --------------------------------------------------------------------------- */

struct victims {
    const struct daemon *daemon;
    struct owner owner;
};

static bool is_victim(const struct victims *victims, pid_t pid)
{
    struct owner owner = owner_find(victims->daemon, pid);
    return owner.kind == victims->owner.kind && owner.job == victims->owner.job &&
           owner.step == victims->owner.step;
}

/* The pid is looked at again once a pidfd holds it: in between it may have been given to somebody
 * else. */
static void kill_if_victim(void *context, pid_t pid)
{
    struct victims *victims = context;
    if (!is_victim(victims, pid))
        return;
    int pidfd = proc_open(pid);
    if (pidfd < 0)
        return;
    if (is_victim(victims, pid))
        proc_kill(pidfd);
    close(pidfd);
}

/* One pass over all processes. Those that were born meanwhile are met by the next one: with the
 * next look for a step that we know, with the next sample that lists one of them for others. */
static void kill_all(const struct daemon *daemon, struct owner owner)
{
    struct victims victims = {.daemon = daemon, .owner = owner};
    proc_each(kill_if_victim, &victims);
}

/* The owner, in the person of `pid`, has done what `text` says. It is said once, and done until it
 * helps. */
static void act(struct daemon *daemon, struct owner owner, pid_t pid, const char *text, bool news)
{
    bool end = daemon->conf->backstop == VGPU_BACKSTOP_END;
    if (news)
        log_step(end ? LOG_ERR : LOG_WARNING, owner.job, owner.step, "%s%s", text,
                 end ? ": ended" : " (Backstop=warn)");
    if (!end)
        return;
    if (owner.step == VGPU_NO_STEP) { /* which step it is cannot be said: then this one process */
        kill_if_victim(&(struct victims){.daemon = daemon, .owner = owner}, pid);
        return;
    }
    fate_set(daemon->state, owner.job, owner.step, text);
    struct step *step = step_find(daemon, owner.job, owner.step);
    if (step)
        step->ending = true;
    kill_all(daemon, owner);
}

/* --- looking --------------------------------------------------------------------------------- */

/* What one process does is said once a minute, not with every look. */
static bool is_news(struct daemon *daemon, pid_t pid)
{
    uint64_t now = now_ns();
    size_t n = sizeof daemon->told / sizeof *daemon->told;
    for (size_t i = 0; i < n; i++)
        if (daemon->told[i].pid == pid && now - daemon->told[i].when_ns < TELL_AGAIN_NS)
            return false;
    daemon->told[daemon->n_told++ % n] = (struct told){.pid = pid, .when_ns = now};
    return true;
}

static void intruder(struct daemon *daemon, int gpu, struct owner owner,
                     const struct nvml_process *found)
{
    char text[VGPU_ERROR_MAX];
    snprintf(text, sizeof text,
             "process %d held %" PRIu64 " MiB of GPU %u of node %s, where its job has no vGPU",
             (int)found->pid, found->bytes >> 20, daemon->gpus[gpu].minor, daemon->conf->node);
    act(daemon, owner, found->pid, text, is_news(daemon, found->pid));
}

/* The vGPU of an owner on a GPU; a step's own one first. NULL: there is none. */
static struct vgpu *vgpu_of_owner(struct daemon *daemon, struct owner owner, int gpu)
{
    const struct step *step =
        owner.kind == OWNER_STEP ? step_find(daemon, owner.job, owner.step) : NULL;
    for (uint32_t i = 0; step && i < step->record->n_vgpus; i++) {
        struct vgpu *vgpu = vgpu_find(daemon, step->record->vgpus[i]);
        if (vgpu && vgpu->gpu == gpu)
            return vgpu;
    }
    return owner.kind == OWNER_OTHER ? NULL : vgpu_of_job(daemon, owner.job, gpu);
}

/* A process attached or not: the vGPU that its memory of the GPU counts for; NULL: none, it is an
 * intruder or nobody. */
static struct vgpu *vgpu_of(struct daemon *daemon, int gpu, const struct nvml_process *found)
{
    struct process *process = process_find(daemon, found->pid);
    for (uint32_t rank = 0; process && rank < VGPU_MAX_GPUS; rank++)
        if (process->vgpus[rank] && process->vgpus[rank]->gpu == gpu)
            return process->vgpus[rank];
    struct owner owner = owner_find(daemon, found->pid);
    if (owner.kind == OWNER_NONE)
        return NULL;
    struct vgpu *vgpu = vgpu_of_owner(daemon, owner, gpu);
    if (!vgpu)
        intruder(daemon, gpu, owner, found);
    else
        vgpu->stray_bytes += found->bytes;
    return vgpu;
}

/* End each step of the vGPU's job that has a process on its GPU. */
static void end_holders(struct vgpu *vgpu, const char *text, bool news)
{
    struct daemon *daemon = vgpu->daemon;
    const struct sample *sample = daemon->gpus[vgpu->gpu].sample;
    struct owner last = {OWNER_NONE, 0, VGPU_NO_STEP};
    for (uint32_t i = 0; i < sample->n; i++) {
        struct owner owner = owner_find(daemon, sample->processes[i].pid);
        bool again =
            owner.kind == last.kind && owner.step == last.step && owner.step != VGPU_NO_STEP;
        if (owner.job != vgpu->record->job || again ||
            (owner.kind != OWNER_STEP && owner.kind != OWNER_JOB))
            continue;
        act(daemon, owner, sample->processes[i].pid, text, news);
        last = owner;
    }
}

static void check_quota(struct vgpu *vgpu, uint64_t held)
{
    struct daemon *daemon = vgpu->daemon;
    const struct vgpu_conf *conf = daemon->conf;
    uint64_t quota = vgpu->record->desc.quota, now = now_ns();
    char text[VGPU_ERROR_MAX];

    if (held <= quota || held - quota <= conf->tolerance) {
        vgpu->over_since = 0;
        return;
    }
    if (!vgpu->over_since)
        vgpu->over_since = now;
    if (now - vgpu->over_since < conf->tolerance_ms * NS_PER_MS)
        return;
    snprintf(text, sizeof text,
             "its processes held %" PRIu64 " MiB of GPU %u of node %s, past the quota of %" PRIu64
             " MiB of its vGPU",
             held >> 20, vgpu->record->desc.gpu, conf->node, quota >> 20);
    bool news = !vgpu->told_at || now - vgpu->told_at > TELL_AGAIN_NS;
    if (news)
        vgpu->told_at = now;
    end_holders(vgpu, text, news);
}

void backstop_look(struct daemon *daemon, int gpu)
{
    struct gpu *card = &daemon->gpus[gpu];
    if (!card->backstop_due || card->sample->failed)
        return;
    card->backstop_due = false;
    for (struct vgpu *vgpu = daemon->vgpus; vgpu; vgpu = vgpu->next)
        if (vgpu->gpu == gpu)
            vgpu->held_bytes = vgpu->stray_bytes = 0;
    for (uint32_t i = 0; i < card->sample->n; i++) {
        struct vgpu *vgpu = vgpu_of(daemon, gpu, &card->sample->processes[i]);
        if (vgpu)
            vgpu->held_bytes += card->sample->processes[i].bytes;
    }
    for (struct vgpu *vgpu = daemon->vgpus; vgpu; vgpu = vgpu->next)
        if (vgpu->gpu == gpu)
            check_quota(vgpu, vgpu->held_bytes);
}

/* --- when ------------------------------------------------------------------------------------ */

static uint64_t period(const struct daemon *daemon)
{
    uint64_t wanted = daemon->conf->tolerance_ms * NS_PER_MS / 4;
    if (!daemon->vgpus)
        return IDLE_NS;
    if (wanted < SHORTEST_NS)
        return SHORTEST_NS;
    return wanted < LONGEST_NS ? wanted : LONGEST_NS;
}

static void backstop_due(struct loop_timer *timer)
{
    struct daemon *daemon = container_of(timer, struct daemon, backstop);
    for (struct step *step = daemon->steps; step; step = step->next)
        if (step->ending) /* until Slurm has ended it too */
            kill_all(daemon, (struct owner){OWNER_STEP, step->record->job, step->record->step});
    for (int gpu = 0; gpu < (int)daemon->conf->n_gpus; gpu++) {
        daemon->gpus[gpu].backstop_due = true;
        sampler_ask(daemon->sampler, gpu);
    }
    loop_set_timer(&daemon->loop, timer, now_ns() + period(daemon));
}

void backstop_init(struct daemon *daemon)
{
    daemon->backstop.due = backstop_due;
    if (daemon->sampler && daemon->conf->backstop != VGPU_BACKSTOP_OFF)
        loop_set_timer(&daemon->loop, &daemon->backstop, now_ns() + period(daemon));
}
