/* conf.c - reads vgpu.conf (docs/vgpu.conf.md): every line is checked, what concerns the node is
 * kept. */
#include "proto/conf.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_LINE     4095
#define MAX_FILE     (64u << 20)
#define MAX_MINOR    1023
#define MAX_SMS      65535
#define MIN_SLICE_MS 5
#define MAX_SLICE_MS 1000
#define MAX_TIME_MS  3600000
#define MAX_BURST_MS 10000

#define DEFAULT_TOLERANCE    (64ull << 20)
#define DEFAULT_TOLERANCE_MS 1000
#define DEFAULT_SLICE_MS     10

/* The values that one line can have, whatever kind of line it is. */
struct values {
    uint32_t version, gpu, sms, max_sms;
    uint32_t slice_ms, tolerance_ms;
    uint64_t memory, reserve, tolerance;
    uint32_t first_slot, last_slot;
    uint32_t n_homes;
    uint16_t homes[VGPU_MAX_GPUS]; /* minor numbers */
    uint32_t time_ms, min_slice_ms, max_slice_ms;
    char type[VGPU_TYPE_MAX], uuid[48];
    const char *node, *qos, *partitions;
    int backstop;
    bool hard_cap;
};

struct reader {
    struct vgpu_conf *conf;
    const char *file;
    int line;
    bool has_version, has_backstop, has_slices;
    bool has_slot[VGPU_MAX_SLOTS];
    vgpu_error_t *err;
};

/* --- values ---------------------------------------------------------------------------------- */

static int parse_number(const char **text, uint32_t low, uint32_t high, uint32_t *number)
{
    char *end;
    if (!isdigit((unsigned char)**text))
        return -1;
    errno = 0;
    unsigned long value = strtoul(*text, &end, 10);
    if (errno || value < low || value > high)
        return -1;
    *text = end;
    *number = (uint32_t)value;
    return 0;
}

static int whole_number(const char *text, uint32_t low, uint32_t high, uint32_t *number,
                        vgpu_error_t *err)
{
    if (parse_number(&text, low, high, number) || *text)
        return vgpu_errorf(err, "a whole number from %u to %u is expected", low, high);
    return 0;
}

static int milliseconds(const char *text, uint32_t low, uint32_t high, uint32_t *number,
                        vgpu_error_t *err)
{
    if (parse_number(&text, low, high, number) || strcmp(text, "ms") != 0)
        return vgpu_errorf(err, "%ums to %ums is expected", low, high);
    return 0;
}

/* Index of the word among `words` (blank separated in the error), or -1. */
static int choice(const char *text, const char *const *words, int n, vgpu_error_t *err)
{
    char list[64] = "";
    for (int i = 0; i < n; i++) {
        if (strcmp(text, words[i]) == 0)
            return i;
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", words[i]);
    }
    return vgpu_errorf(err, "one of %s is expected", list);
}

static int set_version(struct values *v, const char *text, vgpu_error_t *err)
{
    return whole_number(text, VGPU_CONF_VERSION, VGPU_CONF_VERSION, &v->version, err);
}

static int set_backstop(struct values *v, const char *text, vgpu_error_t *err)
{
    static const char *const words[] = {"end", "warn", "off"};
    v->backstop = choice(text, words, 3, err);
    return v->backstop < 0 ? -1 : 0;
}

static int set_tolerance(struct values *v, const char *text, vgpu_error_t *err)
{
    return vgpu_size_parse(text, &v->tolerance, err);
}

static int set_tolerance_time(struct values *v, const char *text, vgpu_error_t *err)
{
    return milliseconds(text, 1, MAX_TIME_MS, &v->tolerance_ms, err);
}

static int set_type(struct values *v, const char *text, vgpu_error_t *err)
{
    size_t length = strlen(text);
    bool good = length > 0 && length < sizeof v->type;
    for (size_t i = 0; good && i < length; i++)
        good = isalnum((unsigned char)text[i]) || strchr("_-.", text[i]);
    if (!good)
        return vgpu_errorf(err, "1 to 63 letters, digits or _ - . are expected");
    memcpy(v->type, text, length + 1);
    return 0;
}

static int set_memory(struct values *v, const char *text, vgpu_error_t *err)
{
    if (vgpu_size_parse(text, &v->memory, err))
        return -1;
    return v->memory ? 0 : vgpu_errorf(err, "more than nothing is expected");
}

