/* graph.c - graphs that allocate: their memory comes out of the device's graph pool, which may grow
 * when the graph is instantiated, uploaded or launched. */
#include "shim/launch.h"
#include "shim/measure.h"
#include "shim/pool.h"

#include <stdlib.h>

#define MAX_DEPTH 16 /* of graphs in graphs */

/* --- how much a graph allocates -------------------------------------------------------------- */

/* Nodes come in the order in which they were made, which for captured graphs is that of the stream.
 */
struct demand {
    uint64_t now, peak; /* bytes allocated and not freed yet, and the most of that */
    CUdevice device;
    struct allocation {
        CUdeviceptr pointer;
        uint64_t size;
    } * allocations;
    size_t n;
};

static void add_allocation(struct demand *demand, const CUDA_MEM_ALLOC_NODE_PARAMS *node)
{
    void *room = realloc(demand->allocations, (demand->n + 1) * sizeof *demand->allocations);

    demand->device = node->poolProps.location.id;
    demand->now += charge_round(node->bytesize);
    demand->peak = demand->peak > demand->now ? demand->peak : demand->now;
    if (room == NULL)
        return;
    demand->allocations = room;
    demand->allocations[demand->n++] =
        (struct allocation){.pointer = node->dptr, .size = charge_round(node->bytesize)};
}

static void add_free(struct demand *demand, CUdeviceptr pointer)
{
    for (size_t i = 0; i < demand->n; i++) {
        if (demand->allocations[i].pointer != pointer)
            continue;
        demand->now -= demand->allocations[i].size;
        demand->allocations[i] = demand->allocations[--demand->n];
        return;
    }
}

static void add_graph(struct demand *demand, CUgraph graph, int depth);

static void add_node(struct demand *demand, CUgraphNode node, int depth)
{
    CUgraphNodeType type;
    CUDA_MEM_ALLOC_NODE_PARAMS allocation;
    CUdeviceptr pointer;
    CUgraph child;

    if (REAL(cuGraphNodeGetType)(node, &type) != CUDA_SUCCESS)
        return;
    if (type == CU_GRAPH_NODE_TYPE_GRAPH &&
        REAL(cuGraphChildGraphNodeGetGraph)(node, &child) == CUDA_SUCCESS)
        add_graph(demand, child, depth + 1);
    if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
        REAL(cuGraphMemAllocNodeGetParams)(node, &allocation) == CUDA_SUCCESS)
        add_allocation(demand, &allocation);
    if (type == CU_GRAPH_NODE_TYPE_MEM_FREE &&
        REAL(cuGraphMemFreeNodeGetParams)(node, &pointer) == CUDA_SUCCESS)
        add_free(demand, pointer);
}

static void add_graph(struct demand *demand, CUgraph graph, int depth)
{
    size_t n = 0;

    if (depth > MAX_DEPTH || REAL(cuGraphGetNodes)(graph, NULL, &n) != CUDA_SUCCESS || n == 0)
        return;
    CUgraphNode *nodes = calloc(n, sizeof *nodes);
    if (nodes && REAL(cuGraphGetNodes)(graph, nodes, &n) == CUDA_SUCCESS)
        for (size_t i = 0; i < n; i++)
            add_node(demand, nodes[i], depth);
    free(nodes);
}

static struct demand demand_of(CUgraph graph)
{
    struct demand demand = {0};

    add_graph(&demand, graph, 0);
    free(demand.allocations);
    return demand;
}

/* --- instantiation --------------------------------------------------------------------------- */

struct instance {
    struct growth growth;
    uint64_t peak, kept; /* kept: what it does not free itself */
};

/* Most drivers take the memory at the first launch, so nothing is refused here. */
static CUresult begin(struct instance *instance, CUgraph graph)
{
    CUresult rc = process_enter();

    *instance = (struct instance){0};
    if (rc != CUDA_SUCCESS || process.n_vgpus == 0)
        return rc;
    struct demand demand = demand_of(graph);
    if (demand.peak == 0)
        return CUDA_SUCCESS;
    instance->peak = demand.peak;
    instance->kept = demand.now;
    instance->growth.vgpu = process_vgpu_of_device(demand.device);
    instance->growth.device = demand.device;
    return growth_begin(&instance->growth, 0, demand.peak);
}

