/* The SPANK plugin as a client: of the agent, which may answer anything or nothing, and of vgpud.
 */
#include "claim.h"

#include "plugin/advice.h"
#include "plugin/clock.h"
#include "plugin/comm_user.h"
#include "plugin/json.h"
#include "plugin/vgpud_client.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char folder[] = "/tmp/test_spank_XXXXXX";
static char path[64];

/* --- a server for one connection, in a thread ------------------------------------------------- */

struct server {
    int type;
    int listener;
    int delay_ms;       /* before it listens */
    int drop;           /* connections that are closed without an answer */
    const void *answer; /* NULL: none, until the caller gives up */
    size_t length;
    char got[4096];
    pthread_t thread;
};

static void listen_at(struct server *s)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, path);
    unlink(path);
    s->listener = socket(AF_UNIX, s->type, 0);
    if (bind(s->listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(s->listener, 5) != 0)
        perror("listen");
}

static void *serve(void *argument)
{
    struct server *s = argument;
    if (s->delay_ms) {
        usleep((useconds_t)s->delay_ms * 1000);
        listen_at(s);
    }
    for (; s->drop > 0; s->drop--)
        close(accept(s->listener, NULL, NULL));
    int fd = accept(s->listener, NULL, NULL);
    ssize_t n = recv(fd, s->got, sizeof s->got - 1, 0);
    s->got[n > 0 ? n : 0] = '\0';
    if (s->answer)
        send(fd, s->answer, s->length, MSG_NOSIGNAL);
    else
        recv(fd, &(char){0}, 1, 0);
    close(fd);
    return NULL;
}

static void server_start(struct server *s)
{
    if (!s->delay_ms)
        listen_at(s);
    pthread_create(&s->thread, NULL, serve, s);
}

static void server_stop(struct server *s)
{
    pthread_join(s->thread, NULL);
    close(s->listener);
    unlink(path);
}

/* --- advice
 * ------------------------------------------------------------------------------------------------
 */

static const uint16_t slots[] = {0, 12};
static struct vgpu_wishes wishes = {.comm = "ring", .affinity = VGPU_SAME_NUMA};
static struct advice_question question = {
    .job = 42, .step = 0, .slots = slots, .n_slots = 2, .cores = "0-7", .wishes = &wishes};

static void a_question_is_one_line(void)
{
    static const char wanted[] =
        "{\"job\":42,\"step\":0,\"slots\":[0,12],\"n\":2,\"cores\":\"0-7\","
        "\"comm\":\"ring\",\"affinity\":\"same_numa\"}\n";
    static struct comm_matrix matrix = {.n = 2, .demand = {{0, 1.5}, {2, 0}}};
    char line[512];
    CHECK(advice_write(line, sizeof line, &question) == (int)strlen(wanted));
    CHECK_MSG(strcmp(line, wanted) == 0, "%s", line);
    CHECK(advice_write(line, 40, &question) == -1);
    struct advice_question with_matrix = question;
    with_matrix.matrix = &matrix;
    advice_write(line, sizeof line, &with_matrix);
    CHECK_MSG(strstr(line, "\"comm\":[[0,1.5],[2,0]],"), "%s", line);
    struct vgpu_wishes file = {.comm = "/home/\"me\"/m"};
    struct advice_question lost = question;
    lost.wishes = &file;
    advice_write(line, sizeof line, &lost);
    CHECK_MSG(strstr(line, "\"comm\":null,"), "%s", line);
}

static void answers_are_read(void)
{
    struct advice a;
    CHECK(advice_parse(&a, "{\"gpus\":[3, 1],\"why\":\"linked \\\"well\\\" \\u00e9\"}", NULL) == 0);
    CHECK(a.n == 2 && a.gpus[0] == 3 && a.gpus[1] == 1);
    CHECK_MSG(strcmp(a.why, "linked \"well\" ?") == 0, "%s", a.why);
    CHECK(advice_parse(&a, " { \"x\" : {\"y\":[1,{},[]],\"z\":-1.5e3} , \"gpus\" : [ ] } ", NULL) ==
              0 &&
          a.n == 0);
}

