/* slots.h - the list of slots that the gres plugin leaves: "0,12". */
#ifndef VGPU_SLOTS_H
#define VGPU_SLOTS_H

#include "proto/wire.h"

/* Parse into slots and *n ("" is an empty list). Slots come in rising order, each once. Returns 0,
 * or -1 with err. */
int slots_parse(const char *text, uint16_t slots[VGPU_MAX_SLOTS], uint32_t *n, vgpu_error_t *err);

#endif
