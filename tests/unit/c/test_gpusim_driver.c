/* Claims about the simulated libcuda under sanitizers: many threads use everything at random, and
 * when they are done nothing is left. */
#include "../../gpusim/state.h"
#include "claim.h"

#include <cuda.h>

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB     (1ull << 20)
#define THREADS 4
#define ROUNDS  300

static void *lib;

/* The function as cuda.h means it: in its newest version. */
#define TEXT(x)  #x
#define NAME(x)  TEXT(x)
#define CU(name) ((__typeof__(&name))dlsym(lib, NAME(name)))
#define OK(call)                                                                                   \
    do {                                                                                           \
        CUresult rc_ = (call);                                                                     \
        CHECK_MSG(rc_ == CUDA_SUCCESS, "%d", rc_);                                                 \
    } while (0)

static CUcontext context;
static CUfunction spin, fill, empty;
static CUdevice device;

struct worker {
    pthread_t thread;
    unsigned seed;
    CUstream stream;
    CUevent event;
    _Atomic int called;
};

static unsigned dice(struct worker *w, unsigned n)
{
    return (unsigned)rand_r(&w->seed) % n;
}

/* --- what a thread may do ------------------------------------------------------------------- */

static void use(struct worker *w, CUdeviceptr p, size_t size)
{
    uint32_t value = 0, wanted = w->seed;
    uint64_t address = p, count = size / 4;
    void *args[] = {&address, &wanted, &count};
    OK(CU(cuLaunchKernel)(fill, 1, 1, 1, 32, 1, 1, 0, w->stream, args, NULL));
    OK(CU(cuMemcpyDtoHAsync)(&value, p + size / 4 * 4 - 4, 4, w->stream));
    OK(CU(cuStreamSynchronize)(w->stream));
    CHECK_MSG(value == wanted, "%u is not %u", value, wanted);
}

static void linear(struct worker *w)
{
    CUdeviceptr p;
    size_t size = 4 + dice(w, 3 * MIB);
    OK(CU(cuMemAlloc)(&p, size));
    use(w, p, size);
    OK(CU(cuMemFree)(p));
}

static void pooled(struct worker *w)
{
    CUdeviceptr p;
    size_t size = 4 + dice(w, 3 * MIB);
    OK(CU(cuMemAllocAsync)(&p, size, w->stream));
    use(w, p, size);
    OK(CU(cuMemFreeAsync)(p, w->stream));
}

static void mapped(struct worker *w)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p;
    size_t size = 2 * MIB * (1 + dice(w, 3));
    OK(CU(cuMemCreate)(&handle, size, &prop, 0));
    OK(CU(cuMemAddressReserve)(&p, size, 0, 0, 0));
    OK(CU(cuMemMap)(p, size, 0, handle, 0));
    OK(CU(cuMemRelease)(handle));
    OK(CU(cuMemSetAccess)(p, size, &access, 1));
    use(w, p, size);
    OK(CU(cuMemUnmap)(p, size));
    OK(CU(cuMemAddressFree)(p, size));
}

static void array(struct worker *w)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = {
        1 + dice(w, 100), dice(w, 100), dice(w, 10), CU_AD_FORMAT_FLOAT, 2, 0};
    CUmipmappedArray mipmap;
    CUarray one;
    OK(CU(cuArray3DCreate)(&one, &desc));
    OK(CU(cuMipmappedArrayCreate)(&mipmap, &desc, 4));
    OK(CU(cuArrayDestroy)(one));
    OK(CU(cuMipmappedArrayDestroy)(mipmap));
}

static void CUDA_CB count(void *data)
{
    (*(_Atomic int *)data)++;
}

static void hosted(struct worker *w)
{
    int before = w->called;
    uint64_t ns = 1000 * dice(w, 50);
    void *args[] = {&ns};
    OK(CU(cuLaunchKernel)(spin, 1, 1, 1, 1, 1, 1, 0, w->stream, args, NULL));
    OK(CU(cuLaunchHostFunc)(w->stream, count, &w->called));
    OK(CU(cuEventRecord)(w->event, w->stream));
    OK(CU(cuLaunchHostFunc)(w->stream, count, &w->called));
    OK(CU(cuEventSynchronize)(w->event));
    CHECK(w->called > before);
    OK(CU(cuStreamSynchronize)(w->stream));
    CHECK(w->called == before + 2);
}

static void streams(struct worker *w)
{
    CUstream other;
    CUevent event;
    float ms;
    OK(CU(cuStreamCreate)(&other, CU_STREAM_NON_BLOCKING));
    OK(CU(cuEventCreate)(&event, 0));
    OK(CU(cuEventRecord)(event, other));
    OK(CU(cuLaunchKernel)(empty, 1, 1, 1, 1, 1, 1, 0, other, NULL, NULL));
    OK(CU(cuEventRecord)(w->event, other));
    OK(CU(cuStreamWaitEvent)(w->stream, w->event, 0));
    OK(CU(cuStreamSynchronize)(w->stream));
    OK(CU(cuEventElapsedTime)(&ms, event, w->event));
    CHECK(ms >= 0);
    OK(CU(cuEventDestroy)(event));
    OK(CU(cuStreamDestroy)(other));
}

