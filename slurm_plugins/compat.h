/* compat.h - all that differs between the releases of Slurm that the two plugins are built for
 * (22.05 to 26.05).
 *
 * Only public headers are used. What libslurmfull exports without a public declaration is declared
 * here; it is in every one of these releases. */
#ifndef VGPU_COMPAT_H
#define VGPU_COMPAT_H

#include <slurm/slurm.h>
#include <slurm/slurm_version.h>

#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(22, 5, 0)
#error "slurm-vgpu needs Slurm 22.05 or later"
#endif

/* Slurm's list and host list, whatever the release calls their types. */
typedef __typeof__(slurm_list_create(NULL)) vgpu_list_t;
typedef __typeof__(slurm_hostlist_create(NULL)) vgpu_hostlist_t;

extern int slurm_bit_test(bitstr_t *bits, bitoff_t bit);
extern bitoff_t slurm_bit_size(bitstr_t *bits);
extern int slurm_env_array_overwrite(char ***env, const char *name, const char *value);
extern void slurm_unsetenvp(char **env, const char *name);

/* What a gres plugin's get_devices returns a list of: Slurm grants `path` to whoever holds the slot
 * `index`. */
struct vgpu_gres_device {
    int index;
    int alloc; /* Slurm's own */
    struct {
        uint32_t major, minor;
        int type;
    } number;
    int dev_num;
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
    uint32_t flags;
#endif
    char *path;
    char *unique_id;
};

#define VGPU_DEVICE_CHAR 2 /* number.type of a character device */

/* One job with the details of its allocation. Free with slurm_free_job_info_msg. */
static inline int vgpu_load_job(job_info_msg_t **job, uint32_t id)
{
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
    slurm_step_id_t step = SLURM_STEP_ID_INITIALIZER;
    step.job_id = id;
    return slurm_load_job(job, step, SHOW_DETAIL);
#else
    return slurm_load_job(job, id, SHOW_DETAIL);
#endif
}

#endif
