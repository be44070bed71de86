/* event.c - events: recorded in a stream, waited for, timed; also by other processes (ipc.c). */
#include "sim.h"

#include <stdlib.h>

#define LOOK_NS   5000000ull /* at events of other processes */
#define ALL_FLAGS (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)

/* --- state ---------------------------------------------------------------------------------- */

/* Where the last recording that reached a GPU is: process, GPU, point of work. False: nowhere. */
static bool locate(CUevent event, int *process, int *gpu, uint64_t *work)
{
    if (event->ipc >= 0) {
        const struct gpusim_ipc_event *shared = &sim.state->events[event->ipc];
        *process = shared->process;
        *gpu = shared->gpu;
        *work = shared->work;
        return *process >= 0;
    }
    *process = sim.process;
    *gpu = sim.devices[event->device].gpu;
    *work = event->work;
    return event->submitted > 0;
}

bool event_done(CUevent event, uint64_t version, uint64_t *look)
{
    int process, gpu;
    uint64_t work;
    if (event->submitted < version)
        return false; /* the recording itself is held back */
    if (!locate(event, &process, &gpu, &work))
        return true;
    uint64_t when = gpusim_expect(sim.state, process, gpu, work), soon = gpusim_now() + LOOK_NS;
    if (process != sim.process && when > soon)
        when = soon; /* that process may die, and its event with it */
    if (look)
        *look = when;
    return !when;
}

bool event_local(CUevent event, CUcontext ctx, uint64_t version, uint64_t *out)
{
    int process, gpu;
    uint64_t work;
    if (event->submitted < version)
        return false;
    if (!locate(event, &process, &gpu, &work)) {
        *out = 0;
        return true;
    }
    *out = work;
    return process == sim.process && gpu == device_of(ctx)->gpu;
}

void event_record(CUevent event, CUstream s, uint64_t version)
{
    work_occupy(s, 0);
    event_record_at(event, s->ctx, s->tail, version);
}

void event_record_at(CUevent event, CUcontext ctx, uint64_t work, uint64_t version)
{
    event->device = ctx->device;
    event->work = work;
    event->submitted = version;
    event->time = 0;
    if (!(event->flags & CU_EVENT_DISABLE_TIMING)) {
        event->asked = gpusim_now();
        if (account_of(ctx)->consumed >= event->work)
            event->time = event->asked;
    }
    if (event->ipc >= 0) {
        struct gpusim_ipc_event *shared = &sim.state->events[event->ipc];
        shared->work = event->work;
        shared->gpu = device_of(ctx)->gpu;
        shared->process = sim.process;
    }
}

/* When the last recording was done; 0: it is not. */
static uint64_t time_of(CUevent event)
{
    if (!event->time) {
        uint64_t time =
            gpusim_time_of(sim.state, sim.process, sim.devices[event->device].gpu, event->work);
        event->time = time && time < event->asked ? event->asked : time;
    }
    return event->time;
}

void event_resolve(CUcontext ctx)
{
    ctx->resolved = account_of(ctx)->log_count;
    for (CUevent event = ctx->events; event; event = event->next)
        if (event->submitted && !event->time && !(event->flags & CU_EVENT_DISABLE_TIMING))
            time_of(event);
}

/* --- making and freeing --------------------------------------------------------------------- */

CUresult event_create(CUcontext ctx, unsigned flags, CUevent *out)
{
    CUevent event = calloc(1, sizeof(*event));
    NEED(event, CUDA_ERROR_OUT_OF_MEMORY);
    event->magic = SIM_EVENT;
    event->ctx = ctx;
    event->flags = flags;
    event->ipc = -1;
    event->device = ctx->device;
    event->next = ctx->events;
    ctx->events = event;
    *out = event;
    return CUDA_SUCCESS;
}

static void event_free(CUevent event)
{
    CUevent *link = &event->ctx->events;
    while (*link != event)
        link = &(*link)->next;
    *link = event->next;
    if (event->ipc >= 0)
        gpusim_event_leave(sim.state, sim.process, event->ipc);
    event->magic = 0;
    free(event->nodes);
    free(event);
}

void event_hold(CUevent event)
{
    event->held++;
}

void event_unhold(CUevent event)
{
    if (--event->held == 0 && event->doomed)
        event_free(event);
}

void event_destroy_all(CUcontext ctx)
{
    while (ctx->events)
        event_free(ctx->events);
}

