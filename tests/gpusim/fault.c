/* fault.c - reading the faults file and telling which call is to fail (fault.h). */
#include "fault.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum fault_type { FAIL, HIDE, XID, RELEASE, VALUE };

struct gpusim_fault {
    struct gpusim_fault *next;
    enum fault_type type;
    char name[80];
    unsigned long first, last; /* uses that fail */
    unsigned long used;
    unsigned number; /* code; XID; ms */
    unsigned gpu;
    uint64_t value;
    bool garbage;
};

/* --- parsing -------------------------------------------------------------------------------- */

/* The next word of *text is a number. */
static bool take_number(char **text, const char *suffix, unsigned long *value)
{
    char *word = strsep(text, " \t"), *end;
    if (!word || *word < '0' || *word > '9')
        return false;
    errno = 0;
    *value = strtoul(word, &end, 10);
    return !errno && strcmp(end, suffix) == 0;
}

static bool take_word(char **text, const char *word)
{
    size_t n = strlen(word);
    if (!*text || strncmp(*text, word, n) != 0 || ((*text)[n] && !strchr(" \t", (*text)[n])))
        return false;
    strsep(text, " \t");
    return true;
}

static bool take_name(char **text, char *name, size_t size)
{
    char *word = strsep(text, " \t");
    if (!word || !*word || strlen(word) >= size)
        return false;
    strcpy(name, word);
    return true;
}

static bool parse_fail(char *s, struct gpusim_fault *fault)
{
    unsigned long n, code;
    fault->type = FAIL;
    fault->first = 1;
    fault->last = ~0ul;
    if (!take_name(&s, fault->name, sizeof(fault->name)))
        return false;
    if (take_word(&s, "at")) {
        if (!take_number(&s, "", &n) || !n)
            return false;
        fault->first = fault->last = n;
    } else if (take_word(&s, "from")) {
        if (!take_number(&s, "", &n) || !n)
            return false;
        fault->first = n;
    }
    if (!take_word(&s, "with") || !take_number(&s, "", &code) || !code || code > 100000)
        return false;
    fault->number = (unsigned)code;
    fault->garbage = take_word(&s, "garbage");
    return !s;
}

/* KEY GPU VALUE */
static bool parse_value(char *s, struct gpusim_fault *fault)
{
    unsigned long gpu, value;
    fault->type = VALUE;
    if (!take_name(&s, fault->name, sizeof(fault->name)) || !take_number(&s, "", &gpu) ||
        gpu >= GPUSIM_MAX_GPUS || !take_number(&s, "", &value))
        return false;
    fault->gpu = (unsigned)gpu;
    fault->value = value;
    return !s;
}

static bool parse_line(char *s, struct gpusim_fault *fault)
{
    unsigned long gpu, number;
    if (take_word(&s, "fail"))
        return s && parse_fail(s, fault);
    if (take_word(&s, "hide")) {
        fault->type = HIDE;
        return s && take_name(&s, fault->name, sizeof(fault->name)) && !s;
    }
    if (take_word(&s, "xid")) {
        fault->type = XID;
        if (!take_number(&s, "", &gpu) || gpu >= GPUSIM_MAX_GPUS || !take_number(&s, "", &number) ||
            number > 1000)
            return false;
        fault->gpu = (unsigned)gpu;
        fault->number = (unsigned)number;
        return !s;
    }
    if (take_word(&s, "nvml"))
        return s && parse_value(s, fault);
    if (take_word(&s, "release")) {
        fault->type = RELEASE;
        if (!take_number(&s, "ms", &number) || number > 3600000)
            return false;
        fault->number = (unsigned)number;
        return !s;
    }
    return false;
}

static void free_list(struct gpusim_fault *list)
{
    while (list) {
        struct gpusim_fault *next = list->next;
        free(list);
        list = next;
    }
}

/* Cut comment and blanks; what remains may be empty. */
static char *trim(char *line)
{
    line[strcspn(line, "#\n")] = 0;
    line += strspn(line, " \t");
    for (size_t n = strlen(line); n && strchr(" \t\r", line[n - 1]); n--)
        line[n - 1] = 0;
    return line;
}

