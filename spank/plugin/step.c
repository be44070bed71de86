/* step.c - slurmstepd, before and after the tasks: binds a step's slots at vgpud, and gives them
 * back. */
#include "comm_user.h"
#include "compat.h"
#include "options.h"
#include "plugin.h"
#include "preload.h"
#include "proto/paths.h"
#include "slots.h"
#include "vgpud_client.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct vgpud_patience end_patience = {.start_ms = 300, .answer_ms = 300};

void plugin_socket(const struct vgpu_plugin *plugin, const char *name, char path[VGPU_PATH_MAX])
{
    int n = snprintf(path, VGPU_PATH_MAX, "%s/%s", plugin->settings.runtime_dir, name);
    if (n < 0 || n >= VGPU_PATH_MAX)
        *path = '\0'; /* connecting then says that there is no such socket */
}

/* Keep the first thing that goes wrong. */
static void fail(struct vgpu_step *step, enum vgpu_status status, const vgpu_error_t *why)
{
    if (step->failed)
        return;
    step->failed = true;
    step->status = status;
    step->error = *why;
}

static bool node_has_gpus(void)
{
    glob_t found = {0};
    bool has = glob("/dev/nvidia[0-9]*", GLOB_NOSORT, NULL, &found) == 0;
    globfree(&found);
    return has;
}

/* --- what is known before the options are ----------------------------------------------------- */

/* Without a readable vgpu.conf nobody knows which GPUs a step must not touch. That matters where
 * there are GPUs. */
static void conf_read(struct vgpu_plugin *plugin)
{
    struct vgpu_step *step = &plugin->step;
    vgpu_error_t err;
    if (access(plugin->settings.conf, F_OK) != 0) {
        vgpu_errorf(&err,
                    "it has no %s, which says what its vGPUs are: `vgpu config generate` makes it",
                    plugin->settings.conf);
        if (step->n_slots > 0)
            fail(step, VGPU_FAILED, &err);
        return;
    }
    step->conf = vgpu_conf_read(plugin->settings.conf, plugin->node, &err);
    if (!step->conf && (step->n_slots > 0 || node_has_gpus()))
        fail(step, VGPU_FAILED, &err);
}

/* What the gres plugin left in slurmstepd's own environment, which no user reaches. */
static void slots_read(struct vgpu_step *step)
{
    const char *mark = getenv(VGPU_GRES_MARK);
    vgpu_error_t err;
    step->marked = mark != NULL;
    if (mark && slots_parse(mark, step->slots, &step->n_slots, &err) != 0)
        fail(step, VGPU_FAILED, &err);
}

int step_init(struct vgpu_plugin *plugin, spank_t spank)
{
    struct vgpu_step *step = &plugin->step;
    if (spank_get_item(spank, S_JOB_ID, &step->job) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_STEPID, &step->step) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_UID, &step->uid) != ESPANK_SUCCESS)
        step->step = SLURM_EXTERN_CONT;
    /* For gres/vgpu, which is asked for the devices of the node later and has no arguments of its
     * own. */
    if (strcmp(plugin->settings.conf, VGPU_CONF) != 0)
        setenv(VGPU_CONF_MARK, plugin->settings.conf, 1);
    options_register(spank, &plugin->wishes, NULL, &plugin->wishes_error);
    return ESPANK_SUCCESS;
}

/* --- advice ----------------------------------------------------------------------------------- */

/* The matrix of --vgpu-comm=FILE, or NULL. */
static const struct comm_matrix *matrix_read(const struct vgpu_plugin *plugin, spank_t spank)
{
    static struct comm_matrix matrix;
    char directory[VGPU_PATH_MAX] = "";
    gid_t *groups = NULL;
    struct comm_user user = {.uid = plugin->step.uid, .directory = directory};
    vgpu_error_t err;
    if (!*plugin->wishes.comm || comm_is_pattern(plugin->wishes.comm))
        return NULL;
    spank_getenv(spank, "SLURM_SUBMIT_DIR", directory, sizeof directory);
    spank_get_item(spank, S_JOB_GID, &user.gid);
    spank_get_item(spank, S_JOB_SUPPLEMENTARY_GIDS, &groups, &user.n_groups);
    user.groups = groups;
    if (comm_user_read(&matrix, plugin->wishes.comm, &user, &err) == 0)
        return &matrix;
    slurm_error("vgpu: job %u: --vgpu-comm is left out of account: %s", plugin->step.job, err.text);
    return NULL;
}

