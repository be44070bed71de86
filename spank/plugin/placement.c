#include "placement.h"

#include "compat.h"
#include "controller.h"
#include "proto/paths.h"
#include "segment.h"
#include "vgpud_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A controller that takes longer gets it written all the same, but the task does not wait. */
#define WAIT_MS 500

/* GPUs (minor numbers) or slots of the step in the order of the ranks, after the prefix. */
static void numbers_write(char *text, size_t room, const char *prefix,
                          const struct vgpu_bind_reply *bound, bool slots)
{
    size_t used = (size_t)snprintf(text, room, "%s", prefix);
    for (uint32_t i = 0; i < bound->n_vgpus && used < room; i++) {
        const struct vgpu_desc *vgpu = &bound->vgpus[i];
        used += (size_t)snprintf(text + used, room - used, "%s%u", i ? "," : "",
                                 slots ? vgpu->slot : vgpu->gpu);
    }
}

static bool is_first_node(const slurm_job_info_t *job, const char *node)
{
    vgpu_hostlist_t nodes = slurm_hostlist_create(job->nodes);
    char *first = nodes ? slurm_hostlist_shift(nodes) : NULL;
    bool is = first && strcmp(first, node) == 0;
    free(first);
    if (nodes)
        slurm_hostlist_destroy(nodes);
    return is;
}

/* The batch script comes first in its job and speaks for it; of the others the first one does. */
static bool is_ours_to_tell(const struct vgpu_plugin *plugin, const slurm_job_info_t *job)
{
    uint32_t step = plugin->step.step;
    char told[VGPU_ERROR_MAX];
    if (!is_first_node(job, plugin->node))
        return false;
    if (step == SLURM_BATCH_SCRIPT || job->batch_flag)
        return step == SLURM_BATCH_SCRIPT;
    return segment_get(job->admin_comment ? job->admin_comment : "", "gpus", told, sizeof told) !=
           0;
}

/* The job's comment with this placement, malloc'ed. */
static char *comment_make(const struct vgpu_plugin *plugin, const char *before)
{
    const struct vgpu_step *step = &plugin->step;
    char node[VGPU_NAME_MAX + 1], gpus[VGPU_NAME_MAX + 8 * VGPU_MAX_GPUS], slots[8 * VGPU_MAX_GPUS];
    char *comment = strdup(before ? before : "");
    snprintf(node, sizeof node, "%s:", plugin->node);
    numbers_write(gpus, sizeof gpus, node, &step->bound, false);
    numbers_write(slots, sizeof slots, "", &step->bound, true);
    segment_change(&comment, "gpus", gpus);
    segment_change(&comment, "slots", slots);
    segment_change(&comment, "why",
                   step->bound.advised && *step->advice.why ? step->advice.why : NULL);
    return comment;
}

/* The job's QOS and partition, which only the controller tells truly, decide its burst class. */
static void burst_tell(const struct vgpu_plugin *plugin, const slurm_job_info_t *job)
{
    const struct vgpu_conf_burst *burst =
        vgpu_conf_burst_of(plugin->step.conf, job->qos, job->partition);
    static const struct vgpud_patience patience = {WAIT_MS, WAIT_MS};
    struct vgpu_policy_request request = {.job = plugin->step.job};
    struct vgpu_status_reply reply;
    char socket[VGPU_PATH_MAX];
    vgpu_error_t err;
    if (!burst)
        return;
    strcpy(request.burst_class, burst->name);
    vgpu_head_init(&request.head, VGPU_POLICY, sizeof request);
    plugin_socket(plugin, VGPUD_SOCKET, socket);
    if (vgpud_ask(socket, patience, &request, sizeof request, &reply, sizeof reply, NULL, NULL,
                  &err) != 0)
        slurm_error("vgpu: node %s: no burst class for this job: %s", plugin->node, err.text);
}

static int placement_work(const void *argument, vgpu_error_t *answer)
{
    const struct vgpu_plugin *plugin = argument;
    job_info_msg_t *message = controller_load_job(plugin->step.job, answer);
    if (!message)
        return 1;
    const slurm_job_info_t *job = message->job_array;
    burst_tell(plugin, job);
    char *comment = is_ours_to_tell(plugin, job) ? comment_make(plugin, job->admin_comment) : NULL;
    if (comment)
        controller_comment(plugin->step.job, comment, NULL);
    free(comment);
    slurm_free_job_info_msg(message);
    return 0;
}

void placement_tell(const struct vgpu_plugin *plugin)
{
    vgpu_error_t answer;
    uint32_t step = plugin->step.step;
    bool first = step == SLURM_BATCH_SCRIPT || step == SLURM_INTERACTIVE_STEP || step == 0;
    if (first || plugin->step.conf->n_bursts > 0)
        controller_run(placement_work, plugin, WAIT_MS, &answer);
}
