/* options.h - the --vgpu-... options of sbatch, salloc and srun: one table. */
#ifndef VGPU_OPTIONS_H
#define VGPU_OPTIONS_H

#include "wishes.h"

#include <slurm/spank.h>

/* Register the options with Slurm; wishes is filled when it finds them. Where the user types them,
 * they are also checked against the site's vgpu.conf, if that is there (NULL: not checked). In
 * slurmstepd a wrong value (which can only come from a forged environment) is kept in err, since an
 * error there would drain the node. Returns 0 or -1. */
int options_register(spank_t spank, struct vgpu_wishes *wishes, const char *conf,
                     vgpu_error_t *err);

#endif
