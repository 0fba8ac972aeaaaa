/* Channels: order, the queue behind a full socket, descriptors, and the ways in which a peer ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/process/ipc.h"
#include "proxy/process/role.h"
#include "tests/unit/loop.h"

struct seen {
    struct event_base *base;
    uint32_t next; /* the number that is expected */
    int closed;
    int refuse; /* what `message` returns */
    unsigned fds;
};

static int on_message(struct channel *c, struct msg_in *m) {
    struct seen *seen = c->arg;
    assert_int_equal(msg_get_u32(m), seen->next);
    seen->next++;
    struct slice body = msg_get_slice(m);
    for (size_t i = 0; i < body.n; i++)
        assert_int_equal(body.p[i], 'x');
    if (m->nfds) {
        int fd = msg_get_fd(m);
        char byte = 0;
        assert_int_equal(pread(fd, &byte, 1, 0), 1);
        assert_int_equal(byte, 'f');
        close(fd);
        seen->fds++;
    }
    assert_int_equal(msg_end(m), 0);
    return seen->refuse;
}

static void on_closed(struct channel *c, int err) {
    struct seen *seen = c->arg;
    seen->closed = err;
    channel_close(c);
}

static const struct channel_ops ops = {on_message, on_closed};

static void build(struct msg_out *m, uint8_t *memory, size_t cap, uint32_t number, size_t n) {
    static char body[32768];
    memset(body, 'x', sizeof body);
    msg_begin(m, memory, cap, 7);
    msg_put_u32(m, number);
    msg_put_slice(m, slice_make(body, n));
}

