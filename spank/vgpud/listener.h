/* listener.h - listening sockets in the file system. */
#ifndef VGPUD_LISTENER_H
#define VGPUD_LISTENER_H

#include <sys/types.h>

/* A listening SEQPACKET socket with that name in the folder, taking the place of an older one.
 * Returns -1 with errno. */
int listener_make(int dir, const char *name, mode_t mode);

#endif
