/* binding.c - the simple rule: the slots of a step sit on different GPUs, the best linked set of
 * them, at home if that is as good; valid advice comes first.
 *
 * The slots to be placed are sorted into kinds (slots of one type). A set of GPUs is possible when
 * each of them can take a slot of its own: a cover. Covers grow GPU by GPU (augmenting paths), and
 * every set that can be covered can be extended to the largest size there is, so a greedy search
 * never runs into a dead end unless a hard wish makes one.
 */
#include "binding.h"

#include <stdio.h>
#include <string.h>

#define NONE      (-1)
#define NO_PAIR   UINT8_MAX /* the fewest links of a set without pairs */
#define MAX_STEPS 100000    /* of a search: complete for up to 16 GPUs */
#define ALL_GPUS  ((gpu_set)-1)

/* What is to be decided for one request. */
struct task {
    const struct ledger *ledger;
    const struct binding_request *request;
    bool as_if_empty; /* judge as if nothing were bound: could the node ever do it? */
    uint32_t n;       /* slots to be placed */
    uint32_t n_kinds;
    struct {
        uint16_t type;
        uint16_t wanted;
    } kinds[VGPU_MAX_TYPES];
    gpu_set fixed;                 /* GPUs of slots that are bound already */
    gpu_set other;                 /* GPUs of vGPUs that the job has in other steps */
    uint16_t homes[VGPU_MAX_GPUS]; /* slots that are at home there */
    int most_links;
    int gpu_of[VGPU_MAX_SLOTS]; /* the answer: GPU of each slot of the request */
};

/* Which kind of slot each GPU of a set takes. */
struct cover {
    int8_t kind[VGPU_MAX_GPUS];
    uint16_t used[VGPU_MAX_TYPES];
};

/* How good a set is: compared from top to bottom. */
struct score {
    int reused; /* GPUs where the job has another vGPU: fewer is better */
    int fewest; /* links of the worst pair */
    int links;
    int homes;
};

struct search {
    struct task *task;
    uint32_t size; /* of the wanted set */
    uint32_t steps;
    bool found;
    struct score best;
    gpu_set set;
};

/* --- the ledger ------------------------------------------------------------------------------ */

void ledger_init(struct ledger *ledger, const struct vgpu_conf *conf, const struct links *links)
{
    memset(ledger, 0, sizeof *ledger);
    ledger->conf = conf;
    if (links)
        ledger->links = *links;
    for (uint32_t i = 0; i < VGPU_MAX_SLOTS; i++)
        ledger->slots[i].gpu = LEDGER_NOWHERE;
    for (uint32_t i = 0; i < conf->n_slots; i++)
        ledger->places[conf->slots[i].type][conf->slots[i].gpu]++;
}

int ledger_bind(struct ledger *ledger, uint32_t slot, int gpu, uint32_t job, uint64_t vgpu)
{
    const struct vgpu_conf *conf = ledger->conf;
    if (slot >= conf->n_slots || gpu < 0 || (uint32_t)gpu >= conf->n_gpus)
        return -1;
    uint16_t type = conf->slots[slot].type;
    if (ledger->slots[slot].gpu != LEDGER_NOWHERE ||
        ledger->bound[type][gpu] >= ledger->places[type][gpu])
        return -1;
    ledger->bound[type][gpu]++;
    ledger->slots[slot] = (struct ledger_slot){.gpu = gpu, .job = job, .vgpu = vgpu};
    return 0;
}

void ledger_free(struct ledger *ledger, uint32_t slot)
{
    struct ledger_slot *entry = &ledger->slots[slot];
    if (entry->gpu == LEDGER_NOWHERE)
        return;
    ledger->bound[ledger->conf->slots[slot].type][entry->gpu]--;
    *entry = (struct ledger_slot){.gpu = LEDGER_NOWHERE};
}

/* --- the task -------------------------------------------------------------------------------- */

static int room(const struct task *task, uint32_t kind, int gpu)
{
    const struct ledger *ledger = task->ledger;
    uint16_t type = task->kinds[kind].type;
    return ledger->places[type][gpu] - (task->as_if_empty ? 0 : ledger->bound[type][gpu]);
}

static gpu_set gpus_with_room(const struct task *task)
{
    gpu_set set = 0;
    for (int gpu = 0; gpu < (int)task->ledger->conf->n_gpus; gpu++)
        for (uint32_t kind = 0; kind < task->n_kinds; kind++)
            if (room(task, kind, gpu) > 0)
                set |= 1u << gpu;
    return set & ~task->fixed;
}

