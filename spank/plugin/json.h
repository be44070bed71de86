/* json.h - reads one JSON text strictly, value by value, without building anything. The first error
 * sticks: then every call fails and json_done is false. */
#ifndef VGPU_JSON_H
#define VGPU_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json {
    const char *at; /* NUL-terminated; NULL after an error */
};

/* '{' or '[' comes next. */
bool json_enter(struct json *json, char opening);

/* In an object: the next key, with *first true at the first call; false at the closing brace. */
bool json_key(struct json *json, bool *first, char *key, size_t room);

/* In an array: another item follows? False at the closing bracket. */
bool json_item(struct json *json, bool *first);

/* A string (cut to the room; anything but printable ASCII becomes '?'), a whole number of 0 or
 * more, any value. */
bool json_string(struct json *json, char *text, size_t room);
bool json_number(struct json *json, uint64_t *number);
bool json_skip(struct json *json);

/* No error, and nothing but blanks is left. */
bool json_done(struct json *json);

#endif
