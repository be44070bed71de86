/* graph.c - graphs and their nodes: made, linked, looked at, cloned, destroyed. */
#include "graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- items ---------------------------------------------------------------------------------- */

static bool is_memory(CUgraphNodeType type)
{
    return type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE;
}

CUresult item_copy(const struct item *from, struct item *to)
{
    *to = *from;
    if (from->child) {
        TRY(graph_clone(from->child, &to->child));
        to->child->owned = true;
    }
    if (from->ops) {
        to->ops = malloc(from->n_ops * sizeof(*to->ops));
        NEED(to->ops, CUDA_ERROR_OUT_OF_MEMORY);
        memcpy(to->ops, from->ops, from->n_ops * sizeof(*to->ops));
    }
    if (from->work.type == WORK_COPY && from->work.copy.given) {
        to->work.copy.given = malloc(sizeof(CUDA_MEMCPY3D));
        NEED(to->work.copy.given, CUDA_ERROR_OUT_OF_MEMORY);
        *to->work.copy.given = *from->work.copy.given;
    }
    if (is_memory(from->type))
        graph_memory_hold(from->work.memory.pointer);
    return CUDA_SUCCESS;
}

void item_free(struct item *item)
{
    if (item->child)
        graph_free(item->child);
    free(item->ops);
    if (is_memory(item->type))
        graph_memory_drop(item->work.memory.pointer);
    work_drop(&item->work);
}

/* --- graphs --------------------------------------------------------------------------------- */

CUresult graph_new(CUgraph *out)
{
    CUgraph graph = calloc(1, sizeof(*graph));
    NEED(graph, CUDA_ERROR_OUT_OF_MEMORY);
    graph->magic = SIM_GRAPH;
    graph->end = &graph->nodes;
    *out = graph;
    return CUDA_SUCCESS;
}

static void node_free(CUgraphNode node)
{
    item_free(&node->item);
    free(node->needs);
    node->magic = 0;
    free(node);
}

void graph_free(CUgraph graph)
{
    while (graph->nodes) {
        CUgraphNode node = graph->nodes;
        graph->nodes = node->next;
        node_free(node);
    }
    objects_free(graph->objects);
    graph->magic = 0;
    free(graph);
}

static bool needs(CUgraphNode node, CUgraphNode other)
{
    for (size_t i = 0; i < node->n_needs; i++)
        if (node->needs[i] == other)
            return true;
    return false;
}

/* The node comes after others, all of its graph and each once. */
static CUresult link_nodes(CUgraphNode node, const CUgraphNode *others, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        NEED(IS(others[i], SIM_NODE) && others[i]->graph == node->graph && others[i] != node,
             CUDA_ERROR_INVALID_VALUE);
        NEED(!needs(node, others[i]), CUDA_ERROR_INVALID_VALUE);
        CUgraphNode *list = realloc(node->needs, (node->n_needs + 1) * sizeof(*list));
        NEED(list, CUDA_ERROR_OUT_OF_MEMORY);
        node->needs = list;
        node->needs[node->n_needs++] = others[i];
    }
    return CUDA_SUCCESS;
}

CUresult graph_add(CUgraph graph, const CUgraphNode *others, size_t n, struct item *item,
                   CUgraphNode *out)
{
    CUgraphNode node = calloc(1, sizeof(*node));
    NEED(node, CUDA_ERROR_OUT_OF_MEMORY);
    node->magic = SIM_NODE;
    node->graph = graph;
    node->item = *item;
    CUresult rc = link_nodes(node, others, n);
    if (rc != CUDA_SUCCESS) {
        node_free(node);
        return rc;
    }
    *graph->end = node;
    graph->end = &node->next;
    graph->n_nodes++;
    *out = node;
    return CUDA_SUCCESS;
}

