/* fake_nvml.c - a libnvidia-ml.so.1 that says what a folder (FAKE_NVML) says, so that a test
 * decides what the driver lists and when it lets go. Files: "gpus" with a line "MINOR UUID PCI
 * BYTES" for each GPU; "links" with "GPU GPU COUNT" and "GPU switch COUNT"; "processes.N" and
 * "graphics.N" with "PID BYTES" for GPU N; "broken": the lists fail; "slow": they take 200 ms. */
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT   __attribute__((visibility("default")))
#define MAX_GPUS 16

struct gpu {
    unsigned minor;
    char uuid[48], pci[32];
    unsigned long long memory;
    struct {
        int to; /* -1: a switch */
    } links[NVML_NVLINK_MAX_LINKS];
    unsigned n_links;
};

static struct gpu gpus[MAX_GPUS];
static unsigned n_gpus;

static FILE *open_file(const char *name, unsigned index)
{
    char path[512];
    const char *folder = getenv("FAKE_NVML");
    snprintf(path, sizeof path, index == -1u ? "%s/%s" : "%s/%s.%u", folder ? folder : "", name,
             index);
    return fopen(path, "r");
}

static bool has(const char *name)
{
    FILE *file = open_file(name, -1u);
    if (file)
        fclose(file);
    return file != NULL;
}

static void add_links(unsigned from, int to, int count)
{
    while (count-- > 0 && gpus[from].n_links < NVML_NVLINK_MAX_LINKS)
        gpus[from].links[gpus[from].n_links++].to = to;
}

static void read_links(void)
{
    FILE *file = open_file("links", -1u);
    unsigned from;
    char to[16];
    int count;
    while (file && fscanf(file, "%u %15s %d", &from, to, &count) == 3) {
        if (strcmp(to, "switch") == 0) {
            add_links(from, -1, count);
        } else {
            add_links(from, atoi(to), count);
            add_links((unsigned)atoi(to), (int)from, count);
        }
    }
    if (file)
        fclose(file);
}

EXPORT nvmlReturn_t nvmlInit_v2(void)
{
    FILE *file = open_file("gpus", -1u);
    if (!file)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    memset(gpus, 0, sizeof gpus);
    n_gpus = 0;
    while (n_gpus < MAX_GPUS &&
           fscanf(file, "%u %47s %31s %llu", &gpus[n_gpus].minor, gpus[n_gpus].uuid,
                  gpus[n_gpus].pci, &gpus[n_gpus].memory) == 4)
        n_gpus++;
    fclose(file);
    read_links();
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlShutdown(void)
{
    return NVML_SUCCESS;
}

EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
    return result == NVML_ERROR_DRIVER_NOT_LOADED ? "Driver Not Loaded" : "Unknown Error";
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = n_gpus;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
    if (index >= n_gpus)
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = (nvmlDevice_t)&gpus[index];
    return NVML_SUCCESS;
}

static struct gpu *gpu_of(nvmlDevice_t device)
{
    return (struct gpu *)device;
}

EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *minor)
{
    *minor = gpu_of(device)->minor;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length)
{
    snprintf(uuid, length, "%s", gpu_of(device)->uuid);
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    memset(pci, 0, sizeof *pci);
    snprintf(pci->busId, sizeof pci->busId, "%s", gpu_of(device)->pci);
    return sscanf(pci->busId, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device) == 3
               ? NVML_SUCCESS
               : NVML_ERROR_UNKNOWN;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    memset(memory, 0, sizeof *memory);
    memory->total = gpu_of(device)->memory;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link,
                                             nvmlEnableState_t *active)
{
    *active = link < gpu_of(device)->n_links ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned link,
                                                        nvmlIntNvLinkDeviceType_t *type)
{
    *type = gpu_of(device)->links[link].to < 0 ? NVML_NVLINK_DEVICE_TYPE_SWITCH
                                               : NVML_NVLINK_DEVICE_TYPE_GPU;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link,
                                                        nvmlPciInfo_t *pci)
{
    return nvmlDeviceGetPciInfo_v3((nvmlDevice_t)&gpus[gpu_of(device)->links[link].to], pci);
}

/* GPUs 0-3 on one NUMA node, the others on another. */
EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b,
                                                        nvmlGpuTopologyLevel_t *level)
{
    bool same = (gpu_of(a) - gpus) / 4 == (gpu_of(b) - gpus) / 4;
    *level = same ? NVML_TOPOLOGY_NODE : NVML_TOPOLOGY_SYSTEM;
    return NVML_SUCCESS;
}

static nvmlReturn_t list(const char *name, nvmlDevice_t device, unsigned *count,
                         nvmlProcessInfo_t *infos)
{
    unsigned n = 0, pid;
    unsigned long long bytes;
    if (has("slow"))
        usleep(200000);
    if (has("broken"))
        return NVML_ERROR_UNKNOWN;
    FILE *file = open_file(name, (unsigned)(gpu_of(device) - gpus));
    while (file && n < *count && fscanf(file, "%u %llu", &pid, &bytes) == 2)
        infos[n++] = (nvmlProcessInfo_t){.pid = pid, .usedGpuMemory = bytes};
    if (file)
        fclose(file);
    *count = n;
    return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                            nvmlProcessInfo_t *infos)
{
    return list("processes", device, count, infos);
}

EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned *count,
                                                             nvmlProcessInfo_t *infos)
{
    return list("graphics", device, count, infos);
}
