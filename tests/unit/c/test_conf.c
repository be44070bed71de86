/* vgpu.conf, sizes and host lists: what is read, what is refused and in which words. */
#include "claim.h"
#include "proto/conf.h"

#include <string.h>

static vgpu_error_t err;

static struct vgpu_conf *parse(const char *text)
{
    err.text[0] = '\0';
    return vgpu_conf_parse(text, strlen(text), "vgpu.conf", "n002", &err);
}

static void check_refused(const char *text, const char *sentence)
{
    struct vgpu_conf *conf = parse(text);
    CHECK_MSG(!conf, "%s", text);
    CHECK_MSG(strcmp(err.text, sentence) == 0, "\n  said:   %s\n  wanted: %s", err.text, sentence);
    vgpu_conf_free(conf);
}

static const char example[] =
    "# comment to the end of the line; blank lines are allowed\n"
    "Version=1\n"
    "Backstop=warn Tolerance=32MiB ToleranceTime=500ms\n"
    "\n"
    "Type=a100-4g Memory=4GiB SMs=15 MaxSMs=30\n"
    "Type=a100-2g Memory=2GiB SMs=10 MaxSMs=25 Slice=20ms Policy=cap # hard\n"
    "Node=n[001-004] GPU=0 Memory=40GiB Reserve=512MiB SMs=108\n"
    "node=n[001-004]\tgpu=1 memory=40GiB reserve=512MiB sms=108 "
    "UUID=GPU-01234567-89AB-cdef-0123-456789abcdef\n"
    "Node=other GPU=0 Memory=1GiB SMs=1\n"
    "Node=n[001-004] Slot=0 Type=a100-4g GPU=0\n"
    "Node=n[001-004] Slot=1 Type=a100-4g GPU=1\n"
    "Node=n[001-004] Slot=2-4 Type=a100-2g GPU=0,1";

static void test_that_the_documented_example_is_read(void)
{
    struct vgpu_conf *conf = parse(example);
    CHECK_MSG(conf, "%s", err.text);
    if (!conf)
        return;
    CHECK(conf->backstop == VGPU_BACKSTOP_WARN);
    CHECK(conf->tolerance == 32ull << 20 && conf->tolerance_ms == 500);
    CHECK(conf->n_types == 2 && conf->n_gpus == 2 && conf->n_slots == 5);
    CHECK(conf->types[0].memory == 4ull << 30 && conf->types[0].sms == 15);
    CHECK(conf->types[0].max_sms == 30 && !conf->types[0].hard_cap);
    CHECK(conf->types[0].slice_us == 10000 && conf->types[1].slice_us == 20000);
    CHECK(conf->types[1].hard_cap);
    CHECK(conf->gpus[1].memory == 40ull << 30 && conf->gpus[1].reserve == 512ull << 20);
    CHECK(strcmp(conf->gpus[1].uuid, "GPU-01234567-89ab-cdef-0123-456789abcdef") == 0);
    CHECK(conf->gpus[0].uuid[0] == '\0');
    CHECK(conf->slots[0].gpu == 0 && conf->slots[1].gpu == 1);
    CHECK(conf->slots[2].gpu == 0 && conf->slots[3].gpu == 1 && conf->slots[4].gpu == 0);
    CHECK(conf->slots[4].type == 1);
    vgpu_conf_free(conf);
}

static void test_that_what_a_user_may_ask_of_gpu_time_is_read(void)
{
    struct vgpu_conf *conf =
        parse("Version=1\nSlices=5ms-50ms\nWorkload=cnn Slice=15ms\nWorkload=nlp Slice=7ms\n"
              "Burst=urgent Time=50ms QOS=high,higher Partition=inference\n");
    uint32_t slice_us = 1;
    CHECK_MSG(conf, "%s", err.text);
    if (!conf)
        return;
    CHECK(vgpu_conf_slice(conf, 0, "", &slice_us, &err) == 0 && slice_us == 0);
    CHECK(vgpu_conf_slice(conf, 0, "cnn", &slice_us, &err) == 0 && slice_us == 15000);
    CHECK(vgpu_conf_slice(conf, 20000, "cnn", &slice_us, &err) == 0 && slice_us == 20000);
    CHECK(vgpu_conf_slice(conf, 60000, "", &slice_us, &err) == -1);
    CHECK(strcmp(err.text, "--vgpu-slice=60ms: 5ms to 50ms is what this site allows") == 0);
    CHECK(vgpu_conf_slice(conf, 0, "gnn", &slice_us, &err) == -1);
    CHECK(strcmp(err.text, "--vgpu-workload=gnn: cnn, nlp is what this site knows") == 0);
    CHECK(vgpu_conf_burst_of(conf, "high", NULL) == &conf->bursts[0]);
    CHECK(vgpu_conf_burst_of(conf, "hig", "inference") == &conf->bursts[0]);
    CHECK(!vgpu_conf_burst_of(conf, "hig", NULL) && !vgpu_conf_burst_of(conf, "", ""));
    CHECK(vgpu_conf_burst(conf, "urgent")->time_us == 50000);
    vgpu_conf_free(conf);
}

