/* daemon.h - vgpud's world: what there is and how it hangs together. Each kind of thing has its own
 * header with what can be done to it; nobody else changes its fields. One thread. */
#ifndef VGPUD_DAEMON_H
#define VGPUD_DAEMON_H

#include "binding.h"
#include "loop.h"
#include "pages.h"
#include "sampler.h"
#include "state.h"

struct gpu {
    uint32_t minor, sms;
    uint8_t uuid[16];
    char pci[32];
    unsigned nvml_index;
    struct sample *sample;  /* the newest; NULL without NVML */
    uint64_t failing_since; /* NVML does not answer for it; 0: it does */
    uint64_t context_bytes; /* smallest that any process was measured with: what a context takes at
                               least */
    uint64_t slow_at;       /* when it last did not answer in time; 0: never */
    bool backstop_due;      /* the next sample is for the backstop too */
    struct gputime_gpu *time; /* NULL: no vGPU has been on it yet */
};

/* A step that is bound: its folder, its socket. */
struct step {
    struct step *next;
    struct daemon *daemon;
    struct step_record *record;
    struct loop_group group;     /* its listener and connections */
    struct loop_source listener; /* attach.sock */
    struct loop_source holder;   /* pidfd of the process that keeps the account descriptors */
    int dir;
    uint32_t n_conns;
    bool ending; /* the backstop is killing it */
};

struct vgpu {
    struct vgpu *next;
    struct daemon *daemon;
    struct vgpu_record *record;
    int gpu; /* index into daemon->gpus */
    struct pages pages;
    struct process *entries[VGPU_MAX_PROCESSES]; /* by index in the account */
    uint32_t n_entries;

    bool has_released;        /* processes whose charge is to be given back */
    struct loop_timer repair; /* to look again whether the account is quiet */
    uint64_t repairing_since; /* 0: not */

    /* By the last look of the backstop. */
    uint64_t held_bytes;  /* by all living processes of the job */
    uint64_t stray_bytes; /* by those of them that did not attach */
    uint64_t over_since;  /* above quota and tolerance since; 0: not */
    uint64_t told_at;     /* 0: never */
    struct gputime_vgpu *time;
};

/* Where a process stands with one of its vGPUs. */
enum hold {
    HOLD_NONE,     /* given back */
    HOLD_ATTACHED, /* and alive */
    HOLD_DYING,    /* dead; the driver may still have its memory */
    HOLD_RELEASED, /* the driver has let go; the account is to be repaired */
};

/* A program that has attached. A pid whose program was replaced by exec is two of them. */
struct process {
    struct process *next;
    struct daemon *daemon;
    struct process_record *record;
    struct loop_source pidfd;
    bool replaced;       /* by exec: the pid lives on */
    uint64_t gone_since; /* 0: it is there */
    struct vgpu *vgpus[VGPU_MAX_GPUS];
    uint8_t holds[VGPU_MAX_GPUS]; /* enum hold */
};

/* A connection: of root on vgpud.sock (no step) or of a process of a step. */
struct conn {
    struct conn *next;
    struct daemon *daemon;
    struct loop_source source;
    struct step *step; /* NULL: root, or the step is over */
    bool is_root;
    struct process *process; /* attached; NULL: not */
    /* An answer that waits: for a sample of a GPU that began after `asked_ns`, or for a job to be
     * gone. */
    uint16_t waiting; /* type of the request; 0: none */
    int gpu;
    uint32_t job;
    uint64_t vgpu_id, asked_ns, deadline_ns;
};

/* A process that the backstop has said something about. */
struct told {
    pid_t pid;
    uint64_t when_ns;
};

struct daemon {
    const struct vgpu_conf *conf;
    const char *runtime_dir;
    int dir, steps_dir, control_dir;
    struct loop loop;
    struct state *state;
    struct ledger ledger;
    struct nvml *nvml;       /* NULL: none */
    struct sampler *sampler; /* NULL: none */
    struct sample *incoming; /* the next one to be taken */
    struct gpu gpus[VGPU_MAX_GPUS];

    struct vgpu *vgpus;
    struct step *steps;
    struct process *processes;
    struct conn *conns;
    uint32_t n_steps, n_conns, n_processes;
    uint32_t max_conns, max_processes; /* as descriptors allow; shared out fairly among the steps */
    int spare_fd; /* given up for a moment to turn callers away when there are no others */

    struct loop_source listener, signals, samples;
    struct told told[32]; /* the last ones */
    size_t n_told;

    struct loop_timer reaper, waiters, backstop, watchdog;
};

/* Take up what is there, and open the sockets. conf and runtime_dir must outlive the daemon.
 * Returns -1 with err. */
int daemon_start(struct daemon *daemon, const struct vgpu_conf *conf, const char *runtime_dir,
                 vgpu_error_t *err);

/* Serve until SIGTERM or SIGINT. Returns -1 with err. */
int daemon_serve(struct daemon *daemon, vgpu_error_t *err);

/* What hangs together below the daemon is not taken apart: it ends with the process, and the state
 * outlives it. */
void daemon_stop(struct daemon *daemon);

#endif
