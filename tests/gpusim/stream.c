/* stream.c - streams: default ones and others; waiting for what is in them. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define ALL_FLAGS CU_STREAM_NON_BLOCKING

/* --- making, finding, freeing --------------------------------------------------------------- */

CUresult stream_create(CUcontext ctx, unsigned flags, int priority, CUstream *out)
{
    static uint64_t next_id;
    CUstream s = calloc(1, sizeof(*s));
    NEED(s, CUDA_ERROR_OUT_OF_MEMORY);
    s->magic = SIM_STREAM;
    s->ctx = ctx;
    s->flags = flags;
    s->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    s->id = ++next_id;
    s->held_end = &s->held;
    s->next = ctx->streams;
    ctx->streams = s;
    *out = s;
    return CUDA_SUCCESS;
}

void stream_free(CUstream s)
{
    CUstream *link = &s->ctx->streams;
    while (*link != s)
        link = &(*link)->next;
    *link = s->next;
    s->magic = 0;
    free(s->capture_nodes);
    free(s);
}

void stream_destroy_all(CUcontext ctx)
{
    while (ctx->streams) {
        CUstream s = ctx->streams;
        capture_abandon(s);
        work_forget(s);
        if (s == ctx->streams)
            stream_free(s);
    }
}

/* The calling thread's own default stream, made at its first use. */
static CUresult per_thread(CUcontext ctx, CUstream *out)
{
    CUresult rc = CUDA_SUCCESS;
    pthread_t self = pthread_self();
    if (thread.stream_context == ctx->id) {
        *out = thread.stream;
        return CUDA_SUCCESS;
    }
    sim_lock();
    CUstream s = ctx->streams;
    while (s && !(s->per_thread && pthread_equal(s->thread, self)))
        s = s->next;
    if (!s) {
        rc = stream_create(ctx, CU_STREAM_DEFAULT, 0, &s);
        if (rc == CUDA_SUCCESS) {
            s->per_thread = true;
            s->thread = self;
        }
    }
    sim_unlock();
    TRY(rc);
    thread.stream = s;
    thread.stream_context = ctx->id;
    *out = s;
    return CUDA_SUCCESS;
}

CUresult stream_get(CUstream handle, CUstream *out)
{
    CUcontext ctx;
    if (handle == NULL || handle == CU_STREAM_LEGACY) {
        TRY(context_current(&ctx));
        *out = ctx->legacy;
        return CUDA_SUCCESS;
    }
    if (handle == CU_STREAM_PER_THREAD) {
        TRY(context_current(&ctx));
        return per_thread(ctx, out);
    }
    NEED(handle->magic == SIM_STREAM, CUDA_ERROR_INVALID_HANDLE);
    TRY(context_error(handle->ctx));
    *out = handle;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
    CUcontext ctx;
    NEED(out && !(flags & ~(unsigned)ALL_FLAGS), CUDA_ERROR_INVALID_VALUE);
    TRY(context_current(&ctx));
    sim_lock();
    CUresult rc = stream_create(ctx, flags, priority, out);
    sim_unlock();
    return rc;
}

CUresult sim_cuStreamCreate(CUstream *out, unsigned flags)
{
    return sim_cuStreamCreateWithPriority(out, flags, 0);
}

