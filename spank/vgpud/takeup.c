/* takeup.c - a restarted vgpud takes up what the one before left. */
#include "takeup.h"

#include "log.h"
#include "process.h"
#include "step.h"
#include "vgpu.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- vGPUs ----------------------------------------------------------------------------------- */

static bool step_has(const struct step_record *step, uint64_t id)
{
    for (uint32_t i = 0; i < step->n_vgpus; i++)
        if (step->vgpus[i] == id)
            return true;
    return false;
}

static bool process_has(const struct process_record *process, uint64_t id)
{
    for (uint32_t i = 0; i < process->n_vgpus; i++)
        if (process->vgpus[i] == id)
            return true;
    return false;
}

/* The pids that may have the account of a vGPU: holders of its steps, and its processes. */
static size_t list_holders(const struct state *state, uint64_t id, int32_t *holders)
{
    size_t n = 0;
    for (size_t i = 0; i < STATE_STEPS; i++)
        if (state->steps[i].valid && step_has(&state->steps[i], id))
            holders[n++] = state->steps[i].holder;
    for (size_t i = 0; i < STATE_PROCESSES; i++)
        if (state->processes[i].valid && process_has(&state->processes[i], id))
            holders[n++] = state->processes[i].pid;
    return n;
}

static int take_up_vgpus(struct daemon *daemon, vgpu_error_t *err)
{
    static int32_t holders[STATE_STEPS + STATE_PROCESSES];
    struct state *state = daemon->state;
    for (size_t i = 0; i < STATE_VGPUS; i++) {
        struct vgpu_record *record = &state->vgpus[i];
        vgpu_error_t why;
        if (!record->valid)
            continue;
        if (vgpu_bind_again(daemon, record, err))
            return -1;
        size_t n = list_holders(state, record->desc.id, holders);
        if (vgpu_take_up(daemon, record, holders, n, &why))
            continue;
        log_step(LOG_ERR, record->job, VGPU_NO_STEP, "its vGPU on GPU %u cannot be taken up: %s",
                 record->desc.gpu, why.text);
        for (uint32_t slot = 0; slot < VGPU_MAX_SLOTS; slot++)
            if (slot_isset(record->slots, slot))
                ledger_free(&daemon->ledger, slot);
        record_end(&record->valid);
    }
    return 0;
}

/* --- steps and processes --------------------------------------------------------------------- */

static void take_up_steps(struct daemon *daemon)
{
    for (size_t i = 0; i < STATE_STEPS; i++) {
        struct step_record *record = &daemon->state->steps[i];
        vgpu_error_t why;
        if (record->valid && !step_take_up(daemon, record, &why))
            log_step(LOG_INFO, record->job, record->step, "not taken up: %s", why.text);
    }
}

static void take_up_processes(struct daemon *daemon)
{
    for (size_t i = 0; i < STATE_PROCESSES; i++) {
        struct process_record *record = &daemon->state->processes[i];
        if (record->valid && process_take_up(daemon, record))
            log_step(LOG_ERR, record->job, record->step, "process %d cannot be followed any more",
                     record->pid);
    }
    /* The vgpud before may have died in the middle of a repair. */
    for (struct vgpu *vgpu = daemon->vgpus; vgpu; vgpu = vgpu->next)
        vgpu_repair(vgpu);
}

/* --- leftovers ------------------------------------------------------------------------------- */

static void each_name(int dir, void (*each)(struct daemon *, const char *), struct daemon *daemon)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *entry; stream && (entry = readdir(stream));)
        if (entry->d_name[0] != '.')
            each(daemon, entry->d_name);
    if (stream)
        closedir(stream);
    else if (fd >= 0)
        close(fd);
}

static void check_control(struct daemon *daemon, const char *name)
{
    char own[24] = "";
    struct vgpu *vgpu = vgpu_find(daemon, strtoull(name, NULL, 10));
    if (vgpu)
        snprintf(own, sizeof own, "%" PRIu64, vgpu->record->desc.id);
    if (strcmp(own, name) != 0)
        unlinkat(daemon->control_dir, name, 0);
}

static void check_folder(struct daemon *daemon, const char *name)
{
    char own[24];
    for (const struct step *step = daemon->steps; step; step = step->next) {
        snprintf(own, sizeof own, "%u.%u", step->record->job, step->record->step);
        if (strcmp(own, name) == 0)
            return;
    }
    step_remove_leftover(daemon, name);
}

int take_up(struct daemon *daemon, vgpu_error_t *err)
{
    if (take_up_vgpus(daemon, err))
        return -1;
    take_up_steps(daemon);
    take_up_processes(daemon);
    each_name(daemon->control_dir, check_control, daemon);
    each_name(daemon->steps_dir, check_folder, daemon);
    if (daemon->vgpus)
        log_info("took up %u steps and %u processes", daemon->n_steps, daemon->n_processes);
    return 0;
}
