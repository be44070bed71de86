/* lead.h - local task 0 speaks for all tasks of its step on this node; the others wait for it, so
 * that its sentence is the first thing that the user reads. */
#ifndef VGPU_LEAD_H
#define VGPU_LEAD_H

#include <stdatomic.h>

enum lead_word { LEAD_SILENT, LEAD_GO, LEAD_STOP };

/* A word that the tasks forked later share. NULL without memory: then nobody waits. */
_Atomic int *lead_create(void);

void lead_say(_Atomic int *lead, enum lead_word word);

/* What task 0 said; LEAD_SILENT if nothing within deadline_ms. */
enum lead_word lead_wait(const _Atomic int *lead, int deadline_ms);

#endif