/* The GPUs that a hard wish allows beside this one. */
static gpu_set allowed_beside(const struct task *task, int gpu)
{
    const struct links *links = &task->ledger->links;
    if (task->request->affinity == VGPU_SAME_NUMA)
        return links->same_numa[gpu];
    if (task->request->affinity != VGPU_REQUIRE_NVLINK)
        return ALL_GPUS;
    gpu_set set = 0;
    for (int other = 0; other < VGPU_MAX_GPUS; other++)
        if (links->nvlinks[gpu][other])
            set |= 1u << other;
    return set;
}

static gpu_set allowed_beside_all(const struct task *task, gpu_set set)
{
    gpu_set allowed = ALL_GPUS;
    for (gpu_set left = set; left; left &= left - 1)
        allowed &= allowed_beside(task, __builtin_ctz(left));
    return allowed;
}

/* Does the set meet the hard wish, each with each? */
static bool meets_wish(const struct task *task, gpu_set set)
{
    for (gpu_set left = set; left; left &= left - 1) {
        int gpu = __builtin_ctz(left);
        if ((set & ~(1u << gpu)) & ~allowed_beside(task, gpu))
            return false;
    }
    return true;
}

static uint32_t kind_of(struct task *task, uint16_t type)
{
    uint32_t kind = 0;
    while (kind < task->n_kinds && task->kinds[kind].type != type)
        kind++;
    if (kind == task->n_kinds) {
        task->kinds[kind].type = type;
        task->kinds[kind].wanted = 0;
        task->n_kinds++;
    }
    return kind;
}

/* Check the slots of the request and sort them into those that are bound and those to be placed. */
static enum vgpu_status read_request(struct task *task, vgpu_error_t *err)
{
    const struct ledger *ledger = task->ledger;
    const struct binding_request *request = task->request;
    const struct vgpu_conf *conf = ledger->conf;
    bool seen[VGPU_MAX_SLOTS] = {false};

    if (request->n_slots == 0 || request->n_slots > VGPU_MAX_SLOTS) {
        vgpu_errorf(err, "a step binds 1 to %d slots, not %u", VGPU_MAX_SLOTS, request->n_slots);
        return VGPU_REFUSED;
    }
    for (uint32_t i = 0; i < request->n_slots; i++) {
        uint16_t slot = request->slots[i];
        if (slot >= conf->n_slots || seen[slot]) {
            vgpu_errorf(err, "slot %u %s; vgpu.conf gives node %s slots 0 to %d", slot,
                        slot < conf->n_slots ? "is stated twice" : "does not exist", conf->node,
                        (int)conf->n_slots - 1);
            return VGPU_REFUSED;
        }
        seen[slot] = true;
        const struct ledger_slot *entry = &ledger->slots[slot];
        task->gpu_of[i] = task->as_if_empty ? LEDGER_NOWHERE : entry->gpu;
        if (task->gpu_of[i] == LEDGER_NOWHERE) {
            task->kinds[kind_of(task, conf->slots[slot].type)].wanted++;
            task->homes[conf->slots[slot].gpu]++;
            task->n++;
        } else if (entry->job != request->job) {
            vgpu_errorf(err, "slot %u is bound to job %u", slot, entry->job);
            return VGPU_FAILED;
        } else {
            task->fixed |= 1u << entry->gpu;
        }
    }
    return VGPU_OK;
}

/* Two vGPUs on one GPU, made by two earlier steps: a process could not tell them apart. */
static enum vgpu_status check_fixed(const struct task *task, vgpu_error_t *err)
{
    const struct binding_request *request = task->request;
    int first[VGPU_MAX_GPUS];
    memset(first, NONE, sizeof first);
    for (uint32_t i = 0; i < request->n_slots; i++) {
        int gpu = task->gpu_of[i];
        if (gpu == LEDGER_NOWHERE)
            continue;
        if (first[gpu] == NONE)
            first[gpu] = request->slots[i];
        else if (task->ledger->slots[first[gpu]].vgpu !=
                 task->ledger->slots[request->slots[i]].vgpu) {
            vgpu_errorf(
                err,
                "node %s: slots %d and %u of job %u are separate vGPUs on GPU %u since earlier "
                "steps bound them one by one; one step cannot hold both",
                task->ledger->conf->node, first[gpu], request->slots[i], request->job,
                task->ledger->conf->gpus[gpu].minor);
            return VGPU_NO_ROOM;
        }
    }
    return VGPU_OK;
}

