/* pool.c - what pools have reserved. */
#include "shim/pool.h"
#include "shim/claim.h"
#include "shim/measure.h"

#define CHUNK (2ull << 20) /* by which a pool grows, until it is seen to grow by more */

/* --- what a pool has, and on which device ---------------------------------------------------- */

static uint64_t reserved_by(CUmemoryPool pool, CUdevice device)
{
    cuuint64_t bytes = 0;
    CUresult rc =
        pool ? REAL(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes)
             : REAL(cuDeviceGetGraphMemAttribute)(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
                                                  &bytes);
    return rc == CUDA_SUCCESS ? charge_round(bytes) : 0;
}

static uint64_t used_of(CUmemoryPool pool, CUdevice device)
{
    cuuint64_t bytes = 0;
    CUresult rc = pool ? REAL(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &bytes)
                       : REAL(cuDeviceGetGraphMemAttribute)(
                             device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &bytes);
    return rc == CUDA_SUCCESS ? bytes : UINT64_MAX;
}

/* The graph pool of a device is known by the device, plus one, where no pool's handle is. */
static uint64_t key_of(CUmemoryPool pool, CUdevice device)
{
    return pool ? (uint64_t)(uintptr_t)pool : (uint64_t)device + 1;
}

/* --- the record: one entry per pool, under the vGPU's pool_lock ------------------------------ */

static struct table_entry record_of(struct vgpu *vgpu, CUmemoryPool pool, CUdevice device)
{
    struct table_entry entry;

    if (table_find(&process.pools, TABLE_POOL, key_of(pool, device), &entry))
        return entry;
    return (struct table_entry){
        .tag = TABLE_POOL,
        .key = key_of(pool, device),
        .owner = (uint64_t)device,
        .kind = VGPU_KIND_POOL,
        .vgpu = (uint8_t)(vgpu - process.vgpus),
    };
}

/* Charged for the pool is entry->size, and `held` more beforehand. Make it what the pool has
 * reserved. */
static bool settle(struct vgpu *vgpu, struct table_entry *entry, uint64_t held, uint64_t reserved)
{
    uint64_t charged = entry->size + held;
    bool fits = true;

    if (reserved > charged) {
        fits = charge_take(&vgpu->charge, VGPU_KIND_POOL, reserved - charged, reserved - charged,
                           false) > 0;
        if (!fits)
            charge_force(&vgpu->charge, VGPU_KIND_POOL, reserved - charged);
    } else {
        charge_give(&vgpu->charge, VGPU_KIND_POOL, charged - reserved);
    }
    entry->size = reserved;
    table_put(&process.pools, entry);
    return fits;
}

static CUmemoryPool pool_of(const struct table_entry *entry)
{
    return entry->key <= PROCESS_MAX_DEVICES ? NULL : (CUmemoryPool)(uintptr_t)entry->key;
}

static bool belongs(const struct table_entry *entry, const struct vgpu *vgpu)
{
    return entry->vgpu == vgpu - process.vgpus;
}

static void refresh_one(const struct table_entry *seen, void *arg)
{
    struct vgpu *vgpu = arg;
    struct table_entry entry;

    if (belongs(seen, vgpu) && table_find(&process.pools, TABLE_POOL, seen->key, &entry))
        settle(vgpu, &entry, 0, reserved_by(pool_of(&entry), (CUdevice)entry.owner));
}

static void trim_one(const struct table_entry *entry, void *arg)
{
    if (!belongs(entry, arg))
        return;
    if (pool_of(entry))
        REAL(cuMemPoolTrimTo)(pool_of(entry), 0);
    else
        REAL(cuDeviceGraphMemTrim)((CUdevice)entry->owner);
}

/* Blocks whose asynchronous free has been reached by its stream. */
static void collect_one(const struct table_entry *seen, void *arg)
{
    CUevent event = (CUevent)(uintptr_t)seen->key;
    struct table_entry entry;

    if (!belongs(seen, arg) || REAL(cuEventQuery)(event) == CUDA_ERROR_NOT_READY ||
        !table_remove(&process.pools, TABLE_DEFERRED, seen->key, &entry))
        return;
    REAL(cuEventDestroy_v2)(event);
    measure_enter(arg);
    claim_freed(&entry, CUDA_SUCCESS);
}

