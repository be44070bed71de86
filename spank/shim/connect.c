/* connect.c - attaching to vgpud, over the step's socket. */
#include "shim/connect.h"
#include "proto/paths.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_NS                                                                                \
    5000000000ull /* vgpud restarts within this, or somebody has to look after it                  \
                   */
#define RETRY_NS 20000000

/* What SPANK lays beside the socket: where it is, there is a step, even while the socket is being
 * made anew. */
#define STEP_MARK VGPU_STEP_DIR "/ld.so.preload"

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A connection with bounded sends and receives, or -1 with errno. */
static int open_connection(time_t seconds)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = VGPU_STEP_SOCKET};
    struct timeval limit = {.tv_sec = seconds};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0 &&
        connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

int connect_attach_once(time_t seconds, uint32_t flags, struct vgpu_attach_reply *reply, int *fds,
                        size_t *n_fds)
{
    struct vgpu_attach_request request = {.flags = flags};
    int fd = open_connection(seconds);

    *n_fds = VGPU_MAX_FDS;
    memset(reply, 0, sizeof *reply);
    if (fd < 0)
        return -1;
    vgpu_head_init(&request.head, VGPU_ATTACH, sizeof request);
    long got = vgpu_send(fd, &request, sizeof request, NULL, 0);
    if (got == 0)
        got = vgpu_receive(fd, reply, sizeof *reply, fds, n_fds);
    if (got > 0)
        return fd;
    int why = got == 0 ? ECONNRESET : errno;
    close(fd);
    errno = why;
    return -1;
}

static bool outside_step(void)
{
    struct stat st;
    return stat(VGPU_STEP_SOCKET, &st) != 0 && (errno == ENOENT || errno == ENOTDIR) &&
           stat(STEP_MARK, &st) != 0;
}

static enum connect_outcome no_answer(int why, vgpu_error_t *err)
{
    char host[65] = "this node";
    gethostname(host, sizeof host - 1);
    vgpu_errorf(err,
                "vgpud on %s does not answer at %s (%s), so CUDA is not available to this process; "
                "the node's administrator can start it with: systemctl start vgpud",
                host, VGPU_STEP_SOCKET, strerror(why));
    return CONNECT_FAILED;
}

static enum connect_outcome check(const struct vgpu_attach_reply *reply, size_t n_fds,
                                  vgpu_error_t *err)
{
    if (reply->status != VGPU_OK) {
        vgpu_errorf(err, "vgpud refuses this process, so CUDA is not available to it: %.200s",
                    reply->error.text);
        return CONNECT_FAILED;
    }
    if (reply->n_vgpus > VGPU_MAX_GPUS || n_fds != 2 * (size_t)reply->n_vgpus) {
        vgpu_errorf(err,
                    "vgpud's answer is not understood (%u vGPUs, %zu descriptors), so CUDA is not "
                    "available to this "
                    "process; the node's vgpud and libvgpu.so must be of the same release",
                    reply->n_vgpus, n_fds);
        return CONNECT_FAILED;
    }
    return CONNECT_ATTACHED;
}

enum connect_outcome connect_attach(struct link *link, struct vgpu_attach_reply *reply, int *fds,
                                    size_t *n_fds, bool patient, vgpu_error_t *err)
{
    uint64_t deadline = now_ns() + (patient ? PATIENCE_NS : 0);

    for (;;) {
        uint64_t left = deadline > now_ns() ? deadline - now_ns() : 0;
        int fd = connect_attach_once((time_t)(left / 1000000000u + 1), 0, reply, fds, n_fds);
        int why = errno;
        if (fd >= 0) {
            enum connect_outcome outcome = check(reply, *n_fds, err);
            if (outcome == CONNECT_ATTACHED)
                link_set(link, fd);
            else
                close(fd);
            for (size_t i = 0; outcome != CONNECT_ATTACHED && i < *n_fds; i++)
                close(fds[i]);
            return outcome;
        }
        if (outside_step())
            return CONNECT_OUTSIDE;
        if (now_ns() + RETRY_NS >= deadline)
            return no_answer(why, err);
        nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
    }
}

static void *map(int fd, size_t size, int protection)
{
    struct stat st;

    if (fstat(fd, &st) != 0 || (uint64_t)st.st_size < size)
        return NULL;
    void *p = mmap(NULL, size, protection, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

int connect_map(struct charge *charge, int control, int account, uint32_t process,
                vgpu_error_t *err)
{
    charge->control = map(control, sizeof *charge->control, PROT_READ);
    charge->account = map(account, sizeof *charge->account, PROT_READ | PROT_WRITE);
    if (charge->control && charge->account && process < VGPU_MAX_PROCESSES &&
        charge->control->magic == VGPU_PAGE_MAGIC && charge->control->major == VGPU_PAGE_MAJOR &&
        charge->account->magic == VGPU_PAGE_MAGIC && charge->account->major == VGPU_PAGE_MAJOR) {
        charge->process = &charge->account->processes[process];
        return 0;
    }
    connect_unmap(charge);
    return vgpu_errorf(err,
                       "the pages of a vGPU cannot be mapped or are of another release, so CUDA is "
                       "not available to "
                       "this process; the node's vgpud and libvgpu.so must be of the same release");
}

void connect_unmap(struct charge *charge)
{
    if (charge->control)
        munmap((void *)charge->control, sizeof *charge->control);
    if (charge->account)
        munmap(charge->account, sizeof *charge->account);
    *charge = (struct charge){0};
}
