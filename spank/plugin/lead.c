#include "lead.h"

#include "clock.h"

#include <stddef.h>
#include <sys/mman.h>

#define LOOK_MS 5

_Atomic int *lead_create(void)
{
    void *page =
        mmap(NULL, sizeof(_Atomic int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return page == MAP_FAILED ? NULL : page;
}

void lead_say(_Atomic int *lead, enum lead_word word)
{
    if (lead)
        atomic_store(lead, word);
}

enum lead_word lead_wait(const _Atomic int *lead, int deadline_ms)
{
    uint64_t deadline = clock_ms() + (uint64_t)deadline_ms;
    int word = LEAD_SILENT;
    while (lead && (word = atomic_load(lead)) == LEAD_SILENT && clock_left_ms(deadline) > 0)
        clock_sleep_ms(LOOK_MS);
    return (enum lead_word)word;
}
