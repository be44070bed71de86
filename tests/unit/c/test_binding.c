/* Binding: the invariants of the ledger, the rule against exhaustive search, advice, hard wishes,
 * colocation. */
#include "claim.h"
#include "vgpud/binding.h"

#include <stdlib.h>
#include <string.h>

static vgpu_error_t err;
static struct ledger ledger;
static struct links links;
static struct binding_choice choice;

/* n GPUs (minor numbers 0...) with `slots` slots of 1 GiB each, slot i at home on GPU i % n. */
static struct vgpu_conf *uniform(int n, int slots)
{
    char text[8192];
    int used = sprintf(text, "Version=1\nType=t Memory=1GiB SMs=1\n");
    for (int gpu = 0; gpu < n; gpu++)
        used += sprintf(text + used, "Node=n GPU=%d Memory=80GiB SMs=108\n", gpu);
    for (int slot = 0; slot < slots; slot++)
        used += sprintf(text + used, "Node=n Slot=%d Type=t GPU=%d\n", slot, slot % n);
    struct vgpu_conf *conf = vgpu_conf_parse(text, (size_t)used, "test", "n", &err);
    CHECK_MSG(conf, "%s", err.text);
    return conf;
}

static void join(int a, int b, int n)
{
    links.nvlinks[a][b] = links.nvlinks[b][a] = (uint8_t)n;
}

static void no_links(void)
{
    memset(&links, 0, sizeof links);
    for (int a = 0; a < VGPU_MAX_GPUS; a++)
        links.same_numa[a] = (gpu_set)-1;
}

static void dgx_1v(void)
{
    static const int pairs[][3] = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1},
                                   {1, 5, 2}, {2, 3, 2}, {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1},
                                   {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};
    no_links();
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        join(pairs[i][0], pairs[i][1], pairs[i][2]);
}

static struct binding_request wanting(uint32_t job, uint32_t n, const uint16_t *slots)
{
    return (struct binding_request){.job = job, .n_slots = n, .slots = slots};
}

static enum vgpu_status choose(const struct binding_request *request)
{
    err.text[0] = '\0';
    return binding_choose(&ledger, request, &choice, &err);
}

static uint64_t next_id = 1;

/* Enter the choice, as vgpud does. */
static void enter(const struct binding_request *request)
{
    uint64_t ids[VGPU_MAX_GPUS];
    for (uint32_t i = 0; i < choice.n; i++)
        ids[i] = choice.vgpus[i].vgpu ? choice.vgpus[i].vgpu : next_id++;
    for (uint32_t i = 0; i < request->n_slots; i++) {
        uint32_t vgpu = choice.place[i];
        if (ledger.slots[request->slots[i]].gpu == LEDGER_NOWHERE)
            CHECK(ledger_bind(&ledger, request->slots[i], choice.vgpus[vgpu].gpu, request->job,
                              ids[vgpu]) == 0);
    }
}

static enum vgpu_status bind_slots(uint32_t job, uint32_t n, const uint16_t *slots)
{
    struct binding_request request = wanting(job, n, slots);
    enum vgpu_status status = choose(&request);
    if (status == VGPU_OK)
        enter(&request);
    return status;
}

static gpu_set chosen(void)
{
    gpu_set set = 0;
    for (uint32_t i = 0; i < choice.n; i++)
        set |= 1u << choice.vgpus[i].gpu;
    return set;
}

#define SLOTS(...)                                                                                 \
    (sizeof((uint16_t[]){__VA_ARGS__}) / sizeof(uint16_t)), (const uint16_t[])                     \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void test_that_a_slot_is_bound_at_home_when_nothing_speaks_against_it(void)
{
    struct vgpu_conf *conf = uniform(4, 16);
    no_links();
    ledger_init(&ledger, conf, &links);
    CHECK(bind_slots(1, SLOTS(6)) == VGPU_OK);
    CHECK(choice.n == 1 && choice.vgpus[0].gpu == 2 && !choice.advised);
    CHECK(bind_slots(2, SLOTS(3, 0, 1)) == VGPU_OK);
    CHECK(choice.n == 3 && chosen() == 0xb);
    CHECK(choice.vgpus[0].gpu == 3 && choice.vgpus[1].gpu == 0 && choice.vgpus[2].gpu == 1);
    vgpu_conf_free(conf);
}