static int set_reserve(struct values *v, const char *text, vgpu_error_t *err)
{
    return vgpu_size_parse(text, &v->reserve, err);
}

static int set_sms(struct values *v, const char *text, vgpu_error_t *err)
{
    return whole_number(text, 1, MAX_SMS, &v->sms, err);
}

static int set_max_sms(struct values *v, const char *text, vgpu_error_t *err)
{
    return whole_number(text, 1, MAX_SMS, &v->max_sms, err);
}

static int set_slice(struct values *v, const char *text, vgpu_error_t *err)
{
    return milliseconds(text, MIN_SLICE_MS, MAX_SLICE_MS, &v->slice_ms, err);
}

static int set_slices(struct values *v, const char *text, vgpu_error_t *err)
{
    const char *p = text;
    if (parse_number(&p, MIN_SLICE_MS, MAX_SLICE_MS, &v->min_slice_ms) == 0 &&
        strncmp(p, "ms-", 3) == 0) {
        p += 3;
        if (parse_number(&p, v->min_slice_ms, MAX_SLICE_MS, &v->max_slice_ms) == 0 &&
            strcmp(p, "ms") == 0)
            return 0;
    }
    return vgpu_errorf(err, "a range within %dms-%dms is expected", MIN_SLICE_MS, MAX_SLICE_MS);
}

static int set_burst_time(struct values *v, const char *text, vgpu_error_t *err)
{
    return milliseconds(text, 1, MAX_BURST_MS, &v->time_ms, err);
}

static int set_list(const char **list, const char *text, vgpu_error_t *err)
{
    if (strlen(text) >= VGPU_PATH_MAX)
        return vgpu_errorf(err, "at most %d characters are expected", VGPU_PATH_MAX - 1);
    *list = text;
    return 0;
}

static int set_qos(struct values *v, const char *text, vgpu_error_t *err)
{
    return set_list(&v->qos, text, err);
}

static int set_partitions(struct values *v, const char *text, vgpu_error_t *err)
{
    return set_list(&v->partitions, text, err);
}

static int set_policy(struct values *v, const char *text, vgpu_error_t *err)
{
    static const char *const words[] = {"share", "cap"};
    int word = choice(text, words, 2, err);
    v->hard_cap = word == 1;
    return word < 0 ? -1 : 0;
}

static int set_node(struct values *v, const char *text, vgpu_error_t *err)
{
    v->node = text;
    return vgpu_hostlist_contains(text, "", err) < 0 ? -1 : 0;
}

static int set_gpu(struct values *v, const char *text, vgpu_error_t *err)
{
    return whole_number(text, 0, MAX_MINOR, &v->gpu, err);
}

static int set_uuid(struct values *v, const char *text, vgpu_error_t *err)
{
    static const char form[] = "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    bool good = strlen(text) == sizeof form - 1;
    for (size_t i = 0; good && form[i]; i++)
        good = form[i] == 'x' ? isxdigit((unsigned char)text[i]) : text[i] == form[i];
    if (!good)
        return vgpu_errorf(err, "%s with hexadecimal digits is expected", form);
    for (size_t i = 0; i < sizeof form; i++)
        v->uuid[i] = i < 4 ? text[i] : (char)tolower((unsigned char)text[i]);
    return 0;
}

static int set_slot(struct values *v, const char *text, vgpu_error_t *err)
{
    const char *p = text;
    if (parse_number(&p, 0, VGPU_MAX_SLOTS - 1, &v->first_slot) == 0) {
        v->last_slot = v->first_slot;
        if (*p == '\0')
            return 0;
        if (*p++ == '-' &&
            parse_number(&p, v->first_slot, VGPU_MAX_SLOTS - 1, &v->last_slot) == 0 && *p == '\0')
            return 0;
    }
    return vgpu_errorf(err, "an index or a range of indices from 0 to %d is expected",
                       VGPU_MAX_SLOTS - 1);
}

static int set_homes(struct values *v, const char *text, vgpu_error_t *err)
{
    const char *p = text;
    for (v->n_homes = 0; v->n_homes < VGPU_MAX_GPUS; p++) {
        uint32_t minor;
        if (parse_number(&p, 0, MAX_MINOR, &minor))
            break;
        v->homes[v->n_homes++] = (uint16_t)minor;
        if (*p == '\0')
            return 0;
        if (*p != ',')
            break;
    }
    return vgpu_errorf(err,
                       "up to %d minor numbers from 0 to %d, separated by commas, are expected",
                       VGPU_MAX_GPUS, MAX_MINOR);
}

