/* What a user or an administrator writes: slots, options, patterns, the line in plugstack.conf. */
#include "claim.h"

#include "plugin/comm.h"
#include "plugin/settings.h"
#include "plugin/slots.h"
#include "plugin/wishes.h"

#include <string.h>

static void slot_lists_are_read(void)
{
    uint16_t slots[VGPU_MAX_SLOTS];
    uint32_t n = 7;
    CHECK(slots_parse("", slots, &n, NULL) == 0 && n == 0);
    CHECK(slots_parse("5", slots, &n, NULL) == 0 && n == 1 && slots[0] == 5);
    CHECK(slots_parse("0,12,1023", slots, &n, NULL) == 0 && n == 3 && slots[2] == 1023);
}

static void damaged_slot_lists_are_refused(void)
{
    static const char *const wrong[] = {",",
                                        "1,",
                                        ",1",
                                        "1,,2",
                                        "1024",
                                        "-1",
                                        "1-3",
                                        "2,1",
                                        "1,1",
                                        "a",
                                        "1 2",
                                        "1a",
                                        "99999999999999999999",
                                        " 1"};
    uint16_t slots[VGPU_MAX_SLOTS];
    uint32_t n;
    vgpu_error_t err;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_MSG(slots_parse(wrong[i], slots, &n, &err) == -1, "%s", wrong[i]);
    CHECK(strcmp(err.text, "\" 1\" is not a list of slots such as 0,12") == 0);
}

static void options_are_read(void)
{
    struct vgpu_wishes w = {0};
    CHECK(wish_set(&w, WISH_COLOCATE, NULL, NULL) == 0 && w.colocate);
    CHECK(wish_set(&w, WISH_BIND, "own", NULL) == 0 && w.bind_own);
    CHECK(wish_set(&w, WISH_AFFINITY, "same_numa", NULL) == 0 && w.affinity == VGPU_SAME_NUMA);
    CHECK(wish_set(&w, WISH_SLICE, "10ms", NULL) == 0 && w.slice_us == 10000);
    CHECK(wish_set(&w, WISH_WORKLOAD, "cnn", NULL) == 0 && strcmp(w.workload, "cnn") == 0);
    CHECK(wish_set(&w, WISH_COMM, "tp4xdp2", NULL) == 0 && strcmp(w.comm, "tp4xdp2") == 0);
    CHECK(wish_set(&w, WISH_MEM, "7GiB", NULL) == 0 && w.mem == 7ull << 30);
}

static void wrong_options_say_what_would_be_right(void)
{
    static const struct {
        enum wish wish;
        const char *value, *says;
    } rows[] = {
        {WISH_BIND, "all", "own"},
        {WISH_BIND, "", "own"},
        {WISH_AFFINITY, "nvlink", "require_nvlink, prefer_nvlink, same_numa or none"},
        {WISH_AFFINITY, "NONE", "require_nvlink"},
        {WISH_SLICE, "4ms", "5ms to 1000ms"},
        {WISH_SLICE, "1001ms", "5ms to 1000ms"},
        {WISH_SLICE, "10", "5ms to 1000ms"},
        {WISH_SLICE, "10 ms", "5ms to 1000ms"},
        {WISH_SLICE, "-10ms", "5ms to 1000ms"},
        {WISH_SLICE, "ms", "5ms to 1000ms"},
        {WISH_SLICE, "18446744073709551626ms", "5ms to 1000ms"},
        {WISH_WORKLOAD, "", "as cnn"},
        {WISH_WORKLOAD, "cnn;nlp", "as cnn"},
        {WISH_COMM, "", "ring, chain, tree, alltoall"},
        {WISH_MEM, "7GB", "7GiB"},
        {WISH_MEM, "1.5GiB", "a whole number with KiB"},
        {WISH_MEM, "7", "a whole number with KiB"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct vgpu_wishes w = {0}, before = {0};
        vgpu_error_t err = {""};
        CHECK_MSG(wish_set(&w, rows[i].wish, rows[i].value, &err) == -1, "%s", rows[i].value);
        CHECK_MSG(strstr(err.text, rows[i].says), "%s: %s", rows[i].value, err.text);
        CHECK_MSG(memcmp(&w, &before, sizeof w) == 0, "%s left a trace", rows[i].value);
    }
}

static void every_affinity_has_its_name(void)
{
    for (uint32_t i = VGPU_AFFINITY_NONE; i <= VGPU_SAME_NUMA; i++) {
        struct vgpu_wishes w = {.affinity = 99};
        CHECK(wish_set(&w, WISH_AFFINITY, wish_affinity_name(i), NULL) == 0 && w.affinity == i);
    }
}

static void patterns_are_told_from_files(void)
{
    static const char *const patterns[] = {"ring",     "chain",   "tree",
                                           "alltoall", "tp1xdp1", "tp8xdp1024"};
    static const char *const others[] = {
        "",       "Ring",     "ring ",  "tp0xdp1",  "tp1xdp0",    "tp4",    "tp4xdp",
        "tp4dp2", "tp4xdp2x", "tpxdp2", "tp-1xdp2", "tp1025xdp1", "./ring", "tp4xdp2xpp2"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        CHECK_MSG(comm_is_pattern(patterns[i]), "%s", patterns[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK_MSG(!comm_is_pattern(others[i]), "%s", others[i]);
}

static void a_matrix_is_read(void)
{
    static struct comm_matrix m;
    vgpu_error_t err = {""};
    CHECK_MSG(comm_matrix_parse(&m, "# two ranks\n0, 1.5\r\n\n2e3 0 # end\n", "m", &err) == 0, "%s",
              err.text);
    CHECK(m.n == 2 && m.demand[0][1] == 1.5 && m.demand[1][0] == 2000);
    CHECK(comm_matrix_parse(&m, "0", "m", NULL) == 0 && m.n == 1);
}

static void a_wrong_matrix_is_refused_with_its_line(void)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "m: 0 rows of 0 numbers"},
        {"0 1\n1 0 3\n", "m:2: as many rows"},
        {"0 1\n", "m: 1 rows of 2 numbers"},
        {"0 1\n1 0\n1 1\n", "m:3: as many rows"},
        {"0 1\n1 2\n", "m: rank 1 has a demand on itself"},
        {"0 x\n1 0\n", "m:1: \"x\" is not a number"},
        {"0 -1\n1 0\n", "m:1: \"-1\" is not a number"},
        {"0 nan\n1 0\n", "m:1: \"nan\" is not a number"},
        {"0 inf\n1 0\n", "m:1: \"inf\" is not a number"},
        {"0 1e999\n1 0\n", "m:1: \"1e999\" is not a number"},
        {"0 1x\n1 0\n", "m:1: \"1x\" is not a number"},
        {"0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2",
         "m:1: more than 32 numbers"},
    };
    static struct comm_matrix m;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vgpu_error_t err = {""};
        CHECK_MSG(comm_matrix_parse(&m, rows[i].text, "m", &err) == -1, "%s", rows[i].text);
        CHECK_MSG(strstr(err.text, rows[i].says) == err.text, "%s", err.text);
    }
}