static void turn(struct event_base *base) {
    for (int i = 0; i < 200; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
}

/* Far more than a socket holds goes out before anybody reads, and arrives whole and in order. */
static void everything_arrives_in_order(void **state) {
    bool secret = *state != NULL;
    struct event_base *base = event_base_new();
    struct seen seen = {.base = base}, writer = {.base = base};
    struct channel a, b;
    int pair[2];
    uint8_t memory[65536];
    assert_int_equal(msg_pair(pair), 0);
    assert_int_equal(channel_open(&a, base, pair[0], secret, &ops, &writer), 0);
    int file = memfd_create("f", MFD_CLOEXEC);
    assert_int_equal(write(file, "f", 1), 1);
    for (uint32_t i = 0; i < 100; i++) {
        struct msg_out m;
        build(&m, memory, sizeof memory, i, i % 2 ? 32768 : 10);
        if (i % 10 == 0)
            msg_put_fd(&m, file);
        assert_int_equal(channel_send(&a, &m), 0);
    }
    close(file); /* queued messages have their own */
    assert_int_not_equal(a.queued, 0);
    assert_int_equal(channel_open(&b, base, pair[1], secret, &ops, &seen), 0);
    turn(base);
    assert_int_equal(seen.next, 100);
    assert_int_equal(seen.fds, 10);
    assert_int_equal(a.queued, 0);
    channel_close(&a);
    turn(base);
    assert_int_equal(seen.closed, ERR_EOF);
    assert_int_equal(b.fd, -1);
    event_base_free(base);
}

static void a_peer_that_never_reads_is_given_up(void **state) {
    (void)state;
    struct event_base *base = event_base_new();
    struct seen seen = {.base = base};
    struct channel a;
    int pair[2], r = 0;
    uint8_t memory[65536];
    assert_int_equal(msg_pair(pair), 0);
    assert_int_equal(channel_open(&a, base, pair[0], false, &ops, &seen), 0);
    uint32_t i = 0;
    for (; r == 0 && i < 10000; i++) {
        struct msg_out m;
        build(&m, memory, sizeof memory, i, 32768);
        r = channel_send(&a, &m);
    }
    assert_int_equal(r, ERR_LIMIT);
    assert_true(i * 32768ull <= CHANNEL_QUEUE_MAX + (4u << 20));
    channel_close(&a);
    close(pair[1]);
    event_base_free(base);
}

static int unwilling; /* the kernel takes no message: errno */

ssize_t __real_sendmsg(int fd, const struct msghdr *h, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *h, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *h, int flags) {
    if (!unwilling)
        return __real_sendmsg(fd, h, flags);
    errno = unwilling;
    return -1;
}

static bool has_come(void *arg) {
    return ((struct seen *)arg)->next == 1;
}

/* A socket with room that takes nothing is writable for ever: it is left alone for a moment. Descriptors come with what waited. */
static void what_the_kernel_does_not_take_now_waits(void **state) {
    static const int whys[] = {ENOBUFS, ETOOMANYREFS};
    (void)state;
    for (size_t i = 0; i < sizeof whys / sizeof whys[0]; i++) {
        struct event_base *base = event_base_new();
        struct seen seen = {.base = base};
        struct channel a, b;
        struct msg_out m;
        int pair[2];
        uint8_t memory[64];
        assert_int_equal(msg_pair(pair), 0);
        assert_int_equal(channel_open(&a, base, pair[0], false, &ops, &seen), 0);
        assert_int_equal(channel_open(&b, base, pair[1], false, &ops, &seen), 0);
        unwilling = whys[i];
        build(&m, memory, sizeof memory, 0, 8);
        assert_int_equal(msg_send(pair[0], &m), whys[i] == ETOOMANYREFS ? ERR_LIMIT : ERR_AGAIN);
        assert_int_equal(channel_send(&a, &m), 0);
        assert_true(event_pending(a.out, EV_WRITE, NULL));
        event_base_loop(base, EVLOOP_NONBLOCK);
        assert_false(event_pending(a.out, EV_WRITE, NULL));
        unwilling = 0;
        assert_true(loop_until(base, has_come, &seen, LOOP_PATIENCE));
        channel_close(&a);
        channel_close(&b);
        event_base_free(base);
    }
}

static void who_does_not_wait_is_told_why(void **state) {
    (void)state;
    assert_non_null(strstr(msg_send_text(ERR_LIMIT), "ulimit -n"));
    assert_string_equal(msg_send_text(ERR_IO), err_text(ERR_IO));
}

/* What waits has descriptors of its own; where there is none left nothing of it waits. */
static void what_waits_needs_descriptors(void **state) {
    struct rlimit files, none;
    struct channel a;
    struct msg_out m;
    int pair[2];
    uint8_t memory[64];
    (void)state;
    struct event_base *base = event_base_new();
    struct seen seen = {.base = base};
    assert_int_equal(msg_pair(pair), 0);
    assert_int_equal(channel_open(&a, base, pair[0], false, &ops, &seen), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    none = files;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    unwilling = ETOOMANYREFS;
    msg_begin(&m, memory, sizeof memory, 7);
    msg_put_fd(&m, pair[1]);
    int r = channel_send(&a, &m);
    unwilling = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    assert_int_equal(r, ERR_LIMIT);
    assert_null(a.head);
    channel_close(&a);
    close(pair[1]);
    event_base_free(base);
}

static void a_malformed_message_ends_the_channel(void **state) {
    (void)state;
    static const char *const bad[] = {"x", "\x02\x00\x07\x00", "\x01\x01\x07\x00"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct event_base *base = event_base_new();
        struct seen seen = {.base = base};
        struct channel a;
        int pair[2];
        assert_int_equal(msg_pair(pair), 0);
        assert_int_equal(channel_open(&a, base, pair[0], false, &ops, &seen), 0);
        size_t n = i == 0 ? 1 : 4;
        assert_int_equal(send(pair[1], bad[i], n, 0), (ssize_t)n);
        turn(base);
        assert_int_equal(seen.closed, ERR_PEER);
        close(pair[1]);
        event_base_free(base);
    }
}

static void what_the_reader_refuses_ends_the_channel_once(void **state) {
    (void)state;
    struct event_base *base = event_base_new();
    struct seen seen = {.base = base, .refuse = ERR_PEER};
    struct channel a;
    int pair[2];
    uint8_t memory[256];
    assert_int_equal(msg_pair(pair), 0);
    assert_int_equal(channel_open(&a, base, pair[0], false, &ops, &seen), 0);
    for (uint32_t i = 0; i < 3; i++) {
        struct msg_out m;
        build(&m, memory, sizeof memory, i, 1);
        assert_int_equal(msg_send(pair[1], &m), 0);
    }
    turn(base);
    assert_int_equal(seen.next, 1); /* nothing is read behind what broke the protocol */
    assert_int_equal(seen.closed, ERR_PEER);
    struct msg_out m;
    build(&m, memory, sizeof memory, 4, 1);
    assert_int_equal(msg_send(pair[1], &m), ERR_EOF);
    close(pair[1]);
    event_base_free(base);
}

static void send_one(int fd, uint32_t i) {
    uint8_t memory[256];
    struct msg_out m;
    build(&m, memory, sizeof memory, i, 1);
    assert_int_equal(msg_send(fd, &m), 0);
}

/* What a peer said before it ended is read also when it left unread what it was told. */
static void last_words_are_read(void **state) {
    (void)state;
    struct event_base *base = event_base_new();
    struct seen seen = {.base = base};
    struct channel a;
    int pair[2];
    assert_int_equal(msg_pair(pair), 0);
    assert_int_equal(channel_open(&a, base, pair[0], false, &ops, &seen), 0);
    send_one(pair[0], 7);
    send_one(pair[1], 0);
    close(pair[1]);
    turn(base);
    assert_int_equal(seen.next, 1);
    assert_int_equal(seen.closed, ERR_EOF);
    event_base_free(base);
}

/* --- the loop of a role ---------------------------------------------------------------------------------- */

#define AGAIN_MOST (2 * ROLE_TURNS)

struct busy {
    struct role_base role;
    struct event *again;
    unsigned turns;
    int peer; /* says something when the first turn has come */
    bool seen;
};

static void on_again(evutil_socket_t fd, short what, void *arg) {
    struct busy *b = arg;
    (void)fd;
    (void)what;
    if (++b->turns == 1)
        assert_int_equal(write(b->peer, "x", 1), 1);
    if (b->turns < AGAIN_MOST)
        event_active(b->again, EV_TIMEOUT, 0);
    else
        event_base_loopbreak(b->role.base);
}

static void on_byte(evutil_socket_t fd, short what, void *arg) {
    struct busy *b = arg;
    (void)fd;
    (void)what;
    b->seen = true;
    event_base_loopbreak(b->role.base);
}

/* So does a connection that never runs dry. */
static void who_asks_for_one_turn_after_another_keeps_nobody_from_his(void **state) {
    struct busy b = {.turns = 0};
    int pair[2], ctl[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ctl), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    b.peer = pair[1];
    int kept = dup(IPC_FD); /* a role's socket has its place */
    assert_int_equal(dup2(ctl[0], IPC_FD), IPC_FD);
    assert_int_equal(role_open(&b.role, &ops, &b), 0);
    b.again = event_new(b.role.base, -1, 0, on_again, &b);
    struct event *byte = event_new(b.role.base, pair[0], EV_READ, on_byte, &b);
    event_add(byte, NULL);
    event_active(b.again, EV_TIMEOUT, 0);
    role_loop(&b.role);
    assert_true(b.seen);
    event_free(byte);
    event_free(b.again);
    assert_int_equal(role_close(&b.role), 0);
    if (kept >= 0) {
        dup2(kept, IPC_FD);
        close(kept);
    }
    int all[] = {pair[0], pair[1], ctl[0], ctl[1]};
    for (size_t i = 0; i < 4; i++)
        if (all[i] != IPC_FD)
            close(all[i]);
}

int main(void) {
    static int secret = 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_arrives_in_order),
        cmocka_unit_test_prestate(everything_arrives_in_order, &secret),
        cmocka_unit_test(a_peer_that_never_reads_is_given_up),
        cmocka_unit_test(what_the_kernel_does_not_take_now_waits),
        cmocka_unit_test(who_does_not_wait_is_told_why),
        cmocka_unit_test(what_waits_needs_descriptors),
        cmocka_unit_test(a_malformed_message_ends_the_channel),
        cmocka_unit_test(what_the_reader_refuses_ends_the_channel_once),
        cmocka_unit_test(last_words_are_read),
        cmocka_unit_test(who_asks_for_one_turn_after_another_keeps_nobody_from_his),
    };
    return cmocka_run_group_tests_name("process channel", tests, NULL, NULL);
}
