/* graph_exec.c - executable graphs: made, launched, updated. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#define ALL_FLAGS 15ull

/* --- making and freeing --------------------------------------------------------------------- */

static void exec_free(CUgraphExec exec)
{
    for (size_t i = 0; i < exec->n_steps; i++) {
        if (exec->steps[i].child)
            exec_free(exec->steps[i].child);
        item_free(&exec->steps[i].item);
    }
    objects_free(exec->objects);
    exec->magic = 0;
    free(exec->steps);
    free(exec);
}

static CUresult instantiate(CUgraph graph, uint64_t flags, CUgraphExec *out);

static CUresult make_step(CUgraphNode node, struct step *step)
{
    *step = (struct step){.node = node, .enabled = true};
    CUresult rc = item_copy(&node->item, &step->item);
    if (rc == CUDA_SUCCESS && step->item.child)
        rc = instantiate(step->item.child, 0, &step->child);
    return rc;
}

static CUresult make_steps(CUgraph graph, CUgraphExec exec)
{
    CUgraphNode *order;
    TRY(graph_order(graph, &order));
    exec->steps = calloc(graph->n_nodes + 1, sizeof(*exec->steps));
    CUresult rc = exec->steps ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; rc == CUDA_SUCCESS && i < graph->n_nodes; i++) {
        rc = make_step(order[i], &exec->steps[i]);
        exec->n_steps = i + 1;
        order[i]->mark = i + 1;
        for (size_t k = 0; k < order[i]->n_needs; k++)
            exec->steps[i].shape += order[i]->needs[k]->mark * 0x9e3779b97f4a7c15ull;
    }
    free(order);
    return rc;
}

/* sim.lock held. */
static CUresult instantiate(CUgraph graph, uint64_t flags, CUgraphExec *out)
{
    CUgraphExec exec = calloc(1, sizeof(*exec));
    NEED(exec, CUDA_ERROR_OUT_OF_MEMORY);
    exec->magic = SIM_EXEC;
    exec->flags = flags;
    CUresult rc = make_steps(graph, exec);
    if (rc == CUDA_SUCCESS)
        rc = objects_copy(graph->objects, &exec->objects);
    if (rc != CUDA_SUCCESS)
        exec_free(exec);
    else
        *out = exec;
    return rc;
}

CUresult sim_cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    NEED(out && IS(graph, SIM_GRAPH) && !(flags & ~ALL_FLAGS), CUDA_ERROR_INVALID_VALUE);
    NEED(!(flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH), CUDA_ERROR_NOT_SUPPORTED);
    sim_lock();
    CUresult rc = instantiate(graph, flags, out);
    sim_unlock();
    return rc;
}

CUresult sim_cuGraphInstantiate(CUgraphExec *out, CUgraph graph, CUgraphNode *error_node, char *log,
                                size_t size)
{
    if (error_node)
        *error_node = NULL;
    if (log && size)
        *log = 0;
    return sim_cuGraphInstantiateWithFlags(out, graph, 0);
}

CUresult sim_cuGraphInstantiate_v2(CUgraphExec *out, CUgraph graph, CUgraphNode *error_node,
                                   char *log, size_t size)
{
    return sim_cuGraphInstantiate(out, graph, error_node, log, size);
}

CUresult sim_cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph,
                                          CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    NEED(params, CUDA_ERROR_INVALID_VALUE);
    params->hErrNode_out = NULL;
    CUresult rc = sim_cuGraphInstantiateWithFlags(out, graph, params->flags);
    params->result_out = rc == CUDA_SUCCESS               ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                         : rc == CUDA_ERROR_INVALID_VALUE ? CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE
                                                          : CUDA_GRAPH_INSTANTIATE_ERROR;
    return rc;
}

