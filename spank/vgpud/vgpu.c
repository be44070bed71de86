/* vgpu.c - one vGPU from its binding to its end, and the repair of its account. */
#include "vgpu.h"

#include "clock.h"
#include "gputime.h"
#include "log.h"
#include "process.h"
#include "waiters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUIET_SPINS     200       /* looks at once: a charge takes nanoseconds */
#define REPAIR_AGAIN_NS NS_PER_MS /* if someone was still inside */
#define REPAIR_LIMIT_NS                                                                            \
    (10 * NS_PER_MS) /* charges wait no longer than this for a stopped process */
#define RECOUNT_NS NS_PER_SEC

static void repair_due(struct loop_timer *timer);

static struct vgpu *new_vgpu(struct daemon *daemon)
{
    struct vgpu *vgpu = calloc(1, sizeof *vgpu);
    if (!vgpu)
        return NULL;
    vgpu->daemon = daemon;
    vgpu->pages = (struct pages){.control_fd = -1, .account_fd = -1};
    vgpu->repair.due = repair_due;
    return vgpu;
}

static void discard(struct vgpu *vgpu)
{
    pages_close(&vgpu->pages);
    free(vgpu);
}

static void link_vgpu(struct vgpu *vgpu)
{
    vgpu->next = vgpu->daemon->vgpus;
    vgpu->daemon->vgpus = vgpu;
    gputime_add(vgpu);
}

/* --- making ---------------------------------------------------------------------------------- */

static uint32_t at_most(uint32_t value, uint32_t limit)
{
    return value < limit ? value : limit;
}

/* What the slots add up to on the card. */
static void describe(const struct daemon *daemon, int gpu, const uint16_t *slots, uint32_t n_slots,
                     struct vgpu_desc *desc)
{
    const struct vgpu_conf *conf = daemon->conf;
    const struct gpu *card = &daemon->gpus[gpu];
    for (uint32_t i = 0; i < n_slots; i++) {
        const struct vgpu_conf_type *type = &conf->types[conf->slots[slots[i]].type];
        desc->quota += type->memory;
        desc->sms += type->sms;
        desc->max_sms += type->hard_cap ? type->sms : type->max_sms;
    }
    desc->max_sms = at_most(desc->max_sms, card->sms);
    desc->gpu = card->minor;
    desc->gpu_sms = card->sms;
    desc->slot = slots[0];
    desc->n_slots = n_slots;
    memcpy(desc->uuid, card->uuid, sizeof desc->uuid);
    memcpy(desc->pci, card->pci, sizeof desc->pci);
    memcpy(desc->type, conf->types[conf->slots[slots[0]].type].name, sizeof desc->type);
}

static void fill_control(const struct vgpu *vgpu)
{
    const struct vgpu_desc *desc = &vgpu->record->desc;
    struct vgpu_control *control = vgpu->pages.control;
    control->quota = desc->quota;
    memcpy(control->gpu_uuid, desc->uuid, sizeof control->gpu_uuid);
    control->gpu_sms = desc->gpu_sms;
    control->sms = desc->sms;
    control->max_sms = desc->max_sms;
    control->context_bytes = vgpu->daemon->gpus[vgpu->gpu].context_bytes;
}

static void fill_record(struct vgpu *vgpu, const struct vgpu_bind_request *request,
                        const uint16_t *slots, uint32_t n_slots)
{
    struct vgpu_record *record = vgpu->record;
    const struct vgpu_conf *conf = vgpu->daemon->conf;
    record->job = request->job;
    record->uid = request->uid;
    describe(vgpu->daemon, vgpu->gpu, slots, n_slots, &record->desc);
    record->desc.id = atomic_fetch_add(&vgpu->daemon->state->next_id, 1);
    for (uint32_t i = 0; i < n_slots; i++)
        slot_set(record->slots, slots[i]);
    uint32_t slice_us = 0;
    vgpu_conf_slice(conf, request->slice_us, request->workload, &slice_us, NULL);
    record->slice_us = slice_us ? slice_us : conf->types[conf->slots[slots[0]].type].slice_us;
    memcpy(record->workload, request->workload, sizeof record->workload);
    memcpy(record->burst_class, request->burst_class, sizeof record->burst_class);
}

