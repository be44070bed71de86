/* The state that outlives vgpud, and the reasons it remembers. */
#include "claim.h"
#include "vgpud/fate.h"
#include "vgpud/state.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static vgpu_error_t err;
static char folder[] = "/tmp/vgpu-state-XXXXXX";
static int dir;
static bool fresh;

static void test_that_records_are_there_again_after_a_restart(void)
{
    struct state *state = state_open(dir, "n1", &fresh, &err);
    CHECK_MSG(state && fresh, "%s", err.text);
    struct step_record *step = state_new_step(state);
    step->job = 5;
    record_begin(&step->valid);
    struct vgpu_record *unfinished = state_new_vgpu(state);
    unfinished->job = 6; /* killed before record_begin */
    state_close(state);

    state = state_open(dir, "n1", &fresh, &err);
    CHECK(state && !fresh);
    CHECK(state->steps[0].valid && state->steps[0].job == 5);
    CHECK(!state->vgpus[0].valid);
    CHECK(state_new_vgpu(state)->job == 0);
    CHECK(state_new_step(state) == &state->steps[1]);
    record_end(&state->steps[0].valid);
    CHECK(state_new_step(state) == &state->steps[0] && state->steps[0].job == 0);
    state_close(state);
}

static void test_that_the_file_is_whole_and_private(void)
{
    struct stat st;
    CHECK(fstatat(dir, "state", &st, 0) == 0);
    CHECK((st.st_mode & 0777) == 0600 && st.st_size == sizeof(struct state));
    CHECK((size_t)st.st_blocks * 512 >= sizeof(struct state));
}

static void test_that_a_state_of_another_boot_node_or_layout_is_thrown_away(void)
{
    struct state *state = state_open(dir, "n1", &fresh, &err);
    struct process_record *process = state_new_process(state);
    record_begin(&process->valid);
    state->boot_id[0] ^= 1;
    state_close(state);
    state = state_open(dir, "n1", &fresh, &err);
    CHECK(state && fresh && !state->processes[0].valid);
    state_close(state);

    state = state_open(dir, "n2", &fresh, &err);
    CHECK(state && fresh);
    state->layout++;
    state_close(state);
    state = state_open(dir, "n2", &fresh, &err);
    CHECK(state && fresh);
    state_close(state);

    int fd = openat(dir, "state", O_WRONLY | O_TRUNC);
    CHECK(fd >= 0 && write(fd, "garbage", 7) == 7);
    close(fd);
    state = state_open(dir, "n2", &fresh, &err);
    CHECK(state && fresh && state->next_id == 1);
    state_close(state);
}

static void test_that_full_tables_have_no_record(void)
{
    struct state *state = state_open(dir, "n2", &fresh, &err);
    for (size_t i = 0; i < STATE_VGPUS; i++)
        record_begin(&state_new_vgpu(state)->valid);
    CHECK(state_new_vgpu(state) == NULL);
    state_close(state);
}

static void test_that_a_fate_is_told_until_a_step_of_that_number_starts_again(void)
{
    struct state *state = state_open(dir, "n3", &fresh, &err);
    fate_set(state, 1, 2, "because");
    CHECK(strcmp(fate_get(state, 1, 2), "because") == 0);
    CHECK(!fate_get(state, 1, 3) && !fate_get(state, 2, 2));
    fate_clear(state, 1, 2);
    CHECK(!fate_get(state, 1, 2));
    for (uint32_t job = 0; job < STATE_FATES + 10; job++)
        fate_set(state, job, 0, "full");
    CHECK(!fate_get(state, 0, 0) && fate_get(state, STATE_FATES + 9, 0));
    state->fates[0].when_ns = 1; /* long ago */
    CHECK(!fate_get(state, state->fates[0].job, 0));
    state_close(state);
}

int main(void)
{
    if (!mkdtemp(folder) || (dir = open(folder, O_RDONLY | O_DIRECTORY)) < 0)
        return 1;
    test_that_records_are_there_again_after_a_restart();
    test_that_the_file_is_whole_and_private();
    test_that_a_state_of_another_boot_node_or_layout_is_thrown_away();
    test_that_full_tables_have_no_record();
    test_that_a_fate_is_told_until_a_step_of_that_number_starts_again();
    unlinkat(dir, "state", 0);
    close(dir);
    rmdir(folder);
    return claim_result();
}
