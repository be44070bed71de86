/* bind.c - VGPU_BIND: from Slurm's slots to vGPUs and a step's folder. */
#include "bind.h"

#include "conn.h"
#include "fate.h"
#include "log.h"
#include "proc.h"
#include "step.h"
#include "vgpu.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define MIN_SLICE_US 5000
#define MAX_SLICE_US 1000000

static bool is_text(const char *text, size_t size)
{
    size_t length = strnlen(text, size);
    for (size_t i = 0; i < length; i++)
        if (!isprint((unsigned char)text[i]))
            return false;
    return length < size;
}

/* What the fields can be, before anything is done. Returns -1 with err. */
static int check(const struct vgpu_bind_request *request, vgpu_error_t *err)
{
    if (request->n_slots == 0 || request->n_slots > VGPU_MAX_SLOTS)
        return vgpu_errorf(err, "n_slots is %u; 1 to %d is right", request->n_slots,
                           VGPU_MAX_SLOTS);
    if (request->n_advice > VGPU_MAX_GPUS)
        return vgpu_errorf(err, "n_advice is %u; at most %d is right", request->n_advice,
                           VGPU_MAX_GPUS);
    if (request->flags & ~(uint32_t)VGPU_BIND_COLOCATE)
        return vgpu_errorf(err, "flags has bits that this version does not know: %#x",
                           request->flags);
    if (request->affinity > VGPU_SAME_NUMA)
        return vgpu_errorf(err, "affinity is %u; 0 to %d is right", request->affinity,
                           VGPU_SAME_NUMA);
    if (request->slice_us && (request->slice_us < MIN_SLICE_US || request->slice_us > MAX_SLICE_US))
        return vgpu_errorf(err, "slice_us is %u; 0, or %d to %d is right", request->slice_us,
                           MIN_SLICE_US, MAX_SLICE_US);
    if (request->holder < 0)
        return vgpu_errorf(err, "holder is %d; a process id, or 0, is right", request->holder);
    if (!is_text(request->workload, sizeof request->workload) ||
        !is_text(request->burst_class, sizeof request->burst_class))
        return vgpu_errorf(err, "workload and burst_class are printable and end with a zero");
    return 0;
}

/* --- evicting -------------------------------------------------------------------------------- */

static bool has_step(const struct daemon *daemon, uint32_t job)
{
    for (const struct step *step = daemon->steps; step; step = step->next)
        if (step->record->job == job)
            return true;
    return false;
}

/* Slurm has given the slot to another job, so this one's epilog was lost. The vGPU goes; with no
 * step left, so does all else that the job has. */
static void evict(struct daemon *daemon, struct vgpu *vgpu, uint32_t slot, uint32_t new_job)
{
    uint32_t job = vgpu->record->job;
    log_step(LOG_WARNING, job, VGPU_NO_STEP,
             "evicted from slot %u, which Slurm gave to job %u: its end was not reported", slot,
             new_job);
    vgpu_destroy(vgpu);
    if (has_step(daemon, job))
        return;
    struct vgpu *next;
    for (vgpu = daemon->vgpus; vgpu; vgpu = next) {
        next = vgpu->next;
        if (vgpu->record->job == job)
            vgpu_destroy(vgpu);
    }
}

static void evict_others(struct daemon *daemon, const struct vgpu_bind_request *request)
{
    for (uint32_t i = 0; i < request->n_slots; i++) {
        uint32_t slot = request->slots[i];
        if (slot >= daemon->conf->n_slots)
            continue; /* binding_choose will say so */
        const struct ledger_slot *entry = &daemon->ledger.slots[slot];
        if (entry->gpu != LEDGER_NOWHERE && entry->job != request->job)
            evict(daemon, vgpu_find(daemon, entry->vgpu), slot, request->job);
    }
}

/* --- binding --------------------------------------------------------------------------------- */

/* Make what the choice still lacks. On failure nothing is left of it. */
static int make_vgpus(struct daemon *daemon, const struct vgpu_bind_request *request,
                      const struct binding_choice *choice, struct vgpu **vgpus, vgpu_error_t *err)
{
    for (uint32_t i = 0; i < choice->n; i++) {
        uint16_t slots[VGPU_MAX_SLOTS];
        uint32_t n = 0;
        for (uint32_t j = 0; j < request->n_slots; j++)
            if (choice->place[j] == i)
                slots[n++] = request->slots[j];
        vgpus[i] = choice->vgpus[i].vgpu
                       ? vgpu_find(daemon, choice->vgpus[i].vgpu)
                       : vgpu_make(daemon, request, choice->vgpus[i].gpu, slots, n, err);
        if (vgpus[i])
            continue;
        while (i-- > 0)
            if (!choice->vgpus[i].vgpu)
                vgpu_destroy(vgpus[i]);
        return -1;
    }
    return 0;
}

