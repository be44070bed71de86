/* takeup.h - a restarted vgpud takes up what the one before left. */
#ifndef VGPUD_TAKEUP_H
#define VGPUD_TAKEUP_H

#include "daemon.h"

/* Bindings, pages, steps and processes from the state; whatever in the runtime directory belongs to
 * none of them is removed. Returns -1 with err if the state and vgpu.conf contradict each other. */
int take_up(struct daemon *daemon, vgpu_error_t *err);

#endif
