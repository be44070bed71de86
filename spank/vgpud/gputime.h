/* gputime.h - the seam between vgpud and the arbiter of GPU time: what the rest of vgpud tells it,
 * and asks it. */
#ifndef VGPUD_GPUTIME_H
#define VGPUD_GPUTIME_H

#include "daemon.h"
#include "proto/lease.h"

/* A vGPU has its pages, newly bound or taken up after a restart; its share or policy has changed;
 * it goes. */
void gputime_add(struct vgpu *vgpu);
void gputime_change(struct vgpu *vgpu);
void gputime_remove(struct vgpu *vgpu);

/* The process with that entry in the account says something about its launches (proto/lease.h). Not
 * answered. */
void gputime_message(struct vgpu *vgpu, uint32_t entry, pid_t pid,
                     const struct vgpu_lease_message *message);

/* The process is dead, or another program took its place; its entry in the account is still its
 * own. */
void gputime_process_gone(struct vgpu *vgpu, uint32_t entry);

/* Fill in what VGPU_LIST says about GPU time. */
void gputime_numbers(struct vgpu *vgpu, struct vgpu_list_reply *reply);

#endif
