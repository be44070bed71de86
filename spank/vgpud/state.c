/* state.c - the mapped file of records. */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define STATE_FILE   "state"
#define STATE_NEW    "state.new"
#define STATE_MAGIC  0x74736776u /* "vgst" */
#define STATE_LAYOUT 1           /* to be raised with every change of the structs */

static int read_boot_id(char *boot_id, size_t size, vgpu_error_t *err)
{
    static const char path[] = "/proc/sys/kernel/random/boot_id";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, boot_id, size - 1);
    if (fd >= 0)
        close(fd);
    if (length < 36)
        return vgpu_errorf(err, "%s cannot be read: %s", path, strerror(errno));
    boot_id[36] = '\0';
    return 0;
}

static struct state *map(int fd)
{
    void *address = mmap(NULL, sizeof(struct state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return address == MAP_FAILED ? NULL : address;
}

/* The state that is there, if it is of this boot, this node and this layout; NULL without err if
 * not. */
static struct state *open_old(int dir, const char *boot_id, const char *node)
{
    struct stat st;
    struct state *state = NULL;
    int fd = openat(dir, STATE_FILE, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &st) == 0 && st.st_size == sizeof *state)
        state = map(fd);
    close(fd);
    if (state && (state->magic != STATE_MAGIC || state->layout != STATE_LAYOUT ||
                  strncmp(state->boot_id, boot_id, sizeof state->boot_id) != 0 ||
                  strncmp(state->node, node, sizeof state->node) != 0)) {
        state_close(state);
        state = NULL;
    }
    return state;
}

static struct state *make(int dir, const char *boot_id, const char *node, vgpu_error_t *err)
{
    struct state *state = NULL;
    int fd = openat(dir, STATE_NEW, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    /* All of it is allocated now: a full file system must not become a SIGBUS later. */
    int error = fd < 0 ? errno : posix_fallocate(fd, 0, sizeof *state);
    if (!error && !(state = map(fd)))
        error = errno;
    if (fd >= 0)
        close(fd);
    if (state) {
        state->magic = STATE_MAGIC;
        state->layout = STATE_LAYOUT;
        state->next_id = 1;
        snprintf(state->boot_id, sizeof state->boot_id, "%s", boot_id);
        snprintf(state->node, sizeof state->node, "%s", node);
        if (renameat(dir, STATE_NEW, dir, STATE_FILE) == 0)
            return state;
        error = errno;
        state_close(state);
    }
    vgpu_errorf(err, "the state in the runtime directory cannot be made: %s", strerror(error));
    return NULL;
}

struct state *state_open(int dir, const char *node, bool *fresh, vgpu_error_t *err)
{
    char boot_id[40];
    if (read_boot_id(boot_id, sizeof boot_id, err))
        return NULL;
    struct state *state = open_old(dir, boot_id, node);
    *fresh = !state;
    return state ? state : make(dir, boot_id, node, err);
}

void state_close(struct state *state)
{
    if (state)
        munmap(state, sizeof *state);
}

struct vgpu_record *state_new_vgpu(struct state *state)
{
    for (size_t i = 0; i < STATE_VGPUS; i++)
        if (!state->vgpus[i].valid)
            return memset(&state->vgpus[i], 0, sizeof state->vgpus[i]);
    return NULL;
}

struct step_record *state_new_step(struct state *state)
{
    for (size_t i = 0; i < STATE_STEPS; i++)
        if (!state->steps[i].valid)
            return memset(&state->steps[i], 0, sizeof state->steps[i]);
    return NULL;
}

struct process_record *state_new_process(struct state *state)
{
    for (size_t i = 0; i < STATE_PROCESSES; i++)
        if (!state->processes[i].valid)
            return memset(&state->processes[i], 0, sizeof state->processes[i]);
    return NULL;
}
