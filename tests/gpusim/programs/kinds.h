/* kinds.h - every kind of device memory that a CUDA program can take, one function to take and one
 * to give back. */
#ifndef GPUSIM_KINDS_H
#define GPUSIM_KINDS_H

#include <cuda.h>

#include <stdbool.h>

struct object {
    const struct kind *kind;
    CUdeviceptr pointer;
    size_t size;
    void *handle, *other;
    CUmemGenericAllocationHandle memory;
};

struct kind {
    const char *name;
    CUresult (*take)(
        struct object *object); /* of object->size bytes; modules and contexts have their own */
    CUresult (*give)(struct object *object);
};

#define KINDS 13
extern const struct kind kinds[KINDS];

/* Initialise the driver; the primary context of device 0 becomes current. */
void kinds_start(void);

/* Take and give back; anything but success and, when taking, out of memory ends the program. */
bool kinds_take(struct object *object, const struct kind *kind, size_t size);
void kinds_give(struct object *object);

/* Give back what the default pool and the graph memory pool keep. */
void kinds_trim(void);

/* Say what failed and end the program. */
void kinds_fail(const char *action, const char *what, CUresult rc) __attribute__((noreturn));

#endif
