/* copy.c - copies and memsets, in all their forms: each becomes a CUDA_MEMCPY3D, and that two
 * areas.
 *
 * Within a device's memory the device is busy for as long as its bandwidth says (reading and
 * writing); between host and device the copy takes the time that it takes the CPU, and none of the
 * device.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

/* --- from what the caller says to areas ----------------------------------------------------- */

struct side {
    CUmemorytype type;
    char *host;
    CUdeviceptr device;
    CUarray array;
    size_t x, y, z, pitch, height;
};

struct resolved {
    struct area area;
    bool on_device; /* counts for the device's bandwidth */
    bool pageable;  /* host memory that CUDA does not know */
};

/* Bytes from the first to past the last of an area's box. */
static uint64_t span(const struct area *area, const CUDA_MEMCPY3D *copy)
{
    return (copy->Depth - 1) * area->slice + (copy->Height - 1) * area->pitch + copy->WidthInBytes;
}

static CUresult resolve_array(const struct side *side, const CUDA_MEMCPY3D *copy,
                              struct resolved *out)
{
    CUarray array = side->array;
    NEED(IS(array, SIM_ARRAY), CUDA_ERROR_INVALID_HANDLE);
    NEED(side->x + copy->WidthInBytes <= array->pitch && side->y + copy->Height <= array->rows &&
             side->z + copy->Depth <= array->slices,
         CUDA_ERROR_INVALID_VALUE);
    out->area = (struct area){.pitch = array->pitch, .slice = array->pitch * array->rows};
    out->area.base = array->base + side->z * out->area.slice + side->y * array->pitch + side->x;
    out->on_device = true;
    return CUDA_SUCCESS;
}

