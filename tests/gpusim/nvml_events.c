/* nvml_events.c - event sets: waiting for XID errors. */
#include "nvml_impl.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POLL_NS 20000000ull /* how often a waiter looks */

/* For each device: which events are wanted, and how many XIDs it had when that was last looked at.
 */
struct nvmlEventSet_st {
    unsigned long long wanted[GPUSIM_MAX_GPUS];
    uint64_t seen[GPUSIM_MAX_GPUS];
};

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    NVML_TRY(nvml_enter(__func__));
    NVML_NEED(set);
    *set = calloc(1, sizeof(**set));
    return *set ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    NVML_TRY(nvml_enter(__func__));
    NVML_NEED(set);
    free(set);
    return NVML_SUCCESS;
}

/* Those that can be asked for; only an XID ever comes. */
#define SUPPORTED                                                                                  \
    (nvmlEventTypeXidCriticalError | nvmlEventTypeSingleBitEccError |                              \
     nvmlEventTypeDoubleBitEccError | nvmlEventTypePState)

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(types);
    *types = SUPPORTED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                      nvmlEventSet_t set)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(set && !(types & ~nvmlEventTypeAll));
    if (types & ~(unsigned long long)SUPPORTED)
        return NVML_ERROR_NOT_SUPPORTED;
    if (!set->wanted[device->gpu])
        set->seen[device->gpu] = nvml_gpu(device)->xids;
    set->wanted[device->gpu] |= types;
    return NVML_SUCCESS;
}

/* Take the next event of any device out of the set. */
static bool take(nvmlEventSet_t set, nvmlEventData_t *data)
{
    for (uint32_t i = 0; i < nvml.state->machine.n_gpus; i++) {
        struct gpusim_gpu *gpu = &nvml.state->gpus[i];
        if (!(set->wanted[i] & nvmlEventTypeXidCriticalError) || set->seen[i] == gpu->xids)
            continue;
        set->seen[i]++;
        *data = (nvmlEventData_t){.device = &nvml.devices[i],
                                  .eventType = nvmlEventTypeXidCriticalError,
                                  .eventData = gpu->last_xid,
                                  .gpuInstanceId = UINT32_MAX,
                                  .computeInstanceId = UINT32_MAX};
        return true;
    }
    return false;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
    NVML_TRY(nvml_enter(__func__));
    NVML_NEED(set && data);
    uint64_t deadline = gpusim_now() + timeout_ms * 1000000ull;
    while (!take(set, data)) {
        uint64_t now = gpusim_now();
        if (now >= deadline)
            return NVML_ERROR_TIMEOUT;
        uint64_t ns = deadline - now < POLL_NS ? deadline - now : POLL_NS;
        struct timespec pause = {.tv_nsec = (long)ns};
        nanosleep(&pause, NULL);
        gpusim_faults_refresh(&nvml.faults, nvml.state);
    }
    return NVML_SUCCESS;
}

/* Its record ends before the MIG instances. */
nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
    NVML_NEED(data);
    nvmlEventData_t whole;
    NVML_TRY(nvmlEventSetWait_v2(set, &whole, timeout_ms));
    memcpy(data, &whole, offsetof(nvmlEventData_t, gpuInstanceId));
    return NVML_SUCCESS;
}
