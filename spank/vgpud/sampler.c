/* sampler.c - a thread that asks NVML for the GPUs it was told to. */
#include "sampler.h"

#include "clock.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define STOP_SECONDS 1
#define GAP_NS       (2 * NS_PER_MS) /* between two samples of one GPU */

struct sampler {
    const struct nvml *nvml;
    unsigned indices[VGPU_MAX_GPUS];
    uint32_t n;
    int eventfd;
    pthread_t thread;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t wake;
    bool stop;
    gpu_set asked, ready;
    struct sample *samples; /* one for each GPU */

    struct sample scratch; /* the thread's own */
};

static void read_sample(struct sampler *sampler, int gpu)
{
    struct sample *sample = &sampler->scratch;
    sample->started_ns = now_ns();
    int n = nvml_processes(sampler->nvml, sampler->indices[gpu], sample->processes, &sample->error);
    sample->failed = n < 0;
    sample->n = n < 0 ? 0 : (uint32_t)n;
}

static void copy_sample(struct sample *to, const struct sample *from)
{
    size_t used = offsetof(struct sample, processes) + from->n * sizeof *from->processes;
    memcpy(to, from, used);
}

/* In turn, so that one GPU that is asked for again and again keeps no other one waiting. */
static int next_gpu(gpu_set asked, int last)
{
    gpu_set later = asked & ~((2u << last) - 1);
    return __builtin_ctz(later ? later : asked);
}

/* Jobs may ask as often as they like: neither the driver nor this thread is theirs alone. */
static void keep_gap(uint64_t last_ns)
{
    uint64_t now = now_ns();
    if (now - last_ns < GAP_NS)
        nanosleep(&(struct timespec){.tv_nsec = (long)(GAP_NS - (now - last_ns))}, NULL);
}

static void *run(void *argument)
{
    struct sampler *sampler = argument;
    uint64_t last[VGPU_MAX_GPUS] = {0};
    int gpu = 0;
    pthread_mutex_lock(&sampler->lock);
    while (!sampler->stop) {
        if (!sampler->asked) {
            pthread_cond_wait(&sampler->wake, &sampler->lock);
            continue;
        }
        gpu = next_gpu(sampler->asked, gpu);
        sampler->asked &= ~(1u << gpu);
        pthread_mutex_unlock(&sampler->lock);
        keep_gap(last[gpu]);
        last[gpu] = now_ns();
        read_sample(sampler, gpu);
        pthread_mutex_lock(&sampler->lock);
        copy_sample(&sampler->samples[gpu], &sampler->scratch);
        sampler->ready |= 1u << gpu;
        eventfd_write(sampler->eventfd, 1);
    }
    pthread_mutex_unlock(&sampler->lock);
    return NULL;
}

/* Signals are the main thread's business. */
static int start_thread(struct sampler *sampler)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&sampler->thread, NULL, run, sampler);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

struct sampler *sampler_start(const struct nvml *nvml, const unsigned *indices, uint32_t n)
{
    struct sampler *sampler = calloc(1, sizeof *sampler);
    if (!sampler)
        return NULL;
    sampler->nvml = nvml;
    sampler->n = n;
    memcpy(sampler->indices, indices, n * sizeof *indices);
    pthread_mutex_init(&sampler->lock, NULL);
    pthread_cond_init(&sampler->wake, NULL);
    sampler->samples = calloc(n ? n : 1, sizeof *sampler->samples);
    sampler->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = sampler->samples && sampler->eventfd >= 0 ? start_thread(sampler) : ENOMEM;
    if (!error)
        return sampler;
    if (sampler->eventfd >= 0)
        close(sampler->eventfd);
    free(sampler->samples);
    free(sampler);
    errno = error;
    return NULL;
}

int sampler_stop(struct sampler *sampler)
{
    if (!sampler)
        return 0;
    pthread_mutex_lock(&sampler->lock);
    sampler->stop = true;
    pthread_cond_signal(&sampler->wake);
    pthread_mutex_unlock(&sampler->lock);
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += STOP_SECONDS;
    if (pthread_timedjoin_np(sampler->thread, NULL, &deadline))
        return -1;
    close(sampler->eventfd);
    free(sampler->samples);
    free(sampler);
    return 0;
}

int sampler_fd(const struct sampler *sampler)
{
    return sampler->eventfd;
}

void sampler_ask(struct sampler *sampler, int gpu)
{
    pthread_mutex_lock(&sampler->lock);
    sampler->asked |= 1u << gpu;
    pthread_cond_signal(&sampler->wake);
    pthread_mutex_unlock(&sampler->lock);
}

int sampler_take(struct sampler *sampler, struct sample *sample)
{
    eventfd_t count;
    int gpu = -1;
    eventfd_read(sampler->eventfd, &count);
    pthread_mutex_lock(&sampler->lock);
    if (sampler->ready) {
        gpu = __builtin_ctz(sampler->ready);
        sampler->ready &= ~(1u << gpu);
        copy_sample(sample, &sampler->samples[gpu]);
    }
    pthread_mutex_unlock(&sampler->lock);
    return gpu;
}

int64_t sample_find(const struct sample *sample, pid_t pid)
{
    uint32_t low = 0, high = sample->n;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (sample->processes[middle].pid == pid)
            return (int64_t)(sample->processes[middle].bytes & INT64_MAX);
        if (sample->processes[middle].pid < pid)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}
