/* vgpu.h - one vGPU: its record, its pages, its slots in the ledger. */
#ifndef VGPUD_VGPU_H
#define VGPUD_VGPU_H

#include "daemon.h"

/* Make the vGPU of the given slots on a GPU (index). Everything is entered: record, pages, ledger.
 * NULL with err. */
struct vgpu *vgpu_make(struct daemon *daemon, const struct vgpu_bind_request *request, int gpu,
                       const uint16_t *slots, uint32_t n_slots, vgpu_error_t *err);

/* Does the record of a vGPU still fit vgpu.conf? If so its slots are bound again. Returns -1 with
 * err. */
int vgpu_bind_again(struct daemon *daemon, const struct vgpu_record *record, vgpu_error_t *err);

/* Take up a vGPU from its record after a restart. holders: pids that may have its account. NULL
 * with err. */
struct vgpu *vgpu_take_up(struct daemon *daemon, struct vgpu_record *record, const int32_t *holders,
                          size_t n_holders, vgpu_error_t *err);

struct vgpu *vgpu_find(struct daemon *daemon, uint64_t id);

/* The vGPU of a job on a GPU; NULL: it has none there. */
struct vgpu *vgpu_of_job(struct daemon *daemon, uint32_t job, int gpu);

/* From now on its processes are refused everything. */
void vgpu_end(struct vgpu *vgpu);

/* Give its slots back and forget it; processes that still have its pages are refused everything. */
void vgpu_destroy(struct vgpu *vgpu);

/* New policy: 0 and "" leave what is there. */
void vgpu_set_policy(struct vgpu *vgpu, uint32_t slice_us, uint32_t max_sms, const char *workload,
                     const char *burst_class);

/* Give back what released processes were charged, as soon as the account is quiet (see
 * proto/pages.h). */
void vgpu_repair(struct vgpu *vgpu);

/* A free place in its account for the process; -1: there is none. */
int vgpu_enter(struct vgpu *vgpu, struct process *process);

#endif
