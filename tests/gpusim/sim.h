/* sim.h - what the parts of the simulated libcuda.so.1 share.
 *
 * Every exported cuNAME is made by cuda_api.py and calls sim_cuNAME; the parts define those that
 * they answer. Parts call each other's sim_ functions, never the exported ones.
 *
 * Simplifications, all within what CUDA allows: the work of a process on a GPU runs in the order in
 * which it was submitted, whatever its stream (timeline.c); what a command does to memory happens
 * when it is submitted; device memory is host memory that the process can address.
 */
#ifndef GPUSIM_SIM_H
#define GPUSIM_SIM_H

#include <cuda.h>

#include "fault.h"
#include "state.h"

#include "cuda_api.h"

#define SIM_EXPORT   __attribute__((visibility("default")))
#define likely(x)    __builtin_expect(!!(x), 1)
#define unlikely(x)  __builtin_expect(!!(x), 0)
#define ALIGN(n, to) (((n) + (to)-1) / (to) * (to))
#define KIB          1024ull
#define MIB          (1024ull * KIB)
#define GIB          (1024ull * MIB)

/* VMM handles, pools and arrays take device memory in steps of this. */
#define SIM_LARGE_GRANULE (2 * MIB)

/* First word of what a handle points to. */
enum sim_magic {
    SIM_CONTEXT = 0x43747831,
    SIM_STREAM,
    SIM_EVENT,
    SIM_MODULE,
    SIM_FUNCTION,
    SIM_LIBRARY,
    SIM_KERNEL,
    SIM_ARRAY,
    SIM_MIPMAP,
    SIM_GRAPH,
    SIM_NODE,
    SIM_EXEC,
    SIM_POOL,

    SIM_EXTERNAL,
    SIM_LINK,
    SIM_USER_OBJECT,
    SIM_GREEN,
};

#define IS(handle, kind) ((handle) && (handle)->magic == (kind))

/* Leave the function with the error of a call, or unless a condition holds. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        CUresult rc_ = (call);                                                                     \
        if (unlikely(rc_ != CUDA_SUCCESS))                                                         \
            return rc_;                                                                            \
    } while (0)
#define NEED(condition, error)                                                                     \
    do {                                                                                           \
        if (unlikely(!(condition)))                                                                \
            return (error);                                                                        \
    } while (0)

/* --- entry (init.c) ------------------------------------------------------------------------- */

struct sim_call_info {
    const char *name;
    bool early; /* may be called before cuInit */
};
extern const struct sim_call_info sim_calls[];

struct sim_error {
    int code;
    const char *name, *text;
};
extern const struct sim_error sim_errors[];
extern const unsigned sim_n_errors;

/* Not 0: every call must ask sim_enter. 0 once initialised, so that it costs one test. */
enum sim_guard {
    SIM_NOT_READY = 1,
    SIM_FORKED = 2, /* the child of a process that had initialised CUDA */
    SIM_FAULTS = 4, /* a faults file existed at cuInit */
};
extern unsigned sim_guard;

CUresult sim_enter(enum sim_call call, void *out, size_t out_size);

#define SIM_ENTER(call, out, size)                                                                 \
    do {                                                                                           \
        if (unlikely(sim_guard))                                                                   \
            TRY(sim_enter(call, out, size));                                                       \
    } while (0)

/* --- the process ---------------------------------------------------------------------------- */

struct device {
    int gpu; /* index in the machine */
    const struct gpusim_gpu_spec *spec;
    struct gpusim_account *account; /* of this process */
    CUcontext primary;
    unsigned primary_references, primary_flags;
    CUmemoryPool default_pool, pool; /* pool: the current one */
    struct {
        uint64_t used, used_high, reserved, reserved_high;
    } graph_memory;
};

struct sim {
    /* Of everything here and behind handles, but for the fast path of launches. */
    pthread_mutex_t lock;
    struct gpusim_state *state;
    int process; /* row in the state */
    int n_devices;
    struct device devices[GPUSIM_MAX_GPUS];
    CUcontext contexts; /* all, also destroyed ones */
    struct gpusim_faults faults;
    _Atomic int captures; /* going on */
};
extern struct sim sim;

