/* log.c - one line per event, to the journal or on stderr. */
#include "log.h"

#include "journal.h"

#include "proto/wire.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static bool for_journal;

void log_init(void)
{
    for_journal = getenv("JOURNAL_STREAM") != NULL;
    journal_open();
    setvbuf(stderr, NULL, _IOLBF, 1024);
}

/* step: "5.0" and so on, or NULL. */
static void write_line(enum log_level level, uint32_t job, const char *step, const char *format,
                       va_list args)
{
    char text[1024];
    int n = step ? snprintf(text, sizeof text, "job %s: ", step) : 0;
    vsnprintf(text + n, sizeof text - (size_t)n, format, args);
    if (journal_send((int)level, text, job, step))
        return;
    if (for_journal)
        fprintf(stderr, "<%d>%s\n", level, text);
    else
        fprintf(stderr, "vgpud: %s\n", text);
}

void log_line(enum log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(level, 0, NULL, format, args);
    va_end(args);
}

void log_step(enum log_level level, uint32_t job, uint32_t step, const char *format, ...)
{
    char name[24];
    va_list args;
    va_start(args, format);
    write_line(level, job, step_name(job, step, name), format, args);
    va_end(args);
}

const char *step_name(uint32_t job, uint32_t step, char *text)
{
    /* Slurm's numbers for the steps that have names. */
    static const struct {
        uint32_t step;
        const char *name;
    } special[] = {{0xfffffffau, "interactive"}, {0xfffffffbu, "batch"}, {0xfffffffcu, "extern"}};

    if (step == VGPU_NO_STEP) {
        snprintf(text, 24, "%u", job);
        return text;
    }
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (step == special[i].step) {
            snprintf(text, 24, "%u.%s", job, special[i].name);
            return text;
        }
    snprintf(text, 24, "%u.%u", job, step);
    return text;
}
