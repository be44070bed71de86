/* module.c - modules and libraries: images that take their own size of device memory, with the
 * simulator's kernels and the global variables that a PTX text declares. */
#include "sim.h"

#include <ctype.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FATBIN_MAGIC  0xba55ed50u
#define WRAPPER_MAGIC 0x466243b1u

const struct kernel_info kernel_infos[KERNEL_TYPES] = {
    [KERNEL_EMPTY] = {"empty", 0, {0}},
    [KERNEL_SPIN] = {"spin", 1, {8}},
    [KERNEL_FILL] = {"fill", 3, {8, 4, 8}},
    [KERNEL_VECTOR_ADD] = {"vector_add", 4, {8, 8, 8, 8}},
};

struct global {
    struct global *next;
    struct block *block;
    uint64_t size;
    char name[];
};

struct CUmod_st {
    enum sim_magic magic;
    CUcontext ctx;
    CUmodule next;     /* in ctx->modules */
    CUlibrary library; /* that it is an instance of; NULL: none */
    uint64_t bytes;
    struct global *globals;
    struct CUfunc_st functions[KERNEL_TYPES];
};

struct CUkern_st {
    enum sim_magic magic;
    enum kernel_type type;
    CUlibrary library;
};

struct CUlib_st {
    enum sim_magic magic;
    char *image;
    uint64_t size;
    struct CUkern_st kernels[KERNEL_TYPES];
    CUlibrary next;
};

static CUlibrary libraries;

/* --- images --------------------------------------------------------------------------------- */

/* Length of an image that comes without one: what its header says, or up to the zero byte of a
 * text. */
static uint64_t image_size(const void *image)
{
    const unsigned char *p = image;
    uint32_t magic = p[0] ? *(const uint32_t *)image : 0;
    if (memcmp(p, ELFMAG, SELFMAG) == 0) {
        const Elf64_Ehdr *elf = image;
        uint64_t sections = elf->e_shoff + (uint64_t)elf->e_shnum * elf->e_shentsize;
        uint64_t segments = elf->e_phoff + (uint64_t)elf->e_phnum * elf->e_phentsize;
        return sections > segments ? sections : segments;
    }
    if (magic == FATBIN_MAGIC) { /* magic, version, header size, size of the rest */
        uint16_t header = *(const uint16_t *)(p + 6);
        return header + *(const uint64_t *)(p + 8);
    }
    if (magic == WRAPPER_MAGIC) /* magic, version, pointer to the image */
        return image_size(*(const void *const *)(p + 8));
    return strlen(image) + 1;
}

static const void *image_body(const void *image)
{
    const unsigned char *p = image;
    bool wrapped = p[0] && *(const uint32_t *)image == WRAPPER_MAGIC;
    return wrapped ? *(const void *const *)(p + 8) : image;
}

