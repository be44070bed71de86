/* nvml_init.c - nvmlInit and nvmlShutdown, which GPUs the process may use, and questions about the
 * system. */
#include "nvml_impl.h"

#include "access.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct nvml nvml = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Symbols are hidden before anybody can look for them. */
__attribute__((constructor)) static void load(void)
{
    if (!gpusim_faults_open(&nvml.faults, GPUSIM_DIR))
        return;
    gpusim_faults_refresh(&nvml.faults, NULL);
    gpusim_hide_symbols(&nvml.faults, &nvml);
}

/* --- init and shutdown ------------------------------------------------------------------------ */

static uint64_t pci_order(const struct gpusim_gpu_spec *gpu)
{
    return (uint64_t)gpu->pci_domain << 16 | gpu->pci_bus << 8 | gpu->pci_device;
}

static int by_pci(const void *a, const void *b)
{
    const struct gpusim_gpu_spec *gpus = nvml.state->machine.gpus;
    uint64_t left = pci_order(&gpus[*(const uint32_t *)a]);
    uint64_t right = pci_order(&gpus[*(const uint32_t *)b]);
    return left < right ? -1 : left > right;
}

/* A GPU whose device file cannot be opened is left out, and the others move up, as in a job whose
 * devices are constrained. */
static void find_devices(void)
{
    nvml.n_devices = 0;
    for (uint32_t i = 0; i < nvml.state->machine.n_gpus; i++) {
        bool visible = gpusim_access_gpu(nvml.state->machine.gpus[i].minor) == 0;
        nvml.devices[i] = (struct nvmlDevice_st){.gpu = i, .visible = visible};
        if (visible)
            nvml.order[nvml.n_devices++] = i;
    }
    qsort(nvml.order, nvml.n_devices, sizeof(nvml.order[0]), by_pci);
}

static uint64_t epoch_us(void)
{
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    return (uint64_t)wall.tv_sec * 1000000 + (uint64_t)wall.tv_nsec / 1000 - gpusim_now() / 1000;
}

static nvmlReturn_t start(void)
{
    switch (gpusim_access_control()) {
    case 0:
        break;
    case EACCES:
    case EPERM:
        return NVML_ERROR_NO_PERMISSION;
    default:
        return NVML_ERROR_DRIVER_NOT_LOADED;
    }
    if (!nvml.state) {
        nvml.state = gpusim_open(GPUSIM_DIR, NULL);
        nvml.epoch_us = epoch_us();
    }
    if (!nvml.state)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    find_devices();
    return NVML_SUCCESS;
}

static nvmlReturn_t fault(const char *call)
{
    bool garbage;
    gpusim_faults_refresh(&nvml.faults, nvml.state);
    return (nvmlReturn_t)gpusim_fault(&nvml.faults, call, &garbage);
}

static nvmlReturn_t init(const char *call)
{
    pthread_mutex_lock(&nvml.lock);
    nvmlReturn_t rc = nvml.references ? NVML_SUCCESS : start();
    if (rc == NVML_SUCCESS)
        rc = fault(call);
    if (rc == NVML_SUCCESS)
        nvml.references++;
    pthread_mutex_unlock(&nvml.lock);
    return rc;
}

nvmlReturn_t nvmlInit(void)
{
    return init(__func__);
}

nvmlReturn_t nvmlInit_v2(void)
{
    return init(__func__);
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    NVML_NEED(flags <= (NVML_INIT_FLAG_NO_GPUS | NVML_INIT_FLAG_NO_ATTACH));
    return init(__func__);
}

nvmlReturn_t nvmlShutdown(void)
{
    pthread_mutex_lock(&nvml.lock);
    nvmlReturn_t rc = nvml.references ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
    if (rc == NVML_SUCCESS)
        nvml.references--;
    pthread_mutex_unlock(&nvml.lock);
    return rc;
}

/* --- what every function starts with ------------------------------------------------------------
 */

nvmlReturn_t nvml_enter(const char *call)
{
    if (!nvml.references)
        return NVML_ERROR_UNINITIALIZED;
    return fault(call);
}

uint64_t nvml_value(nvmlDevice_t device, const char *key, uint64_t truth)
{
    uint64_t value = truth;
    gpusim_faults_value(&nvml.faults, key, device->gpu, &value);
    return value;
}

bool nvml_is_device(nvmlDevice_t device)
{
    for (uint32_t i = 0; i < nvml.n_devices; i++)
        if (device == &nvml.devices[nvml.order[i]])
            return true;
    return false;
}

