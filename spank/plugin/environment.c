#include "environment.h"

#include <stdio.h>
#include <string.h>

static size_t uuid_write(char text[UUID_TEXT_MAX], const uint8_t uuid[16])
{
    size_t n = (size_t)sprintf(text, "GPU-");
    for (int i = 0; i < 16; i++)
        n += (size_t)sprintf(text + n, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                             uuid[i]);
    return n;
}

void environment_devices(char text[DEVICES_TEXT_MAX], const struct vgpu_desc *vgpus, uint32_t n,
                         uint32_t task, bool own_only)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < (own_only && n > 1 ? 1 : n); i++) {
        if (i > 0)
            text[used++] = ',';
        used += uuid_write(text + used, vgpus[(task + i) % n].uuid);
    }
}

uint32_t environment_narrow(struct vgpu_desc *vgpus, uint32_t n, const uint16_t *slots,
                            uint32_t n_slots)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < n_slots; j++) {
            if (vgpus[i].slot == slots[j]) {
                vgpus[kept++] = vgpus[i];
                break;
            }
        }
    }
    return kept;
}

static bool has_item(const char *value, const char *item, char separator)
{
    size_t n = strlen(item);
    for (const char *at = value; at; at = strchr(at, separator), at = at ? at + 1 : NULL)
        if (strncmp(at, item, n) == 0 && (at[n] == separator || at[n] == '\0'))
            return true;
    return false;
}

int environment_join(char *out, size_t room, const char *value, const char *item, char separator,
                     bool first)
{
    int n;
    if (!*value)
        n = snprintf(out, room, "%s", item);
    else if (has_item(value, item, separator))
        n = snprintf(out, room, "%s", value);
    else
        n = snprintf(out, room, "%s%c%s", first ? item : value, separator, first ? value : item);
    return n >= 0 && (size_t)n < room ? 0 : -1;
}