CUresult sim_cuStreamDestroy_v2(CUstream s)
{
    NEED(s && s != CU_STREAM_LEGACY && s != CU_STREAM_PER_THREAD && s->magic == SIM_STREAM &&
             !s->legacy,
         CUDA_ERROR_INVALID_HANDLE);
    sim_lock();
    capture_abandon(s);
    if (s->held)
        s->doomed = true; /* the worker frees it when it has done what is in it */
    else
        stream_free(s);
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamDestroy(CUstream s)
{
    return sim_cuStreamDestroy_v2(s);
}

/* --- waiting -------------------------------------------------------------------------------- */

static uint64_t tail_of(CUstream s)
{
    uint64_t tail = s->tail, blocking = s->legacy ? (uint64_t)s->ctx->blocking_tail : 0;
    return tail > blocking ? tail : blocking;
}

/* Event times are looked up now and then, before the GPU forgets when it did what. */
static void resolve(CUcontext ctx)
{
    if (account_of(ctx)->log_count - ctx->resolved > GPUSIM_LOG / 2) {
        sim_lock();
        event_resolve(ctx);
        sim_unlock();
    }
}

CUresult stream_drain(CUstream s)
{
    CUcontext ctx = s->ctx;
    if (unlikely(ctx->gated)) {
        sim_lock();
        work_wait_held(s);
        sim_unlock();
    }
    gpusim_wait(sim.state, sim.process, device_of(ctx)->gpu, tail_of(s), 0);
    resolve(ctx);
    pool_sync();
    return context_error(ctx);
}

CUresult sim_cuStreamSynchronize(CUstream handle)
{
    CUstream s;
    TRY(stream_get(handle, &s));
    TRY(capture_forbids_on(s));
    return stream_drain(s);
}

CUresult sim_cuStreamQuery(CUstream handle)
{
    CUstream s;
    TRY(stream_get(handle, &s));
    TRY(capture_forbids_on(s));
    if (s->ctx->gated) {
        sim_lock();
        bool held = work_held(s);
        sim_unlock();
        NEED(!held, CUDA_ERROR_NOT_READY);
    }
    return gpusim_reached(sim.state, sim.process, device_of(s->ctx)->gpu, tail_of(s))
               ? CUDA_SUCCESS
               : CUDA_ERROR_NOT_READY;
}

CUresult sim_cuCtxSynchronize_v2(CUcontext ctx)
{
    TRY(context_check(&ctx));
    TRY(capture_forbids_sync(ctx));
    sim_lock();
    while (ctx->gated)
        work_wait_any();
    sim_unlock();
    gpusim_wait(sim.state, sim.process, device_of(ctx)->gpu, ctx->tail, 0);
    resolve(ctx);
    pool_sync();
    return context_error(ctx);
}

CUresult sim_cuCtxSynchronize(void)
{
    return sim_cuCtxSynchronize_v2(NULL);
}

/* --- commands that are only about the stream ------------------------------------------------ */

static CUresult add_host(CUstream handle, CUhostFn fn, CUstreamCallback callback, void *data)
{
    CUstream s;
    NEED(fn || callback, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_get(handle, &s));
    NEED(!(callback && s->capture), capture_unsupported(s));
    struct work w = {.type = WORK_HOST, .ctx = s->ctx};
    w.host.fn = fn;
    w.host.callback = callback;
    w.host.stream = handle;
    w.host.data = data;
    return work_submit(s, &w);
}

CUresult sim_cuLaunchHostFunc(CUstream s, CUhostFn fn, void *data)
{
    return add_host(s, fn, NULL, data);
}

CUresult sim_cuStreamAddCallback(CUstream s, CUstreamCallback callback, void *data, unsigned flags)
{
    NEED(flags == 0, CUDA_ERROR_INVALID_VALUE);
    return add_host(s, NULL, callback, data);
}

CUresult sim_cuStreamAttachMemAsync(CUstream handle, CUdeviceptr pointer, size_t length,
                                    unsigned flags)
{
    CUstream s;
    (void)length;
    NEED(flags && !(flags & ~7u), CUDA_ERROR_INVALID_VALUE);
    TRY(stream_get(handle, &s));
    sim_lock();
    struct block *block = memory_find((void *)pointer);
    sim_unlock();
    NEED(block && block->type == MEMORY_MANAGED, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult stream_value(CUstream s, const CUstreamBatchMemOpParams *op)
{
    struct work w = {.type = WORK_VALUE, .ctx = s->ctx, .value = *op};
    uint64_t size = 8;
    switch (op->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        size = 4;
        break;
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        break;
    case CU_STREAM_MEM_OP_BARRIER:
        return work_submit(s, &w);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    CUdeviceptr address = op->waitValue.address;
    sim_lock();
    bool valid = address % size == 0 && memory_valid((void *)address, size);
    sim_unlock();
    NEED(valid, CUDA_ERROR_INVALID_VALUE);
    return work_submit(s, &w);
}

CUresult sim_cuStreamBatchMemOp_v2(CUstream handle, unsigned count, CUstreamBatchMemOpParams *ops,
                                   unsigned flags)
{
    CUstream s;
    NEED(ops && count <= 256 && !flags, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_get(handle, &s));
    for (unsigned i = 0; i < count; i++)
        TRY(stream_value(s, &ops[i]));
    return CUDA_SUCCESS;
}

static CUresult one_value(CUstream handle, CUstreamBatchMemOpType operation, CUdeviceptr address,
                          uint64_t value, unsigned flags)
{
    CUstreamBatchMemOpParams op = {
        .waitValue = {.operation = operation, .address = address, .flags = flags}};
    op.waitValue.value64 = value;
    return sim_cuStreamBatchMemOp_v2(handle, 1, &op, 0);
}

CUresult sim_cuStreamWaitValue32_v2(CUstream s, CUdeviceptr address, cuuint32_t value,
                                    unsigned flags)
{
    return one_value(s, CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags);
}

CUresult sim_cuStreamWaitValue64_v2(CUstream s, CUdeviceptr address, cuuint64_t value,
                                    unsigned flags)
{
    return one_value(s, CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags);
}

CUresult sim_cuStreamWriteValue32_v2(CUstream s, CUdeviceptr address, cuuint32_t value,
                                     unsigned flags)
{
    return one_value(s, CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags);
}

CUresult sim_cuStreamWriteValue64_v2(CUstream s, CUdeviceptr address, cuuint64_t value,
                                     unsigned flags)
{
    return one_value(s, CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags);
}

/* --- properties ----------------------------------------------------------------------------- */

CUresult sim_cuStreamGetPriority(CUstream handle, int *priority)
{
    CUstream s;
    NEED(priority, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_get(handle, &s));
    *priority = s->priority;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetFlags(CUstream handle, unsigned *flags)
{
    CUstream s;
    NEED(flags, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_get(handle, &s));
    *flags = s->flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetId(CUstream handle, unsigned long long *id)
{
    CUstream s;
    NEED(id, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_get(handle, &s));
    *id = s->id;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetCtx(CUstream handle, CUcontext *ctx)
{
    CUstream s;
    NEED(ctx, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_get(handle, &s));
    *ctx = s->ctx;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetCtx_v2(CUstream handle, CUcontext *ctx, CUgreenCtx *green)
{
    TRY(sim_cuStreamGetCtx(handle, ctx));
    if (green)
        *green = (*ctx)->green;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetDevice(CUstream handle, CUdevice *device)
{
    CUstream s;
    NEED(device, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_get(handle, &s));
    *device = s->ctx->device;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetAttribute(CUstream handle, CUstreamAttrID attribute,
                                  CUstreamAttrValue *value)
{
    CUstream s;
    NEED(value, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_get(handle, &s));
    memset(value, 0, sizeof(*value));
    switch (attribute) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        *value = s->policy;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        value->syncPolicy = s->sync_policy ? s->sync_policy : CU_SYNC_POLICY_AUTO;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        value->priority = s->priority;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult sim_cuStreamSetAttribute(CUstream handle, CUstreamAttrID attribute,
                                  const CUstreamAttrValue *value)
{
    CUstream s;
    NEED(value, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_get(handle, &s));
    switch (attribute) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        s->policy = *value;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        s->sync_policy = value->syncPolicy;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        s->priority = value->priority > 0 ? 0 : value->priority < -5 ? -5 : value->priority;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult sim_cuStreamCopyAttributes(CUstream to, CUstream from)
{
    CUstream a, b;
    TRY(stream_get(to, &a));
    TRY(stream_get(from, &b));
    a->policy = b->policy;
    a->sync_policy = b->sync_policy;
    return CUDA_SUCCESS;
}
