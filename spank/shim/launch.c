/* launch.c - everything that starts work on a GPU: kernels, copies, fills. */
#include "shim/launch.h"

CUresult launch_begin(struct launch *launch, CUstream stream)
{
    CUcontext context;
    CUresult rc = process_enter();

    *launch = (struct launch){.stream = stream};
    if (rc != CUDA_SUCCESS || process.n_vgpus == 0)
        return rc;
    struct vgpu *vgpu = process_current(&context);
    if (vgpu == NULL || lease_open(lease_gate(vgpu->lease)))
        return CUDA_SUCCESS;
    if (lease_enter(vgpu->lease, stream))
        launch->lease = vgpu->lease;
    return CUDA_SUCCESS;
}

void launch_end(struct launch *launch)
{
    if (launch->lease)
        lease_leave(launch->lease, launch->stream);
}

/* The open gate is one read and a jump to the driver; the rest is kept out of its way. */
#define HOOK(symbol, since, kind, charged, released)
#define USED(symbol)
#define NONE(symbol, why)
#define GATE(symbol, since, parameters, arguments, stream)                                         \
    static __attribute__((noinline, cold)) CUresult symbol##_waiting parameters                    \
    {                                                                                              \
        struct launch launch;                                                                      \
        CUresult rc = launch_begin(&launch, stream);                                               \
        if (rc != CUDA_SUCCESS)                                                                    \
            return rc;                                                                             \
        rc = REAL(symbol) arguments;                                                               \
        launch_end(&launch);                                                                       \
        return rc;                                                                                 \
    }                                                                                              \
    EXPORT CUresult symbol parameters                                                              \
    {                                                                                              \
        return launch_open() ? REAL(symbol) arguments : symbol##_waiting arguments;                \
    }
#include "shim/hooks.def"

/* One launch on several devices: each has its gate. */
EXPORT CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launchParamsList,
                                                     unsigned int numDevices, unsigned int flags)
{
    struct launch launches[VGPU_MAX_GPUS];
    unsigned int n = numDevices < VGPU_MAX_GPUS ? numDevices : VGPU_MAX_GPUS;
    CUresult rc = process_enter();

    if (rc != CUDA_SUCCESS)
        return rc;
    for (unsigned int i = 0; i < n; i++) {
        struct vgpu *vgpu =
            process.n_vgpus > 0 ? process_vgpu_of_stream(launchParamsList[i].hStream) : NULL;
        launches[i] = (struct launch){.stream = launchParamsList[i].hStream};
        if (vgpu && lease_enter(vgpu->lease, launches[i].stream))
            launches[i].lease = vgpu->lease;
    }
    rc = REAL(cuLaunchCooperativeKernelMultiDevice)(launchParamsList, numDevices, flags);
    while (n-- > 0)
        launch_end(&launches[n]);
    return rc;
}

/* --- streams: who waits for a GPU to be idle has to know them -------------------------------- */

static CUresult created(CUresult rc, const CUstream *stream)
{
    CUcontext context;
    struct vgpu *vgpu =
        rc == CUDA_SUCCESS && process.n_vgpus > 0 ? process_current(&context) : NULL;

    if (vgpu)
        lease_stream_created(vgpu->lease, *stream);
    return rc;
}

EXPORT CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
    CUresult rc = process_enter();
    return rc != CUDA_SUCCESS ? rc : created(REAL(cuStreamCreate)(phStream, Flags), phStream);
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
    CUresult rc = process_enter();
    return rc != CUDA_SUCCESS
               ? rc
               : created(REAL(cuStreamCreateWithPriority)(phStream, flags, priority), phStream);
}

EXPORT CUresult cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags,
                                       int priority)
{
    CUresult rc = process_enter();
    return rc != CUDA_SUCCESS
               ? rc
               : created(REAL(cuGreenCtxStreamCreate)(phStream, greenCtx, flags, priority),
                         phStream);
}

static CUresult destroy(CUstream stream, CUresult (*call)(CUstream))
{
    CUresult rc = process_enter();
    if (rc != CUDA_SUCCESS)
        return rc;
    struct vgpu *vgpu = process.n_vgpus > 0 && stream ? process_vgpu_of_stream(stream) : NULL;
    if (vgpu)
        lease_stream_dying(vgpu->lease, stream);
    return call(stream);
}

EXPORT CUresult cuStreamDestroy(CUstream hStream)
{
    return destroy(hStream, REAL(cuStreamDestroy));
}

EXPORT CUresult cuStreamDestroy_v2(CUstream hStream)
{
    return destroy(hStream, REAL(cuStreamDestroy_v2));
}
