/* size.c - sizes as people write them: whole numbers with a unit of two's powers. */
#include "proto/conf.h"

#include <string.h>
#include <strings.h>

static const char allowed[] = "a whole number with KiB, MiB, GiB, TiB or K, M, G, T";

/* The unit's power of two, or -1. */
static int unit_shift(const char *unit)
{
    static const char letters[] = "KMGT";
    const char *letter = *unit ? strchr(letters, *unit) : NULL;
    if (!letter || (unit[1] && strcmp(unit + 1, "iB") != 0))
        return -1;
    return 10 * (int)(letter - letters + 1);
}

/* What the writer may have meant by a unit that is not one: "GB" and "Gi" mean "GiB". */
static const char *meant(const char *unit)
{
    static const struct {
        const char *wrong[4], *right;
    } known[] = {
        {{"kb", "ki", "kib", "k"}, "KiB"},
        {{"mb", "mi", "mib", "m"}, "MiB"},
        {{"gb", "gi", "gib", "g"}, "GiB"},
        {{"tb", "ti", "tib", "t"}, "TiB"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (size_t j = 0; j < 4; j++)
            if (strcasecmp(unit, known[i].wrong[j]) == 0)
                return known[i].right;
    return NULL;
}

int vgpu_size_parse(const char *text, uint64_t *bytes, vgpu_error_t *err)
{
    uint64_t value = 0;
    const char *p = text;

    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
            return vgpu_errorf(err, "size \"%.40s\" is too large", text);
    if (p == text)
        return vgpu_errorf(err, "size \"%.40s\" is not %s", text, allowed);

    int shift = unit_shift(p);
    if (shift < 0) {
        const char *unit = meant(p);
        if (unit)
            return vgpu_errorf(err, "size \"%.40s\": write %.*s%s", text, (int)(p - text), text,
                               unit);
        return vgpu_errorf(err, "size \"%.40s\" is not %s", text, allowed);
    }
    if (value > UINT64_MAX >> shift)
        return vgpu_errorf(err, "size \"%.40s\" is too large", text);
    *bytes = value << shift;
    return 0;
}
