/* advice.h - asks the node's agent which GPUs a step should have, in which order of ranks. One line
 * of JSON each way:
 *
 *   {"job":42,"step":0,"slots":[0,12],"n":2,"cores":"0-7","comm":"ring","affinity":"none"}
 *   {"gpus":[2,3],"why":"..."}
 *
 * step is Slurm's number, which is large for the batch script. comm is a pattern, a matrix
 * ([[0,1],[1,0]]) or null; gpus are minor numbers in the order of the ranks, empty for no advice.
 * An agent that is not there, does not answer in time or answers something else costs the advice
 * and nothing more. */
#ifndef VGPU_ADVICE_H
#define VGPU_ADVICE_H

#include "comm.h"
#include "wishes.h"

#define ADVICE_DEADLINE_MS 100
#define ADVICE_LINE_MAX    65536
#define ADVICE_WHY_MAX     200

struct advice_question {
    uint32_t job, step;
    const uint16_t *slots;
    uint32_t n_slots;
    const char *cores; /* of the step, in Slurm's numbering; "": not known */
    const struct vgpu_wishes *wishes;
    const struct comm_matrix *matrix; /* NULL: wishes->comm is a pattern or empty */
};

struct advice {
    uint32_t n; /* 0: none */
    uint16_t gpus[VGPU_MAX_GPUS];
    char why[ADVICE_WHY_MAX];
};

/* The question as a line with its newline. Returns its length, or -1 if there is no room. */
int advice_write(char *line, size_t room, const struct advice_question *question);

/* The answer without its newline. Returns 0, or -1 with err. */
int advice_parse(struct advice *advice, const char *line, vgpu_error_t *err);

/* Ask at the socket. Returns 0 with the advice (n may be 0), or -1 with err. */
int advice_ask(struct advice *advice, const char *socket, const struct advice_question *question,
               vgpu_error_t *err);

#endif