static void test_that_two_slots_of_one_home_go_to_different_gpus(void)
{
    struct vgpu_conf *conf = uniform(4, 16);
    no_links();
    ledger_init(&ledger, conf, &links);
    CHECK(bind_slots(1, SLOTS(0, 4)) == VGPU_OK);
    CHECK(choice.n == 2 && (chosen() & 1) && choice.vgpus[0].gpu != choice.vgpus[1].gpu);
    vgpu_conf_free(conf);
}

static void test_that_the_intact_pair_is_taken_when_a_gpu_of_the_other_is_full(void)
{
    struct vgpu_conf *conf = uniform(4, 8);
    no_links();
    join(0, 1, 12);
    join(2, 3, 12);
    ledger_init(&ledger, conf, &links);
    CHECK(bind_slots(1, SLOTS(0)) == VGPU_OK && bind_slots(2, SLOTS(4)) == VGPU_OK);
    CHECK(ledger.bound[0][0] == 2);
    CHECK(bind_slots(3, SLOTS(1, 2)) == VGPU_OK);
    CHECK(chosen() == 0xc);
    vgpu_conf_free(conf);
}

static void test_that_home_wins_only_among_equally_linked_sets(void)
{
    struct vgpu_conf *conf = uniform(8, 8);
    dgx_1v();
    ledger_init(&ledger, conf, &links);
    CHECK(bind_slots(1, SLOTS(1, 5)) == VGPU_OK && chosen() == 0x22); /* NV2 at home */
    ledger_init(&ledger, conf, &links);
    CHECK(bind_slots(1, SLOTS(0, 1)) == VGPU_OK);
    CHECK(links.nvlinks[choice.vgpus[0].gpu][choice.vgpus[1].gpu] == 2);
    ledger_init(&ledger, conf, &links);
    CHECK(bind_slots(1, SLOTS(4, 5, 6, 7)) == VGPU_OK);
    CHECK(chosen() == 0x0f || chosen() == 0xf0);
    CHECK(chosen() == 0xf0); /* both quads are equal; this one is home */
    vgpu_conf_free(conf);
}

static void test_that_later_steps_share_and_may_hold_a_subset(void)
{
    struct vgpu_conf *conf = uniform(4, 8);
    no_links();
    ledger_init(&ledger, conf, &links);
    CHECK(bind_slots(7, SLOTS(0, 1, 2)) == VGPU_OK);
    uint64_t of_slot_1 = ledger.slots[1].vgpu;
    CHECK(bind_slots(7, SLOTS(1)) == VGPU_OK);
    CHECK(choice.n == 1 && choice.vgpus[0].vgpu == of_slot_1 && choice.vgpus[0].gpu == 1);
    CHECK(bind_slots(7, SLOTS(2, 1, 3)) == VGPU_OK);
    CHECK(choice.n == 3 && choice.vgpus[1].vgpu == of_slot_1 && choice.vgpus[2].vgpu == 0);
    CHECK(choice.vgpus[2].gpu == 3);
    vgpu_conf_free(conf);
}

static void test_that_single_steps_of_a_job_avoid_each_others_gpus(void)
{
    struct vgpu_conf *conf = uniform(2, 8);
    no_links();
    ledger_init(&ledger, conf, &links);
    CHECK(bind_slots(7, SLOTS(0)) == VGPU_OK && choice.vgpus[0].gpu == 0);
    CHECK(bind_slots(7, SLOTS(2)) == VGPU_OK && choice.vgpus[0].gpu == 1);
    CHECK(bind_slots(7, SLOTS(0, 2)) == VGPU_OK && choice.n == 2);
    CHECK(bind_slots(7, SLOTS(4)) == VGPU_OK);
    CHECK(bind_slots(7, SLOTS(0, 2, 4)) == VGPU_NO_ROOM);
    CHECK_MSG(
        strstr(err.text, "are separate vGPUs on GPU 0 since earlier steps bound them one by one"),
        "%s", err.text);
    vgpu_conf_free(conf);
}

static void test_that_no_room_says_node_wish_and_what_is_free_where(void)
{
    struct vgpu_conf *conf = uniform(3, 9);
    no_links();
    ledger_init(&ledger, conf, &links);
    CHECK(bind_slots(1, SLOTS(0)) == VGPU_OK && bind_slots(2, SLOTS(3)) == VGPU_OK);
    CHECK(bind_slots(3, SLOTS(6)) == VGPU_OK);
    CHECK(bind_slots(4, SLOTS(1, 2, 4)) == VGPU_NO_ROOM);
    CHECK_MSG(strcmp(err.text,
                     "node n has no room now for 3 vGPUs on different GPUs (wanted: 3 t; free: 3 "
                     "on GPU 1, 3 on GPU 2)") == 0,
              "%s", err.text);
    CHECK(bind_slots(4, SLOTS(1, 2)) == VGPU_OK);
    vgpu_conf_free(conf);
}