static void look_around(struct task *task)
{
    const struct ledger *ledger = task->ledger;
    for (uint32_t i = 0; i < ledger->conf->n_slots; i++)
        if (ledger->slots[i].gpu != LEDGER_NOWHERE && ledger->slots[i].job == task->request->job)
            task->other |= 1u << ledger->slots[i].gpu;
    task->other &= ~task->fixed;
    for (int a = 0; a < VGPU_MAX_GPUS; a++)
        for (int b = 0; b < VGPU_MAX_GPUS; b++)
            if (ledger->links.nvlinks[a][b] > task->most_links)
                task->most_links = ledger->links.nvlinks[a][b];
}

/* --- covers ---------------------------------------------------------------------------------- */

static void cover_init(struct cover *cover)
{
    memset(cover->kind, NONE, sizeof cover->kind);
    memset(cover->used, 0, sizeof cover->used);
}

/* Give the GPU a slot of a kind in `kinds`, moving others to further kinds where that makes room.
 */
static bool cover_add(const struct task *task, struct cover *cover, int gpu, uint64_t *kinds)
{
    for (uint32_t kind = 0; kind < task->n_kinds; kind++) {
        if (!(*kinds & 1ull << kind) || room(task, kind, gpu) <= 0)
            continue;
        *kinds &= ~(1ull << kind);
        bool free = cover->used[kind] < task->kinds[kind].wanted;
        for (int other = 0; !free && other < VGPU_MAX_GPUS; other++)
            if (cover->kind[other] == (int)kind && cover_add(task, cover, other, kinds)) {
                cover->used[kind]--;
                free = true;
            }
        if (free) {
            cover->kind[gpu] = (int8_t)kind;
            cover->used[kind]++;
            return true;
        }
    }
    return false;
}

/* Cover the whole set; a GPU whose pin is not NONE takes a slot of that kind. */
static bool cover_set(const struct task *task, gpu_set set, const int *pins, struct cover *cover)
{
    cover_init(cover);
    for (gpu_set left = set; left; left &= left - 1) {
        int gpu = __builtin_ctz(left);
        if (pins[gpu] == NONE)
            continue;
        if (cover->used[pins[gpu]] >= task->kinds[pins[gpu]].wanted ||
            room(task, (uint32_t)pins[gpu], gpu) <= 0)
            return false;
        cover->used[pins[gpu]]++;
    }
    /* Pinned GPUs stay out of cover->kind meanwhile, so that nothing moves them. */
    for (gpu_set left = set; left; left &= left - 1) {
        int gpu = __builtin_ctz(left);
        uint64_t kinds = ~0ull;
        if (pins[gpu] == NONE && !cover_add(task, cover, gpu, &kinds))
            return false;
    }
    for (gpu_set left = set; left; left &= left - 1) {
        int gpu = __builtin_ctz(left);
        if (pins[gpu] != NONE)
            cover->kind[gpu] = (int8_t)pins[gpu];
    }
    return true;
}

/* Can all the slots go onto the set? (That each GPU gets one is the cover's part.) */
static bool holds(const struct task *task, gpu_set set)
{
    for (uint32_t kind = 0; kind < task->n_kinds; kind++) {
        int total = 0;
        for (gpu_set left = set; left; left &= left - 1)
            total += room(task, kind, __builtin_ctz(left));
        if (total < task->kinds[kind].wanted)
            return false;
    }
    return true;
}

/* --- the search ------------------------------------------------------------------------------ */

static bool is_better(const struct score *a, const struct score *b)
{
    if (a->reused != b->reused)
        return a->reused < b->reused;
    if (a->fewest != b->fewest)
        return a->fewest > b->fewest;
    if (a->links != b->links)
        return a->links > b->links;
    return a->homes > b->homes;
}

/* What a GPU adds to `homes`: with one slot a GPU, at most one of them can be at home. */
static int home_gain(const struct task *task, int gpu)
{
    if (task->request->colocate)
        return task->homes[gpu];
    return task->homes[gpu] > 0;
}

static struct score score_with(const struct task *task, gpu_set set, struct score score, int gpu)
{
    for (gpu_set left = set | task->fixed; left; left &= left - 1) {
        int links = task->ledger->links.nvlinks[gpu][__builtin_ctz(left)];
        score.links += links;
        if (links < score.fewest)
            score.fewest = links;
    }
    score.reused += (task->other >> gpu) & 1;
    score.homes += home_gain(task, gpu);
    return score;
}