static void test_that_lines_about_gpu_time_are_checked(void)
{
    check_refused("Version=1\nSlices=50ms-5ms\n",
                  "vgpu.conf:2: Slices=50ms-5ms: a range within 5ms-1000ms is expected");
    check_refused("Version=1\nSlices=5ms-9ms\nSlices=5ms-9ms\n",
                  "vgpu.conf:3: Slices= is stated twice; once is right");
    check_refused("Version=1\nWorkload=cnn\n", "vgpu.conf:2: a Workload= line needs Slice=");
    check_refused("Version=1\nWorkload=a Slice=9ms\nWorkload=a Slice=9ms\n",
                  "vgpu.conf:3: Workload=a is there already; a name is used once");
    check_refused(
        "Version=1\nBurst=u Time=50ms\n",
        "vgpu.conf:2: a Burst= line needs QOS= or Partition=, or no job would be of the class");
}

static void test_that_a_node_that_no_line_mentions_has_no_slots(void)
{
    struct vgpu_conf *conf = vgpu_conf_parse(example, strlen(example), "f", "stranger", &err);
    CHECK(conf && conf->n_slots == 0 && conf->n_gpus == 0);
    vgpu_conf_free(conf);
}

#define V "Version=1\n"
#define T V "Type=t Memory=1GiB SMs=10\n"
#define G T "Node=n002 GPU=0 Memory=2GiB SMs=108\n"

