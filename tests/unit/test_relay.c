/* relay: a user and a server, each at the far end of one of its two ios, over TCP. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <unistd.h>

#include "proxy/io/relay.h"
#include "tests/unit/loop.h"

static struct event_base *base;

struct far {
    struct io *io;
    size_t got;
    unsigned sum; /* of the bytes, in order */
    enum io_end how;
};

static struct rig {
    struct far user, server;
    struct relay relay;
    struct io *near[2];
    uint64_t up, down;
    int over;
    enum relay_end end;
    unsigned side;
} rig;

static unsigned sum_of(unsigned sum, const char *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        sum = sum * 31 + (unsigned char)p[i];
    return sum;
}

static void on_readable(struct io *io) {
    struct far *f = io->arg;
    size_t got;
    char *p = io_scratch();
    int r = io_read(io, p, IO_SCRATCH, &got);
    if (r == 0) {
        f->got += got;
        f->sum = sum_of(f->sum, p, got);
    }
    if (r == ERR_EOF)
        f->how = io->end;
}

static const struct io_events far_events = {.readable = on_readable};

static void on_over(struct relay *r, enum relay_end end, unsigned side) {
    assert_ptr_equal(r, &rig.relay);
    rig.over++;
    rig.end = end;
    rig.side = side;
    for (int i = 0; i < 2; i++)
        io_free(rig.near[i]); /* as an owner may */
}

static void tcp_pair(struct io **near, struct far *far) {
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof sin;
    int small = 32768, fds[2];
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    assert_int_equal(bind(listener, (struct sockaddr *)&sin, sizeof sin), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&sin, &len), 0);
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fds[0], SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    assert_int_equal(connect(fds[0], (struct sockaddr *)&sin, sizeof sin), 0);
    fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fds[1] >= 0);
    close(listener);
    for (int i = 0; i < 2; i++) {
        setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
        evutil_make_socket_nonblocking(fds[i]);
    }
    *near = io_open(base, fds[0], false, &far_events, NULL);
    far->io = io_open(base, fds[1], false, &far_events, far);
    assert_true(*near && far->io);
}

static int set_up(void **state) {
    (void)state;
    base = event_base_new();
    memset(&rig, 0, sizeof rig);
    tcp_pair(&rig.near[0], &rig.user);
    tcp_pair(&rig.near[1], &rig.server);
    rig.relay = (struct relay){
        .sides = {{.io = rig.near[0], .moved = &rig.up}, {.io = rig.near[1], .moved = &rig.down}},
        .idle_ms = 60000,
        .over = on_over};
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    io_free(rig.user.io);
    io_free(rig.server.io);
    if (!rig.over)
        for (int i = 0; i < 2; i++)
            io_free(rig.near[i]);
    event_base_free(base);
    return 0;
}

static void begin(struct slice from_user, struct slice from_server) {
    relay_begin(&rig.relay, (struct slice[2]){from_user, from_server});
}

static bool is_over(void *arg) {
    (void)arg;
    return rig.over > 0;
}

static bool has_ended(void *arg) {
    return ((struct far *)arg)->how != IO_END_NOT;
}

