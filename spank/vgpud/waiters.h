/* waiters.h - answers that wait for the driver, or for a job to be gone. */
#ifndef VGPUD_WAITERS_H
#define VGPUD_WAITERS_H

#include "daemon.h"

void waiters_init(struct daemon *daemon);

/* The GPU has a new sample, or something has ended: answer what can be answered. */
void waiters_look(struct daemon *daemon);

/* Is nothing of the job left, but its vGPUs? */
bool job_is_quiet(const struct daemon *daemon, uint32_t job);

/* The job is over, whatever is left of it. */
void unbind_job(struct daemon *daemon, uint32_t job);

/* The answers themselves; `fresh`: the sample is as new as was asked for. */
void answer_list(struct conn *conn);
void answer_measure(struct conn *conn, bool fresh);
void answer_unbind_job(struct conn *conn);

#endif