static void damaged_answers_are_refused(void)
{
    static const char *const wrong[] = {
        "",
        "{",
        "{}",
        "[]",
        "null",
        "{\"gpus\":[1]",
        "{\"gpus\":[1,]}",
        "{\"gpus\":[-1]}",
        "{\"gpus\":[1.5]}",
        "{\"gpus\":[01]}",
        "{\"gpus\":[65536]}",
        "{\"gpus\":[99999999999999999999]}",
        "{\"gpus\":\"1\"}",
        "{\"gpus\":[1]} x",
        "{\"gpus\":[1],}",
        "{\"gpus\":[1] \"why\":\"\"}",
        "{\"gpus\":[1],\"gpus\":[2]}",
        "{\"gpus\":[1],\"why\":\"\n\"}",
        "{\"gpus\":[1],\"why\":\"\\x\"}",
        "{\"gpus\":[1],\"why\":\"\\u12\"}",
        "{\"gpus\":[1],\"why\":\"",
        "{gpus:[1]}",
        "{\"gpus\":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,"
        "29,30,31,32]}",
        "{\"x\":[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]],\"gpus\":[1]}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct advice a = {.n = 9};
        CHECK_MSG(advice_parse(&a, wrong[i], NULL) == -1, "%s", wrong[i]);
        CHECK(a.n == 0);
    }
}

static void every_prefix_of_an_answer_is_refused(void)
{
    static const char whole[] = "{\"gpus\":[3,1],\"why\":\"\\u00e9 \\n\",\"x\":{\"y\":[true]}}";
    struct advice a;
    for (size_t n = 0; n < strlen(whole); n++) {
        char *cut = strndup(whole, n); /* on the heap: the sanitizer sees reads past its end */
        CHECK_MSG(advice_parse(&a, cut, NULL) == -1, "%s", cut);
        free(cut);
    }
    CHECK(advice_parse(&a, whole, NULL) == 0);
}

static void an_agent_is_asked(void)
{
    struct server s = {.type = SOCK_STREAM, .answer = "{\"gpus\":[2,3]}\n", .length = 15};
    struct advice a;
    vgpu_error_t err = {""};
    server_start(&s);
    CHECK_MSG(advice_ask(&a, path, &question, &err) == 0, "%s", err.text);
    CHECK(a.n == 2 && a.gpus[1] == 3);
    server_stop(&s);
    CHECK(strncmp(s.got, "{\"job\":42,", 10) == 0);
}

static void an_agent_that_fails_costs_the_advice_only(void)
{
    static char endless[ADVICE_LINE_MAX];
    memset(endless, 'x', sizeof endless);
    struct server servers[] = {
        {.type = SOCK_STREAM},                                              /* hangs */
        {.type = SOCK_STREAM, .answer = "{\"gpus\":[2", .length = 10},      /* half an answer */
        {.type = SOCK_STREAM, .answer = "garbage\n", .length = 8},          /* no answer */
        {.type = SOCK_STREAM, .answer = endless, .length = sizeof endless}, /* too much */
        {.type = SOCK_STREAM, .answer = "", .length = 0},                   /* goes away */
    };
    for (size_t i = 0; i < sizeof servers / sizeof *servers; i++) {
        struct advice a;
        server_start(&servers[i]);
        CHECK_MSG(advice_ask(&a, path, &question, NULL) == -1, "server %zu", i);
        server_stop(&servers[i]);
    }
    CHECK(advice_ask(&(struct advice){0}, path, &question, NULL) == -1); /* nobody there */
}

/* --- vgpud
 * ---------------------------------------------------------------------------------------------------
 */

static struct vgpu_status_reply reply_of(enum vgpu_type type)
{
    struct vgpu_status_reply reply = {.status = VGPU_OK, .error = {"because"}};
    vgpu_head_init(&reply.head, type, sizeof reply);
    return reply;
}

static void vgpud_is_asked(void)
{
    struct vgpu_status_reply answer = reply_of(VGPU_STEP_FATE), got;
    struct server s = {.type = SOCK_SEQPACKET, .answer = &answer, .length = sizeof answer};
    vgpu_error_t err = {""};
    server_start(&s);
    CHECK_MSG(vgpud_tell(path, (struct vgpud_patience){2000, 2000}, VGPU_STEP_FATE, 42, 3, &got,
                         &err) == 0,
              "%s", err.text);
    CHECK(strcmp(got.error.text, "because") == 0);
    server_stop(&s);
    const struct vgpu_unbind_request *asked = (const void *)s.got;
    CHECK(asked->head.type == VGPU_STEP_FATE && asked->job == 42 && asked->step == 3);
}

