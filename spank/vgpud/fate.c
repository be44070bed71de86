/* fate.c - a small ring of reasons. */
#include "fate.h"

#include "clock.h"

#include <stdio.h>

#define LIFETIME_NS (60 * NS_PER_SEC)

static struct fate_record *find(struct state *state, uint32_t job, uint32_t step)
{
    for (size_t i = 0; i < STATE_FATES; i++) {
        struct fate_record *fate = &state->fates[i];
        if (fate->when_ns && fate->job == job && fate->step == step)
            return fate;
    }
    return NULL;
}

static struct fate_record *oldest(struct state *state)
{
    struct fate_record *oldest = &state->fates[0];
    for (size_t i = 1; i < STATE_FATES; i++)
        if (state->fates[i].when_ns < oldest->when_ns)
            oldest = &state->fates[i];
    return oldest;
}

void fate_set(struct state *state, uint32_t job, uint32_t step, const char *text)
{
    struct fate_record *fate = find(state, job, step);
    if (!fate)
        fate = oldest(state);
    fate->when_ns = 0;
    fate->job = job;
    fate->step = step;
    snprintf(fate->text, sizeof fate->text, "%s", text);
    fate->when_ns = now_ns();
}

const char *fate_get(const struct state *state, uint32_t job, uint32_t step)
{
    const struct fate_record *fate = find((struct state *)state, job, step);
    return fate && now_ns() - fate->when_ns < LIFETIME_NS ? fate->text : NULL;
}

void fate_clear(struct state *state, uint32_t job, uint32_t step)
{
    struct fate_record *fate = find(state, job, step);
    if (fate)
        fate->when_ns = 0;
}