/* Advice is welcome but never needed. */
static void advice_get(struct vgpu_plugin *plugin, spank_t spank)
{
    struct vgpu_step *step = &plugin->step;
    char socket[VGPU_PATH_MAX], *cores = NULL;
    vgpu_error_t err;
    plugin_socket(plugin, VGPU_AGENT_SOCKET, socket);
    if (plugin->wishes.colocate || access(socket, F_OK) != 0)
        return;
    bool whole_job = step->step == SLURM_BATCH_SCRIPT || step->step == SLURM_INTERACTIVE_STEP;
    if (spank_get_item(spank, whole_job ? S_JOB_ALLOC_CORES : S_STEP_ALLOC_CORES, &cores) !=
        ESPANK_SUCCESS)
        cores = NULL;
    struct advice_question question = {
        .job = step->job,
        .step = step->step,
        .slots = step->slots,
        .n_slots = step->n_slots,
        .cores = cores ? cores : "",
        .wishes = &plugin->wishes,
        .matrix = matrix_read(plugin, spank),
    };
    if (advice_ask(&step->advice, socket, &question, &err) != 0)
        slurm_debug("vgpu: no advice: %s", err.text);
    if (step->advice.n != step->n_slots)
        step->advice.n = 0;
}

/* --- binding ---------------------------------------------------------------------------------- */

/* --exclusive gives a job every slot of the node, asked for or not: it gets all there is, as one
 * vGPU on each GPU. */
static bool has_whole_node(const struct vgpu_step *step)
{
    return step->conf && step->n_slots == step->conf->n_slots && step->n_slots > step->conf->n_gpus;
}

static void request_fill(struct vgpu_bind_request *request, const struct vgpu_plugin *plugin)
{
    const struct vgpu_step *step = &plugin->step;
    *request = (struct vgpu_bind_request){
        .job = step->job,
        .step = step->step,
        .uid = step->uid,
        .holder = getpid(),
        .flags = plugin->wishes.colocate || has_whole_node(step) ? VGPU_BIND_COLOCATE : 0,
        .affinity = plugin->wishes.affinity,
        .n_slots = step->n_slots,
        .n_advice = step->advice.n,
        .slice_us = plugin->wishes.slice_us,
    };
    vgpu_head_init(&request->head, VGPU_BIND, sizeof *request);
    memcpy(request->slots, step->slots, step->n_slots * sizeof *step->slots);
    memcpy(request->advice, step->advice.gpus, step->advice.n * sizeof *step->advice.gpus);
    strcpy(request->workload, plugin->wishes.workload);
}

static bool reply_is_sane(const struct vgpu_step *step)
{
    const struct vgpu_bind_reply *bound = &step->bound;
    return bound->n_vgpus >= 1 && bound->n_vgpus <= VGPU_MAX_GPUS && bound->step_dir[0] == '/' &&
           memchr(bound->step_dir, '\0', sizeof bound->step_dir);
}

/* The dynamic linker only grumbles about a preload that is not there, and goes on without. */
static int shim_check(vgpu_error_t *err)
{
    static const char shim[] = VGPU_PKGLIBDIR "/" VGPU_SHIM_NAME;
    struct stat status;
    if (stat(shim, &status) == 0 && S_ISREG(status.st_mode) && (status.st_mode & 0444) == 0444)
        return 0;
    return vgpu_errorf(
        err, "the shim %s is not there for everyone to read: it is part of the package", shim);
}