CUresult graph_from_exec(CUgraphExec exec, CUgraph *out)
{
    CUgraph graph;
    CUgraphNode node = NULL;
    TRY(graph_new(&graph));
    CUresult rc = objects_copy(exec->objects, &graph->objects);
    for (size_t i = 0; rc == CUDA_SUCCESS && i < exec->n_steps; i++) {
        struct item item;
        CUgraphNode before = node;
        rc = item_copy(&exec->steps[i].item, &item);
        if (rc == CUDA_SUCCESS)
            rc = graph_add(graph, &before, before != NULL, &item, &node);
    }
    if (rc != CUDA_SUCCESS)
        graph_free(graph);
    else
        *out = graph;
    return rc;
}

CUresult sim_cuGraphExecDestroy(CUgraphExec exec)
{
    NEED(IS(exec, SIM_EXEC), CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    exec_free(exec);
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t *flags)
{
    NEED(IS(exec, SIM_EXEC) && flags, CUDA_ERROR_INVALID_VALUE);
    *flags = exec->flags;
    return CUDA_SUCCESS;
}

/* --- launching ------------------------------------------------------------------------------ */

/* Make one stream wait for all that is in another. */
static CUresult join(CUstream from, CUstream to)
{
    CUevent event;
    sim_lock();
    CUresult rc = event_create(from->ctx, CU_EVENT_DISABLE_TIMING, &event);
    sim_unlock();
    TRY(rc);
    struct work record = {.type = WORK_RECORD, .ctx = from->ctx},
                wait = {.type = WORK_WAIT, .ctx = to->ctx};
    record.event.event = wait.event.event = event;
    record.event.version = wait.event.version = ++event->recorded;
    rc = work_submit(from, &record);
    if (rc == CUDA_SUCCESS)
        rc = work_submit(to, &wait);
    sim_cuEventDestroy_v2(event);
    return rc;
}

/* The stream in which nodes of the context run: the one launched into, or on another GPU its own.
 */
static CUresult stream_for(CUcontext ctx, CUstream launched, CUstream *out)
{
    *out = launched;
    if (!ctx || ctx->device == launched->ctx->device)
        return CUDA_SUCCESS;
    sim_lock();
    CUstream s = ctx->streams;
    while (s && !s->for_graphs)
        s = s->next;
    CUresult rc = s ? CUDA_SUCCESS : stream_create(ctx, CU_STREAM_NON_BLOCKING, 0, &s);
    if (rc == CUDA_SUCCESS)
        s->for_graphs = true;
    sim_unlock();
    *out = s;
    return rc;
}

static CUresult run_ops(const struct item *item, CUstream s)
{
    for (unsigned i = 0; i < item->n_ops; i++)
        TRY(stream_value(s, &item->ops[i]));
    return CUDA_SUCCESS;
}

static CUresult run_item(const struct item *item, CUstream s)
{
    struct work w = item->work;
    if (item->ops)
        return run_ops(item, s);
    if (w.type == WORK_COPY)
        w.copy.given = NULL; /* stays the step's */
    if (w.type == WORK_RECORD)
        w.event.version = ++w.event.event->recorded;
    if (w.type == WORK_WAIT)
        w.event.version = w.event.event->recorded;
    return work_submit(s, &w);
}

/* *at is the stream in which the last step ran. */
static CUresult run_steps(CUgraphExec exec, CUstream launched, CUstream *at)
{
    for (size_t i = 0; i < exec->n_steps; i++) {
        struct step *step = &exec->steps[i];
        CUstream s;
        if (!step->enabled || step->item.type == CU_GRAPH_NODE_TYPE_EMPTY)
            continue;
        if (step->child) {
            TRY(run_steps(step->child, launched, at));
            continue;
        }
        TRY(stream_for(step->item.work.ctx, launched, &s));
        if (s != *at)
            TRY(join(*at, s));
        *at = s;
        TRY(run_item(&step->item, s));
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphLaunch(CUgraphExec exec, CUstream handle)
{
    CUstream s;
    NEED(IS(exec, SIM_EXEC), CUDA_ERROR_INVALID_VALUE);
    TRY(stream_get(handle, &s));
    if (s->capture)
        return capture_launch(s, exec);
    TRY(graph_memory_prepare(exec));
    CUstream at = s;
    TRY(run_steps(exec, s, &at));
    return at == s ? CUDA_SUCCESS : join(at, s);
}

CUresult sim_cuGraphUpload(CUgraphExec exec, CUstream handle)
{
    CUstream s;
    NEED(IS(exec, SIM_EXEC), CUDA_ERROR_INVALID_VALUE);
    return stream_get(handle, &s);
}

/* --- changing one step ---------------------------------------------------------------------- */

static struct step *find_step(CUgraphExec exec, CUgraphNode node)
{
    for (size_t i = 0; i < exec->n_steps; i++)
        if (exec->steps[i].node == node)
            return &exec->steps[i];
    return NULL;
}

static CUresult find(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type, struct step **step)
{
    NEED(IS(exec, SIM_EXEC) && node, CUDA_ERROR_INVALID_VALUE);
    *step = find_step(exec, node);
    NEED(*step && (*step)->item.type == type, CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

static CUresult replace(struct step *step, struct item *item)
{
    sim_lock();
    item_free(&step->item);
    step->item = *item;
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                               const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct step *step;
    struct item item;
    TRY(find(exec, node, CU_GRAPH_NODE_TYPE_KERNEL, &step));
    TRY(item_kernel(params, &item));
    NEED(item.work.ctx == step->item.work.ctx, CUDA_ERROR_INVALID_VALUE);
    return replace(step, &item);
}

CUresult sim_cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUDA_KERNEL_NODE_PARAMS new = {0};
    NEED(params, CUDA_ERROR_INVALID_VALUE);
    memcpy(&new, params, sizeof(*params));
    return sim_cuGraphExecKernelNodeSetParams_v2(exec, node, &new);
}

CUresult sim_cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            const CUDA_MEMCPY3D *copy, CUcontext ctx)
{
    struct step *step;
    struct item item;
    TRY(find(exec, node, CU_GRAPH_NODE_TYPE_MEMCPY, &step));
    TRY(item_memcpy(copy, ctx, &item));
    return replace(step, &item);
}

CUresult sim_cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx)
{
    struct step *step;
    struct item item;
    TRY(find(exec, node, CU_GRAPH_NODE_TYPE_MEMSET, &step));
    TRY(item_memset(params, ctx, &item));
    return replace(step, &item);
}

CUresult sim_cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                          const CUDA_HOST_NODE_PARAMS *params)
{
    struct step *step;
    struct item item;
    TRY(find(exec, node, CU_GRAPH_NODE_TYPE_HOST, &step));
    TRY(item_host(params, &item));
    return replace(step, &item);
}

CUresult sim_cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
    struct step *step;
    struct item item;
    TRY(find(exec, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, &step));
    TRY(item_event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, &item));
    return replace(step, &item);
}

