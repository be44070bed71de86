/* journal.h - journald's own protocol: a datagram of fields, so that a line can be found by its
 * job. */
#ifndef VGPUD_JOURNAL_H
#define VGPUD_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

/* To be called once. Without it, or where stderr is not the journal or its socket cannot be
 * reached, journal_send sends nothing. */
void journal_open(void);

/* Send one line. step_name "5.0", or NULL for a line about no job. False: it has to be said
 * elsewhere. */
bool journal_send(int priority, const char *text, uint32_t job, const char *step_name);

#endif
