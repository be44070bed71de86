/* wire.h - messages between vgpud and its clients: SOCK_SEQPACKET, one fixed-size struct each, host
 * byte order.
 *
 * Every message starts with struct vgpu_head; a receiver checks magic, major, type, length and
 * every field before it acts, and answers anything else with a reply whose status is
 * VGPU_BAD_MESSAGE. A reply repeats the type of the request. A later minor version may append
 * fields to a message and may add types: a receiver takes a message that is longer than it knows
 * when the major is its own and ignores the rest; one that is shorter than it knows is completed
 * with zeros.
 */
#ifndef VGPU_WIRE_H
#define VGPU_WIRE_H

#include "error.h"

#include <stddef.h>
#include <stdint.h>

#define VGPU_WIRE_MAGIC 0x55504756u
#define VGPU_WIRE_MAJOR 1
#define VGPU_WIRE_MINOR 0

#define VGPU_MAX_SLOTS 1024 /* slots of a node: Slurm's own limit */
#define VGPU_MAX_GPUS  32   /* GPUs of a node */
#define VGPU_TYPE_MAX  64
#define VGPU_PATH_MAX  256
#define VGPU_NAME_MAX  64
#define VGPU_MAX_FDS   (2 * VGPU_MAX_GPUS)

#define VGPU_NO_STEP UINT32_MAX

enum vgpu_type {
    /* vgpud.sock: root only */
    VGPU_BIND = 1, /* bind_request -> bind_reply + one account descriptor per vGPU, for the binder
                      to hold */
    VGPU_UNBIND_STEP = 2, /* unbind_request -> status_reply: the step's socket goes, its vGPUs stay
                             until the job ends */
    VGPU_UNBIND_JOB = 3,  /* unbind_request -> status_reply */
    VGPU_LIST = 4,        /* list_request -> list_reply: one record per message, cursor walks */
    VGPU_POLICY = 5,      /* policy_request -> status_reply */
    VGPU_STEP_FATE = 6,   /* unbind_request -> status_reply: OK and why vgpud ended this step, or
                             NOT_FOUND if it did not */
    /* the step's attach socket: the processes of the step */
    VGPU_ATTACH =
        32, /* attach_request -> attach_reply + (control, account) descriptors of each vGPU */
    VGPU_MEASURE =
        33, /* measure_request -> measure_reply: what the driver says this process holds on a GPU */
    VGPU_WANT = 34, /* 34-47: leases of GPU time */
};

enum vgpu_status {
    VGPU_OK = 0,
    VGPU_BAD_MESSAGE = 1,
    VGPU_BAD_VERSION = 2,
    VGPU_NOT_FOUND = 3,
    VGPU_NO_ROOM =
        4, /* not enough different GPUs with a free slot of the type: may be different later */
    VGPU_REFUSED =
        5, /* can never work: bad slot, unknown type, a hard wish this node cannot meet */
    VGPU_TOO_MANY = 6,    /* processes, connections */
    VGPU_UNAVAILABLE = 7, /* what is needed for the answer (NVML) does not answer */
    VGPU_FAILED = 8,
};

enum vgpu_affinity { VGPU_AFFINITY_NONE, VGPU_PREFER_NVLINK, VGPU_REQUIRE_NVLINK, VGPU_SAME_NUMA };

enum vgpu_bind_flag {
    VGPU_BIND_COLOCATE = 1u << 0, /* merge slots on one GPU into one vGPU */
};

struct vgpu_head {
    uint32_t magic;
    uint16_t major, minor;
    uint16_t type;
    uint16_t reserved;
    uint32_t length; /* of the whole message, this head included */
};

/* One vGPU as bound. */
struct vgpu_desc {
    uint64_t id;      /* unique on the node until it boots */
    uint64_t quota;   /* bytes */
    uint8_t uuid[16]; /* of the GPU */
    uint32_t gpu;     /* minor number: /dev/nvidia<gpu> */
    uint32_t gpu_sms; /* of the card */
    uint32_t sms;     /* guaranteed */
    uint32_t max_sms;
    uint32_t slot;    /* the (first) slot that Slurm gave: what names the vGPU to the user */
    uint32_t n_slots; /* more than one after colocation */
    char type[VGPU_TYPE_MAX];
    char pci[32]; /* 00000000:41:00.0 */
};

