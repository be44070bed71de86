/* cuprobe - a CUDA program for tests: does what its arguments say, one after the other, and prints
 * a line of JSON for each.
 *
 *   devices                 every device: uuid, name, total memory
 *   use=N                   make device N current (0 at the start)
 *   info                    free and total memory of the current device
 *   alloc=SIZE[:KIND]       take one block: linear (default), pitch, managed
 *   fill=GRANULE[:KIND]     take blocks of this size until one is refused
 *   free                    give back every block
 *   churn=SIZE:COUNT        take and give back a block so many times; stops at the first error
 *   launch=NS[:COUNT]       start kernels that take so long, then wait for them
 *   sleep=MS                do nothing for so long
 *   wait                    do nothing until a line or the end of standard input
 *
 * "result" is the driver's return code, 0 for success. Sizes are bytes, or with K, M, G. */
#include "driver.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_BLOCKS  1000000
#define PITCH_WIDTH 65536 /* bytes of a row; a multiple of any pitch */

enum kind { LINEAR, PITCH, MANAGED, KINDS };

static const char *const kind_names[KINDS] = {"linear", "pitch", "managed"};

struct probe {
    int current; /* device */
    bool has_context[64];
    CUdeviceptr *blocks;
    size_t n_blocks;
};

/* --- arguments ---------------------------------------------------------------------------------
 */

/* SIZE[:rest]; *rest is what follows the colon, or NULL. */
static int parse_number(const char *text, unsigned long long *value, const char **rest)
{
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    if (end == text || errno)
        return -1;
    const char *units = "KMG", *unit = *end ? strchr(units, *end) : NULL;
    if (unit) {
        *value <<= 10 * (unit - units + 1);
        end++;
    }
    *rest = *end == ':' ? end + 1 : NULL;
    return *end == ':' || *end == '\0' ? 0 : -1;
}

static int parse_kind(const char *text, enum kind *kind)
{
    for (int i = 0; i < KINDS; i++) {
        if (strcmp(text ? text : "linear", kind_names[i]) == 0) {
            *kind = (enum kind)i;
            return 0;
        }
    }
    return -1;
}

/* --- the driver --------------------------------------------------------------------------------
 */

/* A context on the current device, made when first needed. */
static CUresult make_current(struct probe *probe)
{
    CUdevice device;
    CUcontext context;
    CUresult result = CU(cuDeviceGet)(&device, probe->current);
    if (result != CUDA_SUCCESS || probe->has_context[probe->current])
        return result;
    result = CU(cuDevicePrimaryCtxRetain)(&context, device);
    if (result == CUDA_SUCCESS)
        result = CU(cuCtxSetCurrent)(context);
    probe->has_context[probe->current] = result == CUDA_SUCCESS;
    return result;
}

static CUresult allocate(struct probe *probe, size_t size, enum kind kind)
{
    size_t pitch;
    CUdeviceptr *block = &probe->blocks[probe->n_blocks];
    CUresult result = make_current(probe);
    if (result != CUDA_SUCCESS)
        return result;
    if (probe->n_blocks == MAX_BLOCKS)
        return CUDA_ERROR_UNKNOWN;
    switch (kind) {
    case PITCH:
        result = CU(cuMemAllocPitch)(block, &pitch, PITCH_WIDTH, size / PITCH_WIDTH, 4);
        break;
    case MANAGED:
        result = CU(cuMemAllocManaged)(block, size, CU_MEM_ATTACH_GLOBAL);
        break;
    default:
        result = CU(cuMemAlloc)(block, size);
    }
    if (result == CUDA_SUCCESS)
        probe->n_blocks++;
    return result;
}

static CUresult release_last(struct probe *probe)
{
    return CU(cuMemFree)(probe->blocks[--probe->n_blocks]);
}

/* --- actions -----------------------------------------------------------------------------------
 */

static void print_device(int index, bool first)
{
    CUdevice device;
    CUuuid uuid = {{0}};
    size_t total = 0;
    char name[96] = "";
    if (CU(cuDeviceGet)(&device, index) != CUDA_SUCCESS)
        return;
    CU(cuDeviceGetUuid)(&uuid, device);
    CU(cuDeviceTotalMem)(&total, device);
    CU(cuDeviceGetName)(name, sizeof name, device);
    printf("%s{\"uuid\": \"GPU-", first ? "" : ", ");
    for (size_t i = 0; i < sizeof uuid.bytes; i++)
        printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
               (unsigned char)uuid.bytes[i]);
    printf("\", \"name\": \"%s\", \"total\": %zu}", name, total);
}

static int do_devices(struct probe *probe, const char *argument)
{
    (void)probe, (void)argument;
    int count = 0;
    CUresult result = CU(cuInit)(0);
    if (result == CUDA_SUCCESS)
        result = CU(cuDeviceGetCount)(&count);
    printf("\"result\": %d, \"devices\": [", (int)result);
    for (int i = 0; i < count; i++)
        print_device(i, i == 0);
    printf("]");
    return 0;
}

static int do_use(struct probe *probe, const char *argument)
{
    probe->current = atoi(argument) & 63;
    probe->has_context[probe->current] = false;
    printf("\"result\": %d", (int)make_current(probe));
    return 0;
}