static CUresult read_file(const char *path, char **text, uint64_t *size)
{
    struct stat st;
    NEED(path, CUDA_ERROR_INVALID_VALUE);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    NEED(fd >= 0, CUDA_ERROR_FILE_NOT_FOUND);
    char *p = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? calloc(1, (size_t)st.st_size + 1) : NULL;
    ssize_t n = p ? read(fd, p, (size_t)st.st_size) : -1;
    close(fd);
    if (n <= 0 || n != st.st_size) {
        free(p);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    *text = p;
    *size = (uint64_t)n;
    return CUDA_SUCCESS;
}

/* --- globals -------------------------------------------------------------------------------- */

static unsigned type_size(const char *type)
{
    static const struct {
        const char *name;
        unsigned size;
    } types[] = {{".b8", 1},  {".u8", 1},  {".s8", 1},  {".b16", 2}, {".u16", 2},
                 {".s16", 2}, {".b32", 4}, {".u32", 4}, {".s32", 4}, {".f32", 4},
                 {".b64", 8}, {".u64", 8}, {".s64", 8}, {".f64", 8}};
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
        if (strcmp(type, types[i].name) == 0)
            return types[i].size;
    return 0;
}

static CUresult add_global(CUmodule module, const char *name, size_t length, uint64_t size)
{
    struct global *global = calloc(1, sizeof(*global) + length + 1);
    NEED(global, CUDA_ERROR_OUT_OF_MEMORY);
    memcpy(global->name, name, length);
    global->size = size;
    CUresult rc = memory_alloc(module->ctx, MEMORY_GLOBAL, size, &global->block);
    if (rc != CUDA_SUCCESS) {
        free(global);
        return rc;
    }
    memset(global->block->base, 0, size < MIB ? size : 0);
    global->next = module->globals;
    module->globals = global;
    return CUDA_SUCCESS;
}

/* One declaration: ".global .align 4 .b8 name[123]". */
static CUresult declare(CUmodule module, const char *p)
{
    char word[16];
    unsigned size = 0;
    int n;
    while (sscanf(p, " %15[.a-z0-9]%n", word, &n) == 1 && word[0] == '.') {
        p += n;
        if (type_size(word))
            size = type_size(word);
        if (strcmp(word, ".align") == 0 && sscanf(p, " %*u%n", &n) == 0)
            p += n;
    }
    p += strspn(p, " \t");
    size_t length = 0;
    while (isalnum((unsigned char)p[length]) || p[length] == '_' || p[length] == '$')
        length++;
    unsigned long long count = 1;
    if (p[length] == '[' && sscanf(p + length, "[%llu]", &count) != 1)
        count = 0;
    if (!size || !length || !count || count > 1ull << 40)
        return CUDA_SUCCESS; /* nothing that we understand */
    return add_global(module, p, length, size * count);
}

static CUresult declare_all(CUmodule module, const char *image)
{
    if (!isprint((unsigned char)image[0]) && !isspace((unsigned char)image[0]))
        return CUDA_SUCCESS;
    for (const char *p = image; (p = strstr(p, ".global ")); p++)
        TRY(declare(module, p));
    return CUDA_SUCCESS;
}

/* --- loading and unloading ------------------------------------------------------------------ */

/* sim.lock held. */
static void unload(CUmodule module)
{
    CUmodule *link = &module->ctx->modules;
    while (*link != module)
        link = &(*link)->next;
    *link = module->next;
    while (module->globals) {
        struct global *global = module->globals;
        module->globals = global->next;
        memory_free(global->block);
        free(global);
    }
    give(module->ctx->device, GPUSIM_MODULE, module->bytes);
    module->magic = 0;
    free(module);
}

void module_unload_all(CUcontext ctx)
{
    while (ctx->modules)
        unload(ctx->modules);
}

static CUresult load(CUcontext ctx, const char *image, uint64_t size, CUlibrary library,
                     CUmodule *out)
{
    CUmodule module = calloc(1, sizeof(*module));
    NEED(module, CUDA_ERROR_OUT_OF_MEMORY);
    module->magic = SIM_MODULE;
    module->ctx = ctx;
    module->bytes = ALIGN(size, 512ull);
    if (!take(ctx->device, GPUSIM_MODULE, module->bytes)) {
        free(module);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (int i = 0; i < KERNEL_TYPES; i++) {
        module->functions[i] = (struct CUfunc_st){.magic = SIM_FUNCTION,
                                                  .type = (enum kernel_type)i,
                                                  .module = module,
                                                  .ctx = ctx,
                                                  .block = {1, 1, 1}};
        module->functions[i].kernel = library ? &library->kernels[i] : NULL;
        module->functions[i].carveout = -1;
    }
    module->library = library;
    module->next = ctx->modules;
    ctx->modules = module;
    CUresult rc = declare_all(module, image);
    if (rc != CUDA_SUCCESS)
        unload(module);
    else
        *out = module;
    return rc;
}

static CUresult load_current(CUmodule *out, const void *image, uint64_t size)
{
    CUcontext ctx;
    TRY(context_current(&ctx));
    TRY(capture_forbids());
    sim_lock();
    CUresult rc = load(ctx, image, size, NULL, out);
    sim_unlock();
    return rc;
}

CUresult sim_cuModuleLoadData(CUmodule *out, const void *image)
{
    NEED(out && image, CUDA_ERROR_INVALID_VALUE);
    return load_current(out, image_body(image), image_size(image));
}

CUresult sim_cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned n, CUjit_option *options,
                                void **values)
{
    NEED(!n || (options && values), CUDA_ERROR_INVALID_VALUE);
    return sim_cuModuleLoadData(out, image);
}

CUresult sim_cuModuleLoadFatBinary(CUmodule *out, const void *image)
{
    return sim_cuModuleLoadData(out, image);
}

CUresult sim_cuModuleLoad(CUmodule *out, const char *path)
{
    char *image;
    uint64_t size;
    NEED(out, CUDA_ERROR_INVALID_VALUE);
    TRY(read_file(path, &image, &size));
    CUresult rc = load_current(out, image, size);
    free(image);
    return rc;
}

CUresult sim_cuModuleUnload(CUmodule module)
{
    NEED(IS(module, SIM_MODULE) && !module->library, CUDA_ERROR_INVALID_HANDLE);
    TRY(capture_forbids());
    sim_lock();
    unload(module);
    sim_unlock();
    return CUDA_SUCCESS;
}

CUresult sim_cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    NEED(mode, CUDA_ERROR_INVALID_VALUE);
    *mode = CU_MODULE_EAGER_LOADING;
    return CUDA_SUCCESS;
}

