/* process.h - programs that attached: from the first message to the moment when the driver has let
 * go of their memory. */
#ifndef VGPUD_PROCESS_H
#define VGPUD_PROCESS_H

#include "daemon.h"

/* The program at the other end of the connection attaches to the vGPUs of its step. `again`: it did
 * before. Returns VGPU_OK with the process, or what is wrong with err. */
enum vgpu_status process_attach(struct conn *conn, bool again, struct process **process,
                                vgpu_error_t *err);

/* Take up a process from its record after a restart. Returns -1 if there is no memory for it. */
int process_take_up(struct daemon *daemon, struct process_record *record);

/* A connection of the process is closed: has another program taken its place? */
void process_check_image(struct process *process);

/* A new sample of the GPU: whose memory has the driver released? */
void process_reap(struct daemon *daemon, int gpu);

/* The account has been repaired: the process no longer has anything to do with its vGPU number
 * `rank`. */
void process_drop(struct process *process, uint32_t rank);

/* The living program with that pid; NULL: none. */
struct process *process_find(const struct daemon *daemon, pid_t pid);

/* The timer that looks while somebody is dying. */
void process_reaper_init(struct daemon *daemon);

#endif