static void graphs(struct worker *w)
{
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr p;
    uint64_t ns = 1000;
    void *args[] = {&ns};
    OK(CU(cuStreamBeginCapture)(w->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(CU(cuMemAllocAsync)(&p, MIB, w->stream));
    OK(CU(cuMemsetD32Async)(p, w->seed, 16, w->stream));
    OK(CU(cuLaunchKernel)(spin, 1, 1, 1, 1, 1, 1, 0, w->stream, args, NULL));
    OK(CU(cuLaunchHostFunc)(w->stream, count, &w->called));
    OK(CU(cuMemFreeAsync)(p, w->stream));
    OK(CU(cuStreamEndCapture)(w->stream, &graph));
    OK(CU(cuGraphInstantiate)(&exec, graph, 0));
    OK(CU(cuGraphDestroy)(graph));
    for (unsigned i = dice(w, 3); i-- > 0;)
        OK(CU(cuGraphLaunch)(exec, w->stream));
    OK(CU(cuStreamSynchronize)(w->stream));
    OK(CU(cuGraphExecDestroy)(exec));
}

static void modules(struct worker *w)
{
    static const char image[] = ".global .align 4 .b8 table[4096];";
    CUmodule module;
    CUdeviceptr p;
    size_t size;
    OK(CU(cuModuleLoadData)(&module, image));
    OK(CU(cuModuleGetGlobal)(&p, &size, module, "table"));
    use(w, p, size);
    OK(CU(cuModuleUnload)(module));
}

static void (*const deeds[])(struct worker *) = {linear, pooled,  mapped, array,
                                                 hosted, streams, graphs, modules};

static void *work(void *arg)
{
    struct worker *w = arg;
    OK(CU(cuCtxSetCurrent)(context));
    OK(CU(cuStreamCreate)(&w->stream, CU_STREAM_NON_BLOCKING));
    OK(CU(cuEventCreate)(&w->event, 0));
    for (int i = 0; i < ROUNDS; i++)
        deeds[dice(w, sizeof(deeds) / sizeof(*deeds))](w);
    OK(CU(cuEventDestroy)(w->event));
    OK(CU(cuStreamDestroy)(w->stream));
    return NULL;
}

/* --- before and after --------------------------------------------------------------------------
 */

static char dir[] = "/tmp/gpusim-test-XXXXXX";

static void start(void)
{
    static const char image[] = ".version 8.0";
    char path[PATH_MAX] = "", self[PATH_MAX - 64] = "";
    CUmodule module;
    CHECK(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    *strrchr(self, '/') = 0;
    snprintf(path, sizeof(path), "%s/../../asan/gpusim/libcuda.so.1", self);
    lib = dlopen(path, RTLD_NOW);
    if (!lib) {
        printf("%s\n", dlerror());
        exit(1);
    }
    OK(CU(cuInit)(0));
    OK(CU(cuDeviceGet)(&device, 1));
    OK(CU(cuDevicePrimaryCtxRetain)(&context, device));
    OK(CU(cuCtxSetCurrent)(context));
    OK(CU(cuModuleLoadData)(&module, image));
    OK(CU(cuModuleGetFunction)(&spin, module, "spin"));
    OK(CU(cuModuleGetFunction)(&fill, module, "fill"));
    OK(CU(cuModuleGetFunction)(&empty, module, "empty"));
}

static size_t used(void)
{
    size_t available, total;
    OK(CU(cuMemGetInfo)(&available, &total));
    return total - available;
}

static void threads_that_do_everything_at_random_leave_nothing(void)
{
    struct worker workers[THREADS] = {0};
    size_t before = used();
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].seed = i + 1;
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    OK(CU(cuCtxSynchronize)());
    OK(CU(cuDeviceGraphMemTrim)(device));
    CHECK_MSG(used() == before, "%zu is not %zu", used(), before);
}

static void a_context_takes_all_with_it(void)
{
    CUcontext other;
    CUdeviceptr p;
    CUstream stream;
    CUevent event;
    CUmodule module;
    CUarray one;
    CUDA_ARRAY_DESCRIPTOR desc = {16, 16, CU_AD_FORMAT_FLOAT, 1};
    static const char image[] = ".global .u64 word;";
    _Atomic int called = 0;
    void *host;
    size_t before = used();
    OK(CU(cuCtxCreate)(&other, NULL, 0, device));
    OK(CU(cuMemAlloc)(&p, MIB));
    OK(CU(cuMemAllocManaged)(&p, MIB, CU_MEM_ATTACH_GLOBAL));
    OK(CU(cuMemHostAlloc)(&host, MIB, 0));
    OK(CU(cuArrayCreate)(&one, &desc));
    OK(CU(cuModuleLoadData)(&module, image));
    OK(CU(cuStreamCreate)(&stream, 0));
    OK(CU(cuEventCreate)(&event, 0));
    OK(CU(cuLaunchHostFunc)(stream, count, &called));
    OK(CU(cuStreamSynchronize)(stream));
    OK(CU(cuCtxDestroy)(other));
    OK(CU(cuCtxSetCurrent)(context));
    CHECK_MSG(used() == before, "%zu is not %zu", used(), before);
}

int main(void)
{
    char path[64];
    if (!mkdtemp(dir))
        return 1;
    snprintf(path, sizeof(path), "%s/machine", dir);
    FILE *file = fopen(path, "w");
    fputs("machine=unit context=1MiB\ngpu=0-1 name=g memory=1GiB sms=4\n", file);
    fclose(file);
    setenv("GPUSIM_DIR", dir, 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    start();

    threads_that_do_everything_at_random_leave_nothing();
    a_context_takes_all_with_it();

    unlink(path);
    snprintf(path, sizeof(path), "%s/state", dir);
    unlink(path);
    rmdir(dir);
    return claim_result();
}