/* The best that a set of `count` GPUs can still become with GPUs out of `rest`. */
static struct score upper_bound(const struct search *search, uint32_t count, struct score score,
                                gpu_set rest)
{
    const struct task *task = search->task;
    int n_fixed = __builtin_popcount(task->fixed), missing = (int)(search->size - count), gain = 0;
    for (uint32_t i = count; i < search->size; i++)
        score.links += ((int)i + n_fixed) * task->most_links;
    for (gpu_set left = rest; left; left &= left - 1)
        gain += home_gain(task, __builtin_ctz(left));
    if (!task->request->colocate && gain > missing)
        gain = missing;
    score.homes += gain;
    return score;
}

struct option {
    int gpu, load;
    struct score score;
};

/* The GPUs of `rest` by how good the set becomes with them; equally good ones by how little is
 * bound there. */
static int sort_options(const struct task *task, gpu_set set, struct score score, gpu_set rest,
                        struct option *options)
{
    int n = 0;
    for (gpu_set left = rest; left; left &= left - 1) {
        struct option new = {.gpu = __builtin_ctz(left)};
        new.score = score_with(task, set, score, new.gpu);
        for (uint32_t type = 0; type < task->ledger->conf->n_types; type++)
            new.load += task->ledger->bound[type][new.gpu];
        int i = n++;
        while (i > 0 && (is_better(&new.score, &options[i - 1].score) ||
                         (!is_better(&options[i - 1].score, &new.score) &&
                          new.load < options[i - 1].load))) {
            options[i] = options[i - 1];
            i--;
        }
        options[i] = new;
    }
    return n;
}

/* Extend the set by GPUs of `rest` to the wanted size, best first; each set is met once. */
static void grow(struct search *search, gpu_set set, uint32_t count, struct score score,
                 const struct cover *cover, gpu_set rest)
{
    struct option options[VGPU_MAX_GPUS];
    if (count == search->size) {
        if (holds(search->task, set) && (!search->found || is_better(&score, &search->best))) {
            search->found = true;
            search->best = score;
            search->set = set;
        }
        return;
    }
    int n = sort_options(search->task, set, score, rest, options);
    for (int i = 0; i < n && search->steps < MAX_STEPS; i++) {
        int gpu = options[i].gpu;
        struct cover extended = *cover;
        uint64_t kinds = ~0ull;
        rest &= ~(1u << gpu);
        gpu_set beside = rest & allowed_beside(search->task, gpu);
        if (count + 1 + (uint32_t)__builtin_popcount(beside) < search->size ||
            !cover_add(search->task, &extended, gpu, &kinds))
            continue;
        search->steps++;
        struct score bound = upper_bound(search, count + 1, options[i].score, beside);
        if (!search->found || is_better(&bound, &search->best))
            grow(search, set | 1u << gpu, count + 1, options[i].score, &extended, beside);
    }
}

static bool search_size(struct task *task, uint32_t size, gpu_set *set)
{
    struct search search = {.task = task, .size = size};
    struct score nothing = {.fewest = NO_PAIR};
    struct cover cover;
    cover_init(&cover);
    grow(&search, 0, 0, nothing, &cover,
         gpus_with_room(task) & allowed_beside_all(task, task->fixed));
    *set = search.set;
    return search.found;
}

/* The set of GPUs for the slots to be placed: one GPU a slot, or as few as possible. */
static bool find_set(struct task *task, gpu_set *set)
{
    *set = 0;
    if (!meets_wish(task, task->fixed))
        return false;
    if (task->n == 0)
        return true;
    if (!task->request->colocate)
        return task->n <= VGPU_MAX_GPUS && search_size(task, task->n, set);
    for (uint32_t size = 1; size <= task->n && size <= task->ledger->conf->n_gpus; size++)
        if (search_size(task, size, set))
            return true;
    return false;
}

/* --- advice ---------------------------------------------------------------------------------- */

static int gpu_of_minor(const struct vgpu_conf *conf, uint16_t minor)
{
    for (uint32_t gpu = 0; gpu < conf->n_gpus; gpu++)
        if (conf->gpus[gpu].minor == minor)
            return (int)gpu;
    return NONE;
}

/* The set of new GPUs that the advice amounts to, and the whole order; false if it cannot be
 * followed. */
