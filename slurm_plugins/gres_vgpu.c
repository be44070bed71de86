/* gres_vgpu.c - gres/vgpu: tells a job, a step and a task which slots Slurm really gave it.
 *
 * It decides nothing. Slurm calls the hooks in slurmstepd with the slots of the credential; what a
 * user had in one of our variables is overwritten or removed every time. The SPANK plugin does not
 * read the user's environment but the mark (VGPU_GRES_MARK) that is left in slurmstepd's own.
 */
#include "gres_hooks.h"
#include "node.h"

#include "proto/conf.h"
#include "proto/paths.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* The names that a user sees, by who asks: the batch script, a step, one task of it. */
enum scope { JOB, STEP, TASK, N_SCOPES };
static const char *const names[N_SCOPES] = {"SLURM_JOB_VGPUS", "SLURM_STEP_VGPUS",
                                            "SLURM_TASK_VGPUS"};

#define SLOT_TEXT_MAX   (VGPU_MAX_SLOTS * sizeof "1023,")
#define DEVICE_PATH_MAX 32

static struct {
    vgpu_list_t devices; /* made once, at the first question */
    struct vgpu_gres_device *records;
    char paths[VGPU_MAX_GPUS][DEVICE_PATH_MAX];
    int n_slots_seen; /* size of the last set of slots that Slurm showed us; 0: none yet */
} plugin;

const char plugin_name[] = "vGPU slots (fractional GPUs)";
const char plugin_type[] = "gres/vgpu";
const uint32_t plugin_version = SLURM_VERSION_NUMBER;

/* "0,12": the slots that are in `held` and, where given, in `usable`. */
static void slots_write(char *text, size_t room, bitstr_t *held, bitstr_t *usable)
{
    size_t used = 0;
    text[0] = '\0';
    for (bitoff_t i = 0; held && i < slurm_bit_size(held); i++) {
        if (!slurm_bit_test(held, i) || (usable && !slurm_bit_test(usable, i)))
            continue;
        int n = snprintf(text + used, room - used, "%s%d", used ? "," : "", (int)i);
        if (n < 0 || (size_t)n >= room - used)
            break;
        used += (size_t)n;
    }
}

static void names_set(char ***env, enum scope scope, const char *slots)
{
    for (int i = 0; i < N_SCOPES && *env; i++)
        if (i != (int)scope)
            slurm_unsetenvp(*env, names[i]);
    if (*slots)
        slurm_env_array_overwrite(env, names[scope], slots);
    else if (*env)
        slurm_unsetenvp(*env, names[scope]);
}

static void slots_tell(char ***env, enum scope scope, bitstr_t *held)
{
    char text[SLOT_TEXT_MAX];
    slots_write(text, sizeof text, held, NULL);
    names_set(env, scope, text);
    setenv(VGPU_GRES_MARK, text, 1);
    if (held)
        plugin.n_slots_seen = (int)slurm_bit_size(held);
}

void gres_p_job_set_env(char ***env, bitstr_t *held, uint64_t count, int flags)
{
    slots_tell(env, JOB, held);
}

void gres_p_step_set_env(char ***env, bitstr_t *held, uint64_t count, int flags)
{
    slots_tell(env, STEP, held);
}

/* Adds to what the step was told. */
void gres_p_task_set_env(char ***env, bitstr_t *held, uint64_t count, bitstr_t *usable, int flags)
{
    char text[SLOT_TEXT_MAX];
    slots_write(text, sizeof text, held, usable);
    if (*text)
        slurm_env_array_overwrite(env, names[TASK], text);
    else if (*env)
        slurm_unsetenvp(*env, names[TASK]);
}

/* --- devices: what ConstrainDevices lets a step open ------------------------------------------ */

/* The device file of one GPU, for one slot. False if this node has no such file. */
static bool device_read(struct vgpu_gres_device *device, uint32_t minor_number, char *path)
{
    struct stat status;
    snprintf(path, DEVICE_PATH_MAX, "/dev/nvidia%u", minor_number);
    if (stat(path, &status) != 0 || !S_ISCHR(status.st_mode))
        return false;
    *device = (struct vgpu_gres_device){
        .number = {major(status.st_rdev), minor(status.st_rdev), VGPU_DEVICE_CHAR},
        .dev_num = (int)minor_number,
        .path = path,
    };
    return true;
}

/* Every slot grants every vGPU GPU of the node, because a slot may be bound away from home: Slurm
 * keeps those without any slot out, the SPANK plugin covers what a step may not use. */
static void devices_fill(const struct vgpu_conf *conf)
{
    uint32_t n_slots = conf->n_slots;
    if (plugin.n_slots_seen && (uint32_t)plugin.n_slots_seen < n_slots)
        n_slots = (uint32_t)plugin.n_slots_seen; /* Slurm tests `index` in a set of this size */
    plugin.records = calloc((size_t)n_slots * conf->n_gpus + 1, sizeof *plugin.records);
    struct vgpu_gres_device *next = plugin.records, device;
    for (uint32_t gpu = 0; next && gpu < conf->n_gpus; gpu++) {
        if (!device_read(&device, conf->gpus[gpu].minor, plugin.paths[gpu]))
            continue;
        for (uint32_t slot = 0; slot < n_slots; slot++) {
            *next = device;
            next->index = (int)slot;
            slurm_list_append(plugin.devices, next++);
        }
    }
}

/* Never NULL: Slurm would complain on the user's stderr. What is wrong with vgpu.conf the SPANK
 * plugin says. */
vgpu_list_t gres_p_get_devices(void)
{
    if (plugin.devices)
        return plugin.devices;
    plugin.devices = slurm_list_create(NULL);
    const char *path = getenv(VGPU_CONF_MARK);
    struct vgpu_conf *conf = vgpu_conf_read(path ? path : VGPU_CONF, vgpu_node_name(), NULL);
    if (plugin.devices && conf)
        devices_fill(conf);
    vgpu_conf_free(conf);
    return plugin.devices;
}

int fini(void)
{
    if (plugin.devices)
        slurm_list_destroy(plugin.devices);
    free(plugin.records);
    plugin.devices = NULL;
    plugin.records = NULL;
    return SLURM_SUCCESS;
}

/* --- what Slurm insists on finding ------------------------------------------------------------ */

int gres_p_node_config_load(vgpu_list_t gres_conf, void *node_conf)
{
    return SLURM_SUCCESS;
}

void gres_p_send_stepd(void *buffer)
{
}

void gres_p_recv_stepd(void *buffer)
{
}

int gres_p_get_job_info(void *job, uint32_t node, int what, void *data)
{
    return EINVAL;
}

int gres_p_get_step_info(void *step, uint32_t node, int what, void *data)
{
    return EINVAL;
}

void gres_p_step_hardware_init(bitstr_t *slots, char *settings)
{
}

void gres_p_step_hardware_fini(void)
{
}

void *gres_p_epilog_build_env(void *job)
{
    return NULL;
}

void gres_p_epilog_set_env(char ***env, void *info, int node)
{
}

void *gres_p_prep_build_env(void *job)
{
    return NULL;
}

void gres_p_prep_set_env(char ***env, void *info, int node)
{
}
