/* stat_topo.c - the links between the GPUs as a matrix, asked of NVML like any program would.
 *
 * The layout is that of `nvidia-smi topo -m`, so that what reads that reads this; the last line
 * says that it is simulated.
 */
#include "stat.h"

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include <dlfcn.h>
#include <string.h>

#define CPU_WORDS 16 /* 1 024 CPUs */

static struct {
    nvmlReturn_t (*init)(void);
    nvmlReturn_t (*shutdown)(void);
    const char *(*error)(nvmlReturn_t);
    nvmlReturn_t (*count)(unsigned int *);
    nvmlReturn_t (*handle)(unsigned int, nvmlDevice_t *);
    nvmlReturn_t (*pci)(nvmlDevice_t, nvmlPciInfo_t *);
    nvmlReturn_t (*ancestor)(nvmlDevice_t, nvmlDevice_t, nvmlGpuTopologyLevel_t *);
    nvmlReturn_t (*link_state)(nvmlDevice_t, unsigned int, nvmlEnableState_t *);
    nvmlReturn_t (*link_type)(nvmlDevice_t, unsigned int, nvmlIntNvLinkDeviceType_t *);
    nvmlReturn_t (*link_pci)(nvmlDevice_t, unsigned int, nvmlPciInfo_t *);
    nvmlReturn_t (*cpus)(nvmlDevice_t, unsigned int, unsigned long *);
    nvmlReturn_t (*numa)(nvmlDevice_t, unsigned int, unsigned long *, nvmlAffinityScope_t);
} api;

static int load(struct gpusim_error *err)
{
    static const struct {
        void *at;
        const char *name;
    } wanted[] = {
        {&api.init, "nvmlInit_v2"},
        {&api.shutdown, "nvmlShutdown"},
        {&api.error, "nvmlErrorString"},
        {&api.count, "nvmlDeviceGetCount_v2"},
        {&api.handle, "nvmlDeviceGetHandleByIndex_v2"},
        {&api.pci, "nvmlDeviceGetPciInfo_v3"},
        {&api.ancestor, "nvmlDeviceGetTopologyCommonAncestor"},
        {&api.link_state, "nvmlDeviceGetNvLinkState"},
        {&api.link_type, "nvmlDeviceGetNvLinkRemoteDeviceType"},
        {&api.link_pci, "nvmlDeviceGetNvLinkRemotePciInfo_v2"},
        {&api.cpus, "nvmlDeviceGetCpuAffinity"},
        {&api.numa, "nvmlDeviceGetMemoryAffinity"},
    };
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library)
        return gpusim_errorf(err, "%s", dlerror());
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        void *symbol = dlsym(library, wanted[i].name);
        if (!symbol)
            return gpusim_errorf(err, "libnvidia-ml.so.1 has no %s", wanted[i].name);
        memcpy(wanted[i].at, &symbol, sizeof(symbol));
    }
    return 0;
}

/* NVLinks from a to b; where both have links to switches only, the smaller number of both. */
static unsigned int links(nvmlDevice_t a, nvmlDevice_t b, unsigned int *to_switch)
{
    nvmlPciInfo_t target, remote;
    unsigned int direct = 0;
    *to_switch = 0;
    if (api.pci(b, &target) != NVML_SUCCESS)
        return 0;
    for (unsigned int link = 0; link < NVML_NVLINK_MAX_LINKS; link++) {
        nvmlEnableState_t active;
        nvmlIntNvLinkDeviceType_t type;
        if (api.link_state(a, link, &active) != NVML_SUCCESS || !active ||
            api.link_type(a, link, &type) != NVML_SUCCESS)
            continue;
        if (type == NVML_NVLINK_DEVICE_TYPE_SWITCH)
            ++*to_switch;
        else if (api.link_pci(a, link, &remote) == NVML_SUCCESS)
            direct += strcmp(remote.busId, target.busId) == 0;
    }
    return direct;
}

static const char *cell(nvmlDevice_t a, nvmlDevice_t b, char out[16])
{
    static const char *const levels[] = {"X", "PIX", "PXB", "PHB", "NODE", "SYS"};
    unsigned int left, right, direct = links(a, b, &left);
    links(b, a, &right);
    unsigned int n = direct ? direct : left < right ? left : right;
    nvmlGpuTopologyLevel_t level;
    if (n)
        snprintf(out, 16, "NV%u", n);
    else if (api.ancestor(a, b, &level) == NVML_SUCCESS && level <= NVML_TOPOLOGY_SYSTEM)
        snprintf(out, 16, "%s", levels[level / 10]);
    else
        snprintf(out, 16, "N/A");
    return out;
}

/* "0-15,32-47"; N/A for an empty set. */
static void print_set(const unsigned long *set, FILE *out)
{
    const int bits = CPU_WORDS * 64;
    const char *comma = "";
    for (int i = 0; i < bits; i++) {
        int first = i;
        while (i < bits && set[i / 64] >> (i % 64) & 1)
            i++;
        if (i == first)
            continue;
        fprintf(out, i - 1 > first ? "%s%d-%d" : "%s%d", comma, first, i - 1);
        comma = ",";
    }
    if (!*comma)
        fputs("N/A", out);
}

static void print_row(nvmlDevice_t *devices, unsigned int n, unsigned int row, FILE *out)
{
    char text[16];
    fprintf(out, "GPU%u", row);
    for (unsigned int i = 0; i < n; i++)
        fprintf(out, "\t%s", i == row ? " X " : cell(devices[row], devices[i], text));
    unsigned long set[CPU_WORDS] = {0};
    api.cpus(devices[row], CPU_WORDS, set);
    fputc('\t', out);
    print_set(set, out);
    memset(set, 0, sizeof(set));
    api.numa(devices[row], CPU_WORDS, set, NVML_AFFINITY_SCOPE_NODE);
    fputc('\t', out);
    print_set(set, out);
    fputs("\t\tN/A\n", out);
}

static nvmlReturn_t print_matrix(FILE *out)
{
    nvmlDevice_t devices[GPUSIM_MAX_GPUS];
    unsigned int n = 0;
    nvmlReturn_t rc = api.count(&n);
    for (unsigned int i = 0; i < n && rc == NVML_SUCCESS; i++)
        rc = api.handle(i, &devices[i]);
    if (rc != NVML_SUCCESS)
        return rc;
    fputs("# simulated\n", out);
    for (unsigned int i = 0; i < n; i++)
        fprintf(out, "\tGPU%u", i);
    fputs("\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n", out);
    for (unsigned int i = 0; i < n; i++)
        print_row(devices, n, i, out);
    return NVML_SUCCESS;
}

int stat_topology(FILE *out, struct gpusim_error *err)
{
    if (load(err))
        return -1;
    nvmlReturn_t rc = api.init();
    if (rc == NVML_SUCCESS) {
        rc = print_matrix(out);
        api.shutdown();
    }
    return rc == NVML_SUCCESS ? 0 : gpusim_errorf(err, "NVML: %s", api.error(rc));
}
