/* gputime.c - without an arbiter every gate is open: whoever has a vGPU runs when it wants. */
#include "gputime.h"

void gputime_add(struct vgpu *vgpu)
{
    struct vgpu_lease *lease = (struct vgpu_lease *)vgpu->pages.control->lease;
    lease->turn = VGPU_TURN_ANY;
    lease->gate = VGPU_GATE_FREE;
}

void gputime_change(struct vgpu *vgpu)
{
    (void)vgpu;
}

void gputime_remove(struct vgpu *vgpu)
{
    (void)vgpu;
}

void gputime_message(struct vgpu *vgpu, uint32_t entry, pid_t pid,
                     const struct vgpu_lease_message *message)
{
    (void)vgpu;
    (void)entry;
    (void)pid;
    (void)message;
}

void gputime_process_gone(struct vgpu *vgpu, uint32_t entry)
{
    (void)vgpu;
    (void)entry;
}

void gputime_numbers(struct vgpu *vgpu, struct vgpu_list_reply *reply)
{
    (void)vgpu;
    (void)reply;
}
