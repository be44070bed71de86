/* verdict.c - the rule behind requeue.c, without Slurm. */
#include "requeue.h"

enum requeue_verdict requeue_decide(const struct requeue_facts *facts)
{
    if (!facts->batch || !facts->allowed || facts->started)
        return REQUEUE_NOT;
    if (facts->tries + 1 >= REQUEUE_TRIES || facts->nodes_left < facts->nodes)
        return REQUEUE_HOLD;
    return REQUEUE_AGAIN;
}