/* --- what is in a module -------------------------------------------------------------------- */

static int kernel_named(const char *name)
{
    for (int i = 0; i < KERNEL_TYPES; i++)
        if (strcmp(name, kernel_infos[i].name) == 0)
            return i;
    return -1;
}

CUresult sim_cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
    NEED(out && name && *name, CUDA_ERROR_INVALID_VALUE);
    NEED(IS(module, SIM_MODULE), CUDA_ERROR_INVALID_HANDLE);
    int i = kernel_named(name);
    NEED(i >= 0, CUDA_ERROR_NOT_FOUND);
    *out = &module->functions[i];
    return CUDA_SUCCESS;
}

CUresult sim_cuModuleGetFunctionCount(unsigned *count, CUmodule module)
{
    NEED(count, CUDA_ERROR_INVALID_VALUE);
    NEED(IS(module, SIM_MODULE), CUDA_ERROR_INVALID_HANDLE);
    *count = KERNEL_TYPES;
    return CUDA_SUCCESS;
}

CUresult sim_cuModuleEnumerateFunctions(CUfunction *functions, unsigned n, CUmodule module)
{
    NEED(functions && n, CUDA_ERROR_INVALID_VALUE);
    NEED(IS(module, SIM_MODULE), CUDA_ERROR_INVALID_HANDLE);
    for (unsigned i = 0; i < n && i < KERNEL_TYPES; i++)
        functions[i] = &module->functions[i];
    return CUDA_SUCCESS;
}

CUresult sim_cuModuleGetGlobal_v2(CUdeviceptr *pointer, size_t *size, CUmodule module,
                                  const char *name)
{
    NEED(name && (pointer || size), CUDA_ERROR_INVALID_VALUE);
    NEED(IS(module, SIM_MODULE), CUDA_ERROR_INVALID_HANDLE);
    for (const struct global *global = module->globals; global; global = global->next) {
        if (strcmp(global->name, name) != 0)
            continue;
        if (pointer)
            *pointer = (CUdeviceptr)global->block->base;
        if (size)
            *size = global->size;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

/* --- libraries: loaded into a context when first used there --------------------------------- */

/* The library's module in the context. sim.lock held. */
static CUresult instance(CUlibrary library, CUcontext ctx, CUmodule *out)
{
    for (CUmodule module = ctx->modules; module; module = module->next) {
        if (module->library == library) {
            *out = module;
            return CUDA_SUCCESS;
        }
    }
    return load(ctx, library->image, library->size, library, out);
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
    TRY(read_file(path, &image, &size));
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
                unload(module);
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
    CUresult rc = instance(library, ctx, out);
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

/* --- functions and kernels ------------------------------------------------------------------ */

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
    CUresult rc = instance(kernel->library, ctx, &module);
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
