#include "advice.h"

#include "clock.h"
#include "json.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A text that grows in a buffer of fixed size; `used` runs past `room` when it does not fit. */
struct text {
    char *at;
    size_t room, used;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    size_t left = text->used < text->room ? text->room - text->used : 0;
    int n = vsnprintf(left ? text->at + text->used : NULL, left, format, list);
    text->used += n > 0 ? (size_t)n : 0;
    va_end(list);
}

static void matrix_add(struct text *text, const struct comm_matrix *matrix)
{
    add(text, "[");
    for (uint32_t i = 0; i < matrix->n; i++) {
        add(text, "%s[", i ? "," : "");
        for (uint32_t j = 0; j < matrix->n; j++)
            add(text, "%s%.9g", j ? "," : "", matrix->demand[i][j]);
        add(text, "]");
    }
    add(text, "]");
}

int advice_write(char *line, size_t room, const struct advice_question *q)
{
    struct text text = {line, room, 0};
    add(&text, "{\"job\":%u,\"step\":%u,\"slots\":[", q->job, q->step);
    for (uint32_t i = 0; i < q->n_slots; i++)
        add(&text, "%s%u", i ? "," : "", q->slots[i]);
    add(&text, "],\"n\":%u,\"cores\":\"%s\",\"comm\":", q->n_slots, q->cores);
    if (q->matrix)
        matrix_add(&text, q->matrix);
    else if (comm_is_pattern(q->wishes->comm))
        add(&text, "\"%s\"", q->wishes->comm);
    else
        add(&text, "null");
    add(&text, ",\"affinity\":\"%s\"}\n", wish_affinity_name(q->wishes->affinity));
    return text.used < room ? (int)text.used : -1;
}

static bool gpus_parse(struct json *json, struct advice *advice)
{
    bool first = true;
    json_enter(json, '[');
    while (json_item(json, &first)) {
        uint64_t gpu;
        if (!json_number(json, &gpu) || gpu > UINT16_MAX || advice->n == VGPU_MAX_GPUS)
            return false;
        advice->gpus[advice->n++] = (uint16_t)gpu;
    }
    return json->at != NULL;
}

int advice_parse(struct advice *advice, const char *line, vgpu_error_t *err)
{
    struct json json = {line};
    bool first = true, ok = true, answered = false;
    char key[16];
    *advice = (struct advice){0};
    json_enter(&json, '{');
    while (ok && json_key(&json, &first, key, sizeof key)) {
        if (strcmp(key, "gpus") == 0) {
            ok = !answered && gpus_parse(&json, advice);
            answered = true;
        } else if (strcmp(key, "why") == 0)
            ok = json_string(&json, advice->why, sizeof advice->why);
        else
            ok = json_skip(&json);
    }
    if (ok && answered && json_done(&json))
        return 0;
    *advice = (struct advice){0};
    return vgpu_errorf(err, "\"%.60s\" is not {\"gpus\":[...],\"why\":\"...\"}", line);
}

static int agent_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Until the newline, the end of the line's room, or the deadline. */
static int line_receive(int fd, char *line, size_t room, uint64_t deadline)
{
    size_t used = 0;
    while (used + 1 < room) {
        struct pollfd wanted = {.fd = fd, .events = POLLIN};
        if (poll(&wanted, 1, clock_left_ms(deadline)) <= 0) {
            errno = ETIMEDOUT;
            return -1;
        }
        ssize_t n = recv(fd, line + used, room - 1 - used, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n <= 0) {
            errno = n == 0 ? EPIPE : errno;
            return -1;
        }
        used += (size_t)n;
        char *newline = memchr(line + used - n, '\n', (size_t)n);
        if (newline) {
            *newline = '\0';
            return 0;
        }
    }
    errno = EMSGSIZE;
    return -1;
}

int advice_ask(struct advice *advice, const char *socket, const struct advice_question *question,
               vgpu_error_t *err)
{
    static char line[ADVICE_LINE_MAX];
    uint64_t deadline = clock_ms() + ADVICE_DEADLINE_MS;
    int length = advice_write(line, sizeof line, question);
    if (length < 0)
        return vgpu_errorf(err, "the question is too long");
    int fd = agent_connect(socket);
    if (fd < 0)
        return vgpu_errorf(err, "%s: %s", socket, strerror(errno));
    /* The socket's buffer is empty: a question that does not fit at once goes to an agent that does
     * not read. */
    bool ok = send(fd, line, (size_t)length, MSG_NOSIGNAL) == length &&
              line_receive(fd, line, sizeof line, deadline) == 0;
    int error = errno;
    close(fd);
    if (!ok)
        return vgpu_errorf(err, "%s: %s", socket, strerror(error));
    return advice_parse(advice, line, err);
}
