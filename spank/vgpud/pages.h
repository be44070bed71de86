/* pages.h - makes, takes up and repairs the two pages of a vGPU. The layout is proto/pages.h. */
#ifndef VGPUD_PAGES_H
#define VGPUD_PAGES_H

#include "proto/error.h"
#include "proto/pages.h"

#include <stdbool.h>
#include <stddef.h>

struct pages {
    struct vgpu_control *control;
    struct vgpu_account *account;
    int control_fd; /* read-only: what jobs get */
    int account_fd;
    uint64_t account_inode;
};

/* The control page of vGPU `id` as file `id` in the directory: a new one, zeroed but for its head,
 * or the one that is there. Returns -1 with err. */
int pages_make_control(struct pages *pages, int dir, uint64_t id, vgpu_error_t *err);
int pages_open_control(struct pages *pages, int dir, uint64_t id, vgpu_error_t *err);
void pages_remove_control(int dir, uint64_t id);

/* A new account, sealed against shrinking and growing. Returns -1 with err. */
int pages_make_account(struct pages *pages, vgpu_error_t *err);

/* The account with that inode, from among the descriptors that a process holds. Returns -1 if it
 * holds none. */
int pages_find_account(struct pages *pages, int pid, uint64_t inode);

void pages_close(struct pages *pages);

/* --- the account: what a job writes there is taken with care --- */

/* Bytes that the process is charged, at most `limit`. */
uint64_t account_charged(const struct vgpu_account *account, uint32_t entry, uint64_t limit);

/* Is no thread of the processes in `live` (indices) inside a charge or release? */
bool account_is_quiet(const struct vgpu_account *account, const uint16_t *live, size_t n);

/* Counters that outlive their process. */
struct account_counters {
    uint64_t allocations, refusals, launches;
};

/* Forget process `entry`, adding its counters to `counters`. */
void account_clear(struct vgpu_account *account, uint32_t entry, struct account_counters *counters);

/* charged = sum over the processes. Only while the account is quiet and control.repairing keeps it
 * so. */
void account_recount(struct vgpu_account *account);

/* Without quiet: take the process' own charge off the sum. Never takes off more than it had; may
 * leave bytes charged that nobody holds, until the next recount. */
void account_subtract(struct vgpu_account *account, uint32_t entry);

#endif
