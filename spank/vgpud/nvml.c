/* nvml.c - NVML through dlopen: vgpud starts, and says what is missing, where there is no driver.
 */
#include "nvml.h"

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libnvidia-ml.so.1"

/* Process lists come as two kinds of records, by the version of the function. */
typedef nvmlReturn_t (*list_function)(nvmlDevice_t, unsigned int *, void *);

struct process_list {
    list_function get;
    size_t record; /* its size; pid and bytes are where they are in both */
};

struct nvml {
    void *library;
    __typeof__(&nvmlInit_v2) init;
    __typeof__(&nvmlShutdown) shutdown;
    __typeof__(&nvmlErrorString) error_string;
    __typeof__(&nvmlDeviceGetCount_v2) get_count;
    __typeof__(&nvmlDeviceGetHandleByIndex_v2) get_handle;
    __typeof__(&nvmlDeviceGetMinorNumber) get_minor;
    __typeof__(&nvmlDeviceGetUUID) get_uuid;
    __typeof__(&nvmlDeviceGetPciInfo_v3) get_pci;
    __typeof__(&nvmlDeviceGetMemoryInfo) get_memory;
    __typeof__(&nvmlDeviceGetNvLinkState) get_link_state;
    __typeof__(&nvmlDeviceGetNvLinkRemotePciInfo_v2) get_link_pci;
    __typeof__(&nvmlDeviceGetNvLinkRemoteDeviceType) get_link_type;
    __typeof__(&nvmlDeviceGetTopologyCommonAncestor) get_ancestor;
    struct process_list lists[3];
    unsigned count;
};

static void find_functions(struct nvml *nvml)
{
    const struct {
        const char *name;
        void *place;
    } functions[] = {
        {"nvmlInit_v2", &nvml->init},
        {"nvmlShutdown", &nvml->shutdown},
        {"nvmlErrorString", &nvml->error_string},
        {"nvmlDeviceGetCount_v2", &nvml->get_count},
        {"nvmlDeviceGetHandleByIndex_v2", &nvml->get_handle},
        {"nvmlDeviceGetMinorNumber", &nvml->get_minor},
        {"nvmlDeviceGetUUID", &nvml->get_uuid},
        {"nvmlDeviceGetPciInfo_v3", &nvml->get_pci},
        {"nvmlDeviceGetMemoryInfo", &nvml->get_memory},
        {"nvmlDeviceGetNvLinkState", &nvml->get_link_state},
        {"nvmlDeviceGetNvLinkRemotePciInfo_v2", &nvml->get_link_pci},
        {"nvmlDeviceGetNvLinkRemoteDeviceType", &nvml->get_link_type},
        {"nvmlDeviceGetTopologyCommonAncestor", &nvml->get_ancestor},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *function = dlsym(nvml->library, functions[i].name);
        memcpy(functions[i].place, &function, sizeof function);
    }
}

/* The newest version of each list that the driver has. */
static void find_lists(struct nvml *nvml)
{
    static const char *const names[3][3] = {
        {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
         "nvmlDeviceGetComputeRunningProcesses"},
        {"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2",
         "nvmlDeviceGetGraphicsRunningProcesses"},
        {"nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2",
         "nvmlDeviceGetMPSComputeRunningProcesses"},
    };
    static const size_t records[3] = {sizeof(nvmlProcessInfo_t), sizeof(nvmlProcessInfo_v2_t),
                                      sizeof(nvmlProcessInfo_v1_t)};
    for (size_t list = 0; list < 3; list++)
        for (size_t version = 0; version < 3 && !nvml->lists[list].get; version++) {
            void *function = dlsym(nvml->library, names[list][version]);
            memcpy(&nvml->lists[list].get, &function, sizeof function);
            nvml->lists[list].record = records[version];
        }
}

static const char *error_text(const struct nvml *nvml, nvmlReturn_t result)
{
    return nvml->error_string ? nvml->error_string(result) : "an error without a name";
}

