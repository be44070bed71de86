/* state.c - the shared state: making and mapping it, entering a process, taking out the dead. */
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *const gpusim_kind_names[GPUSIM_KINDS] = {"linear", "managed", "pool",    "vmm",
                                                     "array",  "graph",   "context", "module"};

uint64_t gpusim_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void mutex_init(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(mutex, &attr);
    pthread_mutexattr_destroy(&attr);
}

/* --- opening -------------------------------------------------------------------------------- */

static void initialise(struct gpusim_state *state, const struct gpusim_machine *machine)
{
    state->layout = GPUSIM_LAYOUT;
    state->size = sizeof(*state);
    state->machine = *machine;
    mutex_init(&state->table_lock);
    for (int i = 0; i < GPUSIM_MAX_GPUS; i++) {
        mutex_init(&state->gpus[i].memory_lock);
        mutex_init(&state->gpus[i].time_lock);
        state->gpus[i].running = state->gpus[i].last = -1;
        state->gpus[i].now = gpusim_now();
    }
    for (int i = 0; i < GPUSIM_MAX_EVENTS; i++)
        state->events[i].process = -1;
    /* Whoever sees the magic sees all of the above. */
    __atomic_store_n(&state->magic, GPUSIM_MAGIC, __ATOMIC_RELEASE);
}

/* fs.protected_regular forbids O_CREAT on a file of somebody else, so it is used only to make the
 * file. */
static int open_file(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 || errno != ENOENT)
        return fd;
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return errno == EEXIST ? open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;
    fchmod(fd, 0666); /* whatever the umask */
    return fd;
}

/* Give the file its size under an exclusive lock, which ends with fd if we die. */
static int prepare(int fd, const char *path, struct gpusim_error *err)
{
    struct stat st;
    if (flock(fd, LOCK_EX) || fstat(fd, &st))
        return gpusim_errorf(err, "%s: %s", path, strerror(errno));
    if (st.st_size == 0 && ftruncate(fd, sizeof(struct gpusim_state)))
        return gpusim_errorf(err, "%s: %s", path, strerror(errno));
    if (st.st_size != 0 && st.st_size != sizeof(struct gpusim_state))
        return gpusim_errorf(err, "%s: made by another build of the simulated GPU; remove it",
                             path);
    return 0;
}

