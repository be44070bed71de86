/* preload.h - the file that stands over /etc/ld.so.preload inside a step: the site's own lines and
 * the shim. */
#ifndef VGPU_PRELOAD_H
#define VGPU_PRELOAD_H

#include "proto/wire.h"

#define PRELOAD_FILE "/etc/ld.so.preload"
#define PRELOAD_NAME "ld.so.preload" /* in the step's directory */

/* The shim's path as the dynamic linker is to read it: the library folder of this architecture
 * becomes $LIB, so that programs of another one do not load it. Returns 0, or -1 if there is no
 * room. */
int preload_shim(char *path, size_t room, const char *pkglibdir);

/* Write `path`: what is in `site` (which must exist) and then the shim's line. Returns 0, or -1
 * with err. */
int preload_write(const char *path, const char *site, const char *shim, vgpu_error_t *err);

#endif