static void test_that_every_broken_rule_is_one_sentence_with_its_place(void)
{
    static const char *const cases[][2] = {
        {"", "vgpu.conf:1: the first line is Version=1"},
        {"Type=t Memory=1GiB SMs=1\n", "vgpu.conf:1: the first line is Version=1"},
        {"Version=2\n", "vgpu.conf:1: Version=2: a whole number from 1 to 1 is expected"},
        {V V, "vgpu.conf:2: Version= is stated twice; once is right"},
        {V "Slot=1\n", "vgpu.conf:2: a line begins with Version=, Backstop=, Slices=, Workload=, "
                       "Burst=, Type= or Node=, not Slot="},
        {V "Type\n", "vgpu.conf:2: \"Type\" is not Key=Value"},
        {V "Type=\n", "vgpu.conf:2: \"Type=\" is not Key=Value"},
        {V "=x\n", "vgpu.conf:2: \"=x\" is not Key=Value"},
        {V "Backstop=on\n", "vgpu.conf:2: Backstop=on: one of end, warn, off is expected"},
        {V "Backstop=end\nBackstop=end\n", "vgpu.conf:3: Backstop= is stated twice; once is right"},
        {V "Backstop=end ToleranceTime=1s\n",
         "vgpu.conf:2: ToleranceTime=1s: 1ms to 3600000ms is expected"},
        {V "Type=t SMs=1\n", "vgpu.conf:2: a Type= line needs Memory="},
        {V "Type=t/x Memory=1GiB SMs=1\n",
         "vgpu.conf:2: Type=t/x: 1 to 63 letters, digits or _ - . are expected"},
        {V "Type=t Memory=1GiB SMs=1 Color=red\n", "vgpu.conf:2: key \"Color\" does not belong on "
                                                   "a Type= line; its keys are Type, Memory, SMs, "
                                                   "MaxSMs, Slice, Policy"},
        {V "Type=t Memory=1GiB SMs=1 sms=1\n", "vgpu.conf:2: key SMs is there twice"},
        {V "Type=t Memory=4GB SMs=1\n", "vgpu.conf:2: Memory=4GB: size \"4GB\": write 4GiB"},
        {V "Type=t Memory=0G SMs=1\n", "vgpu.conf:2: Memory=0G: more than nothing is expected"},
        {V "Type=t Memory=1G SMs=0\n",
         "vgpu.conf:2: SMs=0: a whole number from 1 to 65535 is expected"},
        {V "Type=t Memory=1G SMs=9 MaxSMs=8\n",
         "vgpu.conf:2: MaxSMs=8 is below SMs=9; at least as many are expected"},
        {V "Type=t Memory=1G SMs=9 Slice=4ms\n",
         "vgpu.conf:2: Slice=4ms: 5ms to 1000ms is expected"},
        {V "Type=t Memory=1G SMs=9 Policy=x\n",
         "vgpu.conf:2: Policy=x: one of share, cap is expected"},
        {T "Type=t Memory=1G SMs=9\n", "vgpu.conf:3: Type=t is there already; a name is used once"},
        {T "Node=n002 GPU=0 SMs=9\n", "vgpu.conf:3: a Node= GPU= line needs Memory="},
        {T "Node=n[002 GPU=0 Memory=1G SMs=9\n",
         "vgpu.conf:3: Node=n[002: host list: \"[002\" is not [NUMBER-NUMBER,...]"},
        {T "Node=n002 GPU=1024 Memory=1G SMs=9\n",
         "vgpu.conf:3: GPU=1024: a whole number from 0 to 1023 is expected"},
        {T "Node=n002 GPU=0 Memory=1G Reserve=1G SMs=9\n",
         "vgpu.conf:3: Reserve= leaves nothing of Memory=; less is expected"},
        {T "Node=n002 GPU=0 Memory=1G SMs=9 UUID=GPU-1\n",
         "vgpu.conf:3: UUID=GPU-1: GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx with hexadecimal "
         "digits is "
         "expected"},
        {G "Node=n002 GPU=0 Memory=2GiB SMs=108\n",
         "vgpu.conf:4: GPU=0 of node n002 is there already; a GPU has one line"},
        {G "Node=n002 Slot=0 Type=u GPU=0\n",
         "vgpu.conf:4: Type=u is not known here; its Type= line comes before"},
        {G "Node=n002 Slot=0 Type=t GPU=1\n",
         "vgpu.conf:4: GPU=1 of node n002 is not known here; its line comes before its slots"},
        {G "Node=n002 Slot=1024 Type=t GPU=0\n",
         "vgpu.conf:4: Slot=1024: an index or a range of indices from 0 to 1023 is expected"},
        {G "Node=n002 Slot=2-1 Type=t GPU=0\n",
         "vgpu.conf:4: Slot=2-1: an index or a range of indices from 0 to 1023 is expected"},
        {G "Node=n002 Slot=0 Type=t GPU=0,\n", "vgpu.conf:4: GPU=0,: up to 32 minor numbers from 0 "
                                               "to 1023, separated by commas, are expected"},
        {G "Node=n002 Slot=0-1 Type=t GPU=0\nNode=n002 Slot=1 Type=t GPU=0\n",
         "vgpu.conf:5: Slot=1 of node n002 is there already; a slot has one line"},
        {G "Node=n002 Slot=1 Type=t GPU=0\n",
         "vgpu.conf: node n002 has a slot 1 but no slot 0; slots have no gaps"},
        {G "Node=n002 Slot=0-2 Type=t GPU=0\n",
         "vgpu.conf: node n002: the slots of GPU=0 have more memory than Memory= less Reserve=; "
         "slot 2 (t) "
         "does not fit"},
        {T "Node=n002 GPU=0 Memory=9G SMs=19\nNode=n002 Slot=0-1 Type=t GPU=0\n",
         "vgpu.conf: node n002: the slots of GPU=0 are guaranteed more than its 19 SMs; slot 1 (t) "
         "does "
         "not fit"},
        {V "Type=t\r\n",
         "vgpu.conf:2: a control character (\\x0d); lines end with a newline alone"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_refused(cases[i][0], cases[i][1]);
}

static void test_that_lines_that_are_too_long_or_have_zeros_are_refused(void)
{
    char text[6000] = V "#";
    memset(text + strlen(V "#"), 'x', 4095);
    check_refused(text, "vgpu.conf:2: longer than 4095 bytes");
    text[strlen(V) + 4095] = '\0';
    struct vgpu_conf *conf = parse(text);
    CHECK(conf != NULL);
    vgpu_conf_free(conf);
    CHECK(!vgpu_conf_parse("Version=1\0\n", 11, "f", "n", &err));
    CHECK(strcmp(err.text, "f:1: a zero byte") == 0);
}

static void test_that_a_missing_file_or_a_folder_is_one_sentence(void)
{
    CHECK(!vgpu_conf_read("/nonexistent/vgpu.conf", "n", &err));
    CHECK(strcmp(err.text, "/nonexistent/vgpu.conf: No such file or directory") == 0);
    CHECK(!vgpu_conf_read("/", "n", &err));
    CHECK(strcmp(err.text, "/: not a regular file of at most 64 MiB") == 0);
}

static void test_that_sizes_are_whole_numbers_with_units(void)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"1K", 1 << 10},
        {"1KiB", 1 << 10},
        {"4GiB", 4ull << 30},
        {"512M", 512 << 20},
        {"3TiB", 3ull << 40},
        {"0M", 0},
        {"16777215T", 16777215ull << 40},
    };
    static const char *const bad[] = {
        "",
        "1",
        "4Gib",
        "4GB",
        "4Gi",
        "4gib",
        "4g",
        "-1",
        "-1G",
        "1.5GiB",
        " 1G",
        "1 GiB",
        "1GiB ",
        "0x10M",
        "+1G",
        "16777216T",
        "1iB",
        "GiB",
        "1KMiB",
        "1P",
        "1Ki",
        "abc",
        "99999999999999999999G",
    };
    uint64_t bytes;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK_MSG(vgpu_size_parse(good[i].text, &bytes, &err) == 0 && bytes == good[i].bytes, "%s",
                  good[i].text);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_MSG(vgpu_size_parse(bad[i], &bytes, &err) == -1, "%s", bad[i]);
    vgpu_size_parse("12gb", &bytes, &err);
    CHECK(strcmp(err.text, "size \"12gb\": write 12GiB") == 0);
}

