/* process.c - this process and its vGPUs. */
#include "shim/process.h"
#include "shim/library.h"
#include "shim/say.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096

/* Whole pages, nothing else on them. */
static union {
    struct process process;
    char pages[(sizeof(struct process) + PAGE - 1) / PAGE * PAGE];
} storage __attribute__((aligned(PAGE)));
extern struct process process __attribute__((alias("storage"), visibility("hidden")));

/* The gate of a process that is in no step. */
static const _Atomic uint32_t free_word = VGPU_GATE_FREE;
static struct lease_gate free_gate = {.word = &free_word, .budget = INT32_MAX};

/* --- locks ----------------------------------------------------------------------------------- */

static void wiped_in_child(void)
{
    memset(&storage, 0, sizeof storage);
}

/* From now on a child starts with zeros. Asking twice does no harm. */
static void wipe_on_fork(void)
{
    static _Atomic bool asked;

    if (asked)
        return;
    if (madvise(&storage, sizeof storage, MADV_WIPEONFORK) != 0)
        pthread_atfork(NULL, NULL, wiped_in_child); /* before Linux 4.14 */
    asked = true;
}

void process_lock(void)
{
    wipe_on_fork();
    pthread_mutex_lock(&process.short_lock);
}

void process_unlock(void)
{
    pthread_mutex_unlock(&process.short_lock);
}

/* --- attaching ------------------------------------------------------------------------------- */

static bool lease_link_send(void *link, const struct vgpu_lease_message *message)
{
    return link_send(link, message, sizeof *message);
}

static bool lease_link_alive(void *link)
{
    return link_alive(link);
}

static bool lease_link_connect(void *link)
{
    return link_renew(link);
}

static bool make_lease(struct vgpu *vgpu)
{
    const struct lease_link link = {
        .context = &process.link,
        .send = lease_link_send,
        .alive = lease_link_alive,
        .connect = lease_link_connect,
    };
    const struct lease_driver driver = {
        .event_create = REAL(cuEventCreate),
        .event_destroy = REAL(cuEventDestroy_v2),
        .event_record = REAL(cuEventRecord),
        .event_query = REAL(cuEventQuery),
        .event_synchronize = REAL(cuEventSynchronize),
        .event_elapsed = REAL(cuEventElapsedTime),
        .stream_is_capturing = REAL(cuStreamIsCapturing),
        .exchange_capture_mode = REAL(cuThreadExchangeStreamCaptureMode),
        .context_push = REAL(cuCtxPushCurrent_v2),
        .context_pop = REAL(cuCtxPopCurrent_v2),
        .context_get_current = REAL(cuCtxGetCurrent),
    };
    const struct vgpu_lease *page = (const struct vgpu_lease *)vgpu->charge.control->lease;
    struct vgpu_process *self = vgpu->charge.process;

    if (vgpu->lease == NULL)
        vgpu->lease =
            lease_create(page, vgpu->desc.id, (uint32_t)(self - vgpu->charge.account->processes),
                         self, &driver, &link);
    return vgpu->lease != NULL;
}

static void forget_pages(void)
{
    for (uint32_t i = 0; i < process.n_vgpus; i++)
        connect_unmap(&process.vgpus[i].charge);
    process.n_vgpus = 0;
}

static int take_up(const struct vgpu_attach_reply *reply, const int *fds, vgpu_error_t *err)
{
    for (uint32_t i = 0; i < reply->n_vgpus; i++) {
        struct vgpu *vgpu = &process.vgpus[i];
        int rc = connect_map(&vgpu->charge, fds[2 * i], fds[2 * i + 1], reply->process[i], err);
        if (rc != 0) {
            forget_pages();
            return -1;
        }
        vgpu->desc = reply->vgpus[i];
        process.n_vgpus = i + 1;
    }
    return 0;
}

/* One sentence, once: every later call fails with the same code and says nothing. */
static CUresult cannot_attach(const vgpu_error_t *err)
{
    if (!process.told)
        say("%s", err->text);
    process.told = true;
    return CUDA_ERROR_SYSTEM_NOT_READY;
}

/* Under the attach lock: map the pages, once. */
static CUresult attach(void)
{
    struct vgpu_attach_reply reply;
    int fds[VGPU_MAX_FDS];
    size_t n_fds;
    vgpu_error_t err;

    if (process.attached)
        return CUDA_SUCCESS;
    enum connect_outcome outcome =
        connect_attach(&process.link, &reply, fds, &n_fds, !process.told, &err);
    if (outcome == CONNECT_FAILED)
        return cannot_attach(&err);
    if (outcome == CONNECT_ATTACHED) {
        int rc = take_up(&reply, fds, &err);
        for (size_t i = 0; i < n_fds; i++)
            close(fds[i]);
        if (rc != 0)
            return cannot_attach(&err);
    }
    process.generation = (uint32_t)getpid() << 8;
    process.attached = true;
    return CUDA_SUCCESS;
}

