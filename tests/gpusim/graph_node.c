/* graph_node.c - what nodes of each kind do: added, asked, changed. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

/* --- from what the caller says to items ----------------------------------------------------- */

CUresult item_kernel(const CUDA_KERNEL_NODE_PARAMS *p, struct item *item)
{
    NEED(p, CUDA_ERROR_INVALID_VALUE);
    *item = (struct item){.type = CU_GRAPH_NODE_TYPE_KERNEL};
    void *handle = p->func ? (void *)p->func : (void *)p->kern;
    NEED(handle, CUDA_ERROR_INVALID_VALUE);
    CUcontext ctx = p->func ? NULL : p->ctx;
    if (IS(p->func, SIM_FUNCTION))
        ctx = p->func->ctx;
    TRY(context_check(&ctx));
    const unsigned grid[3] = {p->gridDimX, p->gridDimY, p->gridDimZ};
    const unsigned block[3] = {p->blockDimX, p->blockDimY, p->blockDimZ};
    return kernel_make(handle, ctx, grid, block, p->sharedMemBytes, p->kernelParams, p->extra,
                       &item->work);
}

CUresult item_memcpy(const CUDA_MEMCPY3D *copy, CUcontext ctx, struct item *item)
{
    NEED(copy, CUDA_ERROR_INVALID_VALUE);
    *item = (struct item){.type = CU_GRAPH_NODE_TYPE_MEMCPY};
    TRY(context_check(&ctx));
    return copy_make(copy, ctx, &item->work);
}

CUresult item_memset(const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx, struct item *item)
{
    NEED(p, CUDA_ERROR_INVALID_VALUE);
    *item = (struct item){.type = CU_GRAPH_NODE_TYPE_MEMSET};
    TRY(context_check(&ctx));
    return set_make(p, ctx, &item->work);
}

CUresult item_host(const CUDA_HOST_NODE_PARAMS *p, struct item *item)
{
    NEED(p && p->fn, CUDA_ERROR_INVALID_VALUE);
    *item = (struct item){.type = CU_GRAPH_NODE_TYPE_HOST};
    item->work.type = WORK_HOST;
    item->work.host.fn = p->fn;
    item->work.host.data = p->userData;
    return CUDA_SUCCESS;
}

CUresult item_event(CUgraphNodeType type, CUevent event, struct item *item)
{
    NEED(IS(event, SIM_EVENT), CUDA_ERROR_INVALID_VALUE);
    *item = (struct item){.type = type};
    item->work.type = type == CU_GRAPH_NODE_TYPE_EVENT_RECORD ? WORK_RECORD : WORK_WAIT;
    item->work.ctx = event->ctx;
    item->work.event.event = event;
    return CUDA_SUCCESS;
}

CUresult item_child(CUgraph child, struct item *item)
{
    NEED(IS(child, SIM_GRAPH), CUDA_ERROR_INVALID_VALUE);
    *item = (struct item){.type = CU_GRAPH_NODE_TYPE_GRAPH};
    item->work.type = WORK_GRAPH;
    TRY(graph_clone(child, &item->child));
    item->child->owned = true;
    return CUDA_SUCCESS;
}

CUresult item_ops(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, struct item *item)
{
    NEED(p && p->count && p->count <= 256 && p->paramArray && !p->flags, CUDA_ERROR_INVALID_VALUE);
    *item = (struct item){.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};
    CUcontext ctx = p->ctx;
    TRY(context_check(&ctx));
    item->work.type = WORK_VALUE;
    item->work.ctx = ctx;
    item->n_ops = p->count;
    item->ops = malloc(p->count * sizeof(*item->ops));
    NEED(item->ops, CUDA_ERROR_OUT_OF_MEMORY);
    memcpy(item->ops, p->paramArray, p->count * sizeof(*item->ops));
    return CUDA_SUCCESS;
}