/* sim.lock held. */
static CUresult resolve(const struct side *side, const CUDA_MEMCPY3D *copy, struct resolved *out)
{
    *out = (struct resolved){0};
    if (side->type == CU_MEMORYTYPE_ARRAY)
        return resolve_array(side, copy, out);
    char *base = side->type == CU_MEMORYTYPE_HOST ? side->host : (char *)side->device;
    size_t pitch = side->pitch ? side->pitch : side->x + copy->WidthInBytes;
    size_t height = side->height ? side->height : side->y + copy->Height;
    NEED(pitch >= copy->WidthInBytes && base, CUDA_ERROR_INVALID_VALUE);
    out->area = (struct area){.pitch = pitch, .slice = pitch * height};
    out->area.base = base + side->z * out->area.slice + side->y * pitch + side->x;
    const struct block *block = memory_find(out->area.base);
    out->pageable = !block;
    out->on_device = block && block->device >= 0;
    NEED(block || side->type != CU_MEMORYTYPE_DEVICE, CUDA_ERROR_INVALID_VALUE);
    bool checked = side->type == CU_MEMORYTYPE_DEVICE || out->on_device;
    NEED(!checked || memory_valid(out->area.base, span(&out->area, copy)),
         CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

/* Make the command of a copy. *host_from, *host_to: pageable host memory is read, written. sim.lock
 * held. */
static CUresult make(const CUDA_MEMCPY3D *copy, struct work *w, bool *host_from, bool *host_to)
{
    struct resolved to, from;
    struct side source = {copy->srcMemoryType, (char *)copy->srcHost, copy->srcDevice,
                          copy->srcArray,      copy->srcXInBytes,     copy->srcY,
                          copy->srcZ,          copy->srcPitch,        copy->srcHeight};
    struct side target = {copy->dstMemoryType, copy->dstHost,     copy->dstDevice,
                          copy->dstArray,      copy->dstXInBytes, copy->dstY,
                          copy->dstZ,          copy->dstPitch,    copy->dstHeight};
    TRY(resolve(&source, copy, &from));
    TRY(resolve(&target, copy, &to));
    w->type = WORK_COPY;
    w->copy.to = to.area;
    w->copy.from = from.area;
    w->copy.width = copy->WidthInBytes;
    w->copy.height = copy->Height;
    w->copy.depth = copy->Depth;
    if (to.on_device && from.on_device)
        w->copy.device_bytes = 2 * copy->WidthInBytes * copy->Height * copy->Depth;
    *host_from = from.pageable;
    *host_to = to.pageable;
    return CUDA_SUCCESS;
}

static bool is_empty(const CUDA_MEMCPY3D *copy)
{
    return !copy->WidthInBytes || !copy->Height || !copy->Depth;
}

CUresult copy_make(const CUDA_MEMCPY3D *copy, CUcontext ctx, struct work *w)
{
    bool from, to;
    *w = (struct work){.type = WORK_NOTHING, .ctx = ctx};
    if (is_empty(copy))
        return CUDA_SUCCESS;
    sim_lock();
    CUresult rc = make(copy, w, &from, &to);
    sim_unlock();
    TRY(rc);
    w->copy.given = malloc(sizeof(*copy));
    NEED(w->copy.given, CUDA_ERROR_OUT_OF_MEMORY);
    *w->copy.given = *copy;
    return CUDA_SUCCESS;
}

/* Pageable memory may change as soon as the call returns: if the copy is held back, it is from a
 * copy. */
static CUresult stage(struct work *w)
{
    uint64_t bytes = (w->copy.depth - 1) * w->copy.from.slice +
                     (w->copy.height - 1) * w->copy.from.pitch + w->copy.width;
    w->copy.staging = malloc(bytes);
    NEED(w->copy.staging, CUDA_ERROR_OUT_OF_MEMORY);
    memcpy(w->copy.staging, w->copy.from.base, bytes);
    w->copy.from.base = w->copy.staging;
    return CUDA_SUCCESS;
}

static CUresult copy_async(const CUDA_MEMCPY3D *copy, CUstream handle)
{
    CUstream s;
    bool host_from = false, host_to = false;
    TRY(stream_get(handle, &s));
    struct work w = {.type = WORK_NOTHING, .ctx = s->ctx};
    if (s->capture) {
        TRY(copy_make(copy, s->ctx, &w));
        return work_submit(s, &w);
    }
    if (is_empty(copy))
        return CUDA_SUCCESS;
    sim_lock();
    CUresult rc = make(copy, &w, &host_from, &host_to);
    if (rc == CUDA_SUCCESS && host_from && s->ctx->gated)
        rc = stage(&w);
    sim_unlock();
    TRY(rc);
    TRY(work_submit(s, &w));
    return host_to ? stream_drain(s) : CUDA_SUCCESS;
}

/* With host memory involved the call returns when the copy is done. */
static CUresult copy_sync(const CUDA_MEMCPY3D *copy)
{
    CUstream s;
    bool host_from, host_to;
    TRY(stream_get(NULL, &s));
    TRY(capture_forbids());
    TRY(capture_forbids_legacy(s->ctx));
    if (is_empty(copy))
        return CUDA_SUCCESS;
    struct work w = {.ctx = s->ctx};
    sim_lock();
    CUresult rc = make(copy, &w, &host_from, &host_to);
    sim_unlock();
    TRY(rc);
    uint64_t device_bytes = w.copy.device_bytes;
    TRY(work_submit(s, &w));
    return device_bytes ? CUDA_SUCCESS : stream_drain(s);
}

/* --- linear --------------------------------------------------------------------------------- */

static CUDA_MEMCPY3D linear(CUmemorytype to_type, const void *to, CUmemorytype from_type,
                            const void *from, size_t size)
{
    CUDA_MEMCPY3D copy = {.WidthInBytes = size, .Height = 1, .Depth = 1};
    copy.srcMemoryType = from_type;
    copy.srcHost = from;
    copy.srcDevice = (CUdeviceptr)from;
    copy.dstMemoryType = to_type;
    copy.dstHost = (void *)to;
    copy.dstDevice = (CUdeviceptr)to;
    return copy;
}

#define DEVICE  CU_MEMORYTYPE_DEVICE
#define HOST    CU_MEMORYTYPE_HOST
#define UNIFIED CU_MEMORYTYPE_UNIFIED

CUresult sim_cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size)
{
    CUDA_MEMCPY3D copy = linear(DEVICE, (void *)to, HOST, from, size);
    return copy_sync(&copy);
}

CUresult sim_cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size)
{
    CUDA_MEMCPY3D copy = linear(HOST, to, DEVICE, (void *)from, size);
    return copy_sync(&copy);
}

CUresult sim_cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size)
{
    CUDA_MEMCPY3D copy = linear(DEVICE, (void *)to, DEVICE, (void *)from, size);
    return copy_sync(&copy);
}

CUresult sim_cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size)
{
    CUDA_MEMCPY3D copy = linear(UNIFIED, (void *)to, UNIFIED, (void *)from, size);
    return copy_sync(&copy);
}

CUresult sim_cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream s)
{
    CUDA_MEMCPY3D copy = linear(DEVICE, (void *)to, HOST, from, size);
    return copy_async(&copy, s);
}

CUresult sim_cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream s)
{
    CUDA_MEMCPY3D copy = linear(HOST, to, DEVICE, (void *)from, size);
    return copy_async(&copy, s);
}

