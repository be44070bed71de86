/* nvml_impl.h - what the parts of the simulated libnvidia-ml share.
 *
 * Every function of nvml.h is exported. Those with an answer are in nvml_*.c; the rest are the weak
 * definitions that nvml_defaults.py writes. The answers come from the machine file and from the
 * state that libcuda keeps (state.h).
 */
#ifndef GPUSIM_NVML_IMPL_H
#define GPUSIM_NVML_IMPL_H

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#pragma GCC visibility push(default)
#include <nvml.h>

/* Still exported by drivers, though the header only has macros for them. */
nvmlReturn_t nvmlGetBlacklistDeviceCount(unsigned int *deviceCount);
nvmlReturn_t nvmlGetBlacklistDeviceInfoByIndex(unsigned int index, nvmlExcludedDeviceInfo_t *info);
#pragma GCC visibility pop

#include "fault.h"
#include "state.h"

#include <stddef.h>

#define NVML_WEAK __attribute__((weak))

struct nvmlDevice_st {
    uint32_t gpu; /* in the machine */
    bool visible;
};

/* The library's only variable. */
struct nvml {
    pthread_mutex_t lock;        /* of references and the opening */
    _Atomic uint32_t references; /* nvmlInit less nvmlShutdown */
    struct gpusim_state *state;  /* stays mapped once it is */
    struct gpusim_faults faults;
    struct nvmlDevice_st devices[GPUSIM_MAX_GPUS]; /* by place in the machine */
    uint32_t order[GPUSIM_MAX_GPUS];               /* NVML index -> place in the machine */
    uint32_t n_devices;                            /* that this process may open */
    uint64_t epoch_us; /* time since 1970 less CLOCK_MONOTONIC, so that time stamps compare */
};
extern struct nvml nvml;

/* Leave the function with an error, if there is one. */
#define NVML_TRY(call)                                                                             \
    do {                                                                                           \
        nvmlReturn_t rc_ = (call);                                                                 \
        if (rc_ != NVML_SUCCESS)                                                                   \
            return rc_;                                                                            \
    } while (0)

/* INVALID_ARGUMENT unless the condition holds. */
#define NVML_NEED(condition)                                                                       \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return NVML_ERROR_INVALID_ARGUMENT;                                                    \
    } while (0)

/* First thing in every function: is NVML initialised, is a fault to be injected here? */
nvmlReturn_t nvml_enter(const char *call);

/* The same for a function about a device, which must be one that this process was given. */
nvmlReturn_t nvml_enter_device(const char *call, nvmlDevice_t device);

/* What the weak definitions answer. */
nvmlReturn_t nvml_not_supported(const char *call);

/* Is it one of this process' devices? */
bool nvml_is_device(nvmlDevice_t device);

/* Copy a text into the caller's buffer: INVALID_ARGUMENT without one, INSUFFICIENT_SIZE if it is
 * too small. */
nvmlReturn_t nvml_text(char *out, unsigned int length, const char *text);

/* Let time pass on the device's GPU and take the dead out, before its use is looked at. */
void nvml_refresh(nvmlDevice_t device);

/* Fill in a PCI address. */
void nvml_fill_pci(const struct gpusim_gpu_spec *gpu, nvmlPciInfo_t *pci);

/* The older records of it end before the subsystem, or have four reserved words for the new busId.
 */
#define NVML_PCI_V1_SIZE offsetof(nvmlPciInfo_t, pciSubSystemId)
#define NVML_PCI_V2_SIZE (offsetof(nvmlPciInfo_t, busId) + 4 * sizeof(unsigned int))

/* What a fault makes NVML say for the key, else what is true. */
uint64_t nvml_value(nvmlDevice_t device, const char *key, uint64_t truth);

/* Busy per cent of a GPU, or of a process on it, over the last `windows` windows. */
unsigned int nvml_busy_percent(const struct gpusim_usage *usage, uint64_t now,
                               unsigned int windows);

/* Windows that "the last sample period" stands for: 1/6 to 1 s on real cards. */
#define NVML_PERIOD 2u

/* Microseconds since 1970 of a CLOCK_MONOTONIC time. */
static inline uint64_t nvml_time_us(uint64_t monotonic_ns)
{
    return nvml.epoch_us + monotonic_ns / 1000;
}

static inline const struct gpusim_gpu_spec *nvml_spec(nvmlDevice_t device)
{
    return &nvml.state->machine.gpus[device->gpu];
}

static inline struct gpusim_gpu *nvml_gpu(nvmlDevice_t device)
{
    return &nvml.state->gpus[device->gpu];
}

/* What a kind of GPU is like beyond the machine file: by compute capability, in nvml_models.c. */
struct nvml_model {
    uint32_t cc; /* major * 10 + minor */
    nvmlDeviceArchitecture_t architecture;
    nvmlBrandType_t brand;
    uint32_t cores_per_sm;
    uint32_t sm_mhz, memory_mhz; /* at full speed */
    uint32_t bus_bits;
    uint32_t watts;
    uint32_t max_links; /* NVLinks on the chip */
    bool ecc, mig;
};

const struct nvml_model *nvml_model(nvmlDevice_t device);

/* What a GPU that is busy for so many per cent of the time draws, and how fast it is clocked. */
unsigned int nvml_power_mw(nvmlDevice_t device, unsigned int busy_percent);
unsigned int nvml_sm_mhz(nvmlDevice_t device, unsigned int busy_percent);

#endif
