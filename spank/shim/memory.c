/* memory.c - linear, pitched and managed memory, and what a program is told about memory. */
#include "shim/claim.h"
#include "shim/measure.h"
#include "shim/pool.h"

/* --- allocation ------------------------------------------------------------------------------ */

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    struct claim claim;
    CUresult rc = claim_begin(&claim, VGPU_KIND_LINEAR, bytesize);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = REAL(cuMemAlloc_v2)(dptr, bytesize);
    return claim_end(&claim, rc, TABLE_BLOCK, rc == CUDA_SUCCESS ? *dptr : 0);
}

EXPORT CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize)
{
    struct claim claim;
    CUresult rc = claim_begin(&claim, VGPU_KIND_LINEAR, bytesize);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = REAL(cuMemAlloc)(dptr, bytesize);
    return claim_end(&claim, rc, TABLE_BLOCK, rc == CUDA_SUCCESS ? *dptr : 0);
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    struct claim claim;
    CUresult rc = claim_begin(&claim, VGPU_KIND_MANAGED, bytesize);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = REAL(cuMemAllocManaged)(dptr, bytesize, flags);
    return claim_end(&claim, rc, TABLE_BLOCK, rc == CUDA_SUCCESS ? *dptr : 0);
}

/* --- pitch: rows are padded by a rule of the driver's that only its answers tell ------------- */

#define PITCH_ALIGN 512 /* of every card so far; a larger one is learned from the first answer */

/* Bytes of `height` rows; UINT64_MAX if that overflows. */
static uint64_t rows(uint64_t pitch, uint64_t height)
{
    uint64_t bytes;
    return __builtin_mul_overflow(pitch, height, &bytes) ? UINT64_MAX : bytes;
}

static uint64_t expected_pitch(const struct vgpu *vgpu, uint64_t width)
{
    uint64_t align = vgpu && vgpu->pitch_align ? vgpu->pitch_align : PITCH_ALIGN;
    return width > UINT64_MAX - align ? UINT64_MAX : (width + align - 1) / align * align;
}

static CUresult begin_pitch(struct claim *claim, uint64_t width, uint64_t height)
{
    CUresult rc = process_enter();
    if (rc != CUDA_SUCCESS)
        return rc;
    claim->context = NULL;
    struct vgpu *vgpu = process_current(&claim->context);
    return claim_begin_on(claim, vgpu, VGPU_KIND_LINEAR, rows(expected_pitch(vgpu, width), height));
}

/* The driver's pitch may be wider than expected; then it is known from now on. False: what it took
 * does not fit. */
static bool learn_pitch(struct claim *claim, uint64_t pitch, uint64_t width, uint64_t height)
{
    if (claim->vgpu && pitch > expected_pitch(claim->vgpu, width))
        claim->vgpu->pitch_align = pitch & (~pitch + 1);
    return claim_extend(claim, rows(pitch, height));
}

EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
                                   size_t Height, unsigned int ElementSizeBytes)
{
    struct claim claim;
    CUresult rc = begin_pitch(&claim, WidthInBytes, Height);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = REAL(cuMemAllocPitch_v2)(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
    if (rc == CUDA_SUCCESS && !learn_pitch(&claim, *pPitch, WidthInBytes, Height)) {
        REAL(cuMemFree_v2)(*dptr);
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return claim_end(&claim, rc, TABLE_BLOCK, rc == CUDA_SUCCESS ? *dptr : 0);
}

EXPORT CUresult cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pPitch,
                                unsigned int WidthInBytes, unsigned int Height,
                                unsigned int ElementSizeBytes)
{
    struct claim claim;
    CUresult rc = begin_pitch(&claim, WidthInBytes, Height);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = REAL(cuMemAllocPitch)(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
    if (rc == CUDA_SUCCESS && !learn_pitch(&claim, *pPitch, WidthInBytes, Height)) {
        REAL(cuMemFree)(*dptr);
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return claim_end(&claim, rc, TABLE_BLOCK, rc == CUDA_SUCCESS ? *dptr : 0);
}

/* --- free ------------------------------------------------------------------------------------ */

EXPORT CUresult cuMemFree_v2(CUdeviceptr dptr)
{
    struct table_entry entry;
    CUresult rc = process_enter();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (claim_free(TABLE_BLOCK, dptr, &entry))
        return claim_freed(&entry, REAL(cuMemFree_v2)(dptr));
    rc = REAL(cuMemFree_v2)(dptr); /* not charged to us, or out of a pool */
    pool_freed();
    return rc;
}

EXPORT CUresult cuMemFree(CUdeviceptr_v1 dptr)
{
    struct table_entry entry;
    CUresult rc = process_enter();

    if (rc != CUDA_SUCCESS)
        return rc;
    if (claim_free(TABLE_BLOCK, dptr, &entry))
        return claim_freed(&entry, REAL(cuMemFree)(dptr));
    return REAL(cuMemFree)(dptr);
}

/* --- what the program sees ------------------------------------------------------------------- */

/* The vGPU's memory in place of the card's. Never more free than the card itself has. */
static void show(struct vgpu *vgpu, uint64_t *free, uint64_t *total)
{
    uint64_t quota = vgpu->charge.control->quota, charged = vgpu->charge.account->charged;
    uint64_t size = *total < quota ? *total : quota, left = charged < size ? size - charged : 0;

    *total = size;
    *free = *free < left ? *free : left;
}

static struct vgpu *up_to_date(void)
{
    CUcontext context;
    struct vgpu *vgpu = process.n_vgpus > 0 ? process_current(&context) : NULL;

    if (vgpu) {
        pool_refresh(vgpu);
        measure_if_due(vgpu);
    }
    return vgpu;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    CUresult rc = process_enter();
    if (rc != CUDA_SUCCESS)
        return rc;
    struct vgpu *vgpu = up_to_date();
    rc = REAL(cuMemGetInfo_v2)(free, total);
    if (rc != CUDA_SUCCESS || vgpu == NULL)
        return rc;
    /* A driver may take a NULL for what is not wanted. */
    uint64_t free_bytes = free ? *free : UINT64_MAX, total_bytes = total ? *total : UINT64_MAX;
    show(vgpu, &free_bytes, &total_bytes);
    if (free)
        *free = free_bytes;
    if (total)
        *total = total_bytes;
    return rc;
}

static unsigned int narrow(uint64_t bytes)
{
    return bytes > UINT32_MAX ? UINT32_MAX : (unsigned int)bytes;
}

EXPORT CUresult cuMemGetInfo(unsigned int *free, unsigned int *total)
{
    CUresult rc = process_enter();
    if (rc != CUDA_SUCCESS)
        return rc;
    struct vgpu *vgpu = up_to_date();
    rc = REAL(cuMemGetInfo)(free, total);
    if (rc != CUDA_SUCCESS || vgpu == NULL)
        return rc;
    uint64_t free_bytes = free ? *free : UINT64_MAX, total_bytes = total ? *total : UINT64_MAX;
    show(vgpu, &free_bytes, &total_bytes);
    if (free)
        *free = narrow(free_bytes);
    if (total)
        *total = narrow(total_bytes);
    return rc;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    CUresult rc = process_enter();
    if (rc == CUDA_SUCCESS)
        rc = REAL(cuDeviceTotalMem_v2)(bytes, dev);
    struct vgpu *vgpu = rc == CUDA_SUCCESS ? process_vgpu_of_device(dev) : NULL;
    if (vgpu && *bytes > vgpu->charge.control->quota)
        *bytes = vgpu->charge.control->quota;
    return rc;
}

EXPORT CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice dev)
{
    CUresult rc = process_enter();
    if (rc == CUDA_SUCCESS)
        rc = REAL(cuDeviceTotalMem)(bytes, dev);
    struct vgpu *vgpu = rc == CUDA_SUCCESS ? process_vgpu_of_device(dev) : NULL;
    if (vgpu && *bytes > vgpu->charge.control->quota)
        *bytes = narrow(vgpu->charge.control->quota);
    return rc;
}