/* Repeatedly take the nodes all of whose predecessors were taken. Fails on a cycle. */
CUresult graph_order(CUgraph graph, CUgraphNode **out)
{
    CUgraphNode *order = malloc((graph->n_nodes + 1) * sizeof(*order));
    NEED(order, CUDA_ERROR_OUT_OF_MEMORY);
    size_t n = 0, before;
    for (CUgraphNode node = graph->nodes; node; node = node->next)
        node->mark = 0;
    do {
        before = n;
        for (CUgraphNode node = graph->nodes; node; node = node->next) {
            bool free_now = !node->mark;
            for (size_t i = 0; free_now && i < node->n_needs; i++)
                free_now = node->needs[i]->mark;
            if (free_now) {
                order[n++] = node;
                node->mark = 1;
            }
        }
    } while (n < graph->n_nodes && n > before);
    if (n < graph->n_nodes) {
        free(order);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = order;
    return CUDA_SUCCESS;
}

static CUgraphNode clone_of(CUgraph graph, CUgraphNode original)
{
    CUgraphNode node = graph->nodes;
    while (node && node->original != original)
        node = node->next;
    return node;
}

static CUresult clone_nodes(CUgraph from, CUgraph to)
{
    for (CUgraphNode node = from->nodes; node; node = node->next) {
        struct item item;
        CUgraphNode copy;
        TRY(item_copy(&node->item, &item));
        TRY(graph_add(to, NULL, 0, &item, &copy));
        copy->original = node;
    }
    for (CUgraphNode node = from->nodes; node; node = node->next) {
        CUgraphNode copy = clone_of(to, node);
        for (size_t i = 0; i < node->n_needs; i++) {
            CUgraphNode other = clone_of(to, node->needs[i]);
            TRY(link_nodes(copy, &other, 1));
        }
    }
    return objects_copy(from->objects, &to->objects);
}

CUresult graph_clone(CUgraph from, CUgraph *out)
{
    CUgraph to;
    TRY(graph_new(&to));
    CUresult rc = clone_nodes(from, to);
    if (rc != CUDA_SUCCESS)
        graph_free(to);
    else
        *out = to;
    return rc;
}

CUresult sim_cuGraphCreate(CUgraph *out, unsigned flags)
{
    NEED(out && !flags, CUDA_ERROR_INVALID_VALUE);
    return graph_new(out);
}

CUresult sim_cuGraphDestroy(CUgraph graph)
{
    NEED(IS(graph, SIM_GRAPH) && !graph->owned, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    graph_free(graph);
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphClone(CUgraph *out, CUgraph original)
{
    NEED(out && IS(original, SIM_GRAPH), CUDA_ERROR_INVALID_VALUE);
    for (CUgraphNode node = original->nodes; node; node = node->next)
        NEED(!is_memory(node->item.type), CUDA_ERROR_NOT_SUPPORTED);
    sim_lock();
    CUresult rc = graph_clone(original, out);
    sim_unlock();
    return rc;
}

CUresult sim_cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode original, CUgraph clone)
{
    NEED(out && IS(original, SIM_NODE) && IS(clone, SIM_GRAPH), CUDA_ERROR_INVALID_VALUE);
    *out = clone_of(clone, original);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGraphDestroyNode(CUgraphNode node)
{
    NEED(IS(node, SIM_NODE), CUDA_ERROR_INVALID_VALUE);
    NEED(!is_memory(node->item.type), CUDA_ERROR_NOT_SUPPORTED);
    sim_lock();
    CUgraph graph = node->graph;
    CUgraphNode *link = &graph->nodes;
    while (*link != node)
        link = &(*link)->next;
    *link = node->next;
    if (graph->end == &node->next)
        graph->end = link;
    graph->n_nodes--;
    for (CUgraphNode other = graph->nodes; other; other = other->next)
        for (size_t i = 0; i < other->n_needs; i++)
            if (other->needs[i] == node)
                other->needs[i--] = other->needs[--other->n_needs];
    node_free(node);
    sim_unlock();
    return CUDA_SUCCESS;
}

/* --- looking -------------------------------------------------------------------------------- */

CUresult sim_cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    NEED(IS(node, SIM_NODE) && type, CUDA_ERROR_INVALID_VALUE);
    *type = node->item.type;
    return CUDA_SUCCESS;
}

/* A list as the functions below return it: *n is the room and becomes the number returned; without
 * room, the number there are. What is left of the room is filled with NULL. */
struct answer {
    CUgraphNode *list;
    size_t room, n;
};

static void put(struct answer *answer, CUgraphNode node)
{
    if (answer->list && answer->n < answer->room)
        answer->list[answer->n] = node;
    answer->n++;
}

static void finish(struct answer *answer, size_t *n)
{
    for (size_t i = answer->n; answer->list && i < answer->room; i++)
        answer->list[i] = NULL;
    *n = answer->list && answer->n > answer->room ? answer->room : answer->n;
}

CUresult sim_cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n)
{
    NEED(IS(graph, SIM_GRAPH) && n, CUDA_ERROR_INVALID_VALUE);
    struct answer answer = {nodes, *n, 0};
    for (CUgraphNode node = graph->nodes; node; node = node->next)
        put(&answer, node);
    finish(&answer, n);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *n)
{
    NEED(IS(graph, SIM_GRAPH) && n, CUDA_ERROR_INVALID_VALUE);
    struct answer answer = {nodes, *n, 0};
    for (CUgraphNode node = graph->nodes; node; node = node->next)
        if (!node->n_needs)
            put(&answer, node);
    finish(&answer, n);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *n)
{
    NEED(IS(graph, SIM_GRAPH) && n && !from == !to, CUDA_ERROR_INVALID_VALUE);
    struct answer sources = {from, *n, 0}, targets = {to, *n, 0};
    for (CUgraphNode node = graph->nodes; node; node = node->next) {
        for (size_t i = 0; i < node->n_needs; i++) {
            put(&sources, node->needs[i]);
            put(&targets, node);
        }
    }
    finish(&sources, n);
    finish(&targets, n);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *n)
{
    NEED(IS(node, SIM_NODE) && n, CUDA_ERROR_INVALID_VALUE);
    struct answer answer = {nodes, *n, 0};
    for (size_t i = 0; i < node->n_needs; i++)
        put(&answer, node->needs[i]);
    finish(&answer, n);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *n)
{
    NEED(IS(node, SIM_NODE) && n, CUDA_ERROR_INVALID_VALUE);
    struct answer answer = {nodes, *n, 0};
    for (CUgraphNode other = node->graph->nodes; other; other = other->next)
        if (needs(other, node))
            put(&answer, other);
    finish(&answer, n);
    return CUDA_SUCCESS;
}

/* All edges are ordinary ones. */
static void plain_edges(CUgraphEdgeData *data, bool wanted, size_t n)
{
    if (data && wanted)
        memset(data, 0, n * sizeof(*data));
}

CUresult sim_cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                                CUgraphEdgeData *data, size_t *n)
{
    TRY(sim_cuGraphGetEdges(graph, from, to, n));
    plain_edges(data, from, *n);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *nodes,
                                           CUgraphEdgeData *data, size_t *n)
{
    TRY(sim_cuGraphNodeGetDependencies(node, nodes, n));
    plain_edges(data, nodes, *n);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *nodes,
                                             CUgraphEdgeData *data, size_t *n)
{
    TRY(sim_cuGraphNodeGetDependentNodes(node, nodes, n));
    plain_edges(data, nodes, *n);
    return CUDA_SUCCESS;
}

