/* array.c - arrays of one to three dimensions, layered, cube maps, mipmapped. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define DEFERRED   CUDA_ARRAY3D_DEFERRED_MAPPING /* has no memory, but can say how much it needs */
#define MAX_LEVELS 32

struct CUmipmappedArray_st {
    enum sim_magic magic;
    struct block *block;
    unsigned n_levels;
    struct CUarray_st levels[MAX_LEVELS];
};

/* --- sizes ---------------------------------------------------------------------------------- */

/* Bytes of a channel; 0: no such format here. */
static unsigned channel_size(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT8X4:
    case CU_AD_FORMAT_SNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X4:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_SNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X4:
        return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4;
    default:
        return 0;
    }
}

static CUresult check(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    NEED(!(desc->Flags & CUDA_ARRAY3D_SPARSE), CUDA_ERROR_NOT_SUPPORTED);
    NEED(channel_size(desc->Format), CUDA_ERROR_NOT_SUPPORTED);
    NEED(desc->NumChannels == 1 || desc->NumChannels == 2 || desc->NumChannels == 4,
         CUDA_ERROR_INVALID_VALUE);
    NEED(desc->Width && desc->Width <= 1u << 28 && desc->Height <= 1u << 17 &&
             desc->Depth <= 1u << 14,
         CUDA_ERROR_INVALID_VALUE);
    if (desc->Flags & CUDA_ARRAY3D_CUBEMAP)
        NEED(desc->Width == desc->Height && desc->Depth && desc->Depth % 6 == 0,
             CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

/* Lay out an array at base. Returns its bytes. */
static uint64_t lay_out(CUarray array, const CUDA_ARRAY3D_DESCRIPTOR *desc, char *base)
{
    array->magic = SIM_ARRAY;
    array->desc = *desc;
    array->base = base;
    array->pitch = desc->Width * channel_size(desc->Format) * desc->NumChannels;
    array->rows = desc->Height ? desc->Height : 1;
    array->slices = desc->Depth ? desc->Depth : 1;
    return array->pitch * array->rows * array->slices;
}

/* --- arrays --------------------------------------------------------------------------------- */

static CUresult create(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    CUcontext ctx;
    TRY(context_current(&ctx));
    TRY(capture_forbids());
    TRY(check(desc));
    CUarray array = calloc(1, sizeof(*array));
    NEED(array, CUDA_ERROR_OUT_OF_MEMORY);
    uint64_t bytes = lay_out(array, desc, NULL);
    if (desc->Flags & DEFERRED) {
        *out = array;
        return CUDA_SUCCESS;
    }
    sim_lock();
    CUresult rc = memory_alloc(ctx, MEMORY_ARRAY, bytes, &array->block);
    if (rc == CUDA_SUCCESS) {
        array->base = array->block->base;
        array->block->owner = array;
    }
    sim_unlock();
    if (rc != CUDA_SUCCESS)
        free(array);
    else
        *out = array;
    return rc;
}

CUresult sim_cuArray3DCreate_v2(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    NEED(out && desc, CUDA_ERROR_INVALID_VALUE);
    return create(out, desc);
}

CUresult sim_cuArrayCreate_v2(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *desc)
{
    NEED(out && desc, CUDA_ERROR_INVALID_VALUE);
    CUDA_ARRAY3D_DESCRIPTOR full = {.Width = desc->Width,
                                    .Height = desc->Height,
                                    .Format = desc->Format,
                                    .NumChannels = desc->NumChannels};
    return create(out, &full);
}

/* The memory goes, and the handle with it. sim.lock held. */
void array_forget(struct block *block)
{
    CUarray array = block->owner;
    CUmipmappedArray mipmap = block->owner;
    if (array->magic == SIM_ARRAY)
        array->magic = 0;
    else
        mipmap->magic = 0;
    memory_free(block);
    free(array);
}

CUresult sim_cuArrayDestroy(CUarray array)
{
    NEED(IS(array, SIM_ARRAY) && !array->mipmap && (array->block || array->desc.Flags & DEFERRED),
         CUDA_ERROR_INVALID_HANDLE);
    TRY(capture_forbids());
    sim_lock();
    if (array->block) {
        array_forget(array->block);
    } else {
        array->magic = 0;
        free(array);
    }
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult sim_cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *desc, CUarray array)
{
    NEED(desc, CUDA_ERROR_INVALID_VALUE);
    NEED(IS(array, SIM_ARRAY), CUDA_ERROR_INVALID_HANDLE);
    *desc = array->desc;
    return CUDA_SUCCESS;
}

CUresult sim_cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *desc, CUarray array)
{
    NEED(desc, CUDA_ERROR_INVALID_VALUE);
    NEED(IS(array, SIM_ARRAY), CUDA_ERROR_INVALID_HANDLE);
    *desc = (CUDA_ARRAY_DESCRIPTOR){array->desc.Width, array->desc.Height, array->desc.Format,
                                    array->desc.NumChannels};
    return CUDA_SUCCESS;
}

static CUresult requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, uint64_t bytes, CUdevice device)
{
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    NEED(out, CUDA_ERROR_INVALID_VALUE);
    *out = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = ALIGN(bytes, SIM_LARGE_GRANULE),
                                            .alignment = SIM_LARGE_GRANULE};
    return CUDA_SUCCESS;
}

