/* binding.h - which GPU each slot of a step is bound to. Pure: no socket, no NVML, no clock.
 *
 * A slot of a type may be bound on any GPU that has a place of that type: vgpu.conf gives each GPU
 * as many places of a type as slots of that type are at home there. So whatever is bound where,
 * memory and SMs of a card are never promised twice.
 *
 * The ledger says which slots are bound; binding_choose() decides for one step and changes nothing;
 * the caller enters the choice with ledger_bind(). GPUs are indices into conf->gpus here, and sets
 * of them are bit masks.
 */
#ifndef VGPUD_BINDING_H
#define VGPUD_BINDING_H

#include "proto/conf.h"

#define LEDGER_NOWHERE (-1)

typedef uint32_t gpu_set;
_Static_assert(VGPU_MAX_GPUS <= 32, "a set of GPUs is one word");

/* What joins two GPUs. */
struct links {
    uint8_t nvlinks[VGPU_MAX_GPUS][VGPU_MAX_GPUS];
    gpu_set same_numa[VGPU_MAX_GPUS]; /* the GPUs of the same NUMA node */
};

struct ledger_slot {
    int gpu; /* LEDGER_NOWHERE: not bound */
    uint32_t job;
    uint64_t vgpu; /* slots with the same id are one vGPU */
};

struct ledger {
    const struct vgpu_conf *conf;
    struct links links;
    struct ledger_slot slots[VGPU_MAX_SLOTS];
    uint16_t places[VGPU_MAX_TYPES][VGPU_MAX_GPUS]; /* as vgpu.conf says */
    uint16_t bound[VGPU_MAX_TYPES][VGPU_MAX_GPUS];
};

struct binding_request {
    uint32_t job;
    bool colocate; /* merge the slots into as few vGPUs as possible */
    enum vgpu_affinity affinity;
    uint32_t n_slots;
    const uint16_t *slots;
    uint32_t n_advice;
    const uint16_t *advice; /* minor numbers in rank order */
};

struct binding_choice {
    bool advised;
    uint32_t n; /* vGPUs, in rank order */
    struct {
        int gpu;
        uint64_t vgpu; /* 0: to be made */
    } vgpus[VGPU_MAX_GPUS];
    uint8_t place[VGPU_MAX_SLOTS]; /* slot i of the request belongs to vgpus[place[i]] */
};

/* conf must outlive the ledger. links may be NULL: nothing is linked. */
void ledger_init(struct ledger *ledger, const struct vgpu_conf *conf, const struct links *links);

/* Returns -1 if the slot is bound already or the GPU has no free place of its type. */
int ledger_bind(struct ledger *ledger, uint32_t slot, int gpu, uint32_t job, uint64_t vgpu);
void ledger_free(struct ledger *ledger, uint32_t slot);

/* Decide. Slots that are bound to the same job stay where they are; none may be bound to another
 * one (VGPU_FAILED: the caller evicts first). Returns VGPU_OK, VGPU_NO_ROOM or VGPU_REFUSED, the
 * latter with err. */
enum vgpu_status binding_choose(const struct ledger *ledger, const struct binding_request *request,
                                struct binding_choice *choice, vgpu_error_t *err);

#endif
