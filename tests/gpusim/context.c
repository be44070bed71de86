/* context.c - contexts: made, current, primary, destroyed. Each takes device memory. */
#include "sim.h"

#include <stdlib.h>

/* --- making and destroying ------------------------------------------------------------------ */

/* An earlier struct or a new one; contexts are never freed, so that a stale handle is recognised.
 */
static CUcontext new_struct(int device, bool primary)
{
    CUcontext ctx = primary ? sim.devices[device].primary : NULL;
    if (ctx)
        return ctx;
    ctx = calloc(1, sizeof(*ctx));
    NEED(ctx, NULL);
    ctx->magic = SIM_CONTEXT;
    ctx->next = sim.contexts;
    sim.contexts = ctx;
    if (primary)
        sim.devices[device].primary = ctx;
    return ctx;
}

static void set_limits(CUcontext ctx)
{
    ctx->limits[CU_LIMIT_STACK_SIZE] = 1024;
    ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 * MIB;
    ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 * MIB;
    ctx->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
    ctx->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
    ctx->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
}

/* The compute mode may keep other processes off the GPU, or all. */
static bool mode_allows(const struct device *d)
{
    const struct gpusim_gpu *gpu = &sim.state->gpus[d->gpu];
    uint32_t mode = gpusim_mode(&gpu->modes.compute, d->spec->compute);
    if (mode == GPUSIM_COMPUTE_DEFAULT)
        return true;
    gpusim_reap(sim.state);
    bool alone = true;
    for (int i = 0; i < (int)sim.state->process_limit; i++)
        if (i != sim.process && gpusim_listed(sim.state, i))
            alone = alone && !sim.state->processes[i].gpus[d->gpu].contexts;
    return mode == GPUSIM_COMPUTE_EXCLUSIVE && alone;
}

