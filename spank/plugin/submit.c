/* submit.c - srun, sbatch and salloc: options are checked where the user is. */
#include "options.h"
#include "plugin.h"

int submit_init(struct vgpu_plugin *plugin, spank_t spank)
{
    if (*plugin->settings_error.text) {
        slurm_error("vgpu: %s", plugin->settings_error.text);
        return ESPANK_BAD_ARG;
    }
    return options_register(spank, &plugin->wishes, plugin->settings.conf, NULL) == 0
               ? ESPANK_SUCCESS
               : ESPANK_ERROR;
}
