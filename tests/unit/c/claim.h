/* claim.h - the smallest thing that can check C code: claims that print where they fail, and a
 * result for the shell. */
#ifndef CLAIM_H
#define CLAIM_H

#include <stdio.h>

static int claim_checked, claim_failed;

#define CHECK_MSG(condition, ...)                                                                  \
    do {                                                                                           \
        claim_checked++;                                                                           \
        if (!(condition)) {                                                                        \
            claim_failed++;                                                                        \
            printf("%s:%d: %s: not true: %s: ", __FILE__, __LINE__, __func__, #condition);         \
            printf(__VA_ARGS__);                                                                   \
            printf("\n");                                                                          \
        }                                                                                          \
    } while (0)

#define CHECK(condition) CHECK_MSG(condition, "-")

static inline int claim_result(void)
{
    printf("%d checked, %d failed\n", claim_checked, claim_failed);
    return claim_failed || !claim_checked;
}

#endif
