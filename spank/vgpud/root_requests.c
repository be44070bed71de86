/* root_requests.c - what root asks on vgpud.sock. */
#include "bind.h"
#include "clock.h"
#include "conn.h"
#include "fate.h"
#include "gputime.h"
#include "log.h"
#include "step.h"
#include "vgpu.h"
#include "waiters.h"

#include <string.h>

#define UNBIND_WAIT_NS (2 * NS_PER_SEC) /* for the last processes of a job, and the driver */
#define SAMPLE_AGE_NS                                                                              \
    (100 * NS_PER_MS) /* VGPU_LIST takes figures of the driver that are not older */
#define SAMPLE_WAIT_NS (300 * NS_PER_MS)
#define OLD_NS         (2 * NS_PER_SEC) /* and are not known when they are older than this */
#define SLOW_NS        (5 * NS_PER_SEC) /* a driver that was slow is given a rest */

/* --- unbinding ------------------------------------------------------------------------------- */

static void handle_unbind_step(struct conn *conn, const void *message)
{
    const struct vgpu_unbind_request *request = message;
    struct step *step = step_find(conn->daemon, request->job, request->step);
    if (step)
        step_destroy(step);
    conn_status(conn, VGPU_UNBIND_STEP, step ? VGPU_OK : VGPU_NOT_FOUND,
                step ? "" : "vgpud knows no such step");
}

static void end_steps(struct daemon *daemon, uint32_t job)
{
    struct step *next;
    for (struct step *step = daemon->steps; step; step = next) {
        next = step->next;
        if (step->record->job == job)
            step_destroy(step);
    }
}

/* The slots are free for the next job when nothing of this one is left on the GPUs, so that the
 * next one finds its memory. */
static void handle_unbind_job(struct conn *conn, const void *message)
{
    const struct vgpu_unbind_request *request = message;
    struct daemon *daemon = conn->daemon;
    bool found = false;
    end_steps(daemon, request->job);
    for (struct vgpu *vgpu = daemon->vgpus; vgpu; vgpu = vgpu->next)
        if (vgpu->record->job == request->job) {
            vgpu_end(vgpu);
            found = true;
        }
    conn->job = request->job;
    if (!found)
        conn_status(conn, VGPU_UNBIND_JOB, VGPU_NOT_FOUND, "vgpud knows no such job");
    else if (job_is_quiet(daemon, request->job))
        answer_unbind_job(conn);
    else
        conn_wait(conn, VGPU_UNBIND_JOB, UNBIND_WAIT_NS);
}

void unbind_job(struct daemon *daemon, uint32_t job)
{
    struct vgpu *next;
    for (struct vgpu *vgpu = daemon->vgpus; vgpu; vgpu = next) {
        next = vgpu->next;
        if (vgpu->record->job != job)
            continue;
        if (vgpu->n_entries > 0)
            log_step(LOG_WARNING, job, VGPU_NO_STEP,
                     "ended, but %u of its processes still hold memory of GPU %u", vgpu->n_entries,
                     vgpu->record->desc.gpu);
        vgpu_destroy(vgpu);
    }
    log_step(LOG_INFO, job, VGPU_NO_STEP, "unbound");
}

void answer_unbind_job(struct conn *conn)
{
    unbind_job(conn->daemon, conn->job);
    conn_status(conn, VGPU_UNBIND_JOB, VGPU_OK, "");
}

/* --- listing --------------------------------------------------------------------------------- */

/* The vGPU with the smallest id above `after`. */
static struct vgpu *next_vgpu(const struct daemon *daemon, uint64_t after)
{
    struct vgpu *best = NULL;
    for (struct vgpu *vgpu = daemon->vgpus; vgpu; vgpu = vgpu->next)
        if (vgpu->record->desc.id > after &&
            (!best || vgpu->record->desc.id < best->record->desc.id))
            best = vgpu;
    return best;
}

/* Not if there is no NVML, if its figures are new, or if it did not answer in time just now. */
static bool is_worth_waiting(const struct gpu *gpu)
{
    uint64_t now = now_ns();
    return gpu->sample && now - gpu->sample->started_ns > SAMPLE_AGE_NS &&
           (gpu->sample->started_ns >= gpu->slow_at || now - gpu->slow_at > SLOW_NS);
}

static void handle_list(struct conn *conn, const void *message)
{
    const struct vgpu_list_request *request = message;
    struct vgpu *vgpu = next_vgpu(conn->daemon, request->after);
    if (!vgpu) {
        conn_status(conn, VGPU_LIST, VGPU_NOT_FOUND, "that was the last one");
        return;
    }
    conn->vgpu_id = request->after;
    conn->gpu = vgpu->gpu;
    if (!is_worth_waiting(&conn->daemon->gpus[vgpu->gpu])) {
        answer_list(conn);
        return;
    }
    conn_wait(conn, VGPU_LIST, SAMPLE_WAIT_NS); /* first: the sample is to be newer than this */
    sampler_ask(conn->daemon->sampler, vgpu->gpu);
}

