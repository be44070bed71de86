#include "wishes.h"

#include "comm.h"
#include "proto/conf.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLICE_MIN_MS 5
#define SLICE_MAX_MS 1000

static int bind_set(struct vgpu_wishes *wishes, const char *value, vgpu_error_t *err)
{
    if (strcmp(value, "own") != 0)
        return vgpu_errorf(err, "--vgpu-bind=%.40s: own is what there is", value);
    wishes->bind_own = true;
    return 0;
}

static const char *const affinities[] = {
    [VGPU_AFFINITY_NONE] = "none",
    [VGPU_PREFER_NVLINK] = "prefer_nvlink",
    [VGPU_REQUIRE_NVLINK] = "require_nvlink",
    [VGPU_SAME_NUMA] = "same_numa",
};

const char *wish_affinity_name(uint32_t affinity)
{
    return affinities[affinity];
}

static int affinity_set(struct vgpu_wishes *wishes, const char *value, vgpu_error_t *err)
{
    for (uint32_t i = 0; i < sizeof affinities / sizeof *affinities; i++) {
        if (strcmp(value, affinities[i]) == 0) {
            wishes->affinity = i;
            return 0;
        }
    }
    return vgpu_errorf(
        err, "--vgpu-affinity=%.40s: require_nvlink, prefer_nvlink, same_numa or none is wanted",
        value);
}

static int comm_set(struct vgpu_wishes *wishes, const char *value, vgpu_error_t *err)
{
    if (!*value || strlen(value) >= sizeof wishes->comm)
        return vgpu_errorf(
            err,
            "--vgpu-comm=%.40s: ring, chain, tree, alltoall, tpKxdpM (as tp4xdp2) or the "
            "path of a file with a matrix is wanted",
            value);
    strcpy(wishes->comm, value);
    return 0;
}

static int slice_set(struct vgpu_wishes *wishes, const char *value, vgpu_error_t *err)
{
    char *end = NULL;
    unsigned long ms = isdigit((unsigned char)*value) ? strtoul(value, &end, 10) : 0;
    if (ms < SLICE_MIN_MS || ms > SLICE_MAX_MS || strcmp(end, "ms") != 0)
        return vgpu_errorf(err, "--vgpu-slice=%.40s: %dms to %dms is wanted, as 10ms", value,
                           SLICE_MIN_MS, SLICE_MAX_MS);
    wishes->slice_us = (uint32_t)ms * 1000;
    return 0;
}

static int workload_set(struct vgpu_wishes *wishes, const char *value, vgpu_error_t *err)
{
    size_t n = strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789_-");
    if (n == 0 || value[n] || n >= sizeof wishes->workload)
        return vgpu_errorf(err, "--vgpu-workload=%.40s: the name of a workload is wanted, as cnn",
                           value);
    strcpy(wishes->workload, value);
    return 0;
}

static int mem_set(struct vgpu_wishes *wishes, const char *value, vgpu_error_t *err)
{
    vgpu_error_t why;
    if (vgpu_size_parse(value, &wishes->mem, &why) != 0)
        return vgpu_errorf(err, "--vgpu-mem=%.40s: %s", value, why.text);
    return 0;
}

int wish_set(struct vgpu_wishes *wishes, enum wish wish, const char *value, vgpu_error_t *err)
{
    typedef int (*setter)(struct vgpu_wishes *, const char *, vgpu_error_t *);
    static const setter setters[WISH_COUNT] = {
        [WISH_BIND] = bind_set,   [WISH_AFFINITY] = affinity_set, [WISH_COMM] = comm_set,
        [WISH_SLICE] = slice_set, [WISH_WORKLOAD] = workload_set, [WISH_MEM] = mem_set,
    };
    if (wish == WISH_COLOCATE) {
        wishes->colocate = true;
        return 0;
    }
    return setters[wish](wishes, value ? value : "", err);
}

int wishes_check_files(const struct vgpu_wishes *wishes, vgpu_error_t *err)
{
    struct comm_matrix matrix;
    vgpu_error_t why;
    if (!*wishes->comm || comm_is_pattern(wishes->comm) ||
        comm_matrix_read(&matrix, wishes->comm, &why) == 0)
        return 0;
    return vgpu_errorf(err,
                       "--vgpu-comm=%.80s is not ring, chain, tree, alltoall or tpKxdpM, and not a "
                       "matrix either: %s",
                       wishes->comm, why.text);
}

int wishes_check_site(const struct vgpu_wishes *wishes, const char *conf, vgpu_error_t *err)
{
    uint32_t slice_us;
    if (access(conf, R_OK) != 0)
        return 0;
    struct vgpu_conf *site = vgpu_conf_read(conf, "", err);
    if (!site)
        return -1;
    int rc = vgpu_conf_slice(site, wishes->slice_us, wishes->workload, &slice_us, err);
    vgpu_conf_free(site);
    return rc;
}
