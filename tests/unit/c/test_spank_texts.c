/* Texts that the SPANK plugin makes: preload file, environment, the segment of AdminComment; and
 * its rules for requeueing. */
#include "claim.h"

#include "plugin/eligible.h"
#include "plugin/environment.h"
#include "plugin/preload.h"
#include "plugin/requeue.h"
#include "plugin/segment.h"
#include "plugin/sentence.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void only_the_library_folder_of_the_architecture_becomes_LIB(void)
{
    static const struct {
        const char *pkglibdir, *shim;
    } rows[] = {
        {"/usr/lib/x86_64-linux-gnu/slurm-vgpu", "/usr/$LIB/slurm-vgpu/libvgpu.so"},
        {"/usr/lib/aarch64-linux-gnu/slurm-vgpu", "/usr/$LIB/slurm-vgpu/libvgpu.so"},
        {"/usr/lib64/slurm-vgpu", "/usr/$LIB/slurm-vgpu/libvgpu.so"},
        {"/opt/x/lib64/slurm-vgpu", "/opt/x/$LIB/slurm-vgpu/libvgpu.so"},
        {"/usr/lib/slurm-vgpu", "/usr/lib/slurm-vgpu/libvgpu.so"},
        {"/usr/local/lib/vgpu/slurm-vgpu", "/usr/local/lib/vgpu/slurm-vgpu/libvgpu.so"},
        {"/opt/xlib64/slurm-vgpu", "/opt/xlib64/slurm-vgpu/libvgpu.so"},
    };
    char path[VGPU_PATH_MAX];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK(preload_shim(path, sizeof path, rows[i].pkglibdir) == 0);
        CHECK_MSG(strcmp(path, rows[i].shim) == 0, "%s", path);
    }
    CHECK(preload_shim(path, 10, rows[0].pkglibdir) == -1);
}

static void file_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
}

static const char *file_read(const char *path)
{
    static char text[512];
    FILE *file = fopen(path, "r");
    text[file ? fread(text, 1, sizeof text - 1, file) : 0] = '\0';
    if (file)
        fclose(file);
    return text;
}

static void the_sites_own_preload_lines_stay(void)
{
    char folder[] = "/tmp/test_spank_XXXXXX", site[64], out[64];
    vgpu_error_t err;
    CHECK(mkdtemp(folder) != NULL);
    snprintf(site, sizeof site, "%s/site", folder);
    snprintf(out, sizeof out, "%s/out", folder);
    file_write(site, "/usr/lib/site.so\n");
    CHECK(preload_write(out, site, "/shim.so", &err) == 0);
    CHECK(strcmp(file_read(out), "/usr/lib/site.so\n/shim.so\n") == 0);
    file_write(site, "# no newline");
    CHECK(preload_write(out, site, "/shim.so", &err) == 0);
    CHECK(strcmp(file_read(out), "# no newline\n/shim.so\n") == 0);
    file_write(site, "");
    CHECK(preload_write(out, site, "/shim.so", &err) == 0);
    CHECK(strcmp(file_read(out), "/shim.so\n") == 0);
    unlink(site);
    CHECK(preload_write(out, site, "/shim.so", &err) == -1 &&
          strstr(err.text, "an empty one is needed"));
    unlink(out);
    rmdir(folder);
}

static void a_task_sees_its_own_gpu_first(void)
{
    struct vgpu_desc v[3] = {{.uuid = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 1}},
                             {.uuid = {2}},
                             {.uuid = {3}}};
    const char *const a = "GPU-01234567-89ab-cdef-0100-000000000000";
    const char *const b = "GPU-02000000-0000-0000-0000-000000000000";
    const char *const c = "GPU-03000000-0000-0000-0000-000000000000";
    char text[DEVICES_TEXT_MAX], wanted[DEVICES_TEXT_MAX];
    environment_devices(text, v, 3, 0, false);
    snprintf(wanted, sizeof wanted, "%s,%s,%s", a, b, c);
    CHECK_MSG(strcmp(text, wanted) == 0, "%s", text);
    environment_devices(text, v, 3, 4, false);
    snprintf(wanted, sizeof wanted, "%s,%s,%s", b, c, a);
    CHECK_MSG(strcmp(text, wanted) == 0, "%s", text);
    environment_devices(text, v, 3, 2, true);
    CHECK_MSG(strcmp(text, c) == 0, "%s", text);
    environment_devices(text, v, 0, 2, true);
    CHECK(strcmp(text, "") == 0);
}