static void test_that_bad_slots_are_refused_and_foreign_ones_fail(void)
{
    struct vgpu_conf *conf = uniform(2, 4);
    no_links();
    ledger_init(&ledger, conf, &links);
    CHECK(bind_slots(1, SLOTS(4)) == VGPU_REFUSED);
    CHECK(strcmp(err.text, "slot 4 does not exist; vgpu.conf gives node n slots 0 to 3") == 0);
    CHECK(bind_slots(1, SLOTS(2, 2)) == VGPU_REFUSED);
    CHECK(strcmp(err.text, "slot 2 is stated twice; vgpu.conf gives node n slots 0 to 3") == 0);
    CHECK(bind_slots(1, 0, NULL) == VGPU_REFUSED);
    CHECK(bind_slots(1, SLOTS(0)) == VGPU_OK);
    CHECK(bind_slots(2, SLOTS(0)) == VGPU_FAILED);
    CHECK(ledger_bind(&ledger, 0, 0, 1, 1) == -1);
    CHECK(ledger_bind(&ledger, 4, 0, 1, 1) == -1);
    CHECK(ledger_bind(&ledger, 1, 2, 1, 1) == -1);
    vgpu_conf_free(conf);
}

static void test_that_valid_advice_is_followed_in_its_order_and_other_advice_ignored(void)
{
    static const uint16_t good[] = {3, 1}, twice[] = {3, 3}, unknown[] = {3, 9}, few[] = {3},
                          many[] = {0, 1, 2};
    static const struct {
        const uint16_t *advice;
        uint32_t n;
    } bad[] = {{twice, 2}, {unknown, 2}, {few, 1}, {many, 3}};
    const uint16_t slots[] = {0, 1};
    struct vgpu_conf *conf = uniform(4, 4);
    no_links();
    ledger_init(&ledger, conf, &links);
    struct binding_request request = wanting(1, 2, slots);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        request.advice = bad[i].advice;
        request.n_advice = bad[i].n;
        CHECK(choose(&request) == VGPU_OK && !choice.advised && chosen() == 3);
    }
    request.advice = good;
    request.n_advice = 2;
    CHECK(choose(&request) == VGPU_OK && choice.advised);
    CHECK(choice.vgpus[0].gpu == 3 && choice.vgpus[1].gpu == 1);
    CHECK(choice.place[1] == 1); /* slot 1 is at home on GPU 1 */
    enter(&request);

    static const uint16_t reversed[] = {1, 3}, elsewhere[] = {0, 1};
    request.advice = reversed;
    CHECK(choose(&request) == VGPU_OK && choice.advised && choice.vgpus[0].gpu == 1);
    request.advice = elsewhere; /* what is bound does not move */
    CHECK(choose(&request) == VGPU_OK && !choice.advised && chosen() == 0xa);

    const uint16_t two[] = {2, 3};
    struct binding_request other = wanting(2, 2, two);
    other.advice = good; /* full */
    other.n_advice = 2;
    CHECK(choose(&other) == VGPU_OK && !choice.advised && chosen() == 5);
    vgpu_conf_free(conf);
}

