/* graph.h - graphs: what the parts that build, capture and launch them share. */
#ifndef GPUSIM_GRAPH_H
#define GPUSIM_GRAPH_H

#include "sim.h"

/* What a node does. */
struct item {
    CUgraphNodeType type;
    struct work work;
    CUgraph child; /* owned */
    unsigned n_ops;
    CUstreamBatchMemOpParams *ops; /* owned */
    CUkernelNodeAttrValue attributes[CU_LAUNCH_ATTRIBUTE_MAX];
    unsigned attributes_set; /* bits */
};

struct CUgraphNode_st {
    enum sim_magic magic;
    CUgraph graph;
    CUgraphNode next; /* in the order of making */
    struct item item;
    CUgraphNode *needs; /* that come before it */
    size_t n_needs;
    CUgraphNode original;       /* of which it is a clone */
    void *params[SIM_MAX_ARGS]; /* to the kernel's arguments, for who asks */
    size_t mark;                /* for walks */
};

struct user_reference {
    struct user_reference *next;
    CUuserObject object;
    unsigned count;
};

struct CUgraph_st {
    enum sim_magic magic;
    CUgraphNode nodes, *end;
    size_t n_nodes;
    bool owned; /* by a node: not to be destroyed */
    struct user_reference *objects;
};

/* A node of an executable graph. */
struct step {
    CUgraphNode node; /* that it was made from; only compared */
    struct item item;
    CUgraphExec child;
    uint64_t shape; /* made from the places of the steps it comes after */
    bool enabled;
};

struct CUgraphExec_st {
    enum sim_magic magic;
    uint64_t flags;
    struct step *steps; /* in an order in which they can run */
    size_t n_steps;
    struct user_reference *objects;
};

/* --- graph.c -------------------------------------------------------------------------------- */

CUresult graph_new(CUgraph *graph);
void graph_free(CUgraph graph);
CUresult graph_clone(CUgraph from, CUgraph *to);

/* Add a node; takes what item owns. */
CUresult graph_add(CUgraph graph, const CUgraphNode *needs, size_t n, struct item *item,
                   CUgraphNode *node);

/* The nodes in an order in which they can run, to be freed by the caller. */
CUresult graph_order(CUgraph graph, CUgraphNode **order);

CUresult item_copy(const struct item *from, struct item *to);
void item_free(struct item *item);

void objects_free(struct user_reference *list);
CUresult objects_copy(struct user_reference *from, struct user_reference **to);

/* --- graph_node.c --------------------------------------------------------------------------- */

/* What the caller says about a node, as an item. */
CUresult item_kernel(const CUDA_KERNEL_NODE_PARAMS *params, struct item *item);
CUresult item_memcpy(const CUDA_MEMCPY3D *copy, CUcontext ctx, struct item *item);
CUresult item_memset(const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx, struct item *item);
CUresult item_host(const CUDA_HOST_NODE_PARAMS *params, struct item *item);
CUresult item_event(CUgraphNodeType type, CUevent event, struct item *item);
CUresult item_child(CUgraph child, struct item *item);
CUresult item_ops(const CUDA_BATCH_MEM_OP_NODE_PARAMS *params, struct item *item);
CUresult item_any(CUgraphNodeParams *params, struct item *item);

/* NOT_SUPPORTED for edges that are not ordinary ones. */
CUresult graph_plain_edges(const CUgraphEdgeData *data, size_t n);

/* --- graph_exec.c --------------------------------------------------------------------------- */

/* A graph of the steps, one after another. */
CUresult graph_from_exec(CUgraphExec exec, CUgraph *graph);

/* --- graph_memory.c ------------------------------------------------------------------------- */

CUresult graph_memory_reserve(CUdeviceptr *pointer, uint64_t size, int device);
/* A node or step refers to graph memory, no longer does. */
void graph_memory_hold(CUdeviceptr pointer);
void graph_memory_drop(CUdeviceptr pointer);
/* Make room for all that a launch will allocate. */
CUresult graph_memory_prepare(CUgraphExec exec);

#endif