struct vgpu *vgpu_make(struct daemon *daemon, const struct vgpu_bind_request *request, int gpu,
                       const uint16_t *slots, uint32_t n_slots, vgpu_error_t *err)
{
    struct vgpu *vgpu = new_vgpu(daemon);
    struct vgpu_record *record = state_new_vgpu(daemon->state);
    if (!vgpu || !record) {
        vgpu_errorf(err, "node %s: no %s for another vGPU", daemon->conf->node,
                    vgpu ? "record" : "memory");
        free(vgpu);
        return NULL;
    }
    vgpu->record = record;
    vgpu->gpu = gpu;
    fill_record(vgpu, request, slots, n_slots);
    if (pages_make_control(&vgpu->pages, daemon->control_dir, record->desc.id, err) ||
        pages_make_account(&vgpu->pages, err)) {
        pages_remove_control(daemon->control_dir, record->desc.id);
        discard(vgpu);
        return NULL;
    }
    record->account_inode = vgpu->pages.account_inode;
    fill_control(vgpu);
    for (uint32_t i = 0; i < n_slots; i++)
        ledger_bind(&daemon->ledger, slots[i], gpu, request->job, record->desc.id);
    record_begin(&record->valid);
    link_vgpu(vgpu);
    return vgpu;
}

/* --- taking up ------------------------------------------------------------------------------- */

static int gpu_with_uuid(const struct daemon *daemon, const uint8_t *uuid)
{
    for (int gpu = 0; gpu < (int)daemon->conf->n_gpus; gpu++)
        if (memcmp(daemon->gpus[gpu].uuid, uuid, sizeof daemon->gpus[gpu].uuid) == 0)
            return gpu;
    return -1;
}

int vgpu_bind_again(struct daemon *daemon, const struct vgpu_record *record, vgpu_error_t *err)
{
    int gpu = gpu_with_uuid(daemon, record->desc.uuid);
    for (uint32_t slot = 0; slot < VGPU_MAX_SLOTS; slot++)
        if (slot_isset(record->slots, slot) &&
            ledger_bind(&daemon->ledger, slot, gpu, record->job, record->desc.id))
            return vgpu_errorf(
                err,
                "job %u holds slot %u (%s) on GPU %u, which the present vgpu.conf of node "
                "%s does not have: drain the node before its slots change, or bring the "
                "former vgpu.conf back",
                record->job, slot, record->desc.type, record->desc.gpu, daemon->conf->node);
    return 0;
}

static int take_up_account(struct vgpu *vgpu, const int32_t *holders, size_t n_holders,
                           vgpu_error_t *err)
{
    struct vgpu_record *record = vgpu->record;
    for (size_t i = 0; i < n_holders; i++)
        if (pages_find_account(&vgpu->pages, holders[i], record->account_inode) == 0)
            return 0;
    if (n_holders > 0)
        log_step(LOG_WARNING, record->job, VGPU_NO_STEP,
                 "its account page for GPU %u is lost: nobody has it open any more",
                 record->desc.gpu);
    if (pages_make_account(&vgpu->pages, err))
        return -1;
    record->account_inode = vgpu->pages.account_inode;
    return 0;
}

struct vgpu *vgpu_take_up(struct daemon *daemon, struct vgpu_record *record, const int32_t *holders,
                          size_t n_holders, vgpu_error_t *err)
{
    struct vgpu *vgpu = new_vgpu(daemon);
    if (!vgpu) {
        vgpu_errorf(err, "no memory");
        return NULL;
    }
    vgpu->record = record;
    vgpu->gpu = gpu_with_uuid(daemon, record->desc.uuid);
    if (pages_open_control(&vgpu->pages, daemon->control_dir, record->desc.id, err) ||
        take_up_account(vgpu, holders, n_holders, err)) {
        discard(vgpu);
        return NULL;
    }
    uint64_t context = vgpu->pages.control->context_bytes,
             *known = &daemon->gpus[vgpu->gpu].context_bytes;
    if (context && (!*known || context < *known))
        *known = context;
    link_vgpu(vgpu);
    return vgpu;
}

/* --- finding --------------------------------------------------------------------------------- */

struct vgpu *vgpu_find(struct daemon *daemon, uint64_t id)
{
    struct vgpu *vgpu = daemon->vgpus;
    while (vgpu && vgpu->record->desc.id != id)
        vgpu = vgpu->next;
    return vgpu;
}

struct vgpu *vgpu_of_job(struct daemon *daemon, uint32_t job, int gpu)
{
    struct vgpu *vgpu = daemon->vgpus;
    while (vgpu && (vgpu->record->job != job || vgpu->gpu != gpu))
        vgpu = vgpu->next;
    return vgpu;
}

/* --- the end --------------------------------------------------------------------------------- */

void vgpu_end(struct vgpu *vgpu)
{
    vgpu->pages.control->flags |= VGPU_CONTROL_ENDED;
}