/* --- lines ----------------------------------------------------------------------------------- */

static int fail(struct reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int fail(struct reader *r, const char *format, ...)
{
    char text[VGPU_ERROR_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return vgpu_errorf(r->err, "%s:%d: %s", r->file, r->line, text);
}

static int find_type(const struct vgpu_conf *conf, const char *name)
{
    for (uint32_t i = 0; i < conf->n_types; i++)
        if (strcmp(conf->types[i].name, name) == 0)
            return (int)i;
    return -1;
}

static int find_gpu(const struct vgpu_conf *conf, uint32_t minor)
{
    for (uint32_t i = 0; i < conf->n_gpus; i++)
        if (conf->gpus[i].minor == minor)
            return (int)i;
    return -1;
}

static int add_version(struct reader *r, const struct values *v)
{
    (void)v;
    if (r->has_version)
        return fail(r, "Version= is stated twice; once is right");
    r->has_version = true;
    return 0;
}

static int add_backstop(struct reader *r, const struct values *v)
{
    if (r->has_backstop)
        return fail(r, "Backstop= is stated twice; once is right");
    r->has_backstop = true;
    r->conf->backstop = v->backstop;
    r->conf->tolerance = v->tolerance;
    r->conf->tolerance_ms = v->tolerance_ms;
    return 0;
}

static int add_type(struct reader *r, const struct values *v)
{
    struct vgpu_conf *conf = r->conf;
    if (find_type(conf, v->type) >= 0)
        return fail(r, "Type=%s is there already; a name is used once", v->type);
    if (conf->n_types == VGPU_MAX_TYPES)
        return fail(r, "more than %d types", VGPU_MAX_TYPES);
    if (v->max_sms && v->max_sms < v->sms)
        return fail(r, "MaxSMs=%u is below SMs=%u; at least as many are expected", v->max_sms,
                    v->sms);
    struct vgpu_conf_type *type = &conf->types[conf->n_types++];
    memcpy(type->name, v->type, sizeof type->name);
    type->memory = v->memory;
    type->sms = v->sms;
    type->max_sms = v->max_sms ? v->max_sms : v->sms;
    type->slice_us = v->slice_ms * 1000;
    type->hard_cap = v->hard_cap;
    return 0;
}

static int add_slices(struct reader *r, const struct values *v)
{
    if (r->has_slices)
        return fail(r, "Slices= is stated twice; once is right");
    r->has_slices = true;
    r->conf->min_slice_us = v->min_slice_ms * 1000;
    r->conf->max_slice_us = v->max_slice_ms * 1000;
    return 0;
}

static int add_workload(struct reader *r, const struct values *v)
{
    struct vgpu_conf *conf = r->conf;
    if (vgpu_conf_workload(conf, v->type))
        return fail(r, "Workload=%s is there already; a name is used once", v->type);
    if (conf->n_workloads == VGPU_MAX_PRESETS)
        return fail(r, "more than %d workloads", VGPU_MAX_PRESETS);
    struct vgpu_conf_workload *workload = &conf->workloads[conf->n_workloads++];
    strcpy(workload->name, v->type);
    workload->slice_us = v->slice_ms * 1000;
    return 0;
}

static int add_burst(struct reader *r, const struct values *v)
{
    struct vgpu_conf *conf = r->conf;
    if (vgpu_conf_burst(conf, v->type))
        return fail(r, "Burst=%s is there already; a name is used once", v->type);
    if (conf->n_bursts == VGPU_MAX_PRESETS)
        return fail(r, "more than %d burst classes", VGPU_MAX_PRESETS);
    if (!v->qos && !v->partitions)
        return fail(r, "a Burst= line needs QOS= or Partition=, or no job would be of the class");
    struct vgpu_conf_burst *burst = &conf->bursts[conf->n_bursts++];
    strcpy(burst->name, v->type);
    burst->time_us = v->time_ms * 1000;
    strcpy(burst->qos, v->qos ? v->qos : "");
    strcpy(burst->partitions, v->partitions ? v->partitions : "");
    return 0;
}

static bool is_ours(const struct reader *r, const struct values *v)
{
    return vgpu_hostlist_contains(v->node, r->conf->node, NULL) == 1;
}

static int add_gpu(struct reader *r, const struct values *v)
{
    struct vgpu_conf *conf = r->conf;
    if (v->reserve >= v->memory)
        return fail(r, "Reserve= leaves nothing of Memory=; less is expected");
    if (!is_ours(r, v))
        return 0;
    if (find_gpu(conf, v->gpu) >= 0)
        return fail(r, "GPU=%u of node %s is there already; a GPU has one line", v->gpu,
                    conf->node);
    if (conf->n_gpus == VGPU_MAX_GPUS)
        return fail(r, "node %s has more than %d GPUs", conf->node, VGPU_MAX_GPUS);
    struct vgpu_conf_gpu *gpu = &conf->gpus[conf->n_gpus++];
    gpu->minor = v->gpu;
    gpu->memory = v->memory;
    gpu->reserve = v->reserve;
    gpu->sms = v->sms;
    memcpy(gpu->uuid, v->uuid, sizeof gpu->uuid);
    return 0;
}

static int add_slots(struct reader *r, const struct values *v)
{
    struct vgpu_conf *conf = r->conf;
    int type = find_type(conf, v->type);
    if (type < 0)
        return fail(r, "Type=%s is not known here; its Type= line comes before", v->type);
    if (!is_ours(r, v))
        return 0;
    for (uint32_t slot = v->first_slot; slot <= v->last_slot; slot++) {
        uint32_t minor = v->homes[(slot - v->first_slot) % v->n_homes];
        int gpu = find_gpu(conf, minor);
        if (gpu < 0)
            return fail(r, "GPU=%u of node %s is not known here; its line comes before its slots",
                        minor, conf->node);
        if (r->has_slot[slot])
            return fail(r, "Slot=%u of node %s is there already; a slot has one line", slot,
                        conf->node);
        r->has_slot[slot] = true;
        conf->slots[slot] = (struct vgpu_conf_slot){.type = (uint16_t)type, .gpu = (uint16_t)gpu};
        if (conf->n_slots <= slot)
            conf->n_slots = slot + 1;
    }
    return 0;
}

struct key {
    const char *name;
    int (*set)(struct values *, const char *, vgpu_error_t *);
    bool required;
};

struct kind {
    const char *name;
    int (*add)(struct reader *, const struct values *);
    struct key keys[8];
};

static const struct kind version_line = {"Version=", add_version, {{"Version", set_version, true}}};
static const struct kind backstop_line = {"Backstop=",
                                          add_backstop,
                                          {{"Backstop", set_backstop, true},
                                           {"Tolerance", set_tolerance, false},
                                           {"ToleranceTime", set_tolerance_time, false}}};
static const struct kind type_line = {"Type=",
                                      add_type,
                                      {{"Type", set_type, true},
                                       {"Memory", set_memory, true},
                                       {"SMs", set_sms, true},
                                       {"MaxSMs", set_max_sms, false},
                                       {"Slice", set_slice, false},
                                       {"Policy", set_policy, false}}};
static const struct kind slices_line = {"Slices=", add_slices, {{"Slices", set_slices, true}}};
static const struct kind workload_line = {
    "Workload=", add_workload, {{"Workload", set_type, true}, {"Slice", set_slice, true}}};
static const struct kind burst_line = {"Burst=",
                                       add_burst,
                                       {{"Burst", set_type, true},
                                        {"Time", set_burst_time, true},
                                        {"QOS", set_qos, false},
                                        {"Partition", set_partitions, false}}};
static const struct kind gpu_line = {"Node= GPU=",
                                     add_gpu,
                                     {{"Node", set_node, true},
                                      {"GPU", set_gpu, true},
                                      {"Memory", set_memory, true},
                                      {"Reserve", set_reserve, false},
                                      {"SMs", set_sms, true},
                                      {"UUID", set_uuid, false}}};
static const struct kind slot_line = {"Node= Slot=",
                                      add_slots,
                                      {{"Node", set_node, true},
                                       {"Slot", set_slot, true},
                                       {"Type", set_type, true},
                                       {"GPU", set_homes, true}}};

#define MAX_WORDS 8 /* of a line: more than any kind has keys */

/* Cut the line (it is changed) into at most MAX_WORDS "Key=Value" words. Returns their number, or
 * -1. */
static int split(struct reader *r, char *line, char **keys, char **values)
{
    int n = 0;
    for (char *p = line, *word; (word = strtok_r(p, " \t", &p)); n++) {
        char *equals = strchr(word, '=');
        if (!equals || equals == word || !equals[1])
            return fail(r, "\"%.60s\" is not Key=Value", word);
        if (n == MAX_WORDS)
            return fail(r, "more keys than any line has");
        *equals = '\0';
        keys[n] = word;
        values[n] = equals + 1;
    }
    return n;
}

/* What a line is, by its first key; a Node= line by whether it has a slot. */
static const struct kind *kind_of(char **keys, int n)
{
    static const struct kind *const kinds[] = {&version_line, &backstop_line, &type_line,
                                               &slices_line,  &workload_line, &burst_line};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcasecmp(keys[0], kinds[i]->keys[0].name) == 0)
            return kinds[i];
    if (strcasecmp(keys[0], "Node") != 0)
        return NULL;
    for (int i = 1; i < n; i++)
        if (strcasecmp(keys[i], "Slot") == 0)
            return &slot_line;
    return &gpu_line;
}

static int find_key(const struct kind *kind, const char *name)
{
    for (int i = 0; i < MAX_WORDS && kind->keys[i].name; i++)
        if (strcasecmp(kind->keys[i].name, name) == 0)
            return i;
    return -1;
}

static int unknown_key(struct reader *r, const struct kind *kind, const char *name)
{
    char allowed[128] = "";
    for (int i = 0; i < MAX_WORDS && kind->keys[i].name; i++) {
        size_t used = strlen(allowed);
        snprintf(allowed + used, sizeof allowed - used, "%s%s", i ? ", " : "", kind->keys[i].name);
    }
    return fail(r, "key \"%.40s\" does not belong on a %s line; its keys are %s", name, kind->name,
                allowed);
}

static int read_words(struct reader *r, const struct kind *kind, char **keys, char **values, int n)
{
    struct values v = {.tolerance = DEFAULT_TOLERANCE,
                       .tolerance_ms = DEFAULT_TOLERANCE_MS,
                       .slice_ms = DEFAULT_SLICE_MS};
    bool seen[MAX_WORDS] = {false};
    for (int i = 0; i < n; i++) {
        vgpu_error_t why;
        int key = find_key(kind, keys[i]);
        if (key < 0)
            return unknown_key(r, kind, keys[i]);
        if (seen[key])
            return fail(r, "key %s is there twice", kind->keys[key].name);
        seen[key] = true;
        if (kind->keys[key].set(&v, values[i], &why))
            return fail(r, "%s=%.60s: %s", kind->keys[key].name, values[i], why.text);
    }
    for (int i = 0; i < MAX_WORDS && kind->keys[i].name; i++)
        if (kind->keys[i].required && !seen[i])
            return fail(r, "a %s line needs %s=", kind->name, kind->keys[i].name);
    return kind->add(r, &v);
}

/* One line, NUL-terminated, which is changed. */
static int read_line(struct reader *r, char *line)
{
    char *keys[MAX_WORDS], *values[MAX_WORDS];
    line[strcspn(line, "#")] = '\0';
    for (const char *p = line; *p; p++)
        if (iscntrl((unsigned char)*p) && *p != '\t')
            return fail(r, "a control character (\\x%02x); lines end with a newline alone",
                        (unsigned char)*p);
    int n = split(r, line, keys, values);
    if (n <= 0)
        return n;
    const struct kind *kind = kind_of(keys, n);
    if (!kind)
        return fail(r,
                    "a line begins with Version=, Backstop=, Slices=, Workload=, Burst=, Type= or "
                    "Node=, not %.40s=",
                    keys[0]);
    if (!r->has_version && kind != &version_line)
        return fail(r, "the first line is Version=%d", VGPU_CONF_VERSION);
    return read_words(r, kind, keys, values, n);
}

static int read_lines(struct reader *r, const char *text, size_t length)
{
    char line[MAX_LINE + 1];
    const char *end = text + length;
    for (const char *p = text; p < end; r->line++) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        size_t size = (size_t)((newline ? newline : end) - p);
        if (size > MAX_LINE)
            return fail(r, "longer than %d bytes", MAX_LINE);
        if (memchr(p, '\0', size))
            return fail(r, "a zero byte");
        memcpy(line, p, size);
        line[size] = '\0';
        if (read_line(r, line))
            return -1;
        p += size + 1;
    }
    if (!r->has_version)
        return fail(r, "the first line is Version=%d", VGPU_CONF_VERSION);
    return 0;
}