/* The state, mapped if possible before cuInit too; NULL: this machine has no simulated GPUs. */
struct gpusim_state *sim_state(void);

static inline void sim_lock(void)
{
    pthread_mutex_lock(&sim.lock);
}

static inline void sim_unlock(void)
{
    pthread_mutex_unlock(&sim.lock);
}

static inline bool is_device(CUdevice device)
{
    return device >= 0 && device < sim.n_devices;
}

/* Device memory of this process on a device. */
static inline bool take(int device, enum gpusim_kind kind, uint64_t bytes)
{
    return gpusim_take(sim.state, sim.process, sim.devices[device].gpu, kind, bytes);
}

static inline void give(int device, enum gpusim_kind kind, uint64_t bytes)
{
    gpusim_give(sim.state, sim.process, sim.devices[device].gpu, kind, bytes);
}

/* --- contexts (context.c) ------------------------------------------------------------------- */

#define SIM_LIMITS    16
#define SIM_IN_FLIGHT 1024 /* launches that a context queues before a launch waits */

struct CUctx_st {
    enum sim_magic magic;
    bool alive, primary;
    int device;
    unsigned flags, api_version;
    uint64_t id;
    uint64_t xids;     /* of the GPU when the context was made: with more it is lost */
    _Atomic int error; /* sticky */
    CUcontext next;    /* in sim.contexts */
    CUstream legacy;   /* the default stream */
    CUstream streams;  /* all of this context, also default ones */
    CUmodule modules;
    CUevent events;
    /* Points of the process' work at which all that was put into streams is done: into those that
     * the default stream waits for, into any. */
    _Atomic uint64_t blocking_tail, tail;
    uint64_t resolved;      /* length of the GPU's log when event times were last found out */
    _Atomic unsigned gated; /* streams that hold commands back */
    size_t limits[SIM_LIMITS];
    unsigned peers;   /* bit of each device to whose contexts access was enabled */
    CUgreenCtx green; /* it is that one's context; NULL: an ordinary one */
    unsigned sms;
    uint64_t bytes;            /* of device memory that it takes */
    _Atomic uint64_t launches; /* launch n is done at in_flight[n % SIM_IN_FLIGHT] */
    _Atomic uint64_t in_flight[SIM_IN_FLIGHT];
};

/* The calling thread's own. */
struct thread {
    CUcontext stack[32]; /* contexts; the last is current */
    int depth;
    CUstreamCaptureMode capture_mode;
    CUstream stream; /* last used per-thread default stream, and the context that it is of */
    uint64_t stream_context;
};
extern _Thread_local struct thread thread;

/* The current context, usable. */
CUresult context_current(CUcontext *ctx);

/* A given context (NULL: the current one), usable. */
CUresult context_check(CUcontext *ctx);

/* A context for a green one: without memory of its own. */
CUresult context_green(int device, CUgreenCtx green, unsigned sms, CUcontext *ctx);

/* The error that the context's GPU or an earlier command left, if any. */
CUresult context_error(CUcontext ctx);

static inline struct device *device_of(CUcontext ctx)
{
    return &sim.devices[ctx->device];
}

static inline struct gpusim_account *account_of(CUcontext ctx)
{
    return sim.devices[ctx->device].account;
}

/* --- commands (work.c) ---------------------------------------------------------------------- */

#define SIM_MAX_ARGS 4

enum work_type {
    WORK_NOTHING,
    WORK_KERNEL,
    WORK_COPY,
    WORK_SET,
    WORK_HOST,
    WORK_RECORD,
    WORK_WAIT,
    WORK_ALLOC,
    WORK_FREE,
    WORK_VALUE,
    WORK_GRAPH,
};

/* A box of bytes: rows of `width` bytes, `height` rows a slice, `depth` slices. */
struct area {
    char *base;
    size_t pitch, slice;
};

