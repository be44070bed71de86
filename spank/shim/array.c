/* array.c - arrays, 3D and mipmapped. */
#include "shim/claim.h"
#include "shim/measure.h"
#include "shim/vmm.h"

/* --- how much an array takes: the driver lays it out, so the driver is asked ----------------- */

/* Made with this flag an array takes no memory and can say how much it would. */
#define DEFERRED CUDA_ARRAY3D_DEFERRED_MAPPING
#define UNBACKED (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)

static uint64_t probe_array(CUDA_ARRAY3D_DESCRIPTOR descriptor, CUdevice device)
{
    CUDA_ARRAY_MEMORY_REQUIREMENTS needs = {0};
    CUarray array;

    descriptor.Flags |= DEFERRED;
    if (REAL(cuArray3DCreate_v2)(&array, &descriptor) != CUDA_SUCCESS)
        return 0;
    CUresult rc = REAL(cuArrayGetMemoryRequirements)(&needs, array, device);
    REAL(cuArrayDestroy)(array);
    return rc == CUDA_SUCCESS ? needs.size : 0;
}

static uint64_t probe_mipmap(CUDA_ARRAY3D_DESCRIPTOR descriptor, unsigned int levels,
                             CUdevice device)
{
    CUDA_ARRAY_MEMORY_REQUIREMENTS needs = {0};
    CUmipmappedArray array;

    descriptor.Flags |= DEFERRED;
    if (REAL(cuMipmappedArrayCreate)(&array, &descriptor, levels) != CUDA_SUCCESS)
        return 0;
    CUresult rc = REAL(cuMipmappedArrayGetMemoryRequirements)(&needs, array, device);
    REAL(cuMipmappedArrayDestroy)(array);
    return rc == CUDA_SUCCESS ? needs.size : 0;
}

static unsigned int bytes_per_channel(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    default:
        return 4; /* of the rest, none has more */
    }
}

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b ? b : 1, &product) ? UINT64_MAX : product;
}

/* Where the driver cannot say: texels times their size, and a third more for smaller levels. The
 * rest is found by measuring. */
static uint64_t estimate(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels)
{
    uint64_t texels = times(times(d->Width, d->Height), d->Depth);
    uint64_t bytes = times(times(texels, d->NumChannels), bytes_per_channel(d->Format));
    return levels > 1 && bytes < UINT64_MAX - bytes / 3 ? bytes + bytes / 3 : bytes;
}

/* --- making ---------------------------------------------------------------------------------- */

static CUresult begin(struct claim *claim, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                      unsigned int levels)
{
    CUdevice device = 0;
    CUresult rc = process_enter();

    *claim = (struct claim){0};
    if (rc != CUDA_SUCCESS)
        return rc;
    struct vgpu *vgpu = process.n_vgpus > 0 ? process_current(&claim->context) : NULL;
    if (vgpu == NULL || descriptor == NULL || (descriptor->Flags & UNBACKED))
        return CUDA_SUCCESS;
    REAL(cuCtxGetDevice)(&device);
    uint64_t bytes =
        levels > 0 ? probe_mipmap(*descriptor, levels, device) : probe_array(*descriptor, device);
    if (bytes == 0) {
        bytes = estimate(descriptor, levels);
        measure_later(vgpu);
    }
    return claim_begin_on(claim, vgpu, VGPU_KIND_ARRAY, bytes);
}

static CUDA_ARRAY3D_DESCRIPTOR flat(const CUDA_ARRAY_DESCRIPTOR *d)
{
    return (CUDA_ARRAY3D_DESCRIPTOR){
        .Width = d->Width, .Height = d->Height, .Format = d->Format, .NumChannels = d->NumChannels};
}

#define CREATE(symbol, parameters, arguments, descriptor, levels)                                  \
    EXPORT CUresult symbol parameters                                                              \
    {                                                                                              \
        struct claim claim;                                                                        \
        CUresult rc = begin(&claim, descriptor, levels);                                           \
        if (rc != CUDA_SUCCESS)                                                                    \
            return rc;                                                                             \
        rc = REAL(symbol) arguments;                                                               \
        return claim_end(&claim, rc, TABLE_ARRAY,                                                  \
                         rc == CUDA_SUCCESS ? (uint64_t)(uintptr_t)*pHandle : 0);                  \
    }

CREATE(cuArray3DCreate_v2, (CUarray * pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray),
       (pHandle, pAllocateArray), pAllocateArray, 0)
CREATE(cuMipmappedArrayCreate,
       (CUmipmappedArray * pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
        unsigned int numMipmapLevels),
       (pHandle, pMipmappedArrayDesc, numMipmapLevels), pMipmappedArrayDesc, numMipmapLevels)
CREATE(cuArrayCreate_v2, (CUarray * pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray),
       (pHandle, pAllocateArray),
       (pAllocateArray ? &(CUDA_ARRAY3D_DESCRIPTOR[1]){flat(pAllocateArray)}[0] : NULL), 0)

/* The first versions, of a time of 32-bit sizes. */
static CUDA_ARRAY3D_DESCRIPTOR flat_v1(const CUDA_ARRAY_DESCRIPTOR_v1 *d)
{
    return (CUDA_ARRAY3D_DESCRIPTOR){
        .Width = d->Width, .Height = d->Height, .Format = d->Format, .NumChannels = d->NumChannels};
}

static CUDA_ARRAY3D_DESCRIPTOR deep_v1(const CUDA_ARRAY3D_DESCRIPTOR_v1 *d)
{
    return (CUDA_ARRAY3D_DESCRIPTOR){.Width = d->Width,
                                     .Height = d->Height,
                                     .Depth = d->Depth,
                                     .Format = d->Format,
                                     .NumChannels = d->NumChannels,
                                     .Flags = d->Flags};
}

CREATE(cuArrayCreate, (CUarray * pHandle, const CUDA_ARRAY_DESCRIPTOR_v1 *pAllocateArray),
       (pHandle, pAllocateArray),
       (pAllocateArray ? &(CUDA_ARRAY3D_DESCRIPTOR[1]){flat_v1(pAllocateArray)}[0] : NULL), 0)
CREATE(cuArray3DCreate, (CUarray * pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *pAllocateArray),
       (pHandle, pAllocateArray),
       (pAllocateArray ? &(CUDA_ARRAY3D_DESCRIPTOR[1]){deep_v1(pAllocateArray)}[0] : NULL), 0)

/* --- destroying ------------------------------------------------------------------------------ */

EXPORT CUresult cuArrayDestroy(CUarray hArray)
{
    struct table_entry entry;
    CUresult rc = process_enter();

    if (rc != CUDA_SUCCESS)
        return rc;
    bool known = claim_free(TABLE_ARRAY, (uint64_t)(uintptr_t)hArray, &entry);
    rc = REAL(cuArrayDestroy)(hArray);
    if (rc == CUDA_SUCCESS)
        vmm_array_gone(hArray);
    return known ? claim_freed(&entry, rc) : rc;
}

EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
    struct table_entry entry;
    CUresult rc = process_enter();

    if (rc != CUDA_SUCCESS)
        return rc;
    bool known = claim_free(TABLE_ARRAY, (uint64_t)(uintptr_t)hMipmappedArray, &entry);
    rc = REAL(cuMipmappedArrayDestroy)(hMipmappedArray);
    if (rc == CUDA_SUCCESS)
        vmm_array_gone(hMipmappedArray);
    return known ? claim_freed(&entry, rc) : rc;
}