CUresult sim_cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, CUarray array,
                                          CUdevice device)
{
    NEED(IS(array, SIM_ARRAY), CUDA_ERROR_INVALID_HANDLE);
    NEED(array->desc.Flags & DEFERRED, CUDA_ERROR_INVALID_VALUE);
    return requirements(out, array->pitch * array->rows * array->slices, device);
}

/* Only formats with one plane exist here. */
CUresult sim_cuArrayGetPlane(CUarray *plane, CUarray array, unsigned index)
{
    NEED(plane, CUDA_ERROR_INVALID_VALUE);
    NEED(IS(array, SIM_ARRAY), CUDA_ERROR_INVALID_HANDLE);
    (void)index;
    return CUDA_ERROR_INVALID_VALUE;
}

/* --- mipmapped arrays ----------------------------------------------------------------------- */

static unsigned most_levels(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    size_t longest = desc->Width > desc->Height ? desc->Width : desc->Height;
    if (desc->Depth > longest && !(desc->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)))
        longest = desc->Depth;
    return 64 - (unsigned)__builtin_clzll(longest);
}

static size_t halved(size_t n, unsigned times)
{
    return n ? n >> times ? n >> times : 1 : 0;
}

/* Lay out all levels one after another. Returns their bytes. */
static uint64_t lay_out_levels(CUmipmappedArray mipmap, const CUDA_ARRAY3D_DESCRIPTOR *desc,
                               char *base)
{
    bool layers = desc->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    uint64_t bytes = 0;
    for (unsigned i = 0; i < mipmap->n_levels; i++) {
        CUDA_ARRAY3D_DESCRIPTOR level = *desc;
        level.Width = halved(desc->Width, i);
        level.Height = halved(desc->Height, i);
        level.Depth = layers ? desc->Depth : halved(desc->Depth, i);
        bytes += ALIGN(lay_out(&mipmap->levels[i], &level, base ? base + bytes : NULL), 512ull);
        mipmap->levels[i].mipmap = mipmap;
    }
    return bytes;
}

CUresult mipmap_new(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned n_levels, CUmipmappedArray *out,
                    uint64_t *bytes)
{
    TRY(check(desc));
    NEED(n_levels, CUDA_ERROR_INVALID_VALUE);
    CUmipmappedArray mipmap = calloc(1, sizeof(*mipmap));
    NEED(mipmap, CUDA_ERROR_OUT_OF_MEMORY);
    mipmap->magic = SIM_MIPMAP;
    mipmap->n_levels = n_levels < most_levels(desc) ? n_levels : most_levels(desc);
    *bytes = lay_out_levels(mipmap, desc, NULL);
    *out = mipmap;
    return CUDA_SUCCESS;
}

void mipmap_place(CUmipmappedArray mipmap, char *base)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = mipmap->levels[0].desc;
    lay_out_levels(mipmap, &desc, base);
}

CUresult sim_cuMipmappedArrayCreate(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc,
                                    unsigned n_levels)
{
    CUcontext ctx;
    CUmipmappedArray mipmap;
    uint64_t bytes;
    NEED(out && desc, CUDA_ERROR_INVALID_VALUE);
    TRY(context_current(&ctx));
    TRY(capture_forbids());
    TRY(mipmap_new(desc, n_levels, &mipmap, &bytes));
    if (desc->Flags & DEFERRED) {
        *out = mipmap;
        return CUDA_SUCCESS;
    }
    sim_lock();
    CUresult rc = memory_alloc(ctx, MEMORY_ARRAY, bytes, &mipmap->block);
    if (rc == CUDA_SUCCESS) {
        mipmap_place(mipmap, mipmap->block->base);
        mipmap->block->owner = mipmap;
    }
    sim_unlock();
    if (rc != CUDA_SUCCESS)
        free(mipmap);
    else
        *out = mipmap;
    return rc;
}

CUresult sim_cuMipmappedArrayGetLevel(CUarray *level, CUmipmappedArray mipmap, unsigned index)
{
    NEED(level, CUDA_ERROR_INVALID_VALUE);
    NEED(IS(mipmap, SIM_MIPMAP), CUDA_ERROR_INVALID_HANDLE);
    NEED(index < mipmap->n_levels, CUDA_ERROR_INVALID_VALUE);
    *level = &mipmap->levels[index];
    return CUDA_SUCCESS;
}

CUresult sim_cuMipmappedArrayDestroy(CUmipmappedArray mipmap)
{
    NEED(IS(mipmap, SIM_MIPMAP), CUDA_ERROR_INVALID_HANDLE);
    TRY(capture_forbids());
    sim_lock();
    if (mipmap->block) {
        array_forget(mipmap->block);
    } else { /* of external memory, or deferred */
        mipmap->magic = 0;
        free(mipmap);
    }
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult sim_cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out,
                                                   CUmipmappedArray mipmap, CUdevice device)
{
    NEED(IS(mipmap, SIM_MIPMAP), CUDA_ERROR_INVALID_HANDLE);
    CUDA_ARRAY3D_DESCRIPTOR desc = mipmap->levels[0].desc;
    NEED(desc.Flags & DEFERRED, CUDA_ERROR_INVALID_VALUE);
    return requirements(out, lay_out_levels(mipmap, &desc, NULL), device);
}
