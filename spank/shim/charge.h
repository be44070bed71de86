/* charge.h - bytes of a vGPU's quota, taken and given back by this process. No CUDA in here.
 *
 * Every function follows the order of stores of proto/pages.h, so a kill -9 between any two
 * instructions leaves something that vgpud repairs: at worst bytes that nobody holds are charged
 * until then, never the reverse.
 */
#ifndef VGPU_SHIM_CHARGE_H
#define VGPU_SHIM_CHARGE_H

#include "proto/pages.h"

#include <stdbool.h>

/* One vGPU as this process sees it. */
struct charge {
    const struct vgpu_control *control;
    struct vgpu_account *account;
    struct vgpu_process *process; /* this process' own entry of account->processes */
};

/* Size as the driver takes it: rounded up to the granule. Too large to round: UINT64_MAX, which
 * never fits. */
uint64_t charge_round(uint64_t bytes);

/* Bytes of the quota that nobody has taken. */
uint64_t charge_left(const struct charge *charge);

/* Charge at most `most` bytes, as many as are left, but not less than `least` (at least 1). Returns
 * the bytes; 0: so much is not left now. Provisional bytes are more than needed: charge_settle must
 * follow soon, in any case. Never waits for others. */
uint64_t charge_take(struct charge *charge, enum vgpu_kind kind, uint64_t least, uint64_t most,
                     bool provisional);

/* After a refusal: is it worth to try again? Sleeps a moment and says true while another process'
 * (or thread's) provisional bytes, or those of a dead process that vgpud is about to release, are
 * in the way; false when nobody is about to give anything back. *since is 0 before the first call.
 * The wait is bounded. */
bool charge_await(const struct charge *charge, uint64_t least, uint64_t *since);

/* End the provisional state of `held` bytes: `keep` of them stay charged (keep <= held). */
void charge_settle(struct charge *charge, enum vgpu_kind kind, uint64_t held, uint64_t keep);

/* Give bytes back. The driver has freed them already. */
void charge_give(struct charge *charge, enum vgpu_kind kind, uint64_t bytes);

/* Charge what the driver has taken without asking (a kernel loaded at its first launch), even above
 * the quota: from then on every request is refused until it fits again. */
void charge_force(struct charge *charge, enum vgpu_kind kind, uint64_t bytes);

#endif