static void a_vgpud_that_is_starting_is_waited_for(void)
{
    struct vgpu_status_reply answer = reply_of(VGPU_UNBIND_JOB), got;
    struct server s = {.type = SOCK_SEQPACKET,
                       .answer = &answer,
                       .length = sizeof answer,
                       .delay_ms = 150,
                       .drop = 2};
    vgpu_error_t err = {""};
    server_start(&s);
    CHECK_MSG(vgpud_tell(path, (struct vgpud_patience){5000, 5000}, VGPU_UNBIND_JOB, 1,
                         VGPU_NO_STEP, &got, &err) == 0,
              "%s", err.text);
    server_stop(&s);
}

static void a_vgpud_that_is_not_there_is_given_up(void)
{
    struct vgpu_status_reply got;
    vgpu_error_t err = {""};
    CHECK(vgpud_tell(path, (struct vgpud_patience){60, 60}, VGPU_UNBIND_JOB, 1, VGPU_NO_STEP, &got,
                     &err) == -1);
    CHECK_MSG(strstr(err.text, "vgpud does not answer at /tmp/") &&
                  strstr(err.text, "No such file"),
              "%s", err.text);
}

static void who_waits_for_an_answer_need_not_wait_for_a_start(void)
{
    struct vgpu_status_reply got;
    uint64_t before = clock_ms();
    CHECK(vgpud_tell(path, (struct vgpud_patience){40, 60000}, VGPU_UNBIND_JOB, 1, VGPU_NO_STEP,
                     &got, NULL) == -1);
    CHECK(clock_ms() - before < 30000);
}

static void a_vgpud_that_hangs_is_given_up(void)
{
    struct server s = {.type = SOCK_SEQPACKET};
    struct vgpu_status_reply got;
    vgpu_error_t err = {""};
    server_start(&s);
    CHECK(vgpud_tell(path, (struct vgpud_patience){60, 60}, VGPU_UNBIND_JOB, 1, VGPU_NO_STEP, &got,
                     &err) == -1);
    CHECK_MSG(strstr(err.text, "timed out"), "%s", err.text);
    server_stop(&s);
}

static void an_answer_to_something_else_is_refused(void)
{
    struct vgpu_status_reply answer = reply_of(VGPU_LIST), got;
    struct server s = {.type = SOCK_SEQPACKET, .answer = &answer, .length = sizeof answer};
    server_start(&s);
    CHECK(vgpud_tell(path, (struct vgpud_patience){2000, 2000}, VGPU_UNBIND_JOB, 1, VGPU_NO_STEP,
                     &got, NULL) == -1);
    server_stop(&s);
}

/* --- a matrix with the user's rights ---------------------------------------------------------- */

static void a_users_matrix_is_read_with_the_users_rights(void)
{
    static struct comm_matrix m;
    vgpu_error_t err = {""};
    struct comm_user user = {.uid = geteuid(), .gid = getegid(), .directory = folder};
    char file[80];
    snprintf(file, sizeof file, "%s/matrix", folder);
    FILE *out = fopen(file, "w");
    fputs("0 1\n1 0\n", out);
    fclose(out);
    if (geteuid() == 0) { /* becoming another user is root's right */
        CHECK_MSG(comm_user_read(&m, "matrix", &user, &err) == 0 && m.n == 2, "%s", err.text);
        user.uid = user.gid = 65534;
        CHECK(comm_user_read(&m, file, &user, &err) == -1);
        CHECK_MSG(strstr(err.text, "Permission denied"), "%s", err.text);
        user.directory = "";
        CHECK(comm_user_read(&m, "matrix", &user, &err) == -1);
    } else {
        CHECK(comm_user_read(&m, file, &user, &err) == -1);
        CHECK_MSG(strstr(err.text, "no way to become user"), "%s", err.text);
    }
    unlink(file);
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/sock", folder);
    a_question_is_one_line();
    answers_are_read();
    damaged_answers_are_refused();
    every_prefix_of_an_answer_is_refused();
    an_agent_is_asked();
    an_agent_that_fails_costs_the_advice_only();
    vgpud_is_asked();
    a_vgpud_that_is_starting_is_waited_for();
    a_vgpud_that_is_not_there_is_given_up();
    who_waits_for_an_answer_need_not_wait_for_a_start();
    a_vgpud_that_hangs_is_given_up();
    an_answer_to_something_else_is_refused();
    a_users_matrix_is_read_with_the_users_rights();
    rmdir(folder);
    return claim_result();
}