CUresult sim_cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream s)
{
    CUDA_MEMCPY3D copy = linear(DEVICE, (void *)to, DEVICE, (void *)from, size);
    return copy_async(&copy, s);
}

CUresult sim_cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream s)
{
    CUDA_MEMCPY3D copy = linear(UNIFIED, (void *)to, UNIFIED, (void *)from, size);
    return copy_async(&copy, s);
}

static bool are_contexts(CUcontext a, CUcontext b)
{
    return (!a || IS(a, SIM_CONTEXT)) && (!b || IS(b, SIM_CONTEXT));
}

CUresult sim_cuMemcpyPeer(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from, CUcontext from_ctx,
                          size_t size)
{
    NEED(are_contexts(to_ctx, from_ctx), CUDA_ERROR_INVALID_CONTEXT);
    return sim_cuMemcpyDtoD_v2(to, from, size);
}

CUresult sim_cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_ctx, CUdeviceptr from,
                               CUcontext from_ctx, size_t size, CUstream s)
{
    NEED(are_contexts(to_ctx, from_ctx), CUDA_ERROR_INVALID_CONTEXT);
    return sim_cuMemcpyDtoDAsync_v2(to, from, size, s);
}

CUresult sim_cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t n,
                                   CUmemcpyAttributes *attributes, size_t *indices,
                                   size_t n_attributes, CUstream s)
{
    NEED(to && from && sizes && n && attributes && indices && n_attributes,
         CUDA_ERROR_INVALID_VALUE);
    NEED(s && s != CU_STREAM_LEGACY, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < n; i++)
        TRY(sim_cuMemcpyAsync(to[i], from[i], sizes[i], s));
    return CUDA_SUCCESS;
}

CUresult sim_cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t n,
                                CUmemcpyAttributes *attributes, size_t *indices,
                                size_t n_attributes, size_t *failed, CUstream s)
{
    NEED(to && from && sizes && n && attributes && indices && n_attributes,
         CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < n; i++) {
        CUresult rc = sim_cuMemcpyAsync(to[i], from[i], sizes[i], s);
        if (rc != CUDA_SUCCESS && failed)
            *failed = i;
        TRY(rc);
    }
    return CUDA_SUCCESS;
}

/* --- arrays, linearly ----------------------------------------------------------------------- */

/* Arrays are addressed by byte offset into their first row, as the one-dimensional copies do. */
static CUDA_MEMCPY3D with_arrays(CUDA_MEMCPY3D copy, CUarray to, size_t to_offset, CUarray from,
                                 size_t from_offset)
{
    if (to) {
        copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
        copy.dstArray = to;
        copy.dstXInBytes = to_offset;
    }
    if (from) {
        copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
        copy.srcArray = from;
        copy.srcXInBytes = from_offset;
    }
    return copy;
}

CUresult sim_cuMemcpyHtoA_v2(CUarray to, size_t offset, const void *from, size_t size)
{
    CUDA_MEMCPY3D copy = with_arrays(linear(HOST, NULL, HOST, from, size), to, offset, NULL, 0);
    return copy_sync(&copy);
}

CUresult sim_cuMemcpyAtoH_v2(void *to, CUarray from, size_t offset, size_t size)
{
    CUDA_MEMCPY3D copy = with_arrays(linear(HOST, to, HOST, NULL, size), NULL, 0, from, offset);
    return copy_sync(&copy);
}

CUresult sim_cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t size)
{
    CUDA_MEMCPY3D copy =
        with_arrays(linear(HOST, NULL, DEVICE, (void *)from, size), to, offset, NULL, 0);
    return copy_sync(&copy);
}

CUresult sim_cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t size)
{
    CUDA_MEMCPY3D copy =
        with_arrays(linear(DEVICE, (void *)to, HOST, NULL, size), NULL, 0, from, offset);
    return copy_sync(&copy);
}

CUresult sim_cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset,
                             size_t size)
{
    CUDA_MEMCPY3D copy =
        with_arrays(linear(HOST, NULL, HOST, NULL, size), to, to_offset, from, from_offset);
    return copy_sync(&copy);
}

CUresult sim_cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void *from, size_t size,
                                  CUstream s)
{
    CUDA_MEMCPY3D copy = with_arrays(linear(HOST, NULL, HOST, from, size), to, offset, NULL, 0);
    return copy_async(&copy, s);
}

CUresult sim_cuMemcpyAtoHAsync_v2(void *to, CUarray from, size_t offset, size_t size, CUstream s)
{
    CUDA_MEMCPY3D copy = with_arrays(linear(HOST, to, HOST, NULL, size), NULL, 0, from, offset);
    return copy_async(&copy, s);
}

