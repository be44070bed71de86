#include "eligible.h"

#include "proto/conf.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- features --------------------------------------------------------------------------------- */

struct constraint {
    const char *at;
    const char *features;
    int depth;
    bool broken;
};

static bool feature_listed(const char *list, const char *name, size_t length)
{
    while (*list) {
        size_t n = strcspn(list, ",");
        if (n == length && strncmp(list, name, n) == 0)
            return true;
        list += n + (list[n] == ',');
    }
    return false;
}

static bool alternatives(struct constraint *c);

static bool term(struct constraint *c)
{
    bool holds;
    if ((*c->at == '(' || *c->at == '[') && ++c->depth < 32) {
        char closing = *c->at++ == '(' ? ')' : ']';
        holds = alternatives(c);
        c->broken |= *c->at != closing;
        c->at += *c->at == closing;
        c->depth--;
    } else {
        size_t n = strcspn(c->at, "&|()[]*,");
        c->broken |= n == 0;
        holds = feature_listed(c->features, c->at, n);
        c->at += n;
    }
    if (*c->at == '*')
        for (c->at++; isdigit((unsigned char)*c->at); c->at++)
            ;
    return holds;
}

static bool conjunction(struct constraint *c)
{
    bool holds = term(c);
    while (!c->broken && (*c->at == '&' || *c->at == ',')) {
        c->at++;
        holds &= term(c);
    }
    return holds;
}

static bool alternatives(struct constraint *c)
{
    bool holds = conjunction(c);
    while (!c->broken && *c->at == '|') {
        c->at++;
        holds |= conjunction(c);
    }
    return holds;
}

bool eligible_features(const char *constraint, const char *features)
{
    struct constraint c = {constraint, features, 0, false};
    if (!*constraint)
        return true;
    bool holds = alternatives(&c);
    return holds || c.broken || *c.at != '\0';
}

/* --- gres ------------------------------------------------------------------------------------- */

struct gres {
    char type[VGPU_TYPE_MAX]; /* "": any */
    unsigned long count;
};

/* Read an item "vgpu", "vgpu:2", "vgpu:a100-4g", "vgpu:a100-4g:2" with "gres:" or "gres/" before
 * it. False for another gres. */
static bool gres_parse(struct gres *gres, const char *item, size_t length)
{
    char text[2 * VGPU_TYPE_MAX], *rest = text;
    if (length >= sizeof text)
        return false;
    memcpy(text, item, length);
    text[length] = '\0';
    if (strncmp(rest, "gres:", 5) == 0 || strncmp(rest, "gres/", 5) == 0)
        rest += 5;
    if (strncmp(rest, "vgpu", 4) != 0 || !strchr(":=", rest[4]))
        return false;
    *gres = (struct gres){"", 1};
    for (char *part = strtok_r(rest + 4, ":=", &rest); part; part = strtok_r(NULL, ":=", &rest)) {
        if (isdigit((unsigned char)*part) && part[strspn(part, "0123456789")] == '\0')
            gres->count = strtoul(part, NULL, 10);
        else
            snprintf(gres->type, sizeof gres->type, "%s", part);
    }
    return true;
}

/* Length of the item at the text; what stands in parentheses, as (S:0,1), belongs to it but is not
 * counted in *bare. */
static size_t item_length(const char *text, size_t *bare)
{
    *bare = strcspn(text, ",;(");
    size_t n = *bare;
    if (text[n] == '(')
        n += strcspn(text + n, ")") + 1;
    return n + strcspn(text + n, ",;");
}

static unsigned long gres_count(const char *list, const char *type)
{
    unsigned long count = 0;
    size_t bare;
    struct gres gres;
    for (; *list; list += *list == ',' || *list == ';') {
        size_t n = item_length(list, &bare);
        if (gres_parse(&gres, list, bare) && (!*type || strcmp(gres.type, type) == 0))
            count += gres.count;
        list += n;
    }
    return count;
}

bool eligible_gres(const char *wanted, const char *gres)
{
    size_t bare;
    struct gres want;
    for (; *wanted; wanted += *wanted == ',' || *wanted == ';') {
        size_t n = item_length(wanted, &bare);
        if (gres_parse(&want, wanted, bare) && gres_count(gres, want.type) < want.count)
            return false;
        wanted += n;
    }
    return true;
}

/* --- nodes ------------------------------------------------------------------------------------ */

bool eligible_listed(const char *list, const char *node)
{
    return *list && vgpu_hostlist_contains(list, node, NULL) == 1;
}

char *eligible_exclude(const char *list, const char *node)
{
    char *longer = NULL;
    if (!*list || eligible_listed(list, node))
        return strdup(*list ? list : node);
    return asprintf(&longer, "%s,%s", list, node) < 0 ? NULL : longer;
}
