/* Messages: what arrives is what was sent, and nothing that is not ours is taken for a message. */
#include "claim.h"
#include "proto/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int pair[2];

static void fresh_pair(void)
{
    static int opened;
    if (opened++) {
        close(pair[0]);
        close(pair[1]);
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair))
        perror("socketpair");
}

static int open_fds(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void test_that_a_message_arrives_as_sent(void)
{
    struct vgpu_unbind_request out = {.job = 7, .step = 9}, in;
    fresh_pair();
    vgpu_head_init(&out.head, VGPU_UNBIND_STEP, sizeof out);
    CHECK(vgpu_send(pair[0], &out, sizeof out, NULL, 0) == 0);
    CHECK(vgpu_receive(pair[1], &in, sizeof in, NULL, NULL) == (long)sizeof in);
    CHECK(memcmp(&in, &out, sizeof in) == 0);
}

static void test_that_descriptors_arrive_close_on_exec_and_surplus_ones_are_closed(void)
{
    struct vgpu_unbind_request out = {.job = 7}, in;
    int fds[3] = {0, 1, 2}, got[2];
    size_t n = 2;
    fresh_pair();
    vgpu_head_init(&out.head, VGPU_UNBIND_JOB, sizeof out);
    int before = open_fds();
    CHECK(vgpu_send(pair[0], &out, sizeof out, fds, 3) == 0);
    CHECK(vgpu_receive(pair[1], &in, sizeof in, got, &n) > 0);
    CHECK(n == 2);
    CHECK(open_fds() == before + 2);
    for (size_t i = 0; i < n; i++) {
        CHECK(fcntl(got[i], F_GETFD) == FD_CLOEXEC);
        close(got[i]);
    }
    CHECK(vgpu_send(pair[0], &out, sizeof out, fds, 3) == 0);
    CHECK(vgpu_receive(pair[1], &in, sizeof in, NULL, NULL) > 0);
    CHECK(open_fds() == before);
}

static void test_that_a_shorter_message_is_completed_and_a_longer_one_cut(void)
{
    struct {
        struct vgpu_unbind_request known;
        uint32_t news[4];
    } longer = {.known.job = 1}, in;
    fresh_pair();
    vgpu_head_init(&longer.known.head, VGPU_UNBIND_JOB, sizeof longer);
    CHECK(vgpu_send(pair[0], &longer, sizeof longer, NULL, 0) == 0);
    CHECK(vgpu_receive(pair[1], &in.known, sizeof in.known, NULL, NULL) == (long)sizeof longer);
    CHECK(in.known.job == 1);

    longer.known.head.length = sizeof longer.known;
    CHECK(vgpu_send(pair[0], &longer, sizeof longer.known, NULL, 0) == 0);
    memset(&in, 0xff, sizeof in);
    CHECK(vgpu_receive(pair[1], &in, sizeof in, NULL, NULL) == (long)sizeof in.known);
    CHECK(in.news[0] == 0 && in.news[3] == 0);
}

static void check_not_ours(const void *message, size_t length)
{
    char in[64];
    int fds[1] = {0}, got[1];
    size_t n = 1;
    int before = open_fds();
    CHECK(vgpu_send(pair[0], message, length, fds, 1) == 0);
    errno = 0;
    CHECK(vgpu_receive(pair[1], in, sizeof in, got, &n) == -1 && errno == EPROTO);
    CHECK(n == 0 && open_fds() == before);
}

static void test_that_what_is_not_ours_is_refused_and_its_descriptors_closed(void)
{
    struct vgpu_head head;
    fresh_pair();
    check_not_ours("x", 1);
    vgpu_head_init(&head, VGPU_LIST, sizeof head);
    head.magic++;
    check_not_ours(&head, sizeof head);
    vgpu_head_init(&head, VGPU_LIST, sizeof head);
    head.major++;
    check_not_ours(&head, sizeof head);
    vgpu_head_init(&head, VGPU_LIST, sizeof head + 1);
    check_not_ours(&head, sizeof head);
}

static void test_that_end_of_file_is_zero_and_a_gone_peer_raises_no_signal(void)
{
    struct vgpu_head head;
    fresh_pair();
    vgpu_head_init(&head, VGPU_LIST, sizeof head);
    CHECK(vgpu_receive(pair[1], &head, sizeof head, NULL, NULL) == -1 && errno == EAGAIN);
    shutdown(pair[0], SHUT_WR);
    CHECK(vgpu_receive(pair[1], &head, sizeof head, NULL, NULL) == 0);
    shutdown(pair[0], SHUT_RDWR);
    CHECK(vgpu_send(pair[1], &head, sizeof head, NULL, 0) == -1 && errno == EPIPE);
}

static void test_that_an_error_keeps_errno_and_returns_minus_one(void)
{
    vgpu_error_t err;
    errno = ENOTDIR;
    CHECK(vgpu_errorf(&err, "%s %d", "x", 3) == -1 && errno == ENOTDIR);
    CHECK(strcmp(err.text, "x 3") == 0);
    CHECK(vgpu_errorf(NULL, "x") == -1);
}

int main(void)
{
    test_that_a_message_arrives_as_sent();
    test_that_descriptors_arrive_close_on_exec_and_surplus_ones_are_closed();
    test_that_a_shorter_message_is_completed_and_a_longer_one_cut();
    test_that_what_is_not_ours_is_refused_and_its_descriptors_closed();
    test_that_end_of_file_is_zero_and_a_gone_peer_raises_no_signal();
    test_that_an_error_keeps_errno_and_returns_minus_one();
    return claim_result();
}
