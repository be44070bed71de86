/* procaddress.c - cuGetProcAddress, by version and stream flavour; export tables; names of errors.
 */
#include "procaddress.h"
#include "sim.h"

#include <string.h>

/* First row of the name; sim_n_procs: there is none. */
static unsigned find(const char *name)
{
    unsigned low = 0, high = sim_n_procs;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (strcmp(sim_procs[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < sim_n_procs && strcmp(sim_procs[low].name, name) == 0 ? low : sim_n_procs;
}

static int driver_version(void)
{
    struct gpusim_state *state = sim_state();
    return state ? state->machine.cuda : CUDA_VERSION;
}

static bool hidden(const char *symbol)
{
    return sim.faults.list && gpusim_faults_hide(&sim.faults, symbol);
}

/* The newest variant that the asked version knows. */
static const struct sim_proc *choose(unsigned i, int version, bool per_thread)
{
    const struct sim_proc *best = NULL;
    for (const char *name = sim_procs[i].name;
         i < sim_n_procs && strcmp(sim_procs[i].name, name) == 0; i++) {
        const struct sim_proc *proc = &sim_procs[i];
        if (proc->version > version || (proc->per_thread && !per_thread) || hidden(proc->symbol))
            continue;
        if (!best || proc->version > best->version ||
            (proc->version == best->version && proc->per_thread))
            best = proc;
    }
    return best;
}

CUresult sim_cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult *status)
{
    NEED(symbol && pfn && flags <= CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
         CUDA_ERROR_INVALID_VALUE);
    int driver = driver_version();
    unsigned i = find(symbol);
    const struct sim_proc *proc =
        i == sim_n_procs ? NULL
                         : choose(i, version < driver ? version : driver,
                                  flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    *pfn = proc ? proc->address : NULL;
    if (status) {
        bool newer = !proc && i < sim_n_procs && sim_procs[i].version <= driver && !hidden(symbol);
        *status = proc    ? CU_GET_PROC_ADDRESS_SUCCESS
                  : newer ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                          : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    }
    return proc ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult sim_cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
    return sim_cuGetProcAddress_v2(symbol, pfn, version, flags, NULL);
}

/* There are none: what lies behind them is no public interface. */
CUresult sim_cuGetExportTable(const void **table, const CUuuid *id)
{
    NEED(table && id, CUDA_ERROR_INVALID_VALUE);
    *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}

static const struct sim_error *find_error(CUresult code)
{
    for (unsigned i = 0; i < sim_n_errors; i++)
        if (sim_errors[i].code == (int)code)
            return &sim_errors[i];
    return NULL;
}

CUresult sim_cuGetErrorName(CUresult code, const char **text)
{
    const struct sim_error *error = find_error(code);
    NEED(text, CUDA_ERROR_INVALID_VALUE);
    *text = error ? error->name : NULL;
    return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGetErrorString(CUresult code, const char **text)
{
    const struct sim_error *error = find_error(code);
    NEED(text, CUDA_ERROR_INVALID_VALUE);
    *text = error ? error->text : NULL;
    return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
