/* resolve.c - dlsym and dlvsym as programs see them.
 *
 * Names of other libraries go to the C library by a jump (dlsym.S), so that it sees the program's
 * own place in the search order (RTLD_NEXT, RTLD_DEFAULT). Entry points of the driver are answered
 * here: what the C library would have found without us, and ours in its place if that is the
 * driver's.
 */
#include "shim/elf.h"
#include "shim/library.h"

#include <dlfcn.h>
#include <string.h>

/* What dlsym.S does: return `result`, or, with `tail`, jump there with the program's own arguments.
 */
struct route {
    void *result;
    void *tail;
};

struct route resolve_dlsym(void *handle, const char *name, const void *caller);
struct route resolve_dlvsym(void *handle, const char *name, const char *version,
                            const void *caller);

extern void *dlsym(void *, const char *);
extern void *dlvsym(void *, const char *, const char *);

static struct route to_libc(void *function)
{
    return (struct route){.tail = function};
}

static struct route answer(void *result)
{
    return (struct route){.result = result};
}

static bool is_ours(const char *name)
{
    return strcmp(name, "dlsym") == 0 || strcmp(name, "dlvsym") == 0;
}

static bool concerns_us(const char *name)
{
    struct library *library = library_of(name);
    return library ? library_find(library, name) != NULL
                   : name[0] == 'd' && name[1] == 'l' && is_ours(name);
}

static void *stand_in(const char *name, void *address)
{
    struct library *library = library_of(name);

    if (library)
        return library_stand_in(library, name, address);
    if (address == (void *)elf_dlsym())
        return (void *)dlsym;
    return address == (void *)elf_dlvsym() ? (void *)dlvsym : address;
}

/* The symbol as one object itself defines it. */
static void *defined_by(const struct link_map *object, const char *name)
{
    void *handle = dlopen(object->l_name, RTLD_LAZY | RTLD_NOLOAD), *found = NULL;

    if (handle == NULL)
        return NULL;
    found = elf_dlsym()(handle, name); /* also looks into what the object needs */
    if (found && elf_object(found) != object)
        found = NULL;
    dlclose(handle);
    return found;
}

static const struct link_map *self(void)
{
    return elf_object((void *)resolve_dlsym);
}

static bool is_before(const struct link_map *object, const struct link_map *other)
{
    for (; object; object = object->l_next)
        if (object == other)
            return true;
    return false;
}

/* The first definition in the objects from `object` up to `end`, ours left out. */
static struct route walk(const char *name, const struct link_map *object,
                         const struct link_map *end)
{
    for (; object && object != end; object = object->l_next) {
        void *found = defined_by(object, name);
        if (found)
            return answer(stand_in(name, found));
    }
    return answer(NULL); /* the last look-up that failed has left its message */
}

/* RTLD_NEXT. From an object before us the C library would find us at the latest, which is right
 * where the driver is behind us; from one behind us it would find the driver. */
static struct route next(const char *name, const void *caller)
{
    const struct link_map *object = elf_object(caller), *us = self();
    void *behind_us = elf_dlsym()(RTLD_NEXT, name);

    if (object == NULL)
        return to_libc(elf_dlsym());
    if (is_before(object, us))
        return behind_us ? to_libc(elf_dlsym()) : walk(name, object->l_next, us);
    if (behind_us && is_before(object->l_next, elf_object(behind_us)))
        return answer(stand_in(name, behind_us));
    return walk(name, object->l_next, NULL);
}

/* The symbol in what the calling object itself has loaded (it was loaded by dlopen without
 * RTLD_GLOBAL). */
static void *in_scope_of(const void *caller, const char *name)
{
    const struct link_map *object = elf_object(caller);
    if (object == NULL || object->l_name[0] == '\0')
        return NULL;

    void *handle = dlopen(object->l_name, RTLD_LAZY | RTLD_NOLOAD);
    void *found = handle ? elf_dlsym()(handle, name) : NULL;
    if (handle)
        dlclose(handle);
    return found;
}

/* Where nothing of the driver is behind us, we are not to be found either. */
static void *not_us(void *found)
{
    return found && elf_object(found) == self() ? NULL : found;
}

/* RTLD_DEFAULT finds us first, as a linked program does; but we are to be found only where the
 * driver would be. */
static struct route anywhere(const char *name, const void *caller)
{
    void *behind_us = elf_dlsym()(RTLD_NEXT, name);
    if (behind_us)
        return to_libc(elf_dlsym());

    void *found = in_scope_of(caller, name);
    if (found == NULL)
        found = not_us(elf_dlsym()(RTLD_DEFAULT, name));
    return answer(stand_in(name, found));
}

struct route resolve_dlsym(void *handle, const char *name, const void *caller)
{
    if (!concerns_us(name))
        return to_libc(elf_dlsym());
    if (handle == RTLD_NEXT)
        return next(name, caller);
    if (handle == RTLD_DEFAULT && library_of(name))
        return anywhere(name, caller);
    void *found = elf_dlsym()(handle, name);
    struct library *library = library_of(name);
    if (library && found == library_find(library, name)->ours && !elf_dlsym()(RTLD_NEXT, name))
        found = NULL; /* the program's own handle, which shows what is preloaded too */
    return answer(stand_in(name, found));
}

/* Neither the driver's symbols nor ours have versions, so only a handle or a look-up of dlsym
 * itself can find anything of interest; and then the place of the caller does not matter. */
struct route resolve_dlvsym(void *handle, const char *name, const char *version, const void *caller)
{
    (void)caller;
    if (!concerns_us(name))
        return to_libc(elf_dlvsym());
    void *found = elf_dlvsym()(handle, name, version);
    return found ? answer(stand_in(name, found)) : to_libc(elf_dlvsym());
}