static CUresult end(struct instance *instance, CUresult rc, CUgraphExec *exec)
{
    struct vgpu *vgpu = instance->growth.vgpu;

    if (vgpu == NULL)
        return rc;
    bool fits = growth_end(&instance->growth);
    if (rc == CUDA_SUCCESS && !fits) {
        REAL(cuGraphExecDestroy)(*exec);
        pool_reclaim(vgpu);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (rc != CUDA_SUCCESS)
        return rc;
    const struct table_entry entry = {
        .tag = TABLE_GRAPH,
        .key = (uint64_t)(uintptr_t)*exec,
        .size = instance->peak,
        .owner = instance->kept,
        .count = (uint32_t)instance->growth.device << 1,
        .vgpu = (uint8_t)(vgpu - process.vgpus),
    };
    table_put(&process.table, &entry);
    process.graphs_allocate = true;
    return rc;
}

#define INSTANTIATE(symbol, parameters, arguments)                                                 \
    EXPORT CUresult symbol parameters                                                              \
    {                                                                                              \
        struct instance instance;                                                                  \
        CUresult rc = begin(&instance, hGraph);                                                    \
        return rc != CUDA_SUCCESS ? rc : end(&instance, REAL(symbol) arguments, phGraphExec);      \
    }

INSTANTIATE(cuGraphInstantiate,
            (CUgraphExec * phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
             size_t bufferSize),
            (phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize))
INSTANTIATE(cuGraphInstantiate_v2,
            (CUgraphExec * phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
             size_t bufferSize),
            (phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize))
INSTANTIATE(cuGraphInstantiateWithFlags,
            (CUgraphExec * phGraphExec, CUgraph hGraph, unsigned long long flags),
            (phGraphExec, hGraph, flags))
INSTANTIATE(cuGraphInstantiateWithParams,
            (CUgraphExec * phGraphExec, CUgraph hGraph,
             CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams),
            (phGraphExec, hGraph, instantiateParams))
INSTANTIATE(cuGraphInstantiateWithParams_ptsz,
            (CUgraphExec * phGraphExec, CUgraph hGraph,
             CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams),
            (phGraphExec, hGraph, instantiateParams))

/* --- what may make the pool grow later ------------------------------------------------------- */

/* Upload or launch of a graph that allocates. What it did not free itself the last time it frees
 * now (or the driver refuses to launch it), before it takes it again. */
static CUresult run_allocating(struct table_entry *entry, CUgraphExec exec, CUstream stream,
                               CUresult (*call)(CUgraphExec, CUstream))
{
    struct growth growth = {.vgpu = &process.vgpus[entry->vgpu],
                            .device = (CUdevice)(entry->count >> 1)};
    bool ran = entry->count & 1;
    uint64_t peak = entry->size, kept = ran ? entry->owner : 0;

    CUresult rc = growth_begin(&growth, peak - kept, peak);
    if (rc != CUDA_SUCCESS)
        return rc;
    rc = call(exec, stream);
    growth_end(&growth); /* it runs: what it took counts, even beyond */
    if (rc == CUDA_SUCCESS && !ran) {
        entry->count |= 1;
        table_put(&process.table, entry);
    }
    return rc;
}

static CUresult run(CUgraphExec exec, CUstream stream, CUresult (*call)(CUgraphExec, CUstream))
{
    struct table_entry entry;
    bool allocates = process.graphs_allocate &&
                     table_find(&process.table, TABLE_GRAPH, (uint64_t)(uintptr_t)exec, &entry);

    return allocates ? run_allocating(&entry, exec, stream, call) : call(exec, stream);
}

#define UPLOAD(symbol)                                                                             \
    EXPORT CUresult symbol(CUgraphExec hGraphExec, CUstream hStream)                               \
    {                                                                                              \
        CUresult rc = process_enter();                                                             \
        return rc != CUDA_SUCCESS ? rc : run(hGraphExec, hStream, REAL(symbol));                   \
    }

UPLOAD(cuGraphUpload)
UPLOAD(cuGraphUpload_ptsz)

#define LAUNCH(symbol, flavoured)                                                                  \
    static __attribute__((noinline, cold))                                                         \
    CUresult symbol##_waiting(CUgraphExec exec, CUstream hStream)                                  \
    {                                                                                              \
        struct launch launch;                                                                      \
        CUresult rc = launch_begin(&launch, flavoured);                                            \
        if (rc != CUDA_SUCCESS)                                                                    \
            return rc;                                                                             \
        rc = run(exec, hStream, REAL(symbol));                                                     \
        launch_end(&launch);                                                                       \
        return rc;                                                                                 \
    }                                                                                              \
    EXPORT CUresult symbol(CUgraphExec hGraphExec, CUstream hStream)                               \
    {                                                                                              \
        if (likely(!process.graphs_allocate) && launch_open())                                     \
            return REAL(symbol)(hGraphExec, hStream);                                              \
        return symbol##_waiting(hGraphExec, hStream);                                              \
    }

LAUNCH(cuGraphLaunch, hStream)
LAUNCH(cuGraphLaunch_ptsz, PER_THREAD(hStream))

EXPORT CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
    struct table_entry entry;
    CUresult rc = process_enter();

    if (rc != CUDA_SUCCESS)
        return rc;
    bool known = table_remove(&process.table, TABLE_GRAPH, (uint64_t)(uintptr_t)hGraphExec, &entry);
    rc = REAL(cuGraphExecDestroy)(hGraphExec);
    if (known && rc != CUDA_SUCCESS)
        table_put(&process.table, &entry);
    pool_freed();
    return rc;
}

EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    CUresult rc = process_enter();
    if (rc == CUDA_SUCCESS)
        rc = REAL(cuDeviceGraphMemTrim)(device);
    pool_freed();
    pool_synchronised();
    return rc;
}
