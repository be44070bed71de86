/* elf.c - what is loaded into this process. */
#include "shim/elf.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#define HIDDEN_VERSION 0x8000 /* of a symbol version that is kept for old programs only */

/* The parts of an object's dynamic section that a look-up needs. */
struct symbols {
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Half) * versions;
    const uint32_t *gnu_hash;
    uint64_t soname; /* offset in strings; 0: none */
};

/* ld.so writes most addresses of the dynamic section relocated; the vDSO's, and other C libraries',
 * are not. */
static const void *address_in(const struct link_map *object, ElfW(Addr) value)
{
    return (const void *)(value < object->l_addr ? value + object->l_addr : value);
}

static struct symbols symbols_of(const struct link_map *object)
{
    struct symbols s = {0};

    for (const ElfW(Dyn) *d = object->l_ld; d && d->d_tag != DT_NULL; d++) {
        switch (d->d_tag) {
        case DT_SYMTAB:
            s.symbols = address_in(object, d->d_un.d_ptr);
            break;
        case DT_STRTAB:
            s.strings = address_in(object, d->d_un.d_ptr);
            break;
        case DT_VERSYM:
            s.versions = address_in(object, d->d_un.d_ptr);
            break;
        case DT_GNU_HASH:
            s.gnu_hash = address_in(object, d->d_un.d_ptr);
            break;
        case DT_SONAME:
            s.soname = d->d_un.d_val;
            break;
        }
    }
    return s;
}

static uint32_t gnu_hash(const char *name)
{
    uint32_t h = 5381;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        h = h * 33 + *c;
    return h;
}

/* The object's own definition of a function, in its default version. */
static void *definition(const struct link_map *object, const char *name)
{
    struct symbols s = symbols_of(object);
    if (!s.gnu_hash || !s.symbols || !s.strings)
        return NULL;

    uint32_t buckets = s.gnu_hash[0], first = s.gnu_hash[1], bloom = s.gnu_hash[2];
    const uint32_t *bucket = s.gnu_hash + 4 + bloom * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = bucket + buckets;
    uint32_t h = gnu_hash(name);

    if (buckets == 0 || bucket[h % buckets] < first)
        return NULL;
    for (uint32_t i = bucket[h % buckets];; i++) {
        const ElfW(Sym) *symbol = &s.symbols[i];
        bool same =
            (chain[i - first] | 1) == (h | 1) && strcmp(s.strings + symbol->st_name, name) == 0;
        if (same && symbol->st_shndx != SHN_UNDEF &&
            !(s.versions && (s.versions[i] & HIDDEN_VERSION)))
            return (void *)(object->l_addr + symbol->st_value);
        if (chain[i - first] & 1)
            return NULL;
    }
}

/* dlsym lives in libc.so.6, before glibc 2.34 in libdl.so.2. */
static void *libc_definition(const char *name)
{
    for (struct link_map *object = _r_debug.r_map; object; object = object->l_next) {
        if (!elf_has_soname(object, "libc.so.6") && !elf_has_soname(object, "libdl.so.2"))
            continue;
        void *found = definition(object, name);
        if (found)
            return found;
    }
    return NULL;
}

elf_dlsym_fn *elf_dlsym(void)
{
    static _Atomic(void *) found;
    void *p = atomic_load_explicit(&found, memory_order_relaxed);

    if (p == NULL)
        atomic_store_explicit(&found, p = libc_definition("dlsym"), memory_order_relaxed);
    return (elf_dlsym_fn *)p;
}

elf_dlvsym_fn *elf_dlvsym(void)
{
    static _Atomic(void *) found;
    void *p = atomic_load_explicit(&found, memory_order_relaxed);

    if (p == NULL)
        atomic_store_explicit(&found, p = libc_definition("dlvsym"), memory_order_relaxed);
    return (elf_dlvsym_fn *)p;
}

struct link_map *elf_object(const void *address)
{
    Dl_info info;
    struct link_map *object = NULL;
    return dladdr1(address, &info, (void **)&object, RTLD_DL_LINKMAP) ? object : NULL;
}

bool elf_has_soname(const struct link_map *object, const char *soname)
{
    struct symbols s = symbols_of(object);
    return s.strings && s.soname && strcmp(s.strings + s.soname, soname) == 0;
}
