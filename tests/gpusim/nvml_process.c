/* nvml_process.c - which processes use a device, and how much of it. */
#include "nvml_impl.h"

#include <unistd.h>

/* --- running processes --------------------------------------------------------------------------
 */

static bool in_list(int i, uint32_t gpu, enum gpusim_process_type type)
{
    const struct gpusim_process *process = &nvml.state->processes[i];
    const struct gpusim_account *account = &process->gpus[gpu];
    return gpusim_listed(nvml.state, i) && process->type == type &&
           (account->contexts || account->bytes);
}

static unsigned int pid_of(nvmlDevice_t device, int i)
{
    return (unsigned int)nvml_value(device, "pid", (uint64_t)nvml.state->processes[i].pid);
}

/* The three lists of processes that NVML keeps for a device. A record is the first version's, of
 * pid and bytes, or (wide) the later ones', which add the MIG instances. */
static nvmlReturn_t running(const char *call, nvmlDevice_t device, enum gpusim_process_type type,
                            unsigned int *count, nvmlProcessInfo_v1_t *infos,
                            nvmlProcessInfo_v2_t *wide)
{
    NVML_TRY(nvml_enter_device(call, device));
    NVML_NEED(count && (infos || wide || *count == 0));
    nvml_refresh(device);
    unsigned int n = 0, room = *count;
    uint64_t most = nvml_value(device, "processes", GPUSIM_MAX_PROCESSES);
    for (int i = 0; i < (int)nvml.state->process_limit && n < most; i++) {
        if (!in_list(i, device->gpu, type))
            continue;
        unsigned int pid = pid_of(device, i);
        unsigned long long bytes = nvml.state->processes[i].gpus[device->gpu].bytes;
        if (n < room && infos)
            infos[n] = (nvmlProcessInfo_v1_t){.pid = pid, .usedGpuMemory = bytes};
        if (n < room && wide)
            wide[n] = (nvmlProcessInfo_v2_t){pid, bytes, UINT32_MAX, UINT32_MAX};
        n++;
    }
    *count = n;
    return n > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *count,
                                                  nvmlProcessInfo_v1_t *infos)
{
    return running(__func__, device, GPUSIM_COMPUTE, count, infos, NULL);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
                                                     nvmlProcessInfo_v2_t *infos)
{
    return running(__func__, device, GPUSIM_COMPUTE, count, NULL, infos);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                     nvmlProcessInfo_t *infos)
{
    return running(__func__, device, GPUSIM_COMPUTE, count, NULL, infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned int *count,
                                                   nvmlProcessInfo_v1_t *infos)
{
    return running(__func__, device, GPUSIM_GRAPHICS, count, infos, NULL);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
                                                      nvmlProcessInfo_v2_t *infos)
{
    return running(__func__, device, GPUSIM_GRAPHICS, count, NULL, infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                      nvmlProcessInfo_t *infos)
{
    return running(__func__, device, GPUSIM_GRAPHICS, count, NULL, infos);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t device, unsigned int *count,
                                                     nvmlProcessInfo_v1_t *infos)
{
    return running(__func__, device, GPUSIM_MPS, count, infos, NULL);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
                                                        nvmlProcessInfo_v2_t *infos)
{
    return running(__func__, device, GPUSIM_MPS, count, NULL, infos);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                        nvmlProcessInfo_t *infos)
{
    return running(__func__, device, GPUSIM_MPS, count, NULL, infos);
}

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
                                                   nvmlProcessDetailList_t *list)
{
    NVML_NEED(list);
    if (list->version != nvmlProcessDetailList_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    NVML_NEED(list->mode <= GPUSIM_MPS && (list->procArray || !list->numProcArrayEntries));
    nvmlProcessInfo_v2_t found[GPUSIM_MAX_PROCESSES];
    unsigned int room = list->numProcArrayEntries, n = GPUSIM_MAX_PROCESSES;
    NVML_TRY(running(__func__, device, list->mode, &n, NULL, found));
    list->numProcArrayEntries = n;
    if (n > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < n; i++)
        list->procArray[i] = (nvmlProcessDetail_v1_t){.pid = found[i].pid,
                                                      .usedGpuMemory = found[i].usedGpuMemory,
                                                      .gpuInstanceId = UINT32_MAX,
                                                      .computeInstanceId = UINT32_MAX};
    return NVML_SUCCESS;
}

/* --- utilisation --------------------------------------------------------------------------------
 */

/* The driver's sample buffer: one sample for each full window, stamped with its end. */
struct windows {
    uint64_t end;   /* CLOCK_MONOTONIC ns: end of the newest */
    unsigned int n; /* those that are newer than the caller has seen */
};

static struct windows new_windows(nvmlDevice_t device, uint64_t seen_us)
{
    nvml_refresh(device);
    struct windows windows = {.end = gpusim_now() / GPUSIM_WINDOW_NS * GPUSIM_WINDOW_NS};
    while (windows.n < GPUSIM_WINDOWS - 1 &&
           nvml_time_us(windows.end - windows.n * GPUSIM_WINDOW_NS) > seen_us)
        windows.n++;
    return windows;
}

/* At least 1 for anything that was busy at all. */
unsigned int nvml_busy_percent(const struct gpusim_usage *usage, uint64_t now, unsigned int windows)
{
    uint64_t busy = gpusim_usage_sum(usage, now, windows), whole = windows * GPUSIM_WINDOW_NS;
    unsigned int percent = whole ? (unsigned int)((busy * 100 + whole / 2) / whole) : 0;
    return busy && !percent ? 1 : percent;
}

static unsigned int utilization_of(nvmlDevice_t device, const struct gpusim_usage *usage,
                                   struct windows windows)
{
    unsigned int percent = nvml_busy_percent(usage, windows.end, windows.n);
    return (unsigned int)nvml_value(device, "utilization", percent);
}

static unsigned long long stamp(nvmlDevice_t device, uint64_t end)
{
    return nvml_value(device, "timestamp", nvml_time_us(end));
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(utilization);
    nvml_refresh(device);
    struct windows period = {.end = gpusim_now(), .n = NVML_PERIOD};
    *utilization =
        (nvmlUtilization_t){.gpu = utilization_of(device, &nvml_gpu(device)->usage, period)};
    return NVML_SUCCESS;
}

struct process_use {
    unsigned int pid, percent;
};

/* The processes that used the device in the windows. */
static unsigned int used_by(nvmlDevice_t device, struct windows windows,
                            struct process_use use[GPUSIM_MAX_PROCESSES])
{
    unsigned int n = 0;
    for (int i = 0; i < (int)nvml.state->process_limit; i++) {
        const struct gpusim_process *process = &nvml.state->processes[i];
        if (!in_list(i, device->gpu, process->type) || windows.n == 0)
            continue;
        unsigned int percent = utilization_of(device, &process->gpus[device->gpu].usage, windows);
        if (percent)
            use[n++] = (struct process_use){pid_of(device, i), percent};
    }
    return n;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                             nvmlProcessUtilizationSample_t *samples,
                                             unsigned int *count, unsigned long long seen_us)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(count);
    struct process_use use[GPUSIM_MAX_PROCESSES];
    struct windows windows = new_windows(device, seen_us);
    unsigned int room = samples ? *count : 0;
    *count = used_by(device, windows, use);
    if (*count == 0)
        return NVML_ERROR_NOT_FOUND;
    if (*count > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < *count; i++)
        samples[i] = (nvmlProcessUtilizationSample_t){
            .pid = use[i].pid, .timeStamp = stamp(device, windows.end), .smUtil = use[i].percent};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device,
                                                   nvmlProcessesUtilizationInfo_t *info)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(info);
    if (info->version != nvmlProcessesUtilizationInfo_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    struct process_use use[GPUSIM_MAX_PROCESSES];
    struct windows windows = new_windows(device, info->lastSeenTimeStamp);
    unsigned int n = used_by(device, windows, use);
    unsigned int room = info->procUtilArray ? info->processSamplesCount : 0;
    info->processSamplesCount = n;
    if (n == 0)
        return NVML_ERROR_NOT_FOUND;
    if (n > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < n; i++)
        info->procUtilArray[i] = (nvmlProcessUtilizationInfo_v1_t){
            .timeStamp = stamp(device, windows.end), .pid = use[i].pid, .smUtil = use[i].percent};
    return NVML_SUCCESS;
}

static bool sample_value(nvmlDevice_t device, nvmlSamplingType_t type, uint64_t end,
                         unsigned int *value)
{
    struct windows window = {.end = end, .n = 1};
    unsigned int busy = utilization_of(device, &nvml_gpu(device)->usage, window);
    switch (type) {
    case NVML_GPU_UTILIZATION_SAMPLES:
        *value = busy;
        return true;
    case NVML_TOTAL_POWER_SAMPLES:
        *value = nvml_power_mw(device, busy);
        return true;
    case NVML_PROCESSOR_CLK_SAMPLES:
        *value = nvml_sm_mhz(device, busy);
        return true;
    case NVML_MEMORY_CLK_SAMPLES:
        *value = nvml_model(device)->memory_mhz;
        return true;
    case NVML_MEMORY_UTILIZATION_SAMPLES:
    case NVML_ENC_UTILIZATION_SAMPLES:
    case NVML_DEC_UTILIZATION_SAMPLES:
        *value = 0;
        return true;
    default:
        return false;
    }
}

nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, nvmlSamplingType_t type,
                                  unsigned long long seen_us, nvmlValueType_t *value_type,
                                  unsigned int *count, nvmlSample_t *samples)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(value_type && count && type < NVML_SAMPLINGTYPE_COUNT && (!samples || *count));
    struct windows windows = new_windows(device, seen_us);
    unsigned int value;
    if (!sample_value(device, type, windows.end, &value))
        return NVML_ERROR_NOT_SUPPORTED;
    if (windows.n == 0)
        return NVML_ERROR_NOT_FOUND;
    *value_type = NVML_VALUE_TYPE_UNSIGNED_INT;
    if (!samples || *count > windows.n)
        *count = windows.n;
    for (unsigned int i = 0; samples && i < *count; i++) { /* oldest first */
        uint64_t end = windows.end - (windows.n - 1 - i) * GPUSIM_WINDOW_NS;
        sample_value(device, type, end, &value);
        samples[i] =
            (nvmlSample_t){.timeStamp = stamp(device, end), .sampleValue = {.uiVal = value}};
    }
    return NVML_SUCCESS;
}

