/* gres_hooks.h - the functions that Slurm looks up in a gres plugin, for 22.05 to 26.05. A release
 * that does not know one of them never calls it. What Slurm's own headers keep private is a void
 * pointer here: nothing looks inside. */
#ifndef VGPU_GRES_HOOKS_H
#define VGPU_GRES_HOOKS_H

#include "compat.h"

#pragma GCC visibility push(default)

extern const char plugin_name[];
extern const char plugin_type[];
extern const uint32_t plugin_version;
int fini(void);

/* In slurmstepd, before the SPANK plugins: of a batch script or interactive step; of srun's. */
void gres_p_job_set_env(char ***env, bitstr_t *held, uint64_t count, int flags);
void gres_p_step_set_env(char ***env, bitstr_t *held, uint64_t count, int flags);
/* Only with a binding of tasks to slots (--tres-bind, --tres-per-task). */
void gres_p_task_set_env(char ***env, bitstr_t *held, uint64_t count, bitstr_t *usable, int flags);
/* For the device cgroup. */
vgpu_list_t gres_p_get_devices(void);

/* Nothing to do in these, but Slurm insists on them. */
int gres_p_node_config_load(vgpu_list_t gres_conf, void *node_conf);
void gres_p_send_stepd(void *buffer);
void gres_p_recv_stepd(void *buffer);
void gres_p_step_hardware_init(bitstr_t *held, char *settings);
void gres_p_step_hardware_fini(void);
int gres_p_get_job_info(void *job, uint32_t node, int what, void *data);   /* up to 22.05 */
int gres_p_get_step_info(void *step, uint32_t node, int what, void *data); /* up to 22.05 */
void *gres_p_epilog_build_env(void *job);                                  /* up to 22.05 */
void gres_p_epilog_set_env(char ***env, void *info, int node);             /* up to 22.05 */
void *gres_p_prep_build_env(void *job);                                    /* after it */
void gres_p_prep_set_env(char ***env, void *info, int node);               /* after it */

#pragma GCC visibility pop

#endif
