/* leases.h - the arbiter at work on one GPU: gates in control pages, reports from processes,
 * stopped and dead ones.
 *
 * The arbiter knows vGPUs only. Here a vGPU's processes become one: it wants when one of them
 * wants, it is idle or drained when all are. The caller owns the connections and the pages, calls
 * leases_timer at leases_deadline, and passes CLOCK_MONOTONIC in.
 */
#ifndef VGPU_LEASES_H
#define VGPU_LEASES_H

#include "proto/lease.h"
#include "proto/pages.h"
#include "vgpud/arbiter.h"

#include <sys/types.h>

struct leases;

/* One per GPU. NULL without memory. */
struct leases *leases_create(double sms);
void leases_free(struct leases *leases);

/* A vGPU of this GPU: `page` lies in its control page, `account` are its processes' entries; both
 * stay valid until leases_remove. Returns its number, or -1 when the GPU has ARBITER_MEMBERS
 * already. Its gate is closed at first; the epoch goes on from what the page holds. */
int leases_add(struct leases *leases, struct vgpu_lease *page, const struct vgpu_process *account,
               struct arbiter_share share);
void leases_change(struct leases *leases, int member, struct arbiter_share share, int64_t now);
void leases_remove(struct leases *leases, int member, int64_t now);

/* A report of process `index` (its index in the account page), whose pid is `pid`. Unknown epochs
 * and types are ignored. */
void leases_message(struct leases *leases, int member, uint32_t index, pid_t pid,
                    const struct vgpu_lease_message *message, int64_t now);

/* The process is dead. */
void leases_gone(struct leases *leases, int member, uint32_t index, int64_t now);

void leases_timer(struct leases *leases, int64_t now);
int64_t leases_deadline(const struct leases *leases);

struct arbiter_numbers leases_numbers(struct leases *leases, int member, int64_t now);

#endif
