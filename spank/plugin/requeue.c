#include "requeue.h"

#include "compat.h"
#include "controller.h"
#include "eligible.h"
#include "proto/paths.h"
#include "segment.h"
#include "sentence.h"
#include "vgpud_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_MS 8000

struct requeue_case {
    const struct vgpu_plugin *plugin;
    const char *why;
};

static const char *text_or_empty(const char *text)
{
    return text ? text : "";
}

/* --- which nodes are left --------------------------------------------------------------------- */

static bool node_fits(const slurm_job_info_t *job, const node_info_t *node)
{
    const char *features = node->features_act ? node->features_act : text_or_empty(node->features);
    return eligible_gres(text_or_empty(job->tres_per_node), text_or_empty(node->gres)) &&
           strstr(text_or_empty(node->gres), "vgpu") &&
           eligible_features(text_or_empty(job->features), features);
}

static uint32_t nodes_count(const slurm_job_info_t *job, const char *partition_nodes,
                            const char *excluded)
{
    node_info_msg_t *message = NULL;
    uint32_t count = 0;
    if (slurm_load_node(0, &message, SHOW_ALL) != SLURM_SUCCESS)
        return UINT32_MAX; /* not known: Slurm will find out */
    for (uint32_t i = 0; i < message->record_count; i++) {
        const node_info_t *node = &message->node_array[i];
        const char *name = text_or_empty(node->name);
        if (*name && eligible_listed(partition_nodes, name) && !eligible_listed(excluded, name) &&
            node_fits(job, node))
            count++;
    }
    slurm_free_node_info_msg(message);
    return count;
}

/* Nodes of the job's partition that could take it when `excluded` are out. Whether they are busy or
 * down now does not count. */
static uint32_t nodes_left(const slurm_job_info_t *job, const char *excluded)
{
    partition_info_msg_t *message = NULL;
    uint32_t count = UINT32_MAX;
    if (slurm_load_partitions(0, &message, SHOW_ALL) != SLURM_SUCCESS)
        return count;
    for (uint32_t i = 0; i < message->record_count; i++) {
        const partition_info_t *partition = &message->partition_array[i];
        if (job->partition && partition->name && strcmp(partition->name, job->partition) == 0)
            count = nodes_count(job, text_or_empty(partition->nodes), excluded);
    }
    slurm_free_partition_info_msg(message);
    return count;
}

/* --- facts ------------------------------------------------------------------------------------ */

/* Does the job have vGPUs on this node already? */
static bool job_started_here(const struct vgpu_plugin *plugin)
{
    static const struct vgpud_patience patience = {.start_ms = 1000, .answer_ms = 1000};
    struct vgpu_list_request request = {0};
    struct vgpu_list_reply reply;
    char socket[VGPU_PATH_MAX];
    plugin_socket(plugin, VGPUD_SOCKET, socket);
    vgpu_head_init(&request.head, VGPU_LIST, sizeof request);
    for (;;) {
        if (vgpud_ask(socket, patience, &request, sizeof request, &reply, sizeof reply, NULL, NULL,
                      NULL) != 0 ||
            reply.status != VGPU_OK)
            return false;
        if (reply.job == plugin->step.job)
            return true;
        request.after = reply.vgpu.id;
    }
}

static uint32_t tries_read(const char *comment)
{
    char value[16];
    return segment_get(comment, "tries", value, sizeof value) == 0
               ? (uint32_t)strtoul(value, NULL, 10)
               : 0;
}

static struct requeue_facts facts_gather(const struct requeue_case *c, const slurm_job_info_t *job,
                                         const char *excluded)
{
    bool pinned = eligible_listed(text_or_empty(job->req_nodes), c->plugin->node);
    return (struct requeue_facts){
        .batch = job->batch_flag,
        .allowed = job->requeue,
        .started = c->plugin->step.step != SLURM_BATCH_SCRIPT && job_started_here(c->plugin),
        .tries = tries_read(text_or_empty(job->admin_comment)),
        .nodes = job->num_nodes,
        .nodes_left = pinned ? 0 : nodes_left(job, excluded),
    };
}

/* --- what is done about it -------------------------------------------------------------------- */

static char *comment_make(const char *before, uint32_t tries, const char *why)
{
    char count[16];
    char *comment = strdup(before);
    snprintf(count, sizeof count, "%u", tries);
    segment_change(&comment, "gpus", NULL);
    segment_change(&comment, "slots", NULL);
    segment_change(&comment, "tries", count);
    segment_change(&comment, "why", why);
    return comment;
}

/* Slurm takes the changes of a pending job only, so the requeue comes first; the job does not start
 * again before they are in, since that takes as long as its credential lives. */
static void act(enum requeue_verdict verdict, uint32_t job, char *comment, char *excluded,
                uint32_t tries, vgpu_error_t *answer)
{
    bool again = verdict == REQUEUE_AGAIN;
    if (slurm_requeue(job, again ? 0 : JOB_REQUEUE_HOLD) != SLURM_SUCCESS) {
        vgpu_errorf(answer, "; it could not be requeued (%s)", slurm_strerror(errno));
        return;
    }
    int error = controller_comment(job, comment, again ? excluded : NULL);
    if (error != 0)
        vgpu_errorf(answer,
                    "; it is back in the queue, but the reason and the node to avoid could not be "
                    "noted (%s)",
                    slurm_strerror(error));
    else if (again)
        vgpu_errorf(answer, "; the job goes back to the queue and avoids this node (try %u of %d)",
                    tries, REQUEUE_TRIES);
    else
        vgpu_errorf(answer, "; the job is held: %s",
                    tries >= REQUEUE_TRIES ? "that was its last try"
                                           : "no other node could take it");
}

static int requeue_work(const void *argument, vgpu_error_t *answer)
{
    const struct requeue_case *c = argument;
    vgpu_error_t err;
    job_info_msg_t *message = controller_load_job(c->plugin->step.job, &err);
    if (!message)
        return 1;
    const slurm_job_info_t *job = message->job_array;
    char *excluded = eligible_exclude(text_or_empty(job->exc_nodes), c->plugin->node);
    struct requeue_facts facts = facts_gather(c, job, text_or_empty(excluded));
    enum requeue_verdict verdict = requeue_decide(&facts);
    char *comment = comment_make(text_or_empty(job->admin_comment), facts.tries + 1, c->why);
    if (verdict != REQUEUE_NOT && excluded && comment)
        act(verdict, c->plugin->step.job, comment, excluded, facts.tries + 1, answer);
    free(comment);
    free(excluded);
    slurm_free_job_info_msg(message);
    return 0;
}

void requeue_try(const struct vgpu_plugin *plugin, vgpu_error_t *error)
{
    struct requeue_case c = {plugin, error->text};
    vgpu_error_t done = {""};
    sentence_name_node(error, plugin->node);
    if (controller_run(requeue_work, &c, ASK_MS, &done) != 0)
        return;
    size_t used = strlen(error->text);
    snprintf(error->text + used, sizeof error->text - used, "%s", done.text);
}
