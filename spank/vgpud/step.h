/* step.h - a bound step: a folder with the socket that its processes attach at. */
#ifndef VGPUD_STEP_H
#define VGPUD_STEP_H

#include "daemon.h"

/* Make the step and its folder. vgpus: ids in rank order. NULL with err. */
struct step *step_make(struct daemon *daemon, const struct vgpu_bind_request *request, pid_t holder,
                       const uint64_t *vgpus, uint32_t n, vgpu_error_t *err);

/* Take up a step from its record after a restart: a new socket in its folder. NULL with err. */
struct step *step_take_up(struct daemon *daemon, struct step_record *record, vgpu_error_t *err);

struct step *step_find(struct daemon *daemon, uint32_t job, uint32_t step);

/* Its folder as the job's node sees it. */
void step_path(const struct step *step, char *path, size_t size);

/* The step is over: nobody attaches any more. */
void step_destroy(struct step *step);

/* Remove the folder of a step that has no record. */
void step_remove_leftover(struct daemon *daemon, const char *name);

#endif
