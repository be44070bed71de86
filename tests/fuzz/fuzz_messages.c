/* fuzz_messages.c - whatever arrives at vgpud's sockets: it is answered or its sender is
 * disconnected, and what is bound stays consistent. A whole vgpud without its process around it;
 * each input is a few messages. */
#include "vgpud/daemon.h"
#include "vgpud/step.h"
#include "vgpud/vgpu.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_MESSAGES 8
#define MAX_BOUND    64 /* then everything is unbound, so that inputs meet every state */

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct daemon daemon_;
static char folder[64];

static const char conf_text[] =
    "Version=1\n"
    "Type=a Memory=1GiB SMs=10 MaxSMs=20\n"
    "Type=b Memory=2GiB SMs=20 Policy=cap\n"
    "Node=n GPU=0 Memory=16GiB SMs=100 UUID=GPU-00000000-0000-0000-0000-000000000000\n"
    "Node=n GPU=1 Memory=16GiB SMs=100 UUID=GPU-00000000-0000-0000-0000-000000000001\n"
    "Node=n GPU=2 Memory=16GiB SMs=100 UUID=GPU-00000000-0000-0000-0000-000000000002\n"
    "Node=n Slot=0-5 Type=a GPU=0,1,2\n"
    "Node=n Slot=6-11 Type=b GPU=0,1,2\n";

static void require(bool claim)
{
    if (!claim)
        abort();
}

static void remove_folder(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command))
        perror(command);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    vgpu_error_t err;
    (void)argc;
    (void)argv;
    snprintf(folder, sizeof folder, "/dev/shm/vgpu-fuzz-XXXXXX");
    struct vgpu_conf *conf = vgpu_conf_parse(conf_text, strlen(conf_text), "conf", "n", &err);
    require(conf && mkdtemp(folder));
    atexit(remove_folder);
    /* vgpud's log would drown the fuzzer's. */
    stderr = fopen("/dev/null", "w");
    require(stderr && daemon_start(&daemon_, conf, folder, &err) == 0);
    return 0;
}

static void serve(void)
{
    while (loop_once(&daemon_.loop, 0) > 0)
        ;
}

/* A connection to vgpud.sock, or to the attach socket of some step. */
static int connect_to(bool root)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (root || !daemon_.steps)
        snprintf(address.sun_path, sizeof address.sun_path, "%s/vgpud.sock", folder);
    else
        snprintf(address.sun_path, sizeof address.sun_path, "%s/steps/%u.%u/attach.sock", folder,
                 daemon_.steps->record->job, daemon_.steps->record->step);
    require(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

/* What came back is a whole message of ours, and its descriptors are ours to close. */
static void read_answers(int fd)
{
    static char answer[1 << 16];
    for (;;) {
        int fds[VGPU_MAX_FDS];
        size_t n = VGPU_MAX_FDS;
        long length = vgpu_receive(fd, answer, sizeof answer, fds, &n);
        require(length >= 0 || errno == EAGAIN || errno == ECONNRESET);
        if (length <= 0)
            return;
        while (n > 0)
            close(fds[--n]);
    }
}

static void check_ledger(void)
{
    const struct ledger *ledger = &daemon_.ledger;
    uint32_t bound = 0, held = 0;
    for (uint32_t type = 0; type < daemon_.conf->n_types; type++)
        for (uint32_t gpu = 0; gpu < daemon_.conf->n_gpus; gpu++) {
            require(ledger->bound[type][gpu] <= ledger->places[type][gpu]);
            bound += ledger->bound[type][gpu];
        }
    for (const struct vgpu *vgpu = daemon_.vgpus; vgpu; vgpu = vgpu->next)
        held += vgpu->record->desc.n_slots;
    require(bound == held);
}

static void unbind_all(void)
{
    while (daemon_.steps)
        step_destroy(daemon_.steps);
    while (daemon_.vgpus)
        vgpu_destroy(daemon_.vgpus);
    serve();
}

/* One message: a byte that says how it is sent (where, with a right head or as it is), its length,
 * and that much. */
static size_t send_one(const uint8_t *data, size_t size, const int *fds)
{
    static uint8_t message[1 << 14];
    size_t length = (data[1] | (size_t)data[2] << 8) % sizeof message;
    size_t given = size - 3 < length ? size - 3 : length;
    struct vgpu_head head;
    memset(message, 0, sizeof message);
    memcpy(message, data + 3, given);
    if ((data[0] & 2) && length >= sizeof head) {
        memcpy(&head, message, sizeof head);
        vgpu_head_init(&head, head.type % 40, length);
        memcpy(message, &head, sizeof head);
    }
    (void)!send(fds[data[0] & 1], message, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    return 3 + given;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fds[2] = {connect_to(false), connect_to(true)};
    for (int i = 0; i < MAX_MESSAGES && size > 3; i++) {
        size_t used = send_one(data, size, fds);
        data += used;
        size -= used;
        serve();
        read_answers(fds[0]);
        read_answers(fds[1]);
    }
    close(fds[0]);
    close(fds[1]);
    serve();
    check_ledger();
    uint32_t bound = 0;
    for (const struct vgpu *vgpu = daemon_.vgpus; vgpu; vgpu = vgpu->next)
        bound++;
    if (bound + daemon_.n_steps > MAX_BOUND || daemon_.n_processes > MAX_BOUND)
        unbind_all();
    return 0;
}
