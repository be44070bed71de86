/* capture.c - stream capture: commands become nodes of a graph. What a capture does not allow is
 * refused, invalidates it, and is counted (capture_violations). */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

struct capture {
    CUgraph graph;
    bool own; /* made for this capture, to go with it if it fails */
    CUstreamCaptureMode mode;
    uint64_t id;
    CUstream origin;
    pthread_t thread;

    bool invalid;
    struct capture *next; /* among all going on */
};

static struct capture *captures;

/* --- rules ---------------------------------------------------------------------------------- */

static void violation(void)
{
    sim.state->processes[sim.process].capture_violations++;
}

void capture_invalidate(struct capture *capture)
{
    capture->invalid = true;
}

/* Does the capture forbid calls that may disturb it, made by this thread? */
static bool forbids(const struct capture *c)
{
    if (thread.capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
        c->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (pthread_equal(c->thread, pthread_self()))
        return true;
    return thread.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
           c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

static CUresult forbid(void)
{
    CUresult rc = CUDA_SUCCESS;
    sim_lock();
    for (struct capture *c = captures; c; c = c->next) {
        if (!forbids(c))
            continue;
        c->invalid = true;
        rc = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (rc != CUDA_SUCCESS)
        violation();
    sim_unlock();
    return rc;
}

CUresult capture_forbids(void)
{
    return likely(!sim.captures) ? CUDA_SUCCESS : forbid();
}

CUresult capture_unsupported(CUstream s)
{
    sim_lock();
    if (s->capture)
        capture_invalidate(s->capture);
    violation();
    sim_unlock();
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult capture_forbids_on(CUstream s)
{
    if (likely(!sim.captures))
        return CUDA_SUCCESS;
    if (s->capture)
        return capture_unsupported(s);
    if (s->legacy)
        TRY(capture_forbids_legacy(s->ctx));
    return forbid();
}

CUresult capture_forbids_event(CUevent event)
{
    if (likely(!sim.captures))
        return CUDA_SUCCESS;
    if (event->capture) {
        sim_lock();
        capture_invalidate(event->capture);
        violation();
        sim_unlock();
        return CUDA_ERROR_CAPTURED_EVENT;
    }
    return forbid();
}

/* Invalidate the captures in streams of the context (only in blocking ones, or all). */
static bool invalidate_in(CUcontext ctx, bool only_blocking)
{
    bool any = false;
    sim_lock();
    for (CUstream s = ctx->streams; s; s = s->next) {
        if (!s->capture || (only_blocking && s->flags & CU_STREAM_NON_BLOCKING))
            continue;
        capture_invalidate(s->capture);
        any = true;
    }
    if (any)
        violation();
    sim_unlock();
    return any;
}

CUresult capture_forbids_sync(CUcontext ctx)
{
    if (likely(!sim.captures))
        return CUDA_SUCCESS;
    NEED(!invalidate_in(ctx, false), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return forbid();
}

/* The default stream waits for blocking streams, also for one under capture. */
CUresult capture_forbids_legacy(CUcontext ctx)
{
    if (likely(!sim.captures))
        return CUDA_SUCCESS;
    return invalidate_in(ctx, true) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

CUresult sim_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    NEED(mode && (int)*mode >= 0 && *mode <= CU_STREAM_CAPTURE_MODE_RELAXED,
         CUDA_ERROR_INVALID_VALUE);
    CUstreamCaptureMode old = thread.capture_mode;
    thread.capture_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}

/* --- what the next command comes after ------------------------------------------------------ */

static CUresult set_nodes(CUgraphNode **list, size_t *n, const CUgraphNode *nodes, size_t count)
{
    CUgraphNode *copy = malloc((count + 1) * sizeof(*copy));
    NEED(copy, CUDA_ERROR_OUT_OF_MEMORY);
    if (count)
        memcpy(copy, nodes, count * sizeof(*copy));
    free(*list);
    *list = copy;
    *n = count;
    return CUDA_SUCCESS;
}

static CUresult add_nodes(CUstream s, const CUgraphNode *nodes, size_t count)
{
    CUgraphNode *list = realloc(s->capture_nodes, (s->n_capture_nodes + count + 1) * sizeof(*list));
    NEED(list, CUDA_ERROR_OUT_OF_MEMORY);
    s->capture_nodes = list;
    for (size_t i = 0; i < count; i++) {
        bool known = false;
        for (size_t k = 0; k < s->n_capture_nodes && !known; k++)
            known = list[k] == nodes[i];
        if (!known)
            list[s->n_capture_nodes++] = nodes[i];
    }
    return CUDA_SUCCESS;
}

/* --- beginning ------------------------------------------------------------------------------ */

static CUresult begin(CUstream s, CUgraph graph, CUstreamCaptureMode mode, struct capture **out)
{
    static uint64_t next_id;
    struct capture *c = calloc(1, sizeof(*c));
    NEED(c, CUDA_ERROR_OUT_OF_MEMORY);
    if (!graph) {
        CUresult rc = graph_new(&c->graph);
        if (rc != CUDA_SUCCESS) {
            free(c);
            return rc;
        }
    }
    c->own = !graph;
    c->graph = graph ? graph : c->graph;
    c->mode = mode;
    c->id = ++next_id;
    c->origin = s;
    c->thread = pthread_self();
    c->next = captures;
    captures = c;
    sim.captures++;
    s->n_capture_nodes = 0;
    s->capture = c;
    *out = c;
    return CUDA_SUCCESS;
}

static CUresult begin_in(CUstream handle, CUgraph graph, const CUgraphNode *nodes, size_t n,
                         CUstreamCaptureMode mode)
{
    CUstream s;
    struct capture *c;
    NEED((int)mode >= 0 && mode <= CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_get(handle, &s));
    NEED(!s->legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    NEED(!s->capture, CUDA_ERROR_ILLEGAL_STATE);
    sim_lock();
    CUresult rc = begin(s, graph, mode, &c);
    if (rc == CUDA_SUCCESS)
        rc = set_nodes(&s->capture_nodes, &s->n_capture_nodes, nodes, n);
    sim_unlock();
    return rc;
}

CUresult sim_cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode mode)
{
    return begin_in(s, NULL, NULL, 0, mode);
}

CUresult sim_cuStreamBeginCapture(CUstream s)
{
    return begin_in(s, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult sim_cuStreamBeginCaptureToGraph(CUstream s, CUgraph graph, const CUgraphNode *nodes,
                                         const CUgraphEdgeData *data, size_t n,
                                         CUstreamCaptureMode mode)
{
    NEED(IS(graph, SIM_GRAPH) && (nodes || !n), CUDA_ERROR_INVALID_VALUE);
    TRY(graph_plain_edges(data, n));
    for (size_t i = 0; i < n; i++)
        NEED(IS(nodes[i], SIM_NODE) && nodes[i]->graph == graph, CUDA_ERROR_INVALID_VALUE);
    return begin_in(s, graph, nodes, n, mode);
}

/* --- ending --------------------------------------------------------------------------------- */

/* Mark the node and all before it. */
static void mark(CUgraphNode node)
{
    if (node->mark)
        return;
    node->mark = 1;
    for (size_t i = 0; i < node->n_needs; i++)
        mark(node->needs[i]);
}

/* Did every other stream of the capture come together in the first? */
static bool joined(const struct capture *c)
{
    for (CUgraphNode node = c->graph->nodes; node; node = node->next)
        node->mark = 0;
    for (size_t i = 0; i < c->origin->n_capture_nodes; i++)
        mark(c->origin->capture_nodes[i]);
    for (CUcontext ctx = sim.contexts; ctx; ctx = ctx->next)
        for (CUstream s = ctx->streams; s; s = s->next)
            for (size_t i = 0; s->capture == c && i < s->n_capture_nodes; i++)
                if (!s->capture_nodes[i]->mark)
                    return false;
    return true;
}

static void finish(struct capture *c)
{
    for (CUcontext ctx = sim.contexts; ctx; ctx = ctx->next) {
        for (CUstream s = ctx->streams; s; s = s->next)
            if (s->capture == c)
                s->capture = NULL;
        for (CUevent event = ctx->events; event; event = event->next)
            if (event->capture == c)
                event->capture = NULL;
    }
    struct capture **link = &captures;
    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    sim.captures--;
    free(c);
}

static CUresult end(CUstream s, CUgraph *graph)
{
    struct capture *c = s->capture;
    CUresult rc = CUDA_SUCCESS;
    NEED(c, CUDA_ERROR_ILLEGAL_STATE);
    if (s != c->origin) {
        c->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    NEED(c->mode == CU_STREAM_CAPTURE_MODE_RELAXED || pthread_equal(c->thread, pthread_self()),
         CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    if (c->invalid)
        rc = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!joined(c))
        rc = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    if (rc != CUDA_SUCCESS && c->own)
        graph_free(c->graph);
    *graph = rc == CUDA_SUCCESS ? c->graph : NULL;
    finish(c);
    return rc;
}

CUresult sim_cuStreamEndCapture(CUstream handle, CUgraph *graph)
{
    CUstream s;
    NEED(graph, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_get(handle, &s));
    sim_lock();
    CUresult rc = end(s, graph);
    sim_unlock();
    return rc;
}

void capture_abandon(CUstream s)
{
    struct capture *c = s->capture;
    if (!c)
        return;
    c->invalid = true;
    if (s != c->origin)
        return;
    if (c->own)
        graph_free(c->graph);
    finish(c);
}

/* --- commands ------------------------------------------------------------------------------- */

static CUgraphNodeType node_type(const struct work *w)
{
    switch (w->type) {
    case WORK_KERNEL:
        return CU_GRAPH_NODE_TYPE_KERNEL;
    case WORK_COPY:
        return CU_GRAPH_NODE_TYPE_MEMCPY;
    case WORK_SET:
        return CU_GRAPH_NODE_TYPE_MEMSET;
    case WORK_HOST:
        return CU_GRAPH_NODE_TYPE_HOST;
    case WORK_RECORD:
        return CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    case WORK_WAIT:
        return CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    case WORK_ALLOC:
        return CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    case WORK_FREE:
        return CU_GRAPH_NODE_TYPE_MEM_FREE;
    case WORK_VALUE:
        return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    case WORK_GRAPH:
        return CU_GRAPH_NODE_TYPE_GRAPH;
    case WORK_NOTHING:
        break;
    }
    return CU_GRAPH_NODE_TYPE_EMPTY;
}

/* A node after what the stream has so far. sim.lock held. */
static CUresult add_item(CUstream s, struct item *item)
{
    struct capture *c = s->capture;
    CUgraphNode node;
    if (c->invalid) {
        item_free(item);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    TRY(graph_add(c->graph, s->capture_nodes, s->n_capture_nodes, item, &node));
    return set_nodes(&s->capture_nodes, &s->n_capture_nodes, &node, 1);
}

CUresult capture_add(CUstream s, struct work *w)
{
    struct item item = {.type = node_type(w), .work = *w};
    if (w->type == WORK_VALUE) {
        item.ops = malloc(sizeof(*item.ops));
        NEED(item.ops, CUDA_ERROR_OUT_OF_MEMORY);
        item.ops[0] = w->value;
        item.n_ops = 1;
    }
    sim_lock();
    CUresult rc = add_item(s, &item);
    sim_unlock();
    return rc;
}

CUresult capture_record(CUstream s, CUevent event)
{
    sim_lock();
    struct capture *c = s->capture;
    CUresult rc = c->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                             : set_nodes(&event->nodes, &event->n_nodes, s->capture_nodes,
                                         s->n_capture_nodes);
    if (rc == CUDA_SUCCESS)
        event->capture = c;
    sim_unlock();
    return rc;
}

static CUresult wait_for(CUstream s, CUevent event)
{
    struct capture *mine = s->capture, *its = event->capture;
    if (!its) { /* work outside the capture; one that was never recorded is no work */
        NEED(event->recorded, CUDA_SUCCESS);
        capture_invalidate(mine);
        violation();
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (mine && mine != its) {
        capture_invalidate(mine);
        capture_invalidate(its);
        violation();
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    NEED(!its->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    if (s->legacy) {
        capture_invalidate(its);
        violation();
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (!mine) {
        s->n_capture_nodes = 0;
        s->capture = its;
    }
    return add_nodes(s, event->nodes, event->n_nodes);
}

CUresult capture_wait(CUstream s, CUevent event)
{
    sim_lock();
    CUresult rc = wait_for(s, event);
    sim_unlock();
    return rc;
}

CUresult capture_alloc(CUstream s, CUdeviceptr *pointer, uint64_t size, int device)
{
    struct item item = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    NEED(device >= 0, CUDA_ERROR_NOT_SUPPORTED);
    sim_lock();
    CUresult rc = graph_memory_reserve(pointer, size, device);
    if (rc == CUDA_SUCCESS) {
        item.work.type = WORK_ALLOC;
        item.work.ctx = s->ctx;
        item.work.memory.pointer = *pointer;
        item.work.memory.bytes = size;
        rc = add_item(s, &item);
    }
    sim_unlock();
    return rc;
}

CUresult capture_free(CUstream s, CUdeviceptr pointer)
{
    struct item item = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE};
    sim_lock();
    const struct block *block = memory_find((void *)pointer);
    CUresult rc = CUDA_ERROR_INVALID_VALUE;
    if (block && block->type == MEMORY_GRAPH && (CUdeviceptr)block->base == pointer) {
        item.work.type = WORK_FREE;
        item.work.ctx = s->ctx;
        item.work.memory.pointer = pointer;
        graph_memory_hold(pointer);
        rc = add_item(s, &item);
    }
    sim_unlock();
    return rc;
}

/* An executable graph launched into a captured stream: a child graph made of its steps, one after
 * another. */
CUresult capture_launch(CUstream s, CUgraphExec exec)
{
    struct item item = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .work = {.type = WORK_GRAPH}};
    sim_lock();
    CUresult rc = graph_from_exec(exec, &item.child);
    if (rc == CUDA_SUCCESS) {
        item.child->owned = true;
        rc = add_item(s, &item);
    }
    sim_unlock();
    return rc;
}

/* --- asking --------------------------------------------------------------------------------- */

CUresult sim_cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
    return sim_cuStreamGetCaptureInfo(handle, status, NULL);
}

/* What the forms of cuStreamGetCaptureInfo tell. */
static CUresult info(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                     const CUgraphNode **nodes, size_t *n)
{
    CUstream s;
    NEED(status, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_get(handle, &s));
    if (s->legacy)
        TRY(capture_forbids_legacy(s->ctx));
    sim_lock();
    const struct capture *c = s->capture;
    *status = !c           ? CU_STREAM_CAPTURE_STATUS_NONE
              : c->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                           : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (*status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        if (id)
            *id = c->id;
        if (graph)
            *graph = c->graph;
        if (nodes)
            *nodes = s->capture_nodes;
        if (n)
            *n = s->n_capture_nodes;
    }
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetCaptureInfo(CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id)
{
    return info(s, status, id, NULL, NULL, NULL);
}

CUresult sim_cuStreamGetCaptureInfo_v2(CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id,
                                       CUgraph *graph, const CUgraphNode **nodes, size_t *n)
{
    return info(s, status, id, graph, nodes, n);
}

CUresult sim_cuStreamGetCaptureInfo_v3(CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id,
                                       CUgraph *graph, const CUgraphNode **nodes,
                                       const CUgraphEdgeData **data, size_t *n)
{
    if (data)
        *data = NULL; /* all edges are ordinary ones */
    return info(s, status, id, graph, nodes, n);
}

CUresult sim_cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode *nodes, size_t n,
                                               unsigned flags)
{
    CUstream s;
    NEED((nodes || !n) && flags <= CU_STREAM_SET_CAPTURE_DEPENDENCIES, CUDA_ERROR_INVALID_VALUE);
    TRY(stream_get(handle, &s));
    NEED(s->capture, CUDA_ERROR_ILLEGAL_STATE);
    sim_lock();
    const struct capture *c = s->capture;
    CUresult rc = c->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    for (size_t i = 0; rc == CUDA_SUCCESS && i < n; i++)
        if (!IS(nodes[i], SIM_NODE) || nodes[i]->graph != c->graph)
            rc = CUDA_ERROR_INVALID_VALUE;
    if (rc == CUDA_SUCCESS && flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        rc = set_nodes(&s->capture_nodes, &s->n_capture_nodes, nodes, n);
    else if (rc == CUDA_SUCCESS)
        rc = add_nodes(s, nodes, n);
    sim_unlock();
    return rc;
}

CUresult sim_cuStreamUpdateCaptureDependencies_v2(CUstream s, CUgraphNode *nodes,
                                                  const CUgraphEdgeData *data, size_t n,
                                                  unsigned flags)
{
    TRY(graph_plain_edges(data, n));
    return sim_cuStreamUpdateCaptureDependencies(s, nodes, n, flags);
}
