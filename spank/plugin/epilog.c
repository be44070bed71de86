/* epilog.c - the end of a job on this node. */
#include "plugin.h"
#include "proto/paths.h"
#include "vgpud_client.h"

#include <unistd.h>

/* Not longer than a restart takes for a vgpud that is away, since every job of the node ends here;
 * but vgpud answers only when the job's last process is gone, which it waits for up to 2 s. */
static const struct vgpud_patience patience = {.start_ms = 300, .answer_ms = 4000};

/* A node without vgpud has nothing to give back; a lost message neither drains the node nor blocks
 * the slots: the next job that Slurm gives one of them evicts the binding. */
int job_end(struct vgpu_plugin *plugin, spank_t spank)
{
    char socket[VGPU_PATH_MAX];
    struct vgpu_status_reply reply;
    vgpu_error_t err;
    uint32_t job;
    plugin_socket(plugin, VGPUD_SOCKET, socket);
    if (access(socket, F_OK) != 0 || spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS)
        return ESPANK_SUCCESS;
    if (vgpud_tell(socket, patience, VGPU_UNBIND_JOB, job, VGPU_NO_STEP, &reply, &err) != 0)
        slurm_error("vgpu: job %u: %s", job, err.text);
    return ESPANK_SUCCESS;
}
