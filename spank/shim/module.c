/* module.c - modules and libraries: code and global variables in device memory. */
#include "shim/claim.h"
#include "shim/image.h"
#include "shim/measure.h"

#define MEASURE_AT_ONCE                                                                            \
    (1u << 20) /* smaller images: the estimate will do until the next decision */

/* What an image is expected to take is charged like an allocation, so that it cannot pass the
 * quota; then it is part of what is measured. */
static CUresult begin(struct claim *claim, uint64_t expected)
{
    return claim_begin(claim, VGPU_KIND_CONTEXT, expected);
}

/* CUDA_ERROR_OUT_OF_MEMORY although the driver loaded it: the caller unloads it and calls given_up.
 */
static CUresult end(struct claim *claim, CUresult rc)
{
    struct vgpu *vgpu = claim->vgpu;

    if (vgpu == NULL) {
        measure_later_all(); /* a library is loaded into the contexts to come */
        return rc;
    }
    if (rc != CUDA_SUCCESS)
        charge_give(&vgpu->charge, VGPU_KIND_CONTEXT, claim->bytes);
    measure_leave(vgpu);
    measure_later(vgpu);
    bool fits = rc != CUDA_SUCCESS || claim->bytes < MEASURE_AT_ONCE || measure_now(vgpu);
    return fits ? rc : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult end_module(struct claim *claim, CUresult rc, CUmodule *module)
{
    CUresult result = end(claim, rc);

    if (rc == CUDA_SUCCESS && result != CUDA_SUCCESS) {
        REAL(cuModuleUnload)(*module);
        measure_now(claim->vgpu);
    }
    return result;
}

static CUresult end_library(struct claim *claim, CUresult rc, CUlibrary *library)
{
    CUresult result = end(claim, rc);

    if (rc == CUDA_SUCCESS && result != CUDA_SUCCESS) {
        REAL(cuLibraryUnload)(*library);
        measure_now(claim->vgpu);
    }
    return result;
}

#define LOAD(symbol, parameters, arguments, expected, end_function, out)                           \
    EXPORT CUresult symbol parameters                                                              \
    {                                                                                              \
        struct claim claim;                                                                        \
        CUresult rc = begin(&claim, expected);                                                     \
        return rc != CUDA_SUCCESS ? rc : end_function(&claim, REAL(symbol) arguments, out);        \
    }

LOAD(cuModuleLoad, (CUmodule * module, const char *fname), (module, fname), image_file_size(fname),
     end_module, module)
LOAD(cuModuleLoadData, (CUmodule * module, const void *image), (module, image), image_size(image),
     end_module, module)
LOAD(cuModuleLoadDataEx,
     (CUmodule * module, const void *image, unsigned int numOptions, CUjit_option *options,
      void **optionValues),
     (module, image, numOptions, options, optionValues), image_size(image), end_module, module)
LOAD(cuModuleLoadFatBinary, (CUmodule * module, const void *fatCubin), (module, fatCubin),
     image_size(fatCubin), end_module, module)
LOAD(cuLibraryLoadData,
     (CUlibrary * library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues,
      unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
      unsigned int numLibraryOptions),
     (library, code, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
      libraryOptionValues, numLibraryOptions),
     image_size(code), end_library, library)
LOAD(cuLibraryLoadFromFile,
     (CUlibrary * library, const char *fileName, CUjit_option *jitOptions, void **jitOptionsValues,
      unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
      unsigned int numLibraryOptions),
     (library, fileName, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
      libraryOptionValues, numLibraryOptions),
     image_file_size(fileName), end_library, library)

/* Unloading frees; and code that is loaded lazily may come with the first question for it. */
#define NOTICE(symbol, parameters, arguments)                                                      \
    EXPORT CUresult symbol parameters                                                              \
    {                                                                                              \
        CUresult rc = process_enter();                                                             \
        if (rc != CUDA_SUCCESS)                                                                    \
            return rc;                                                                             \
        rc = REAL(symbol) arguments;                                                               \
        measure_later_all();                                                                       \
        return rc;                                                                                 \
    }

NOTICE(cuModuleUnload, (CUmodule hmod), (hmod))
NOTICE(cuLibraryUnload, (CUlibrary library), (library))
NOTICE(cuModuleGetFunction, (CUfunction * hfunc, CUmodule hmod, const char *name),
       (hfunc, hmod, name))
NOTICE(cuModuleGetGlobal_v2, (CUdeviceptr * dptr, size_t *bytes, CUmodule hmod, const char *name),
       (dptr, bytes, hmod, name))
NOTICE(cuFuncLoad, (CUfunction function), (function))
NOTICE(cuLibraryGetKernel, (CUkernel * pKernel, CUlibrary library, const char *name),
       (pKernel, library, name))
NOTICE(cuLibraryGetModule, (CUmodule * pMod, CUlibrary library), (pMod, library))
NOTICE(cuLibraryGetGlobal, (CUdeviceptr * dptr, size_t *bytes, CUlibrary library, const char *name),
       (dptr, bytes, library, name))
NOTICE(cuLibraryGetManaged,
       (CUdeviceptr * dptr, size_t *bytes, CUlibrary library, const char *name),
       (dptr, bytes, library, name))
NOTICE(cuKernelGetFunction, (CUfunction * pFunc, CUkernel kernel), (pFunc, kernel))
