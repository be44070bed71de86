/* eligible.h - could a job run on another node? As far as we can tell from what Slurm says about
 * both. No Slurm in here. */
#ifndef VGPU_ELIGIBLE_H
#define VGPU_ELIGIBLE_H

#include "proto/error.h"

#include <stdbool.h>

/* Do a node's features ("a,b") satisfy a job's constraint ("a&(b|c)")? Counts (*2) and brackets are
 * taken as parentheses; what is not well formed counts as satisfied: Slurm has accepted it. */
bool eligible_features(const char *constraint, const char *features);

/* Has a node's Gres ("vgpu:a100-4g:16(S:0-1),gpu:2") what a job wants per node of vgpu
 * ("gres:vgpu:a100-4g:2" or "gres/vgpu:2")? A job that names no vgpu fits. */
bool eligible_gres(const char *wanted, const char *gres);

/* Is the node in a host list? An empty list or one that cannot be read holds nothing. */
bool eligible_listed(const char *list, const char *node);

/* The list with the node appended, malloc'ed; unchanged if it is there already. */
char *eligible_exclude(const char *list, const char *node);

#endif
