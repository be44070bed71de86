/* task.c - slurmstepd's children just before they become the user's program, and after. */
#include "clock.h"
#include "compat.h"
#include "controller.h"
#include "environment.h"
#include "namespace.h"
#include "placement.h"
#include "plugin.h"
#include "preload.h"
#include "proto/paths.h"
#include "requeue.h"
#include "sentence.h"
#include "slots.h"
#include "vgpud_client.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define HEAD_START_MS 100
#define LEAD_MS       12000  /* longer than anything that task 0 may wait for */
#define ENV_VALUE_MAX 131072 /* the kernel takes no longer one */

/* vgpud may be restarting when a step that it ended is over; for others that is not worth a wait.
 */
static const struct vgpud_patience fate_patience = {.start_ms = 200, .answer_ms = 1000};
static const struct vgpud_patience others_patience = {.start_ms = 0, .answer_ms = 1000};

static uint32_t local_task(spank_t spank)
{
    int task = 0;
    return spank_get_item(spank, S_TASK_ID, &task) == ESPANK_SUCCESS && task > 0 ? (uint32_t)task
                                                                                 : 0;
}

/* Tell the user before the task's end is told. To srun the two come on two ways, and when all tasks
 * have ended slurmstepd throws away what it has not passed on yet: let the sentence be first. */
static void say_first(const struct vgpu_plugin *plugin, vgpu_error_t *text)
{
    sentence_name_node(text, plugin->node);
    slurm_error("vgpu: %s", text->text);
    if (plugin->step.step != SLURM_BATCH_SCRIPT)
        clock_sleep_ms(HEAD_START_MS);
}

/* --- task_init_privileged --------------------------------------------------------------------- */

/* An exit here fails the task and nothing else: an error from a hook would, on some releases, look
 * like success or drain the node. */
__attribute__((noreturn)) static void end_task(const struct vgpu_plugin *plugin, vgpu_error_t *why)
{
    say_first(plugin, why);
    lead_say(plugin->step.lead, LEAD_STOP);
    _exit(1);
}

/* Would another try, on another node, make sense? */
static bool may_work_elsewhere(const struct vgpu_step *step)
{
    return step->status == VGPU_NO_ROOM || step->status == VGPU_REFUSED;
}

/* Slurm runs a step without the gres plugin when it cannot load it. Then only the controller knows
 * whether the step has vGPUs. */
static bool gres_plugin_is_missed(const struct vgpu_step *step, spank_t spank, vgpu_error_t *why)
{
    const char *version = "";
    if (!step_is_unknown(step) || !controller_job_has_vgpus(step->job))
        return false;
    spank_get_item(spank, S_SLURM_VERSION, &version);
    vgpu_errorf(why,
                "Slurm did not load its plugin gres/vgpu there: put gres_vgpu.so for Slurm %s into "
                "a folder of PluginDir and restart slurmd",
                version);
    return true;
}

/* Local task 0 ends here if the step cannot run, and says why. */
static void lead_task(const struct vgpu_plugin *plugin, spank_t spank)
{
    const struct vgpu_step *step = &plugin->step;
    vgpu_error_t why = step->error;
    if (step->failed && may_work_elsewhere(step))
        requeue_try(plugin, &why);
    if (step->failed || gres_plugin_is_missed(step, spank, &why))
        end_task(plugin, &why);
    lead_say(step->lead, LEAD_GO);
}

/* The others end without a word. */
static void follow_task(const struct vgpu_step *step)
{
    enum lead_word word = step->lead ? lead_wait(step->lead, LEAD_MS) : LEAD_GO;
    if (step->failed || word == LEAD_STOP)
        _exit(1);
}

static bool is_bound(const struct vgpu_step *step, uint32_t minor)
{
    for (uint32_t i = 0; i < step->bound.n_vgpus; i++)
        if (step->bound.vgpus[i].gpu == minor)
            return true;
    return false;
}

static void plan_make(struct namespace_plan *plan, const struct vgpu_step *step,
                      const char *preload, const char *cover)
{
    *plan = (struct namespace_plan){.cover = cover};
    if (step->bound.n_vgpus > 0) {
        plan->step_dir = step->bound.step_dir;
        plan->preload = preload;
    }
    for (uint32_t i = 0; step->conf && i < step->conf->n_gpus; i++)
        if (!is_bound(step, step->conf->gpus[i].minor))
            plan->covered[plan->n_covered++] = step->conf->gpus[i].minor;
}

int step_task_privileged(struct vgpu_plugin *plugin, spank_t spank)
{
    const struct vgpu_step *step = &plugin->step;
    char preload[VGPU_PATH_MAX + sizeof PRELOAD_NAME], cover[VGPU_PATH_MAX + sizeof "/covered"];
    struct namespace_plan plan;
    vgpu_error_t why;
    uint32_t task = local_task(spank);
    if (step->step == SLURM_EXTERN_CONT)
        return ESPANK_SUCCESS;
    if (task == 0)
        lead_task(plugin, spank);
    else
        follow_task(step);
    snprintf(preload, sizeof preload, "%s/%s", step->bound.step_dir, PRELOAD_NAME);
    snprintf(cover, sizeof cover, "%s/covered", plugin->settings.datadir);
    plan_make(&plan, step, preload, cover);
    if (namespace_needed(&plan) && namespace_enter(&plan, &why) != 0)
        end_task(plugin, &why);
    if (task == 0 && step->bound.n_vgpus > 0)
        placement_tell(plugin);
    return ESPANK_SUCCESS;
}

