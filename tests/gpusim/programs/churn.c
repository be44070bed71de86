/* churn - take and give back device memory of every kind, at random, until killed or done.
 *
 *   churn SEED SECONDS [MIB [KIND,KIND,...]]
 *
 * Objects take up to MIB (default 64). SECONDS 0: for ever. Says "ready" when it begins. At the end
 * it gives everything back and prints how often it took, and was refused.
 */
#include "kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_OBJECTS 64

struct churn {
    unsigned long long random;
    unsigned long max_mib;
    const char *only; /* list of kinds; NULL: all */
    struct object objects[MAX_OBJECTS];
    unsigned long taken, refused;
};

static unsigned long long next_random(struct churn *churn)
{
    churn->random ^= churn->random << 13;
    churn->random ^= churn->random >> 7;
    churn->random ^= churn->random << 17;
    return churn->random;
}

static bool allowed(const struct churn *churn, const char *name)
{
    const char *at = churn->only ? strstr(churn->only, name) : NULL;
    size_t n = strlen(name);
    return !churn->only ||
           (at && (at == churn->only || at[-1] == ',') && (at[n] == ',' || at[n] == '\0'));
}

static const struct kind *pick_kind(struct churn *churn)
{
    for (;;) {
        const struct kind *kind = &kinds[next_random(churn) % KINDS];
        if (allowed(churn, kind->name))
            return kind;
    }
}

/* Take something into an empty place, or give back what is there. */
static void step(struct churn *churn)
{
    struct object *object = &churn->objects[next_random(churn) % MAX_OBJECTS];
    if (object->kind) {
        kinds_give(object);
        return;
    }
    size_t size = next_random(churn) % (churn->max_mib << 20) + 1;
    if (kinds_take(object, pick_kind(churn), size))
        churn->taken++;
    else
        churn->refused++;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fputs("Usage: churn SEED SECONDS [MIB [KIND,KIND,...]]\n", stderr);
        return 2;
    }
    struct churn churn = {.random = strtoull(argv[1], NULL, 10) * 0x9e3779b97f4a7c15ull | 1,
                          .max_mib = argc > 3 ? strtoul(argv[3], NULL, 10) : 64,
                          .only = argc > 4 ? argv[4] : NULL};
    double seconds = strtod(argv[2], NULL), end = now() + seconds;
    kinds_start();
    puts("ready");
    fflush(stdout);
    while (seconds <= 0 || now() < end)
        step(&churn);
    for (int i = 0; i < MAX_OBJECTS; i++)
        if (churn.objects[i].kind)
            kinds_give(&churn.objects[i]);
    kinds_trim();
    printf("%lu %lu\n", churn.taken, churn.refused);
    return 0;
}
