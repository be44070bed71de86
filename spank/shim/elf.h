/* elf.h - what is loaded into this process: the C library's own dlsym, and who defines an address.
 */
#ifndef VGPU_SHIM_ELF_H
#define VGPU_SHIM_ELF_H

#include <link.h>
#include <stdbool.h>

typedef void *elf_dlsym_fn(void *handle, const char *name);
typedef void *elf_dlvsym_fn(void *handle, const char *name, const char *version);

/* The C library's functions behind ours, found by its symbol table: asking dlsym for dlsym would
 * ask ourselves. */
elf_dlsym_fn *elf_dlsym(void);
elf_dlvsym_fn *elf_dlvsym(void);

/* The loaded object that contains the address; NULL: none. */
struct link_map *elf_object(const void *address);

/* Is the object the library of this name, by its own account (DT_SONAME)? A renamed copy still is.
 */
bool elf_has_soname(const struct link_map *object, const char *soname);

#endif
