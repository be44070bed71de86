/* launch.c - launching kernels, in every way there is, and what they do. */
#include "sim.h"

#include <string.h>

/* --- doing ---------------------------------------------------------------------------------- */

static bool range_valid(uint64_t pointer, uint64_t count, unsigned size)
{
    uint64_t bytes;
    return pointer % size == 0 && !__builtin_mul_overflow(count, (uint64_t)size, &bytes) &&
           memory_valid((void *)pointer, bytes);
}

static bool fill(const uint64_t *args, uint64_t *bytes)
{
    sim_lock();
    bool valid = range_valid(args[0], args[2], 4);
    sim_unlock();
    uint32_t *p = (uint32_t *)args[0];
    for (uint64_t i = 0; valid && i < args[2]; i++)
        p[i] = (uint32_t)args[1];
    *bytes = args[2] * 4;
    return valid;
}

static bool vector_add(const uint64_t *args, uint64_t *bytes)
{
    sim_lock();
    bool valid = true;
    for (int i = 0; i < 3; i++)
        valid = valid && range_valid(args[i], args[3], 4);
    sim_unlock();
    const float *a = (const float *)args[0], *b = (const float *)args[1];
    float *c = (float *)args[2];
    for (uint64_t i = 0; valid && i < args[3]; i++)
        c[i] = a[i] + b[i];
    *bytes = args[3] * 12;
    return valid;
}

CUresult kernel_do(CUstream s, struct work *w)
{
    struct device *d = device_of(s->ctx);
    uint64_t ns = 0, bytes = 0;
    bool valid = true;
    switch (w->kernel.function->type) {
    case KERNEL_SPIN:
        ns = w->kernel.args[0];
        break;
    case KERNEL_FILL:
        valid = fill(w->kernel.args, &bytes);
        break;
    case KERNEL_VECTOR_ADD:
        valid = vector_add(w->kernel.args, &bytes);
        break;
    default:
        break;
    }
    if (bytes)
        ns = bytes * 1000000000u / d->spec->bandwidth + 1;
    atomic_fetch_add_explicit(&d->account->launches, 1, memory_order_relaxed);
    if (unlikely(!valid)) /* told when somebody waits, as asynchronous errors are */
        s->ctx->error = CUDA_ERROR_ILLEGAL_ADDRESS;
    work_occupy(s, valid ? ns : 0);
    return CUDA_SUCCESS;
}

/* --- arguments ------------------------------------------------------------------------------ */

static CUresult from_buffer(enum kernel_type type, void **extra, uint64_t *args)
{
    const char *buffer = NULL;
    size_t size = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *(size_t *)extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    const struct kernel_info *info = &kernel_infos[type];
    for (unsigned i = 0; i < info->n_args; i++) {
        unsigned offset = kernel_param_offset(type, i);
        NEED(buffer && offset + info->arg_size[i] <= size, CUDA_ERROR_INVALID_VALUE);
        memcpy(&args[i], buffer + offset, info->arg_size[i]);
    }
    return CUDA_SUCCESS;
}

CUresult kernel_args(enum kernel_type type, void **params, void **extra, uint64_t *args)
{
    const struct kernel_info *info = &kernel_infos[type];
    NEED(!(params && extra), CUDA_ERROR_INVALID_VALUE);
    if (extra)
        return from_buffer(type, extra, args);
    NEED(params || !info->n_args, CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < info->n_args; i++) {
        args[i] = 0;
        memcpy(&args[i], params[i], info->arg_size[i]);
    }
    return CUDA_SUCCESS;
}

/* --- launching ------------------------------------------------------------------------------ */

struct shape {
    unsigned grid[3], block[3], shared;
};

