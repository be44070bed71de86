/* sentence.h - what a user is told names the node, once. */
#ifndef VGPU_SENTENCE_H
#define VGPU_SENTENCE_H

#include "proto/error.h"

/* Put "node NODE: " before the text unless it says "node NODE" itself. */
void sentence_name_node(vgpu_error_t *text, const char *node);

#endif
