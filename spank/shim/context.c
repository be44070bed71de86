/* context.c - contexts of every constructor. */
#include "shim/claim.h"
#include "shim/measure.h"

/* --- making ---------------------------------------------------------------------------------- */

struct making {
    struct vgpu *vgpu;
    uint64_t held;
};

static CUresult begin(struct making *making, CUdevice device)
{
    CUresult rc = process_enter();
    if (rc != CUDA_SUCCESS)
        return rc;
    making->vgpu = process_vgpu_of_device(device);
    return making->vgpu ? measure_begin_context(making->vgpu, &making->held) : CUDA_SUCCESS;
}

/* CUDA_ERROR_OUT_OF_MEMORY for a context that the driver made (rc is CUDA_SUCCESS): destroy it,
 * then measure_now. */
static CUresult end(struct making *making, CUresult rc)
{
    if (making->vgpu == NULL)
        return rc;
    CUresult fits = measure_end_context(making->vgpu, making->held, rc == CUDA_SUCCESS);
    return rc == CUDA_SUCCESS ? fits : rc;
}

static CUresult end_create(struct making *making, CUresult rc, CUcontext *context)
{
    CUresult result = end(making, rc);

    if (rc == CUDA_SUCCESS && result != CUDA_SUCCESS) {
        REAL(cuCtxDestroy_v2)(*context);
        measure_now(making->vgpu);
    }
    return result;
}

#define CREATE(symbol, parameters, arguments)                                                      \
    EXPORT CUresult symbol parameters                                                              \
    {                                                                                              \
        struct making making;                                                                      \
        CUresult rc = begin(&making, dev);                                                         \
        return rc != CUDA_SUCCESS ? rc : end_create(&making, REAL(symbol) arguments, pctx);        \
    }

CREATE(cuCtxCreate, (CUcontext * pctx, unsigned int flags, CUdevice dev), (pctx, flags, dev))
CREATE(cuCtxCreate_v2, (CUcontext * pctx, unsigned int flags, CUdevice dev), (pctx, flags, dev))
CREATE(cuCtxCreate_v3,
       (CUcontext * pctx, CUexecAffinityParam *paramsArray, int numParams, unsigned int flags,
        CUdevice dev),
       (pctx, paramsArray, numParams, flags, dev))
CREATE(cuCtxCreate_v4,
       (CUcontext * pctx, CUctxCreateParams *params, unsigned int flags, CUdevice dev),
       (pctx, params, flags, dev))

EXPORT CUresult cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev,
                                 unsigned int flags)
{
    CUresult rc = process_enter();
    if (rc != CUDA_SUCCESS)
        return rc;
    struct vgpu *vgpu = process_vgpu_of_device(dev);
    rc = REAL(cuGreenCtxCreate)(phCtx, desc, dev, flags);
    if (rc == CUDA_SUCCESS && vgpu && !measure_now(vgpu)) {
        REAL(cuGreenCtxDestroy)(*phCtx);
        measure_now(vgpu);
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return rc;
}

/* --- the primary context: one per device, made by the first retain --------------------------- */

static bool primary_active(CUdevice device)
{
    unsigned int flags;
    int active = 0;
    return REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) == CUDA_SUCCESS && active;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    struct making making = {0};
    CUresult rc = process_enter();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (!primary_active(dev))
        rc = begin(&making, dev);
    if (rc != CUDA_SUCCESS)
        return rc;
    rc = REAL(cuDevicePrimaryCtxRetain)(pctx, dev);
    struct vgpu *vgpu = process_vgpu_of_device(dev);
    if (vgpu && rc == CUDA_SUCCESS)
        vgpu->primary = *pctx;
    CUresult result = end(&making, rc);
    if (rc == CUDA_SUCCESS && result != CUDA_SUCCESS) {
        REAL(cuDevicePrimaryCtxRelease_v2)(dev);
        measure_now(making.vgpu);
    }
    return result;
}

