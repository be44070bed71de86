/* kinds.c - taking and giving back device memory of every kind (kinds.h). */
#include "kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW         4096u /* bytes of a row of pitched memory and of arrays */
#define VMM_GRANULE (2ull << 20)

#define TRY(call)                                                                                  \
    do {                                                                                           \
        CUresult rc_ = (call);                                                                     \
        if (rc_ != CUDA_SUCCESS)                                                                   \
            return rc_;                                                                            \
    } while (0)

static CUdevice device;

/* --- linear, pitched, managed --------------------------------------------------------------------
 */

static CUresult take_linear(struct object *o)
{
    return cuMemAlloc(&o->pointer, o->size);
}

static CUresult take_pitch(struct object *o)
{
    size_t pitch;
    return cuMemAllocPitch(&o->pointer, &pitch, ROW - 100, o->size / ROW + 1, 4);
}

static CUresult take_managed(struct object *o)
{
    return cuMemAllocManaged(&o->pointer, o->size, CU_MEM_ATTACH_GLOBAL);
}

static CUresult give_pointer(struct object *o)
{
    return cuMemFree(o->pointer);
}

/* --- pools ---------------------------------------------------------------------------------------
 */

static CUresult take_async(struct object *o)
{
    return cuMemAllocAsync(&o->pointer, o->size, NULL);
}

static CUresult give_async(struct object *o)
{
    return cuMemFreeAsync(o->pointer, NULL);
}

static CUresult take_pool(struct object *o)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    TRY(cuMemPoolCreate((CUmemoryPool *)&o->handle, &props));
    CUresult rc = cuMemAllocFromPoolAsync(&o->pointer, o->size, o->handle, NULL);
    if (rc != CUDA_SUCCESS)
        cuMemPoolDestroy(o->handle);
    return rc;
}

static CUresult give_pool(struct object *o)
{
    TRY(cuMemFreeAsync(o->pointer, NULL));
    TRY(cuStreamSynchronize(NULL));
    return cuMemPoolDestroy(o->handle);
}

/* --- virtual memory management -------------------------------------------------------------------
 */

static CUresult take_vmm_as(struct object *o, CUmemAllocationHandleType type)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = type,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    CUmemAccessDesc access = {.location = prop.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    o->size = (o->size + VMM_GRANULE - 1) / VMM_GRANULE * VMM_GRANULE;
    TRY(cuMemCreate(&o->memory, o->size, &prop, 0));
    TRY(cuMemAddressReserve(&o->pointer, o->size, 0, 0, 0));
    TRY(cuMemMap(o->pointer, o->size, 0, o->memory, 0));
    TRY(cuMemSetAccess(o->pointer, o->size, &access, 1));
    return cuMemRelease(o->memory); /* the mapping keeps it */
}

static CUresult take_vmm(struct object *o)
{
    return take_vmm_as(o, CU_MEM_HANDLE_TYPE_NONE);
}

static CUresult take_shareable(struct object *o)
{
    return take_vmm_as(o, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

static CUresult give_vmm(struct object *o)
{
    TRY(cuMemUnmap(o->pointer, o->size));
    return cuMemAddressFree(o->pointer, o->size);
}

/* --- arrays --------------------------------------------------------------------------------------
 */

static CUresult take_array(struct object *o)
{
    CUDA_ARRAY_DESCRIPTOR desc = {.Width = ROW / 4,
                                  .Height = o->size / ROW + 1,
                                  .Format = CU_AD_FORMAT_FLOAT,
                                  .NumChannels = 1};
    return cuArrayCreate((CUarray *)&o->handle, &desc);
}

static CUresult take_array_3d(struct object *o)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = {.Width = ROW / 16,
                                    .Height = 4,
                                    .Depth = o->size / ROW / 4 + 1,
                                    .Format = CU_AD_FORMAT_FLOAT,
                                    .NumChannels = 4};
    return cuArray3DCreate((CUarray *)&o->handle, &desc);
}

static CUresult give_array(struct object *o)
{
    return cuArrayDestroy(o->handle);
}

static CUresult take_mipmap(struct object *o)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = {.Width = ROW / 4,
                                    .Height = o->size / ROW + 1,
                                    .Format = CU_AD_FORMAT_FLOAT,
                                    .NumChannels = 1};
    return cuMipmappedArrayCreate((CUmipmappedArray *)&o->handle, &desc, 5);
}

static CUresult give_mipmap(struct object *o)
{
    return cuMipmappedArrayDestroy(o->handle);
}

