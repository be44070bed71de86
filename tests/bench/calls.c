/* calls - how long calls of the driver take, ns per call, one line each: NAME NS.
 *
 *   calls launch|memory|instructions
 *
 * Each figure is the median of many short batches. Linked to libcuda; what stands between is what
 * is measured.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BATCHES 41
#define WARM    100 /* launches before the one whose instructions are counted */

static CUfunction empty;

static void check(CUresult rc, const char *what)
{
    if (rc == CUDA_SUCCESS)
        return;
    fprintf(stderr, "calls: %s: %d\n", what, (int)rc);
    exit(1);
}

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median over the batches of the time that one of `n` calls takes. */
static void measure(const char *name, void (*call)(void), unsigned n)
{
    double took[BATCHES];

    call();
    for (int b = 0; b < BATCHES; b++) {
        double begin = now_ns();
        for (unsigned i = 0; i < n; i++)
            call();
        took[b] = (now_ns() - begin) / n;
        check(cuCtxSynchronize(), "cuCtxSynchronize");
    }
    qsort(took, BATCHES, sizeof *took, by_value);
    printf("%s %.2f\n", name, took[BATCHES / 2]);
}

/* --- the calls ------------------------------------------------------------------------------- */

static void launch(void)
{
    cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

static void pair(void)
{
    CUdeviceptr pointer;
    check(cuMemAlloc(&pointer, 4096), "cuMemAlloc");
    check(cuMemFree(pointer), "cuMemFree");
}

static void info(void)
{
    size_t available, total;
    cuMemGetInfo(&available, &total);
}

static void address(void)
{
    void *found;
    cuGetProcAddress("cuMemAlloc", &found, 12000, 0, NULL);
}

static void address_of_others(void)
{
    void *found;
    cuGetProcAddress("cuDriverGetVersion", &found, 12000, 0, NULL);
}

static void *libc;

static void foreign(void)
{
    dlsym(libc, "qsort_r");
}

/* --- what is measured ------------------------------------------------------------------------ */

static void start(void)
{
    CUdevice device;
    CUcontext context;
    CUmodule module;

    check(cuInit(0), "cuInit");
    check(cuDeviceGet(&device, 0), "cuDeviceGet");
    check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    check(cuModuleLoadData(&module, "any text"), "cuModuleLoadData");
    check(cuModuleGetFunction(&empty, module, "empty"), "cuModuleGetFunction");
    libc = dlopen("libc.so.6", RTLD_NOW);
}

static void measure_launch(void)
{
    measure("launch", launch, 2000);
    measure("cuGetProcAddress of a replaced name", address, 2000);
    measure("cuGetProcAddress of another name", address_of_others, 2000);
    measure("dlsym of a foreign name", foreign, 2000);
}

/* All of `n` blocks freed in random order, and taken again. */
static void measure_shuffled(CUdeviceptr *blocks, size_t n)
{
    for (size_t i = n; i-- > 1;) {
        size_t j = (size_t)rand() % (i + 1);
        CUdeviceptr swap = blocks[i];
        blocks[i] = blocks[j];
        blocks[j] = swap;
    }
    double begin = now_ns();
    for (size_t i = 0; i < n; i++)
        check(cuMemFree(blocks[i]), "cuMemFree");
    printf("free of %zu in random order %.2f\n", n, (now_ns() - begin) / (double)n);
    for (size_t i = 0; i < n; i++)
        check(cuMemAlloc(&blocks[i], 4096), "cuMemAlloc");
}

static void measure_memory(void)
{
    static const size_t live[] = {10, 10000, 100000};
    static CUdeviceptr blocks[100000];
    size_t have = 0;

    for (size_t i = 0; i < sizeof live / sizeof *live; i++) {
        char name[64];
        for (; have < live[i]; have++)
            check(cuMemAlloc(&blocks[have], 4096), "cuMemAlloc");
        snprintf(name, sizeof name, "alloc and free at %zu live blocks", have);
        measure(name, pair, 1000);
        if (have > 10)
            measure_shuffled(blocks, have);
    }
    measure("cuMemGetInfo", info, 2000);
}

/* One process of many: 10 000 pairs, each timed. */
static void measure_pairs(void)
{
    static double took[10000];
    size_t n = sizeof took / sizeof *took;
    double begin = now_ns();

    for (size_t i = 0; i < n; i++) {
        double before = now_ns();
        pair();
        took[i] = now_ns() - before;
    }
    printf("pairs per second %.0f\n", (double)n / (now_ns() - begin) * 1e9);
    qsort(took, n, sizeof *took, by_value);
    printf("p99 of a pair %.0f\n", took[n * 99 / 100]);
}

/* --- instructions ---------------------------------------------------------------------------- */

static void launch_between_stops(void)
{
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    start();
    for (int i = 0; i < WARM; i++)
        launch();
    check(cuCtxSynchronize(), "cuCtxSynchronize");
    raise(SIGSTOP);
    launch();
    raise(SIGSTOP);
    _exit(0);
}

/* Where a library lies in a process: from the first to the last of its mappings. */
static void find_library(pid_t pid, const char *library, unsigned long *from, unsigned long *to)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "r");
    *from = *to = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long begin, end;
        if (!strstr(line, library) || sscanf(line, "%lx-%lx", &begin, &end) != 2)
            continue;
        *from = *from ? *from : begin;
        *to = end;
    }
    if (maps)
        fclose(maps);
}

static int count_instructions(const char *library)
{
    unsigned long from, to, inside = 0;
    struct user_regs_struct registers;
    int status;
    pid_t pid = fork();

    if (pid == 0)
        launch_between_stops();
    waitpid(pid, &status, 0);
    find_library(pid, library, &from, &to);
    for (;;) {
        if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) || waitpid(pid, &status, 0) < 0 ||
            !WIFSTOPPED(status))
            return 1;
        if (WSTOPSIG(status) == SIGSTOP)
            break;
        ptrace(PTRACE_GETREGS, pid, NULL, &registers);
        inside += registers.rip >= from && registers.rip < to;
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    printf("instructions of a launch %lu\n", inside);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "instructions") == 0)
        return count_instructions(argv[2]);
    if (argc != 2)
        return 2;
    start();
    if (strcmp(argv[1], "launch") == 0)
        measure_launch();
    else if (strcmp(argv[1], "memory") == 0)
        measure_memory();
    else if (strcmp(argv[1], "pairs") == 0)
        measure_pairs();
    return 0;
}
