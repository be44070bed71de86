/* other.c - the linker, texture and surface objects, and calls that have nothing to do here. */
#include "sim.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the linker: puts images one after another ---------------------------------------------- */

struct CUlinkState_st {
    enum sim_magic magic;
    char *image;
    size_t size;
};

CUresult sim_cuLinkCreate_v2(unsigned n, CUjit_option *options, void **values, CUlinkState *out)
{
    NEED(out && (!n || (options && values)), CUDA_ERROR_INVALID_VALUE);
    CUlinkState state = calloc(1, sizeof(*state));
    NEED(state, CUDA_ERROR_OUT_OF_MEMORY);
    state->magic = SIM_LINK;
    *out = state;
    return CUDA_SUCCESS;
}

CUresult sim_cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
                              const char *name, unsigned n, CUjit_option *options, void **values)
{
    (void)type;
    (void)name;
    NEED(IS(state, SIM_LINK), CUDA_ERROR_INVALID_HANDLE);
    NEED(data && size && (!n || (options && values)), CUDA_ERROR_INVALID_VALUE);
    char *image = realloc(state->image, state->size + size + 1);
    NEED(image, CUDA_ERROR_OUT_OF_MEMORY);
    memcpy(image + state->size, data, size);
    state->image = image;
    state->size += size;
    image[state->size] = 0;
    return CUDA_SUCCESS;
}

CUresult sim_cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned n,
                              CUjit_option *options, void **values)
{
    char buffer[65536];
    size_t count;
    CUresult rc = CUDA_SUCCESS;
    NEED(IS(state, SIM_LINK), CUDA_ERROR_INVALID_HANDLE);
    NEED(path, CUDA_ERROR_INVALID_VALUE);
    FILE *file = fopen(path, "re");
    NEED(file, CUDA_ERROR_FILE_NOT_FOUND);
    while (rc == CUDA_SUCCESS && (count = fread(buffer, 1, sizeof(buffer), file)) > 0)
        rc = sim_cuLinkAddData_v2(state, type, buffer, count, path, n, options, values);
    fclose(file);
    return rc;
}

CUresult sim_cuLinkComplete(CUlinkState state, void **image, size_t *size)
{
    NEED(IS(state, SIM_LINK), CUDA_ERROR_INVALID_HANDLE);
    NEED(image && state->size, CUDA_ERROR_INVALID_VALUE);
    *image = state->image;
    if (size)
        *size = state->size;
    return CUDA_SUCCESS;
}

CUresult sim_cuLinkDestroy(CUlinkState state)
{
    NEED(IS(state, SIM_LINK), CUDA_ERROR_INVALID_HANDLE);
    state->magic = 0;
    free(state->image);
    free(state);
    return CUDA_SUCCESS;
}

CUresult sim_cuLinkCreate(unsigned n, CUjit_option *options, void **values, CUlinkState *out)
{
    return sim_cuLinkCreate_v2(n, options, values, out);
}

CUresult sim_cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size,
                           const char *name, unsigned n, CUjit_option *options, void **values)
{
    return sim_cuLinkAddData_v2(state, type, data, size, name, n, options, values);
}

CUresult sim_cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path, unsigned n,
                           CUjit_option *options, void **values)
{
    return sim_cuLinkAddFile_v2(state, type, path, n, options, values);
}

/* --- texture and surface objects: remembered, nothing reads them ---------------------------- */

struct object {
    struct object *next;
    unsigned long long id;
    bool surface;
    CUDA_RESOURCE_DESC resource;
    CUDA_TEXTURE_DESC texture;
    CUDA_RESOURCE_VIEW_DESC view;
};

static struct object *objects;

static CUresult create(bool surface, const CUDA_RESOURCE_DESC *resource,
                       const CUDA_TEXTURE_DESC *texture, const CUDA_RESOURCE_VIEW_DESC *view,
                       unsigned long long *id)
{
    static unsigned long long next_id;
    CUcontext ctx;
    NEED(id && resource, CUDA_ERROR_INVALID_VALUE);
    TRY(context_current(&ctx));
    struct object *object = calloc(1, sizeof(*object));
    NEED(object, CUDA_ERROR_OUT_OF_MEMORY);
    object->surface = surface;
    object->resource = *resource;
    if (texture)
        object->texture = *texture;
    if (view)
        object->view = *view;
    sim_lock();
    object->id = *id = ++next_id;
    object->next = objects;
    objects = object;
    sim_unlock();
    return CUDA_SUCCESS;
}

/* The link to the object; to NULL: there is none. sim.lock held. */
static struct object **find(bool surface, unsigned long long id)
{
    struct object **link = &objects;
    while (*link && ((*link)->id != id || (*link)->surface != surface))
        link = &(*link)->next;
    return link;
}

static CUresult destroy(bool surface, unsigned long long id)
{
    sim_lock();
    struct object **link = find(surface, id), *object = *link;
    if (object)
        *link = object->next;
    sim_unlock();
    free(object);
    return object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Copy a part of an object out. */
static CUresult ask(bool surface, unsigned long long id, size_t offset, void *out, size_t size)
{
    NEED(out, CUDA_ERROR_INVALID_VALUE);
    sim_lock();
    const struct object *object = *find(surface, id);
    if (object)
        memcpy(out, (const char *)object + offset, size);
    sim_unlock();
    return object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuTexObjectCreate(CUtexObject *out, const CUDA_RESOURCE_DESC *resource,
                               const CUDA_TEXTURE_DESC *texture,
                               const CUDA_RESOURCE_VIEW_DESC *view)
{
    NEED(texture, CUDA_ERROR_INVALID_VALUE);
    return create(false, resource, texture, view, out);
}

CUresult sim_cuTexObjectDestroy(CUtexObject id)
{
    return destroy(false, id);
}

CUresult sim_cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *out, CUtexObject id)
{
    return ask(false, id, offsetof(struct object, resource), out, sizeof(*out));
}

CUresult sim_cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *out, CUtexObject id)
{
    return ask(false, id, offsetof(struct object, texture), out, sizeof(*out));
}

CUresult sim_cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *out, CUtexObject id)
{
    return ask(false, id, offsetof(struct object, view), out, sizeof(*out));
}

CUresult sim_cuSurfObjectCreate(CUsurfObject *out, const CUDA_RESOURCE_DESC *resource)
{
    NEED(resource && resource->resType == CU_RESOURCE_TYPE_ARRAY, CUDA_ERROR_INVALID_VALUE);
    return create(true, resource, NULL, NULL, out);
}

CUresult sim_cuSurfObjectDestroy(CUsurfObject id)
{
    return destroy(true, id);
}

CUresult sim_cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *out, CUsurfObject id)
{
    return ask(true, id, offsetof(struct object, resource), out, sizeof(*out));
}

/* --- nothing to do -------------------------------------------------------------------------- */

CUresult sim_cuProfilerStart(void)
{
    return CUDA_SUCCESS;
}

CUresult sim_cuProfilerStop(void)
{
    return CUDA_SUCCESS;
}

CUresult sim_cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                        CUflushGPUDirectRDMAWritesScope scope)
{
    CUcontext ctx;
    (void)target;
    (void)scope;
    return context_current(&ctx);
}
