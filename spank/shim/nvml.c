/* nvml.c - NVML as a step sees it: its vGPUs, their memory, their processes. */
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include "shim/library.h"
#include "shim/measure.h"
#include "shim/pool.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* programs still call them */

static struct {
#define HOOK(symbol) __typeof__(&symbol) symbol;
#define USED(symbol) __typeof__(&symbol) symbol;
#include "shim/nvml.def"
#undef HOOK
#undef USED
} nvml_real;

#define NVML(symbol) (nvml_real.symbol)

static const struct hook hooks[] = {
#define HOOK(symbol) {#symbol, (void *)symbol, 0},
#define USED(symbol) {#symbol, NULL, 0},
#include "shim/nvml.def"
};

_Static_assert(sizeof hooks / sizeof hooks[0] == sizeof nvml_real / sizeof(void *),
               "one place for each row");

static nvmlReturn_t missing(void)
{
    return NVML_ERROR_FUNCTION_NOT_FOUND;
}

struct library nvml_library = {
    .soname = "libnvidia-ml.so.1",
    .hooks = hooks,
    .n_hooks = sizeof hooks / sizeof hooks[0],
    .real = (void **)&nvml_real,
    .missing = (void *)missing,
};

/* --- which vGPU ------------------------------------------------------------------------------ */

/* Before anything else. */
static nvmlReturn_t enter(void)
{
    if (!library_open(&nvml_library, true))
        return NVML_ERROR_LIBRARY_NOT_FOUND;
    return process.attached || process_attach_for_nvml() ? NVML_SUCCESS : NVML_ERROR_NOT_READY;
}

static void uuid_text(const uint8_t *b, char text[48])
{
    snprintf(text, 48, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
             b[14], b[15]);
}

/* NULL: not a vGPU of this step. */
static struct vgpu *vgpu_of(nvmlDevice_t device)
{
    char asked[96], its[48];

    if (process.n_vgpus == 0 ||
        NVML(nvmlDeviceGetUUID)(device, asked, sizeof asked) != NVML_SUCCESS)
        return NULL;
    for (uint32_t i = 0; i < process.n_vgpus; i++) {
        uuid_text(process.vgpus[i].desc.uuid, its);
        if (strcmp(asked, its) == 0)
            return &process.vgpus[i];
    }
    return NULL;
}

/* --- other GPUs: those that the step may use whole, beside its vGPUs; they come last
 * --------------- */

/* Device files of GPUs that the step may not use are covered by one of mode 000, which root could
 * open like any other: so the mode is looked at too. */
static bool usable(nvmlDevice_t device)
{
    unsigned int minor;
    char path[32];
    struct stat st;

    if (NVML(nvmlDeviceGetMinorNumber)(device, &minor) != NVML_SUCCESS)
        return false;
    snprintf(path, sizeof path, "/dev/nvidia%u", minor);
    return stat(path, &st) == 0 && (st.st_mode & 0777) != 0 && access(path, R_OK | W_OK) == 0;
}

/* The whole GPU number `index` of the step (from 0), or, with `wanted`, that GPU; *place is its
 * number. False: none. With neither, *place is how many there are. */
static bool find_whole(unsigned int index, nvmlDevice_t wanted, nvmlDevice_t *device,
                       unsigned int *place)
{
    unsigned int n = 0;

    *place = 0;
    if (NVML(nvmlDeviceGetCount_v2)(&n) != NVML_SUCCESS)
        return false;
    for (unsigned int i = 0; i < n; i++) {
        if (NVML(nvmlDeviceGetHandleByIndex_v2)(i, device) != NVML_SUCCESS || vgpu_of(*device) ||
            !usable(*device))
            continue;
        if (wanted ? *device == wanted : *place == index)
            return true;
        ++*place;
    }
    return false;
}

/* --- initialisation counts natively ---------------------------------------------------------- */

EXPORT nvmlReturn_t nvmlInit(void)
{
    nvmlReturn_t rc = enter();
    return rc != NVML_SUCCESS ? rc : NVML(nvmlInit)();
}

EXPORT nvmlReturn_t nvmlInit_v2(void)
{
    nvmlReturn_t rc = enter();
    return rc != NVML_SUCCESS ? rc : NVML(nvmlInit_v2)();
}

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    nvmlReturn_t rc = enter();
    return rc != NVML_SUCCESS ? rc : NVML(nvmlInitWithFlags)(flags);
}

/* --- which GPUs there are -------------------------------------------------------------------- */

static nvmlReturn_t count(unsigned int *deviceCount, nvmlReturn_t (*call)(unsigned int *))
{
    nvmlReturn_t rc = enter();
    if (rc == NVML_SUCCESS)
        rc = call(deviceCount);
    if (rc == NVML_SUCCESS && process.n_vgpus > 0) {
        nvmlDevice_t device;
        find_whole(UINT_MAX, NULL, &device, deviceCount);
        *deviceCount += process.n_vgpus;
    }
    return rc;
}

EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned int *deviceCount)
{
    return count(deviceCount, NVML(nvmlDeviceGetCount));
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *deviceCount)
{
    return count(deviceCount, NVML(nvmlDeviceGetCount_v2));
}

static nvmlReturn_t by_index(unsigned int index, nvmlDevice_t *device,
                             nvmlReturn_t (*call)(unsigned int, nvmlDevice_t *))
{
    char uuid[48];
    nvmlDevice_t whole;
    unsigned int n;
    nvmlReturn_t rc = enter();

    if (rc != NVML_SUCCESS)
        return rc;
    if (process.n_vgpus == 0 || device == NULL)
        return call(index, device);
    if (index < process.n_vgpus) {
        uuid_text(process.vgpus[index].desc.uuid, uuid);
        return NVML(nvmlDeviceGetHandleByUUID)(uuid, device);
    }
    rc = NVML(nvmlDeviceGetCount_v2)(&n); /* not initialised: that comes first */
    if (rc != NVML_SUCCESS || !find_whole(index - process.n_vgpus, NULL, &whole, &n))
        return rc != NVML_SUCCESS ? rc : NVML_ERROR_INVALID_ARGUMENT;
    *device = whole;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
    return by_index(index, device, NVML(nvmlDeviceGetHandleByIndex));
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    return by_index(index, device, NVML(nvmlDeviceGetHandleByIndex_v2));
}

/* A GPU of the node that is not the step's is not there. */
static nvmlReturn_t only_ours(nvmlReturn_t rc, const nvmlDevice_t *device)
{
    bool there = process.n_vgpus == 0 || rc != NVML_SUCCESS || vgpu_of(*device) || usable(*device);
    return there ? rc : NVML_ERROR_NOT_FOUND;
}

#define LOOK_UP(symbol, type)                                                                      \
    EXPORT nvmlReturn_t symbol(type key, nvmlDevice_t *device)                                     \
    {                                                                                              \
        nvmlReturn_t rc = enter();                                                                 \
        return rc != NVML_SUCCESS ? rc : only_ours(NVML(symbol)(key, device), device);             \
    }

LOOK_UP(nvmlDeviceGetHandleByPciBusId, const char *)
LOOK_UP(nvmlDeviceGetHandleByPciBusId_v2, const char *)
LOOK_UP(nvmlDeviceGetHandleBySerial, const char *)
LOOK_UP(nvmlDeviceGetHandleByUUID, const char *)
LOOK_UP(nvmlDeviceGetHandleByUUIDV, const nvmlUUID_t *)

EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    nvmlReturn_t rc = enter();
    if (rc == NVML_SUCCESS)
        rc = NVML(nvmlDeviceGetIndex)(device, index);
    struct vgpu *vgpu = rc == NVML_SUCCESS ? vgpu_of(device) : NULL;
    nvmlDevice_t whole;
    unsigned int place;
    if (vgpu)
        *index = (unsigned int)(vgpu - process.vgpus);
    else if (rc == NVML_SUCCESS && process.n_vgpus > 0 && find_whole(0, device, &whole, &place))
        *index = process.n_vgpus + place;
    return rc;
}

/* --- memory ---------------------------------------------------------------------------------- */

static void memory_of(struct vgpu *vgpu, unsigned long long *total, unsigned long long *used,
                      unsigned long long *free)
{
    pool_refresh(vgpu);
    measure_if_due(vgpu);
    uint64_t quota = vgpu->charge.control->quota, charged = vgpu->charge.account->charged;
    *total = *total < quota ? *total : quota;
    *used = charged < *total ? charged : *total;
    *free = *total - *used;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    nvmlReturn_t rc = enter();
    if (rc == NVML_SUCCESS)
        rc = NVML(nvmlDeviceGetMemoryInfo)(device, memory);
    struct vgpu *vgpu = rc == NVML_SUCCESS ? vgpu_of(device) : NULL;
    if (vgpu)
        memory_of(vgpu, &memory->total, &memory->used, &memory->free);
    return rc;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    nvmlReturn_t rc = enter();
    if (rc == NVML_SUCCESS)
        rc = NVML(nvmlDeviceGetMemoryInfo_v2)(device, memory);
    struct vgpu *vgpu = rc == NVML_SUCCESS ? vgpu_of(device) : NULL;
    if (vgpu) {
        memory_of(vgpu, &memory->total, &memory->used, &memory->free);
        memory->reserved = 0; /* of the card, not of this slice: used + free + reserved = total */
    }
    return rc;
}

/* --- processes ------------------------------------------------------------------------------- */

