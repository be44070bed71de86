/* library.c - the driver's entry points and ours that stand in for them. */
#include "shim/library.h"
#include "shim/elf.h"
#include "shim/process.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct library *library_of(const char *name)
{
    if (name[0] == 'c')
        return name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z' ? &cuda_library : NULL;
    if (name[0] == 'n')
        return strncmp(name, "nvml", 4) == 0 ? &nvml_library : NULL;
    return NULL;
}

/* --- look-up by name, by name without suffix, and by the driver's own address ---------------- */

static uint64_t word_at(const char *text)
{
    uint64_t word;
    memcpy(&word, text, sizeof word);
    return word;
}

/* Of beginning, middle and end: names are long, and asked for one after the other by hundreds. */
static uint32_t hash_text(const char *text, size_t length)
{
    uint64_t h = length;

    if (length < sizeof h) {
        memcpy(&h, text, length);
    } else {
        h = (h ^ word_at(text)) * 0x9e3779b97f4a7c15u;
        h = (h ^ word_at(text + length / 2 - sizeof h / 2)) * 0x9e3779b97f4a7c15u;
        h ^= word_at(text + length - sizeof h);
    }
    return (uint32_t)(h * 0x9e3779b97f4a7c15u >> 40);
}

static uint32_t hash_address(const void *address)
{
    return (uint32_t)(((uintptr_t)address >> 2) * 0x9e3779b97f4a7c15u >> 40);
}

static bool per_thread_name(const char *name, size_t length)
{
    return length > 5 && (memcmp(name + length - 5, "_ptds", 5) == 0 ||
                          memcmp(name + length - 5, "_ptsz", 5) == 0);
}

/* Length of a name without its stream suffix and version: cuMemcpyHtoD_v2_ptds -> cuMemcpyHtoD. */
static size_t base_length(const char *name)
{
    size_t n = strlen(name);

    if (per_thread_name(name, n))
        n -= 5;
    size_t digits = 0;
    while (digits < n && isdigit((unsigned char)name[n - digits - 1]))
        digits++;
    if (digits > 0 && n > digits + 2 && memcmp(name + n - digits - 2, "_v", 2) == 0)
        n -= digits + 2;
    return n;
}

static void insert(uint16_t *index, uint32_t h, size_t row)
{
    while (index[h % LIBRARY_INDEX] != 0)
        h++;
    index[h % LIBRARY_INDEX] = (uint16_t)(row + 1);
}

static void index_names(struct library *library)
{
    if (library->named)
        return;
    process_lock();
    for (size_t i = 0; i < library->n_hooks && !library->named; i++) {
        const char *name = library->hooks[i].name;
        if (library->hooks[i].ours == NULL)
            continue;
        insert(library->by_name, hash_text(name, strlen(name)), i);
        insert(library->by_base, hash_text(name, base_length(name)), i);
    }
    library->named = true;
    process_unlock();
}

const struct hook *library_find(struct library *library, const char *name)
{
    index_names(library);
    for (uint32_t h = hash_text(name, strlen(name)); library->by_name[h % LIBRARY_INDEX] != 0;
         h++) {
        const struct hook *hook = &library->hooks[library->by_name[h % LIBRARY_INDEX] - 1];
        if (strcmp(hook->name, name) == 0)
            return hook;
    }
    return NULL;
}

static const struct hook *find_address(const struct library *library, const void *address)
{
    for (uint32_t h = hash_address(address); library->by_address[h % LIBRARY_INDEX] != 0; h++) {
        size_t row = library->by_address[h % LIBRARY_INDEX] - 1u;
        if (library->real[row] == address)
            return &library->hooks[row];
    }
    return NULL;
}

/* The newest variant that is not newer than asked for; of the stream flavour asked for, if there is
 * one. */
static const struct hook *find_variant(struct library *library, const char *base, int version,
                                       bool per_thread)
{
    size_t length = strlen(base);
    const struct hook *best = NULL;

    index_names(library);
    for (uint32_t h = hash_text(base, length); library->by_base[h % LIBRARY_INDEX] != 0; h++) {
        const struct hook *hook = &library->hooks[library->by_base[h % LIBRARY_INDEX] - 1];
        bool flavoured = per_thread_name(hook->name, strlen(hook->name));
        if (base_length(hook->name) != length || memcmp(hook->name, base, length) != 0)
            continue;
        if (hook->since > version || (flavoured && !per_thread))
            continue;
        if (best == NULL || hook->since > best->since || (hook->since == best->since && flavoured))
            best = hook;
    }
    return best;
}

/* --- opening --------------------------------------------------------------------------------- */

static void index_addresses(struct library *library)
{
    for (size_t i = 0; i < library->n_hooks; i++)
        if (library->hooks[i].ours && library->real[i] != library->missing &&
            find_address(library, library->real[i]) == NULL)
            insert(library->by_address, hash_address(library->real[i]), i);
}

/* No lock may be held here: dlopen has its own, and a constructor of another thread's dlopen may
 * call us. Two threads that come at once store the same values; the index is laid out by one of
 * them. */
bool library_open(struct library *library, bool load)
{
    if (library->open)
        return true;
    void *handle = dlopen(library->soname, RTLD_NOW | RTLD_NOLOAD);
    if (handle == NULL && load)
        handle = dlopen(library->soname, RTLD_NOW);
    if (handle == NULL)
        return false;
    for (size_t i = 0; i < library->n_hooks; i++) {
        void *real = elf_dlsym()(handle, library->hooks[i].name);
        library->real[i] = real ? real : library->missing;
    }
    library->handle = handle;
    process_lock();
    if (!library->open) {
        index_addresses(library);
        library->open = true;
    }
    process_unlock();
    return true;
}

/* --- what to hand out ------------------------------------------------------------------------ */

void *library_stand_in(struct library *library, const char *name, void *address)
{
    const struct hook *hook = library_find(library, name);

    if (address == NULL || hook == NULL || address == hook->ours)
        return address;
    if (library_open(library, false) && library->real[hook - library->hooks] == address)
        return hook->ours;
    const struct link_map *object = elf_object(address);
    return object && elf_has_soname(object, library->soname) ? hook->ours : address;
}

/* Does the driver have a variant of this entry point that the table does not know? (A driver newer
 * than this shim.) */
static bool has_newer(const struct library *library, const struct hook *newest)
{
    char name[128];
    size_t base = base_length(newest->name);
    int variant = newest->name[base] == '_' && newest->name[base + 1] == 'v'
                      ? newest->name[base + 2] - '0'
                      : 1;

    snprintf(name, sizeof name, "%.*s_v%d", (int)base, newest->name, variant + 1);
    return elf_dlsym()(library->handle, name) != NULL;
}

void *library_stand_in_for(struct library *library, const char *base, int version, bool per_thread,
                           void *address)
{
    const struct hook *hook = find_address(library, address);
    if (hook)
        return hook->ours;
    /* A driver may answer with an address other than that of its export: go by the rules that it
     * follows. */
    hook = find_variant(library, base, version, per_thread);
    if (hook == NULL || (version > library->version && has_newer(library, hook)))
        return address;
    return hook->ours;
}