/* --- the node as a whole --------------------------------------------------------------------- */

static int check_gpu(const struct reader *r, uint16_t gpu)
{
    const struct vgpu_conf *conf = r->conf;
    const struct vgpu_conf_gpu *card = &conf->gpus[gpu];
    uint64_t memory = card->memory - card->reserve;
    uint32_t sms = card->sms;
    for (uint32_t i = 0; i < conf->n_slots; i++) {
        const struct vgpu_conf_type *type = &conf->types[conf->slots[i].type];
        if (conf->slots[i].gpu != gpu)
            continue;
        if (type->memory > memory)
            return vgpu_errorf(
                r->err,
                "%s: node %s: the slots of GPU=%u have more memory than Memory= less "
                "Reserve=; slot %u (%s) does not fit",
                r->file, conf->node, card->minor, i, type->name);
        if (type->sms > sms)
            return vgpu_errorf(
                r->err,
                "%s: node %s: the slots of GPU=%u are guaranteed more than its %u SMs; "
                "slot %u (%s) does not fit",
                r->file, conf->node, card->minor, card->sms, i, type->name);
        memory -= type->memory;
        sms -= type->sms;
    }
    return 0;
}

static int check_node(const struct reader *r)
{
    const struct vgpu_conf *conf = r->conf;
    for (uint32_t i = 0; i < conf->n_slots; i++)
        if (!r->has_slot[i])
            return vgpu_errorf(r->err,
                               "%s: node %s has a slot %u but no slot %u; slots have no gaps",
                               r->file, conf->node, conf->n_slots - 1, i);
    for (uint16_t gpu = 0; gpu < conf->n_gpus; gpu++)
        if (check_gpu(r, gpu))
            return -1;
    return 0;
}

