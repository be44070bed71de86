/* gputime.c - the leases of each GPU at vgpud's loop: shares from records, time from the clock. */
#include "gputime.h"

#include "clock.h"
#include "leases.h"
#include "log.h"

#include <stdlib.h>

/* The arbiter of one GPU; lives as long as vgpud, from the first vGPU on. */
struct gputime_gpu {
    struct leases *leases;
    struct loop *loop;
    struct loop_timer timer;
};

struct gputime_vgpu {
    int member;
};

static void set_timer(struct gputime_gpu *time)
{
    int64_t due = leases_deadline(time->leases);
    loop_set_timer(time->loop, &time->timer, due == ARBITER_NEVER ? 0 : (uint64_t)due);
}

static void timer_due(struct loop_timer *timer)
{
    struct gputime_gpu *time = container_of(timer, struct gputime_gpu, timer);
    leases_timer(time->leases, (int64_t)now_ns());
    set_timer(time);
}

static struct gputime_gpu *arbiter_of(struct vgpu *vgpu)
{
    struct gpu *gpu = &vgpu->daemon->gpus[vgpu->gpu];
    if (gpu->time)
        return gpu->time;
    struct gputime_gpu *time = calloc(1, sizeof *time);
    if (!time || !(time->leases = leases_create(gpu->sms))) {
        free(time);
        return NULL;
    }
    time->loop = &vgpu->daemon->loop;
    time->timer.due = timer_due;
    return gpu->time = time;
}

static struct arbiter_share share_of(const struct vgpu *vgpu)
{
    const struct vgpu_record *record = vgpu->record;
    const struct vgpu_conf_burst *burst = vgpu_conf_burst(vgpu->daemon->conf, record->burst_class);
    return (struct arbiter_share){
        .guaranteed = record->desc.sms,
        .max = record->desc.max_sms,
        .slice_ns = (int64_t)record->slice_us * 1000,
        .burst_ns = burst ? (int64_t)burst->time_us * 1000 : 0,
    };
}

static struct vgpu_lease *lease_of(struct vgpu *vgpu)
{
    return (struct vgpu_lease *)vgpu->pages.control->lease;
}

void gputime_add(struct vgpu *vgpu)
{
    struct gputime_gpu *time = arbiter_of(vgpu);
    vgpu->time = time ? malloc(sizeof *vgpu->time) : NULL;
    int member = vgpu->time ? leases_add(time->leases, lease_of(vgpu),
                                         vgpu->pages.account->processes, share_of(vgpu))
                            : -1;
    if (member >= 0) {
        vgpu->time->member = member;
        return;
    }
    free(vgpu->time);
    vgpu->time = NULL;
    log_error("job %u: no room to share out the time of GPU %u: this vGPU runs unthrottled",
              vgpu->record->job, vgpu->record->desc.gpu);
    atomic_store(&lease_of(vgpu)->turn, VGPU_TURN_ANY);
    atomic_store(&lease_of(vgpu)->gate, VGPU_GATE_FREE);
}

static struct gputime_gpu *time_of(const struct vgpu *vgpu)
{
    return vgpu->daemon->gpus[vgpu->gpu].time;
}

void gputime_change(struct vgpu *vgpu)
{
    if (!vgpu->time)
        return;
    leases_change(time_of(vgpu)->leases, vgpu->time->member, share_of(vgpu), (int64_t)now_ns());
    set_timer(time_of(vgpu));
}

void gputime_remove(struct vgpu *vgpu)
{
    if (!vgpu->time)
        return;
    leases_remove(time_of(vgpu)->leases, vgpu->time->member, (int64_t)now_ns());
    set_timer(time_of(vgpu));
    free(vgpu->time);
    vgpu->time = NULL;
}

void gputime_message(struct vgpu *vgpu, uint32_t entry, pid_t pid,
                     const struct vgpu_lease_message *message)
{
    if (!vgpu->time)
        return;
    leases_message(time_of(vgpu)->leases, vgpu->time->member, entry, pid, message,
                   (int64_t)now_ns());
    set_timer(time_of(vgpu));
}

void gputime_process_gone(struct vgpu *vgpu, uint32_t entry)
{
    if (!vgpu->time)
        return;
    leases_gone(time_of(vgpu)->leases, vgpu->time->member, entry, (int64_t)now_ns());
    set_timer(time_of(vgpu));
}

void gputime_numbers(struct vgpu *vgpu, struct vgpu_list_reply *reply)
{
    if (!vgpu->time)
        return;
    struct arbiter_numbers n =
        leases_numbers(time_of(vgpu)->leases, vgpu->time->member, (int64_t)now_ns());
    reply->entitled_ns = (uint64_t)n.entitled_ns;
    reply->used_ns = (uint64_t)n.used_ns;
    reply->waited_ns = (uint64_t)n.waited_ns;
    reply->overrun_ns = (uint64_t)n.overrun_ns;
    reply->switches = n.switches;
}