/* --- task_init -------------------------------------------------------------------------------- */

static bool set(spank_t spank, const char *name, const char *value)
{
    return spank_setenv(spank, name, value, 1) == ESPANK_SUCCESS;
}

/* Add an item to a list that the user may have filled. */
static bool join(spank_t spank, const char *name, const char *item, char separator, bool first)
{
    static char value[ENV_VALUE_MAX], joined[ENV_VALUE_MAX];
    *value = '\0';
    spank_err_t status = spank_getenv(spank, name, value, sizeof value);
    return (status == ESPANK_SUCCESS || status == ESPANK_ENV_NOEXIST) &&
           environment_join(joined, sizeof joined, value, item, separator, first) == 0 &&
           set(spank, name, joined);
}

/* Inside a container the step's socket and the shim are where they are outside. Apptainer takes
 * both from variables, by its old name too; enroot by the hook that the package brings, from
 * NVIDIA_VISIBLE_DEVICES the devices. */
static bool containers_set(spank_t spank, const char *devices)
{
    static const char shim[] = VGPU_PKGLIBDIR "/" VGPU_SHIM_NAME;
    static const char *const binds[] = {"APPTAINER_BIND", "SINGULARITY_BIND"};
    static const char *const inner[] = {"APPTAINERENV_", "SINGULARITYENV_"};
    char name[64];
    bool ok = set(spank, "NVIDIA_VISIBLE_DEVICES", devices);
    for (int i = 0; i < 2; i++) {
        ok = ok && join(spank, binds[i], VGPU_STEP_DIR, ',', false) &&
             join(spank, binds[i], shim, ',', false);
        snprintf(name, sizeof name, "%sLD_PRELOAD", inner[i]);
        ok = ok && join(spank, name, shim, ':', true);
        snprintf(name, sizeof name, "%sCUDA_VISIBLE_DEVICES", inner[i]);
        ok = ok && set(spank, name, devices);
    }
    return ok;
}

/* The task's vGPUs: the step's, or what Slurm bound to the task. */
static uint32_t vgpus_of_task(struct vgpu_desc vgpus[VGPU_MAX_GPUS], const struct vgpu_step *step,
                              spank_t spank)
{
    static uint16_t slots[VGPU_MAX_SLOTS];
    static char text[ENV_VALUE_MAX];
    uint32_t n_slots, n = step->bound.n_vgpus;
    memcpy(vgpus, step->bound.vgpus, n * sizeof *vgpus);
    if (spank_getenv(spank, "SLURM_TASK_VGPUS", text, sizeof text) == ESPANK_SUCCESS &&
        slots_parse(text, slots, &n_slots, NULL) == 0)
        n = environment_narrow(vgpus, n, slots, n_slots);
    return n;
}

int step_task(struct vgpu_plugin *plugin, spank_t spank)
{
    struct vgpu_desc vgpus[VGPU_MAX_GPUS];
    char devices[DEVICES_TEXT_MAX];
    if (plugin->step.bound.n_vgpus == 0)
        return ESPANK_SUCCESS;
    uint32_t n = vgpus_of_task(vgpus, &plugin->step, spank);
    bool narrowed = n < plugin->step.bound.n_vgpus;
    environment_devices(devices, vgpus, n, narrowed ? 0 : local_task(spank),
                        plugin->wishes.bind_own);
    if (set(spank, "CUDA_VISIBLE_DEVICES", devices) && containers_set(spank, devices))
        return ESPANK_SUCCESS;
    slurm_error("vgpu: node %s: the task's environment has no room for its vGPUs", plugin->node);
    return ESPANK_ERROR;
}

/* --- task_exit -------------------------------------------------------------------------------- */

/* If vgpud ended the step, the job's output says why. A shell whose child was killed first may have
 * ended by itself, so any end but success is asked about; and a step without vGPUs may have been
 * where it must not. */
int step_task_exit(struct vgpu_plugin *plugin, spank_t spank)
{
    struct vgpu_step *step = &plugin->step;
    struct vgpu_status_reply reply;
    char socket[VGPU_PATH_MAX];
    int status = 0;
    if (step->fate_told || !step->conf || step->conf->n_slots == 0 ||
        spank_get_item(spank, S_TASK_EXIT_STATUS, &status) != ESPANK_SUCCESS || status == 0)
        return ESPANK_SUCCESS;
    plugin_socket(plugin, VGPUD_SOCKET, socket);
    if (vgpud_tell(socket, step->bound.n_vgpus > 0 ? fate_patience : others_patience,
                   VGPU_STEP_FATE, step->job, step->step, &reply, NULL) == 0 &&
        reply.status == VGPU_OK && *reply.error.text) {
        reply.error.text[sizeof reply.error.text - 1] = '\0';
        say_first(plugin, &reply.error);
        step->fate_told = true;
    }
    return ESPANK_SUCCESS;
}
