#include "sentence.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static bool names_node(const char *text, const char *node)
{
    static const char word[] = "node ";
    size_t n = strlen(node);
    for (const char *at = text; (at = strstr(at, word)); at++) {
        const char *name = at + strlen(word);
        if (strncmp(name, node, n) == 0 && !isalnum((unsigned char)name[n]) && name[n] != '-')
            return true;
    }
    return false;
}

void sentence_name_node(vgpu_error_t *text, const char *node)
{
    vgpu_error_t bare = *text;
    if (!names_node(text->text, node))
        vgpu_errorf(text, "node %s: %s", node, bare.text);
}
