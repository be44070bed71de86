#include "json.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 16

static bool failed(struct json *json)
{
    json->at = NULL;
    return false;
}

static void blanks_skip(struct json *json)
{
    if (json->at)
        json->at += strspn(json->at, " \t\r\n");
}

/* Take the character if it comes next. */
static bool taken(struct json *json, char c)
{
    blanks_skip(json);
    if (!json->at || *json->at != c)
        return false;
    json->at++;
    return true;
}

bool json_enter(struct json *json, char opening)
{
    return taken(json, opening) || failed(json);
}

/* Between members: true if one more comes, false at `closing`. */
static bool more(struct json *json, bool *first, char closing)
{
    if (!json->at || taken(json, closing))
        return false;
    if (!*first && !taken(json, ','))
        return failed(json);
    *first = false;
    return true;
}

bool json_key(struct json *json, bool *first, char *key, size_t room)
{
    if (!more(json, first, '}'))
        return false;
    return json_string(json, key, room) && (taken(json, ':') || failed(json));
}

bool json_item(struct json *json, bool *first)
{
    return more(json, first, ']');
}

/* One character of a string, an escape taken as one. 0 after an error. */
static char character_take(struct json *json)
{
    char c = *json->at;
    if (c == '\0' || iscntrl((unsigned char)c))
        return (char)failed(json);
    json->at++;
    if (c != '\\')
        return isprint((unsigned char)c) ? c : '?';
    c = *json->at;
    if (c == 'u') {
        for (int i = 1; i <= 4; i++)
            if (!isxdigit((unsigned char)json->at[i]))
                return (char)failed(json);
        json->at += 5;
        return '?';
    }
    if (c == '\0' || !strchr("\"\\/bfnrt", c))
        return (char)failed(json);
    json->at++;
    return strchr("bfnrt", c) ? ' ' : c;
}

bool json_string(struct json *json, char *text, size_t room)
{
    size_t n = 0;
    if (!taken(json, '"'))
        return failed(json);
    while (*json->at != '"') {
        char c = character_take(json);
        if (!json->at)
            return false;
        if (n + 1 < room)
            text[n++] = c;
    }
    json->at++;
    if (room)
        text[n] = '\0';
    return true;
}

bool json_number(struct json *json, uint64_t *number)
{
    blanks_skip(json);
    size_t digits = json->at ? strspn(json->at, "0123456789") : 0;
    if (digits == 0 || digits > 18 || (digits > 1 && *json->at == '0'))
        return failed(json);
    *number = strtoull(json->at, NULL, 10);
    json->at += digits;
    return !strchr(".eE", *json->at) || !*json->at || failed(json);
}

/* true, false, null and numbers of every form. */
static bool word_skip(struct json *json)
{
    size_t n = strspn(json->at, "+-.0123456789abcdefghijklmnopqrstuvwxyzE");
    json->at += n;
    return n > 0 || failed(json);
}

static bool skip(struct json *json, int depth)
{
    bool first = true;
    blanks_skip(json);
    if (!json->at || depth > DEPTH_MAX)
        return failed(json);
    switch (*json->at) {
    case '"':
        return json_string(json, NULL, 0);
    case '{':
        json->at++;
        while (json_key(json, &first, NULL, 0))
            skip(json, depth + 1);
        return json->at != NULL;
    case '[':
        json->at++;
        while (json_item(json, &first))
            skip(json, depth + 1);
        return json->at != NULL;
    default:
        return word_skip(json);
    }
}

bool json_skip(struct json *json)
{
    return skip(json, 0);
}

bool json_done(struct json *json)
{
    blanks_skip(json);
    return json->at && *json->at == '\0';
}
