/* say.h - one sentence to the person at the terminal, on standard error. */
#ifndef VGPU_SHIM_SAY_H
#define VGPU_SHIM_SAY_H

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