static void the_longest_list_of_devices_has_room(void)
{
    struct vgpu_desc v[VGPU_MAX_GPUS] = {0};
    char text[DEVICES_TEXT_MAX];
    environment_devices(text, v, VGPU_MAX_GPUS, 5, false);
    CHECK(strlen(text) == DEVICES_TEXT_MAX - 1);
}

static void slots_of_a_task_narrow_what_it_sees(void)
{
    struct vgpu_desc v[3] = {{.slot = 4}, {.slot = 0}, {.slot = 9}};
    const uint16_t slots[] = {0, 9};
    CHECK(environment_narrow(v, 3, slots, 2) == 2 && v[0].slot == 0 && v[1].slot == 9);
    CHECK(environment_narrow(v, 2, slots, 0) == 0);
}

static void lists_of_the_user_are_kept(void)
{
    char out[32];
    CHECK(environment_join(out, sizeof out, "", "/a", ',', false) == 0 && strcmp(out, "/a") == 0);
    CHECK(environment_join(out, sizeof out, "/x", "/a", ',', false) == 0 &&
          strcmp(out, "/x,/a") == 0);
    CHECK(environment_join(out, sizeof out, "/x", "/a", ':', true) == 0 &&
          strcmp(out, "/a:/x") == 0);
    CHECK(environment_join(out, sizeof out, "/x,/a,/y", "/a", ',', false) == 0 &&
          strcmp(out, "/x,/a,/y") == 0);
    CHECK(environment_join(out, sizeof out, "/ab", "/a", ',', false) == 0 &&
          strcmp(out, "/ab,/a") == 0);
    CHECK(environment_join(out, 8, "/12345", "/a", ',', false) == -1);
}

static void check_segment(const char *comment, const char *key, const char *value,
                          const char *wanted)
{
    char *got = segment_set(comment, key, value);
    CHECK_MSG(got && strcmp(got, wanted) == 0, "\"%s\" with %s: \"%s\"", comment, key,
              got ? got : "-");
    free(got);
}

static void the_comment_of_the_site_survives(void)
{
    check_segment("", "tries", "1", "vgpu{tries=1}");
    check_segment("site text", "tries", "1", "site text vgpu{tries=1}");
    check_segment("a vgpu{tries=1} b", "tries", "2", "a vgpu{tries=2} b");
    check_segment("a vgpu{type=x;tries=1;why=n1: no} b", "tries", "2",
                  "a vgpu{type=x;why=n1: no;tries=2} b");
    check_segment("vgpu{type=x}", "why", "a;b{c}", "vgpu{type=x;why=a b c }");
    check_segment("vgpu{type=x;why=y}", "why", NULL, "vgpu{type=x}");
    check_segment("a vgpu{lost end b", "tries", "1", "a vgpu{tries=1} end b");
    check_segment("a vgpu{x{y} b", "tries", "1", "a vgpu{tries=1}{y} b");
    check_segment("vgpu{}", "tries", "1", "vgpu{tries=1}");
}

static void values_are_found_again(void)
{
    char value[8];
    CHECK(segment_get("a vgpu{t=1;why=n1: b;x=} c", "why", value, sizeof value) == 0 &&
          strcmp(value, "n1: b") == 0);
    CHECK(segment_get("vgpu{t=1;x=}", "x", value, sizeof value) == 0 && !*value);
    CHECK(segment_get("vgpu{tt=1}", "t", value, sizeof value) == -1);
    CHECK(segment_get("t=1", "t", value, sizeof value) == -1);
    CHECK(segment_get("vgpu{t=12345678}", "t", value, sizeof value) == -1);
    CHECK(segment_get("vgpu{t=1", "t", value, sizeof value) == -1);
}

