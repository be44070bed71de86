/* bare - take memory of a simulated GPU without a library: linked statically, it speaks to the
 * device as the driver library does, where no preload reaches it.
 *
 *   bare BYTES MS DEVICE...
 *
 * Takes BYTES of the first DEVICE that it can open (a path that ends in nvidiaN), says which, and
 * holds them for MS milliseconds. 1: none can be opened; 3: the device has not so much.
 */
#include "gpusim/state.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The minor number of a device that can be opened, or -1. */
static int open_device(const char *path)
{
    const char *name = strrchr(path, '/');
    unsigned minor;
    if (!name || sscanf(name, "/nvidia%u", &minor) != 1 || open(path, O_RDWR | O_CLOEXEC) < 0)
        return -1;
    return (int)minor;
}

static int find_gpu(const struct gpusim_machine *machine, int minor)
{
    for (uint32_t i = 0; i < machine->n_gpus; i++)
        if ((int)machine->gpus[i].minor == minor)
            return (int)i;
    return -1;
}

static int take(int minor, uint64_t bytes)
{
    struct gpusim_error err;
    struct gpusim_state *state = gpusim_open(GPUSIM_DIR, &err);
    int process = state ? gpusim_register(state, NULL, &err) : -1;
    if (process < 0) {
        fprintf(stderr, "bare: %s\n", err.text);
        return 2;
    }
    int gpu = find_gpu(&state->machine, minor);
    return gpu >= 0 && gpusim_take(state, process, gpu, GPUSIM_LINEAR, bytes) ? 0 : 3;
}

int main(int argc, char **argv)
{
    int minor = -1;
    if (argc < 4) {
        fputs("Usage: bare BYTES MS DEVICE...\n", stderr);
        return 2;
    }
    for (int i = 3; i < argc && minor < 0; i++)
        minor = open_device(argv[i]);
    if (minor < 0)
        return 1;
    int rc = take(minor, strtoull(argv[1], NULL, 10));
    if (rc != 0)
        return rc;
    printf("holds GPU %d\n", minor);
    fflush(stdout);
    long ms = strtol(argv[2], NULL, 10);
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
    return 0;
}