/* Graph memory has its address from the start. */
static CUresult item_alloc(CUDA_MEM_ALLOC_NODE_PARAMS *p, struct item *item)
{
    NEED(p && p->bytesize && p->poolProps.handleTypes == CU_MEM_HANDLE_TYPE_NONE,
         CUDA_ERROR_INVALID_VALUE);
    NEED(p->poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED);
    NEED(is_device(p->poolProps.location.id), CUDA_ERROR_INVALID_DEVICE);
    CUcontext ctx = NULL;
    TRY(context_check(&ctx));
    *item = (struct item){.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    TRY(graph_memory_reserve(&p->dptr, p->bytesize, p->poolProps.location.id));
    item->work.type = WORK_ALLOC;
    item->work.ctx = ctx;
    item->work.memory.pointer = p->dptr;
    item->work.memory.bytes = p->bytesize;
    return CUDA_SUCCESS;
}

static CUresult item_memory_free(CUdeviceptr pointer, struct item *item)
{
    CUcontext ctx = NULL;
    TRY(context_check(&ctx));
    struct block *block = memory_find((void *)pointer);
    NEED(block && block->type == MEMORY_GRAPH && (CUdeviceptr)block->base == pointer,
         CUDA_ERROR_INVALID_VALUE);
    *item = (struct item){.type = CU_GRAPH_NODE_TYPE_MEM_FREE};
    item->work.type = WORK_FREE;
    item->work.ctx = ctx;
    item->work.memory.pointer = pointer;
    graph_memory_hold(pointer);
    return CUDA_SUCCESS;
}

CUresult item_any(CUgraphNodeParams *p, struct item *item)
{
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
        CUDA_KERNEL_NODE_PARAMS kernel;
        _Static_assert(sizeof(kernel) == sizeof(p->kernel),
                       "the second and third form are laid out alike");
        memcpy(&kernel, &p->kernel, sizeof(kernel));
        return item_kernel(&kernel, item);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return item_memcpy(&p->memcpy.copyParams, p->memcpy.copyCtx, item);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
        CUDA_MEMSET_NODE_PARAMS set = {p->memset.dst,         p->memset.pitch, p->memset.value,
                                       p->memset.elementSize, p->memset.width, p->memset.height};
        return item_memset(&set, p->memset.ctx, item);
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
        CUDA_HOST_NODE_PARAMS host = {p->host.fn, p->host.userData};
        return item_host(&host, item);
    }
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return item_child(p->graph.graph, item);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        *item = (struct item){.type = CU_GRAPH_NODE_TYPE_EMPTY};
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return item_event(p->type, p->eventWait.event, item);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return item_event(p->type, p->eventRecord.event, item);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
        CUDA_MEM_ALLOC_NODE_PARAMS alloc = {.poolProps = p->alloc.poolProps,
                                            .bytesize = p->alloc.bytesize};
        TRY(item_alloc(&alloc, item));
        p->alloc.dptr = alloc.dptr;
        return CUDA_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return item_memory_free(p->free.dptr, item);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
        CUDA_BATCH_MEM_OP_NODE_PARAMS ops = {p->memOp.ctx, p->memOp.count, p->memOp.paramArray,
                                             p->memOp.flags};
        return item_ops(&ops, item);
    }
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

/* --- adding --------------------------------------------------------------------------------- */

static CUresult check(CUgraphNode *out, CUgraph graph, const CUgraphNode *needs, size_t n)
{
    NEED(out && IS(graph, SIM_GRAPH) && (needs || !n), CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

static CUresult add(CUgraphNode *out, CUgraph graph, const CUgraphNode *needs, size_t n,
                    struct item *item)
{
    sim_lock();
    CUresult rc = graph_add(graph, needs, n, item, out);
    sim_unlock();
    return rc;
}

static CUDA_KERNEL_NODE_PARAMS from_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    CUDA_KERNEL_NODE_PARAMS new = {0};
    memcpy(&new, p, sizeof(*p));
    return new;
}

CUresult sim_cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *needs,
                                     size_t n, const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct item item;
    TRY(check(out, graph, needs, n));
    TRY(item_kernel(params, &item));
    return add(out, graph, needs, n, &item);
}

CUresult sim_cuGraphAddKernelNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *needs,
                                  size_t n, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    NEED(params, CUDA_ERROR_INVALID_VALUE);
    CUDA_KERNEL_NODE_PARAMS new = from_v1(params);
    return sim_cuGraphAddKernelNode_v2(out, graph, needs, n, &new);
}

CUresult sim_cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *needs,
                                  size_t n, const CUDA_MEMCPY3D *copy, CUcontext ctx)
{
    struct item item;
    TRY(check(out, graph, needs, n));
    TRY(item_memcpy(copy, ctx, &item));
    return add(out, graph, needs, n, &item);
}

CUresult sim_cuGraphAddMemsetNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *needs,
                                  size_t n, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx)
{
    struct item item;
    TRY(check(out, graph, needs, n));
    TRY(item_memset(params, ctx, &item));
    return add(out, graph, needs, n, &item);
}

CUresult sim_cuGraphAddHostNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *needs, size_t n,
                                const CUDA_HOST_NODE_PARAMS *params)
{
    struct item item;
    TRY(check(out, graph, needs, n));
    TRY(item_host(params, &item));
    return add(out, graph, needs, n, &item);
}

CUresult sim_cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *needs,
                                      size_t n, CUgraph child)
{
    struct item item;
    TRY(check(out, graph, needs, n));
    sim_lock();
    CUresult rc = item_child(child, &item);
    sim_unlock();
    TRY(rc);
    return add(out, graph, needs, n, &item);
}

CUresult sim_cuGraphAddEmptyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *needs,
                                 size_t n)
{
    struct item item = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    TRY(check(out, graph, needs, n));
    return add(out, graph, needs, n, &item);
}

CUresult sim_cuGraphAddEventRecordNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *needs,
                                       size_t n, CUevent event)
{
    struct item item;
    TRY(check(out, graph, needs, n));
    TRY(item_event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, &item));
    return add(out, graph, needs, n, &item);
}

CUresult sim_cuGraphAddEventWaitNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *needs,
                                     size_t n, CUevent event)
{
    struct item item;
    TRY(check(out, graph, needs, n));
    TRY(item_event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, &item));
    return add(out, graph, needs, n, &item);
}

CUresult sim_cuGraphAddBatchMemOpNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *needs,
                                      size_t n, const CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
    struct item item;
    TRY(check(out, graph, needs, n));
    TRY(item_ops(params, &item));
    return add(out, graph, needs, n, &item);
}

CUresult sim_cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *needs,
                                    size_t n, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    struct item item;
    TRY(check(out, graph, needs, n));
    sim_lock();
    CUresult rc = item_alloc(params, &item);
    sim_unlock();
    TRY(rc);
    return add(out, graph, needs, n, &item);
}

CUresult sim_cuGraphAddMemFreeNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *needs,
                                   size_t n, CUdeviceptr pointer)
{
    struct item item;
    TRY(check(out, graph, needs, n));
    sim_lock();
    CUresult rc = item_memory_free(pointer, &item);
    sim_unlock();
    TRY(rc);
    return add(out, graph, needs, n, &item);
}

/* Kinds whose making needs the lock; the others take it themselves. */
static bool needs_lock(CUgraphNodeType type)
{
    return type == CU_GRAPH_NODE_TYPE_GRAPH || type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
           type == CU_GRAPH_NODE_TYPE_MEM_FREE;
}

static CUresult make_any(CUgraphNodeParams *params, struct item *item)
{
    NEED(params, CUDA_ERROR_INVALID_VALUE);
    bool lock = needs_lock(params->type);
    if (lock)
        sim_lock();
    CUresult rc = item_any(params, item);
    if (lock)
        sim_unlock();
    return rc;
}

CUresult sim_cuGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *needs, size_t n,
                            CUgraphNodeParams *params)
{
    struct item item;
    TRY(check(out, graph, needs, n));
    TRY(make_any(params, &item));
    return add(out, graph, needs, n, &item);
}

CUresult sim_cuGraphAddNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *needs,
                               const CUgraphEdgeData *data, size_t n, CUgraphNodeParams *params)
{
    TRY(graph_plain_edges(data, n));
    return sim_cuGraphAddNode(out, graph, needs, n, params);
}

/* --- asking --------------------------------------------------------------------------------- */

static CUresult is_node(CUgraphNode node, CUgraphNodeType type, const void *out)
{
    NEED(IS(node, SIM_NODE) && node->item.type == type && out, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *params)
{
    TRY(is_node(node, CU_GRAPH_NODE_TYPE_KERNEL, params));
    struct work *w = &node->item.work;
    for (int i = 0; i < SIM_MAX_ARGS; i++)
        node->params[i] = &w->kernel.args[i];
    *params = (CUDA_KERNEL_NODE_PARAMS){
        .func = w->kernel.function,
        .gridDimX = w->kernel.grid[0],
        .gridDimY = w->kernel.grid[1],
        .gridDimZ = w->kernel.grid[2],
        .blockDimX = w->kernel.block[0],
        .blockDimY = w->kernel.block[1],
        .blockDimZ = w->kernel.block[2],
        .sharedMemBytes = w->kernel.shared,
        .kernelParams = node->params,
        .kern = w->kernel.function->kernel,
        .ctx = w->ctx,
    };
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUDA_KERNEL_NODE_PARAMS new;
    NEED(params, CUDA_ERROR_INVALID_VALUE);
    TRY(sim_cuGraphKernelNodeGetParams_v2(node, &new));
    memcpy(params, &new, sizeof(*params));
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *params)
{
    TRY(is_node(node, CU_GRAPH_NODE_TYPE_MEMCPY, params));
    NEED(node->item.work.type == WORK_COPY, CUDA_ERROR_INVALID_VALUE);
    *params = *node->item.work.copy.given;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *params)
{
    TRY(is_node(node, CU_GRAPH_NODE_TYPE_MEMSET, params));
    const struct work *w = &node->item.work;
    *params = (CUDA_MEMSET_NODE_PARAMS){(CUdeviceptr)w->set.base, w->set.pitch, w->set.value,
                                        w->set.element,           w->set.width, w->set.height};
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *params)
{
    TRY(is_node(node, CU_GRAPH_NODE_TYPE_HOST, params));
    *params = (CUDA_HOST_NODE_PARAMS){node->item.work.host.fn, node->item.work.host.data};
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *child)
{
    TRY(is_node(node, CU_GRAPH_NODE_TYPE_GRAPH, child));
    *child = node->item.child;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *event)
{
    TRY(is_node(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event));
    *event = node->item.work.event.event;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *event)
{
    TRY(is_node(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event));
    *event = node->item.work.event.event;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
    TRY(is_node(node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, params));
    *params =
        (CUDA_BATCH_MEM_OP_NODE_PARAMS){node->item.work.ctx, node->item.n_ops, node->item.ops, 0};
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    TRY(is_node(node, CU_GRAPH_NODE_TYPE_MEM_ALLOC, params));
    const struct work *w = &node->item.work;
    sim_lock();
    const struct block *block = memory_find((void *)w->memory.pointer);
    *params = (CUDA_MEM_ALLOC_NODE_PARAMS){.bytesize = w->memory.bytes, .dptr = w->memory.pointer};
    params->poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params->poolProps.location =
        (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = block ? block->device : 0};
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *pointer)
{
    TRY(is_node(node, CU_GRAPH_NODE_TYPE_MEM_FREE, pointer));
    *pointer = node->item.work.memory.pointer;
    return CUDA_SUCCESS;
}

/* --- changing ------------------------------------------------------------------------------- */

static CUresult replace(CUgraphNode node, struct item *item)
{
    sim_lock();
    memcpy(item->attributes, node->item.attributes, sizeof(item->attributes));
    item->attributes_set = node->item.attributes_set;
    item_free(&node->item);
    node->item = *item;
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct item item;
    TRY(is_node(node, CU_GRAPH_NODE_TYPE_KERNEL, params));
    TRY(item_kernel(params, &item));
    return replace(node, &item);
}

CUresult sim_cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    NEED(params, CUDA_ERROR_INVALID_VALUE);
    CUDA_KERNEL_NODE_PARAMS new = from_v1(params);
    return sim_cuGraphKernelNodeSetParams_v2(node, &new);
}