void vgpu_destroy(struct vgpu *vgpu)
{
    struct daemon *daemon = vgpu->daemon;
    struct vgpu **place = &daemon->vgpus;

    vgpu_end(vgpu);
    loop_set_timer(&daemon->loop, &vgpu->repair, 0);
    vgpu->pages.control->repairing = 0;
    for (uint32_t entry = 0; entry < VGPU_MAX_PROCESSES; entry++)
        for (uint32_t rank = 0; vgpu->entries[entry] && rank < VGPU_MAX_GPUS; rank++)
            if (vgpu->entries[entry]->vgpus[rank] == vgpu)
                process_drop(vgpu->entries[entry], rank);
    gputime_remove(vgpu);
    for (uint32_t slot = 0; slot < VGPU_MAX_SLOTS; slot++)
        if (slot_isset(vgpu->record->slots, slot))
            ledger_free(&daemon->ledger, slot);
    record_end(&vgpu->record->valid);
    pages_remove_control(daemon->control_dir, vgpu->record->desc.id);
    while (*place != vgpu)
        place = &(*place)->next;
    *place = vgpu->next;
    pages_close(&vgpu->pages);
    loop_free(&daemon->loop, vgpu);
}

void vgpu_set_policy(struct vgpu *vgpu, uint32_t slice_us, uint32_t max_sms, const char *workload,
                     const char *burst_class)
{
    struct vgpu_record *record = vgpu->record;
    uint32_t wanted_us = 0;
    if (vgpu_conf_slice(vgpu->daemon->conf, slice_us, workload, &wanted_us, NULL) == 0 && wanted_us)
        record->slice_us = wanted_us;
    if (max_sms) {
        record->desc.max_sms = at_most(max_sms, record->desc.gpu_sms);
        vgpu->pages.control->max_sms = record->desc.max_sms;
    }
    if (*workload)
        memcpy(record->workload, workload, sizeof record->workload);
    if (*burst_class)
        memcpy(record->burst_class, burst_class, sizeof record->burst_class);
    gputime_change(vgpu);
}

/* --- the account ----------------------------------------------------------------------------- */

int vgpu_enter(struct vgpu *vgpu, struct process *process)
{
    for (int entry = 0; entry < VGPU_MAX_PROCESSES; entry++)
        if (!vgpu->entries[entry]) {
            vgpu->entries[entry] = process;
            vgpu->n_entries++;
            return entry;
        }
    return -1;
}

static uint32_t rank_in(const struct process *process, const struct vgpu *vgpu)
{
    uint32_t rank = 0;
    while (process->vgpus[rank] != vgpu)
        rank++;
    return rank;
}

static bool is_quiet(const struct vgpu *vgpu)
{
    uint16_t live[VGPU_MAX_PROCESSES];
    size_t n = 0;
    for (uint32_t entry = 0; entry < VGPU_MAX_PROCESSES; entry++)
        if (vgpu->entries[entry] && !vgpu->entries[entry]->gone_since)
            live[n++] = (uint16_t)entry;
    for (int i = 0; i < QUIET_SPINS; i++)
        if (account_is_quiet(vgpu->pages.account, live, n))
            return true;
    return false;
}

/* Forget the released processes; those whose charge the recount does not settle are taken off one
 * by one. */
static void clear_released(struct vgpu *vgpu, bool one_by_one)
{
    struct account_counters counters = {0};
    for (uint32_t entry = 0; entry < VGPU_MAX_PROCESSES; entry++) {
        struct process *process = vgpu->entries[entry];
        uint32_t rank = process ? rank_in(process, vgpu) : 0;
        if (!process || process->holds[rank] != HOLD_RELEASED)
            continue;
        if (one_by_one)
            account_subtract(vgpu->pages.account, entry);
        account_clear(vgpu->pages.account, entry, &counters);
        process_drop(process, rank);
    }
    vgpu->record->allocations += counters.allocations;
    vgpu->record->refusals += counters.refusals;
    vgpu->record->launches += counters.launches;
}

void vgpu_repair(struct vgpu *vgpu)
{
    struct vgpu_control *control = vgpu->pages.control;
    struct loop *loop = &vgpu->daemon->loop;
    uint64_t now = now_ns();

    if (!vgpu->repairing_since)
        vgpu->repairing_since = now;
    control->repairing = 1;
    bool quiet = is_quiet(vgpu);
    if (!quiet && now - vgpu->repairing_since < REPAIR_LIMIT_NS) {
        loop_set_timer(loop, &vgpu->repair, now + REPAIR_AGAIN_NS);
        return;
    }
    vgpu->has_released = false;
    clear_released(vgpu, !quiet);
    if (quiet)
        account_recount(vgpu->pages.account);
    control->repairing = 0;
    vgpu->repairing_since = 0;
    loop_set_timer(loop, &vgpu->repair, quiet ? 0 : now + RECOUNT_NS);
}

static void repair_due(struct loop_timer *timer)
{
    struct vgpu *vgpu = container_of(timer, struct vgpu, repair);
    vgpu_repair(vgpu);
    waiters_look(vgpu->daemon); /* the end of its job may wait for this */
}
