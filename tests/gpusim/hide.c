/* hide.c - the fault "hide NAME": a library without one of its symbols. */
#include "fault.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

struct request {
    struct gpusim_faults *faults;
    const void *inside; /* an address within the library */
};

struct tables {
    ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *hash; /* GNU hash table */
};

/* Number of symbols: one more than the highest in any chain of the hash table. */
static unsigned count_symbols(const uint32_t *hash)
{
    uint32_t buckets = hash[0], first = hash[1], words = hash[2], last = 0;
    const uint32_t *bucket = hash + 4 + (size_t)words * 2, *chain = bucket + buckets;
    for (uint32_t i = 0; i < buckets; i++)
        if (bucket[i] > last)
            last = bucket[i];
    while (last >= first && !(chain[last - first] & 1))
        last++;
    return last + 1;
}

static struct tables find_tables(const ElfW(Dyn) * dyn)
{
    struct tables t = {0};
    for (; dyn->d_tag != DT_NULL; dyn++) {
        if (dyn->d_tag == DT_SYMTAB)
            t.symbols = (ElfW(Sym) *)dyn->d_un.d_ptr;
        else if (dyn->d_tag == DT_STRTAB)
            t.strings = (const char *)dyn->d_un.d_ptr;
        else if (dyn->d_tag == DT_GNU_HASH)
            t.hash = (const uint32_t *)dyn->d_un.d_ptr;
    }
    return t;
}

/* A symbol whose value is 0 is not found. */
static void hide(struct gpusim_faults *faults, const struct tables *t)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (unsigned i = 0, n = count_symbols(t->hash); i < n; i++) {
        ElfW(Sym) *symbol = &t->symbols[i];
        if (!symbol->st_value || !gpusim_faults_hide(faults, t->strings + symbol->st_name))
            continue;
        void *start = (void *)((uintptr_t)symbol / page * page);
        if (mprotect(start, 2 * page, PROT_READ | PROT_WRITE) == 0)
            symbol->st_value = 0;
    }
}

static int visit(struct dl_phdr_info *info, size_t size, void *arg)
{
    const struct request *request = arg;
    const ElfW(Dyn) *dyn = NULL;
    bool ours = false;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + p->p_vaddr, inside = (uintptr_t)request->inside;
        if (p->p_type == PT_DYNAMIC)
            dyn = (const ElfW(Dyn) *)start;
        if (p->p_type == PT_LOAD && inside >= start && inside < start + p->p_memsz)
            ours = true;
    }
    if (!ours || !dyn)
        return 0;
    struct tables t = find_tables(dyn);
    if (t.symbols && t.strings && t.hash)
        hide(request->faults, &t);
    return 1;
}

void gpusim_hide_symbols(struct gpusim_faults *faults, const void *inside)
{
    struct request request = {faults, inside};
    dl_iterate_phdr(visit, &request);
}
