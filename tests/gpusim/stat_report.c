/* stat_report.c - the simulator's own account, as a table and as JSON. */
#include "stat.h"

#include <inttypes.h>
#include <string.h>

static void refresh(struct gpusim_state *state)
{
    for (uint32_t gpu = 0; gpu < state->machine.n_gpus; gpu++)
        gpusim_advance(state, (int)gpu);
    gpusim_reap(state);
}

/* Did the process ever do anything on the GPU? */
static bool shown(const struct gpusim_state *state, int i, uint32_t gpu)
{
    const struct gpusim_account *account = &state->processes[i].gpus[gpu];
    return gpusim_listed(state, i) &&
           (account->peak || account->refusals || account->launches || account->submitted);
}

/* --- table --------------------------------------------------------------------------------------
 */

const char *stat_size(uint64_t bytes, char out[16])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1024 && unit < 4) {
        value /= 1024;
        unit++;
    }
    snprintf(out, 16, value == (uint64_t)value ? "%.0f%s" : "%.1f%s", value, units[unit]);
    return out;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void print_process(const struct gpusim_process *process, uint32_t gpu, FILE *out)
{
    const struct gpusim_account *account = &process->gpus[gpu];
    char used[16], peak[16], part[16];
    fprintf(out, "%3u  %7d  %9s  %9s  %10.3fs  %9" PRIu64 "  %s", gpu, process->pid,
            stat_size(account->bytes, used), stat_size(account->peak, peak),
            (double)account->consumed / 1e9, account->launches, base_name(process->name));
    for (int kind = 0; kind < GPUSIM_KINDS; kind++)
        if (account->used[kind])
            fprintf(out, " %s=%s", gpusim_kind_names[kind], stat_size(account->used[kind], part));
    fprintf(out, "%s\n", process->state == GPUSIM_DEAD ? " (dead, not yet released)" : "");
}

void stat_table(struct gpusim_state *state, FILE *out)
{
    const struct gpusim_machine *machine = &state->machine;
    char used[16], peak[16], memory[16];
    refresh(state);
    fprintf(out, "Simulated machine %s\n", machine->name);
    fprintf(out, "GPU       USED       PEAK         BUSY     MEMORY  NAME\n");
    for (uint32_t i = 0; i < machine->n_gpus; i++) {
        const struct gpusim_gpu *gpu = &state->gpus[i];
        fprintf(out, "%3u  %9s  %9s  %10.3fs  %9s  %s\n", i, stat_size(gpu->used, used),
                stat_size(gpu->peak, peak), (double)gpu->busy / 1e9,
                stat_size(machine->gpus[i].memory, memory), machine->gpus[i].name);
    }
    bool any = false;
    for (uint32_t gpu = 0; gpu < machine->n_gpus; gpu++) {
        for (int i = 0; i < (int)state->process_limit; i++) {
            if (!shown(state, i, gpu))
                continue;
            if (!any)
                fprintf(out,
                        "\nGPU      PID       USED       PEAK         BUSY   LAUNCHES  PROCESS\n");
            any = true;
            print_process(&state->processes[i], gpu, out);
        }
    }
}

/* --- JSON ---------------------------------------------------------------------------------------
 */

static void json_string(const char *text, FILE *out)
{
    fputc('"', out);
    for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
        if (*s == '"' || *s == '\\')
            fprintf(out, "\\%c", *s);
        else if (*s < 0x20 || *s >= 0x7f)
            fprintf(out, "\\u%04x", *s);
        else
            fputc(*s, out);
    }
    fputc('"', out);
}

static void json_number(const char *key, uint64_t value, FILE *out)
{
    fprintf(out, "\"%s\": %" PRIu64 ", ", key, value);
}

static void json_text(const char *key, const char *value, FILE *out)
{
    fprintf(out, "\"%s\": ", key);
    json_string(value, out);
    fputs(", ", out);
}

