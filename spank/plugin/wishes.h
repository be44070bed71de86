/* wishes.h - what a user asked for with the --vgpu-... options, checked. No Slurm in here. */
#ifndef VGPU_WISHES_H
#define VGPU_WISHES_H

#include "proto/wire.h"

#include <stdbool.h>

enum wish {
    WISH_COLOCATE,
    WISH_BIND,
    WISH_AFFINITY,
    WISH_COMM,
    WISH_SLICE,
    WISH_WORKLOAD,
    WISH_MEM,
    WISH_COUNT,
};

struct vgpu_wishes {
    bool colocate;
    bool bind_own;                /* each task sees its own vGPU only */
    uint32_t affinity;            /* enum vgpu_affinity */
    char comm[VGPU_PATH_MAX];     /* a pattern (comm.h) or the path of a matrix; "": none */
    uint32_t slice_us;            /* 0: not asked for */
    char workload[VGPU_NAME_MAX]; /* "": none */
    uint64_t mem; /* bytes wanted per vGPU; 0: not asked for. For the submit bridge. */
};

/* Take one option's value (NULL for one without). Returns 0, or -1 with err: one sentence for the
 * user. */
int wish_set(struct vgpu_wishes *wishes, enum wish wish, const char *value, vgpu_error_t *err);

/* What only makes sense where the user is: does the file of --vgpu-comm exist and hold a matrix? */
int wishes_check_files(const struct vgpu_wishes *wishes, vgpu_error_t *err);

/* Does the site's vgpu.conf allow the slice and know the workload? A submit host without the file
 * leaves that to the node. */
int wishes_check_site(const struct vgpu_wishes *wishes, const char *conf, vgpu_error_t *err);

/* As the option's value has it: "none", "prefer_nvlink", ... */
const char *wish_affinity_name(uint32_t affinity);

#endif