CUresult sim_cuEventCreate(CUevent *out, unsigned flags)
{
    CUcontext ctx;
    NEED(out && !(flags & ~(unsigned)ALL_FLAGS), CUDA_ERROR_INVALID_VALUE);
    NEED(!(flags & CU_EVENT_INTERPROCESS) || (flags & CU_EVENT_DISABLE_TIMING),
         CUDA_ERROR_INVALID_VALUE);
    TRY(context_current(&ctx));
    int ipc = -1;
    if (flags & CU_EVENT_INTERPROCESS) {
        ipc = gpusim_event_create(sim.state, sim.process);
        NEED(ipc >= 0, CUDA_ERROR_OUT_OF_MEMORY);
    }
    sim_lock();
    CUresult rc = event_create(ctx, flags, out);
    if (rc == CUDA_SUCCESS)
        (*out)->ipc = ipc;
    sim_unlock();
    return rc;
}

CUresult sim_cuEventDestroy_v2(CUevent event)
{
    NEED(IS(event, SIM_EVENT), CUDA_ERROR_INVALID_HANDLE);
    sim_lock();
    if (event->held)
        event->doomed = true;
    else
        event_free(event);
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult sim_cuEventDestroy(CUevent event)
{
    return sim_cuEventDestroy_v2(event);
}

/* --- recording and waiting in streams ------------------------------------------------------- */

CUresult sim_cuEventRecordWithFlags(CUevent event, CUstream handle, unsigned flags)
{
    CUstream s;
    NEED(IS(event, SIM_EVENT), CUDA_ERROR_INVALID_HANDLE);
    NEED(!(flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    TRY(stream_get(handle, &s));
    NEED(event->ctx->device == s->ctx->device, CUDA_ERROR_INVALID_HANDLE);
    if (s->capture && !(flags & CU_EVENT_RECORD_EXTERNAL))
        return capture_record(s, event);
    NEED(s->capture || !(flags & CU_EVENT_RECORD_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    event->capture = NULL;
    struct work w = {.type = WORK_RECORD, .ctx = s->ctx};
    w.event.event = event;
    if (!s->capture)
        w.event.version = ++event->recorded;
    return work_submit(s, &w);
}

CUresult sim_cuEventRecord(CUevent event, CUstream s)
{
    return sim_cuEventRecordWithFlags(event, s, CU_EVENT_RECORD_DEFAULT);
}

CUresult sim_cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags)
{
    CUstream s;
    NEED(IS(event, SIM_EVENT), CUDA_ERROR_INVALID_HANDLE);
    NEED(!(flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    TRY(stream_get(handle, &s));
    if (!(flags & CU_EVENT_WAIT_EXTERNAL) && (event->capture || s->capture))
        return capture_wait(s, event);
    NEED(s->capture || !(flags & CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    struct work w = {.type = WORK_WAIT, .ctx = s->ctx};
    w.event.event = event;
    w.event.version = event->recorded;
    return work_submit(s, &w);
}

/* --- waiting on the host -------------------------------------------------------------------- */

CUresult sim_cuEventQuery(CUevent event)
{
    NEED(IS(event, SIM_EVENT), CUDA_ERROR_INVALID_HANDLE);
    TRY(capture_forbids_event(event));
    TRY(context_error(event->ctx));
    return event_done(event, event->recorded, NULL) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult sim_cuEventSynchronize(CUevent event)
{
    NEED(IS(event, SIM_EVENT), CUDA_ERROR_INVALID_HANDLE);
    TRY(capture_forbids_event(event));
    uint64_t version = event->recorded, when = 0;
    sim_lock();
    while (event->submitted < version)
        work_wait_any();
    sim_unlock();
    while (!event_done(event, version, &when))
        gpusim_sleep_until(when);
    pool_sync();
    return context_error(event->ctx);
}

CUresult sim_cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    NEED(milliseconds, CUDA_ERROR_INVALID_VALUE);
    NEED(IS(start, SIM_EVENT) && IS(end, SIM_EVENT), CUDA_ERROR_INVALID_HANDLE);
    NEED(!((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING), CUDA_ERROR_INVALID_HANDLE);
    NEED(start->recorded && end->recorded, CUDA_ERROR_INVALID_HANDLE);
    TRY(context_error(start->ctx));
    NEED(event_done(start, start->recorded, NULL) && event_done(end, end->recorded, NULL),
         CUDA_ERROR_NOT_READY);
    sim_lock();
    int64_t ns = (int64_t)(time_of(end) - time_of(start));
    sim_unlock();
    *milliseconds = (float)((double)ns / 1e6);
    return CUDA_SUCCESS;
}

CUresult sim_cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
    return sim_cuEventElapsedTime(milliseconds, start, end);
}