static void look_again(struct vgpu *vgpu, bool trim)
{
    vgpu->pools_stale = false; /* first, so that what comes back from now on is looked at again */
    table_walk(&process.pools, TABLE_DEFERRED, collect_one, vgpu);
    if (table_count(&process.pools, TABLE_DEFERRED) > 0)
        vgpu->pools_stale = true;
    pthread_mutex_lock(&vgpu->pool_lock);
    if (trim)
        table_walk(&process.pools, TABLE_POOL, trim_one, vgpu);
    table_walk(&process.pools, TABLE_POOL, refresh_one, vgpu);
    pthread_mutex_unlock(&vgpu->pool_lock);
}

void pool_freed(void)
{
    for (uint32_t i = 0; i < process.n_vgpus; i++)
        if (process.vgpus[i].pools)
            process.vgpus[i].pools_stale = true;
}

void pool_synchronised(void)
{
    for (uint32_t i = 0; i < process.n_vgpus; i++)
        if (unlikely(process.vgpus[i].pools_stale))
            look_again(&process.vgpus[i], false);
}

void pool_refresh(struct vgpu *vgpu)
{
    if (unlikely(vgpu->pools))
        look_again(vgpu, false);
}

void pool_reclaim(struct vgpu *vgpu)
{
    if (unlikely(vgpu->pools))
        look_again(vgpu, true);
}

/* --- growth ---------------------------------------------------------------------------------- */

static uint64_t chunks(uint64_t size)
{
    return size > UINT64_MAX - CHUNK ? UINT64_MAX : (size + CHUNK - 1) / CHUNK * CHUNK;
}

/* Room for `size` bytes beyond what is free in the pool? More than that is charged if it is there:
 * a pool whose free memory is in pieces may grow by more. Under pool_lock. */
static bool reserve(struct growth *growth, uint64_t size, uint64_t most)
{
    struct vgpu *vgpu = growth->vgpu;
    struct table_entry entry = record_of(vgpu, growth->pool, growth->device);
    uint64_t reserved = reserved_by(growth->pool, growth->device);
    uint64_t used = used_of(growth->pool, growth->device);
    uint64_t free = used < reserved ? reserved - used : 0;
    uint64_t least = size > free ? chunks(size - free) : 0;

    settle(vgpu, &entry, 0, reserved);
    most = most > least ? most : least;
    growth->held = charge_take(&vgpu->charge, VGPU_KIND_POOL, least ? least : most, most, false);
    return growth->held > 0 || least == 0;
}

/* True: charged, and the pool is ours until growth_end. */
static bool try_growth(struct growth *growth, uint64_t size, uint64_t most)
{
    struct vgpu *vgpu = growth->vgpu;

    measure_enter(vgpu);
    pthread_mutex_lock(&vgpu->pool_lock);
    vgpu->pools = true;
    if (reserve(growth, size, chunks(most > vgpu->pool_chunk ? most : vgpu->pool_chunk)))
        return true;
    pthread_mutex_unlock(&vgpu->pool_lock);
    measure_leave(vgpu);
    return false;
}

CUresult growth_begin(struct growth *growth, uint64_t size, uint64_t most)
{
    struct vgpu *vgpu = growth->vgpu;
    uint64_t since = 0;

    growth->held = 0;
    if (vgpu == NULL)
        return CUDA_SUCCESS;
    measure_if_due(vgpu);
    if (try_growth(growth, size, most))
        return CUDA_SUCCESS;
    pool_refresh(vgpu);
    do {
        if (try_growth(growth, size, most))
            return CUDA_SUCCESS;
        pool_reclaim(vgpu);
    } while (charge_await(&vgpu->charge, chunks(size), &since));
    if (try_growth(growth, size, most))
        return CUDA_SUCCESS;
    atomic_fetch_add_explicit(&vgpu->charge.process->refusals, 1, memory_order_relaxed);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

bool growth_end(struct growth *growth)
{
    struct vgpu *vgpu = growth->vgpu;
    if (vgpu == NULL)
        return true;

    struct table_entry entry = record_of(vgpu, growth->pool, growth->device);
    uint64_t reserved = reserved_by(growth->pool, growth->device);
    if (reserved > entry.size + growth->held && reserved - entry.size > vgpu->pool_chunk)
        vgpu->pool_chunk = reserved - entry.size;
    bool fits = settle(vgpu, &entry, growth->held, reserved);
    pthread_mutex_unlock(&vgpu->pool_lock);
    measure_leave(vgpu);
    return fits;
}
