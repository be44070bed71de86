/* step_requests.c - what the processes of a step ask on its attach socket. */
#include "clock.h"
#include "conn.h"
#include "gputime.h"
#include "process.h"
#include "vgpu.h"
#include "waiters.h"

#include <string.h>

#define MEASURE_WAIT_NS NS_PER_SEC

static void send_attached(struct conn *conn, const struct process *process)
{
    const struct process_record *record = process->record;
    struct vgpu_attach_reply reply = {
        .status = VGPU_OK, .job = record->job, .step = record->step, .n_vgpus = record->n_vgpus};
    int fds[VGPU_MAX_FDS];
    size_t n = 0;
    vgpu_head_init(&reply.head, VGPU_ATTACH, sizeof reply);
    for (uint32_t rank = 0; rank < record->n_vgpus; rank++) {
        const struct vgpu *vgpu = process->vgpus[rank];
        if (!vgpu) {
            conn_status(conn, VGPU_ATTACH, VGPU_NOT_FOUND, "the job's vGPUs on this node are gone");
            return;
        }
        reply.vgpus[rank] = vgpu->record->desc;
        reply.process[rank] = record->entries[rank];
        fds[n++] = vgpu->pages.control_fd;
        fds[n++] = vgpu->pages.account_fd;
    }
    conn_send(conn, &reply, sizeof reply, fds, n);
}

static void handle_attach(struct conn *conn, const void *message)
{
    const struct vgpu_attach_request *request = message;
    struct process *process;
    vgpu_error_t err;
    if (!conn->step) {
        conn_status(conn, VGPU_ATTACH, VGPU_NOT_FOUND, "the step is over");
        return;
    }
    enum vgpu_status status =
        process_attach(conn, request->flags & VGPU_ATTACH_AGAIN, &process, &err);
    if (status != VGPU_OK) {
        conn_status(conn, VGPU_ATTACH, status, err.text);
        return;
    }
    conn->process = process;
    send_attached(conn, process);
}

/* --- measuring ------------------------------------------------------------------------------- */

/* Which of the sender's vGPUs has that id? -1: none. */
static int rank_of(const struct conn *conn, uint64_t id)
{
    for (int rank = 0; conn->process && rank < VGPU_MAX_GPUS; rank++) {
        const struct vgpu *vgpu = conn->process->vgpus[rank];
        if (vgpu && vgpu->record->desc.id == id)
            return rank;
    }
    return -1;
}

static void handle_measure(struct conn *conn, const void *message)
{
    const struct vgpu_measure_request *request = message;
    int rank = rank_of(conn, request->vgpu_id);
    if (rank < 0) {
        conn_status(conn, VGPU_MEASURE, conn->process ? VGPU_NOT_FOUND : VGPU_REFUSED,
                    conn->process ? "this process has no such vGPU" : "attach first");
        return;
    }
    if (!conn->daemon->sampler) {
        conn_status(conn, VGPU_MEASURE, VGPU_UNAVAILABLE, "NVML is not there");
        return;
    }
    conn->gpu = conn->process->vgpus[rank]->gpu;
    conn_wait(conn, VGPU_MEASURE, MEASURE_WAIT_NS); /* first: the sample is to be newer than this */
    sampler_ask(conn->daemon->sampler, conn->gpu);
}

/* What a context takes on a GPU: the least that any process was measured with. A job can make its
 * own figure larger, never that of the others; and no process has less than a context. */
static void learn_context(struct daemon *daemon, int gpu, uint64_t bytes)
{
    uint64_t *known = &daemon->gpus[gpu].context_bytes;
    if (bytes == 0 || (*known && *known <= bytes))
        return;
    *known = bytes;
    for (struct vgpu *vgpu = daemon->vgpus; vgpu; vgpu = vgpu->next)
        if (vgpu->gpu == gpu)
            vgpu->pages.control->context_bytes = bytes;
}

void answer_measure(struct conn *conn, bool fresh)
{
    const struct sample *sample = conn->daemon->gpus[conn->gpu].sample;
    struct vgpu_measure_reply reply = {.status = VGPU_OK};
    if (!conn->process || !fresh || sample->failed) {
        conn_status(conn, VGPU_MEASURE, VGPU_UNAVAILABLE,
                    fresh && sample->failed ? sample->error.text : "NVML does not answer in time");
        return;
    }
    int64_t bytes = sample_find(sample, conn->process->record->pid);
    vgpu_head_init(&reply.head, VGPU_MEASURE, sizeof reply);
    reply.driver = bytes > 0 ? (uint64_t)bytes : 0;
    learn_context(conn->daemon, conn->gpu, reply.driver);
    conn_send(conn, &reply, sizeof reply, NULL, 0);
}

/* --- GPU time -------------------------------------------------------------------------------- */

static void handle_lease(struct conn *conn, const void *message)
{
    const struct vgpu_lease_message *lease = message;
    int rank = rank_of(conn, lease->vgpu_id);
    if (rank < 0)
        return;
    const struct process *process = conn->process;
    gputime_message(process->vgpus[rank], process->record->entries[rank], process->record->pid,
                    lease);
}

const struct handler step_handlers[] = {
    {VGPU_ATTACH, handle_attach},       {VGPU_MEASURE, handle_measure},
    {VGPU_LEASE_WANT, handle_lease},    {VGPU_LEASE_IDLE, handle_lease},
    {VGPU_LEASE_DRAINED, handle_lease}, {0, NULL},
};
