/* log.h - one line per event, with the job and step it is about: to the journal, in fields of their
 * own, where stderr is the journal; else on stderr. */
#ifndef VGPUD_LOG_H
#define VGPUD_LOG_H

#include <stdint.h>

/* The priorities of syslog. */
enum log_level { LOG_ERR = 3, LOG_WARNING = 4, LOG_INFO = 6 };

/* Call once at start. If below systemd the journal's socket cannot be reached, each line gets its
 * priority in the form that journald reads. */
void log_init(void);

void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same with "job 5.0: " before it; Slurm's special steps by name. step VGPU_NO_STEP: the job as
 * a whole. */
void log_step(enum log_level level, uint32_t job, uint32_t step, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* "5.0", "5.batch" or "5" into text (at least 24 bytes); returns text. */
const char *step_name(uint32_t job, uint32_t step, char *text);

#define log_error(...)   log_line(LOG_ERR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_WARNING, __VA_ARGS__)
#define log_info(...)    log_line(LOG_INFO, __VA_ARGS__)

#endif