/* What is put into a stream, or is a node of a graph. */
struct work {
    enum work_type type;
    CUcontext ctx;
    union {
        struct {
            CUfunction function;
            unsigned grid[3], block[3], shared;
            uint64_t args[SIM_MAX_ARGS];
        } kernel;
        struct {
            struct area to, from;
            size_t width, height, depth;
            uint64_t device_bytes; /* that the device moves: read and written within its memory */
            void *staging;         /* freed after the copy */
            CUDA_MEMCPY3D *given;  /* graph nodes: what was asked for */
        } copy;
        struct {
            char *base;
            size_t pitch, width, height; /* width in elements */
            unsigned value, element;
        } set;
        struct {
            CUhostFn fn;
            CUstreamCallback callback; /* instead of fn */
            CUstream stream;
            void *data;
        } host;
        struct {
            CUevent event;
            uint64_t version; /* of the recording */
        } event;
        struct {
            CUdeviceptr pointer;
            uint64_t bytes;
        } memory;
        CUstreamBatchMemOpParams value; /* one operation on memory */
    };
};

/* Commands held back behind something the GPU's order does not express: a host function, another
 * GPU's or process' event, a value in memory. */
struct held {
    struct held *next;
    uint64_t number; /* in the order of all held commands */
    bool running;    /* being done, without sim.lock */
    struct work work;
};

struct CUstream_st {
    enum sim_magic magic;
    CUcontext ctx;
    CUstream next; /* in ctx->streams */
    unsigned flags;
    int priority;
    uint64_t id;
    bool legacy, per_thread;
    pthread_t thread;      /* per_thread: whose */
    _Atomic uint64_t tail; /* point of the process' work at which all so far is done */
    _Atomic(struct capture *) capture;
    CUgraphNode *capture_nodes; /* that the next captured command depends on */
    size_t n_capture_nodes;
    bool doomed;     /* destroyed by its user, to be freed when nothing is held */
    bool for_graphs; /* where graphs launched on another GPU run their nodes on this one */
    struct held *held, **held_end;
    _Atomic bool gated;       /* held is not empty */
    CUstreamAttrValue policy; /* access policy window */
    CUsynchronizationPolicy sync_policy;
};

/* Put a command into a stream: captured, held back, or done. Takes what w points to. */
CUresult work_submit(CUstream stream, struct work *w);

/* Do a command now. sim.lock not held. */
CUresult work_do(CUstream stream, struct work *w);

/* The stream occupies its GPU for ns, from when what it depends on is done. */
void work_occupy(CUstream stream, uint64_t ns);

/* Free what w owns. */
void work_drop(struct work *w);

/* Are commands held back that the stream waits for (all of its own; of the default stream those of
 * blocking streams too)? sim.lock held. */
bool work_held(CUstream stream);

/* Wait until none are. sim.lock held. */
void work_wait_held(CUstream stream);

/* Wait until some held command was done. sim.lock held. */
void work_wait_any(void);

/* Give up on what is held back in a stream that goes away. sim.lock held. */
void work_forget(CUstream stream);

/* --- streams (stream.c) --------------------------------------------------------------------- */

/* The stream behind a handle, in the current context if it is a default stream. */
CUresult stream_get(CUstream handle, CUstream *stream);

/* Wait until all commands of the stream are done; report the context's errors. */
CUresult stream_drain(CUstream stream);

/* One operation on a value in memory. */
CUresult stream_value(CUstream stream, const CUstreamBatchMemOpParams *op);

CUresult stream_create(CUcontext ctx, unsigned flags, int priority, CUstream *stream);
void stream_free(CUstream stream);
void stream_destroy_all(CUcontext ctx);

/* NULL from a function with per-thread default streams. */
static inline CUstream sim_per_thread(CUstream handle)
{
    return handle ? handle : CU_STREAM_PER_THREAD;
}

/* --- events (event.c) ----------------------------------------------------------------------- */