static CUresult create(int device, unsigned flags, bool primary, uint64_t bytes, CUcontext *out)
{
    static uint64_t next_id;
    struct device *d = &sim.devices[device];
    NEED(mode_allows(d), CUDA_ERROR_DEVICE_UNAVAILABLE);
    CUcontext ctx = new_struct(device, primary);
    NEED(ctx, CUDA_ERROR_OUT_OF_MEMORY);
    NEED(take(device, GPUSIM_CONTEXT, bytes), CUDA_ERROR_OUT_OF_MEMORY);
    ctx->primary = primary;
    ctx->device = device;
    ctx->flags = flags;
    ctx->api_version = 3020;
    ctx->id = ++next_id;
    ctx->error = 0;
    ctx->xids = sim.state->gpus[d->gpu].xids;
    ctx->blocking_tail = 0;
    ctx->peers = 0;
    ctx->sms = d->spec->sms;
    ctx->bytes = bytes;
    ctx->green = NULL;
    set_limits(ctx);
    if (stream_create(ctx, CU_STREAM_DEFAULT, 0, &ctx->legacy) != CUDA_SUCCESS) {
        give(device, GPUSIM_CONTEXT, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    ctx->legacy->legacy = true;
    ctx->alive = true;
    d->account->contexts++;
    *out = ctx;
    return CUDA_SUCCESS;
}

/* What was submitted still runs; all else of the context goes. */
static void destroy(CUcontext ctx)
{
    struct device *d = device_of(ctx);
    ctx->alive = false;
    stream_destroy_all(ctx);
    event_destroy_all(ctx);
    module_unload_all(ctx);
    memory_free_all(ctx);
    ctx->legacy = NULL;
    d->account->contexts--;
    give(ctx->device, GPUSIM_CONTEXT, ctx->bytes);
}

/* --- checks --------------------------------------------------------------------------------- */

/* What an XID means for the contexts on the GPU. */
static CUresult error_of_xid(unsigned xid)
{
    switch (xid) {
    case 31:
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    case 48:
    case 63:
    case 64:
    case 94:
    case 95:
        return CUDA_ERROR_ECC_UNCORRECTABLE;
    case 74:
        return CUDA_ERROR_NVLINK_UNCORRECTABLE;
    case 79:
        return CUDA_ERROR_UNKNOWN;
    default:
        return CUDA_ERROR_LAUNCH_FAILED;
    }
}

CUresult context_error(CUcontext ctx)
{
    const struct gpusim_gpu *gpu = &sim.state->gpus[device_of(ctx)->gpu];
    if (unlikely(gpu->xids != ctx->xids) && !ctx->error)
        ctx->error = (int)error_of_xid(gpu->last_xid);
    return (CUresult)ctx->error;
}

CUresult context_check(CUcontext *ctx)
{
    if (!*ctx && thread.depth)
        *ctx = thread.stack[thread.depth - 1];
    NEED(IS(*ctx, SIM_CONTEXT), CUDA_ERROR_INVALID_CONTEXT);
    NEED((*ctx)->alive, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    return context_error(*ctx);
}

CUresult context_current(CUcontext *ctx)
{
    *ctx = NULL;
    return context_check(ctx);
}

/* --- the thread's stack --------------------------------------------------------------------- */

static CUresult push(CUcontext ctx)
{
    NEED(thread.depth < (int)(sizeof(thread.stack) / sizeof(*thread.stack)),
         CUDA_ERROR_OUT_OF_MEMORY);
    thread.stack[thread.depth++] = ctx;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxPushCurrent_v2(CUcontext ctx)
{
    NEED(IS(ctx, SIM_CONTEXT) && ctx->alive, CUDA_ERROR_INVALID_CONTEXT);
    return push(ctx);
}

CUresult sim_cuCtxPopCurrent_v2(CUcontext *out)
{
    NEED(thread.depth, CUDA_ERROR_INVALID_CONTEXT);
    CUcontext ctx = thread.stack[--thread.depth];
    if (out)
        *out = ctx;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetCurrent(CUcontext ctx)
{
    NEED(!ctx || (IS(ctx, SIM_CONTEXT) && ctx->alive), CUDA_ERROR_INVALID_CONTEXT);
    if (thread.depth)
        thread.depth--;
    return ctx ? push(ctx) : CUDA_SUCCESS;
}

CUresult sim_cuCtxGetCurrent(CUcontext *ctx)
{
    NEED(ctx, CUDA_ERROR_INVALID_VALUE);
    *ctx = thread.depth ? thread.stack[thread.depth - 1] : NULL;
    return CUDA_SUCCESS;
}

/* --- cuCtxCreate in its versions ------------------------------------------------------------ */

static CUresult create_and_push(CUcontext *out, unsigned flags, CUdevice device)
{
    NEED(out && !(flags & ~(unsigned)CU_CTX_FLAGS_MASK), CUDA_ERROR_INVALID_VALUE);
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    CUcontext ctx = NULL;
    sim_lock();
    CUresult rc = create(device, flags, false, sim.state->machine.context_bytes, &ctx);
    sim_unlock();
    TRY(rc);
    *out = ctx;
    return push(ctx);
}

CUresult sim_cuCtxCreate_v2(CUcontext *out, unsigned flags, CUdevice device)
{
    return create_and_push(out, flags, device);
}

CUresult sim_cuCtxCreate(CUcontext *out, unsigned flags, CUdevice device)
{
    return create_and_push(out, flags, device);
}

/* Execution affinity exists under MPS only. */
CUresult sim_cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *params, int n, unsigned flags,
                            CUdevice device)
{
    NEED(n >= 0 && !(n && !params), CUDA_ERROR_INVALID_VALUE);
    NEED(n == 0, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    return create_and_push(out, flags, device);
}

CUresult sim_cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *params, unsigned flags,
                            CUdevice device)
{
    if (params && params->cigParams)
        return CUDA_ERROR_NOT_SUPPORTED;
    return sim_cuCtxCreate_v3(out, params ? params->execAffinityParams : NULL,
                              params ? params->numExecAffinityParams : 0, flags, device);
}

CUresult sim_cuCtxDestroy_v2(CUcontext ctx)
{
    NEED(IS(ctx, SIM_CONTEXT) && ctx->alive && !ctx->primary, CUDA_ERROR_INVALID_CONTEXT);
    sim_lock();
    destroy(ctx);
    sim_unlock();
    if (thread.depth && thread.stack[thread.depth - 1] == ctx)
        thread.depth--;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxDestroy(CUcontext ctx)
{
    return sim_cuCtxDestroy_v2(ctx);
}

CUresult sim_cuCtxPushCurrent(CUcontext ctx)
{
    return sim_cuCtxPushCurrent_v2(ctx);
}

CUresult sim_cuCtxPopCurrent(CUcontext *ctx)
{
    return sim_cuCtxPopCurrent_v2(ctx);
}

CUresult context_green(int device, CUgreenCtx green, unsigned sms, CUcontext *out)
{
    sim_lock();
    CUresult rc = create(device, 0, false, 0, out);
    if (rc == CUDA_SUCCESS) {
        (*out)->green = green;
        (*out)->sms = sms;
    }
    sim_unlock();
    return rc;
}

/* --- the primary context -------------------------------------------------------------------- */

CUresult sim_cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    NEED(out, CUDA_ERROR_INVALID_VALUE);
    struct device *d = &sim.devices[device];
    CUresult rc = CUDA_SUCCESS;
    CUcontext ctx;
    sim_lock();
    if (!d->primary || !d->primary->alive)
        rc = create(device, d->primary_flags, true, sim.state->machine.context_bytes, &ctx);
    if (rc == CUDA_SUCCESS) {
        d->primary_references++;
        *out = d->primary;
    }
    sim_unlock();
    return rc;
}

CUresult sim_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    struct device *d = &sim.devices[device];
    CUresult rc = CUDA_SUCCESS;
    sim_lock();
    if (!d->primary_references)
        rc = CUDA_ERROR_INVALID_CONTEXT;
    else if (--d->primary_references == 0)
        destroy(d->primary);
    sim_unlock();
    return rc;
}

CUresult sim_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    struct device *d = &sim.devices[device];
    sim_lock();
    if (d->primary && d->primary->alive)
        destroy(d->primary);
    d->primary_references = 0;
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    NEED(flags && active, CUDA_ERROR_INVALID_VALUE);
    const struct device *d = &sim.devices[device];
    *active = d->primary && d->primary->alive;
    *flags = d->primary_flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    NEED(!(flags & ~(unsigned)CU_CTX_FLAGS_MASK), CUDA_ERROR_INVALID_VALUE);
    struct device *d = &sim.devices[device];
    d->primary_flags = flags;
    if (d->primary && d->primary->alive)
        d->primary->flags = flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxRelease(CUdevice device)
{
    return sim_cuDevicePrimaryCtxRelease_v2(device);
}

CUresult sim_cuDevicePrimaryCtxReset(CUdevice device)
{
    return sim_cuDevicePrimaryCtxReset_v2(device);
}

CUresult sim_cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags)
{
    return sim_cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

/* --- properties ----------------------------------------------------------------------------- */

CUresult sim_cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
    NEED(device, CUDA_ERROR_INVALID_VALUE);
    if (!ctx && thread.depth)
        ctx = thread.stack[thread.depth - 1];
    NEED(IS(ctx, SIM_CONTEXT), CUDA_ERROR_INVALID_CONTEXT);
    *device = ctx->device;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetDevice(CUdevice *device)
{
    return sim_cuCtxGetDevice_v2(device, NULL);
}

CUresult sim_cuCtxGetFlags(unsigned *flags)
{
    CUcontext ctx;
    NEED(flags, CUDA_ERROR_INVALID_VALUE);
    TRY(context_current(&ctx));
    *flags = ctx->flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetFlags(unsigned flags)
{
    CUcontext ctx;
    NEED(!(flags & ~(unsigned)CU_CTX_FLAGS_MASK), CUDA_ERROR_INVALID_VALUE);
    TRY(context_current(&ctx));
    ctx->flags = flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetId(CUcontext ctx, unsigned long long *id)
{
    NEED(id, CUDA_ERROR_INVALID_VALUE);
    TRY(context_check(&ctx));
    *id = ctx->id;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetApiVersion(CUcontext ctx, unsigned *version)
{
    NEED(version, CUDA_ERROR_INVALID_VALUE);
    TRY(context_check(&ctx));
    *version = ctx->api_version;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetLimit(size_t *value, CUlimit limit)
{
    CUcontext ctx;
    NEED(value, CUDA_ERROR_INVALID_VALUE);
    NEED((int)limit >= 0 && limit < CU_LIMIT_MAX, CUDA_ERROR_UNSUPPORTED_LIMIT);
    TRY(context_current(&ctx));
    *value = ctx->limits[limit];
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetLimit(CUlimit limit, size_t value)
{
    CUcontext ctx;
    NEED((int)limit >= 0 && limit < CU_LIMIT_SHMEM_SIZE, CUDA_ERROR_UNSUPPORTED_LIMIT);
    TRY(context_current(&ctx));
    ctx->limits[limit] = value;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    CUcontext ctx;
    TRY(context_current(&ctx));
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetCacheConfig(CUfunc_cache *config)
{
    CUcontext ctx;
    NEED(config, CUDA_ERROR_INVALID_VALUE);
    TRY(context_current(&ctx));
    *config = CU_FUNC_CACHE_PREFER_NONE;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetCacheConfig(CUfunc_cache config)
{
    CUcontext ctx;
    (void)config; /* a wish without effect on these GPUs */
    return context_current(&ctx);
}

CUresult sim_cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
    CUcontext ctx;
    NEED(config, CUDA_ERROR_INVALID_VALUE);
    TRY(context_current(&ctx));
    *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    CUcontext ctx;
    (void)config;
    return context_current(&ctx);
}

CUresult sim_cuCtxResetPersistingL2Cache(void)
{
    CUcontext ctx;
    return context_current(&ctx);
}

CUresult sim_cuCtxGetExecAffinity(CUexecAffinityParam *param, CUexecAffinityType type)
{
    CUcontext ctx;
    NEED(param, CUDA_ERROR_INVALID_VALUE);
    NEED(type == CU_EXEC_AFFINITY_TYPE_SM_COUNT, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    TRY(context_current(&ctx));
    param->type = type;
    param->param.smCount.val = ctx->sms;
    return CUDA_SUCCESS;
}

/* --- peers ---------------------------------------------------------------------------------- */

CUresult sim_cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
    CUcontext ctx;
    NEED(flags == 0, CUDA_ERROR_INVALID_VALUE);
    TRY(context_current(&ctx));
    NEED(IS(peer, SIM_CONTEXT) && peer->alive && peer != ctx, CUDA_ERROR_INVALID_CONTEXT);
    NEED(peer->device != ctx->device, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    unsigned bit = 1u << peer->device;
    NEED(!(ctx->peers & bit), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    ctx->peers |= bit;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxDisablePeerAccess(CUcontext peer)
{
    CUcontext ctx;
    TRY(context_current(&ctx));
    NEED(IS(peer, SIM_CONTEXT), CUDA_ERROR_INVALID_CONTEXT);
    unsigned bit = 1u << peer->device;
    NEED(ctx->peers & bit, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    ctx->peers &= ~bit;
    return CUDA_SUCCESS;
}
