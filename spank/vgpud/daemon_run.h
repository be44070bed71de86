/* daemon_run.h - the whole of vgpud as one call. */
#ifndef VGPUD_DAEMON_RUN_H
#define VGPUD_DAEMON_RUN_H

#include "proto/conf.h"

/* Serve until SIGTERM or SIGINT. Returns -1 with err. */
int daemon_run(const struct vgpu_conf *conf, const char *runtime_dir, vgpu_error_t *err);

#endif
