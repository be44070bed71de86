/* machine.c - parser of the machine file (machine.h). */
#include "machine.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_FILE   (1u << 20)
#define MAX_FIELDS 24

int gpusim_errorf(struct gpusim_error *err, const char *format, ...)
{
    int saved = errno;
    va_list args;
    va_start(args, format);
    if (err)
        vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    errno = saved;
    return -1;
}

struct field {
    const char *key, *value;
    bool used;
};

struct parser {
    const char *file;
    int line;
    struct gpusim_error *err;
    struct gpusim_machine *machine;
    struct field fields[MAX_FIELDS];
    int n_fields;
    bool named;                                               /* machine= was seen */
    bool has_pci[GPUSIM_MAX_GPUS], has_uuid[GPUSIM_MAX_GPUS]; /* given, so no default */
    bool has_serial[GPUSIM_MAX_GPUS], has_minor[GPUSIM_MAX_GPUS];
    bool seen[GPUSIM_MAX_GPUS];
};

#define fail(p, ...) fail(p, __VA_ARGS__)

static int fail(struct parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int fail(struct parser *p, const char *format, ...)
{
    char text[220];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return gpusim_errorf(p->err, "%s:%d: %s", p->file, p->line, text);
}

/* --- values --------------------------------------------------------------------------------- */

static int number(struct parser *p, const char *key, const char *text, uint64_t min, uint64_t max,
                  uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = isdigit((unsigned char)*text) ? strtoull(text, &end, 10) : 0;
    if (!end || *end || errno || value < min || value > max)
        return fail(p, "%s=%s: a whole number from %llu to %llu is needed", key, text,
                    (unsigned long long)min, (unsigned long long)max);
    *out = value;
    return 0;
}

static int number32(struct parser *p, const struct field *f, uint32_t min, uint32_t max,
                    uint32_t *out)
{
    uint64_t value;
    if (number(p, f->key, f->value, min, max, &value))
        return -1;
    *out = (uint32_t)value;
    return 0;
}

static int size(struct parser *p, const struct field *f, uint64_t *out)
{
    static const struct {
        const char *unit;
        int shift;
    } units[] = {{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
    char *end = NULL;
    errno = 0;
    unsigned long long value = isdigit((unsigned char)*f->value) ? strtoull(f->value, &end, 10) : 0;
    for (size_t i = 0; end && !errno && i < sizeof(units) / sizeof(*units); i++) {
        if (strcmp(end, units[i].unit) == 0 && value <= UINT64_MAX >> (units[i].shift + 8)) {
            *out = (uint64_t)value << units[i].shift;
            return 0;
        }
    }
    return fail(p, "%s=%s: a size is a whole number with KiB, MiB, GiB or TiB, as in 40GiB", f->key,
                f->value);
}

static int duration(struct parser *p, const struct field *f, uint64_t *ns)
{
    unsigned value;
    char unit[3];
    int n = 0;
    if (isdigit((unsigned char)*f->value) &&
        sscanf(f->value, "%9u%2[mus]%n", &value, unit, &n) == 2 && !f->value[n] && value) {
        if (strcmp(unit, "ms") == 0) {
            *ns = value * 1000000ull;
            return 0;
        }
        if (strcmp(unit, "us") == 0) {
            *ns = value * 1000ull;
            return 0;
        }
    }
    return fail(p, "%s=%s: a time is a whole number with us or ms, as in 2ms", f->key, f->value);
}

/* MAJOR.MINOR */
static int version(struct parser *p, const struct field *f, uint32_t *major, uint32_t *minor)
{
    int n = 0;
    if (!isdigit((unsigned char)*f->value) ||
        sscanf(f->value, "%3u.%2u%n", major, minor, &n) != 2 || f->value[n])
        return fail(p, "%s=%s: MAJOR.MINOR is needed, as in 8.0", f->key, f->value);
    return 0;
}

static int string(struct parser *p, const struct field *f, char *out, size_t room)
{
    size_t n = strlen(f->value);
    if (n >= room)
        return fail(p, "%s=: at most %zu characters are allowed", f->key, room - 1);
    memcpy(out, f->value, n + 1);
    return 0;
}

/* One of two or three words, a list that ends with NULL; *out is its place. */
static int choice(struct parser *p, const struct field *f, const char *const words[], uint32_t *out)
{
    for (uint32_t i = 0; words[i]; i++) {
        if (strcmp(f->value, words[i]) == 0) {
            *out = i;
            return 0;
        }
    }
    bool three = words[2];
    return fail(p, "%s=%s: %s%s%s or %s is needed", f->key, f->value, words[0], three ? ", " : "",
                three ? words[1] : "", three ? words[2] : words[1]);
}

/* "0,2,4-7" into a set of GPU indices, up to `end` (a terminator that may be ':' or 0). */
static int list(struct parser *p, const char *key, const char **text, uint32_t *set)
{
    const char *s = *text;
    *set = 0;
    do {
        unsigned from, to;
        int n = 0;
        if (!isdigit((unsigned char)*s) || sscanf(s, "%4u%n", &from, &n) != 1)
            return fail(p, "%s=%s: a list of GPUs is needed, as in 0,2,4-7", key, *text);
        s += n;
        to = from;
        if (*s == '-') {
            if (!isdigit((unsigned char)s[1]) || sscanf(s + 1, "%4u%n", &to, &n) != 1)
                return fail(p, "%s=%s: a range is written FIRST-LAST", key, *text);
            s += 1 + n;
        }
        if (to < from || to >= GPUSIM_MAX_GPUS)
            return fail(p, "%s=%s: GPUs are numbered from 0 to %d, ranges upwards", key, *text,
                        GPUSIM_MAX_GPUS - 1);
        for (unsigned i = from; i <= to; i++)
            *set |= 1u << i;
    } while (*s++ == ',');
    *text = s - 1;
    return 0;
}

static int whole_list(struct parser *p, const struct field *f, uint32_t *set)
{
    const char *s = f->value;
    if (list(p, f->key, &s, set))
        return -1;
    return *s ? fail(p, "%s=%s: a list of GPUs is needed, as in 0,2,4-7", f->key, f->value) : 0;
}

/* LIST or LIST:LIST. */
static int pairs(struct parser *p, const struct field *f, uint32_t *left, uint32_t *right)
{
    const char *s = f->value;
    if (list(p, f->key, &s, left))
        return -1;
    *right = *left;
    if (*s == ':') {
        s++;
        if (list(p, f->key, &s, right))
            return -1;
    }
    if (*s)
        return fail(p, "%s=%s: pairs are written LIST or LIST:LIST, as in 0-3:4-7", f->key,
                    f->value);
    if (!(*left & (*left - 1)) && *left == *right)
        return fail(p, "%s=%s: a pair needs two GPUs", f->key, f->value);
    return 0;
}

/* --- GPUs ----------------------------------------------------------------------------------- */

static int pci(struct parser *p, const struct field *f, struct gpusim_gpu_spec *gpu)
{
    int n = 0;
    if (sscanf(f->value, "%8x:%2x:%2x.0%n", &gpu->pci_domain, &gpu->pci_bus, &gpu->pci_device,
               &n) != 3 ||
        !n || f->value[n] || !isxdigit((unsigned char)*f->value) || gpu->pci_device > 31)
        return fail(p, "pci=%s: DOMAIN:BUS:DEVICE.0 is needed, as in 0000:41:00.0", f->value);
    return 0;
}

static int uuid(struct parser *p, const struct field *f, struct gpusim_gpu_spec *gpu)
{
    const char *s = f->value;
    bool right = strncmp(s, "GPU-", 4) == 0 && strlen(s) == 40;
    for (int i = 0, at = 4; right && i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            right = s[at++] == '-';
        unsigned byte = 0;
        right = right && isxdigit((unsigned char)s[at]) && isxdigit((unsigned char)s[at + 1]) &&
                sscanf(s + at, "%2x", &byte) == 1;
        gpu->uuid_bytes[i] = (uint8_t)byte;
        at += 2;
    }
    if (!right)
        return fail(p, "uuid=%s: GPU- and 32 hexadecimal digits in groups of 8-4-4-4-12 are needed",
                    s);
    return 0;
}

static void format_uuid(struct gpusim_gpu_spec *gpu)
{
    char *s = gpu->uuid + sprintf(gpu->uuid, "GPU-");
    for (int i = 0; i < 16; i++)
        s += sprintf(s, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                     gpu->uuid_bytes[i]);
}

/* --- keys of a gpu= line: each sets something of GPU i ------------------------------------- */

static struct gpusim_gpu_spec *spec(struct parser *p, int i)
{
    return &p->machine->gpus[i];
}

static int set_name(struct parser *p, const struct field *f, int i)
{
    return string(p, f, spec(p, i)->name, sizeof(spec(p, i)->name));
}

static int set_memory(struct parser *p, const struct field *f, int i)
{
    return size(p, f, &spec(p, i)->memory);
}

static int set_sms(struct parser *p, const struct field *f, int i)
{
    return number32(p, f, 1, 1024, &spec(p, i)->sms);
}

static int set_cc(struct parser *p, const struct field *f, int i)
{
    return version(p, f, &spec(p, i)->cc_major, &spec(p, i)->cc_minor);
}

static int set_bandwidth(struct parser *p, const struct field *f, int i)
{
    uint64_t value;
    if (number(p, f->key, f->value, 1, 100000, &value))
        return -1;
    spec(p, i)->bandwidth = value * 1000000000ull;
    return 0;
}

static int set_numa(struct parser *p, const struct field *f, int i)
{
    uint64_t value = 0;
    bool none = strcmp(f->value, "-1") == 0;
    if (!none && number(p, f->key, f->value, 0, 1023, &value))
        return -1;
    spec(p, i)->numa = none ? -1 : (int32_t)value;
    return 0;
}

static int set_cpus(struct parser *p, const struct field *f, int i)
{
    return string(p, f, spec(p, i)->cpus, sizeof(spec(p, i)->cpus));
}

static int set_pcie_gen(struct parser *p, const struct field *f, int i)
{
    return number32(p, f, 1, 6, &spec(p, i)->pcie_gen);
}

static int set_pcie_width(struct parser *p, const struct field *f, int i)
{
    return number32(p, f, 1, 16, &spec(p, i)->pcie_width);
}

static int set_pci(struct parser *p, const struct field *f, int i)
{
    p->has_pci[i] = true;
    return pci(p, f, spec(p, i));
}

static int set_uuid(struct parser *p, const struct field *f, int i)
{
    p->has_uuid[i] = true;
    return uuid(p, f, spec(p, i));
}

static int set_serial(struct parser *p, const struct field *f, int i)
{
    p->has_serial[i] = true;
    return string(p, f, spec(p, i)->serial, sizeof(spec(p, i)->serial));
}

static int set_minor(struct parser *p, const struct field *f, int i)
{
    p->has_minor[i] = true;
    return number32(p, f, 0, 1023, &spec(p, i)->minor);
}

static const char *const off_on[] = {"off", "on", NULL};

static int set_persistence(struct parser *p, const struct field *f, int i)
{
    return choice(p, f, off_on, &spec(p, i)->persistence);
}

static int set_mig(struct parser *p, const struct field *f, int i)
{
    return choice(p, f, off_on, &spec(p, i)->mig);
}

static int set_compute(struct parser *p, const struct field *f, int i)
{
    static const char *const modes[] = {"default", "exclusive", "prohibited", NULL};
    return choice(p, f, modes, &spec(p, i)->compute);
}

static const struct gpu_key {
    const char *name;
    bool own; /* belongs to one GPU */
    int (*set)(struct parser *p, const struct field *f, int i);
} gpu_keys[] = {
    {"name", false, set_name},
    {"memory", false, set_memory},
    {"sms", false, set_sms},
    {"cc", false, set_cc},
    {"bandwidth", false, set_bandwidth},
    {"numa", false, set_numa},
    {"cpus", false, set_cpus},
    {"pciegen", false, set_pcie_gen},
    {"pciewidth", false, set_pcie_width},
    {"pci", true, set_pci},
    {"uuid", true, set_uuid},
    {"serial", true, set_serial},
    {"minor", true, set_minor},
    {"persistence", false, set_persistence},
    {"compute", false, set_compute},
    {"mig", false, set_mig},
};

static int gpu_field(struct parser *p, const struct field *f, int i, bool single)
{
    for (size_t k = 0; k < sizeof(gpu_keys) / sizeof(*gpu_keys); k++) {
        if (strcmp(f->key, gpu_keys[k].name) != 0)
            continue;
        if (gpu_keys[k].own && !single)
            return fail(p, "%s= belongs to one GPU, but the line is about several", f->key);
        return gpu_keys[k].set(p, f, i);
    }
    return fail(p,
                "unknown key %s=; a gpu= line knows name, memory, sms, cc, bandwidth, numa, cpus, "
                "pciegen, pciewidth, persistence, compute, mig, pci, uuid, serial, minor",
                f->key);
}

static int gpu_line(struct parser *p)
{
    uint32_t set;
    if (whole_list(p, &p->fields[0], &set))
        return -1;
    bool single = !(set & (set - 1));
    for (int i = 0; i < GPUSIM_MAX_GPUS; i++) {
        if (!(set >> i & 1))
            continue;
        p->seen[i] = true;
        for (int k = 1; k < p->n_fields; k++)
            if (gpu_field(p, &p->fields[k], i, single))
                return -1;
    }
    return 0;
}

/* --- other lines ---------------------------------------------------------------------------- */

static int machine_line(struct parser *p)
{
    if (p->named)
        return fail(p, "machine= may be given only once");
    p->named = true;
    if (string(p, &p->fields[0], p->machine->name, sizeof(p->machine->name)))
        return -1;
    for (int k = 1; k < p->n_fields; k++) {
        const struct field *f = &p->fields[k];
        uint32_t major, minor;
        int rc;
        if (strcmp(f->key, "driver") == 0) {
            rc = string(p, f, p->machine->driver, sizeof(p->machine->driver));
        } else if (strcmp(f->key, "cuda") == 0) {
            rc = version(p, f, &major, &minor);
            if (rc == 0)
                p->machine->cuda = (int32_t)(major * 1000 + minor * 10);
        } else if (strcmp(f->key, "timeslice") == 0) {
            rc = duration(p, f, &p->machine->timeslice_ns);
        } else if (strcmp(f->key, "context") == 0) {
            rc = size(p, f, &p->machine->context_bytes);
        } else {
            rc = fail(p, "unknown key %s=; a machine= line knows driver, cuda, timeslice, context",
                      f->key);
        }
        if (rc)
            return -1;
    }
    return 0;
}

/* The keys count= and version= of a link= or switch= line. */
static int link_keys(struct parser *p, uint32_t *count, uint32_t *generation)
{
    *count = *generation = 0;
    for (int k = 1; k < p->n_fields; k++) {
        const struct field *f = &p->fields[k];
        int rc;
        if (strcmp(f->key, "count") == 0)
            rc = number32(p, f, 1, GPUSIM_MAX_LINKS, count);
        else if (strcmp(f->key, "version") == 0)
            rc = number32(p, f, 1, 5, generation);
        else
            rc = fail(p, "unknown key %s=; a %s= line knows count and version", f->key,
                      p->fields[0].key);
        if (rc)
            return -1;
    }
    if (!*count || !*generation)
        return fail(p, "a %s= line needs count= and version=", p->fields[0].key);
    return 0;
}

static void set_pairs(struct parser *p, uint32_t left, uint32_t right, struct gpusim_pair value)
{
    for (int a = 0; a < GPUSIM_MAX_GPUS; a++) {
        for (int b = 0; b < GPUSIM_MAX_GPUS; b++) {
            if (a == b || !(left >> a & 1) || !(right >> b & 1))
                continue;
            struct gpusim_pair *both[] = {&p->machine->pairs[a][b], &p->machine->pairs[b][a]};
            for (int k = 0; k < 2; k++) {
                if (value.links) {
                    both[k]->links = value.links;
                    both[k]->version = value.version;
                }
                if (value.pcie)
                    both[k]->pcie = value.pcie;
            }
        }
    }
}

static int link_line(struct parser *p)
{
    uint32_t left, right, count, generation;
    if (pairs(p, &p->fields[0], &left, &right) || link_keys(p, &count, &generation))
        return -1;
    set_pairs(p, left, right,
              (struct gpusim_pair){.links = (uint8_t)count, .version = (uint8_t)generation});
    return 0;
}

static int switch_line(struct parser *p)
{
    uint32_t set, count, generation;
    if (whole_list(p, &p->fields[0], &set) || link_keys(p, &count, &generation))
        return -1;
    for (int i = 0; i < GPUSIM_MAX_GPUS; i++) {
        if (set >> i & 1) {
            p->machine->gpus[i].switch_links = count;
            p->machine->gpus[i].switch_version = generation;
        }
    }
    return 0;
}

static int pcie_line(struct parser *p)
{
    static const struct {
        const char *name;
        enum gpusim_pcie level;
    } levels[] = {{"PIX", GPUSIM_PIX},
                  {"PXB", GPUSIM_PXB},
                  {"PHB", GPUSIM_PHB},
                  {"NODE", GPUSIM_NODE},
                  {"SYS", GPUSIM_SYS}};
    uint32_t left, right;
    if (pairs(p, &p->fields[0], &left, &right))
        return -1;
    if (p->n_fields != 2 || strcmp(p->fields[1].key, "level") != 0)
        return fail(p, "a pcie= line needs level= and nothing else");
    for (size_t i = 0; i < sizeof(levels) / sizeof(*levels); i++) {
        if (strcmp(p->fields[1].value, levels[i].name) == 0) {
            set_pairs(p, left, right, (struct gpusim_pair){.pcie = (uint8_t)levels[i].level});
            return 0;
        }
    }
    return fail(p, "level=%s: PIX, PXB, PHB, NODE or SYS is needed", p->fields[1].value);
}

static int statement(struct parser *p)
{
    const char *key = p->fields[0].key;
    if (strcmp(key, "machine") == 0)
        return machine_line(p);
    if (!p->named)
        return fail(p, "the first statement must be machine=NAME");
    if (strcmp(key, "gpu") == 0)
        return gpu_line(p);
    if (strcmp(key, "link") == 0)
        return link_line(p);
    if (strcmp(key, "switch") == 0)
        return switch_line(p);
    if (strcmp(key, "pcie") == 0)
        return pcie_line(p);
    return fail(p, "a statement cannot begin with %s=; machine, gpu, link, switch and pcie can",
                key);
}

/* --- lines ---------------------------------------------------------------------------------- */

/* Cut the line into fields, in place. */
static int split(struct parser *p, char *s)
{
    p->n_fields = 0;
    for (;;) {
        while (*s == ' ' || *s == '\t' || *s == '\r')
            s++;
        if (!*s || *s == '#')
            return 0;
        if (p->n_fields == MAX_FIELDS)
            return fail(p, "at most %d keys are allowed on a line", MAX_FIELDS);
        struct field *f = &p->fields[p->n_fields];
        f->key = s;
        while (islower((unsigned char)*s))
            s++;
        if (s == f->key || *s != '=')
            return fail(p, "key=value with a lower-case key is needed at \"%.20s\"", f->key);
        *s++ = 0;
        bool quoted = *s == '"';
        f->value = quoted ? ++s : s;
        while (*s && (quoted ? *s != '"' : !strchr(" \t\r", *s)))
            s++;
        if (quoted && *s != '"')
            return fail(p, "%s=: the closing quote is missing", f->key);
        if (s == f->value && strcmp(f->key, "cpus") != 0)
            return fail(p, "%s= needs a value", f->key);
        if (*s)
            *s++ = 0;
        if (quoted && *s && !strchr(" \t\r", *s))
            return fail(p, "%s=: a blank must follow the closing quote", f->key);
        for (int i = 0; i < p->n_fields; i++)
            if (strcmp(p->fields[i].key, f->key) == 0)
                return fail(p, "%s= is given twice on the line", f->key);
        p->n_fields++;
    }
}

/* A number made from a name that is stable and differs between GPUs and machines (FNV-1a). */
static uint64_t hash(const char *name, uint64_t index)
{
    uint64_t h = 0xcbf29ce484222325ull;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3ull;
    for (int i = 0; i < 8; i++)
        h = (h ^ (index >> (8 * i) & 255)) * 0x100000001b3ull;
    return h ^ h >> 29;
}

static void gpu_defaults(struct parser *p, int i)
{
    struct gpusim_gpu_spec *gpu = &p->machine->gpus[i];
    const char *name = p->machine->name;
    if (!p->has_pci[i])
        gpu->pci_bus = 0x11 + (uint32_t)i;
    if (!p->has_minor[i])
        gpu->minor = (uint32_t)i;
    if (!p->has_serial[i])
        snprintf(gpu->serial, sizeof(gpu->serial), "%013llu",
                 (unsigned long long)(hash(name, 1000u + i) % 1000000000000));
    if (!p->has_uuid[i]) {
        for (int k = 0; k < 16; k++)
            gpu->uuid_bytes[k] = (uint8_t)(hash(name, (uint64_t)i * 16 + k + 1) >> 13);
    }
    format_uuid(gpu);
}

static int same_twice(struct parser *p, const struct gpusim_gpu_spec *a,
                      const struct gpusim_gpu_spec *b, int i, int k)
{
    if (a->pci_domain == b->pci_domain && a->pci_bus == b->pci_bus &&
        a->pci_device == b->pci_device)
        return fail(p, "GPUs %d and %d have the same pci=", i, k);
    if (memcmp(a->uuid_bytes, b->uuid_bytes, 16) == 0)
        return fail(p, "GPUs %d and %d have the same uuid=", i, k);
    if (a->minor == b->minor)
        return fail(p, "GPUs %d and %d have the same minor=", i, k);
    return 0;
}

/* How many NVLinks GPU i has in all. */
static uint32_t links_of(const struct gpusim_machine *machine, int i)
{
    uint32_t sum = machine->gpus[i].switch_links;
    for (int k = 0; k < GPUSIM_MAX_GPUS; k++)
        sum += machine->pairs[i][k].links;
    return sum;
}

static int finish(struct parser *p)
{
    struct gpusim_machine *machine = p->machine;
    if (!p->named)
        return fail(p, "the file has no machine= statement");
    for (int i = 0; i < GPUSIM_MAX_GPUS; i++) {
        struct gpusim_gpu_spec *gpu = &machine->gpus[i];
        if (!p->seen[i]) {
            if (links_of(machine, i))
                return fail(p, "GPU %d has links but no gpu= line", i);
            continue;
        }
        if (machine->n_gpus != (uint32_t)i)
            return fail(p, "GPU %d is described but GPU %u is not", i, machine->n_gpus);
        machine->n_gpus++;
        if (!gpu->name[0] || !gpu->memory || !gpu->sms)
            return fail(p, "GPU %d needs name=, memory= and sms=", i);
        if (links_of(machine, i) > GPUSIM_MAX_LINKS)
            return fail(p, "GPU %d has %u NVLinks; at most %d are possible", i,
                        links_of(machine, i), GPUSIM_MAX_LINKS);
        gpu_defaults(p, i);
    }
    if (!machine->n_gpus)
        return fail(p, "the file has no gpu= line");
    for (int i = 0; i < (int)machine->n_gpus; i++) {
        for (int k = 0; k < (int)machine->n_gpus; k++) {
            struct gpusim_pair *pair = &machine->pairs[i][k];
            if (k < i && same_twice(p, &machine->gpus[k], &machine->gpus[i], k, i))
                return -1;
            if (!pair->pcie && i != k)
                pair->pcie =
                    machine->gpus[i].numa == machine->gpus[k].numa ? GPUSIM_NODE : GPUSIM_SYS;
        }
    }
    return 0;
}

static int parse(struct parser *p, char *text, size_t length)
{
    for (char *s = text, *end = text + length; s < end;) {
        char *eol = memchr(s, '\n', (size_t)(end - s));
        if (!eol)
            eol = end;
        *eol = 0;
        p->line++;
        if (strlen(s) != (size_t)(eol - s))
            return fail(p, "the line contains a zero byte");
        if (split(p, s) || (p->n_fields && statement(p)))
            return -1;
        s = eol + 1;
    }
    return finish(p);
}

int gpusim_machine_parse(const char *text, size_t length, const char *name,
                         struct gpusim_machine *machine, struct gpusim_error *err)
{
    *machine = (struct gpusim_machine){.driver = "580.65.06",
                                       .cuda = 13000,
                                       .timeslice_ns = 2000000,
                                       .context_bytes = 256ull << 20};
    for (int i = 0; i < GPUSIM_MAX_GPUS; i++) {
        machine->gpus[i] = (struct gpusim_gpu_spec){.cc_major = 8,
                                                    .bandwidth = 1500000000000ull,
                                                    .pcie_gen = 4,
                                                    .pcie_width = 16,
                                                    .persistence = 1};
    }
    if (length > MAX_FILE)
        return gpusim_errorf(err, "%s: a machine file has at most %u bytes", name, MAX_FILE);
    char *copy = malloc(length + 1);
    if (!copy)
        return gpusim_errorf(err, "%s: out of memory", name);
    memcpy(copy, text, length);
    copy[length] = 0;
    struct parser p = {.file = name, .err = err, .machine = machine};
    int rc = parse(&p, copy, length);
    free(copy);
    return rc;
}

int gpusim_machine_read(const char *path, struct gpusim_machine *machine, struct gpusim_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return gpusim_errorf(err, "%s: %s", path, strerror(errno));
    char *text = malloc(MAX_FILE + 1);
    size_t length = 0;
    ssize_t n = text ? 1 : -1;
    while (n > 0 && length <= MAX_FILE) {
        n = read(fd, text + length, MAX_FILE + 1 - length);
        length += n > 0 ? (size_t)n : 0;
    }
    int rc = n < 0 ? gpusim_errorf(err, "%s: %s", path, strerror(errno))
                   : gpusim_machine_parse(text, length, path, machine, err);
    free(text);
    close(fd);
    return rc;
}

uint32_t gpusim_machine_links(const struct gpusim_machine *machine, uint32_t a, uint32_t b)
{
    if (a == b)
        return 0;
    if (machine->pairs[a][b].links)
        return machine->pairs[a][b].links;
    uint32_t left = machine->gpus[a].switch_links, right = machine->gpus[b].switch_links;
    return left < right ? left : right;
}
