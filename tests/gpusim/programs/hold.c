/* hold - take device memory of one kind, wait, give it back, wait.
 *
 *   hold KIND BYTES COUNT
 *
 * Takes COUNT objects, or as many as there is room for, and prints how many and what cuMemGetInfo
 * says is in use; at the next line of input it gives them back and prints the latter again; at one
 * more it ends.
 */
#include "kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct kind *find_kind(const char *name)
{
    for (int i = 0; i < KINDS; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    fprintf(stderr, "hold: there is no kind %s\n", name);
    exit(2);
}

static void report(unsigned long count)
{
    size_t free_bytes, total;
    CUresult rc = cuMemGetInfo(&free_bytes, &total);
    if (rc != CUDA_SUCCESS)
        kinds_fail("ask", "cuMemGetInfo", rc);
    printf("%lu %zu\n", count, total - free_bytes);
    fflush(stdout);
}

static void wait_for_line(void)
{
    for (int c = getchar(); c != '\n' && c != EOF;)
        c = getchar();
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fputs("Usage: hold KIND BYTES COUNT\n", stderr);
        return 2;
    }
    const struct kind *kind = find_kind(argv[1]);
    size_t size = strtoull(argv[2], NULL, 10);
    unsigned long count = strtoul(argv[3], NULL, 10), taken = 0;
    struct object *objects = calloc(count, sizeof(*objects));
    if (!objects)
        return 1;
    kinds_start();
    while (taken < count && kinds_take(&objects[taken], kind, size))
        taken++;
    report(taken);
    wait_for_line();
    for (unsigned long i = taken; i-- > 0;)
        kinds_give(&objects[i]);
    kinds_trim();
    report(taken);
    wait_for_line();
    free(objects);
    return 0;
}