nvmlReturn_t nvml_enter_device(const char *call, nvmlDevice_t device)
{
    NVML_TRY(nvml_enter(call));
    return nvml_is_device(device) ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvml_not_supported(const char *call)
{
    NVML_TRY(nvml_enter(call));
    return NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvml_text(char *out, unsigned int length, const char *text)
{
    NVML_NEED(out);
    size_t needed = strlen(text) + 1;
    if (length < needed)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(out, text, needed);
    return NVML_SUCCESS;
}

void nvml_refresh(nvmlDevice_t device)
{
    gpusim_reap(nvml.state);
    gpusim_advance(nvml.state, (int)device->gpu);
}

/* --- errors -------------------------------------------------------------------------------------
 */

const char *nvmlErrorString(nvmlReturn_t result)
{
    static const char *const texts[] = {
        [NVML_SUCCESS] = "Success",
        [NVML_ERROR_UNINITIALIZED] = "Uninitialized",
        [NVML_ERROR_INVALID_ARGUMENT] = "Invalid Argument",
        [NVML_ERROR_NOT_SUPPORTED] = "Not Supported",
        [NVML_ERROR_NO_PERMISSION] = "Insufficient Permissions",
        [NVML_ERROR_ALREADY_INITIALIZED] = "Already Initialized",
        [NVML_ERROR_NOT_FOUND] = "Not Found",
        [NVML_ERROR_INSUFFICIENT_SIZE] = "Insufficient Size",
        [NVML_ERROR_INSUFFICIENT_POWER] = "Insufficient External Power",
        [NVML_ERROR_DRIVER_NOT_LOADED] = "Driver Not Loaded",
        [NVML_ERROR_TIMEOUT] = "Timeout",
        [NVML_ERROR_IRQ_ISSUE] = "Interrupt Request Issue",
        [NVML_ERROR_LIBRARY_NOT_FOUND] = "NVML Shared Library Not Found",
        [NVML_ERROR_FUNCTION_NOT_FOUND] = "Function Not Found",
        [NVML_ERROR_CORRUPTED_INFOROM] = "Corrupted infoROM",
        [NVML_ERROR_GPU_IS_LOST] = "GPU is lost",
        [NVML_ERROR_RESET_REQUIRED] = "GPU requires restart",
        [NVML_ERROR_OPERATING_SYSTEM] = "The operating system has blocked the request.",
        [NVML_ERROR_LIB_RM_VERSION_MISMATCH] = "Driver/library version mismatch",
        [NVML_ERROR_IN_USE] = "In use by another client",
        [NVML_ERROR_MEMORY] = "Insufficient Memory",
        [NVML_ERROR_NO_DATA] = "No data",
        [NVML_ERROR_VGPU_ECC_NOT_SUPPORTED] = "Not supported with ECC enabled",
        [NVML_ERROR_INSUFFICIENT_RESOURCES] = "Insufficient Resources",
        [NVML_ERROR_FREQ_NOT_SUPPORTED] = "Frequency not supported",
        [NVML_ERROR_ARGUMENT_VERSION_MISMATCH] = "Argument Version Mismatch",
        [NVML_ERROR_DEPRECATED] = "Deprecated",
        [NVML_ERROR_NOT_READY] = "Not Ready",
        [NVML_ERROR_GPU_NOT_FOUND] = "No supported GPUs were found",
        [NVML_ERROR_INVALID_STATE] = "Invalid State",
        [NVML_ERROR_RESET_TYPE_NOT_SUPPORTED] = "Reset type not supported",
    };
    if ((unsigned int)result < sizeof(texts) / sizeof(texts[0]))
        return texts[result];
    return "Unknown Error";
}

/* --- the system ---------------------------------------------------------------------------------
 */

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    NVML_TRY(nvml_enter(__func__));
    return nvml_text(version, length, nvml.state->machine.driver);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    NVML_TRY(nvml_enter(__func__));
    char text[64];
    snprintf(text, sizeof(text), "%d.%s", nvml.state->machine.cuda / 1000,
             nvml.state->machine.driver);
    return nvml_text(version, length, text);
}

nvmlReturn_t nvmlSystemGetDriverBranch(nvmlSystemDriverBranchInfo_t *branch, unsigned int length)
{
    NVML_TRY(nvml_enter(__func__));
    NVML_NEED(branch);
    char text[64];
    snprintf(text, sizeof(text), "r%.3s_00", nvml.state->machine.driver);
    return nvml_text(branch->branch, length, text);
}

/* What cuDriverGetVersion says, if there is a CUDA driver library to ask. */
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    NVML_TRY(nvml_enter(__func__));
    NVML_NEED(version);
    void *library = dlopen("libcuda.so.1", RTLD_LAZY);
    if (!library)
        return NVML_ERROR_LIBRARY_NOT_FOUND;
    union {
        void *symbol;
        int (*call)(int *);
    } get = {.symbol = dlsym(library, "cuDriverGetVersion")};
    nvmlReturn_t rc = NVML_ERROR_FUNCTION_NOT_FOUND;
    if (get.symbol)
        rc = get.call(version) == 0 ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
    dlclose(library);
    return rc;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    NVML_TRY(nvml_enter(__func__));
    NVML_NEED(version);
    *version = nvml.state->machine.cuda;
    return NVML_SUCCESS;
}

/* The command line's first word, cropped to the caller's room. */
nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
    NVML_TRY(nvml_enter(__func__));
    NVML_NEED(name && length);
    char path[32], text[1024] = "";
    snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES ? NVML_ERROR_NO_PERMISSION : NVML_ERROR_NOT_FOUND;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n < 0)
        return NVML_ERROR_NOT_FOUND;
    snprintf(name, length, "%s", text);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGetExcludedDeviceCount(unsigned int *count)
{
    NVML_NEED(count);
    *count = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGetBlacklistDeviceCount(unsigned int *count)
{
    return nvmlGetExcludedDeviceCount(count);
}

nvmlReturn_t nvmlUnitGetCount(unsigned int *count)
{
    NVML_TRY(nvml_enter(__func__));
    NVML_NEED(count);
    *count = 0; /* S-class enclosures */
    return NVML_SUCCESS;
}
