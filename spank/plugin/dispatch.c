/* dispatch.c - what Slurm calls, handed on to the code for the program that it is called in. */
#pragma GCC visibility push(default)
#include <slurm/spank.h>
SPANK_PLUGIN(vgpu, 1)
#pragma GCC visibility pop

#include "node.h"
#include "plugin.h"

static struct vgpu_plugin plugin;

static bool in_slurmstepd(void)
{
    return spank_context() == S_CTX_REMOTE;
}

int slurm_spank_init(spank_t spank, int argc, char **argv)
{
    plugin.node = vgpu_node_name();
    settings_read(&plugin.settings, argc, argv, plugin.node, &plugin.settings_error);
    switch (spank_context()) {
    case S_CTX_LOCAL:
    case S_CTX_ALLOCATOR:
        return submit_init(&plugin, spank);
    case S_CTX_REMOTE:
        return step_init(&plugin, spank);
    default:
        if (*plugin.settings_error.text)
            slurm_error("vgpu: %s", plugin.settings_error.text);
        return ESPANK_SUCCESS;
    }
}

int slurm_spank_init_post_opt(spank_t spank, int argc, char **argv)
{
    return in_slurmstepd() ? step_begin(&plugin, spank) : ESPANK_SUCCESS;
}

int slurm_spank_task_init_privileged(spank_t spank, int argc, char **argv)
{
    return step_task_privileged(&plugin, spank);
}

int slurm_spank_task_init(spank_t spank, int argc, char **argv)
{
    return step_task(&plugin, spank);
}

int slurm_spank_task_exit(spank_t spank, int argc, char **argv)
{
    return step_task_exit(&plugin, spank);
}

int slurm_spank_exit(spank_t spank, int argc, char **argv)
{
    return in_slurmstepd() ? step_end(&plugin, spank) : ESPANK_SUCCESS;
}

/* In a program of its own: nothing of slurm_spank_init has run in it. */
int slurm_spank_job_epilog(spank_t spank, int argc, char **argv)
{
    plugin.node = vgpu_node_name();
    settings_read(&plugin.settings, argc, argv, plugin.node, NULL);
    return job_end(&plugin, spank);
}