static void a_pattern_that_is_no_file_either_says_so(void)
{
    struct vgpu_wishes w = {.comm = "rign"};
    vgpu_error_t err = {""};
    CHECK(wishes_check_files(&w, &err) == -1);
    CHECK_MSG(strstr(err.text, "--vgpu-comm=rign is not ring"), "%s", err.text);
    CHECK_MSG(strstr(err.text, "No such file"), "%s", err.text);
    strcpy(w.comm, "/dev/zero");
    CHECK(wishes_check_files(&w, &err) == -1);
    strcpy(w.comm, "ring");
    CHECK(wishes_check_files(&w, &err) == 0);
}

static int settings_of(struct vgpu_settings *s, char *argument, vgpu_error_t *err)
{
    return settings_read(s, 1, &argument, "n1", err);
}

static void the_line_in_plugstack_is_read(void)
{
    struct vgpu_settings s;
    char *all[] = {"runtime_dir=/run/vgpu/%n", "conf=/x/vgpu.conf", "datadir=/d", "deadline=250ms"};
    CHECK(settings_read(&s, 0, NULL, "n1", NULL) == 0);
    CHECK(strcmp(s.runtime_dir, "/run/vgpu") == 0 && s.deadline_ms == 5000);
    CHECK(settings_read(&s, 4, all, "n1", NULL) == 0);
    CHECK(strcmp(s.runtime_dir, "/run/vgpu/n1") == 0 && strcmp(s.conf, "/x/vgpu.conf") == 0);
    CHECK(strcmp(s.datadir, "/d") == 0 && s.deadline_ms == 250);
    CHECK(settings_of(&s, "runtime_dir=/a/%n/b", NULL) == 0 &&
          strcmp(s.runtime_dir, "/a/n1/b") == 0);
}

static void a_wrong_line_in_plugstack_is_an_error_and_leaves_defaults(void)
{
    static char *const wrong[] = {"runtime_dir=run",
                                  "runtime_dir=",
                                  "runtimedir=/x",
                                  "deadline=5",
                                  "deadline=0ms",
                                  "deadline=-1ms",
                                  "deadline=5s",
                                  "conf=vgpu.conf",
                                  "deadline=60001ms",
                                  "",
                                  "conf"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct vgpu_settings s;
        vgpu_error_t err = {""};
        CHECK_MSG(settings_of(&s, wrong[i], &err) == -1, "%s", wrong[i]);
        CHECK_MSG(strstr(err.text, "plugstack.conf: "), "%s", err.text);
        CHECK(strcmp(s.runtime_dir, "/run/vgpu") == 0 && s.deadline_ms == 5000);
    }
}

int main(void)
{
    slot_lists_are_read();
    damaged_slot_lists_are_refused();
    options_are_read();
    wrong_options_say_what_would_be_right();
    every_affinity_has_its_name();
    patterns_are_told_from_files();
    a_matrix_is_read();
    a_wrong_matrix_is_refused_with_its_line();
    a_pattern_that_is_no_file_either_says_so();
    the_line_in_plugstack_is_read();
    a_wrong_line_in_plugstack_is_an_error_and_leaves_defaults();
    return claim_result();
}