struct vgpu_bind_request {
    struct vgpu_head head;
    uint32_t job, step; /* Slurm's numbers; the batch step and the interactive step have theirs */
    uint32_t uid;
    int32_t holder; /* pid that keeps the account descriptors while vgpud restarts; 0: the sender */
    uint32_t flags; /* enum vgpu_bind_flag */
    uint32_t affinity; /* enum vgpu_affinity */
    uint32_t n_slots;
    uint16_t slots[VGPU_MAX_SLOTS];
    uint32_t n_advice;              /* 0, or as many as distinct vGPUs wanted */
    uint16_t advice[VGPU_MAX_GPUS]; /* minor numbers in rank order */
    uint32_t slice_us;              /* 0: the type's */
    char workload[VGPU_NAME_MAX];   /* "": none */
    char burst_class[VGPU_NAME_MAX];
};

struct vgpu_bind_reply {
    struct vgpu_head head;
    uint32_t status;
    vgpu_error_t error;
    char step_dir[VGPU_PATH_MAX]; /* holds attach.sock; SPANK mounts it over VGPU_STEP_DIR */
    uint32_t advised;             /* 1 if the advice was followed */
    uint32_t n_vgpus;
    struct vgpu_desc vgpus[VGPU_MAX_GPUS]; /* in rank order */
};

struct vgpu_unbind_request {
    struct vgpu_head head;
    uint32_t job, step;
};

struct vgpu_status_reply {
    struct vgpu_head head;
    uint32_t status;
    vgpu_error_t error;
};

struct vgpu_list_request {
    struct vgpu_head head;
    uint64_t after; /* vGPU id; 0: from the start */
};

struct vgpu_list_reply {
    struct vgpu_head head;
    uint32_t status; /* VGPU_NOT_FOUND after the last one */
    vgpu_error_t error;
    struct vgpu_desc vgpu;
    uint32_t job, uid;
    uint32_t steps;     /* alive */
    uint32_t processes; /* attached */
    uint64_t charged;   /* bytes, by the shim's account */
    uint64_t driver;    /* bytes, by NVML; UINT64_MAX: not known */
    uint64_t peak;
    uint64_t refusals;
    uint64_t launches;
    /* GPU time since the binding, ns */
    uint64_t entitled_ns, used_ns, waited_ns, overrun_ns, switches;
    uint32_t slice_us;
    uint32_t reserved;
    char workload[VGPU_NAME_MAX];
    char burst_class[VGPU_NAME_MAX];
};

struct vgpu_policy_request {
    struct vgpu_head head;
    uint32_t job; /* all its vGPUs on this node */
    uint32_t slice_us;
    uint32_t max_sms; /* 0: leave */
    char workload[VGPU_NAME_MAX];
    char burst_class[VGPU_NAME_MAX];
};

enum vgpu_attach_flag {
    /* This program attached before and keeps its charges (a new connection; vgpud was restarted).
     * Without it an earlier program of the same pid has been replaced by exec, and its charges go.
     */
    VGPU_ATTACH_AGAIN = 1u << 0,
};

struct vgpu_attach_request {
    struct vgpu_head head;
    uint32_t flags; /* enum vgpu_attach_flag */
    uint32_t reserved;
};

struct vgpu_attach_reply {
    struct vgpu_head head;
    uint32_t status;
    vgpu_error_t error;
    uint32_t job, step;
    uint32_t n_vgpus;
    struct vgpu_desc vgpus[VGPU_MAX_GPUS];
    uint32_t process[VGPU_MAX_GPUS]; /* this process' index in account.processes of each */
};

struct vgpu_measure_request {
    struct vgpu_head head;
    uint64_t vgpu_id;
};

struct vgpu_measure_reply {
    struct vgpu_head head;
    uint32_t status;
    vgpu_error_t error;
    uint64_t driver; /* bytes that the driver lists for this process on the GPU of the vGPU */
};

/* Fill a head for a message of this type and size. */
void vgpu_head_init(struct vgpu_head *head, enum vgpu_type type, size_t length);

/* Send one message with n descriptors (0 allowed). Returns 0, or -1 with errno set. Never raises
 * SIGPIPE. */
int vgpu_send(int fd, const void *message, size_t length, const int *fds, size_t n);

/* Receive one message of at most `length` bytes; a shorter one is completed with zeros, a longer
 * one (newer minor) is cut. *n holds the room in fds and, after, how many came (close-on-exec;
 * surplus ones are closed). Checks the head: magic, major, stated length. Returns the received
 * length, 0 at end of file, -1 with errno set (EPROTO: not a message of ours). */
long vgpu_receive(int fd, void *message, size_t length, int *fds, size_t *n);

#endif