/* --- linking -------------------------------------------------------------------------------- */

CUresult sim_cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                    size_t n)
{
    NEED(IS(graph, SIM_GRAPH) && (!n || (from && to)), CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < n; i++) {
        NEED(IS(to[i], SIM_NODE) && to[i]->graph == graph, CUDA_ERROR_INVALID_VALUE);
        TRY(link_nodes(to[i], &from[i], 1));
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from,
                                       const CUgraphNode *to, size_t n)
{
    NEED(IS(graph, SIM_GRAPH) && (!n || (from && to)), CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < n; i++) {
        NEED(IS(to[i], SIM_NODE) && to[i]->graph == graph && needs(to[i], from[i]),
             CUDA_ERROR_INVALID_VALUE);
        size_t k = 0;
        while (to[i]->needs[k] != from[i])
            k++;
        to[i]->needs[k] = to[i]->needs[--to[i]->n_needs];
    }
    return CUDA_SUCCESS;
}

CUresult graph_plain_edges(const CUgraphEdgeData *data, size_t n)
{
    static const CUgraphEdgeData plain;
    for (size_t i = 0; data && i < n; i++)
        NEED(memcmp(&data[i], &plain, sizeof(plain)) == 0, CUDA_ERROR_NOT_SUPPORTED);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from,
                                       const CUgraphNode *to, const CUgraphEdgeData *data, size_t n)
{
    TRY(graph_plain_edges(data, n));
    return sim_cuGraphAddDependencies(graph, from, to, n);
}

CUresult sim_cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from,
                                          const CUgraphNode *to, const CUgraphEdgeData *data,
                                          size_t n)
{
    TRY(graph_plain_edges(data, n));
    return sim_cuGraphRemoveDependencies(graph, from, to, n);
}