static struct step *make_step(struct daemon *daemon, const struct vgpu_bind_request *request,
                              pid_t holder, const struct binding_choice *choice,
                              struct vgpu **vgpus, vgpu_error_t *err)
{
    uint64_t ids[VGPU_MAX_GPUS];
    for (uint32_t i = 0; i < choice->n; i++)
        ids[i] = vgpus[i]->record->desc.id;
    struct step *step = step_find(daemon, request->job, request->step);
    if (step) /* asked again: the answer before was lost */
        step_destroy(step);
    step = step_make(daemon, request, holder, ids, choice->n, err);
    for (uint32_t i = 0; !step && i < choice->n; i++)
        if (!choice->vgpus[i].vgpu)
            vgpu_destroy(vgpus[i]);
    return step;
}

static void log_binding(const struct vgpu_bind_request *request,
                        const struct binding_choice *choice, struct vgpu *const *vgpus)
{
    char text[512] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < choice->n && used < sizeof text; i++) {
        const struct vgpu_desc *desc = &vgpus[i]->record->desc;
        used += (size_t)snprintf(text + used, sizeof text - used, "%sslot %u (%s) on GPU %u",
                                 i ? ", " : "", desc->slot, desc->type, desc->gpu);
    }
    log_step(LOG_INFO, request->job, request->step, "bound %s%s", text,
             choice->advised ? ", as advised" : "");
}

static void send_reply(struct conn *conn, const struct binding_choice *choice, struct step *step,
                       struct vgpu *const *vgpus)
{
    struct vgpu_bind_reply reply = {
        .status = VGPU_OK, .advised = choice->advised, .n_vgpus = choice->n};
    int fds[VGPU_MAX_GPUS];
    vgpu_head_init(&reply.head, VGPU_BIND, sizeof reply);
    step_path(step, reply.step_dir, sizeof reply.step_dir);
    for (uint32_t i = 0; i < choice->n; i++) {
        reply.vgpus[i] = vgpus[i]->record->desc;
        fds[i] = vgpus[i]->pages.account_fd;
    }
    conn_send(conn, &reply, sizeof reply, fds, choice->n);
}

static enum vgpu_status bind_step(struct conn *conn, const struct vgpu_bind_request *request,
                                  vgpu_error_t *err)
{
    struct daemon *daemon = conn->daemon;
    struct vgpu *vgpus[VGPU_MAX_GPUS];
    struct binding_choice choice;
    const struct binding_request wanted = {
        .job = request->job,
        .colocate = request->flags & VGPU_BIND_COLOCATE,
        .affinity = request->affinity,
        .n_slots = request->n_slots,
        .slots = request->slots,
        .n_advice = request->n_advice,
        .advice = request->advice,
    };
    pid_t holder = request->holder;
    if (!holder && proc_peer(conn->source.fd, &holder, NULL)) {
        vgpu_errorf(err, "the sender cannot be found");
        return VGPU_FAILED;
    }
    uint32_t slice_us;
    if (vgpu_conf_slice(daemon->conf, request->slice_us, request->workload, &slice_us, err))
        return VGPU_REFUSED;
    evict_others(daemon, request);
    enum vgpu_status status = binding_choose(&daemon->ledger, &wanted, &choice, err);
    if (status != VGPU_OK)
        return status;
    if (make_vgpus(daemon, request, &choice, vgpus, err))
        return VGPU_FAILED;
    struct step *step = make_step(daemon, request, holder, &choice, vgpus, err);
    if (!step)
        return VGPU_FAILED;
    for (uint32_t i = 0; i < choice.n; i++)
        if (choice.vgpus[i].vgpu)
            vgpu_set_policy(vgpus[i], request->slice_us, 0, request->workload,
                            request->burst_class);
    fate_clear(daemon->state, request->job, request->step);
    log_binding(request, &choice, vgpus);
    send_reply(conn, &choice, step, vgpus);
    return VGPU_OK;
}

void handle_bind(struct conn *conn, const void *message)
{
    const struct vgpu_bind_request *request = message;
    vgpu_error_t err;
    enum vgpu_status status = VGPU_BAD_MESSAGE;
    if (check(request, &err) == 0)
        status = bind_step(conn, request, &err);
    if (status == VGPU_OK)
        return;
    log_step(LOG_WARNING, request->job, request->step, "not bound: %s", err.text);
    conn_status(conn, VGPU_BIND, status, err.text);
}
