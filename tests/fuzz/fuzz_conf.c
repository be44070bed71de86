/* fuzz_conf.c - whatever a vgpu.conf contains: it is read or refused in one sentence, and what is
 * read keeps its promises. */
#include "proto/conf.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool claim)
{
    if (!claim)
        abort();
}

static void check(const struct vgpu_conf *conf)
{
    uint64_t memory[VGPU_MAX_GPUS] = {0};
    uint64_t sms[VGPU_MAX_GPUS] = {0};
    for (uint32_t i = 0; i < conf->n_slots; i++) {
        require(conf->slots[i].type < conf->n_types && conf->slots[i].gpu < conf->n_gpus);
        memory[conf->slots[i].gpu] += conf->types[conf->slots[i].type].memory;
        sms[conf->slots[i].gpu] += conf->types[conf->slots[i].type].sms;
    }
    for (uint32_t i = 0; i < conf->n_gpus; i++)
        require(memory[i] <= conf->gpus[i].memory - conf->gpus[i].reserve &&
                sms[i] <= conf->gpus[i].sms);
    for (uint32_t i = 0; i < conf->n_types; i++)
        require(conf->types[i].sms > 0 && conf->types[i].max_sms >= conf->types[i].sms &&
                strnlen(conf->types[i].name, VGPU_TYPE_MAX) < VGPU_TYPE_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    vgpu_error_t err = {""};
    struct vgpu_conf *conf = vgpu_conf_parse((const char *)data, size, "f", "n002", &err);
    if (conf)
        check(conf);
    else
        require(err.text[0] && !strchr(err.text, '\n'));
    vgpu_conf_free(conf);
    return 0;
}