static int start(struct nvml *nvml, vgpu_error_t *err)
{
    if (!nvml->init || !nvml->get_count || !nvml->get_handle || !nvml->get_minor ||
        !nvml->get_uuid || !nvml->get_pci || !nvml->lists[0].get)
        return vgpu_errorf(err, "%s lacks functions that every driver since 515.65.01 has",
                           LIBRARY);
    nvmlReturn_t result = nvml->init();
    if (result != NVML_SUCCESS)
        return vgpu_errorf(err, "NVML does not start: %s", error_text(nvml, result));
    result = nvml->get_count(&nvml->count);
    if (result != NVML_SUCCESS) {
        nvml->shutdown();
        return vgpu_errorf(err, "NVML does not count the GPUs: %s", error_text(nvml, result));
    }
    return 0;
}

struct nvml *nvml_open(bool *missing, vgpu_error_t *err)
{
    struct nvml *nvml = calloc(1, sizeof *nvml);
    *missing = false;
    if (!nvml) {
        vgpu_errorf(err, "no memory");
        return NULL;
    }
    nvml->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library) {
        *missing = true;
        vgpu_errorf(err, "NVML is not there: %s", dlerror());
        free(nvml);
        return NULL;
    }
    find_functions(nvml);
    find_lists(nvml);
    if (start(nvml, err)) {
        dlclose(nvml->library);
        free(nvml);
        return NULL;
    }
    return nvml;
}

void nvml_close(struct nvml *nvml)
{
    if (!nvml)
        return;
    if (nvml->shutdown)
        nvml->shutdown();
    dlclose(nvml->library);
    free(nvml);
}

unsigned nvml_count(const struct nvml *nvml)
{
    return nvml->count;
}

int nvml_describe(const struct nvml *nvml, unsigned index, struct nvml_gpu *gpu, vgpu_error_t *err)
{
    nvmlDevice_t device;
    nvmlPciInfo_t pci;
    nvmlMemory_t memory = {0};
    unsigned minor;
    nvmlReturn_t result = nvml->get_handle(index, &device);
    if (result == NVML_SUCCESS)
        result = nvml->get_minor(device, &minor);
    if (result == NVML_SUCCESS)
        result = nvml->get_uuid(device, gpu->uuid, sizeof gpu->uuid);
    if (result == NVML_SUCCESS)
        result = nvml->get_pci(device, &pci);
    if (result != NVML_SUCCESS)
        return vgpu_errorf(err, "NVML does not describe GPU %u: %s", index,
                           error_text(nvml, result));
    if (nvml->get_memory)
        nvml->get_memory(device, &memory);
    gpu->minor = minor;
    gpu->memory = memory.total;
    pci.busId[sizeof pci.busId - 1] = '\0';
    memcpy(gpu->pci, pci.busId, sizeof gpu->pci);
    return 0;
}

/* --- links ----------------------------------------------------------------------------------- */

static bool same_place(const nvmlPciInfo_t *a, const nvmlPciInfo_t *b)
{
    return a->domain == b->domain && a->bus == b->bus && a->device == b->device;
}

/* Where the active links of a GPU lead: links[other] counts those to each of the GPUs, the result
 * those to a switch. */
static unsigned count_links(const struct nvml *nvml, nvmlDevice_t device,
                            const nvmlPciInfo_t *places, uint32_t n, uint8_t *links)
{
    unsigned to_switch = 0;
    for (unsigned link = 0;
         nvml->get_link_state && nvml->get_link_pci && link < NVML_NVLINK_MAX_LINKS; link++) {
        nvmlEnableState_t active;
        nvmlPciInfo_t remote;
        nvmlIntNvLinkDeviceType_t type = NVML_NVLINK_DEVICE_TYPE_UNKNOWN;
        if (nvml->get_link_state(device, link, &active) != NVML_SUCCESS ||
            active != NVML_FEATURE_ENABLED)
            continue;
        if (nvml->get_link_type)
            nvml->get_link_type(device, link, &type);
        if (type == NVML_NVLINK_DEVICE_TYPE_SWITCH) {
            to_switch++;
            continue;
        }
        if (nvml->get_link_pci(device, link, &remote) != NVML_SUCCESS)
            continue;
        for (uint32_t other = 0; other < n; other++)
            links[other] += same_place(&remote, &places[other]);
    }
    return to_switch;
}

static bool is_same_numa(const struct nvml *nvml, nvmlDevice_t a, nvmlDevice_t b)
{
    nvmlGpuTopologyLevel_t level;
    return nvml->get_ancestor && nvml->get_ancestor(a, b, &level) == NVML_SUCCESS &&
           level < NVML_TOPOLOGY_SYSTEM;
}

