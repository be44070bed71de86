#include "slots.h"

#include <ctype.h>
#include <stdlib.h>

int slots_parse(const char *text, uint16_t slots[VGPU_MAX_SLOTS], uint32_t *n, vgpu_error_t *err)
{
    const char *at = text;
    long last = -1;
    *n = 0;
    while (*at) {
        char *end;
        long slot = isdigit((unsigned char)*at) ? strtol(at, &end, 10) : -1;
        if (slot <= last || slot >= VGPU_MAX_SLOTS || (*end != ',' && *end != '\0') ||
            (*end == ',' && !end[1]))
            return vgpu_errorf(err, "\"%.40s\" is not a list of slots such as 0,12", text);
        slots[(*n)++] = (uint16_t)slot;
        last = slot;
        at = *end ? end + 1 : end;
    }
    return 0;
}
