#include "comm.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX   65536
#define FACTOR_MAX 1024

/* A number from 1 to FACTOR_MAX; the rest of the text, or NULL. */
static const char *factor_skip(const char *text)
{
    char *end;
    long factor = isdigit((unsigned char)*text) ? strtol(text, &end, 10) : 0;
    return factor >= 1 && factor <= FACTOR_MAX ? end : NULL;
}

bool comm_is_pattern(const char *text)
{
    static const char *const names[] = {"ring", "chain", "tree", "alltoall"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i]) == 0)
            return true;
    const char *at = strncmp(text, "tp", 2) == 0 ? factor_skip(text + 2) : NULL;
    at = at && strncmp(at, "xdp", 3) == 0 ? factor_skip(at + 3) : NULL;
    return at && *at == '\0';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == ',' || c == '\r';
}

/* One line into row[]; how many numbers it had, or -1 with err. */
static int row_parse(double row[VGPU_MAX_GPUS], const char *line, const char *end,
                     vgpu_error_t *err)
{
    int n = 0;
    for (;;) {
        while (line < end && is_blank(*line))
            line++;
        if (line == end || *line == '#')
            return n;
        char *after;
        double value = isdigit((unsigned char)*line) || *line == '.' ? strtod(line, &after) : -1;
        if (!(value >= 0) || isinf(value) || after > end ||
            (after < end && !is_blank(*after) && *after != '#'))
            return vgpu_errorf(err, "\"%.*s\" is not a number of 0 or more",
                               (int)strcspn(line, " \t,\r\n#") % 40, line);
        if (n == VGPU_MAX_GPUS)
            return vgpu_errorf(err, "more than %d numbers", VGPU_MAX_GPUS);
        row[n++] = value;
        line = after;
    }
}

int comm_matrix_parse(struct comm_matrix *matrix, const char *text, const char *name,
                      vgpu_error_t *err)
{
    uint32_t rows = 0, columns = 0;
    int line = 1;
    for (const char *at = text; *at; line++) {
        const char *end = at + strcspn(at, "\n");
        double row[VGPU_MAX_GPUS];
        vgpu_error_t why;
        int n = row_parse(row, at, end, &why);
        if (n < 0)
            return vgpu_errorf(err, "%s:%d: %s", name, line, why.text);
        at = *end ? end + 1 : end;
        if (n == 0)
            continue;
        if (columns == 0)
            columns = (uint32_t)n;
        if ((uint32_t)n != columns || rows == columns)
            return vgpu_errorf(err,
                               "%s:%d: as many rows of as many numbers are wanted, as in row 1: %u",
                               name, line, columns);
        memcpy(matrix->demand[rows++], row, sizeof row);
    }
    if (rows == 0 || rows != columns)
        return vgpu_errorf(err, "%s: %u rows of %u numbers, as many rows as numbers are wanted",
                           name, rows, columns);
    for (uint32_t i = 0; i < rows; i++)
        if (matrix->demand[i][i] != 0)
            return vgpu_errorf(err, "%s: rank %u has a demand on itself: 0 is wanted there", name,
                               i);
    matrix->n = rows;
    return 0;
}

int comm_matrix_read(struct comm_matrix *matrix, const char *path, vgpu_error_t *err)
{
    char text[FILE_MAX + 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return vgpu_errorf(err, "%s cannot be read: %s", path, strerror(errno));
    ssize_t n = read(fd, text, sizeof text);
    int error = errno;
    close(fd);
    if (n < 0)
        return vgpu_errorf(err, "%s cannot be read: %s", path, strerror(error));
    if (n > FILE_MAX || memchr(text, '\0', (size_t)n))
        return vgpu_errorf(err, "%s is not a text of at most %d bytes", path, FILE_MAX);
    text[n] = '\0';
    return comm_matrix_parse(matrix, text, path, err);
}