static CUresult check_shape(const struct shape *shape, CUfunction function)
{
    const unsigned *g = shape->grid, *b = shape->block;
    NEED(g[0] && g[1] && g[2] && b[0] && b[1] && b[2], CUDA_ERROR_INVALID_VALUE);
    NEED(g[0] <= 0x7fffffffu && g[1] <= 65535 && g[2] <= 65535, CUDA_ERROR_INVALID_VALUE);
    NEED(b[0] <= 1024 && b[1] <= 1024 && b[2] <= 64, CUDA_ERROR_INVALID_VALUE);
    NEED(b[0] * b[1] * b[2] <= 1024, CUDA_ERROR_INVALID_VALUE);
    unsigned most = function->max_dynamic_shared ? (unsigned)function->max_dynamic_shared : 49152;
    NEED(shape->shared <= most, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult kernel_make(void *handle, CUcontext ctx, const unsigned *grid, const unsigned *block,
                     unsigned shared, void **params, void **extra, struct work *w)
{
    struct shape shape = {.shared = shared};
    memcpy(shape.grid, grid, sizeof(shape.grid));
    memcpy(shape.block, block, sizeof(shape.block));
    w->type = WORK_KERNEL;
    w->ctx = ctx;
    TRY(function_get(handle, ctx, &w->kernel.function));
    CUcontext home = w->kernel.function->ctx;
    NEED(home == ctx || (ctx->green && home->device == ctx->device), CUDA_ERROR_INVALID_HANDLE);
    TRY(check_shape(&shape, w->kernel.function));
    TRY(kernel_args(w->kernel.function->type, params, extra, w->kernel.args));
    memcpy(w->kernel.grid, shape.grid, sizeof(shape.grid));
    memcpy(w->kernel.block, shape.block, sizeof(shape.block));
    w->kernel.shared = shared;
    return CUDA_SUCCESS;
}

static CUresult launch(void *handle, const unsigned *grid, const unsigned *block, unsigned shared,
                       CUstream stream, void **params, void **extra)
{
    CUstream s;
    struct work w;
    TRY(stream_get(stream, &s));
    TRY(kernel_make(handle, s->ctx, grid, block, shared, params, extra, &w));
    return work_submit(s, &w);
}

CUresult sim_cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                            unsigned by, unsigned bz, unsigned shared, CUstream s, void **params,
                            void **extra)
{
    unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    return launch(f, grid, block, shared, s, params, extra);
}

/* All blocks of a cooperative launch must fit on the GPU at once. */
static CUresult check_cooperative(CUcontext ctx, const unsigned *grid, const unsigned *block)
{
    uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    uint64_t per_sm = threads ? 2048 / threads : 0;
    if (per_sm > 32)
        per_sm = 32;
    NEED(blocks <= per_sm * ctx->sms, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    return CUDA_SUCCESS;
}

CUresult sim_cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                       unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                       CUstream handle, void **params)
{
    CUstream s;
    unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    TRY(stream_get(handle, &s));
    TRY(check_cooperative(s->ctx, grid, block));
    return launch(f, grid, block, shared, handle, params, NULL);
}

CUresult sim_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned n,
                                                  unsigned flags)
{
    NEED(list && n && n <= (unsigned)sim.n_devices && !(flags & ~3u), CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < n; i++) {
        const CUDA_LAUNCH_PARAMS *p = &list[i];
        NEED(IS(p->function, SIM_FUNCTION), CUDA_ERROR_INVALID_HANDLE);
        NEED(p->hStream && p->hStream != CU_STREAM_LEGACY && p->hStream != CU_STREAM_PER_THREAD,
             CUDA_ERROR_INVALID_VALUE);
        NEED(p->hStream->magic == SIM_STREAM && p->hStream->ctx == p->function->ctx,
             CUDA_ERROR_INVALID_HANDLE);
        for (unsigned k = 0; k < i; k++)
            NEED(list[k].function->ctx->device != p->function->ctx->device,
                 CUDA_ERROR_INVALID_DEVICE);
    }
    for (unsigned i = 0; i < n; i++) {
        const CUDA_LAUNCH_PARAMS *p = &list[i];
        TRY(sim_cuLaunchCooperativeKernel(p->function, p->gridDimX, p->gridDimY, p->gridDimZ,
                                          p->blockDimX, p->blockDimY, p->blockDimZ,
                                          p->sharedMemBytes, p->hStream, p->kernelParams));
    }
    return CUDA_SUCCESS;
}

