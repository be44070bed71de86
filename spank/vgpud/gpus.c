/* gpus.c - the GPUs of vgpu.conf as they are on this machine. */
#include "gpus.h"

#include "log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* "GPU-01234567-89ab-cdef-0123-456789abcdef" -> 16 bytes. Returns -1 if it is not of that form. */
static int parse_uuid(const char *text, uint8_t *bytes)
{
    if (strncasecmp(text, "GPU-", 4) != 0)
        return -1;
    text += 4;
    for (int i = 0; i < 16; i++) {
        unsigned byte;
        if (*text == '-')
            text++;
        if (sscanf(text, "%2x", &byte) != 1 || !text[0] || !text[1])
            return -1;
        bytes[i] = (uint8_t)byte;
        text += 2;
    }
    return *text == '\0' ? 0 : -1;
}

/* NVML's GPU with that minor number. Returns -1 with err if there is none. */
static int find_minor(const struct daemon *daemon, uint32_t minor, unsigned *index,
                      struct nvml_gpu *found, vgpu_error_t *err)
{
    for (*index = 0; *index < nvml_count(daemon->nvml); ++*index) {
        if (nvml_describe(daemon->nvml, *index, found, err))
            return -1;
        if (found->minor == minor)
            return 0;
    }
    return vgpu_errorf(
        err,
        "vgpu.conf gives node %s a GPU=%u, but NVML lists no GPU of that minor number "
        "among its %u",
        daemon->conf->node, minor, nvml_count(daemon->nvml));
}

static int fill_from_nvml(struct daemon *daemon, uint32_t i, vgpu_error_t *err)
{
    const struct vgpu_conf_gpu *stated = &daemon->conf->gpus[i];
    struct gpu *gpu = &daemon->gpus[i];
    struct nvml_gpu found = {0};
    if (find_minor(daemon, stated->minor, &gpu->nvml_index, &found, err))
        return -1;
    if (*stated->uuid && strcasecmp(stated->uuid, found.uuid) != 0)
        return vgpu_errorf(err, "GPU=%u of node %s is %s, but vgpu.conf states UUID=%s",
                           stated->minor, daemon->conf->node, found.uuid, stated->uuid);
    if (parse_uuid(found.uuid, gpu->uuid))
        return vgpu_errorf(err, "GPU=%u of node %s has the UUID \"%s\", which is not one",
                           stated->minor, daemon->conf->node, found.uuid);
    if (found.memory && stated->memory - stated->reserve > found.memory)
        log_warning(
            "GPU=%u: vgpu.conf gives out more memory (%llu MiB) than the card has (%llu MiB)",
            stated->minor, (unsigned long long)(stated->memory - stated->reserve) >> 20,
            (unsigned long long)found.memory >> 20);
    memcpy(gpu->pci, found.pci, sizeof gpu->pci);
    gpu->sample = calloc(1, sizeof *gpu->sample);
    return gpu->sample ? 0 : vgpu_errorf(err, "no memory");
}

/* Without NVML the UUID, which is how a process is told its GPU, must be stated. */
static int fill_from_conf(struct daemon *daemon, uint32_t i, const char *why, vgpu_error_t *err)
{
    const struct vgpu_conf_gpu *stated = &daemon->conf->gpus[i];
    if (parse_uuid(stated->uuid, daemon->gpus[i].uuid) == 0)
        return 0;
    return vgpu_errorf(
        err,
        "%.120s, and vgpu.conf states no UUID= for GPU=%u of node %s: start vgpud again when "
        "the driver is there",
        why, stated->minor, daemon->conf->node);
}

int gpus_find(struct daemon *daemon, struct links *links, vgpu_error_t *err)
{
    const struct vgpu_conf *conf = daemon->conf;
    unsigned indices[VGPU_MAX_GPUS];
    vgpu_error_t why;
    bool missing;

    memset(links, 0, sizeof *links);
    if (conf->n_gpus == 0)
        return 0;
    daemon->nvml = nvml_open(&missing, &why);
    if (!daemon->nvml && !missing)
        return vgpu_errorf(err, "%.200s: start vgpud again when the driver answers", why.text);
    for (uint32_t i = 0; i < conf->n_gpus; i++) {
        daemon->gpus[i].minor = conf->gpus[i].minor;
        daemon->gpus[i].sms = conf->gpus[i].sms;
        if (daemon->nvml ? fill_from_nvml(daemon, i, err)
                         : fill_from_conf(daemon, i, why.text, err))
            return -1;
        indices[i] = daemon->gpus[i].nvml_index;
    }
    if (daemon->nvml)
        nvml_read_links(daemon->nvml, indices, conf->n_gpus, links);
    else
        log_warning(
            "%s: a dead process' memory is given back at once, links are not known, memory taken "
            "past the shim is not seen",
            why.text);
    return 0;
}