static void test_that_a_hard_wish_is_met_or_refused_with_the_right_status(void)
{
    const uint16_t slots[] = {0, 1, 2, 3, 4};
    struct vgpu_conf *conf = uniform(8, 16);
    dgx_1v();
    for (int gpu = 0; gpu < 8; gpu++)
        links.same_numa[gpu] = gpu < 4 ? 0x0f : 0xf0;
    ledger_init(&ledger, conf, &links);

    struct binding_request request = wanting(1, 4, slots);
    request.affinity = VGPU_REQUIRE_NVLINK;
    CHECK(choose(&request) == VGPU_OK && (chosen() == 0x0f || chosen() == 0xf0));
    request.n_slots = 5;
    CHECK(choose(&request) == VGPU_REFUSED);
    CHECK_MSG(strcmp(err.text,
                     "node n never has room for 5 vGPUs on different GPUs that are all joined by "
                     "NVLink") == 0,
              "%s", err.text);
    request.affinity = VGPU_SAME_NUMA;
    CHECK(choose(&request) == VGPU_REFUSED);
    request.n_slots = 4;
    CHECK(choose(&request) == VGPU_OK && (chosen() == 0x0f || chosen() == 0xf0));

    /* One GPU of each quad is full: not now. */
    CHECK(bind_slots(10, SLOTS(7)) == VGPU_OK && bind_slots(11, SLOTS(15)) == VGPU_OK);
    CHECK(bind_slots(12, SLOTS(8)) == VGPU_OK && ledger.bound[0][0] == 1);
    ledger_free(&ledger, 8);
    CHECK(ledger_bind(&ledger, 8, 0, 12, 900) == 0 && ledger_bind(&ledger, 9, 0, 12, 901) == 0);
    request.affinity = VGPU_REQUIRE_NVLINK;
    CHECK(choose(&request) == VGPU_NO_ROOM);
    CHECK_MSG(strstr(err.text,
                     "has no room now for 4 vGPUs on different GPUs that are all joined by NVLink "
                     "(wanted: 4 t; free: 2 on GPU 1"),
              "%s", err.text);
    static const uint16_t advice[] = {1, 2, 3, 4};
    request.affinity = VGPU_AFFINITY_NONE;
    request.advice = advice;
    request.n_advice = 4;
    CHECK(choose(&request) == VGPU_OK && choice.advised);
    request.affinity = VGPU_REQUIRE_NVLINK; /* advice does not override the wish */
    CHECK(choose(&request) == VGPU_NO_ROOM);
    vgpu_conf_free(conf);
}

static void test_that_colocated_slots_share_as_few_gpus_as_possible(void)
{
    struct vgpu_conf *conf = uniform(3, 12);
    const uint16_t slots[] = {0, 1, 2, 3, 4, 5};
    no_links();
    ledger_init(&ledger, conf, &links);
    struct binding_request request = wanting(1, 3, slots);
    request.colocate = true;
    CHECK(choose(&request) == VGPU_OK && choice.n == 1);
    request.n_slots = 6;
    CHECK(choose(&request) == VGPU_OK && choice.n == 2);
    enter(&request);
    CHECK(ledger.bound[0][0] + ledger.bound[0][1] + ledger.bound[0][2] == 6);

    /* A later step, colocating or not, gets the same vGPUs. */
    request.colocate = false;
    CHECK(choose(&request) == VGPU_OK && choice.n == 2 && choice.vgpus[0].vgpu);
    vgpu_conf_free(conf);
}

static void test_that_colocation_follows_advice_that_gives_every_gpu_a_slot(void)
{
    static const uint16_t one[] = {2}, two[] = {2, 0}, too_many[] = {0, 1, 2};
    const uint16_t slots[] = {0, 3};
    struct vgpu_conf *conf = uniform(3, 12);
    no_links();
    ledger_init(&ledger, conf, &links);
    struct binding_request request = wanting(1, 2, slots);
    request.colocate = true;
    request.advice = one;
    request.n_advice = 1;
    CHECK(choose(&request) == VGPU_OK && choice.advised && chosen() == 4);
    request.advice = two;
    request.n_advice = 2;
    CHECK(choose(&request) == VGPU_OK && choice.advised && choice.n == 2 &&
          choice.vgpus[0].gpu == 2);
    request.advice = too_many;
    request.n_advice = 3;
    CHECK(choose(&request) == VGPU_OK && !choice.advised && choice.n == 1 && chosen() == 1);
    vgpu_conf_free(conf);
}

/* --- properties ------------------------------------------------------------------------------ */