/* What the driver says the vGPU's processes hold; UINT64_MAX: it does not say. */
static uint64_t driver_bytes(const struct vgpu *vgpu)
{
    const struct sample *sample = vgpu->daemon->gpus[vgpu->gpu].sample;
    uint64_t bytes = vgpu->stray_bytes;
    if (!sample || sample->failed || now_ns() - sample->started_ns > OLD_NS)
        return UINT64_MAX;
    for (uint32_t entry = 0; entry < VGPU_MAX_PROCESSES; entry++) {
        const struct process *process = vgpu->entries[entry];
        int64_t held =
            process && !process->replaced ? sample_find(sample, process->record->pid) : 0;
        bytes += held > 0 ? (uint64_t)held : 0;
    }
    return bytes;
}

static uint32_t steps_with(const struct daemon *daemon, uint64_t id)
{
    uint32_t n = 0;
    for (const struct step *step = daemon->steps; step; step = step->next)
        for (uint32_t i = 0; i < step->record->n_vgpus; i++)
            n += step->record->vgpus[i] == id;
    return n;
}

/* A figure from the job's own page: at most what the card has. */
static uint64_t believable(const struct vgpu *vgpu, uint64_t bytes)
{
    uint64_t most = vgpu->daemon->conf->gpus[vgpu->gpu].memory;
    return bytes < most ? bytes : most;
}

static void count_processes(const struct vgpu *vgpu, struct vgpu_list_reply *reply)
{
    reply->refusals = vgpu->record->refusals;
    reply->launches = vgpu->record->launches;
    for (uint32_t entry = 0; entry < VGPU_MAX_PROCESSES; entry++)
        if (vgpu->entries[entry]) {
            const struct vgpu_process *process = &vgpu->pages.account->processes[entry];
            reply->processes += !vgpu->entries[entry]->gone_since;
            reply->refusals += process->refusals;
            reply->launches += process->launches;
        }
}

void answer_list(struct conn *conn)
{
    struct vgpu *vgpu = next_vgpu(conn->daemon, conn->vgpu_id);
    if (!vgpu) {
        conn_status(conn, VGPU_LIST, VGPU_NOT_FOUND, "that was the last one");
        return;
    }
    struct vgpu_list_reply reply = {
        .status = VGPU_OK,
        .vgpu = vgpu->record->desc,
        .job = vgpu->record->job,
        .uid = vgpu->record->uid,
        .steps = steps_with(conn->daemon, vgpu->record->desc.id),
        .charged = believable(vgpu, vgpu->pages.account->charged),
        .peak = believable(vgpu, vgpu->pages.account->peak),
        .driver = driver_bytes(vgpu),
        .slice_us = vgpu->record->slice_us,
    };
    vgpu_head_init(&reply.head, VGPU_LIST, sizeof reply);
    count_processes(vgpu, &reply);
    memcpy(reply.workload, vgpu->record->workload, sizeof reply.workload);
    memcpy(reply.burst_class, vgpu->record->burst_class, sizeof reply.burst_class);
    gputime_numbers(vgpu, &reply);
    conn_send(conn, &reply, sizeof reply, NULL, 0);
}

/* --- policy and fate ------------------------------------------------------------------------- */

/* NULL: the policy can be. err is room for the sentence. */
static const char *check_policy(const struct daemon *daemon,
                                const struct vgpu_policy_request *request, vgpu_error_t *err)
{
    uint32_t slice_us;
    if (!memchr(request->workload, '\0', sizeof request->workload) ||
        !memchr(request->burst_class, '\0', sizeof request->burst_class))
        return "workload and burst_class end with a zero";
    if (vgpu_conf_slice(daemon->conf, request->slice_us, request->workload, &slice_us, err))
        return err->text;
    if (*request->burst_class && !vgpu_conf_burst(daemon->conf, request->burst_class))
        return "vgpu.conf has no burst class of that name";
    for (const struct vgpu *vgpu = daemon->vgpus; vgpu && request->max_sms; vgpu = vgpu->next)
        if (vgpu->record->job == request->job && request->max_sms < vgpu->record->desc.sms)
            return "max_sms is below the SMs that a vGPU of the job is guaranteed";
    return NULL;
}

static void handle_policy(struct conn *conn, const void *message)
{
    const struct vgpu_policy_request *request = message;
    vgpu_error_t err;
    const char *wrong = check_policy(conn->daemon, request, &err);
    bool found = false;
    if (wrong) {
        conn_status(conn, VGPU_POLICY, VGPU_REFUSED, wrong);
        return;
    }
    for (struct vgpu *vgpu = conn->daemon->vgpus; vgpu; vgpu = vgpu->next)
        if (vgpu->record->job == request->job) {
            vgpu_set_policy(vgpu, request->slice_us, request->max_sms, request->workload,
                            request->burst_class);
            found = true;
        }
    conn_status(conn, VGPU_POLICY, found ? VGPU_OK : VGPU_NOT_FOUND,
                found ? "" : "the job has no vGPU on this node");
}

static void handle_step_fate(struct conn *conn, const void *message)
{
    const struct vgpu_unbind_request *request = message;
    const char *fate = fate_get(conn->daemon->state, request->job, request->step);
    conn_status(conn, VGPU_STEP_FATE, fate ? VGPU_OK : VGPU_NOT_FOUND,
                fate ? fate : "vgpud did not end this step");
}

const struct handler root_handlers[] = {
    {VGPU_BIND, handle_bind},
    {VGPU_UNBIND_STEP, handle_unbind_step},
    {VGPU_UNBIND_JOB, handle_unbind_job},
    {VGPU_LIST, handle_list},
    {VGPU_POLICY, handle_policy},
    {VGPU_STEP_FATE, handle_step_fate},
    {0, NULL},
};