static bool near_has_something(void *arg) {
    char byte;
    (void)arg;
    return recv(rig.near[0]->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

static bool has(void *arg) {
    return ((size_t *)arg)[0] == rig.user.got && ((size_t *)arg)[1] == rig.server.got;
}

static void expect(size_t at_user, size_t at_server) {
    size_t want[2] = {at_user, at_server};
    if (!loop_until(base, has, want, LOOP_PATIENCE))
        fail_msg("user has %zu, server %zu", rig.user.got, rig.server.got);
}

static void test_early_and_half_close(void **state) {
    (void)state;
    assert_int_equal(io_write(rig.near[0], SLICE("head"), true), 0);
    begin(SLICE("early"), SLICE("frame"));
    expect(9, 5);
    assert_int_equal(rig.user.sum, sum_of(0, "headframe", 9));
    assert_int_equal(rig.up, 5);
    assert_int_equal(rig.down, 5);
    io_shutdown(rig.user.io);
    assert_true(loop_until(base, has_ended, &rig.server, LOOP_PATIENCE));
    assert_int_equal(rig.server.how, IO_END_CLEAN);
    assert_int_equal(rig.over, 0);
    io_write(rig.server.io, SLICE("still"), false);
    expect(14, 5);
    io_shutdown(rig.server.io);
    assert_true(loop_until(base, is_over, NULL, LOOP_PATIENCE));
    assert_true(loop_until(base, has_ended, &rig.user, LOOP_PATIENCE));
    assert_int_equal(rig.over, 1);
    assert_int_equal(rig.end, RELAY_ENDED);
    assert_int_equal(rig.user.how, IO_END_CLEAN);
}

/* A user who had ended before the relay began. */
static void test_ended_before(void **state) {
    size_t got;
    char byte;
    (void)state;
    io_shutdown(rig.user.io);
    io_own(rig.near[0], &(struct io_events){0}, NULL);
    assert_true(loop_until(base, near_has_something, NULL, LOOP_PATIENCE));
    assert_int_equal(io_read(rig.near[0], &byte, 1, &got), ERR_EOF);
    begin(SLICE_NONE, SLICE_NONE);
    assert_true(loop_until(base, has_ended, &rig.server, LOOP_PATIENCE));
    assert_int_equal(rig.server.how, IO_END_CLEAN);
    assert_int_equal(rig.over, 0);
}

static void test_back_pressure(void **state) {
    static char block[1 << 20];
    (void)state;
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = (char)(i * 7 + i / 251);
    begin(SLICE_NONE, SLICE_NONE);
    io_pause(rig.server.io);
    io_pause(rig.user.io);
    for (int i = 0; i < 4; i++) {
        io_write(rig.user.io, slice_make(block, sizeof block), false);
        io_write(rig.server.io, slice_make(block, sizeof block), false);
    }
    loop_for(base, 200);
    for (int i = 0; i < 2; i++)
        assert_true(io_queued(rig.near[i]) >= IO_HIGH && io_queued(rig.near[i]) <= IO_HIGH + IO_SCRATCH);
    io_resume(rig.server.io);
    io_resume(rig.user.io);
    expect(4 * sizeof block, 4 * sizeof block);
    unsigned sum = 0;
    for (int i = 0; i < 4; i++)
        sum = sum_of(sum, block, sizeof block);
    assert_int_equal(rig.user.sum, sum);
    assert_int_equal(rig.server.sum, sum);
    assert_int_equal(rig.up, 4 * sizeof block);
    assert_int_equal(rig.down, 4 * sizeof block);
}

/* What is queued when the source ends is delivered first. */
static void test_end_behind_a_queue(void **state) {
    static char block[1 << 20];
    (void)state;
    begin(SLICE_NONE, SLICE_NONE);
    io_pause(rig.user.io);
    io_write(rig.server.io, slice_make(block, sizeof block), false);
    io_shutdown(rig.server.io);
    io_shutdown(rig.user.io);
    loop_for(base, 100);
    assert_int_equal(rig.over, 0);
    io_resume(rig.user.io);
    assert_true(loop_until(base, is_over, NULL, LOOP_PATIENCE));
    assert_true(loop_until(base, has_ended, &rig.user, LOOP_PATIENCE));
    assert_int_equal(rig.end, RELAY_ENDED);
    assert_int_equal(rig.user.got, sizeof block);
    assert_int_equal(rig.user.how, IO_END_CLEAN);
}

static void test_reset(void **state) {
    (void)state;
    begin(SLICE_NONE, SLICE_NONE);
    struct linger now = {.l_onoff = 1};
    setsockopt(rig.server.io->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    io_free(rig.server.io);
    rig.server.io = NULL;
    assert_true(loop_until(base, is_over, NULL, LOOP_PATIENCE));
    assert_int_equal(rig.end, RELAY_BROKEN);
    assert_int_equal(rig.side, 1);
}

/* A user who has gone away is noticed by writing to him. */
static void test_gone_while_written_to(void **state) {
    static char block[1 << 20];
    (void)state;
    begin(SLICE_NONE, SLICE_NONE);
    io_free(rig.user.io);
    rig.user.io = NULL;
    io_write(rig.server.io, slice_make(block, sizeof block), false);
    assert_true(loop_until(base, is_over, NULL, LOOP_PATIENCE));
    loop_for(base, 20);
    assert_int_equal(rig.over, 1);
    assert_int_equal(rig.end, RELAY_BROKEN);
    assert_int_equal(rig.side, 0);
}

static bool has_failed(void *arg) {
    return ((struct io *)arg)->write_failed;
}

/* Of what was moved, that much has left which did not stay behind. */
static void test_moved_and_lost(void **state) {
    static char block[100000];
    (void)state;
    begin(SLICE_NONE, SLICE_NONE);
    io_write(rig.user.io, slice_make(block, 1000), false);
    expect(0, 1000);
    shutdown(rig.near[1]->fd, SHUT_WR); /* writing fails from now on */
    io_write(rig.user.io, slice_make(block, sizeof block), false);
    assert_true(loop_until(base, has_failed, rig.near[1], LOOP_PATIENCE));
    assert_int_equal(rig.up - rig.near[1]->dropped - io_queued(rig.near[1]), 1000);
}

static void test_idle(void **state) {
    (void)state;
    begin(SLICE_NONE, SLICE_NONE);
    for (size_t i = 0; i < 6; i++) { /* bytes from either side put it off */
        uint64_t before = rig.near[0]->deadline;
        loop_for(base, 20);
        io_write(i % 2 ? rig.user.io : rig.server.io, SLICE("x"), false);
        expect((i + 2) / 2, (i + 1) / 2);
        assert_true(rig.near[0]->deadline > before);
    }
    assert_int_equal(rig.over, 0);
    rig.relay.idle_ms = 50;
    io_write(rig.user.io, SLICE("x"), false);
    assert_true(loop_until(base, is_over, NULL, LOOP_PATIENCE));
    assert_int_equal(rig.end, RELAY_IDLE);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_early_and_half_close), TEST(test_ended_before), TEST(test_back_pressure),
        TEST(test_end_behind_a_queue),   TEST(test_reset),        TEST(test_gone_while_written_to),
        TEST(test_moved_and_lost),       TEST(test_idle),
    };
    return cmocka_run_group_tests_name("flow_relay", tests, NULL, NULL);
}