static struct gpusim_state *map(int fd, const char *path, struct gpusim_error *err)
{
    void *p = mmap(NULL, sizeof(struct gpusim_state), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (p == MAP_FAILED) {
        gpusim_errorf(err, "%s: %s", path, strerror(errno));
        return NULL;
    }
    return p;
}

struct gpusim_state *gpusim_open(const char *dir, struct gpusim_error *err)
{
    char path[PATH_MAX], machine_path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/state", dir);
    snprintf(machine_path, sizeof(machine_path), "%s/machine", dir);
    int fd = open_file(path);
    if (fd < 0) {
        gpusim_errorf(err, "%s: %s", path, strerror(errno));
        return NULL;
    }
    struct gpusim_state *state = NULL;
    if (prepare(fd, path, err) == 0 && (state = map(fd, path, err)) &&
        __atomic_load_n(&state->magic, __ATOMIC_ACQUIRE) != GPUSIM_MAGIC) {
        struct gpusim_machine *machine = malloc(sizeof(*machine));
        if (machine && gpusim_machine_read(machine_path, machine, err) == 0) {
            initialise(state, machine);
        } else {
            gpusim_close(state);
            state = NULL;
        }
        free(machine);
    }
    if (state && state->layout != GPUSIM_LAYOUT) {
        gpusim_errorf(err, "%s: made by another build of the simulated GPU; remove it", path);
        gpusim_close(state);
        state = NULL;
    }
    flock(fd, LOCK_UN); /* the mapping keeps the file open, and with it the lock */
    close(fd);
    return state;
}

void gpusim_close(struct gpusim_state *state)
{
    if (state)
        munmap(state, sizeof(*state));
}

/* --- the table ------------------------------------------------------------------------------ */

/* The holder of the table lock died: what is computed from the shares may be stale. */
static void repair_table(struct gpusim_state *state)
{
    for (int gpu = 0; gpu < GPUSIM_MAX_GPUS; gpu++) {
        uint64_t orphaned = 0;
        for (int i = 0; i < GPUSIM_MAX_SHARES; i++) {
            const struct gpusim_share *share = &state->shares[i];
            if (share->inode && share->gpu == gpu && share->owner < 0)
                orphaned += share->bytes;
        }
        gpusim_account_repair(state, gpu, orphaned);
    }
}

void gpusim_lock(struct gpusim_state *state)
{
    if (pthread_mutex_lock(&state->table_lock) == EOWNERDEAD) {
        repair_table(state);
        pthread_mutex_consistent(&state->table_lock);
    }
}

void gpusim_unlock(struct gpusim_state *state)
{
    pthread_mutex_unlock(&state->table_lock);
}

bool gpusim_listed(const struct gpusim_state *state, int i)
{
    uint32_t s = state->processes[i].state;
    return s == GPUSIM_ALIVE || s == GPUSIM_DEAD;
}

/* --- who is alive --------------------------------------------------------------------------- */

#define HIDDEN UINT64_MAX

/* Start time of a process in clock ticks; 0: it is gone (or a zombie); HIDDEN: /proc does not tell.
 */
static uint64_t start_time(pid_t pid)
{
    char path[32], text[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return kill(pid, 0) && errno == ESRCH ? 0 : HIDDEN;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *s = strrchr(text, ')'); /* the name before it may contain anything */
    char status;
    unsigned long long ticks;
    if (!s ||
        sscanf(s,
               ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &status, &ticks) != 2)
        return 0;
    return status == 'Z' || status == 'X' ? 0 : ticks;
}

static bool is_alive(struct gpusim_process *process)
{
    if (process->state == GPUSIM_CLAIMED) {
        uint64_t start = start_time(process->pid);
        return start == HIDDEN || start == process->start_time;
    }
    int rc = pthread_mutex_trylock(&process->life);
    if (rc == EBUSY)
        return true;
    if (rc == EOWNERDEAD)
        pthread_mutex_consistent(&process->life);
    if (rc == EOWNERDEAD || rc == 0)
        pthread_mutex_unlock(&process->life);
    return false;
}

static void release(struct gpusim_state *state, int i)
{
    gpusim_account_clear(state, i);
    state->processes[i].state = GPUSIM_FREE;
}

static void reap_one(struct gpusim_state *state, int i)
{
    struct gpusim_process *process = &state->processes[i];
    if (process->state == GPUSIM_FREE)
        return;
    if (process->state == GPUSIM_DEAD) {
        if (gpusim_now() >= process->release_at)
            release(state, i);
        return;
    }
    if (is_alive(process))
        return;
    gpusim_timeline_clear(state, i);
    gpusim_events_clear(state, i);
    uint64_t delay = state->release_delay_ns;
    process->release_at = gpusim_now() + delay;
    process->state = GPUSIM_DEAD;
    if (!delay)
        release(state, i);
}

static void reap_locked(struct gpusim_state *state)
{
    int limit = (int)state->process_limit;
    for (int i = 0; i < limit; i++)
        reap_one(state, i);
}

void gpusim_reap(struct gpusim_state *state)
{
    gpusim_lock(state);
    reap_locked(state);
    gpusim_unlock(state);
}

/* --- entering ------------------------------------------------------------------------------- */

/* Index of the group, made if it is new; -1: no name, or no room. */
static int find_group(struct gpusim_state *state, const char *name)
{
    int room = -1;
    if (!name || !*name || strlen(name) >= GPUSIM_GROUP_NAME)
        return -1;
    for (int i = GPUSIM_MAX_GROUPS - 1; i >= 0; i--) {
        if (strcmp(state->groups[i].name, name) == 0)
            return i;
        if (!state->groups[i].name[0])
            room = i;
    }
    if (room >= 0)
        strcpy(state->groups[room].name, name);
    return room;
}

static void process_name(char *name, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", name, size - 1);
    name[n > 0 ? n : 0] = 0;
}

static enum gpusim_process_type process_type(const char *name)
{
    if (name && strcmp(name, "graphics") == 0)
        return GPUSIM_GRAPHICS;
    return name && strcmp(name, "mps") == 0 ? GPUSIM_MPS : GPUSIM_COMPUTE;
}

/* Take a free row. -1: none is left. */
static int claim(struct gpusim_state *state, const char *group)
{
    int i = 0;
    while (i < GPUSIM_MAX_PROCESSES && state->processes[i].state != GPUSIM_FREE)
        i++;
    if (i == GPUSIM_MAX_PROCESSES)
        return -1;
    struct gpusim_process *process = &state->processes[i];
    memset(process->gpus, 0, state->machine.n_gpus * sizeof(process->gpus[0]));
    process->pid = getpid();
    process->start_time = start_time(getpid());
    process->uid = getuid();
    process->group = find_group(state, group);
    process->type = process_type(getenv("GPUSIM_TYPE"));
    process->capture_violations = 0;
    process_name(process->name, sizeof(process->name));
    mutex_init(&process->life);
    process->state = GPUSIM_CLAIMED;
    if (state->process_limit <= (uint32_t)i)
        state->process_limit = (uint32_t)i + 1;
    return i;
}

struct keeper {
    struct gpusim_process *process;
    sem_t ready;
};

/* Hold the life mutex for ever: the kernel marks it when the process ends, however it ends. */
static void *keep(void *arg)
{
    struct keeper *keeper = arg;
    pthread_setname_np(pthread_self(), "cuda-keeper");
    pthread_mutex_lock(&keeper->process->life);
    keeper->process->state = GPUSIM_ALIVE;
    sem_post(&keeper->ready);
    for (;;)
        pause();
    return NULL;
}

/* A thread that never handles the application's signals. */
static int start_keeper(struct gpusim_process *process)
{
    struct keeper keeper = {.process = process};
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;
    sem_init(&keeper.ready, 0, 0);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, 256 * 1024);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&thread, &attr, keep, &keeper);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    while (rc == 0 && sem_wait(&keeper.ready) && errno == EINTR)
        ;
    sem_destroy(&keeper.ready);
    return rc;
}

int gpusim_register(struct gpusim_state *state, const char *group, struct gpusim_error *err)
{
    gpusim_lock(state);
    reap_locked(state);
    int i = claim(state, group);
    gpusim_unlock(state);
    if (i < 0)
        return gpusim_errorf(err, "%d processes already use the simulated GPUs",
                             GPUSIM_MAX_PROCESSES);
    int rc = start_keeper(&state->processes[i]);
    if (rc) {
        state->processes[i].state = GPUSIM_FREE;
        return gpusim_errorf(err, "cannot start a thread: %s", strerror(rc));
    }
    return i;
}
