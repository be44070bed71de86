/* daemon.c - starts vgpud, runs it, stops it. */
#include "daemon.h"

#include "backstop.h"
#include "clock.h"
#include "conn.h"
#include "gpus.h"
#include "listener.h"
#include "log.h"
#include "notify.h"
#include "process.h"
#include "proto/paths.h"
#include "takeup.h"
#include "waiters.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define WANTED_FDS 131072
#define OTHER_FDS  8192 /* not for connections or processes: pages, steps, ourselves */

/* --- places ---------------------------------------------------------------------------------- */

/* Make a folder and those above it. Returns -1 with errno. */
static int make_path(const char *path)
{
    char part[VGPU_PATH_MAX];
    snprintf(part, sizeof part, "%s", path);
    for (char *p = part + 1; *p; p++)
        if (*p == '/') {
            *p = '\0';
            if (mkdir(part, 0755) && errno != EEXIST)
                return -1;
            *p = '/';
        }
    return mkdir(part, 0755) && errno != EEXIST ? -1 : 0;
}

static int open_private(int dir, const char *name)
{
    if (mkdirat(dir, name, 0700) && errno != EEXIST)
        return -1;
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        fchmod(fd, 0700);
    return fd;
}

static int open_places(struct daemon *daemon, vgpu_error_t *err)
{
    const char *path = daemon->runtime_dir;
    if (make_path(path) || (daemon->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return vgpu_errorf(err, "%s: %s", path, strerror(errno));
    if (flock(daemon->dir, LOCK_EX | LOCK_NB))
        return vgpu_errorf(err, "%s: %s", path,
                           errno == EWOULDBLOCK ? "another vgpud runs there" : strerror(errno));
    if ((daemon->steps_dir = open_private(daemon->dir, VGPU_STEPS)) < 0 ||
        (daemon->control_dir = open_private(daemon->dir, "control")) < 0)
        return vgpu_errorf(err, "%s: %s", path, strerror(errno));
    return 0;
}

/* --- means ----------------------------------------------------------------------------------- */

/* As many descriptors as we may have; they decide how many connections and processes there can be.
 */
static void raise_limits(struct daemon *daemon)
{
    struct rlimit limit = {.rlim_cur = WANTED_FDS, .rlim_max = WANTED_FDS};
    if (setrlimit(RLIMIT_NOFILE, &limit)) {
        getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    uint32_t fds = limit.rlim_cur > 2 * OTHER_FDS ? (uint32_t)limit.rlim_cur - OTHER_FDS
                                                  : (uint32_t)limit.rlim_cur / 2;
    daemon->max_processes = fds / 3 < STATE_PROCESSES ? fds / 3 : STATE_PROCESSES;
    daemon->max_conns = fds - daemon->max_processes;
    /* Who waits for a lease waits for us: be there first. */
    if (setpriority(PRIO_PROCESS, 0, -20))
        log_warning("the priority cannot be raised: %s", strerror(errno));
}

static void sample_ready(struct loop_source *source, uint32_t events)
{
    struct daemon *daemon = container_of(source, struct daemon, samples);
    (void)events;
    for (int gpu; (gpu = sampler_take(daemon->sampler, daemon->incoming)) >= 0;) {
        struct gpu *card = &daemon->gpus[gpu];
        struct sample *sample = daemon->incoming;
        daemon->incoming = card->sample;
        card->sample = sample;
        if (sample->failed && !card->failing_since) {
            card->failing_since = sample->started_ns;
            log_error("GPU %u: %s", card->minor, sample->error.text);
        } else if (!sample->failed) {
            card->failing_since = 0;
        }
        process_reap(daemon, gpu);
        backstop_look(daemon, gpu);
    }
    waiters_look(daemon);
}

static int start_sampler(struct daemon *daemon, vgpu_error_t *err)
{
    unsigned indices[VGPU_MAX_GPUS];
    if (!daemon->nvml)
        return 0;
    for (uint32_t i = 0; i < daemon->conf->n_gpus; i++)
        indices[i] = daemon->gpus[i].nvml_index;
    daemon->incoming = calloc(1, sizeof *daemon->incoming);
    if (daemon->incoming)
        daemon->sampler = sampler_start(daemon->nvml, indices, daemon->conf->n_gpus);
    if (!daemon->sampler)
        return vgpu_errorf(err, "the thread that asks NVML cannot be started: %s", strerror(errno));
    daemon->samples =
        (struct loop_source){.fd = sampler_fd(daemon->sampler), .ready = sample_ready};
    return loop_add(&daemon->loop, &daemon->samples, EPOLLIN);
}

/* --- sources --------------------------------------------------------------------------------- */

static void root_ready(struct loop_source *source, uint32_t events)
{
    (void)events;
    conn_accept(container_of(source, struct daemon, listener), source->fd, NULL);
}

static void signal_ready(struct loop_source *source, uint32_t events)
{
    struct daemon *daemon = container_of(source, struct daemon, signals);
    struct signalfd_siginfo info;
    (void)events;
    if (read(source->fd, &info, sizeof info) == sizeof info)
        log_info("stopping on signal %u; running steps go on", info.ssi_signo);
    daemon->loop.stop = true;
}

static void watchdog_due(struct loop_timer *timer)
{
    struct daemon *daemon = container_of(timer, struct daemon, watchdog);
    notify_send("WATCHDOG=1");
    loop_set_timer(&daemon->loop, timer, now_ns() + notify_watchdog_ns());
}

static int add_sources(struct daemon *daemon, vgpu_error_t *err)
{
    sigset_t wanted;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGTERM);
    sigaddset(&wanted, SIGINT);
    sigprocmask(SIG_BLOCK, &wanted, NULL);
    signal(SIGPIPE, SIG_IGN); /* a log that is gone is no reason to go too */
    daemon->signals = (struct loop_source){.fd = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK),
                                           .ready = signal_ready};
    daemon->listener = (struct loop_source){.fd = listener_make(daemon->dir, VGPUD_SOCKET, 0600),
                                            .ready = root_ready};
    if (daemon->listener.fd < 0)
        return vgpu_errorf(err, "%s/%s: %s", daemon->runtime_dir, VGPUD_SOCKET, strerror(errno));
    if (loop_add(&daemon->loop, &daemon->signals, EPOLLIN) ||
        loop_add(&daemon->loop, &daemon->listener, EPOLLIN))
        return vgpu_errorf(err, "epoll: %s", strerror(errno));
    daemon->watchdog.due = watchdog_due;
    if (notify_watchdog_ns())
        loop_set_timer(&daemon->loop, &daemon->watchdog, now_ns());
    return 0;
}

/* --- from start to stop ---------------------------------------------------------------------- */

int daemon_start(struct daemon *daemon, const struct vgpu_conf *conf, const char *runtime_dir,
                 vgpu_error_t *err)
{
    struct links links;
    bool fresh;
    *daemon = (struct daemon){
        .conf = conf, .runtime_dir = runtime_dir, .loop = {.epoll = -1, .timerfd = -1}};
    if (open_places(daemon, err))
        return -1;
    raise_limits(daemon);
    if (loop_init(&daemon->loop))
        return vgpu_errorf(err, "epoll: %s", strerror(errno));
    if (gpus_find(daemon, &links, err))
        return -1;
    ledger_init(&daemon->ledger, daemon->conf, &links);
    process_reaper_init(daemon);
    waiters_init(daemon);
    daemon->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    daemon->state = state_open(daemon->dir, daemon->conf->node, &fresh, err);
    if (!daemon->state || start_sampler(daemon, err) || take_up(daemon, err))
        return -1;
    backstop_init(daemon);
    return add_sources(daemon, err);
}

void daemon_stop(struct daemon *daemon)
{
    if (sampler_stop(daemon->sampler) == 0)
        nvml_close(daemon->nvml);
    state_close(daemon->state);
    loop_fini(&daemon->loop);
}

int daemon_serve(struct daemon *daemon, vgpu_error_t *err)
{
    log_info("node %s: %u slots on %u GPUs; ready at %s/%s", daemon->conf->node,
             daemon->conf->n_slots, daemon->conf->n_gpus, daemon->runtime_dir, VGPUD_SOCKET);
    notify_send("READY=1");
    int result = loop_run(&daemon->loop);
    if (result)
        vgpu_errorf(err, "epoll: %s", strerror(errno));
    notify_send("STOPPING=1");
    return result;
}
