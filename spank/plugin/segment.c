#include "segment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPENING "vgpu{"

/* Where our segment stands in a comment, all of it and what it holds. A segment that lost its end
 * stops at the first blank. */
struct place {
    size_t before;     /* bytes before it */
    const char *joint; /* what must come between */
    const char *inner; /* "" without one */
    size_t length;     /* of inner */
    const char *after;
};

static struct place place_find(const char *comment)
{
    const char *start = strstr(comment, OPENING);
    if (!start)
        return (struct place){strlen(comment), *comment ? " " : "", "", 0, ""};
    size_t before = (size_t)(start - comment);
    const char *inner = start + strlen(OPENING);
    const char *end = inner + strcspn(inner, "{}");
    if (*end == '}')
        return (struct place){before, "", inner, (size_t)(end - inner), end + 1};
    end = inner + strcspn(inner, " \t\n{}");
    return (struct place){before, "", "", 0, end};
}

/* The next key=value of the segment at *at, with *at moved behind it. Returns its length, 0 at the
 * end. */
static size_t field_next(const char **at, const char *end, const char **field)
{
    while (*at < end && (**at == ';' || **at == ' '))
        ++*at;
    *field = *at;
    const char *stop = memchr(*at, ';', (size_t)(end - *at));
    *at = stop ? stop : end;
    return (size_t)(*at - *field);
}

static int field_is(const char *field, size_t length, const char *key)
{
    size_t n = strlen(key);
    return length > n && field[n] == '=' && strncmp(field, key, n) == 0;
}

int segment_get(const char *comment, const char *key, char *value, size_t room)
{
    struct place place = place_find(comment);
    const char *at = place.inner, *end = at + place.length, *field;
    size_t length;
    while ((length = field_next(&at, end, &field)) > 0) {
        if (!field_is(field, length, key))
            continue;
        size_t skip = strlen(key) + 1;
        if (length - skip >= room)
            return -1;
        memcpy(value, field + skip, length - skip);
        value[length - skip] = '\0';
        return 0;
    }
    return -1;
}

/* Append key=value to out, made harmless. */
static void field_write(FILE *out, const char *separator, const char *key, const char *value)
{
    fprintf(out, "%s%s=", separator, key);
    for (; *value; value++)
        fputc(strchr(";{}\n", *value) ? ' ' : *value, out);
}

char *segment_set(const char *comment, const char *key, const char *value)
{
    char *text = NULL;
    size_t size = 0, length;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    struct place place = place_find(comment);
    const char *at = place.inner, *end = at + place.length, *field, *separator = "";
    fprintf(out, "%.*s%s" OPENING, (int)place.before, comment, place.joint);
    while ((length = field_next(&at, end, &field)) > 0) {
        if (field_is(field, length, key))
            continue;
        fprintf(out, "%s%.*s", separator, (int)length, field);
        separator = ";";
    }
    if (value)
        field_write(out, separator, key, value);
    fprintf(out, "}%s", place.after);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

void segment_change(char **comment, const char *key, const char *value)
{
    char *changed = *comment ? segment_set(*comment, key, value) : NULL;
    free(*comment);
    *comment = changed;
}