static uint32_t seed = 1;
static uint32_t random_below(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

/* A node of several types of different size, with slots at random homes. */
static struct vgpu_conf *random_node(int gpus)
{
    static const char *const types[] = {"a", "b", "c"};
    static const int gib[] = {1, 2, 4};
    char text[16384];
    int used = sprintf(text, "Version=1\n"), slot = 0;
    for (int i = 0; i < 3; i++)
        used += sprintf(text + used, "Type=%s Memory=%dGiB SMs=%d\n", types[i], gib[i], gib[i]);
    for (int gpu = 0; gpu < gpus; gpu++)
        used += sprintf(text + used, "Node=n GPU=%d Memory=64GiB SMs=64\n", 10 + gpu);
    for (int i = 0; i < gpus * 3; i++)
        used += sprintf(text + used, "Node=n Slot=%d Type=%s GPU=%u\n", slot++,
                        types[random_below(3)], 10 + random_below((uint32_t)gpus));
    return vgpu_conf_parse(text, (size_t)used, "test", "n", &err);
}

static void random_links(int gpus)
{
    no_links();
    for (int a = 0; a < gpus; a++)
        for (int b = 0; b < a; b++)
            join(a, b, (int)random_below(3) * (int)random_below(3));
}

static void check_ledger(const struct vgpu_conf *conf)
{
    for (uint32_t gpu = 0; gpu < conf->n_gpus; gpu++) {
        uint64_t memory = 0;
        uint32_t sms = 0, per_type[VGPU_MAX_TYPES] = {0};
        for (uint32_t slot = 0; slot < conf->n_slots; slot++)
            if (ledger.slots[slot].gpu == (int)gpu) {
                const struct vgpu_conf_type *type = &conf->types[conf->slots[slot].type];
                memory += type->memory;
                sms += type->sms;
                per_type[conf->slots[slot].type]++;
            }
        CHECK(memory <= conf->gpus[gpu].memory - conf->gpus[gpu].reserve &&
              sms <= conf->gpus[gpu].sms);
        for (uint32_t type = 0; type < conf->n_types; type++)
            CHECK(per_type[type] == ledger.bound[type][gpu] &&
                  per_type[type] <= ledger.places[type][gpu]);
    }
}

/* Every slot of the choice has exactly one GPU; vGPUs sit on different GPUs. */
static void check_choice(const struct binding_request *request)
{
    CHECK(__builtin_popcount(chosen()) == (int)choice.n);
    uint32_t slots_of[VGPU_MAX_GPUS] = {0};
    for (uint32_t i = 0; i < request->n_slots; i++) {
        CHECK(choice.place[i] < choice.n);
        slots_of[choice.place[i]]++;
    }
    for (uint32_t i = 0; i < choice.n; i++)
        CHECK(request->colocate ? slots_of[i] >= 1 : slots_of[i] == 1 || choice.vgpus[i].vgpu);
}

/* The slots of `type` free in Slurm's eyes are those that no job holds; take up to n of any type.
 */
static uint32_t free_slots(const struct vgpu_conf *conf, uint32_t n, uint16_t *slots)
{
    uint32_t found = 0;
    uint32_t start = random_below(conf->n_slots);
    for (uint32_t i = 0; i < conf->n_slots && found < n; i++) {
        uint16_t slot = (uint16_t)((start + i) % conf->n_slots);
        if (ledger.slots[slot].gpu == LEDGER_NOWHERE)
            slots[found++] = slot;
    }
    return found;
}

static void free_job(const struct vgpu_conf *conf, uint32_t job)
{
    for (uint32_t slot = 0; slot < conf->n_slots; slot++)
        if (ledger.slots[slot].job == job)
            ledger_free(&ledger, slot);
}

static void test_that_no_history_breaks_the_ledger(void)
{
    int bound = 0, full = 0;
    for (int node = 0; node < 60; node++) {
        int gpus = 1 + (int)random_below(8);
        struct vgpu_conf *conf = random_node(gpus);
        random_links(gpus);
        ledger_init(&ledger, conf, &links);
        for (uint32_t job = 1; job < 60; job++) {
            uint16_t slots[VGPU_MAX_SLOTS];
            struct binding_request request = wanting(job, 0, slots);
            request.n_slots = free_slots(conf, 1 + random_below(5), slots);
            request.colocate = random_below(4) == 0;
            if (request.n_slots > 0) {
                enum vgpu_status status = choose(&request);
                CHECK(status == VGPU_OK || (status == VGPU_NO_ROOM && !request.colocate));
                bound += status == VGPU_OK;
                full += status == VGPU_NO_ROOM;
                if (status == VGPU_OK) {
                    check_choice(&request);
                    enter(&request);
                }
            }
            check_ledger(conf);
            if (random_below(3))
                free_job(conf, 1 + random_below(job));
        }
        for (uint32_t job = 1; job < 60; job++)
            free_job(conf, job);
        for (uint32_t type = 0; type < conf->n_types; type++)
            for (uint32_t gpu = 0; gpu < conf->n_gpus; gpu++)
                CHECK(ledger.bound[type][gpu] == 0);
        vgpu_conf_free(conf);
    }
    CHECK_MSG(bound > 500 && full > 50, "%d %d", bound, full);
}

/* Can the slots go to the GPUs of the set, one each? By trying all orders. */
static bool can_cover(const struct vgpu_conf *conf, gpu_set set, uint32_t n, const uint16_t *slots)
{
    if (n == 0)
        return set == 0;
    for (gpu_set left = set; left; left &= left - 1) {
        int gpu = __builtin_ctz(left);
        uint16_t type = conf->slots[slots[0]].type;
        if (ledger.bound[type][gpu] < ledger.places[type][gpu] &&
            can_cover(conf, set & ~(1u << gpu), n - 1, slots + 1))
            return true;
    }
    return false;
}

static int value_of(gpu_set set, int *sum)
{
    int fewest = 255;
    *sum = 0;
    for (gpu_set a = set; a; a &= a - 1)
        for (gpu_set b = a & (a - 1); b; b &= b - 1) {
            int n = links.nvlinks[__builtin_ctz(a)][__builtin_ctz(b)];
            *sum += n;
            if (n < fewest)
                fewest = n;
        }
    return fewest;
}

static bool best_by_force(const struct vgpu_conf *conf, const struct binding_request *request,
                          int *fewest, int *sum)
{
    bool found = false;
    for (gpu_set set = 0; set < 1u << conf->n_gpus; set++) {
        int s, f = value_of(set, &s);
        if (__builtin_popcount(set) != (int)request->n_slots ||
            (request->affinity == VGPU_REQUIRE_NVLINK && f == 0) ||
            !can_cover(conf, set, request->n_slots, request->slots))
            continue;
        if (!found || f > *fewest || (f == *fewest && s > *sum)) {
            found = true;
            *fewest = f;
            *sum = s;
        }
    }
    return found;
}

static void test_that_the_choice_is_the_best_set_by_exhaustive_search(void)
{
    int found = 0, none = 0;
    for (int round = 0; round < 400; round++) {
        int gpus = 2 + (int)random_below(7);
        struct vgpu_conf *conf = random_node(gpus);
        uint16_t slots[VGPU_MAX_SLOTS];
        random_links(gpus);
        ledger_init(&ledger, conf, &links);
        for (uint32_t job = 100; job < 100 + random_below((uint32_t)gpus * 3); job++)
            if (free_slots(conf, 1, slots))
                bind_slots(job, 1, slots);
        struct binding_request request = wanting(1, 0, slots);
        request.n_slots = free_slots(conf, 1 + random_below(5), slots);
        request.affinity = random_below(2) ? VGPU_REQUIRE_NVLINK : VGPU_AFFINITY_NONE;
        int fewest = 0, sum = 0, got_sum;
        bool possible = request.n_slots > 0 && best_by_force(conf, &request, &fewest, &sum);
        enum vgpu_status status = choose(&request);
        CHECK((status == VGPU_OK) == possible);
        if (status == VGPU_OK) {
            check_choice(&request);
            CHECK(value_of(chosen(), &got_sum) == fewest && got_sum == sum);
        }
        found += possible;
        none += !possible;
        vgpu_conf_free(conf);
    }
    CHECK_MSG(found > 50 && none > 50, "%d %d", found, none);
}

static void test_that_sixteen_equal_gpus_are_decided_in_few_steps(void)
{
    const uint16_t slots[] = {1, 2, 3, 4, 17, 18, 19, 20};
    struct vgpu_conf *conf = uniform(16, 64);
    no_links();
    for (int a = 0; a < 16; a++)
        for (int b = 0; b < a; b++)
            join(a, b, 6);
    ledger_init(&ledger, conf, &links);
    struct binding_request request = wanting(1, 8, slots);
    CHECK(choose(&request) == VGPU_OK && choice.n == 8 && (chosen() & 0x1e) == 0x1e);
    vgpu_conf_free(conf);
}

int main(void)
{
    test_that_a_slot_is_bound_at_home_when_nothing_speaks_against_it();
    test_that_two_slots_of_one_home_go_to_different_gpus();
    test_that_the_intact_pair_is_taken_when_a_gpu_of_the_other_is_full();
    test_that_home_wins_only_among_equally_linked_sets();
    test_that_later_steps_share_and_may_hold_a_subset();
    test_that_single_steps_of_a_job_avoid_each_others_gpus();
    test_that_no_room_says_node_wish_and_what_is_free_where();
    test_that_bad_slots_are_refused_and_foreign_ones_fail();
    test_that_valid_advice_is_followed_in_its_order_and_other_advice_ignored();
    test_that_a_hard_wish_is_met_or_refused_with_the_right_status();
    test_that_colocated_slots_share_as_few_gpus_as_possible();
    test_that_colocation_follows_advice_that_gives_every_gpu_a_slot();
    test_that_no_history_breaks_the_ledger();
    test_that_the_choice_is_the_best_set_by_exhaustive_search();
    test_that_sixteen_equal_gpus_are_decided_in_few_steps();
    return claim_result();
}
