/* paths - keep the GPU busy through one way of starting work.
 *
 *   paths PATH NS SECONDS
 *
 * PATH: kernel, kernel_ptsz, ex, cooperative, graph (of 100 kernels), memset, copy, capture-global,
 * capture-thread, capture-relaxed (captures again and again, and launches what it captured). NS is
 * the time of one kernel. Ends with status 0 after SECONDS, or with a sentence when a call fails.
 */
#include "kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GRAPH_KERNELS 100
#define COPY_BYTES    (64u << 20)

struct work {
    CUfunction kernel;
    unsigned long long ns;
    CUstream stream;
    CUgraphExec graph;
    CUdeviceptr from, to;
    CUstreamCaptureMode mode;
};

static void check(const char *what, CUresult rc)
{
    if (rc != CUDA_SUCCESS)
        kinds_fail("paths:", what, rc);
}

static void kernel(struct work *w)
{
    void *arguments[] = {&w->ns};
    check("cuLaunchKernel",
          cuLaunchKernel(w->kernel, 64, 1, 1, 256, 1, 1, 0, w->stream, arguments, NULL));
}

extern CUresult cuLaunchKernel_ptsz(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                    unsigned, unsigned, CUstream, void **, void **);

static void kernel_ptsz(struct work *w)
{
    void *arguments[] = {&w->ns};
    check("cuLaunchKernel_ptsz",
          cuLaunchKernel_ptsz(w->kernel, 64, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
}

static void ex(struct work *w)
{
    void *arguments[] = {&w->ns};
    CUlaunchConfig config = {.gridDimX = 64,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 256,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = w->stream};
    check("cuLaunchKernelEx", cuLaunchKernelEx(&config, w->kernel, arguments, NULL));
}

static void cooperative(struct work *w)
{
    void *arguments[] = {&w->ns};
    check("cuLaunchCooperativeKernel",
          cuLaunchCooperativeKernel(w->kernel, 64, 1, 1, 256, 1, 1, 0, w->stream, arguments));
}

static void capture_kernels(struct work *w, int n, CUstreamCaptureMode mode)
{
    CUgraph graph;
    check("cuStreamBeginCapture", cuStreamBeginCapture(w->stream, mode));
    for (int i = 0; i < n; i++)
        kernel(w);
    check("cuStreamEndCapture", cuStreamEndCapture(w->stream, &graph));
    check("cuGraphInstantiateWithFlags", cuGraphInstantiateWithFlags(&w->graph, graph, 0));
    check("cuGraphDestroy", cuGraphDestroy(graph));
}

static void graph(struct work *w)
{
    if (!w->graph)
        capture_kernels(w, GRAPH_KERNELS, CU_STREAM_CAPTURE_MODE_GLOBAL);
    check("cuGraphLaunch", cuGraphLaunch(w->graph, w->stream));
}

static void capture(struct work *w)
{
    capture_kernels(w, 5, w->mode);
    check("cuGraphLaunch", cuGraphLaunch(w->graph, w->stream));
    check("cuStreamSynchronize", cuStreamSynchronize(w->stream));
    check("cuGraphExecDestroy", cuGraphExecDestroy(w->graph));
}

static void memory(struct work *w)
{
    if (w->from)
        return;
    check("cuMemAlloc", cuMemAlloc(&w->from, COPY_BYTES));
    check("cuMemAlloc", cuMemAlloc(&w->to, COPY_BYTES));
}

static void set(struct work *w)
{
    memory(w);
    check("cuMemsetD8Async", cuMemsetD8Async(w->to, 1, COPY_BYTES, w->stream));
}

static void copy(struct work *w)
{
    memory(w);
    check("cuMemcpyDtoDAsync", cuMemcpyDtoDAsync(w->to, w->from, COPY_BYTES, w->stream));
}

static const struct {
    const char *name;
    void (*run)(struct work *);
    CUstreamCaptureMode mode;
} paths[] = {
    {"kernel", kernel, 0},
    {"kernel_ptsz", kernel_ptsz, 0},
    {"ex", ex, 0},
    {"cooperative", cooperative, 0},
    {"graph", graph, 0},
    {"memset", set, 0},
    {"copy", copy, 0},
    {"capture-global", capture, CU_STREAM_CAPTURE_MODE_GLOBAL},
    {"capture-thread", capture, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL},
    {"capture-relaxed", capture, CU_STREAM_CAPTURE_MODE_RELAXED},
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    struct work w = {0};
    CUmodule module;
    size_t path = 0;
    if (argc == 4)
        while (path < sizeof paths / sizeof *paths && strcmp(paths[path].name, argv[1]) != 0)
            path++;
    if (argc != 4 || path == sizeof paths / sizeof *paths) {
        fputs("Usage: paths PATH NS SECONDS\n", stderr);
        return 2;
    }
    w.ns = strtoull(argv[2], NULL, 10);
    w.mode = paths[path].mode;
    kinds_start();
    check("cuModuleLoadData", cuModuleLoadData(&module, "simulated"));
    check("cuModuleGetFunction", cuModuleGetFunction(&w.kernel, module, "spin"));
    check("cuStreamCreate", cuStreamCreate(&w.stream, CU_STREAM_NON_BLOCKING));
    puts("ready");
    fflush(stdout);
    for (double end = now() + strtod(argv[3], NULL); now() < end;)
        paths[path].run(&w);
    check("cuCtxSynchronize", cuCtxSynchronize());
    return 0;
}
