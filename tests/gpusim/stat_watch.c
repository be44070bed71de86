/* stat_watch.c - the most that some processes ever held together, by looking often. */
#include "stat.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_PIDS 256

struct pids {
    bool all;
    int n;
    long pid[MAX_PIDS];
};

static int parse_pids(const char *text, struct pids *pids, struct gpusim_error *err)
{
    pids->n = 0;
    pids->all = strcmp(text, "all") == 0;
    for (const char *s = text; !pids->all; s++) {
        char *end;
        long pid = strtol(s, &end, 10);
        if (end == s || pid <= 0 || (*end && *end != ',') || pids->n == MAX_PIDS)
            return gpusim_errorf(err,
                                 "--watch-max=%s: \"all\" or at most %d process ids are needed",
                                 text, MAX_PIDS);
        pids->pid[pids->n++] = pid;
        s = end;
        if (!*s)
            break;
    }
    return 0;
}

static bool wanted(const struct pids *pids, long pid)
{
    for (int i = 0; i < pids->n && !pids->all; i++)
        if (pids->pid[i] == pid)
            return true;
    return pids->all;
}

static void look(struct gpusim_state *state, const struct pids *pids, uint64_t *most)
{
    bool marked[GPUSIM_MAX_PROCESSES];
    for (int i = 0; i < (int)state->process_limit; i++)
        marked[i] = gpusim_listed(state, i) && wanted(pids, state->processes[i].pid);
    for (uint32_t gpu = 0; gpu < state->machine.n_gpus; gpu++) {
        uint64_t sum = gpusim_account_sum(state, (int)gpu, marked);
        if (most[gpu] < sum)
            most[gpu] = sum;
    }
}

static void sleep_until(uint64_t t)
{
    struct timespec when = {.tv_sec = (time_t)(t / 1000000000u),
                            .tv_nsec = (long)(t % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR)
        ;
}

static void print(const struct gpusim_state *state, const uint64_t *most, uint64_t looks, bool json,
                  FILE *out)
{
    char size[16];
    if (json)
        fprintf(out, "{\"simulated\": true, \"samples\": %" PRIu64 ", \"max_bytes\": [", looks);
    else
        fprintf(out, "GPU   LARGEST SUM (simulated, %" PRIu64 " samples)\n", looks);
    for (uint32_t gpu = 0; gpu < state->machine.n_gpus; gpu++) {
        if (json)
            fprintf(out, "%s%" PRIu64, gpu ? ", " : "", most[gpu]);
        else
            fprintf(out, "%3u  %12" PRIu64 "  %s\n", gpu, most[gpu], stat_size(most[gpu], size));
    }
    fputs(json ? "]}\n" : "", out);
}

int stat_watch(struct gpusim_state *state, const struct stat_watch *watch, FILE *out,
               struct gpusim_error *err)
{
    struct pids pids;
    if (parse_pids(watch->pids, &pids, err))
        return -1;
    uint64_t most[GPUSIM_MAX_GPUS] = {0}, looks = 0;
    uint64_t start = gpusim_now(), end = start + (uint64_t)(watch->seconds * 1e9);
    uint64_t step = 1000000000u / watch->hz, next = start;
    while (next < end) {
        look(state, &pids, most);
        looks++;
        uint64_t now = gpusim_now();
        next = next + step > now ? next + step : now; /* what is missed is not made up for */
        sleep_until(next < end ? next : end);
    }
    print(state, most, looks, watch->json, out);
    return 0;
}
