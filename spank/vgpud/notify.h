/* notify.h - tells systemd how we are, if it asks (NOTIFY_SOCKET). */
#ifndef VGPUD_NOTIFY_H
#define VGPUD_NOTIFY_H

#include <stdint.h>

/* Send e.g. "READY=1". Does nothing when nobody asks. */
void notify_send(const char *text);

/* How often to send "WATCHDOG=1", in ns: half of what systemd wants; 0: never. */
uint64_t notify_watchdog_ns(void);

#endif