/* What the attributes of a launch ask for that has an effect here. */
static CUresult check_attributes(const CUlaunchConfig *config, CUstream s)
{
    const unsigned grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};
    const unsigned block[3] = {config->blockDimX, config->blockDimY, config->blockDimZ};
    NEED(config->attrs || !config->numAttrs, CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *a = &config->attrs[i];
        if (a->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && a->value.cooperative)
            TRY(check_cooperative(s->ctx, grid, block));
        if (a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
            a->value.clusterDim.x * a->value.clusterDim.y * a->value.clusterDim.z > 1)
            NEED(device_of(s->ctx)->spec->cc_major >= 9, CUDA_ERROR_INVALID_CLUSTER_SIZE);
    }
    return CUDA_SUCCESS;
}

/* Events that a launch records on its way count as recorded after it. */
static CUresult record_events(const CUlaunchConfig *config, CUstream handle)
{
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *a = &config->attrs[i];
        if (a->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
            TRY(sim_cuEventRecord(a->value.programmaticEvent.event, handle));
        if (a->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
            TRY(sim_cuEventRecord(a->value.launchCompletionEvent.event, handle));
    }
    return CUDA_SUCCESS;
}

static CUresult launch_config(const CUlaunchConfig *config, CUstream handle, CUfunction f,
                              void **params, void **extra)
{
    CUstream s;
    TRY(stream_get(handle, &s));
    TRY(check_attributes(config, s));
    const unsigned grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};
    const unsigned block[3] = {config->blockDimX, config->blockDimY, config->blockDimZ};
    TRY(launch(f, grid, block, config->sharedMemBytes, handle, params, extra));
    return record_events(config, handle);
}

CUresult sim_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params,
                              void **extra)
{
    NEED(config, CUDA_ERROR_INVALID_VALUE);
    return launch_config(config, config->hStream, f, params, extra);
}

CUresult sim_cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **params,
                                   void **extra)
{
    NEED(config, CUDA_ERROR_INVALID_VALUE);
    return launch_config(config, sim_per_thread(config->hStream), f, params, extra);
}

/* --- the way of CUDA 3 ---------------------------------------------------------------------- */

CUresult sim_cuFuncSetBlockShape(CUfunction f, int x, int y, int z)
{
    NEED(IS(f, SIM_FUNCTION), CUDA_ERROR_INVALID_HANDLE);
    NEED(x > 0 && y > 0 && z > 0, CUDA_ERROR_INVALID_VALUE);
    f->block[0] = (unsigned)x;
    f->block[1] = (unsigned)y;
    f->block[2] = (unsigned)z;
    return CUDA_SUCCESS;
}

CUresult sim_cuFuncSetSharedSize(CUfunction f, unsigned bytes)
{
    NEED(IS(f, SIM_FUNCTION), CUDA_ERROR_INVALID_HANDLE);
    f->shared = bytes;
    return CUDA_SUCCESS;
}

