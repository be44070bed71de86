/* segment.h - our part of a job's AdminComment, which is the site's too: one
 * vgpu{key=value;key=value}.
 *
 * Keys of this plugin: gpus=NODE:2,3 (minor numbers in the order of the ranks), slots=0,12 (in the
 * same order), why=(one sentence), tries=1. Keys of others in the segment are kept. */
#ifndef VGPU_SEGMENT_H
#define VGPU_SEGMENT_H

#include "proto/error.h"

#include <stddef.h>

/* The value of a key. Returns 0, or -1 if it is not there or there is no room. */
int segment_get(const char *comment, const char *key, char *value, size_t room);

/* The comment with the key's value set in our segment, replaced in place or appended; NULL removes
 * the key. Braces and ; in the value become blanks. The text is malloc'ed; NULL without memory. */
char *segment_set(const char *comment, const char *key, const char *value);

/* The same with a malloc'ed comment, which is replaced; it becomes NULL without memory. */
void segment_change(char **comment, const char *key, const char *value);

#endif