struct CUevent_st {
    enum sim_magic magic;
    CUcontext ctx;
    CUevent next; /* in ctx->events */
    unsigned flags;
    uint64_t recorded;       /* version of the last recording asked for; 0: never */
    uint64_t submitted;      /* version of the last recording given to the GPU */
    int device;              /* of it */
    uint64_t work;           /* done when the process has had so much */
    uint64_t asked;          /* CLOCK_MONOTONIC when it was given to the GPU */
    uint64_t time;           /* when it was done; 0: not known yet */
    struct capture *capture; /* recorded in a stream under capture */
    CUgraphNode *nodes;      /* there: what to wait for */
    size_t n_nodes;
    int ipc;       /* index into the state's events; -1: this process only */
    unsigned held; /* held commands that need it */
    bool doomed;   /* destroyed by its user, to be freed when none are */
};

/* Is the recording done? If not, *look (may be NULL) is when to look again, CLOCK_MONOTONIC ns. */
bool event_done(CUevent event, uint64_t version, uint64_t *look);

/* The recording reaches the GPU. */
void event_record(CUevent event, CUstream stream, uint64_t version);

/* The same at a point of the process' work on the context's GPU. */
void event_record_at(CUevent event, CUcontext ctx, uint64_t work, uint64_t version);

/* The point of this process' work on the context's GPU at which the recording is done, if that is
 * the GPU it is on; else false. */
bool event_local(CUevent event, CUcontext ctx, uint64_t version, uint64_t *work);

/* Find out the times of events before the GPU's log forgets them. */
void event_resolve(CUcontext ctx);
CUresult event_create(CUcontext ctx, unsigned flags, CUevent *event);
/* A held command needs the event, no longer needs it. */
void event_hold(CUevent event);
void event_unhold(CUevent event);
void event_destroy_all(CUcontext ctx);

/* --- memory (heap.c, memory.c, pool.c, vmm.c, array.c) -------------------------------------- */

enum memory_type {
    MEMORY_NONE,
    MEMORY_LINEAR,
    MEMORY_MANAGED,
    MEMORY_HOST,       /* cuMemHostAlloc */
    MEMORY_REGISTERED, /* cuMemHostRegister */
    MEMORY_POOL,
    MEMORY_GRAPH,
    MEMORY_ARRAY,
    MEMORY_GLOBAL, /* of a module */
    MEMORY_VMM,
    MEMORY_IPC,
    MEMORY_EXTERNAL,
};

/* An allocation, or a range of addresses that something is mapped to. */
struct block {
    char *base;
    uint64_t size; /* asked for */
    CUcontext ctx;
    void *owner; /* pool, VMM handle, array ... */
    uint64_t id;
    int device; /* -1: host memory */
    uint8_t type;
    bool sync_memops;
    bool live;                 /* graph memory: allocated now */
    bool promised;             /* and when all that was submitted is done */
    unsigned references;       /* graph memory: nodes and steps that name it; IPC: times opened */
    unsigned readers, writers; /* VMM: bits of the devices that may; 31: the host */
    struct token *token;       /* IPC: what was opened */
    bool readable;
    unsigned flags;
};

/* heap.c: address space with pages that appear when touched. */
CUresult heap_init(void);
struct block *heap_alloc(uint64_t size);
void heap_free(struct block *block);
struct block *heap_find(const void *address);
/* Every block of a context (NULL: all). The visitor may free it. */
void heap_each(CUcontext ctx, void (*visit)(struct block *block));
int heap_descriptor(void);
uint64_t heap_offset(const void *address);

/* range.c: everything else that has addresses: registered, mapped, imported. */
struct block *range_add(void *base, uint64_t size, enum memory_type type);
void range_remove(struct block *block);
struct block *range_find(const void *address);
/* The last range that begins at or before the address. */
struct block *range_before(const void *address);
void range_each(CUcontext ctx, void (*visit)(struct block *block));

struct block *memory_find(const void *address);
/* Is all of it memory that the GPU may use? */
bool memory_valid(const void *address, uint64_t size);
void memory_free_all(CUcontext ctx);
CUresult memory_alloc(CUcontext ctx, enum memory_type type, uint64_t size, struct block **block);
void memory_free(struct block *block);

