/* nvml_nvlink.c - NVLinks (nvml_nvlink.h). */
#include "nvml_nvlink.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define SWITCH_BUS 0xf0u /* PCI bus of the first NVSwitch */
#define SWITCHES   6u    /* the links are dealt out to them */

/* --- the links of a GPU -------------------------------------------------------------------------
 */

static const struct gpusim_pair *pair_of(uint32_t a, uint32_t b)
{
    return &nvml.state->machine.pairs[a][b];
}

/* Number of GPU a's first link to GPU b; those to lower GPUs come before. */
static unsigned int first_link(uint32_t a, uint32_t b)
{
    unsigned int first = 0;
    for (uint32_t i = 0; i < b; i++)
        first += pair_of(a, i)->links;
    return first;
}

unsigned int nvml_link_count(nvmlDevice_t device)
{
    const struct gpusim_machine *machine = &nvml.state->machine;
    unsigned int used = first_link(device->gpu, machine->n_gpus) + nvml_spec(device)->switch_links;
    if (used == 0)
        return 0;
    unsigned int fitted = nvml_model(device)->max_links;
    return used > fitted ? used : fitted;
}

struct nvml_link nvml_link(nvmlDevice_t device, unsigned int link)
{
    uint32_t gpu = device->gpu, n = nvml.state->machine.n_gpus;
    unsigned int first = 0;
    char key[16];
    snprintf(key, sizeof(key), "link.%u", link);
    bool active = nvml_value(device, key, 1);
    for (uint32_t peer = 0; peer < n; first += pair_of(gpu, peer++)->links) {
        if (link >= first + pair_of(gpu, peer)->links)
            continue;
        return (struct nvml_link){.active = active,
                                  .peer = (int)peer,
                                  .remote = first_link(peer, gpu) + link - first,
                                  .generation = pair_of(gpu, peer)->version};
    }
    return (struct nvml_link){.active = active && link - first < nvml_spec(device)->switch_links,
                              .peer = -1,
                              .remote = (link - first) % SWITCHES,
                              .generation = nvml_spec(device)->switch_version};
}

unsigned int nvml_link_mbps(nvmlDevice_t device, const struct nvml_link *link)
{
    static const unsigned int by_generation[] = {0, 20000, 25781, 25000, 26562, 53125};
    if (link->generation == 3 && nvml_model(device)->max_links == 4)
        return 14062; /* boards with the smaller chip */
    return by_generation[link->generation];
}

unsigned int nvml_link_version(const struct nvml_link *link)
{
    static const unsigned int by_generation[] = {
        NVML_NVLINK_VERSION_INVALID, NVML_NVLINK_VERSION_1_0, NVML_NVLINK_VERSION_2_0,
        NVML_NVLINK_VERSION_3_1,     NVML_NVLINK_VERSION_4_0, NVML_NVLINK_VERSION_5_0};
    return by_generation[link->generation];
}

uint64_t nvml_link_errors(nvmlDevice_t device, unsigned int link, const char *key)
{
    char numbered[32];
    snprintf(numbered, sizeof(numbered), "%s.%u", key, link);
    return nvml_value(device, numbered, 0);
}

/* --- questions about one link -------------------------------------------------------------------
 */

static nvmlReturn_t enter_link(const char *call, nvmlDevice_t device, unsigned int link)
{
    NVML_TRY(nvml_enter_device(call, device));
    NVML_NEED(link < NVML_NVLINK_MAX_LINKS);
    unsigned int count = nvml_link_count(device);
    if (count == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    return link < count ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

/* The same for what only a link in use can tell. */
static nvmlReturn_t enter_active(const char *call, nvmlDevice_t device, unsigned int link,
                                 struct nvml_link *found)
{
    NVML_TRY(enter_link(call, device, link));
    *found = nvml_link(device, link);
    return found->active ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
                                      nvmlEnableState_t *active)
{
    NVML_TRY(enter_link(__func__, device, link));
    NVML_NEED(active);
    *active = nvml_link(device, link).active ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link,
                                        unsigned int *version)
{
    struct nvml_link found;
    NVML_TRY(enter_active(__func__, device, link, &found));
    NVML_NEED(version);
    *version = nvml_link_version(&found);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int link,
                                           nvmlNvLinkCapability_t capability, unsigned int *result)
{
    NVML_TRY(enter_link(__func__, device, link));
    NVML_NEED(result && capability < NVML_NVLINK_CAP_COUNT);
    *result = capability == NVML_NVLINK_CAP_P2P_SUPPORTED ||
              capability == NVML_NVLINK_CAP_P2P_ATOMICS || capability == NVML_NVLINK_CAP_VALID;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link,
                                                 nvmlIntNvLinkDeviceType_t *type)
{
    struct nvml_link found;
    NVML_TRY(enter_active(__func__, device, link, &found));
    NVML_NEED(type);
    *type = found.peer < 0 ? NVML_NVLINK_DEVICE_TYPE_SWITCH : NVML_NVLINK_DEVICE_TYPE_GPU;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
                                                 nvmlPciInfo_t *pci)
{
    struct nvml_link found;
    NVML_TRY(enter_active(__func__, device, link, &found));
    NVML_NEED(pci);
    struct gpusim_gpu_spec remote = {.pci_bus = SWITCH_BUS + found.remote};
    if (found.peer >= 0)
        remote = nvml.state->machine.gpus[found.peer];
    nvml_fill_pci(&remote, pci);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int link,
                                              nvmlPciInfo_t *pci)
{
    NVML_NEED(pci);
    nvmlPciInfo_t whole;
    NVML_TRY(nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, &whole));
    memset(whole.busId, 0, sizeof(whole.busId));
    memcpy(pci, &whole, NVML_PCI_V2_SIZE);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link,
                                             nvmlNvLinkErrorCounter_t counter,
                                             unsigned long long *value)
{
    static const char *const keys[] = {
        [NVML_NVLINK_ERROR_DL_REPLAY] = "replay",     [NVML_NVLINK_ERROR_DL_RECOVERY] = "recovery",
        [NVML_NVLINK_ERROR_DL_CRC_FLIT] = "crc-flit", [NVML_NVLINK_ERROR_DL_CRC_DATA] = "crc-data",
        [NVML_NVLINK_ERROR_DL_ECC_DATA] = "ecc",
    };
    struct nvml_link found;
    NVML_TRY(enter_active(__func__, device, link, &found));
    NVML_NEED(value && counter < NVML_NVLINK_ERROR_COUNT);
    *value = nvml_link_errors(device, link, keys[counter]);
    return NVML_SUCCESS;
}

/* --- fabric -------------------------------------------------------------------------------------
 */

/* None of the simulated machines is part of a fabric of several nodes. */
nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(info);
    *info = (nvmlGpuFabricInfo_t){.state = NVML_GPU_FABRIC_STATE_NOT_SUPPORTED};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *info)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(info);
    unsigned int version = info->version;
    if (version == nvmlGpuFabricInfo_v2)
        *(nvmlGpuFabricInfo_v2_t *)info = (nvmlGpuFabricInfo_v2_t){
            .version = version, .state = NVML_GPU_FABRIC_STATE_NOT_SUPPORTED};
    else if (version == nvmlGpuFabricInfo_v3)
        *info = (nvmlGpuFabricInfo_v3_t){.version = version,
                                         .state = NVML_GPU_FABRIC_STATE_NOT_SUPPORTED};
    else
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return NVML_SUCCESS;
}
