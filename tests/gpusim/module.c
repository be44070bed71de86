/* module.c - modules: images that take their own size of device memory, with the simulator's
 * kernels and the global variables that a PTX text declares. */
#include "module.h"

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

/* --- images --------------------------------------------------------------------------------- */

uint64_t image_size(const void *image)
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

const void *image_body(const void *image)
{
    const unsigned char *p = image;
    bool wrapped = p[0] && *(const uint32_t *)image == WRAPPER_MAGIC;
    return wrapped ? *(const void *const *)(p + 8) : image;
}

CUresult image_read(const char *path, char **text, uint64_t *size)
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

void module_unload(CUmodule module)
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
        module_unload(ctx->modules);
}

CUresult module_load(CUcontext ctx, const char *image, uint64_t size, CUlibrary library,
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
        module_unload(module);
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
    CUresult rc = module_load(ctx, image, size, NULL, out);
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
    TRY(image_read(path, &image, &size));
    CUresult rc = load_current(out, image, size);
    free(image);
    return rc;
}

CUresult sim_cuModuleUnload(CUmodule module)
{
    NEED(IS(module, SIM_MODULE) && !module->library, CUDA_ERROR_INVALID_HANDLE);
    TRY(capture_forbids());
    sim_lock();
    module_unload(module);
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

int kernel_named(const char *name)
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
