/* conf.h - vgpu.conf as one node sees it. The format is described in docs/vgpu.conf.md. */
#ifndef VGPU_CONF_H
#define VGPU_CONF_H

#include "error.h"
#include "wire.h"

#include <stdbool.h>

#define VGPU_CONF_VERSION 1
#define VGPU_MAX_TYPES    64
#define VGPU_MAX_PRESETS  32 /* workloads, and burst classes */

struct vgpu_conf_type {
    char name[VGPU_TYPE_MAX];
    uint64_t memory; /* bytes */
    uint32_t sms, max_sms;
    uint32_t slice_us;
    bool hard_cap; /* never more than sms, even when others leave the card idle up to max_sms */
};

struct vgpu_conf_gpu {
    uint32_t minor;   /* /dev/nvidia<minor> */
    uint64_t memory;  /* bytes; 0: as NVML says */
    uint64_t reserve; /* bytes kept out of the quotas */
    uint32_t sms;
    char uuid[48]; /* "": not stated */
};

struct vgpu_conf_slot {
    uint16_t type; /* index into types */
    uint16_t gpu;  /* index into gpus: its home */
};

/* --vgpu-workload=NAME: slices that suit a kind of work. */
struct vgpu_conf_workload {
    char name[VGPU_NAME_MAX];
    uint32_t slice_us;
};

/* Jobs of these QOSes or partitions may run ahead of their share for a while when they wake up. */
struct vgpu_conf_burst {
    char name[VGPU_NAME_MAX];
    uint32_t time_us;
    char qos[VGPU_PATH_MAX], partitions[VGPU_PATH_MAX]; /* comma separated; "": none */
};

struct vgpu_conf {
    char node[VGPU_NAME_MAX];
    uint32_t n_types, n_gpus, n_slots;
    struct vgpu_conf_type types[VGPU_MAX_TYPES];
    struct vgpu_conf_gpu gpus[VGPU_MAX_GPUS];
    struct vgpu_conf_slot slots[VGPU_MAX_SLOTS];
    uint32_t n_workloads, n_bursts;
    struct vgpu_conf_workload workloads[VGPU_MAX_PRESETS];
    struct vgpu_conf_burst bursts[VGPU_MAX_PRESETS];
    uint32_t min_slice_us, max_slice_us; /* what a user may ask for */
    int backstop;                        /* enum vgpu_backstop */
    uint64_t tolerance;                  /* bytes above quota before the backstop acts */
    uint32_t tolerance_ms;               /* and for how long */
};

enum vgpu_backstop { VGPU_BACKSTOP_END, VGPU_BACKSTOP_WARN, VGPU_BACKSTOP_OFF };

/* Parse the file for the node. Returns the configuration (free with vgpu_conf_free), or NULL with
 * err saying file, line, what is wrong and what would be right. A node that the file does not
 * mention has n_slots == 0. */
struct vgpu_conf *vgpu_conf_read(const char *path, const char *node, vgpu_error_t *err);

/* The same from text in memory; `name` stands for the file in errors. */
struct vgpu_conf *vgpu_conf_parse(const char *text, size_t length, const char *name,
                                  const char *node, vgpu_error_t *err);

void vgpu_conf_free(struct vgpu_conf *conf);

/* NULL: there is none of that name. */
const struct vgpu_conf_workload *vgpu_conf_workload(const struct vgpu_conf *conf, const char *name);
const struct vgpu_conf_burst *vgpu_conf_burst(const struct vgpu_conf *conf, const char *name);

/* The burst class of a job by its QOS and partition (either may be NULL); NULL: none. */
const struct vgpu_conf_burst *vgpu_conf_burst_of(const struct vgpu_conf *conf, const char *qos,
                                                 const char *partition);

/* May a user ask for this slice and workload (0, "": not asked for)? *slice_us becomes the slice
 * that they amount to, 0: the type's. Returns -1 with err, one sentence that says what may be asked
 * for. */
int vgpu_conf_slice(const struct vgpu_conf *conf, uint32_t asked_us, const char *workload,
                    uint32_t *slice_us, vgpu_error_t *err);

/* "4GiB", "512MiB", "4G" (Slurm's letters are the same powers of two) -> bytes. */
int vgpu_size_parse(const char *text, uint64_t *bytes, vgpu_error_t *err);

/* Is name in the list, e.g. "n[001-004,7],login"? -1 with err for a list that is not well formed.
 */
int vgpu_hostlist_contains(const char *list, const char *name, vgpu_error_t *err);

#endif