/* --- two and three dimensions --------------------------------------------------------------- */

static CUDA_MEMCPY3D from_2d(const CUDA_MEMCPY2D *c)
{
    return (CUDA_MEMCPY3D){
        .srcXInBytes = c->srcXInBytes,
        .srcY = c->srcY,
        .srcMemoryType = c->srcMemoryType,
        .srcHost = c->srcHost,
        .srcDevice = c->srcDevice,
        .srcArray = c->srcArray,
        .srcPitch = c->srcPitch,
        .dstXInBytes = c->dstXInBytes,
        .dstY = c->dstY,
        .dstMemoryType = c->dstMemoryType,
        .dstHost = c->dstHost,
        .dstDevice = c->dstDevice,
        .dstArray = c->dstArray,
        .dstPitch = c->dstPitch,
        .WidthInBytes = c->WidthInBytes,
        .Height = c->Height,
        .Depth = 1,
    };
}

CUresult sim_cuMemcpy2D_v2(const CUDA_MEMCPY2D *given)
{
    NEED(given, CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMCPY3D copy = from_2d(given);
    return copy_sync(&copy);
}

CUresult sim_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *given)
{
    return sim_cuMemcpy2D_v2(given);
}

CUresult sim_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *given, CUstream s)
{
    NEED(given, CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMCPY3D copy = from_2d(given);
    return copy_async(&copy, s);
}

CUresult sim_cuMemcpy3D_v2(const CUDA_MEMCPY3D *given)
{
    NEED(given, CUDA_ERROR_INVALID_VALUE);
    return copy_sync(given);
}

CUresult sim_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *given, CUstream s)
{
    NEED(given, CUDA_ERROR_INVALID_VALUE);
    return copy_async(given, s);
}

/* The same struct but for contexts where the other has reserved words. */
static CUDA_MEMCPY3D from_peer(const CUDA_MEMCPY3D_PEER *c)
{
    CUDA_MEMCPY3D copy;
    _Static_assert(sizeof(copy) == sizeof(*c),
                   "CUDA_MEMCPY3D and its peer form are laid out alike");
    memcpy(&copy, c, sizeof(copy));
    copy.reserved0 = copy.reserved1 = NULL;
    return copy;
}

CUresult sim_cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *given)
{
    NEED(given, CUDA_ERROR_INVALID_VALUE);
    NEED(are_contexts(given->dstContext, given->srcContext), CUDA_ERROR_INVALID_CONTEXT);
    CUDA_MEMCPY3D copy = from_peer(given);
    return copy_sync(&copy);
}

CUresult sim_cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *given, CUstream s)
{
    NEED(given, CUDA_ERROR_INVALID_VALUE);
    NEED(are_contexts(given->dstContext, given->srcContext), CUDA_ERROR_INVALID_CONTEXT);
    CUDA_MEMCPY3D copy = from_peer(given);
    return copy_async(&copy, s);
}

/* --- batches of boxes ------------------------------------------------------------------------ */

/* An operand's extent is in elements: of an array its own, of memory bytes. */
static CUresult operand(const CUmemcpy3DOperand *op, struct side *side, unsigned *element)
{
    if (op->type == CU_MEMCPY_OPERAND_TYPE_POINTER) {
        *side = (struct side){.type = UNIFIED, .device = op->op.ptr.ptr};
        side->pitch = op->op.ptr.rowLength;
        side->height = op->op.ptr.layerHeight;
        return CUDA_SUCCESS;
    }
    CUarray array = op->op.array.array;
    NEED(op->type == CU_MEMCPY_OPERAND_TYPE_ARRAY && IS(array, SIM_ARRAY),
         CUDA_ERROR_INVALID_VALUE);
    *element = (unsigned)(array->pitch / array->desc.Width);
    *side = (struct side){.type = CU_MEMORYTYPE_ARRAY, .array = array};
    side->x = op->op.array.offset.x * *element;
    side->y = op->op.array.offset.y;
    side->z = op->op.array.offset.z;
    return CUDA_SUCCESS;
}