static int preload_make(const struct vgpu_step *step, vgpu_error_t *err)
{
    char path[VGPU_PATH_MAX + sizeof PRELOAD_NAME], shim[VGPU_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", step->bound.step_dir, PRELOAD_NAME);
    if (preload_shim(shim, sizeof shim, VGPU_PKGLIBDIR) != 0)
        return vgpu_errorf(err, "%s is too long a path", VGPU_PKGLIBDIR);
    return shim_check(err) == 0 ? preload_write(path, PRELOAD_FILE, shim, err) : -1;
}

static void bind_slots(struct vgpu_plugin *plugin)
{
    struct vgpu_step *step = &plugin->step;
    uint32_t deadline_ms = plugin->settings.deadline_ms;
    struct vgpud_patience patience = {deadline_ms, deadline_ms};
    struct vgpu_bind_request request;
    char socket[VGPU_PATH_MAX];
    vgpu_error_t err;
    plugin_socket(plugin, VGPUD_SOCKET, socket);
    request_fill(&request, plugin);
    step->n_accounts = VGPU_MAX_FDS;
    if (vgpud_ask(socket, patience, &request, sizeof request, &step->bound, sizeof step->bound,
                  step->accounts, &step->n_accounts, &err) != 0) {
        vgpu_error_t remedy;
        step->n_accounts = 0;
        step->bound.n_vgpus = 0;
        vgpu_errorf(&remedy, "%s: start it there (systemctl start vgpud)", err.text);
        fail(step, VGPU_UNAVAILABLE, &remedy);
    } else if (step->bound.status != VGPU_OK) {
        step->bound.n_vgpus = 0;
        step->bound.error.text[sizeof step->bound.error.text - 1] = '\0';
        fail(step, step->bound.status, &step->bound.error);
    } else if (!reply_is_sane(step)) {
        step->bound.n_vgpus = 0;
        vgpu_errorf(&err, "vgpud at %s answers nonsense: is it of the same release as the plugin?",
                    socket);
        fail(step, VGPU_FAILED, &err);
    } else if (preload_make(step, &err) != 0) {
        fail(step, VGPU_FAILED, &err);
    }
    mkdir(VGPU_STEP_DIR, 0755); /* what is mounted over; /run is empty after a boot */
}

int step_begin(struct vgpu_plugin *plugin, spank_t spank)
{
    struct vgpu_step *step = &plugin->step;
    if (step->step == SLURM_EXTERN_CONT)
        return ESPANK_SUCCESS;
    slots_read(step);
    if (*plugin->settings_error.text && (step->n_slots > 0 || node_has_gpus()))
        fail(step, VGPU_FAILED, &plugin->settings_error);
    conf_read(plugin);
    if (step->n_slots > 0 && *plugin->wishes_error.text)
        fail(step, VGPU_BAD_MESSAGE, &plugin->wishes_error);
    if (step->n_slots > 0 && !step->failed) {
        advice_get(plugin, spank);
        bind_slots(plugin);
    }
    if (step->failed || step_is_unknown(step))
        step->lead = lead_create();
    return ESPANK_SUCCESS;
}

bool step_is_unknown(const struct vgpu_step *step)
{
    return !step->marked && step->conf && step->conf->n_slots > 0;
}

int step_end(struct vgpu_plugin *plugin, spank_t spank)
{
    struct vgpu_step *step = &plugin->step;
    struct vgpu_status_reply reply;
    char socket[VGPU_PATH_MAX];
    vgpu_error_t err;
    if (step->bound.n_vgpus > 0) {
        plugin_socket(plugin, VGPUD_SOCKET, socket);
        /* A vgpud that is away notices by itself, later, that nobody holds the step's pages any
         * more. */
        if (vgpud_tell(socket, end_patience, VGPU_UNBIND_STEP, step->job, step->step, &reply,
                       &err) != 0)
            slurm_debug("vgpu: step %u.%u: %s", step->job, step->step, err.text);
    }
    for (size_t i = 0; i < step->n_accounts; i++)
        close(step->accounts[i]);
    vgpu_conf_free(step->conf);
    *step = (struct vgpu_step){.step = SLURM_EXTERN_CONT};
    return ESPANK_SUCCESS;
}
