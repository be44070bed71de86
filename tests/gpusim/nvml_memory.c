/* nvml_memory.c - device memory, BAR1, and what is known of memory errors. */
#include "nvml_impl.h"

/* --- memory -------------------------------------------------------------------------------------
 */

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(memory);
    nvml_refresh(device);
    uint64_t total = nvml_spec(device)->memory, used = nvml_gpu(device)->used;
    *memory = (nvmlMemory_t){.total = total, .free = total - used, .used = used};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(memory);
    if (memory->version != nvmlMemory_v2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvml_refresh(device);
    uint64_t total = nvml_spec(device)->memory, used = nvml_gpu(device)->used;
    *memory = (nvmlMemory_v2_t){
        .version = nvmlMemory_v2, .total = total, .free = total - used, .used = used};
    return NVML_SUCCESS;
}

/* A window as large as the memory, of which each context maps a little. */
nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(memory);
    nvml_refresh(device);
    uint64_t total = 256ull << 20, used = 1ull << 20;
    while (total < nvml_spec(device)->memory)
        total *= 2;
    for (uint32_t i = 0; i < nvml.state->process_limit; i++)
        if (gpusim_listed(nvml.state, (int)i))
            used += nvml.state->processes[i].gpus[device->gpu].contexts * (2ull << 20);
    *memory = (nvmlBAR1Memory_t){.bar1Total = total, .bar1Free = total - used, .bar1Used = used};
    return NVML_SUCCESS;
}

/* --- memory errors ------------------------------------------------------------------------------
 */

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current,
                                  nvmlEnableState_t *pending)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(current && pending);
    if (!nvml_model(device)->ecc)
        return NVML_ERROR_NOT_SUPPORTED;
    *current = *pending = NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetDefaultEccMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
    nvmlEnableState_t pending;
    return nvmlDeviceGetEccMode(device, mode, &pending);
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t error,
                                         nvmlEccCounterType_t counter, unsigned long long *count)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(count && error < NVML_MEMORY_ERROR_TYPE_COUNT &&
              counter < NVML_ECC_COUNTER_TYPE_COUNT);
    if (!nvml_model(device)->ecc)
        return NVML_ERROR_NOT_SUPPORTED;
    *count = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t error,
                                             nvmlEccCounterType_t counter,
                                             nvmlMemoryLocation_t location,
                                             unsigned long long *count)
{
    NVML_NEED(location < NVML_MEMORY_LOCATION_COUNT);
    return nvmlDeviceGetTotalEccErrors(device, error, counter, count);
}

nvmlReturn_t nvmlDeviceGetDetailedEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t error,
                                            nvmlEccCounterType_t counter,
                                            nvmlEccErrorCounts_t *counts)
{
    NVML_NEED(counts);
    unsigned long long total;
    NVML_TRY(nvmlDeviceGetTotalEccErrors(device, error, counter, &total));
    *counts = (nvmlEccErrorCounts_t){.deviceMemory = total};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, nvmlPageRetirementCause_t cause,
                                       unsigned int *count, unsigned long long *addresses)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(count && cause < NVML_PAGE_RETIREMENT_CAUSE_COUNT && (addresses || !*count));
    *count = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, nvmlEnableState_t *pending)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(pending);
    *pending = NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *correctable,
                                       unsigned int *uncorrectable, unsigned int *pending,
                                       unsigned int *failed)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(correctable && uncorrectable && pending && failed);
    if (nvml_model(device)->architecture < NVML_DEVICE_ARCH_AMPERE)
        return NVML_ERROR_NOT_SUPPORTED;
    *correctable = *uncorrectable = *pending = *failed = 0;
    return NVML_SUCCESS;
}
