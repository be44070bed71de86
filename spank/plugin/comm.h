/* comm.h - how the ranks of a job talk to each other: a pattern by name, or a matrix in a file. */
#ifndef VGPU_COMM_H
#define VGPU_COMM_H

#include "proto/error.h"
#include "proto/wire.h"

#include <stdbool.h>
#include <stddef.h>

struct comm_matrix {
    uint32_t n;
    double demand[VGPU_MAX_GPUS][VGPU_MAX_GPUS];
};

/* ring, chain, tree, alltoall, or tpKxdpM as in tp4xdp2 (K ranks talk much, M groups of them
 * little). */
bool comm_is_pattern(const char *text);

/* As many rows of as many numbers, separated by blanks or commas; # starts a comment. `name` stands
 * for the file in errors. Returns 0, or -1 with err. */
int comm_matrix_parse(struct comm_matrix *matrix, const char *text, const char *name,
                      vgpu_error_t *err);

/* The same from a file. */
int comm_matrix_read(struct comm_matrix *matrix, const char *path, vgpu_error_t *err);

#endif
