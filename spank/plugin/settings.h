/* settings.h - what the line in plugstack.conf says:
 *
 *   required .../spank_vgpu.so runtime_dir=/run/vgpu/%n conf=/etc/slurm/vgpu.conf datadir=DIR
 * deadline=5000ms
 */
#ifndef VGPU_SETTINGS_H
#define VGPU_SETTINGS_H

#include "proto/wire.h"

struct vgpu_settings {
    char runtime_dir[VGPU_PATH_MAX]; /* %n replaced */
    char conf[VGPU_PATH_MAX];
    char datadir[VGPU_PATH_MAX];
    uint32_t deadline_ms; /* how long a step waits for vgpud */
};

/* Defaults, then the arguments. Returns 0, or -1 with err; what could be read is then in place. */
int settings_read(struct vgpu_settings *settings, int argc, char **argv, const char *node,
                  vgpu_error_t *err);

#endif