CUresult sim_cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
    struct step *step;
    struct item item;
    TRY(find(exec, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, &step));
    TRY(item_event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, &item));
    return replace(step, &item);
}

CUresult sim_cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                const CUDA_BATCH_MEM_OP_NODE_PARAMS *params)
{
    struct step *step;
    struct item item;
    TRY(find(exec, node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, &step));
    TRY(item_ops(params, &item));
    return replace(step, &item);
}

/* A child graph that is laid out as the one it replaces. */
static CUresult replace_child(struct step *step, CUgraph child)
{
    NEED(IS(child, SIM_GRAPH) && child->n_nodes == step->item.child->n_nodes,
         CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    struct item item;
    CUgraphExec exec;
    TRY(item_child(child, &item));
    CUresult rc = instantiate(item.child, 0, &exec);
    if (rc != CUDA_SUCCESS) {
        item_free(&item);
        return rc;
    }
    exec_free(step->child);
    item_free(&step->item);
    step->child = exec;
    step->item = item;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child)
{
    struct step *step;
    TRY(find(exec, node, CU_GRAPH_NODE_TYPE_GRAPH, &step));
    sim_lock();
    CUresult rc = replace_child(step, child);
    sim_unlock();
    return rc;
}

CUresult sim_cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
{
    struct step *step;
    struct item item;
    NEED(params, CUDA_ERROR_INVALID_VALUE);
    TRY(find(exec, node, params->type, &step));
    if (params->type == CU_GRAPH_NODE_TYPE_GRAPH)
        return sim_cuGraphExecChildGraphNodeSetParams(exec, node, params->graph.graph);
    NEED(params->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
             params->type != CU_GRAPH_NODE_TYPE_MEM_FREE,
         CUDA_ERROR_NOT_SUPPORTED);
    TRY(item_any(params, &item));
    return replace(step, &item);
}

static CUresult switchable(CUgraphExec exec, CUgraphNode node, struct step **step)
{
    NEED(IS(exec, SIM_EXEC) && (*step = find_step(exec, node)), CUDA_ERROR_INVALID_VALUE);
    CUgraphNodeType type = (*step)->item.type;
    NEED(type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
             type == CU_GRAPH_NODE_TYPE_MEMSET,
         CUDA_ERROR_INVALID_VALUE);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled)
{
    struct step *step;
    TRY(switchable(exec, node, &step));
    step->enabled = enabled;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned *enabled)
{
    struct step *step;
    NEED(enabled, CUDA_ERROR_INVALID_VALUE);
    TRY(switchable(exec, node, &step));
    *enabled = step->enabled;
    return CUDA_SUCCESS;
}

/* --- updating all --------------------------------------------------------------------------- */

static CUresult differs(CUgraphExecUpdateResultInfo *info, CUgraphExecUpdateResult result,
                        CUgraphNode node)
{
    info->result = result;
    info->errorNode = node;
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

/* The graph must be laid out as the one that the executable was made from. sim.lock held. */
static CUresult update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    CUgraphExec new;
    if (graph->n_nodes != exec->n_steps)
        return differs(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, graph->nodes);
    CUresult rc = instantiate(graph, exec->flags, &new);
    if (rc != CUDA_SUCCESS) {
        info->result = CU_GRAPH_EXEC_UPDATE_ERROR;
        return rc;
    }
    for (size_t i = 0; i < exec->n_steps && rc == CUDA_SUCCESS; i++) {
        const struct step *was = &exec->steps[i], *is = &new->steps[i];
        if (was->item.type != is->item.type)
            rc = differs(info, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, is->node);
        else if (was->shape != is->shape)
            rc = differs(info, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, is->node);
        else if (was->item.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
                 was->item.type == CU_GRAPH_NODE_TYPE_MEM_FREE)
            rc = differs(info, CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, is->node);
    }
    if (rc == CUDA_SUCCESS) {
        struct CUgraphExec_st old = *exec;
        for (size_t i = 0; i < old.n_steps; i++) {
            new->steps[i].node = old.steps[i].node;
            new->steps[i].enabled = old.steps[i].enabled;
        }
        exec->steps = new->steps;
        exec->objects = new->objects;
        new->steps = old.steps;
        new->objects = old.objects;
    }
    exec_free(new);
    return rc;
}

CUresult sim_cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
                                  CUgraphExecUpdateResultInfo *info)
{
    NEED(IS(exec, SIM_EXEC) && IS(graph, SIM_GRAPH) && info, CUDA_ERROR_INVALID_VALUE);
    *info = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_SUCCESS};
    sim_lock();
    CUresult rc = update(exec, graph, info);
    sim_unlock();
    return rc;
}

CUresult sim_cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *error_node,
                               CUgraphExecUpdateResult *result)
{
    CUgraphExecUpdateResultInfo info;
    CUresult rc = sim_cuGraphExecUpdate_v2(exec, graph, &info);
    if (rc == CUDA_ERROR_INVALID_VALUE)
        return rc;
    if (error_node)
        *error_node = info.errorNode;
    if (result)
        *result = info.result;
    return rc;
}