static void constraints_are_understood(void)
{
    static const struct {
        const char *constraint, *features;
        bool holds;
    } rows[] = {
        {"", "", true},          {"a", "a,b", true},
        {"a", "ab", false},      {"a&b", "a", false},
        {"a&b", "b,a", true},    {"a|b", "b", true},
        {"a|b", "c", false},     {"a&(b|c)", "a,c", true},
        {"a&(b|c)", "a", false}, {"(a|b)&c", "c", false},
        {"[a|b]", "b", true},    {"a*2&b*4", "a,b", true},
        {"a*2", "b", false},     {"vgpu-nvlink4", "vgpu-nvlink4,x", true},
        {"a&", "a", true},       {"((a)", "b", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK_MSG(eligible_features(rows[i].constraint, rows[i].features) == rows[i].holds,
                  "%s on %s", rows[i].constraint, rows[i].features);
    char deep[256];
    memset(deep, '(', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    CHECK(eligible_features(deep, "a")); /* ends */
}

static void gres_of_a_node_is_compared_with_what_a_job_wants(void)
{
    static const struct {
        const char *wanted, *gres;
        bool fits;
    } rows[] = {
        {"gres:vgpu:2", "vgpu:a100-4g:16(S:0-1)", true},
        {"gres/vgpu:2", "vgpu:a100-4g:1,vgpu:a100-2g:1", true},
        {"gres/vgpu:3", "vgpu:a100-4g:1,vgpu:a100-2g:1", false},
        {"gres:vgpu:a100-4g:2", "gpu:2(S:0,1),vgpu:a100-4g:2(S:0,1)", true},
        {"gres:vgpu:a100-4g:2", "vgpu:a100-2g:8", false},
        {"gres:vgpu:a:1,gres:vgpu:b:1", "vgpu:a:1", false},
        {"gres:vgpu:a:1,gres:vgpu:b:1", "vgpu:a:1,vgpu:b:1", true},
        {"gres:vgpu", "gpu:2", false},
        {"gres:vgpus:2", "", true},
        {"gres/vgpu=2", "vgpu:2", true},
        {"", "", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK_MSG(eligible_gres(rows[i].wanted, rows[i].gres) == rows[i].fits, "%s on %s",
                  rows[i].wanted, rows[i].gres);
}

static void check_exclude(const char *list, const char *wanted)
{
    char *got = eligible_exclude(list, "n2");
    CHECK_MSG(got && strcmp(got, wanted) == 0, "%s: %s", list, got ? got : "-");
    free(got);
}

static void the_users_exclusions_are_kept(void)
{
    check_exclude("", "n2");
    check_exclude("n1", "n1,n2");
    check_exclude("n[3-5],login", "n[3-5],login,n2");
    check_exclude("n[1-3]", "n[1-3]");
}

static void a_sentence_names_its_node_once(void)
{
    static const struct {
        const char *text, *said;
    } rows[] = {
        {"no room", "node n1: no room"},
        {"node n1 has no room", "node n1 has no room"},
        {"no room on node n1", "no room on node n1"},
        {"slot 3 of node n1: no", "slot 3 of node n1: no"},
        {"node n10 has no room", "node n1: node n10 has no room"},
        {"node n1-a has no room", "node n1: node n1-a has no room"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        vgpu_error_t text;
        vgpu_errorf(&text, "%s", rows[i].text);
        sentence_name_node(&text, "n1");
        CHECK_MSG(strcmp(text.text, rows[i].said) == 0, "%s", text.text);
    }
}

static void a_job_is_requeued_only_where_that_makes_sense(void)
{
    struct requeue_facts good = {.batch = true, .allowed = true, .nodes = 1, .nodes_left = 1}, f;
    CHECK(requeue_decide(&good) == REQUEUE_AGAIN);
    f = good;
    f.batch = false;
    CHECK(requeue_decide(&f) == REQUEUE_NOT);
    f = good;
    f.allowed = false;
    CHECK(requeue_decide(&f) == REQUEUE_NOT);
    f = good;
    f.started = true;
    CHECK(requeue_decide(&f) == REQUEUE_NOT);
    f = good;
    f.tries = 1;
    CHECK(requeue_decide(&f) == REQUEUE_AGAIN);
    f = good;
    f.tries = 2;
    CHECK(requeue_decide(&f) == REQUEUE_HOLD);
    f = good;
    f.nodes = 2;
    CHECK(requeue_decide(&f) == REQUEUE_HOLD);
}

int main(void)
{
    only_the_library_folder_of_the_architecture_becomes_LIB();
    the_sites_own_preload_lines_stay();
    a_task_sees_its_own_gpu_first();
    the_longest_list_of_devices_has_room();
    slots_of_a_task_narrow_what_it_sees();
    lists_of_the_user_are_kept();
    the_comment_of_the_site_survives();
    values_are_found_again();
    constraints_are_understood();
    gres_of_a_node_is_compared_with_what_a_job_wants();
    the_users_exclusions_are_kept();
    a_sentence_names_its_node_once();
    a_job_is_requeued_only_where_that_makes_sense();
    return claim_result();
}
