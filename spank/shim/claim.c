/* claim.c - one allocation, from charge to record. */
#include "shim/claim.h"
#include "shim/measure.h"
#include "shim/pool.h"

static CUresult refuse(struct vgpu *vgpu)
{
    atomic_fetch_add_explicit(&vgpu->charge.process->refusals, 1, memory_order_relaxed);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* The first charge did not fit: let pools give back what they only keep, then wait for those who
 * are about to. */
static CUresult insist(struct claim *claim)
{
    struct vgpu *vgpu = claim->vgpu;
    uint64_t since = 0;

    do {
        pool_reclaim(vgpu);
        measure_if_due(vgpu);
        measure_enter(vgpu);
        if (charge_take(&vgpu->charge, claim->kind, claim->bytes, claim->bytes, false) > 0)
            return CUDA_SUCCESS;
        measure_leave(vgpu);
    } while (charge_await(&vgpu->charge, claim->bytes, &since));
    return refuse(vgpu);
}

CUresult claim_begin_on(struct claim *claim, struct vgpu *vgpu, enum vgpu_kind kind, uint64_t bytes)
{
    *claim = (struct claim){
        .vgpu = vgpu, .context = claim->context, .kind = kind, .bytes = charge_round(bytes)};
    if (vgpu == NULL)
        return CUDA_SUCCESS;
    measure_if_due(vgpu);
    measure_enter(vgpu);
    if (claim->bytes == 0 ||
        charge_take(&vgpu->charge, kind, claim->bytes, claim->bytes, false) > 0)
        return CUDA_SUCCESS;
    measure_leave(vgpu);
    return insist(claim);
}

CUresult claim_begin(struct claim *claim, enum vgpu_kind kind, uint64_t bytes)
{
    CUresult rc = process_enter();
    if (rc != CUDA_SUCCESS)
        return rc;
    claim->context = NULL;
    struct vgpu *vgpu = process.n_vgpus > 0 ? process_current(&claim->context) : NULL;
    return claim_begin_on(claim, vgpu, kind, bytes);
}

bool claim_extend(struct claim *claim, uint64_t bytes)
{
    uint64_t all = charge_round(bytes);

    if (claim->vgpu == NULL || all <= claim->bytes)
        return true;
    if (charge_take(&claim->vgpu->charge, claim->kind, all - claim->bytes, all - claim->bytes,
                    false) == 0)
        return false;
    claim->bytes = all;
    return true;
}

CUresult claim_end(struct claim *claim, CUresult rc, enum table_tag tag, uint64_t key)
{
    struct vgpu *vgpu = claim->vgpu;

    if (vgpu == NULL)
        return rc;
    if (rc == CUDA_SUCCESS) {
        const struct table_entry entry = {
            .tag = (uint8_t)tag,
            .key = key,
            .size = claim->bytes,
            .owner = (uint64_t)(uintptr_t)claim->context,
            .kind = (uint8_t)claim->kind,
            .vgpu = (uint8_t)(vgpu - process.vgpus),
        };
        table_put(&process.table, &entry);
    } else {
        charge_give(&vgpu->charge, claim->kind, claim->bytes);
    }
    measure_leave(vgpu);
    return rc;
}

bool claim_free(enum table_tag tag, uint64_t key, struct table_entry *entry)
{
    if (!table_remove(&process.table, tag, key, entry))
        return false;
    measure_enter(&process.vgpus[entry->vgpu]);
    return true;
}

CUresult claim_freed(const struct table_entry *entry, CUresult rc)
{
    struct vgpu *vgpu = &process.vgpus[entry->vgpu];

    if (rc == CUDA_SUCCESS)
        charge_give(&vgpu->charge, (enum vgpu_kind)entry->kind, entry->size);
    else
        table_put(&process.table, entry);
    measure_leave(vgpu);
    return rc;
}

static void forget(const struct table_entry *entry, void *context)
{
    struct table_entry gone;

    if (entry->owner != (uint64_t)(uintptr_t)context ||
        !claim_free((enum table_tag)entry->tag, entry->key, &gone))
        return;
    claim_freed(&gone, CUDA_SUCCESS);
}

void claim_forget_context(CUcontext context)
{
    table_walk(&process.table, TABLE_BLOCK, forget, context);
    table_walk(&process.table, TABLE_ARRAY, forget, context);
    process_forget_contexts();
}
