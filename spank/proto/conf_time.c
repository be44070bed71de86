/* conf_time.c - what vgpu.conf says about GPU time, looked up. */
#include "proto/conf.h"

#include <stdio.h>
#include <string.h>

const struct vgpu_conf_workload *vgpu_conf_workload(const struct vgpu_conf *conf, const char *name)
{
    for (uint32_t i = 0; i < conf->n_workloads; i++)
        if (strcmp(conf->workloads[i].name, name) == 0)
            return &conf->workloads[i];
    return NULL;
}

const struct vgpu_conf_burst *vgpu_conf_burst(const struct vgpu_conf *conf, const char *name)
{
    for (uint32_t i = 0; i < conf->n_bursts; i++)
        if (strcmp(conf->bursts[i].name, name) == 0)
            return &conf->bursts[i];
    return NULL;
}

static bool listed(const char *list, const char *name)
{
    size_t length = name ? strlen(name) : 0;
    while (length && *list) {
        size_t word = strcspn(list, ",");
        if (word == length && memcmp(list, name, length) == 0)
            return true;
        list += word + (list[word] == ',');
    }
    return false;
}

const struct vgpu_conf_burst *vgpu_conf_burst_of(const struct vgpu_conf *conf, const char *qos,
                                                 const char *partition)
{
    for (uint32_t i = 0; i < conf->n_bursts; i++)
        if (listed(conf->bursts[i].qos, qos) || listed(conf->bursts[i].partitions, partition))
            return &conf->bursts[i];
    return NULL;
}

static int unknown_workload(const struct vgpu_conf *conf, const char *name, vgpu_error_t *err)
{
    char known[160] = "";
    for (uint32_t i = 0; i < conf->n_workloads; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", conf->workloads[i].name);
    }
    if (!*known)
        return vgpu_errorf(
            err,
            "--vgpu-workload=%.40s: this site has no workloads; --vgpu-slice=10ms says it directly",
            name);
    return vgpu_errorf(err, "--vgpu-workload=%.40s: %s is what this site knows", name, known);
}

int vgpu_conf_slice(const struct vgpu_conf *conf, uint32_t asked_us, const char *workload,
                    uint32_t *slice_us, vgpu_error_t *err)
{
    const struct vgpu_conf_workload *preset = *workload ? vgpu_conf_workload(conf, workload) : NULL;
    if (*workload && !preset)
        return unknown_workload(conf, workload, err);
    if (asked_us && (asked_us < conf->min_slice_us || asked_us > conf->max_slice_us))
        return vgpu_errorf(err, "--vgpu-slice=%ums: %ums to %ums is what this site allows",
                           asked_us / 1000, conf->min_slice_us / 1000, conf->max_slice_us / 1000);
    *slice_us = asked_us ? asked_us : preset ? preset->slice_us : 0;
    return 0;
}