static bool follow_advice(const struct task *task, gpu_set *set, int *order)
{
    const struct binding_request *request = task->request;
    gpu_set all = 0;
    if (request->n_advice == 0 || request->n_advice > VGPU_MAX_GPUS)
        return false;
    for (uint32_t i = 0; i < request->n_advice; i++) {
        order[i] = gpu_of_minor(task->ledger->conf, request->advice[i]);
        if (order[i] == NONE || (all & 1u << order[i]))
            return false;
        all |= 1u << order[i];
    }
    *set = all & ~task->fixed;
    uint32_t size = (uint32_t)__builtin_popcount(*set);
    if ((all & task->fixed) != task->fixed || !meets_wish(task, all) || !holds(task, *set))
        return false;
    if (request->colocate ? (size == 0) != (task->n == 0) : size != task->n)
        return false;
    int pins[VGPU_MAX_GPUS];
    struct cover cover;
    memset(pins, NONE, sizeof pins);
    return cover_set(task, *set, pins, &cover);
}

/* --- the answer ------------------------------------------------------------------------------ */

static uint32_t kind_of_slot(const struct task *task, uint32_t i)
{
    uint16_t type = task->ledger->conf->slots[task->request->slots[i]].type;
    uint32_t kind = 0;
    while (task->kinds[kind].type != type)
        kind++;
    return kind;
}

/* Cover the set with as many slots at home as possible: a GPU is pinned to a kind that is at home
 * there if the others can still be covered. */
static void cover_at_home(const struct task *task, gpu_set set, struct cover *cover)
{
    int pins[VGPU_MAX_GPUS];
    memset(pins, NONE, sizeof pins);
    for (uint32_t i = 0; i < task->request->n_slots; i++) {
        int home = task->ledger->conf->slots[task->request->slots[i]].gpu;
        if (task->gpu_of[i] != LEDGER_NOWHERE || !(set & 1u << home) || pins[home] != NONE)
            continue;
        pins[home] = (int)kind_of_slot(task, i);
        if (!cover_set(task, set, pins, cover))
            pins[home] = NONE;
    }
    cover_set(task, set, pins, cover);
}

static void place(struct task *task, uint16_t used[][VGPU_MAX_GPUS], uint32_t i, int gpu)
{
    used[kind_of_slot(task, i)][gpu]++;
    task->gpu_of[i] = gpu;
}

/* Each GPU of the set takes one slot of its kind: first those that are at home. */
static void place_one_each(struct task *task, gpu_set set, const struct cover *cover,
                           uint16_t used[][VGPU_MAX_GPUS])
{
    for (int at_home = 1; at_home >= 0; at_home--)
        for (uint32_t i = 0; i < task->request->n_slots; i++) {
            int home = task->ledger->conf->slots[task->request->slots[i]].gpu;
            if (task->gpu_of[i] != LEDGER_NOWHERE)
                continue;
            for (gpu_set left = set; left; left &= left - 1) {
                int gpu = __builtin_ctz(left);
                if (cover->kind[gpu] != (int)kind_of_slot(task, i) || (at_home && gpu != home))
                    continue;
                place(task, used, i, gpu);
                set &= ~(1u << gpu);
                break;
            }
        }
}

/* Colocated slots beyond one a GPU: at home if there is room, else wherever there is. */
static void place_others(struct task *task, gpu_set set, uint16_t used[][VGPU_MAX_GPUS])
{
    for (int at_home = 1; at_home >= 0; at_home--)
        for (uint32_t i = 0; i < task->request->n_slots; i++) {
            int home = task->ledger->conf->slots[task->request->slots[i]].gpu;
            for (gpu_set left = set; left && task->gpu_of[i] == LEDGER_NOWHERE; left &= left - 1) {
                int gpu = __builtin_ctz(left);
                uint32_t kind = kind_of_slot(task, i);
                if ((!at_home || gpu == home) && used[kind][gpu] < room(task, kind, gpu))
                    place(task, used, i, gpu);
            }
        }
}

static void assign(struct task *task, gpu_set set)
{
    uint16_t used[VGPU_MAX_TYPES][VGPU_MAX_GPUS] = {{0}};
    struct cover cover;
    cover_at_home(task, set, &cover);
    place_one_each(task, set, &cover, used);
    place_others(task, set, used);
}