static struct gpusim_fault *parse(FILE *file, const char *path)
{
    struct gpusim_fault *list = NULL, **tail = &list;
    char line[512];
    for (int number = 1; fgets(line, sizeof(line), file); number++) {
        char *s = trim(line);
        if (!*s)
            continue;
        struct gpusim_fault *fault = calloc(1, sizeof(*fault));
        if (!fault || !parse_line(s, fault)) {
            fprintf(
                stderr,
                "%s:%d: a fault is \"fail NAME [at N|from N] with CODE [garbage]\", \"hide "
                "NAME\", \"xid GPU CODE\", \"nvml KEY GPU VALUE\" or \"release Nms\"; the file is "
                "ignored\n",
                path, number);
            free(fault);
            free_list(list);
            return NULL;
        }
        *tail = fault;
        tail = &fault->next;
    }
    return list;
}

/* --- applying ------------------------------------------------------------------------------- */

/* What concerns the machine, not a process, is done once per version of the file, by whoever reads
 * it first. */
static void apply(const struct gpusim_fault *list, uint64_t version, struct gpusim_state *state)
{
    uint64_t delay = 0;
    for (const struct gpusim_fault *f = list; f; f = f->next)
        if (f->type == RELEASE)
            delay = f->number * 1000000ull;
    gpusim_lock(state);
    bool first = state->faults_applied != version;
    state->faults_applied = version;
    state->release_delay_ns = delay;
    for (const struct gpusim_fault *f = list; f && first; f = f->next) {
        if (f->type == XID && f->gpu < state->machine.n_gpus) {
            struct gpusim_gpu *gpu = &state->gpus[f->gpu];
            gpu->last_xid = f->number;
            gpu->last_xid_time = gpusim_now();
            gpu->xids++;
        }
    }
    gpusim_unlock(state);
}

/* Identifies what the file contains; 0: there is none. */
static uint64_t version_of(const char *path)
{
    struct stat st;
    if (stat(path, &st))
        return 0;
    uint64_t h = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
    h = (h ^ (uint64_t)st.st_ino) * 0x9e3779b97f4a7c15ull;
    return (h ^ (uint64_t)st.st_size) | 1;
}

bool gpusim_faults_open(struct gpusim_faults *faults, const char *dir)
{
    snprintf(faults->path, sizeof(faults->path), "%s/faults", dir);
    pthread_mutex_init(&faults->lock, NULL);
    return access(faults->path, F_OK) == 0;
}

void gpusim_faults_refresh(struct gpusim_faults *faults, struct gpusim_state *state)
{
    pthread_mutex_lock(&faults->lock);
    uint64_t version = version_of(faults->path);
    if (version != faults->version) {
        FILE *file = version ? fopen(faults->path, "re") : NULL;
        free_list(faults->list);
        faults->list = file ? parse(file, faults->path) : NULL;
        faults->version = version;
        if (file)
            fclose(file);
    }
    if (state && version != state->faults_applied) /* also when the file went away */
        apply(faults->list, version, state);
    pthread_mutex_unlock(&faults->lock);
}

int gpusim_fault(struct gpusim_faults *faults, const char *call, bool *garbage)
{
    int code = 0;
    pthread_mutex_lock(&faults->lock);
    for (struct gpusim_fault *f = faults->list; f; f = f->next) {
        if (f->type != FAIL || strcmp(f->name, call) != 0)
            continue;
        f->used++;
        if (f->used >= f->first && f->used <= f->last && !code) {
            code = (int)f->number;
            *garbage = f->garbage;
        }
    }
    pthread_mutex_unlock(&faults->lock);
    return code;
}

bool gpusim_faults_value(struct gpusim_faults *faults, const char *key, uint32_t gpu,
                         uint64_t *value)
{
    bool found = false;
    pthread_mutex_lock(&faults->lock);
    for (struct gpusim_fault *f = faults->list; f && !found; f = f->next) {
        found = f->type == VALUE && f->gpu == gpu && strcmp(f->name, key) == 0;
        if (found)
            *value = f->value;
    }
    pthread_mutex_unlock(&faults->lock);
    return found;
}

bool gpusim_faults_hide(struct gpusim_faults *faults, const char *symbol)
{
    bool hidden = false;
    pthread_mutex_lock(&faults->lock);
    for (struct gpusim_fault *f = faults->list; f && !hidden; f = f->next)
        hidden = f->type == HIDE && strcmp(f->name, symbol) == 0;
    pthread_mutex_unlock(&faults->lock);
    return hidden;
}