CUresult sim_cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *params)
{
    struct item item;
    TRY(is_node(node, CU_GRAPH_NODE_TYPE_MEMCPY, params));
    TRY(item_memcpy(params, node->item.work.ctx, &item));
    return replace(node, &item);
}

CUresult sim_cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params)
{
    struct item item;
    TRY(is_node(node, CU_GRAPH_NODE_TYPE_MEMSET, params));
    TRY(item_memset(params, node->item.work.ctx, &item));
    return replace(node, &item);
}

CUresult sim_cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params)
{
    struct item item;
    TRY(is_node(node, CU_GRAPH_NODE_TYPE_HOST, params));
    TRY(item_host(params, &item));
    return replace(node, &item);
}

CUresult sim_cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event)
{
    struct item item;
    TRY(is_node(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event));
    TRY(item_event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, &item));
    return replace(node, &item);
}

CUresult sim_cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event)
{
    struct item item;
    TRY(is_node(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event));
    TRY(item_event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, &item));
    return replace(node, &item);
}

CUresult sim_cuGraphBatchMemOpNodeSetParams(CUgraphNode node,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
    struct item item;
    TRY(is_node(node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, params));
    TRY(item_ops(params, &item));
    return replace(node, &item);
}

CUresult sim_cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *params)
{
    struct item item;
    NEED(params, CUDA_ERROR_INVALID_VALUE);
    TRY(is_node(node, params->type, params));
    NEED(params->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
             params->type != CU_GRAPH_NODE_TYPE_MEM_FREE,
         CUDA_ERROR_NOT_SUPPORTED);
    TRY(make_any(params, &item));
    return replace(node, &item);
}

/* --- attributes of kernel nodes ------------------------------------------------------------- */

CUresult sim_cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID id,
                                           const CUkernelNodeAttrValue *value)
{
    TRY(is_node(node, CU_GRAPH_NODE_TYPE_KERNEL, value));
    NEED(id > 0 && id < CU_LAUNCH_ATTRIBUTE_MAX, CUDA_ERROR_INVALID_VALUE);
    node->item.attributes[id] = *value;
    node->item.attributes_set |= 1u << id;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID id,
                                           CUkernelNodeAttrValue *value)
{
    TRY(is_node(node, CU_GRAPH_NODE_TYPE_KERNEL, value));
    NEED(id > 0 && id < CU_LAUNCH_ATTRIBUTE_MAX, CUDA_ERROR_INVALID_VALUE);
    *value = node->item.attributes[id];
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from)
{
    TRY(is_node(to, CU_GRAPH_NODE_TYPE_KERNEL, from));
    TRY(is_node(from, CU_GRAPH_NODE_TYPE_KERNEL, to));
    memcpy(to->item.attributes, from->item.attributes, sizeof(to->item.attributes));
    to->item.attributes_set = from->item.attributes_set;
    return CUDA_SUCCESS;
}