/* --- graphs, modules, contexts -------------------------------------------------------------------
 */

/* A graph whose one node allocates; its memory is the graph pool's until that is trimmed. */
static CUresult take_graph(struct object *o)
{
    CUgraphNode node;
    CUDA_MEM_ALLOC_NODE_PARAMS params = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}},
        .bytesize = o->size};
    TRY(cuGraphCreate((CUgraph *)&o->handle, 0));
    TRY(cuGraphAddMemAllocNode(&node, o->handle, NULL, 0, &params));
    TRY(cuGraphInstantiate((CUgraphExec *)&o->other, o->handle, 0));
    o->pointer = params.dptr;
    CUresult rc = cuGraphLaunch(o->other, NULL);
    if (rc != CUDA_SUCCESS) {
        cuGraphExecDestroy(o->other);
        cuGraphDestroy(o->handle);
    }
    return rc;
}

static CUresult give_graph(struct object *o)
{
    TRY(cuMemFreeAsync(o->pointer, NULL));
    TRY(cuStreamSynchronize(NULL));
    TRY(cuGraphExecDestroy(o->other));
    TRY(cuGraphDestroy(o->handle));
    return cuDeviceGraphMemTrim(device);
}

static CUresult take_module(struct object *o)
{
    static char image[1 << 20];
    memset(image, 'x', sizeof(image) - 1);
    return cuModuleLoadData((CUmodule *)&o->handle, image);
}

static CUresult give_module(struct object *o)
{
    return cuModuleUnload(o->handle);
}

static CUresult take_context(struct object *o)
{
    CUcontext popped;
    TRY(cuCtxCreate((CUcontext *)&o->handle, NULL, 0, device));
    return cuCtxPopCurrent(&popped);
}

static CUresult give_context(struct object *o)
{
    return cuCtxDestroy(o->handle);
}

const struct kind kinds[KINDS] = {
    {"linear", take_linear, give_pointer},   {"pitch", take_pitch, give_pointer},
    {"managed", take_managed, give_pointer}, {"async", take_async, give_async},
    {"pool", take_pool, give_pool},          {"vmm", take_vmm, give_vmm},
    {"shareable", take_shareable, give_vmm}, {"array", take_array, give_array},
    {"array3d", take_array_3d, give_array},  {"mipmap", take_mipmap, give_mipmap},
    {"graph", take_graph, give_graph},       {"module", take_module, give_module},
    {"context", take_context, give_context},
};

/* --- for the programs ----------------------------------------------------------------------------
 */

void kinds_fail(const char *action, const char *what, CUresult rc)
{
    const char *name = NULL;
    cuGetErrorName(rc, &name);
    fprintf(stderr, "%s %s: %s\n", action, what, name ? name : "unknown");
    exit(1);
}

void kinds_start(void)
{
    CUcontext context;
    CUresult rc = cuInit(0);
    if (rc == CUDA_SUCCESS)
        rc = cuDeviceGet(&device, 0);
    if (rc == CUDA_SUCCESS)
        rc = cuDevicePrimaryCtxRetain(&context, device);
    if (rc == CUDA_SUCCESS)
        rc = cuCtxSetCurrent(context);
    if (rc != CUDA_SUCCESS)
        kinds_fail("start", "CUDA", rc);
}

bool kinds_take(struct object *object, const struct kind *kind, size_t size)
{
    *object = (struct object){.size = size};
    CUresult rc = kind->take(object);
    if (rc != CUDA_SUCCESS && rc != CUDA_ERROR_OUT_OF_MEMORY)
        kinds_fail("take", kind->name, rc);
    object->kind = rc == CUDA_SUCCESS ? kind : NULL;
    return object->kind;
}

void kinds_give(struct object *object)
{
    CUresult rc = object->kind->give(object);
    if (rc != CUDA_SUCCESS)
        kinds_fail("give back", object->kind->name, rc);
    object->kind = NULL;
}

void kinds_trim(void)
{
    CUmemoryPool pool;
    CUresult rc = cuCtxSynchronize();
    if (rc == CUDA_SUCCESS)
        rc = cuDeviceGetDefaultMemPool(&pool, device);
    if (rc == CUDA_SUCCESS)
        rc = cuMemPoolTrimTo(pool, 0);
    if (rc == CUDA_SUCCESS)
        rc = cuDeviceGraphMemTrim(device);
    if (rc != CUDA_SUCCESS)
        kinds_fail("trim", "pools", rc);
}