CUresult sim_cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned flags)
{
    (void)flags;
    NEED(IS(graph, SIM_GRAPH) && path, CUDA_ERROR_INVALID_VALUE);
    FILE *file = fopen(path, "we");
    NEED(file, CUDA_ERROR_OPERATING_SYSTEM);
    fprintf(file, "digraph {\n");
    for (CUgraphNode node = graph->nodes; node; node = node->next) {
        fprintf(file, "  n%p [label=\"type %d\"]\n", (void *)node, node->item.type);
        for (size_t i = 0; i < node->n_needs; i++)
            fprintf(file, "  n%p -> n%p\n", (void *)node->needs[i], (void *)node);
    }
    fprintf(file, "}\n");
    return fclose(file) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

/* --- user objects: destroyed when nobody refers to them ------------------------------------- */

struct CUuserObject_st {
    enum sim_magic magic;
    void *pointer;
    CUhostFn destroy;
    unsigned references;
};

static void object_release(CUuserObject object, unsigned n)
{
    object->references -= n;
    if (object->references)
        return;
    object->magic = 0;
    object->destroy(object->pointer);
    free(object);
}

void objects_free(struct user_reference *list)
{
    while (list) {
        struct user_reference *next = list->next;
        object_release(list->object, list->count);
        free(list);
        list = next;
    }
}

static CUresult objects_add(struct user_reference **list, CUuserObject object, unsigned count)
{
    struct user_reference *reference = malloc(sizeof(*reference));
    NEED(reference, CUDA_ERROR_OUT_OF_MEMORY);
    *reference = (struct user_reference){*list, object, count};
    *list = reference;
    return CUDA_SUCCESS;
}

CUresult objects_copy(struct user_reference *from, struct user_reference **to)
{
    for (; from; from = from->next) {
        TRY(objects_add(to, from->object, from->count));
        from->object->references += from->count;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuUserObjectCreate(CUuserObject *out, void *pointer, CUhostFn destroy,
                                unsigned references, unsigned flags)
{
    NEED(out && destroy && references && references <= 0x7fffffffu, CUDA_ERROR_INVALID_VALUE);
    NEED(flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC, CUDA_ERROR_INVALID_VALUE);
    CUuserObject object = malloc(sizeof(*object));
    NEED(object, CUDA_ERROR_OUT_OF_MEMORY);
    *object = (struct CUuserObject_st){SIM_USER_OBJECT, pointer, destroy, references};
    *out = object;
    return CUDA_SUCCESS;
}

CUresult sim_cuUserObjectRetain(CUuserObject object, unsigned n)
{
    NEED(IS(object, SIM_USER_OBJECT) && n, CUDA_ERROR_INVALID_VALUE);
    object->references += n;
    return CUDA_SUCCESS;
}

CUresult sim_cuUserObjectRelease(CUuserObject object, unsigned n)
{
    NEED(IS(object, SIM_USER_OBJECT) && n && n <= object->references, CUDA_ERROR_INVALID_VALUE);
    object_release(object, n);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned n, unsigned flags)
{
    NEED(IS(graph, SIM_GRAPH) && IS(object, SIM_USER_OBJECT) && n, CUDA_ERROR_INVALID_VALUE);
    NEED(!(flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE), CUDA_ERROR_INVALID_VALUE);
    TRY(objects_add(&graph->objects, object, n));
    if (!(flags & CU_GRAPH_USER_OBJECT_MOVE))
        object->references += n;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned n)
{
    NEED(IS(graph, SIM_GRAPH) && IS(object, SIM_USER_OBJECT) && n, CUDA_ERROR_INVALID_VALUE);
    for (struct user_reference **link = &graph->objects; *link; link = &(*link)->next) {
        struct user_reference *reference = *link;
        if (reference->object != object || reference->count < n)
            continue;
        reference->count -= n;
        if (!reference->count) {
            *link = reference->next;
            free(reference);
        }
        object_release(object, n);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}
