/* say.c - one sentence, in one write, without the program's stdio. */
#include "shim/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void say(const char *format, ...)
{
    char line[512] = "slurm-vgpu: ";
    size_t used = strlen(line);
    va_list args;

    va_start(args, format);
    int n = vsnprintf(line + used, sizeof line - used - 1, format, args);
    va_end(args);
    if (n < 0)
        return;
    used += (size_t)n < sizeof line - used - 1 ? (size_t)n : sizeof line - used - 2;
    line[used++] = '\n';
    if (write(STDERR_FILENO, line, used) < 0)
        return; /* a closed standard error is the program's choice */
}
