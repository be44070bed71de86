/* nvml_health.c - temperature, power and clocks, made from how busy the GPU is; and the modes that
 * an administrator sets.
 *
 * The figures are plausible, not measured: an idle GPU is cool, slow and draws a seventh of its
 * limit; a busy one is at its limit. They follow the busy time of the last sample period.
 */
#include "nvml_impl.h"

#include <stddef.h>
#include <unistd.h>

#define IDLE_MHZ      210u
#define IDLE_CELSIUS  30u
#define BUSY_CELSIUS  45u /* on top, at full load */
#define SLOW_CELSIUS  90u
#define STOP_CELSIUS  95u
#define IDLE_FRACTION 7u /* of the power limit */

static unsigned int busy_now(nvmlDevice_t device)
{
    nvml_refresh(device);
    return nvml_busy_percent(&nvml_gpu(device)->usage, gpusim_now(), NVML_PERIOD);
}

/* --- temperature --------------------------------------------------------------------------------
 */

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
                                      unsigned int *celsius)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(celsius && sensor < NVML_TEMPERATURE_COUNT);
    unsigned int truth = IDLE_CELSIUS + BUSY_CELSIUS * busy_now(device) / 100;
    *celsius = (unsigned int)nvml_value(device, "temperature", truth);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
    NVML_NEED(temperature);
    if (temperature->version != nvmlTemperature_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    unsigned int celsius;
    NVML_TRY(nvmlDeviceGetTemperature(device, temperature->sensorType, &celsius));
    temperature->temperature = (int)celsius;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device,
                                               nvmlTemperatureThresholds_t type,
                                               unsigned int *celsius)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(celsius && type < NVML_TEMPERATURE_THRESHOLD_COUNT);
    switch (type) {
    case NVML_TEMPERATURE_THRESHOLD_SHUTDOWN:
        *celsius = STOP_CELSIUS;
        return NVML_SUCCESS;
    case NVML_TEMPERATURE_THRESHOLD_SLOWDOWN:
    case NVML_TEMPERATURE_THRESHOLD_GPU_MAX:
    case NVML_TEMPERATURE_THRESHOLD_MEM_MAX:
        *celsius = SLOW_CELSIUS;
        return NVML_SUCCESS;
    default:
        return NVML_ERROR_NOT_SUPPORTED;
    }
}

nvmlReturn_t nvmlDeviceGetNumFans(nvmlDevice_t device, unsigned int *fans)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(fans);
    *fans = 0; /* the server's fans cool it */
    return NVML_SUCCESS;
}

/* --- power --------------------------------------------------------------------------------------
 */

static unsigned int limit_mw(nvmlDevice_t device)
{
    return gpusim_mode(&nvml_gpu(device)->modes.power_limit, nvml_model(device)->watts * 1000);
}

unsigned int nvml_power_mw(nvmlDevice_t device, unsigned int busy_percent)
{
    unsigned int idle = nvml_model(device)->watts * 1000 / IDLE_FRACTION;
    return idle + (unsigned int)((uint64_t)(limit_mw(device) - idle) * busy_percent / 100);
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *power_mw)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(power_mw);
    *power_mw = nvml_power_mw(device, busy_now(device));
    return NVML_SUCCESS;
}

/* Idle power since boot, and the rest for all the time that the GPU was busy. */
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *energy_mj)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(energy_mj);
    nvml_refresh(device);
    uint64_t idle = nvml_power_mw(device, 0), more = nvml_power_mw(device, 100) - idle;
    *energy_mj =
        (idle * (nvml_gpu(device)->now / 1000000) + more * (nvml_gpu(device)->busy / 1000000)) /
        1000;
    return NVML_SUCCESS;
}

static nvmlReturn_t power_limit(const char *call, nvmlDevice_t device, unsigned int *limit,
                                bool as_booted)
{
    NVML_TRY(nvml_enter_device(call, device));
    NVML_NEED(limit);
    *limit = as_booted ? nvml_model(device)->watts * 1000 : limit_mw(device);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int *limit)
{
    return power_limit(__func__, device, limit, false);
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int *limit)
{
    return power_limit(__func__, device, limit, false);
}

nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned int *limit)
{
    return power_limit(__func__, device, limit, true);
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *min,
                                                          unsigned int *max)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(min && max);
    *max = nvml_model(device)->watts * 1000;
    *min = *max / 4;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerManagementMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(mode);
    *mode = NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
}

/* --- clocks -------------------------------------------------------------------------------------
 */

unsigned int nvml_sm_mhz(nvmlDevice_t device, unsigned int busy_percent)
{
    return busy_percent ? nvml_model(device)->sm_mhz : IDLE_MHZ;
}

static nvmlReturn_t clock_mhz(const char *call, nvmlDevice_t device, nvmlClockType_t type,
                              unsigned int *mhz, bool maximum)
{
    NVML_TRY(nvml_enter_device(call, device));
    NVML_NEED(mhz && type < NVML_CLOCK_COUNT);
    if (type == NVML_CLOCK_MEM)
        *mhz = nvml_model(device)->memory_mhz;
    else
        *mhz = nvml_sm_mhz(device, maximum ? 100 : busy_now(device));
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz)
{
    return clock_mhz(__func__, device, type, mhz, false);
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz)
{
    return clock_mhz(__func__, device, type, mhz, true);
}

nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, nvmlClockType_t type,
                                            unsigned int *mhz)
{
    return clock_mhz(__func__, device, type, mhz, true);
}

nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t device, nvmlClockType_t type,
                                                   unsigned int *mhz)
{
    return clock_mhz(__func__, device, type, mhz, true);
}

nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t type, nvmlClockId_t id,
                                unsigned int *mhz)
{
    NVML_NEED(id < NVML_CLOCK_ID_COUNT);
    return clock_mhz(__func__, device, type, mhz, id != NVML_CLOCK_ID_CURRENT);
}

nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, nvmlPstates_t *state)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(state);
    *state = busy_now(device) ? NVML_PSTATE_0 : NVML_PSTATE_8;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerState(nvmlDevice_t device, nvmlPstates_t *state)
{
    return nvmlDeviceGetPerformanceState(device, state);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device,
                                                    unsigned long long *reasons)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(reasons);
    *reasons = busy_now(device) ? 0 : nvmlClocksEventReasonGpuIdle;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device,
                                                       unsigned long long *reasons)
{
    return nvmlDeviceGetCurrentClocksEventReasons(device, reasons);
}

nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t device,
                                                      unsigned long long *reasons)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(reasons);
    *reasons = nvmlClocksEventReasonGpuIdle;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedClocksThrottleReasons(nvmlDevice_t device,
                                                         unsigned long long *reasons)
{
    return nvmlDeviceGetSupportedClocksEventReasons(device, reasons);
}

/* --- modes --------------------------------------------------------------------------------------
 */

#define MODE(name) offsetof(struct gpusim_modes, name)

/* Store a mode: root's to do, seen by all processes at once. */
static nvmlReturn_t set_mode(const char *call, nvmlDevice_t device, size_t mode, uint32_t value)
{
    NVML_TRY(nvml_enter_device(call, device));
    if (geteuid() != 0)
        return NVML_ERROR_NO_PERMISSION;
    *(_Atomic uint32_t *)((char *)&nvml_gpu(device)->modes + mode) = value + 1;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, unsigned int limit)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    unsigned int max = nvml_model(device)->watts * 1000;
    NVML_NEED(limit >= max / 4 && limit <= max);
    return set_mode(__func__, device, MODE(power_limit), limit);
}

nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(mode);
    *mode = gpusim_mode(&nvml_gpu(device)->modes.persistence, nvml_spec(device)->persistence);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t mode)
{
    NVML_NEED(mode <= NVML_FEATURE_ENABLED);
    return set_mode(__func__, device, MODE(persistence), mode);
}

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, nvmlComputeMode_t *mode)
{
    static const nvmlComputeMode_t modes[] = {
        [GPUSIM_COMPUTE_DEFAULT] = NVML_COMPUTEMODE_DEFAULT,
        [GPUSIM_COMPUTE_EXCLUSIVE] = NVML_COMPUTEMODE_EXCLUSIVE_PROCESS,
        [GPUSIM_COMPUTE_PROHIBITED] = NVML_COMPUTEMODE_PROHIBITED,
    };
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(mode);
    *mode = modes[gpusim_mode(&nvml_gpu(device)->modes.compute, nvml_spec(device)->compute)];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, nvmlComputeMode_t mode)
{
    enum gpusim_compute value = GPUSIM_COMPUTE_DEFAULT;
    NVML_NEED(mode < NVML_COMPUTEMODE_COUNT);
    if (mode == NVML_COMPUTEMODE_EXCLUSIVE_THREAD)
        return NVML_ERROR_NOT_SUPPORTED;
    if (mode == NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)
        value = GPUSIM_COMPUTE_EXCLUSIVE;
    if (mode == NVML_COMPUTEMODE_PROHIBITED)
        value = GPUSIM_COMPUTE_PROHIBITED;
    return set_mode(__func__, device, MODE(compute), value);
}

nvmlReturn_t nvmlDeviceGetAccountingMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(mode);
    *mode = gpusim_mode(&nvml_gpu(device)->modes.accounting, NVML_FEATURE_DISABLED);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetAccountingMode(nvmlDevice_t device, nvmlEnableState_t mode)
{
    NVML_NEED(mode <= NVML_FEATURE_ENABLED);
    return set_mode(__func__, device, MODE(accounting), mode);
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(current && pending);
    if (!nvml_model(device)->mig)
        return NVML_ERROR_NOT_SUPPORTED;
    *current = *pending = gpusim_mode(&nvml_gpu(device)->modes.mig, nvml_spec(device)->mig);
    return NVML_SUCCESS;
}

/* The mode changes, for those who ask; the simulator makes no instances. */
nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode, nvmlReturn_t *activation)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(activation && mode <= NVML_DEVICE_MIG_ENABLE);
    if (!nvml_model(device)->mig)
        return NVML_ERROR_NOT_SUPPORTED;
    *activation = NVML_SUCCESS;
    return set_mode(__func__, device, MODE(mig), mode);
}

nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, nvmlEnableState_t *display)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(display);
    *display = NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, nvmlEnableState_t *active)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(active);
    *active = NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}
