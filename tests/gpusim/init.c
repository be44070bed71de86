/* init.c - cuInit: which GPUs this process sees; and the way into every call. */
#include "access.h"
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

struct sim sim = {.lock = PTHREAD_MUTEX_INITIALIZER, .process = -1};
_Thread_local struct thread thread;
unsigned sim_guard = SIM_NOT_READY;

/* Where the machine is. A build for unit tests lets the environment say so. */
static const char *directory(void)
{
#ifdef GPUSIM_DIRECTORY_FROM_ENVIRONMENT
    const char *dir = getenv("GPUSIM_DIR");
    if (dir)
        return dir;
#endif
    return GPUSIM_DIR;
}

static bool may_open(const struct gpusim_gpu_spec *gpu)
{
#ifdef GPUSIM_DIRECTORY_FROM_ENVIRONMENT
    if (getenv("GPUSIM_DIR"))
        return true;
#endif
    return gpusim_access_control() == 0 && gpusim_access_gpu(gpu->minor) == 0;
}

struct gpusim_state *sim_state(void)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&once);
    if (!sim.state)
        sim.state = gpusim_open(directory(), NULL);
    pthread_mutex_unlock(&once);
    return sim.state;
}

/* --- visible devices ------------------------------------------------------------------------ */

static int by_pci(const void *a, const void *b)
{
    const struct gpusim_gpu_spec *gpus = sim.state->machine.gpus;
    const struct gpusim_gpu_spec *x = &gpus[*(const int *)a], *y = &gpus[*(const int *)b];
    if (x->pci_domain != y->pci_domain)
        return x->pci_domain < y->pci_domain ? -1 : 1;
    if (x->pci_bus != y->pci_bus)
        return x->pci_bus < y->pci_bus ? -1 : 1;
    return x->pci_device < y->pci_device ? -1 : x->pci_device > y->pci_device;
}

/* The GPUs that this process may open, in PCI order. */
static int accessible(int *gpus)
{
    int n = 0;
    for (int i = 0; i < (int)sim.state->machine.n_gpus; i++)
        if (may_open(&sim.state->machine.gpus[i]))
            gpus[n++] = i;
    qsort(gpus, (size_t)n, sizeof(*gpus), by_pci);
    return n;
}

/* The GPU that one item of CUDA_VISIBLE_DEVICES names; -1: none, or not just one. */
static int named(const char *item, const int *gpus, int n)
{
    if (strncasecmp(item, "GPU-", 4) == 0) {
        int found = -1;
        for (int i = 0; i < n; i++) {
            if (strncasecmp(sim.state->machine.gpus[gpus[i]].uuid, item, strlen(item)) != 0)
                continue;
            if (found >= 0)
                return -1;
            found = gpus[i];
        }
        return found;
    }
    char *end;
    long index = strtol(item, &end, 10);
    return end != item && !*end && index >= 0 && index < n ? gpus[index] : -1;
}

/* Filter and order by CUDA_VISIBLE_DEVICES: what follows an item that names nothing is ignored; a
 * GPU named twice makes all invisible. */
static int visible(const char *list, int *gpus, int n)
{
    int chosen[GPUSIM_MAX_GPUS], count = 0;
    char *copy = strdup(list), *rest = copy, *item;
    while (copy && (item = strsep(&rest, ","))) {
        item += strspn(item, " \t");
        item[strcspn(item, " \t")] = 0;
        int gpu = named(item, gpus, n);
        if (gpu < 0)
            break;
        for (int i = 0; i < count; i++) {
            if (chosen[i] == gpu) {
                free(copy);
                return 0;
            }
        }
        chosen[count++] = gpu;
    }
    free(copy);
    memcpy(gpus, chosen, (size_t)count * sizeof(*gpus));
    return count;
}

/* --- initialisation ------------------------------------------------------------------------- */

static void after_fork(void)
{
    if (!(sim_guard & SIM_NOT_READY))
        sim_guard |= SIM_FORKED;
}

static CUresult initialise(void)
{
    int gpus[GPUSIM_MAX_GPUS];
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    NEED(sim_state(), CUDA_ERROR_NO_DEVICE);
    int n = accessible(gpus);
    if (list)
        n = visible(list, gpus, n);
    NEED(n > 0, CUDA_ERROR_NO_DEVICE);
    TRY(heap_init());
    if (sim.process < 0)
        sim.process = gpusim_register(sim.state, getenv("GPUSIM_GROUP"), NULL);
    NEED(sim.process >= 0, CUDA_ERROR_OPERATING_SYSTEM);
    sim.n_devices = n;
    for (int i = 0; i < n; i++) {
        sim.devices[i].gpu = gpus[i];
        sim.devices[i].spec = &sim.state->machine.gpus[gpus[i]];
        sim.devices[i].account = &sim.state->processes[sim.process].gpus[gpus[i]];
        TRY(pool_default(i));
    }
    pthread_atfork(NULL, NULL, after_fork);
    gpusim_faults_refresh(&sim.faults, sim.state);
    sim_guard = sim.faults.version ? SIM_FAULTS : 0;
    return CUDA_SUCCESS;
}

CUresult sim_cuInit(unsigned flags)
{
    NEED(flags == 0, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    CUresult rc = sim_guard & SIM_NOT_READY ? initialise() : CUDA_SUCCESS;
    sim_unlock();
    return rc;
}

CUresult sim_enter(enum sim_call call, void *out, size_t out_size)
{
    const struct sim_call_info *info = &sim_calls[call];
    if (sim_guard & SIM_FORKED)
        return call == SIM_CALL_cuInit || !info->early ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS;
    NEED(!(sim_guard & SIM_NOT_READY) || info->early, CUDA_ERROR_NOT_INITIALIZED);
    if (!sim.faults.version)
        return CUDA_SUCCESS;
    bool garbage = false;
    gpusim_faults_refresh(&sim.faults, sim.state);
    int code = gpusim_fault(&sim.faults, info->name, &garbage);
    if (code && garbage && out)
        memset(out, 0xdb, out_size);
    return (CUresult)code;
}

/* Symbols are hidden before anybody can look for them. */
__attribute__((constructor)) static void load(void)
{
    if (!gpusim_faults_open(&sim.faults, directory()))
        return;
    gpusim_faults_refresh(&sim.faults, NULL);
    gpusim_hide_symbols(&sim.faults, &sim);
}
