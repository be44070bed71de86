/* error.c - an error as text that travels to the person who can act on it. */
#include "proto/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

int vgpu_errorf(vgpu_error_t *err, const char *format, ...)
{
    int saved = errno;
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
    }
    errno = saved;
    return -1;
}
