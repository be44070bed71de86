/* green.c - green contexts: a part of the device's SMs under a context of its own. They run as fast
 * as any other here, and take no memory besides that of the primary context, which they keep. */
#include "sim.h"

#include <stdlib.h>

#define PARTITION 8u /* SMs: the smallest part, and what parts are multiples of */

struct CUdevResourceDesc_st {
    CUdevResource resource;
};

struct CUgreenCtx_st {
    enum sim_magic magic;
    CUcontext ctx;
    CUdevResource resource;
};

/* --- resources ------------------------------------------------------------------------------ */

static CUdevResource some_sms(unsigned count)
{
    CUdevResource resource = {.type = CU_DEV_RESOURCE_TYPE_SM};
    resource.sm = (CUdevSmResource){count, PARTITION, PARTITION};
    return resource;
}

static CUresult is_sms(const CUdevResource *resource, CUdevResourceType type)
{
    NEED(resource, CUDA_ERROR_INVALID_VALUE);
    NEED(type == CU_DEV_RESOURCE_TYPE_SM, CUDA_ERROR_INVALID_RESOURCE_TYPE);
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetDevResource(CUdevice device, CUdevResource *resource,
                                    CUdevResourceType type)
{
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    TRY(is_sms(resource, type));
    *resource = some_sms(sim.devices[device].spec->sms);
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetDevResource(CUcontext ctx, CUdevResource *resource, CUdevResourceType type)
{
    TRY(context_check(&ctx));
    TRY(is_sms(resource, type));
    *resource = some_sms(ctx->sms);
    return CUDA_SUCCESS;
}

CUresult sim_cuGreenCtxGetDevResource(CUgreenCtx green, CUdevResource *resource,
                                      CUdevResourceType type)
{
    NEED(IS(green, SIM_GREEN), CUDA_ERROR_INVALID_CONTEXT);
    TRY(is_sms(resource, type));
    *resource = green->resource;
    return CUDA_SUCCESS;
}

CUresult sim_cuDevSmResourceSplitByCount(CUdevResource *result, unsigned *n,
                                         const CUdevResource *input, CUdevResource *remaining,
                                         unsigned flags, unsigned least)
{
    NEED(n && input && !(flags & ~3u), CUDA_ERROR_INVALID_VALUE);
    NEED(input->type == CU_DEV_RESOURCE_TYPE_SM, CUDA_ERROR_INVALID_RESOURCE_TYPE);
    unsigned size = ALIGN(least ? least : 1, PARTITION), total = input->sm.smCount;
    NEED(size <= total, CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    unsigned groups = total / size;
    if (result && *n < groups)
        groups = *n;
    for (unsigned i = 0; result && i < groups; i++)
        result[i] = some_sms(size);
    *n = groups;
    if (remaining) {
        unsigned rest = total - groups * size;
        *remaining = rest ? some_sms(rest) : (CUdevResource){.type = CU_DEV_RESOURCE_TYPE_INVALID};
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuDevResourceGenerateDesc(CUdevResourceDesc *out, CUdevResource *resources, unsigned n)
{
    NEED(out && resources && n, CUDA_ERROR_INVALID_VALUE);
    unsigned sms = 0;
    for (unsigned i = 0; i < n; i++) {
        NEED(resources[i].type == CU_DEV_RESOURCE_TYPE_SM, CUDA_ERROR_INVALID_RESOURCE_TYPE);
        sms += resources[i].sm.smCount;
    }
    CUdevResourceDesc desc = malloc(sizeof(*desc)); /* lives as long as the process, as in CUDA */
    NEED(desc, CUDA_ERROR_OUT_OF_MEMORY);
    desc->resource = some_sms(sms);
    *out = desc;
    return CUDA_SUCCESS;
}

/* --- contexts ------------------------------------------------------------------------------- */

static CUresult create(CUgreenCtx *out, const CUdevResource *resource, CUdevice device)
{
    CUcontext primary;
    CUgreenCtx green = calloc(1, sizeof(*green));
    NEED(green, CUDA_ERROR_OUT_OF_MEMORY);
    CUresult rc = sim_cuDevicePrimaryCtxRetain(&primary, device);
    if (rc == CUDA_SUCCESS) {
        rc = context_green(device, green, resource->sm.smCount, &green->ctx);
        if (rc != CUDA_SUCCESS)
            sim_cuDevicePrimaryCtxRelease_v2(device);
    }
    if (rc != CUDA_SUCCESS) {
        free(green);
        return rc;
    }
    green->magic = SIM_GREEN;
    green->resource = *resource;
    *out = green;
    return CUDA_SUCCESS;
}

CUresult sim_cuGreenCtxCreate(CUgreenCtx *out, CUdevResourceDesc desc, CUdevice device,
                              unsigned flags)
{
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    NEED(out && desc && flags == CU_GREEN_CTX_DEFAULT_STREAM, CUDA_ERROR_INVALID_VALUE);
    NEED(desc->resource.sm.smCount <= sim.devices[device].spec->sms,
         CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    return create(out, &desc->resource, device);
}

CUresult sim_cuGreenCtxDestroy(CUgreenCtx green)
{
    NEED(IS(green, SIM_GREEN), CUDA_ERROR_INVALID_CONTEXT);
    int device = green->ctx->device;
    TRY(sim_cuCtxDestroy_v2(green->ctx));
    green->magic = 0;
    free(green);
    return sim_cuDevicePrimaryCtxRelease_v2(device);
}

CUresult sim_cuCtxFromGreenCtx(CUcontext *ctx, CUgreenCtx green)
{
    NEED(ctx, CUDA_ERROR_INVALID_VALUE);
    NEED(IS(green, SIM_GREEN), CUDA_ERROR_INVALID_CONTEXT);
    *ctx = green->ctx;
    return CUDA_SUCCESS;
}

CUresult sim_cuGreenCtxGetId(CUgreenCtx green, unsigned long long *id)
{
    CUcontext ctx = NULL;
    NEED(!green || IS(green, SIM_GREEN), CUDA_ERROR_INVALID_CONTEXT);
    if (green)
        ctx = green->ctx;
    TRY(context_check(&ctx));
    NEED(ctx->green, CUDA_ERROR_INVALID_CONTEXT);
    return sim_cuCtxGetId(ctx, id);
}

CUresult sim_cuGreenCtxStreamCreate(CUstream *out, CUgreenCtx green, unsigned flags, int priority)
{
    NEED(out && flags == CU_STREAM_NON_BLOCKING, CUDA_ERROR_INVALID_VALUE);
    NEED(IS(green, SIM_GREEN), CUDA_ERROR_INVALID_CONTEXT);
    sim_lock();
    CUresult rc = stream_create(green->ctx, flags, priority, out);
    sim_unlock();
    return rc;
}

CUresult sim_cuStreamGetGreenCtx(CUstream handle, CUgreenCtx *green)
{
    CUstream s;
    NEED(green, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_get(handle, &s));
    *green = s->ctx->green;
    return CUDA_SUCCESS;
}

/* --- events of a whole context ---------------------------------------------------------------- */

/* A context's work so far, as an event: what its default stream would wait for, and all the rest.
 */
CUresult sim_cuCtxRecordEvent(CUcontext ctx, CUevent event)
{
    TRY(context_check(&ctx));
    NEED(IS(event, SIM_EVENT) && event->ctx->device == ctx->device, CUDA_ERROR_INVALID_HANDLE);
    TRY(capture_forbids_sync(ctx));
    for (CUstream s = ctx->streams; s; s = s->next)
        NEED(!s->gated, CUDA_ERROR_NOT_SUPPORTED);
    sim_lock();
    event_record_at(event, ctx, ctx->tail, ++event->recorded);
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxWaitEvent(CUcontext ctx, CUevent event)
{
    TRY(context_check(&ctx));
    NEED(IS(event, SIM_EVENT), CUDA_ERROR_INVALID_HANDLE);
    TRY(capture_forbids_sync(ctx));
    for (CUstream s = ctx->streams; s; s = s->next)
        TRY(sim_cuStreamWaitEvent(s, event, 0));
    return CUDA_SUCCESS;
}

CUresult sim_cuGreenCtxRecordEvent(CUgreenCtx green, CUevent event)
{
    NEED(IS(green, SIM_GREEN), CUDA_ERROR_INVALID_CONTEXT);
    return sim_cuCtxRecordEvent(green->ctx, event);
}

CUresult sim_cuGreenCtxWaitEvent(CUgreenCtx green, CUevent event)
{
    NEED(IS(green, SIM_GREEN), CUDA_ERROR_INVALID_CONTEXT);
    return sim_cuCtxWaitEvent(green->ctx, event);
}