/* Video engines, which nothing here uses. */
static nvmlReturn_t video(const char *call, nvmlDevice_t device, unsigned int *utilization,
                          unsigned int *period_us)
{
    NVML_TRY(nvml_enter_device(call, device));
    NVML_NEED(utilization && period_us);
    *utilization = 0;
    *period_us = (unsigned int)(NVML_PERIOD * GPUSIM_WINDOW_NS / 1000);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned int *utilization,
                                             unsigned int *period_us)
{
    return video(__func__, device, utilization, period_us);
}

nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned int *utilization,
                                             unsigned int *period_us)
{
    return video(__func__, device, utilization, period_us);
}

/* --- accounting ---------------------------------------------------------------------------------
 */

/* Only of processes that run: the simulator keeps no records of past ones. */
static nvmlReturn_t enter_accounting(const char *call, nvmlDevice_t device)
{
    NVML_TRY(nvml_enter_device(call, device));
    nvml_refresh(device);
    return gpusim_mode(&nvml_gpu(device)->modes.accounting, NVML_FEATURE_DISABLED)
               ? NVML_SUCCESS
               : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned int *count,
                                         unsigned int *pids)
{
    NVML_TRY(enter_accounting(__func__, device));
    NVML_NEED(count && (pids || *count == 0));
    unsigned int n = 0, room = *count;
    for (int i = 0; i < (int)nvml.state->process_limit; i++) {
        if (!in_list(i, device->gpu, nvml.state->processes[i].type))
            continue;
        if (n < room)
            pids[n] = (unsigned int)nvml.state->processes[i].pid;
        n++;
    }
    *count = n;
    return n > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t device, unsigned int pid,
                                          nvmlAccountingStats_t *stats)
{
    NVML_TRY(enter_accounting(__func__, device));
    NVML_NEED(stats);
    for (int i = 0; i < (int)nvml.state->process_limit; i++) {
        const struct gpusim_process *process = &nvml.state->processes[i];
        if ((unsigned int)process->pid != pid || !in_list(i, device->gpu, process->type))
            continue;
        uint64_t started_ns = process->start_time * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
        uint64_t lived_ns = gpusim_now() - started_ns,
                 busy_ns = process->gpus[device->gpu].consumed;
        *stats = (nvmlAccountingStats_t){
            .gpuUtilization = lived_ns ? (unsigned int)(busy_ns * 100 / lived_ns) : 0,
            .maxMemoryUsage = process->gpus[device->gpu].peak,
            .startTime = nvml_time_us(started_ns),
            .isRunning = process->state == GPUSIM_ALIVE,
        };
        return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetAccountingBufferSize(nvmlDevice_t device, unsigned int *size)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(size);
    *size = GPUSIM_MAX_PROCESSES;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceClearAccountingPids(nvmlDevice_t device)
{
    NVML_TRY(enter_accounting(__func__, device));
    return geteuid() == 0 ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION;
}