CUresult sim_cuParamSetSize(CUfunction f, unsigned bytes)
{
    NEED(IS(f, SIM_FUNCTION), CUDA_ERROR_INVALID_HANDLE);
    NEED(bytes <= sizeof(f->params), CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult sim_cuParamSetv(CUfunction f, int offset, void *value, unsigned bytes)
{
    NEED(IS(f, SIM_FUNCTION), CUDA_ERROR_INVALID_HANDLE);
    NEED(value && offset >= 0 && (size_t)offset + bytes <= sizeof(f->params),
         CUDA_ERROR_INVALID_VALUE);
    memcpy(f->params + offset, value, bytes);
    return CUDA_SUCCESS;
}

CUresult sim_cuParamSeti(CUfunction f, int offset, unsigned value)
{
    return sim_cuParamSetv(f, offset, &value, sizeof(value));
}

CUresult sim_cuParamSetf(CUfunction f, int offset, float value)
{
    return sim_cuParamSetv(f, offset, &value, sizeof(value));
}

CUresult sim_cuLaunchGridAsync(CUfunction f, int width, int height, CUstream s)
{
    NEED(IS(f, SIM_FUNCTION), CUDA_ERROR_INVALID_HANDLE);
    NEED(width > 0 && height > 0, CUDA_ERROR_INVALID_VALUE);
    size_t size = sizeof(f->params);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, f->params, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    unsigned grid[3] = {(unsigned)width, (unsigned)height, 1};
    return launch(f, grid, f->block, f->shared, s, NULL, extra);
}

CUresult sim_cuLaunchGrid(CUfunction f, int width, int height)
{
    return sim_cuLaunchGridAsync(f, width, height, NULL);
}

CUresult sim_cuLaunch(CUfunction f)
{
    return sim_cuLaunchGrid(f, 1, 1);
}

/* --- occupancy ------------------------------------------------------------------------------ */

/* Blocks of 32 registers a thread that fit on an SM. */
static CUresult blocks_per_sm(void *handle, int block_size, size_t shared, int *n)
{
    CUcontext ctx;
    CUfunction f;
    TRY(context_current(&ctx));
    TRY(function_get(handle, ctx, &f));
    NEED(block_size > 0 && block_size <= 1024, CUDA_ERROR_INVALID_VALUE);
    int threads = (block_size + 31) / 32 * 32,
        by_shared = shared ? (int)(167936 / (shared + 1024)) : 32;
    *n = 2048 / threads;
    if (*n > 32)
        *n = 32;
    if (*n > by_shared)
        *n = by_shared;
    return CUDA_SUCCESS;
}

CUresult sim_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction f, int block_size,
                                                         size_t shared)
{
    NEED(n, CUDA_ERROR_INVALID_VALUE);
    return blocks_per_sm(f, block_size, shared, n);
}

CUresult sim_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, CUfunction f,
                                                                  int block_size, size_t shared,
                                                                  unsigned flags)
{
    NEED(n && !(flags & ~1u), CUDA_ERROR_INVALID_VALUE);
    return blocks_per_sm(f, block_size, shared, n);
}

CUresult sim_cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction f,
                                                       CUoccupancyB2DSize shared_of, size_t shared,
                                                       int limit, unsigned flags)
{
    CUcontext ctx;
    int best = 0, n;
    NEED(grid && block && !(flags & ~1u), CUDA_ERROR_INVALID_VALUE);
    TRY(context_current(&ctx));
    if (limit <= 0 || limit > 1024)
        limit = 1024;
    for (int size = limit < 32 ? limit : limit - limit % 32; size > 0; size -= 32) {
        TRY(blocks_per_sm(f, size, shared_of ? shared_of(size) : shared, &n));
        if (n * size > best) {
            best = n * size;
            *block = size;
            *grid = n * (int)ctx->sms;
        }
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction f,
                                              CUoccupancyB2DSize shared_of, size_t shared,
                                              int limit)
{
    return sim_cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, f, shared_of, shared, limit,
                                                         0);
}

CUresult sim_cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction f, int blocks,
                                                     int block_size)
{
    int n;
    NEED(bytes && blocks > 0, CUDA_ERROR_INVALID_VALUE);
    TRY(blocks_per_sm(f, block_size, 0, &n));
    NEED(blocks <= n, CUDA_ERROR_INVALID_VALUE);
    size_t each = 167936u / (unsigned)blocks - 1024;
    *bytes = each < 49152 ? each : 49152;
    return CUDA_SUCCESS;
}
