/* module.h - modules, libraries and functions: what their parts share. */
#ifndef GPUSIM_MODULE_H
#define GPUSIM_MODULE_H

#include "sim.h"

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

/* Length of an image that comes without one: what its header says, or up to the zero byte of a
 * text. */
uint64_t image_size(const void *image);

/* Past a wrapper that points to it. */
const void *image_body(const void *image);

/* The whole file, and a zero byte. */
CUresult image_read(const char *path, char **image, uint64_t *size);

/* sim.lock held. */
CUresult module_load(CUcontext ctx, const char *image, uint64_t size, CUlibrary library,
                     CUmodule *module);
void module_unload(CUmodule module);

/* enum kernel_type of the name, or -1. */
int kernel_named(const char *name);

/* The library's module in the context, loaded if it is not yet. sim.lock held. */
CUresult library_instance(CUlibrary library, CUcontext ctx, CUmodule *module);

#endif