static CUresult batch_box(const CUDA_MEMCPY3D_BATCH_OP *op, CUstream s)
{
    struct side to, from;
    unsigned element = 1;
    TRY(operand(&op->dst, &to, &element));
    TRY(operand(&op->src, &from, &element));
    CUDA_MEMCPY3D copy = {.srcMemoryType = from.type,
                          .srcDevice = from.device,
                          .srcArray = from.array,
                          .srcXInBytes = from.x,
                          .srcY = from.y,
                          .srcZ = from.z,
                          .srcPitch = from.pitch * element,
                          .srcHeight = from.height,
                          .dstMemoryType = to.type,
                          .dstDevice = to.device,
                          .dstArray = to.array,
                          .dstXInBytes = to.x,
                          .dstY = to.y,
                          .dstZ = to.z,
                          .dstPitch = to.pitch * element,
                          .dstHeight = to.height,
                          .WidthInBytes = op->extent.width * element,
                          .Height = op->extent.height,
                          .Depth = op->extent.depth};
    NEED(!is_empty(&copy), CUDA_ERROR_INVALID_VALUE);
    return copy_async(&copy, s);
}

CUresult sim_cuMemcpy3DBatchAsync(size_t n, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *failed,
                                  unsigned long long flags, CUstream s)
{
    NEED(n && ops && !flags && s && s != CU_STREAM_LEGACY, CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < n; i++) {
        CUresult rc = batch_box(&ops[i], s);
        if (rc != CUDA_SUCCESS && failed)
            *failed = i;
        TRY(rc);
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuMemcpy3DBatchAsync_v2(size_t n, CUDA_MEMCPY3D_BATCH_OP *ops,
                                     unsigned long long flags, CUstream s)
{
    return sim_cuMemcpy3DBatchAsync(n, ops, NULL, flags, s);
}

/* --- memsets -------------------------------------------------------------------------------- */

CUresult set_make(const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx, struct work *w)
{
    *w = (struct work){.type = WORK_NOTHING, .ctx = ctx};
    NEED(p->elementSize == 1 || p->elementSize == 2 || p->elementSize == 4,
         CUDA_ERROR_INVALID_VALUE);
    if (!p->width || !p->height)
        return CUDA_SUCCESS;
    uint64_t width = p->width * p->elementSize, pitch = p->height > 1 ? p->pitch : width;
    sim_lock();
    bool valid = p->dst % p->elementSize == 0 && pitch >= width &&
                 memory_valid((void *)p->dst, (p->height - 1) * pitch + width);
    sim_unlock();
    NEED(valid, CUDA_ERROR_INVALID_VALUE);
    w->type = WORK_SET;
    w->set.base = (char *)p->dst;
    w->set.pitch = pitch;
    w->set.width = p->width;
    w->set.height = p->height;
    w->set.value = p->value;
    w->set.element = p->elementSize;
    return CUDA_SUCCESS;
}

static CUresult set(CUdeviceptr to, size_t pitch, unsigned value, unsigned element, size_t width,
                    size_t height, CUstream handle)
{
    CUstream s;
    struct work w;
    CUDA_MEMSET_NODE_PARAMS params = {to, pitch, value, element, width, height};
    TRY(stream_get(handle, &s));
    TRY(set_make(&params, s->ctx, &w));
    return work_submit(s, &w);
}

/* The forms without a stream: as if in the default stream, which the capture rules forbid. */
static CUresult set_sync(CUdeviceptr to, size_t pitch, unsigned value, unsigned element,
                         size_t width, size_t height)
{
    CUcontext ctx;
    TRY(context_current(&ctx));
    TRY(capture_forbids());
    TRY(capture_forbids_legacy(ctx));
    return set(to, pitch, value, element, width, height, NULL);
}

CUresult sim_cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t n)
{
    return set_sync(to, 0, value, 1, n, 1);
}

CUresult sim_cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t n)
{
    return set_sync(to, 0, value, 2, n, 1);
}

CUresult sim_cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t n)
{
    return set_sync(to, 0, value, 4, n, 1);
}

CUresult sim_cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                             size_t height)
{
    return set_sync(to, pitch, value, 1, width, height);
}

CUresult sim_cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                              size_t height)
{
    return set_sync(to, pitch, value, 2, width, height);
}

CUresult sim_cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned value, size_t width,
                              size_t height)
{
    return set_sync(to, pitch, value, 4, width, height);
}

CUresult sim_cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream s)
{
    return set(to, 0, value, 1, n, 1, s);
}

CUresult sim_cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t n, CUstream s)
{
    return set(to, 0, value, 2, n, 1, s);
}

CUresult sim_cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t n, CUstream s)
{
    return set(to, 0, value, 4, n, 1, s);
}

CUresult sim_cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                               size_t height, CUstream s)
{
    return set(to, pitch, value, 1, width, height, s);
}

CUresult sim_cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                                size_t height, CUstream s)
{
    return set(to, pitch, value, 2, width, height, s);
}

CUresult sim_cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width,
                                size_t height, CUstream s)
{
    return set(to, pitch, value, 4, width, height, s);
}