static int do_info(struct probe *probe, const char *argument)
{
    (void)argument;
    size_t available = 0, total = 0;
    CUresult result = make_current(probe);
    if (result == CUDA_SUCCESS)
        result = CU(cuMemGetInfo)(&available, &total);
    printf("\"result\": %d, \"free\": %zu, \"total\": %zu", (int)result, available, total);
    return 0;
}

static int do_alloc(struct probe *probe, const char *argument)
{
    unsigned long long size;
    const char *rest;
    enum kind kind;
    if (parse_number(argument, &size, &rest) || parse_kind(rest, &kind))
        return -1;
    printf("\"result\": %d", (int)allocate(probe, size, kind));
    return 0;
}

static int do_fill(struct probe *probe, const char *argument)
{
    unsigned long long size;
    const char *rest;
    enum kind kind;
    size_t before = probe->n_blocks;
    CUresult result;
    if (parse_number(argument, &size, &rest) || parse_kind(rest, &kind))
        return -1;
    while ((result = allocate(probe, size, kind)) == CUDA_SUCCESS)
        ;
    size_t count = probe->n_blocks - before;
    printf("\"result\": %d, \"count\": %zu, \"bytes\": %llu", (int)result, count, count * size);
    return 0;
}

static int do_free(struct probe *probe, const char *argument)
{
    (void)argument;
    CUresult result = CUDA_SUCCESS;
    size_t count = probe->n_blocks;
    while (probe->n_blocks > 0) {
        CUresult one = release_last(probe);
        result = result == CUDA_SUCCESS ? one : result;
    }
    printf("\"result\": %d, \"count\": %zu", (int)result, count);
    return 0;
}

static int do_churn(struct probe *probe, const char *argument)
{
    unsigned long long size, count, done = 0;
    const char *rest;
    CUresult result = CUDA_SUCCESS;
    if (parse_number(argument, &size, &rest) || !rest || parse_number(rest, &count, &rest))
        return -1;
    for (; done < count && result == CUDA_SUCCESS; done++) {
        result = allocate(probe, size, LINEAR);
        if (result == CUDA_SUCCESS)
            result = release_last(probe);
    }
    printf("\"result\": %d, \"count\": %llu", (int)result, done);
    return 0;
}

static int do_launch(struct probe *probe, const char *argument)
{
    unsigned long long ns, count = 1, done = 0;
    const char *rest;
    CUmodule module;
    CUfunction spin;
    if (parse_number(argument, &ns, &rest) || (rest && parse_number(rest, &count, &rest)))
        return -1;
    uint64_t duration = ns;
    void *parameters[] = {&duration};
    CUresult result = make_current(probe);
    if (result == CUDA_SUCCESS)
        result = CU(cuModuleLoadData)(&module, "simulated");
    if (result == CUDA_SUCCESS)
        result = CU(cuModuleGetFunction)(&spin, module, "spin");
    for (; done < count && result == CUDA_SUCCESS; done++)
        result = CU(cuLaunchKernel)(spin, 64, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL);
    if (result == CUDA_SUCCESS)
        result = CU(cuCtxSynchronize)();
    printf("\"result\": %d, \"count\": %llu", (int)result, done);
    return 0;
}

static int do_sleep(struct probe *probe, const char *argument)
{
    (void)probe;
    unsigned long long ms;
    const char *rest;
    if (parse_number(argument, &ms, &rest) || rest)
        return -1;
    struct timespec time = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
    printf("\"result\": 0");
    return 0;
}

static int do_wait(struct probe *probe, const char *argument)
{
    (void)probe, (void)argument;
    printf("\"result\": 0");
    return 0; /* `run` waits, after the line is out */
}

struct action {
    const char *name;
    int (*run)(struct probe *probe, const char *argument); /* -1: bad argument */
    bool wants_argument;
};

static const struct action actions[] = {
    {"devices", do_devices, false}, {"use", do_use, true},       {"info", do_info, false},
    {"alloc", do_alloc, true},      {"fill", do_fill, true},     {"free", do_free, false},
    {"churn", do_churn, true},      {"launch", do_launch, true}, {"sleep", do_sleep, true},
    {"wait", do_wait, false},
};

static void wait_for_line(void)
{
    int c;
    do
        c = getchar();
    while (c != '\n' && c != EOF);
}

static int run(struct probe *probe, const char *text)
{
    size_t length = strcspn(text, "=");
    const char *argument = text[length] ? text + length + 1 : NULL;
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        const struct action *action = &actions[i];
        if (strlen(action->name) != length || strncmp(action->name, text, length) != 0 ||
            action->wants_argument != (argument != NULL))
            continue;
        printf("{\"action\": \"%s\", ", action->name);
        int rc = action->run(probe, argument);
        printf("}\n");
        fflush(stdout);
        if (action->run == do_wait)
            wait_for_line();
        return rc;
    }
    return -1;
}

int main(int argc, char **argv)
{
    struct probe probe = {.blocks = calloc(MAX_BLOCKS, sizeof *probe.blocks)};
    if (!probe.blocks || driver_open())
        return 1;
    CU(cuInit)(0); /* "devices" says what came of it */
    for (int i = 1; i < argc; i++) {
        if (run(&probe, argv[i])) {
            fprintf(stderr, "cuprobe: %s: see the head of cuprobe.c for what it can do\n", argv[i]);
            return 2;
        }
    }
    free(probe.blocks);
    return 0;
}
