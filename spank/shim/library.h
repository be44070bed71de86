/* library.h - a library of the driver (CUDA, NVML): its own entry points and ours that stand in for
 * them.
 *
 * hooks.def and nvml.def are the tables; each row is one entry point.
 */
#ifndef VGPU_SHIM_LIBRARY_H
#define VGPU_SHIM_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIBRARY_INDEX 1024 /* power of two, more than twice the rows of a table */

struct hook {
    const char *name; /* as exported: with version and stream suffix */
    void *ours;       /* NULL: only used, not replaced */
    int since;        /* CUDA version at which this variant appeared; 0: does not matter */
};

struct library {
    const char *soname;
    const struct hook *hooks;
    size_t n_hooks;
    void **real;   /* the driver's own, in the order of hooks */
    void *missing; /* stands for what this driver does not have: says so */
    int version;   /* newest that the table covers */
    void *handle;
    _Atomic bool open, named;
    /* By hash: index into hooks + 1, 0: free. */
    uint16_t by_name[LIBRARY_INDEX], by_base[LIBRARY_INDEX], by_address[LIBRARY_INDEX];
};

extern struct library cuda_library, nvml_library;

/* The library that a name would belong to, by its prefix alone; NULL: none. Cheap. */
struct library *library_of(const char *name);

/* The row for a name that is replaced, or NULL. */
const struct hook *library_find(struct library *library, const char *name);

/* Load it if it is not (`load`) and look up all the driver's entry points. False: there is no
 * driver here. */
bool library_open(struct library *library, bool load);

/* What to hand out for `address`, which the driver, or the C library on its behalf, answered for
 * `name`. */
void *library_stand_in(struct library *library, const char *name, void *address);

/* The same for an answer of cuGetProcAddress: the name has no suffix; version and stream flavour
 * were asked for. */
void *library_stand_in_for(struct library *library, const char *base, int version, bool per_thread,
                           void *address);

#endif
