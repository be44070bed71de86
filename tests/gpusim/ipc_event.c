/* ipc_event.c - events that several processes hold: who holds them, and where they were recorded.
 */
#include "state.h"

static bool is_held(const struct gpusim_ipc_event *event)
{
    uint64_t any = 0;
    for (int i = 0; i < GPUSIM_MAX_PROCESSES / 64; i++)
        any |= event->holders[i];
    return any;
}

static void hold(struct gpusim_ipc_event *event, int process)
{
    event->holders[process / 64] |= 1ull << (process % 64);
}

static void let_go(struct gpusim_ipc_event *event, int process)
{
    event->holders[process / 64] &= ~(1ull << (process % 64));
}

int gpusim_event_create(struct gpusim_state *state, int process)
{
    gpusim_lock(state);
    int i = 0;
    while (i < GPUSIM_MAX_EVENTS && is_held(&state->events[i]))
        i++;
    if (i < GPUSIM_MAX_EVENTS) {
        state->events[i].generation++;
        state->events[i].process = -1;
        hold(&state->events[i], process);
    }
    gpusim_unlock(state);
    return i < GPUSIM_MAX_EVENTS ? i : -1;
}

bool gpusim_event_join(struct gpusim_state *state, int process, int i, uint32_t generation)
{
    gpusim_lock(state);
    struct gpusim_ipc_event *event = &state->events[i];
    bool there = is_held(event) && event->generation == generation;
    if (there)
        hold(event, process);
    gpusim_unlock(state);
    return there;
}

void gpusim_event_leave(struct gpusim_state *state, int process, int i)
{
    gpusim_lock(state);
    let_go(&state->events[i], process);
    gpusim_unlock(state);
}

void gpusim_events_clear(struct gpusim_state *state, int process)
{
    for (int i = 0; i < GPUSIM_MAX_EVENTS; i++) {
        let_go(&state->events[i], process);
        if (state->events[i].process == process)
            state->events[i].process = -1;
    }
}
