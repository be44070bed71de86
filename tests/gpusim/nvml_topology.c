/* nvml_topology.c - how far GPUs are from each other and from the CPUs. */
#include "nvml_impl.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- between GPUs -------------------------------------------------------------------------------
 */

static nvmlGpuTopologyLevel_t level_of(nvmlDevice_t a, nvmlDevice_t b)
{
    if (a == b)
        return NVML_TOPOLOGY_INTERNAL;
    return (nvmlGpuTopologyLevel_t)nvml.state->machine.pairs[a->gpu][b->gpu].pcie;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device1, nvmlDevice_t device2,
                                                 nvmlGpuTopologyLevel_t *level)
{
    NVML_TRY(nvml_enter_device(__func__, device1));
    NVML_NEED(nvml_is_device(device2) && level);
    *level = level_of(device1, device2);
    return NVML_SUCCESS;
}

/* A list of devices: with *count 0 only their number, else at most *count of them. */
static nvmlReturn_t give_devices(unsigned int *count, nvmlDevice_t *devices, unsigned int n,
                                 nvmlDevice_t *found)
{
    NVML_NEED(count && (devices || *count == 0));
    if (*count > n || *count == 0)
        *count = n;
    if (devices)
        memcpy(devices, found, *count * sizeof(*found));
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, nvmlGpuTopologyLevel_t level,
                                              unsigned int *count, nvmlDevice_t *devices)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    nvmlDevice_t found[GPUSIM_MAX_GPUS];
    unsigned int n = 0;
    for (uint32_t i = 0; i < nvml.n_devices; i++) {
        nvmlDevice_t other = &nvml.devices[nvml.order[i]];
        if (other != device && level_of(device, other) == level)
            found[n++] = other;
    }
    return give_devices(count, devices, n, found);
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device1, nvmlDevice_t device2,
                                    nvmlGpuP2PCapsIndex_t index, nvmlGpuP2PStatus_t *status)
{
    NVML_TRY(nvml_enter_device(__func__, device1));
    NVML_NEED(nvml_is_device(device2) && device1 != device2 && status &&
              index < NVML_P2P_CAPS_INDEX_UNKNOWN);
    bool linked = gpusim_machine_links(&nvml.state->machine, device1->gpu, device2->gpu);
    bool available = true;
    if (index == NVML_P2P_CAPS_INDEX_NVLINK || index == NVML_P2P_CAPS_INDEX_ATOMICS)
        available = linked;
    *status = available ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

/* --- to the CPUs --------------------------------------------------------------------------------
 */

#define WORD_BITS (8 * sizeof(unsigned long))

/* "0-15,32-47" as a set of `words` words; "" is all CPUs of the machine that runs the simulator. */
static void fill_cpus(const char *list, unsigned long *set, unsigned int words)
{
    char all[32];
    if (!*list) {
        snprintf(all, sizeof(all), "0-%ld", sysconf(_SC_NPROCESSORS_CONF) - 1);
        list = all;
    }
    memset(set, 0, words * sizeof(*set));
    while (*list) {
        char *end;
        unsigned long first = strtoul(list, &end, 10), last = first;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (unsigned long cpu = first; cpu <= last && cpu < words * WORD_BITS; cpu++)
            set[cpu / WORD_BITS] |= 1ul << (cpu % WORD_BITS);
        list = *end ? end + 1 : end;
    }
}

static nvmlReturn_t cpu_affinity(const char *call, nvmlDevice_t device, unsigned int words,
                                 unsigned long *set)
{
    NVML_TRY(nvml_enter_device(call, device));
    NVML_NEED(set && words);
    fill_cpus(nvml_spec(device)->cpus, set, words);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int words, unsigned long *set)
{
    return cpu_affinity(__func__, device, words, set);
}

/* The machine file knows one set of nearest CPUs, whatever the scope. */
nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned int words,
                                                 unsigned long *set, nvmlAffinityScope_t scope)
{
    NVML_NEED(scope <= NVML_AFFINITY_SCOPE_SOCKET);
    return cpu_affinity(__func__, device, words, set);
}

nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int words,
                                         unsigned long *set, nvmlAffinityScope_t scope)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    NVML_NEED(set && words && scope <= NVML_AFFINITY_SCOPE_SOCKET);
    int numa = nvml_spec(device)->numa;
    if (numa < 0)
        return NVML_ERROR_NOT_SUPPORTED;
    memset(set, 0, words * sizeof(*set));
    if ((unsigned int)numa < words * WORD_BITS)
        set[(unsigned int)numa / WORD_BITS] = 1ul << ((unsigned int)numa % WORD_BITS);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetCpuAffinity(nvmlDevice_t device)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    cpu_set_t set;
    fill_cpus(nvml_spec(device)->cpus, (unsigned long *)&set, sizeof(set) / sizeof(unsigned long));
    return sched_setaffinity(0, sizeof(set), &set) ? NVML_ERROR_UNKNOWN : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceClearCpuAffinity(nvmlDevice_t device)
{
    NVML_TRY(nvml_enter_device(__func__, device));
    cpu_set_t set;
    fill_cpus("", (unsigned long *)&set, sizeof(set) / sizeof(unsigned long));
    return sched_setaffinity(0, sizeof(set), &set) ? NVML_ERROR_UNKNOWN : NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetTopologyGpuSet(unsigned int cpu, unsigned int *count,
                                         nvmlDevice_t *devices)
{
    NVML_TRY(nvml_enter(__func__));
    nvmlDevice_t found[GPUSIM_MAX_GPUS];
    unsigned int n = 0;
    unsigned long set[CPU_SETSIZE / WORD_BITS];
    NVML_NEED(cpu < CPU_SETSIZE);
    for (uint32_t i = 0; i < nvml.n_devices; i++) {
        nvmlDevice_t device = &nvml.devices[nvml.order[i]];
        fill_cpus(nvml_spec(device)->cpus, set, CPU_SETSIZE / WORD_BITS);
        if (set[cpu / WORD_BITS] >> (cpu % WORD_BITS) & 1)
            found[n++] = device;
    }
    return give_devices(count, devices, n, found);
}
