/* hostlist.c - Slurm's host lists, as far as the question "is this name in it?" goes.
 *
 * list  = host {"," host}
 * host  = text with up to three "[" range {"," range} "]" in it
 * range = number ["-" number], as wide as the first number is written
 */
#include "proto/conf.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DIGITS 9
#define MAX_RANGES 3 /* of one host: bounds the ways to split a name among them */

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("-_.", c));
}

static size_t count_digits(const char *p)
{
    size_t n = 0;
    while (isdigit((unsigned char)p[n]))
        n++;
    return n;
}

/* One "[...]" at p. On return *end is behind "]" and lengths has a bit for each number of digits
 * (bit n: n digits) at the beginning of `name` that is in one of the ranges. */
static int match_ranges(const char *p, const char *name, const char **end, unsigned *lengths,
                        vgpu_error_t *err)
{
    const char *start = p++;
    size_t digits = count_digits(name);
    *lengths = 0;
    for (;; p++) {
        size_t width = count_digits(p);
        const char *low = p, *high = p;
        p += width;
        if (*p == '-') {
            high = ++p;
            p += count_digits(p);
        }
        size_t high_width = (size_t)(p - high);
        if (width == 0 || high_width == 0 || width > MAX_DIGITS || high_width > MAX_DIGITS ||
            atol(high) < atol(low) || (*p != ',' && *p != ']'))
            return vgpu_errorf(err, "host list: \"%.60s\" is not [NUMBER-NUMBER,...]", start);
        /* "[8-11]" has 8, 9, 10, 11; "[08-11]" has 08, 09, 10, 11: padded to the width of the
         * first. */
        for (size_t n = width; n <= digits && n <= MAX_DIGITS; n++) {
            char number[MAX_DIGITS + 1] = "";
            memcpy(number, name, n);
            long value = atol(number);
            if ((n == width || number[0] != '0') && value >= atol(low) && value <= atol(high))
                *lengths |= 1u << n;
        }
        if (*p == ']')
            break;
    }
    *end = p + 1;
    return 0;
}

/* Does the host expression [p, end) describe exactly `name`? The expression is well formed. */
static bool match_host(const char *p, const char *end, const char *name)
{
    for (; p < end && *p != '['; p++, name++)
        if (*p != *name)
            return false;
    if (p == end)
        return *name == '\0';
    const char *rest;
    unsigned lengths;
    if (match_ranges(p, name, &rest, &lengths, NULL))
        return false;
    for (size_t n = 1; n <= MAX_DIGITS; n++)
        if ((lengths & 1u << n) && match_host(rest, end, name + n))
            return true;
    return false;
}

/* Find the end of the host expression at p, checking its form. NULL with err if it has none. */
static const char *host_end(const char *p, vgpu_error_t *err)
{
    const char *start = p;
    int ranges = 0;
    while (*p && *p != ',') {
        unsigned lengths;
        if (*p == '[') {
            if (++ranges > MAX_RANGES) {
                vgpu_errorf(err, "host list: more than %d [...] in \"%.60s\"", MAX_RANGES, start);
                return NULL;
            }
            if (match_ranges(p, "", &p, &lengths, err))
                return NULL;
        } else if (!is_name_char(*p++)) {
            vgpu_errorf(err,
                        "host list: character '%c' in \"%.60s\"; names have letters, digits, - _ .",
                        isprint((unsigned char)p[-1]) ? p[-1] : '?', start);
            return NULL;
        }
    }
    if (p == start) {
        vgpu_errorf(err, "host list: an empty name");
        return NULL;
    }
    return p;
}

int vgpu_hostlist_contains(const char *list, const char *name, vgpu_error_t *err)
{
    int found = 0;
    for (const char *p = list;; p++) {
        const char *end = host_end(p, err);
        if (!end)
            return -1;
        if (match_host(p, end, name))
            found = 1;
        p = end;
        if (!*p)
            return found;
    }
}
