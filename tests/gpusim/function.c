/* function.c - functions and kernels: their names, parameters and attributes. */
#include "module.h"

CUresult function_get(void *handle, CUcontext ctx, CUfunction *out)
{
    CUfunction function = handle;
    CUkernel kernel = handle;
    CUmodule module;
    NEED(handle, CUDA_ERROR_INVALID_HANDLE);
    if (likely(function->magic == SIM_FUNCTION)) {
        *out = function;
        return CUDA_SUCCESS;
    }
    NEED(kernel->magic == SIM_KERNEL, CUDA_ERROR_INVALID_HANDLE);
    sim_lock();
    CUresult rc = library_instance(kernel->library, ctx, &module);
    sim_unlock();
    TRY(rc);
    *out = &module->functions[kernel->type];
    return CUDA_SUCCESS;
}

CUresult sim_cuKernelGetFunction(CUfunction *out, CUkernel kernel)
{
    CUcontext ctx;
    NEED(out, CUDA_ERROR_INVALID_VALUE);
    NEED(IS(kernel, SIM_KERNEL), CUDA_ERROR_INVALID_HANDLE);
    TRY(context_current(&ctx));
    return function_get(kernel, ctx, out);
}

CUresult sim_cuKernelGetLibrary(CUlibrary *out, CUkernel kernel)
{
    NEED(out, CUDA_ERROR_INVALID_VALUE);
    NEED(IS(kernel, SIM_KERNEL), CUDA_ERROR_INVALID_HANDLE);
    *out = kernel->library;
    return CUDA_SUCCESS;
}

CUresult sim_cuKernelGetName(const char **name, CUkernel kernel)
{
    NEED(name, CUDA_ERROR_INVALID_VALUE);
    NEED(IS(kernel, SIM_KERNEL), CUDA_ERROR_INVALID_HANDLE);
    *name = kernel_infos[kernel->type].name;
    return CUDA_SUCCESS;
}

/* The kernel behind a handle of either sort. */
static CUresult type_of(void *handle, enum kernel_type *type)
{
    CUfunction function = handle;
    CUkernel kernel = handle;
    if (IS(function, SIM_FUNCTION))
        *type = function->type;
    else if (IS(kernel, SIM_KERNEL))
        *type = kernel->type;
    else
        return CUDA_ERROR_INVALID_HANDLE;
    return CUDA_SUCCESS;
}

static CUresult param_info(void *handle, size_t index, size_t *offset, size_t *size)
{
    enum kernel_type type;
    NEED(offset, CUDA_ERROR_INVALID_VALUE);
    TRY(type_of(handle, &type));
    const struct kernel_info *info = &kernel_infos[type];
    NEED(index < info->n_args, CUDA_ERROR_INVALID_VALUE);
    *offset = kernel_param_offset(type, (unsigned)index);
    if (size)
        *size = info->arg_size[index];
    return CUDA_SUCCESS;
}

CUresult sim_cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size)
{
    return param_info(kernel, index, offset, size);
}

CUresult sim_cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size)
{
    return param_info(function, index, offset, size);
}

unsigned kernel_param_offset(enum kernel_type type, unsigned index)
{
    unsigned offset = 0;
    for (unsigned i = 0;; i++) {
        unsigned size = kernel_infos[type].arg_size[i];
        offset = (offset + size - 1) / size * size;
        if (i == index)
            return offset;
        offset += size;
    }
}

CUresult sim_cuFuncGetModule(CUmodule *out, CUfunction handle)
{
    CUcontext ctx;
    CUfunction function;
    NEED(out, CUDA_ERROR_INVALID_VALUE);
    TRY(context_current(&ctx));
    TRY(function_get(handle, ctx, &function));
    *out = function->module;
    return CUDA_SUCCESS;
}

CUresult sim_cuFuncGetName(const char **name, CUfunction function)
{
    enum kernel_type type;
    NEED(name, CUDA_ERROR_INVALID_VALUE);
    TRY(type_of(function, &type));
    *name = kernel_infos[type].name;
    return CUDA_SUCCESS;
}

CUresult sim_cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
    enum kernel_type type;
    NEED(state, CUDA_ERROR_INVALID_VALUE);
    TRY(type_of(function, &type));
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}

CUresult sim_cuFuncLoad(CUfunction function)
{
    enum kernel_type type;
    return type_of(function, &type);
}

/* --- attributes ----------------------------------------------------------------------------- */

static CUresult get_attribute(int *value, CUfunction_attribute attribute, void *handle)
{
    enum kernel_type type;
    CUfunction function = handle;
    NEED(value && (int)attribute >= 0 && attribute < CU_FUNC_ATTRIBUTE_MAX,
         CUDA_ERROR_INVALID_VALUE);
    TRY(type_of(handle, &type));
    bool own = function->magic == SIM_FUNCTION;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = 1024;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = 32;
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = 80;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = own && function->max_dynamic_shared ? function->max_dynamic_shared : 49152;
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = own ? function->carveout : -1;
        break;
    default:
        *value = 0;
    }
    return CUDA_SUCCESS;
}

static CUresult set_attribute(void *handle, CUfunction_attribute attribute, int value)
{
    enum kernel_type type;
    CUfunction function = handle;
    TRY(type_of(handle, &type));
    bool own = function->magic == SIM_FUNCTION;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        NEED(value >= 0 && value <= 166912, CUDA_ERROR_INVALID_VALUE);
        if (own)
            function->max_dynamic_shared = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        NEED(value >= -1 && value <= 100, CUDA_ERROR_INVALID_VALUE);
        if (own)
            function->carveout = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult sim_cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    return get_attribute(value, attribute, function);
}

CUresult sim_cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    return set_attribute(function, attribute, value);
}

CUresult sim_cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel,
                                  CUdevice device)
{
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    return get_attribute(value, attribute, kernel);
}

CUresult sim_cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                                  CUdevice device)
{
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    return set_attribute(kernel, attribute, value);
}

CUresult sim_cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config)
{
    (void)config;
    return sim_cuFuncLoad(function);
}

CUresult sim_cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config)
{
    (void)config;
    return sim_cuFuncLoad(function);
}

CUresult sim_cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device)
{
    (void)config;
    NEED(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    return IS(kernel, SIM_KERNEL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