/* Under the attach lock: what the launch path needs. */
static CUresult open_gates(void)
{
    for (uint32_t i = 0; i < process.n_vgpus; i++)
        if (!make_lease(&process.vgpus[i]))
            return CUDA_ERROR_OUT_OF_MEMORY;
    if (process.n_vgpus <= 1)
        process.gate = process.n_vgpus == 0 ? &free_gate : lease_gate(process.vgpus[0].lease);
    atomic_store_explicit(&process.ready, true, memory_order_release);
    return CUDA_SUCCESS;
}

CUresult process_attach(void)
{
    wipe_on_fork();
    if (!library_open(&cuda_library, true))
        return CUDA_ERROR_NO_DEVICE;
    pthread_mutex_lock(&process.attach_lock);
    CUresult rc = process.ready ? CUDA_SUCCESS : attach();
    if (rc == CUDA_SUCCESS && !process.ready)
        rc = open_gates();
    pthread_mutex_unlock(&process.attach_lock);
    return rc;
}

bool process_attach_for_nvml(void)
{
    wipe_on_fork();
    pthread_mutex_lock(&process.attach_lock);
    CUresult rc = attach();
    pthread_mutex_unlock(&process.attach_lock);
    return rc == CUDA_SUCCESS;
}

/* --- which vGPU ------------------------------------------------------------------------------ */

static struct vgpu *find_uuid(const CUuuid *uuid)
{
    for (uint32_t i = 0; i < process.n_vgpus; i++)
        if (memcmp(process.vgpus[i].desc.uuid, uuid->bytes, sizeof uuid->bytes) == 0)
            return &process.vgpus[i];
    return NULL;
}

static CUresult device_uuid(CUuuid *uuid, CUdevice device)
{
    CUresult rc = REAL(cuDeviceGetUuid_v2)(uuid, device);
    return rc == CUDA_ERROR_NOT_SUPPORTED ? REAL(cuDeviceGetUuid)(uuid, device) : rc;
}

struct vgpu *process_vgpu_of_device(CUdevice device)
{
    CUuuid uuid;

    if (process.n_vgpus == 0 || device < 0)
        return NULL;
    bool remembered = device < PROCESS_MAX_DEVICES;
    int known = remembered ? process.device_vgpu[device] : 0;
    if (known != 0)
        return known > 0 ? &process.vgpus[known - 1] : NULL;
    if (device_uuid(&uuid, device) != CUDA_SUCCESS)
        return NULL;
    struct vgpu *vgpu = find_uuid(&uuid);
    if (remembered)
        process.device_vgpu[device] = (int16_t)(vgpu ? vgpu - process.vgpus + 1 : -1);
    return vgpu;
}

/* What a thread remembers about the context that was current at its last call. */
static __thread struct {
    CUcontext context;
    struct vgpu *vgpu;
    uint32_t generation;
} last __attribute__((tls_model("initial-exec")));

struct vgpu *process_current(CUcontext *context)
{
    CUdevice device;

    if (REAL(cuCtxGetCurrent)(context) != CUDA_SUCCESS || *context == NULL)
        return NULL;
    uint32_t generation = process.generation;
    if (likely(last.context == *context && last.generation == generation))
        return last.vgpu;
    if (REAL(cuCtxGetDevice)(&device) != CUDA_SUCCESS)
        return NULL;
    last.context = *context;
    last.vgpu = process_vgpu_of_device(device);
    last.generation = generation;
    return last.vgpu;
}

void process_forget_contexts(void)
{
    process_lock();
    process.generation++;
    process_unlock();
}

struct vgpu *process_vgpu_of_stream(CUstream stream)
{
    CUcontext context = NULL, current = NULL;
    CUdevice device;

    struct vgpu *vgpu = process_current(&current);
    if (stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
        return vgpu;
    if (REAL(cuStreamGetCtx)(stream, &context) != CUDA_SUCCESS || context == current)
        return vgpu;
    if (REAL(cuCtxPushCurrent_v2)(context) != CUDA_SUCCESS)
        return vgpu;
    vgpu = REAL(cuCtxGetDevice)(&device) == CUDA_SUCCESS ? process_vgpu_of_device(device) : vgpu;
    REAL(cuCtxPopCurrent_v2)(&context);
    return vgpu;
}

int process_measure(const struct vgpu *vgpu, uint64_t *bytes)
{
    return link_measure(&process.link, vgpu->desc.id, bytes);
}
