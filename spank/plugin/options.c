#include "options.h"

#include <string.h>

static int option_found(int wish, const char *value, int remote);

static struct spank_option table[] = {
    {"vgpu-colocate", NULL,
     "[vgpu] merge the vGPUs of a node into as few, bigger ones as fit on its GPUs", 0,
     WISH_COLOCATE, option_found},
    {"vgpu-bind", "own", "[vgpu] each task sees its own vGPU only (default: all, its own first)", 1,
     WISH_BIND, option_found},
    {"vgpu-affinity", "KIND",
     "[vgpu] require_nvlink, prefer_nvlink, same_numa or none: what the GPUs must have in common",
     1, WISH_AFFINITY, option_found},
    {"vgpu-comm", "PATTERN",
     "[vgpu] who talks to whom: ring, chain, tree, alltoall, tpKxdpM or the path of a matrix", 1,
     WISH_COMM, option_found},
    {"vgpu-slice", "TIME", "[vgpu] slices of GPU time, as 10ms (5ms to 1000ms)", 1, WISH_SLICE,
     option_found},
    {"vgpu-workload", "NAME", "[vgpu] slices that suit a kind of work: cnn, nlp, inference, ...", 1,
     WISH_WORKLOAD, option_found},
    {"vgpu-mem", "SIZE", "[vgpu] memory that each vGPU must have, as 7GiB", 1, WISH_MEM,
     option_found},
};

/* Slurm's callbacks carry no pointer of ours. */
static struct {
    struct vgpu_wishes *wishes;
    const char *conf;
    vgpu_error_t *err;
} found;

static int check_here(enum wish wish, vgpu_error_t *err)
{
    if (wish == WISH_COMM)
        return wishes_check_files(found.wishes, err);
    if ((wish == WISH_SLICE || wish == WISH_WORKLOAD) && found.conf)
        return wishes_check_site(found.wishes, found.conf, err);
    return 0;
}

static int option_found(int wish, const char *value, int remote)
{
    vgpu_error_t err;
    if (wish_set(found.wishes, (enum wish)wish, value, &err) == 0 &&
        (remote || check_here((enum wish)wish, &err) == 0))
        return 0;
    if (remote) {
        *found.err = err;
        return 0;
    }
    slurm_error("vgpu: %s", err.text);
    return -1;
}

int options_register(spank_t spank, struct vgpu_wishes *wishes, const char *conf, vgpu_error_t *err)
{
    found.wishes = wishes;
    found.conf = conf;
    found.err = err;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (spank_option_register(spank, &table[i]) != ESPANK_SUCCESS)
            return -1;
    return 0;
}