static uint8_t smaller(unsigned a, unsigned b)
{
    return (uint8_t)(a < b ? a : b);
}

void nvml_read_links(const struct nvml *nvml, const unsigned *indices, uint32_t n,
                     struct links *links)
{
    nvmlDevice_t devices[VGPU_MAX_GPUS];
    nvmlPciInfo_t places[VGPU_MAX_GPUS];
    uint8_t direct[VGPU_MAX_GPUS][VGPU_MAX_GPUS] = {{0}};
    unsigned to_switch[VGPU_MAX_GPUS];

    memset(links, 0, sizeof *links);
    for (uint32_t i = 0; i < n; i++)
        if (nvml->get_handle(indices[i], &devices[i]) != NVML_SUCCESS ||
            nvml->get_pci(devices[i], &places[i]) != NVML_SUCCESS)
            return;
    for (uint32_t i = 0; i < n; i++)
        to_switch[i] = count_links(nvml, devices[i], places, n, direct[i]);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++) {
            if (i == j || is_same_numa(nvml, devices[i], devices[j]))
                links->same_numa[i] |= 1u << j;
            if (i != j)
                links->nvlinks[i][j] = (uint8_t)(smaller(direct[i][j], direct[j][i]) +
                                                 smaller(to_switch[i], to_switch[j]));
        }
}

/* --- processes ------------------------------------------------------------------------------- */

/* One list into `records`. Returns its length, 0 where the driver has no such list, or -1 with err.
 */
static int get_list(const struct nvml *nvml, const struct process_list *list, nvmlDevice_t device,
                    void *records, vgpu_error_t *err)
{
    unsigned n = NVML_MAX_PROCESSES;
    if (!list->get)
        return 0;
    nvmlReturn_t result = list->get(device, &n, records);
    if (result == NVML_SUCCESS)
        return (int)n;
    if (result == NVML_ERROR_NOT_SUPPORTED)
        return 0;
    return vgpu_errorf(err, "NVML does not list the processes: %s", error_text(nvml, result));
}

static int by_pid(const void *a, const void *b)
{
    const struct nvml_process *left = a, *right = b;
    return (left->pid > right->pid) - (left->pid < right->pid);
}

/* Sort by pid and let each pid come once, with the larger figure: both lists state the whole of a
 * process. */
static int merge(struct nvml_process *list, int n)
{
    int kept = 0;
    qsort(list, (size_t)n, sizeof *list, by_pid);
    for (int i = 0; i < n; i++) {
        if (kept > 0 && list[kept - 1].pid == list[i].pid) {
            if (list[i].bytes > list[kept - 1].bytes)
                list[kept - 1].bytes = list[i].bytes;
        } else {
            list[kept++] = list[i];
        }
    }
    return kept;
}

int nvml_processes(const struct nvml *nvml, unsigned index, struct nvml_process *list,
                   vgpu_error_t *err)
{
    nvmlDevice_t device;
    nvmlReturn_t result = nvml->get_handle(index, &device);
    if (result != NVML_SUCCESS)
        return vgpu_errorf(err, "NVML does not know GPU %u: %s", index, error_text(nvml, result));
    char *records = malloc(NVML_MAX_PROCESSES * sizeof(nvmlProcessInfo_t));
    if (!records)
        return vgpu_errorf(err, "no memory");
    int total = 0, n = 0;
    for (size_t i = 0; i < 3 && n >= 0; i++) {
        n = get_list(nvml, &nvml->lists[i], device, records, err);
        for (int j = 0; j < n && total < NVML_MAX_PROCESSES; j++) {
            nvmlProcessInfo_v1_t info; /* how both kinds of records begin */
            memcpy(&info, records + (size_t)j * nvml->lists[i].record, sizeof info);
            if (info.usedGpuMemory == (unsigned long long)NVML_VALUE_NOT_AVAILABLE)
                info.usedGpuMemory = 0;
            list[total++] = (struct nvml_process){(pid_t)info.pid, info.usedGpuMemory};
        }
    }
    free(records);
    return n < 0 ? -1 : merge(list, total);
}