/* Before the driver is asked: the context may go, with all that is in it. */
static struct vgpu *about_to_lose_primary(CUdevice device)
{
    struct vgpu *vgpu = process_vgpu_of_device(device);
    if (vgpu && vgpu->primary)
        lease_context_dying(vgpu->lease, vgpu->primary);
    return vgpu;
}

static CUresult lost_primary(struct vgpu *vgpu, CUresult rc)
{
    if (vgpu == NULL || rc != CUDA_SUCCESS)
        return rc;
    if (vgpu->primary)
        claim_forget_context(vgpu->primary);
    vgpu->primary = NULL;
    measure_now(vgpu);
    return rc;
}

static CUresult release(CUdevice device, CUresult (*call)(CUdevice))
{
    CUresult rc = process_enter();
    if (rc != CUDA_SUCCESS)
        return rc;
    struct vgpu *vgpu = about_to_lose_primary(device);
    rc = call(device);
    return rc == CUDA_SUCCESS && primary_active(device) ? rc : lost_primary(vgpu, rc);
}

static CUresult reset(CUdevice device, CUresult (*call)(CUdevice))
{
    CUresult rc = process_enter();
    if (rc != CUDA_SUCCESS)
        return rc;
    struct vgpu *vgpu = about_to_lose_primary(device);
    return lost_primary(vgpu, call(device));
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
    return release(dev, REAL(cuDevicePrimaryCtxRelease));
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    return release(dev, REAL(cuDevicePrimaryCtxRelease_v2));
}

EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
    return reset(dev, REAL(cuDevicePrimaryCtxReset));
}

EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    return reset(dev, REAL(cuDevicePrimaryCtxReset_v2));
}

/* --- destroying ------------------------------------------------------------------------------ */

static struct vgpu *vgpu_of_context(CUcontext context)
{
    CUdevice device;
    CUcontext popped;

    if (process.n_vgpus == 0 || context == NULL ||
        REAL(cuCtxPushCurrent_v2)(context) != CUDA_SUCCESS)
        return NULL;
    CUresult rc = REAL(cuCtxGetDevice)(&device);
    REAL(cuCtxPopCurrent_v2)(&popped);
    return rc == CUDA_SUCCESS ? process_vgpu_of_device(device) : NULL;
}

static CUresult destroy(CUcontext context, CUresult (*call)(CUcontext))
{
    CUresult rc = process_enter();
    if (rc != CUDA_SUCCESS)
        return rc;
    struct vgpu *vgpu = vgpu_of_context(context);
    if (vgpu)
        lease_context_dying(vgpu->lease, context);
    rc = call(context);
    unsigned int version;
    bool gone = rc == CUDA_SUCCESS && REAL(cuCtxGetApiVersion)(context, &version) != CUDA_SUCCESS;
    if (vgpu && gone) {
        claim_forget_context(context);
        measure_now(vgpu);
    }
    return rc;
}

EXPORT CUresult cuCtxDestroy(CUcontext ctx)
{
    return destroy(ctx, REAL(cuCtxDestroy));
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    return destroy(ctx, REAL(cuCtxDestroy_v2));
}

EXPORT CUresult cuCtxDetach(CUcontext ctx)
{
    return destroy(ctx, REAL(cuCtxDetach));
}

EXPORT CUresult cuGreenCtxDestroy(CUgreenCtx hCtx)
{
    CUresult rc = process_enter();
    if (rc == CUDA_SUCCESS)
        rc = REAL(cuGreenCtxDestroy)(hCtx);
    measure_later_all();
    return rc;
}

/* Heaps of the device's malloc and printf, and stacks, grow with their limits. */
EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    CUcontext context;
    CUresult rc = process_enter();

    if (rc != CUDA_SUCCESS)
        return rc;
    struct vgpu *vgpu = process_current(&context);
    rc = REAL(cuCtxSetLimit)(limit, value);
    if (vgpu && rc == CUDA_SUCCESS)
        measure_later(vgpu);
    return rc;
}
