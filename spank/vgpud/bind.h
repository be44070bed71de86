/* bind.h - VGPU_BIND: from Slurm's slots to vGPUs and a step's folder. */
#ifndef VGPUD_BIND_H
#define VGPUD_BIND_H

#include "daemon.h"

/* Bind, answer the sender. */
void handle_bind(struct conn *conn, const void *message);

#endif