/* pool.c */
CUresult pool_default(int device);
/* At a synchronisation: give back what pools hold above their thresholds. */
void pool_sync(void);
CUresult pool_alloc(CUmemoryPool pool, CUcontext ctx, uint64_t size, struct block **block);
void pool_free(struct block *block);
bool is_pool(CUmemoryPool pool);
int pool_device(CUmemoryPool pool);
CUmemAllocationHandleType pool_handle_types(CUmemoryPool pool);
CUresult pool_imported(int device, CUmemoryPool *pool);

/* vmm.c */
CUmemAllocationHandleType vmm_handle_types(const struct block *block);

/* array.c */
struct CUarray_st {
    enum sim_magic magic;
    CUmipmappedArray mipmap; /* of which it is a level; else NULL */
    struct block *block;     /* its own memory; NULL: it is a level */
    char *base;
    size_t pitch, rows, slices; /* bytes a row, rows a slice */
    CUDA_ARRAY3D_DESCRIPTOR desc;
};
void array_forget(struct block *block);
/* A mipmapped array without memory of its own: laid out, and put over memory. */
CUresult mipmap_new(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels, CUmipmappedArray *mipmap,
                    uint64_t *bytes);
void mipmap_place(CUmipmappedArray mipmap, char *base);

/* ipc.c */
void external_unmap(struct block *block);

/* graph_memory.c */
void graph_memory_free(struct block *block);
CUresult memory_do(CUstream stream, struct work *w);

/* copy.c: commands from what graph nodes say */
CUresult copy_make(const CUDA_MEMCPY3D *copy, CUcontext ctx, struct work *w);
CUresult set_make(const CUDA_MEMSET_NODE_PARAMS *params, CUcontext ctx, struct work *w);

/* --- modules (module.c) and launches (launch.c) --------------------------------------------- */

enum kernel_type { KERNEL_EMPTY, KERNEL_SPIN, KERNEL_FILL, KERNEL_VECTOR_ADD, KERNEL_TYPES };

struct kernel_info {
    const char *name;
    unsigned n_args;
    unsigned arg_size[SIM_MAX_ARGS];
};
extern const struct kernel_info kernel_infos[KERNEL_TYPES];

struct CUfunc_st {
    enum sim_magic magic;
    enum kernel_type type;
    CUmodule module;
    CUcontext ctx;
    CUkernel kernel; /* if it comes from a library */
    int max_dynamic_shared, carveout;
    unsigned block[3], shared; /* cuFuncSetBlockShape */
    unsigned char params[64];  /* cuParamSet */
};

/* The function behind a CUfunction, or a CUkernel for the context. */
CUresult function_get(void *handle, CUcontext ctx, CUfunction *function);
unsigned kernel_param_offset(enum kernel_type type, unsigned index);
CUresult kernel_args(enum kernel_type type, void **params, void **extra, uint64_t *args);
CUresult kernel_make(void *handle, CUcontext ctx, const unsigned *grid, const unsigned *block,
                     unsigned shared, void **params, void **extra, struct work *w);
CUresult kernel_do(CUstream stream, struct work *w);
void module_unload_all(CUcontext ctx);

/* --- capture (capture.c) and graphs (graph.c) ----------------------------------------------- */

/* Call first in functions that a capture of mode global or thread-local forbids. */
CUresult capture_forbids(void);
/* In those that wait for or use: a stream, an event, the whole context, the default stream
 * implicitly. */
CUresult capture_forbids_on(CUstream stream);
CUresult capture_forbids_event(CUevent event);
CUresult capture_forbids_sync(CUcontext ctx);
CUresult capture_forbids_legacy(CUcontext ctx);
/* A command that cannot be captured: invalidates. */
CUresult capture_unsupported(CUstream stream);

CUresult capture_add(CUstream stream, struct work *w);
CUresult capture_record(CUstream stream, CUevent event);
CUresult capture_wait(CUstream stream, CUevent event);
CUresult capture_alloc(CUstream stream, CUdeviceptr *pointer, uint64_t size, int device);
CUresult capture_free(CUstream stream, CUdeviceptr pointer);
CUresult capture_launch(CUstream stream, CUgraphExec exec);
void capture_invalidate(struct capture *capture);
/* The stream goes away. sim.lock held. */
void capture_abandon(CUstream stream);

#endif
