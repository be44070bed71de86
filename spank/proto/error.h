/* error.h - an error as text that travels to the person who can act on it. */
#ifndef VGPU_ERROR_H
#define VGPU_ERROR_H

/* Long enough for one sentence with a path in it; part of the wire format (wire.h). */
#define VGPU_ERROR_MAX 320

typedef struct {
    char text[VGPU_ERROR_MAX];
} vgpu_error_t;

/* Format the text (err may be NULL). Always returns -1 and keeps errno, so that
 * `return vgpu_errorf(err, "...")` is one line. */
int vgpu_errorf(vgpu_error_t *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
