/* fate.h - remembers why vgpud ended a step, until the step's own end asks. */
#ifndef VGPUD_FATE_H
#define VGPUD_FATE_H

#include "state.h"

void fate_set(struct state *state, uint32_t job, uint32_t step, const char *text);

/* The text; NULL: vgpud did not end that step within the last minute. */
const char *fate_get(const struct state *state, uint32_t job, uint32_t step);

/* A step of that number starts (again, after a requeue). */
void fate_clear(struct state *state, uint32_t job, uint32_t step);

#endif
