/* claim.h - one allocation: charged before the driver is asked, recorded or given back after it has
 * answered. */
#ifndef VGPU_SHIM_CLAIM_H
#define VGPU_SHIM_CLAIM_H

#include "shim/process.h"

struct claim {
    struct vgpu *vgpu; /* NULL: nothing of ours */
    CUcontext context;
    uint64_t bytes; /* charged */
    enum vgpu_kind kind;
};

/* Charge `bytes` to the device of the current context. CUDA_SUCCESS: ask the driver, then
 * claim_end, in any case. Else: what the call is to return. */
CUresult claim_begin(struct claim *claim, enum vgpu_kind kind, uint64_t bytes);

/* The same to a given vGPU (NULL: nothing is charged). */
CUresult claim_begin_on(struct claim *claim, struct vgpu *vgpu, enum vgpu_kind kind,
                        uint64_t bytes);

/* The driver took more than was charged: charge the rest too. False: no room; the caller frees and
 * returns CUDA_ERROR_OUT_OF_MEMORY. */
bool claim_extend(struct claim *claim, uint64_t bytes);

/* The driver has answered. Success: record it under the key; what cannot be recorded (no memory for
 * the table) stays charged until the process ends. Failure: give the charge back. Returns rc. */
CUresult claim_end(struct claim *claim, CUresult rc, enum table_tag tag, uint64_t key);

/* Free what is recorded under the key: `entry` is taken out of the table while the driver is asked,
 * and claim_freed gives back the charge, or puts the entry back if the driver refused. False: not
 * ours; ask the driver and nothing more. */
bool claim_free(enum table_tag tag, uint64_t key, struct table_entry *entry);
CUresult claim_freed(const struct table_entry *entry, CUresult rc);

/* A context is gone, and with it its blocks and arrays. */
void claim_forget_context(CUcontext context);

#endif