struct vgpu_conf *vgpu_conf_parse(const char *text, size_t length, const char *name,
                                  const char *node, vgpu_error_t *err)
{
    struct reader r = {.file = name, .line = 1, .err = err};

    if (strlen(node) >= sizeof r.conf->node) {
        vgpu_errorf(err, "node name \"%.70s\" is longer than %d characters", node,
                    VGPU_NAME_MAX - 1);
        return NULL;
    }
    r.conf = calloc(1, sizeof *r.conf);
    if (!r.conf) {
        vgpu_errorf(err, "%s: no memory", name);
        return NULL;
    }
    strcpy(r.conf->node, node);
    r.conf->backstop = VGPU_BACKSTOP_END;
    r.conf->tolerance = DEFAULT_TOLERANCE;
    r.conf->tolerance_ms = DEFAULT_TOLERANCE_MS;
    r.conf->min_slice_us = MIN_SLICE_MS * 1000;
    r.conf->max_slice_us = MAX_SLICE_MS * 1000;
    if (read_lines(&r, text, length) || check_node(&r)) {
        vgpu_conf_free(r.conf);
        return NULL;
    }
    return r.conf;
}

/* The whole of a regular file; NULL with err. */
static char *read_file(const char *path, size_t *length, vgpu_error_t *err)
{
    char *text = NULL;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st)) {
        vgpu_errorf(err, "%s: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode) || st.st_size > MAX_FILE) {
        vgpu_errorf(err, "%s: not a regular file of at most %u MiB", path, MAX_FILE >> 20);
    } else if (!(text = malloc((size_t)st.st_size + 1))) {
        vgpu_errorf(err, "%s: no memory", path);
    } else {
        ssize_t n = 0;
        for (*length = 0; *length < (size_t)st.st_size; *length += (size_t)n)
            if ((n = read(fd, text + *length, (size_t)st.st_size - *length)) <= 0)
                break;
        if (n < 0) {
            vgpu_errorf(err, "%s: %s", path, strerror(errno));
            free(text);
            text = NULL;
        }
    }
    if (fd >= 0)
        close(fd);
    return text;
}

struct vgpu_conf *vgpu_conf_read(const char *path, const char *node, vgpu_error_t *err)
{
    size_t length;
    char *text = read_file(path, &length, err);
    if (!text)
        return NULL;
    struct vgpu_conf *conf = vgpu_conf_parse(text, length, path, node, err);
    free(text);
    return conf;
}

void vgpu_conf_free(struct vgpu_conf *conf)
{
    free(conf);
}
