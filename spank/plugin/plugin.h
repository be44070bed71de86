/* plugin.h - the one state of the plugin, and what each context of Slurm does with it (dispatch.c
 * chooses). */
#ifndef VGPU_PLUGIN_H
#define VGPU_PLUGIN_H

#include "advice.h"
#include "lead.h"
#include "proto/conf.h"
#include "settings.h"
#include "wishes.h"

#include <slurm/spank.h>
#include <stdbool.h>
#include <sys/types.h>

/* A step on this node, in slurmstepd and, by fork, in its tasks. */
struct vgpu_step {
    uint32_t job, step;
    uid_t uid;
    bool marked; /* the gres plugin ran */
    uint32_t n_slots;
    uint16_t slots[VGPU_MAX_SLOTS];
    struct vgpu_conf *conf;       /* NULL: this node has no vgpu.conf */
    struct vgpu_bind_reply bound; /* n_vgpus is 0 unless bound */
    int accounts[VGPU_MAX_FDS];   /* account pages, held open for vgpud as long as the step lives */
    size_t n_accounts;
    struct advice advice;
    /* What went wrong before there was a task to tell it: an error returned earlier would drain the
     * node. */
    bool failed;
    enum vgpu_status status;
    vgpu_error_t error;
    _Atomic int *lead; /* lead.h; NULL unless there may be something to tell */
    bool fate_told;    /* why vgpud ended the step */
};

struct vgpu_plugin {
    const char *node;
    struct vgpu_settings settings;
    vgpu_error_t settings_error; /* "" when all is well */
    struct vgpu_wishes wishes;
    vgpu_error_t wishes_error;
    struct vgpu_step step;
};

/* srun, sbatch, salloc. */
int submit_init(struct vgpu_plugin *plugin, spank_t spank);

/* slurmstepd. None returns an error: what went wrong is told by task_privileged, which then ends
 * the task. */
int step_init(struct vgpu_plugin *plugin, spank_t spank);
int step_begin(struct vgpu_plugin *plugin, spank_t spank);
int step_task_privileged(struct vgpu_plugin *plugin, spank_t spank);
int step_task(struct vgpu_plugin *plugin, spank_t spank);
int step_task_exit(struct vgpu_plugin *plugin, spank_t spank);
int step_end(struct vgpu_plugin *plugin, spank_t spank);

/* slurmd's child at the end of a job. */
int job_end(struct vgpu_plugin *plugin, spank_t spank);

/* The gres plugin did not run on a node that has vGPUs: nobody here knows whether the step has
 * some. */
bool step_is_unknown(const struct vgpu_step *step);

/* The path of a socket under runtime_dir. */
void plugin_socket(const struct vgpu_plugin *plugin, const char *name, char path[VGPU_PATH_MAX]);

#endif