static void test_that_host_lists_mean_what_slurm_means(void)
{
    static const struct {
        const char *list, *name;
        int answer;
    } cases[] = {
        {"n1", "n1", 1},
        {"n1", "n10", 0},
        {"n10", "n1", 0},
        {"a,n1,b", "n1", 1},
        {"n[1-4]", "n3", 1},
        {"n[1-4]", "n5", 0},
        {"n[1-4]", "n03", 0},
        {"n[001-004,7],login", "n003", 1},
        {"n[001-004,7],login", "n3", 0},
        {"n[001-004,7],login", "n7", 1},
        {"n[001-004,7],login", "login", 1},
        {"n[8-11]", "n9", 1},
        {"n[8-11]", "n11", 1},
        {"n[8-11]", "n011", 0},
        {"n[08-11]", "n8", 0},
        {"n[08-11]", "n08", 1},
        {"r[1-2]n[01-10]-x", "r2n10-x", 1},
        {"r[1-2]n[01-10]-x", "r2n10", 0},
        {"r[1-2][1-2]", "r12", 1},
        {"r[1-20][1-2]", "r112", 1},
        {"n[1-4]", "", 0},
        {"", "n", -1},
        {"a,", "a", -1},
        {",a", "a", -1},
        {"n[1-4", "n1", -1},
        {"n[]", "n1", -1},
        {"n[4-1]", "n1", -1},
        {"n[1-]", "n1", -1},
        {"n[1:4]", "n1", -1},
        {"n]", "n]", -1},
        {"n 1", "n", -1},
        {"n[1][1][1][1]", "n1111", -1},
        {"a[1],b[", "a1", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int answer = vgpu_hostlist_contains(cases[i].list, cases[i].name, &err);
        CHECK_MSG(answer == cases[i].answer, "\"%s\" in \"%s\": %d", cases[i].name, cases[i].list,
                  answer);
    }
}

int main(void)
{
    test_that_what_a_user_may_ask_of_gpu_time_is_read();
    test_that_lines_about_gpu_time_are_checked();
    test_that_the_documented_example_is_read();
    test_that_a_node_that_no_line_mentions_has_no_slots();
    test_that_every_broken_rule_is_one_sentence_with_its_place();
    test_that_lines_that_are_too_long_or_have_zeros_are_refused();
    test_that_a_missing_file_or_a_folder_is_one_sentence();
    test_that_sizes_are_whole_numbers_with_units();
    test_that_host_lists_mean_what_slurm_means();
    return claim_result();
}