static void json_process(const struct gpusim_process *process, uint32_t gpu, FILE *out)
{
    static const char *const types[] = {"compute", "graphics", "mps"};
    const struct gpusim_account *account = &process->gpus[gpu];
    fputc('{', out);
    json_number("pid", (uint64_t)process->pid, out);
    json_number("uid", process->uid, out);
    json_text("name", process->name, out);
    json_text("type", types[process->type], out);
    json_text("state", process->state == GPUSIM_DEAD ? "dead" : "alive", out);
    json_number("bytes", account->bytes, out);
    json_number("peak", account->peak, out);
    fputs("\"kinds\": {", out);
    for (int kind = 0; kind < GPUSIM_KINDS; kind++)
        fprintf(out, "%s\"%s\": %" PRIu64, kind ? ", " : "", gpusim_kind_names[kind],
                account->used[kind]);
    fputs("}, ", out);
    json_number("contexts", account->contexts, out);
    json_number("allocations", account->allocations, out);
    json_number("refusals", account->refusals, out);
    json_number("launches", account->launches, out);
    json_number("submitted_ns", account->submitted, out);
    json_number("capture_violations", process->capture_violations, out);
    fprintf(out, "\"busy_ns\": %" PRIu64 "}", account->consumed);
}

static void json_gpu(const struct gpusim_state *state, uint32_t i, FILE *out)
{
    const struct gpusim_gpu_spec *spec = &state->machine.gpus[i];
    const struct gpusim_gpu *gpu = &state->gpus[i];
    fputc('{', out);
    json_number("index", i, out);
    json_number("minor", spec->minor, out);
    json_text("uuid", spec->uuid, out);
    json_text("name", spec->name, out);
    json_number("memory", spec->memory, out);
    json_number("used", gpu->used, out);
    json_number("peak", gpu->peak, out);
    json_number("orphaned", gpu->orphaned, out);
    json_number("busy_ns", gpu->busy, out);
    json_number("now_ns", gpu->now, out);
    json_number("switches", gpu->switches, out);
    json_number("xids", gpu->xids, out);
    fputs("\"processes\": [", out);
    const char *comma = "";
    for (int k = 0; k < (int)state->process_limit; k++) {
        if (!shown(state, k, i))
            continue;
        fputs(comma, out);
        json_process(&state->processes[k], i, out);
        comma = ", ";
    }
    fputs("]}", out);
}

/* What a group's processes did on a GPU, the past ones and those that live. */
static void json_group_gpu(const struct gpusim_state *state, int group, uint32_t gpu, FILE *out)
{
    uint64_t busy = state->groups[group].gpus[gpu].past_busy;
    uint64_t launches = state->groups[group].gpus[gpu].past_launches;
    for (int i = 0; i < (int)state->process_limit; i++) {
        const struct gpusim_process *process = &state->processes[i];
        if (process->state == GPUSIM_FREE || process->group != group)
            continue;
        busy += process->gpus[gpu].consumed;
        launches += process->gpus[gpu].launches;
    }
    fputc('{', out);
    json_number("bytes", state->groups[group].gpus[gpu].bytes, out);
    json_number("peak", state->groups[group].gpus[gpu].peak, out);
    json_number("launches", launches, out);
    fprintf(out, "\"busy_ns\": %" PRIu64 "}", busy);
}

static void json_groups(const struct gpusim_state *state, FILE *out)
{
    const char *comma = "";
    for (int group = 0; group < GPUSIM_MAX_GROUPS; group++) {
        if (!state->groups[group].name[0])
            continue;
        fprintf(out, "%s{", comma);
        json_text("name", state->groups[group].name, out);
        fputs("\"gpus\": [", out);
        for (uint32_t gpu = 0; gpu < state->machine.n_gpus; gpu++) {
            fputs(gpu ? ", " : "", out);
            json_group_gpu(state, group, gpu, out);
        }
        fputs("]}", out);
        comma = ", ";
    }
}

void stat_json(struct gpusim_state *state, FILE *out)
{
    refresh(state);
    fputs("{\"simulated\": true, ", out);
    json_text("machine", state->machine.name, out);
    fputs("\"gpus\": [", out);
    for (uint32_t gpu = 0; gpu < state->machine.n_gpus; gpu++) {
        fputs(gpu ? ", " : "", out);
        gpusim_lock_memory(state, (int)gpu); /* so that the sums fit */
        json_gpu(state, gpu, out);
        gpusim_unlock_memory(state, (int)gpu);
    }
    fputs("], \"groups\": [", out);
    json_groups(state, out);
    fputs("]}\n", out);
}
