/* waiters.c - answers that come later than the next round. */
#include "waiters.h"

#include "clock.h"
#include "conn.h"

static bool is_fresh(const struct conn *conn)
{
    const struct sample *sample = conn->daemon->gpus[conn->gpu].sample;
    return sample && sample->started_ns >= conn->asked_ns;
}

bool job_is_quiet(const struct daemon *daemon, uint32_t job)
{
    for (const struct vgpu *vgpu = daemon->vgpus; vgpu; vgpu = vgpu->next)
        if (vgpu->record->job == job && vgpu->n_entries > 0)
            return false;
    return true;
}

/* Answer if it is time to. */
static void look_at(struct conn *conn, uint64_t now)
{
    uint16_t waiting = conn->waiting;
    bool late = now >= conn->deadline_ns;
    bool ready =
        waiting == VGPU_UNBIND_JOB ? job_is_quiet(conn->daemon, conn->job) : is_fresh(conn);
    if (!ready && !late)
        return;
    conn->waiting = 0;
    if (!ready && waiting != VGPU_UNBIND_JOB)
        conn->daemon->gpus[conn->gpu].slow_at = now;
    if (waiting == VGPU_LIST)
        answer_list(conn);
    else if (waiting == VGPU_MEASURE)
        answer_measure(conn, ready);
    else
        answer_unbind_job(conn);
}

void waiters_look(struct daemon *daemon)
{
    struct conn *next;
    uint64_t now = now_ns(), due = 0;
    for (struct conn *conn = daemon->conns; conn; conn = next) {
        next = conn->next;
        if (conn->waiting)
            look_at(conn, now);
        if (conn->waiting && (!due || conn->deadline_ns < due))
            due = conn->deadline_ns;
    }
    loop_set_timer(&daemon->loop, &daemon->waiters, due);
}

static void waiters_due(struct loop_timer *timer)
{
    waiters_look(container_of(timer, struct daemon, waiters));
}

void waiters_init(struct daemon *daemon)
{
    daemon->waiters.due = waiters_due;
}