/* Ranks follow the advice, or else the order in which Slurm's slots come. */
static void answer(const struct task *task, const int *order, struct binding_choice *choice)
{
    const struct binding_request *request = task->request;
    int rank[VGPU_MAX_GPUS];
    memset(rank, NONE, sizeof rank);
    if (choice->advised)
        for (uint32_t i = 0; i < request->n_advice; i++)
            rank[order[i]] = (int)choice->n++;
    for (uint32_t i = 0; i < request->n_slots; i++) {
        int gpu = task->gpu_of[i];
        if (rank[gpu] == NONE)
            rank[gpu] = (int)choice->n++;
        choice->place[i] = (uint8_t)rank[gpu];
        choice->vgpus[rank[gpu]].gpu = gpu;
        choice->vgpus[rank[gpu]].vgpu = 0;
    }
    for (uint32_t i = 0; i < request->n_slots; i++) {
        const struct ledger_slot *entry = &task->ledger->slots[request->slots[i]];
        if (entry->gpu != LEDGER_NOWHERE)
            choice->vgpus[choice->place[i]].vgpu = entry->vgpu;
    }
}

/* "2 a100-4g, 1 a100-2g; free: 3 on GPU 0, 1 on GPU 2" */
static void describe(const struct task *task, char *text, size_t size)
{
    const struct vgpu_conf *conf = task->ledger->conf;
    size_t used = 0;
    for (uint32_t kind = 0; kind < task->n_kinds && used < size; kind++)
        used +=
            (size_t)snprintf(text + used, size - used, "%s%u %s", kind ? ", " : "",
                             task->kinds[kind].wanted, conf->types[task->kinds[kind].type].name);
    bool any = false;
    for (uint32_t gpu = 0; gpu < conf->n_gpus && used < size; gpu++) {
        int free = 0;
        for (uint32_t kind = 0; kind < task->n_kinds; kind++)
            free += room(task, kind, (int)gpu);
        if (free > 0)
            used += (size_t)snprintf(text + used, size - used, "%s%d on GPU %u",
                                     any ? ", " : "; free: ", free, conf->gpus[gpu].minor);
        any |= free > 0;
    }
    if (!any && used < size)
        snprintf(text + used, size - used, "; free: none");
}

/* Could the node meet the wish if nothing were bound? */
static bool could_ever(const struct task *task)
{
    struct task empty = {.ledger = task->ledger, .request = task->request, .as_if_empty = true};
    gpu_set set;
    return read_request(&empty, NULL) == VGPU_OK && find_set(&empty, &set);
}

static enum vgpu_status no_room(const struct task *task, vgpu_error_t *err)
{
    static const char *const wishes[] = {
        [VGPU_REQUIRE_NVLINK] = " that are all joined by NVLink",
        [VGPU_SAME_NUMA] = " of one NUMA node",
    };
    const char *node = task->ledger->conf->node;
    enum vgpu_affinity affinity = task->request->affinity;
    bool hard = affinity == VGPU_REQUIRE_NVLINK || affinity == VGPU_SAME_NUMA;
    const char *wish = hard ? wishes[affinity] : "";
    uint32_t n = task->n + (uint32_t)__builtin_popcount(task->fixed);
    char detail[200];

    if (hard && !could_ever(task)) {
        vgpu_errorf(err, "node %s never has room for %u %s%s", node, n,
                    task->request->colocate ? "slots on GPUs" : "vGPUs on different GPUs", wish);
        return VGPU_REFUSED;
    }
    describe(task, detail, sizeof detail);
    vgpu_errorf(err, "node %s has no room now for %u %s%s (wanted: %s)", node, n,
                task->request->colocate ? "slots on GPUs" : "vGPUs on different GPUs", wish,
                detail);
    return VGPU_NO_ROOM;
}

enum vgpu_status binding_choose(const struct ledger *ledger, const struct binding_request *request,
                                struct binding_choice *choice, vgpu_error_t *err)
{
    struct task task = {.ledger = ledger, .request = request};
    int order[VGPU_MAX_GPUS];
    gpu_set set;

    memset(choice, 0, sizeof *choice);
    enum vgpu_status status = read_request(&task, err);
    if (status == VGPU_OK)
        status = check_fixed(&task, err);
    if (status != VGPU_OK)
        return status;
    look_around(&task);
    choice->advised = follow_advice(&task, &set, order);
    if (!choice->advised && !find_set(&task, &set))
        return no_room(&task, err);
    assign(&task, set);
    answer(&task, order, choice);
    return VGPU_OK;
}
