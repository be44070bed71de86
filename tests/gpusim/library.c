/* library.c - libraries: loaded into a context when first used there. */
#include "module.h"

#include <stdlib.h>
#include <string.h>

static CUlibrary libraries;

CUresult library_instance(CUlibrary library, CUcontext ctx, CUmodule *out)
{
    for (CUmodule module = ctx->modules; module; module = module->next) {
        if (module->library == library) {
            *out = module;
            return CUDA_SUCCESS;
        }
    }
    return module_load(ctx, library->image, library->size, library, out);
}

static CUresult new_library(CUlibrary *out, char *image, uint64_t size)
{
    CUlibrary library = image ? calloc(1, sizeof(*library)) : NULL;
    if (!library) {
        free(image);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    library->magic = SIM_LIBRARY;
    library->image = image;
    library->size = size;
    for (int i = 0; i < KERNEL_TYPES; i++)
        library->kernels[i] = (struct CUkern_st){SIM_KERNEL, (enum kernel_type)i, library};
    sim_lock();
    library->next = libraries;
    libraries = library;
    sim_unlock();
    *out = library;
    return CUDA_SUCCESS;
}

CUresult sim_cuLibraryLoadData(CUlibrary *out, const void *code, CUjit_option *options,
                               void **values, unsigned n, CUlibraryOption *library_options,
                               void **library_values, unsigned n_library)
{
    NEED(out && code && (!n || (options && values)), CUDA_ERROR_INVALID_VALUE);
    NEED(!n_library || (library_options && library_values), CUDA_ERROR_INVALID_VALUE);
    uint64_t size = image_size(code);
    char *copy = malloc(size + 1);
    if (copy) {
        memcpy(copy, image_body(code), size);
        copy[size] = 0;
    }
    return new_library(out, copy, size);
}

CUresult sim_cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *options,
                                   void **values, unsigned n, CUlibraryOption *library_options,
                                   void **library_values, unsigned n_library)
{
    char *image;
    uint64_t size;
    NEED(out && (!n || (options && values)), CUDA_ERROR_INVALID_VALUE);
    NEED(!n_library || (library_options && library_values), CUDA_ERROR_INVALID_VALUE);
    TRY(image_read(path, &image, &size));
    return new_library(out, image, size);
}

CUresult sim_cuLibraryUnload(CUlibrary library)
{
    NEED(IS(library, SIM_LIBRARY), CUDA_ERROR_INVALID_HANDLE);
    sim_lock();
    for (CUcontext ctx = sim.contexts; ctx; ctx = ctx->next) {
        CUmodule module = ctx->modules, next;
        for (; module; module = next) {
            next = module->next;
            if (module->library == library)
                module_unload(module);
        }
    }
    CUlibrary *link = &libraries;
    while (*link != library)
        link = &(*link)->next;
    *link = library->next;
    library->magic = 0;
    free(library->image);
    free(library);
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult sim_cuLibraryGetKernel(CUkernel *out, CUlibrary library, const char *name)
{
    NEED(out && name && *name, CUDA_ERROR_INVALID_VALUE);
    NEED(IS(library, SIM_LIBRARY), CUDA_ERROR_INVALID_HANDLE);
    int i = kernel_named(name);
    NEED(i >= 0, CUDA_ERROR_NOT_FOUND);
    *out = &library->kernels[i];
    return CUDA_SUCCESS;
}

CUresult sim_cuLibraryGetKernelCount(unsigned *count, CUlibrary library)
{
    NEED(count, CUDA_ERROR_INVALID_VALUE);
    NEED(IS(library, SIM_LIBRARY), CUDA_ERROR_INVALID_HANDLE);
    *count = KERNEL_TYPES;
    return CUDA_SUCCESS;
}

CUresult sim_cuLibraryEnumerateKernels(CUkernel *kernels, unsigned n, CUlibrary library)
{
    NEED(kernels && n, CUDA_ERROR_INVALID_VALUE);
    NEED(IS(library, SIM_LIBRARY), CUDA_ERROR_INVALID_HANDLE);
    for (unsigned i = 0; i < n && i < KERNEL_TYPES; i++)
        kernels[i] = &library->kernels[i];
    return CUDA_SUCCESS;
}

CUresult sim_cuLibraryGetModule(CUmodule *out, CUlibrary library)
{
    CUcontext ctx;
    NEED(out, CUDA_ERROR_INVALID_VALUE);
    NEED(IS(library, SIM_LIBRARY), CUDA_ERROR_INVALID_HANDLE);
    TRY(context_current(&ctx));
    sim_lock();
    CUresult rc = library_instance(library, ctx, out);
    sim_unlock();
    return rc;
}

CUresult sim_cuLibraryGetGlobal(CUdeviceptr *pointer, size_t *size, CUlibrary library,
                                const char *name)
{
    CUmodule module;
    TRY(sim_cuLibraryGetModule(&module, library));
    return sim_cuModuleGetGlobal_v2(pointer, size, module, name);
}

CUresult sim_cuLibraryGetManaged(CUdeviceptr *pointer, size_t *size, CUlibrary library,
                                 const char *name)
{
    NEED(name && (pointer || size), CUDA_ERROR_INVALID_VALUE);
    NEED(IS(library, SIM_LIBRARY), CUDA_ERROR_INVALID_HANDLE);
    return CUDA_ERROR_NOT_FOUND;
}

CUresult sim_cuLibraryGetUnifiedFunction(void **function, CUlibrary library, const char *symbol)
{
    NEED(function && symbol, CUDA_ERROR_INVALID_VALUE);
    NEED(IS(library, SIM_LIBRARY), CUDA_ERROR_INVALID_HANDLE);
    return CUDA_ERROR_NOT_FOUND;
}