static bool is_of(const struct vgpu *vgpu, unsigned int pid)
{
    for (size_t i = 0; i < VGPU_MAX_PROCESSES; i++)
        if (vgpu->charge.account->processes[i].pid == pid)
            return pid != 0;
    return false;
}

/* Keep the records (pid first) of the vGPU's processes; returns how many. */
static unsigned int keep(const struct vgpu *vgpu, void *records, unsigned int n, size_t size,
                         size_t pid_at)
{
    char *at = records;
    unsigned int kept = 0, pid;

    for (unsigned int i = 0; i < n; i++) {
        memcpy(&pid, at + i * size + pid_at, sizeof pid);
        if (is_of(vgpu, pid))
            memmove(at + size * kept++, at + i * size, size);
    }
    return kept;
}

typedef nvmlReturn_t list_fn(nvmlDevice_t, unsigned int *, void *);

/* The driver's whole list; *records is to be freed. */
static nvmlReturn_t whole_list(nvmlDevice_t device, list_fn *call, size_t size, unsigned int *n,
                               void **records)
{
    nvmlReturn_t rc;

    *records = NULL;
    for (unsigned int room = 64;; room = 2 * *n + 64) {
        free(*records);
        *records = calloc(room, size);
        if (*records == NULL)
            return NVML_ERROR_MEMORY;
        *n = room;
        rc = call(device, n, *records);
        if (rc != NVML_ERROR_INSUFFICIENT_SIZE)
            return rc;
    }
}

static nvmlReturn_t list(nvmlDevice_t device, unsigned int *count_out, void *infos, size_t size,
                         list_fn *call)
{
    unsigned int n;
    void *records;
    nvmlReturn_t rc = enter();

    if (rc != NVML_SUCCESS)
        return rc;
    struct vgpu *vgpu = vgpu_of(device);
    if (vgpu == NULL || count_out == NULL)
        return call(device, count_out, infos);
    unsigned int room = infos ? *count_out : 0;
    rc = whole_list(device, call, size, &n, &records);
    if (rc == NVML_SUCCESS) {
        *count_out = keep(vgpu, records, n, size, 0);
        if (*count_out > room)
            rc = NVML_ERROR_INSUFFICIENT_SIZE;
        else if (*count_out > 0)
            memcpy(infos, records, *count_out * size);
    }
    free(records);
    return rc;
}

#define LIST(symbol, type)                                                                         \
    EXPORT nvmlReturn_t symbol(nvmlDevice_t device, unsigned int *infoCount, type *infos)          \
    {                                                                                              \
        return list(device, infoCount, infos, sizeof *infos, (list_fn *)NVML(symbol));             \
    }

LIST(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t)
LIST(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
LIST(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t)
LIST(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t)
LIST(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t)

/* These lists may have fewer entries than their announced size, so what came is thinned out in
 * place. */

EXPORT nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
                                                          nvmlProcessDetailList_t *plist)
{
    nvmlReturn_t rc = enter();
    if (rc == NVML_SUCCESS)
        rc = NVML(nvmlDeviceGetRunningProcessDetailList)(device, plist);
    struct vgpu *vgpu = rc == NVML_SUCCESS && plist->procArray ? vgpu_of(device) : NULL;
    if (vgpu)
        plist->numProcArrayEntries =
            keep(vgpu, plist->procArray, plist->numProcArrayEntries, sizeof *plist->procArray,
                 offsetof(nvmlProcessDetail_v1_t, pid));
    return rc;
}

EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                                    nvmlProcessUtilizationSample_t *utilization,
                                                    unsigned int *processSamplesCount,
                                                    unsigned long long lastSeenTimeStamp)
{
    nvmlReturn_t rc = enter();
    if (rc == NVML_SUCCESS)
        rc = NVML(nvmlDeviceGetProcessUtilization)(device, utilization, processSamplesCount,
                                                   lastSeenTimeStamp);
    struct vgpu *vgpu = rc == NVML_SUCCESS && utilization ? vgpu_of(device) : NULL;
    if (vgpu)
        *processSamplesCount = keep(vgpu, utilization, *processSamplesCount, sizeof *utilization,
                                    offsetof(nvmlProcessUtilizationSample_t, pid));
    return rc;
}

EXPORT nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device,
                                                          nvmlProcessesUtilizationInfo_t *info)
{
    nvmlReturn_t rc = enter();
    if (rc == NVML_SUCCESS)
        rc = NVML(nvmlDeviceGetProcessesUtilizationInfo)(device, info);
    struct vgpu *vgpu = rc == NVML_SUCCESS && info->procUtilArray ? vgpu_of(device) : NULL;
    if (vgpu)
        info->processSamplesCount =
            keep(vgpu, info->procUtilArray, info->processSamplesCount, sizeof *info->procUtilArray,
                 offsetof(nvmlProcessUtilizationInfo_v1_t, pid));
    return rc;
}
