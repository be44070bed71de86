/* backstop.h - what was taken past the shim: compares what the driver says with what each vGPU may
 * hold. */
#ifndef VGPUD_BACKSTOP_H
#define VGPUD_BACKSTOP_H

#include "daemon.h"

void backstop_init(struct daemon *daemon);

/* The GPU has a new sample. */
void backstop_look(struct daemon *daemon, int gpu);

#endif
