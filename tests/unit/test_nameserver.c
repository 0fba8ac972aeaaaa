/* The name server of a sandbox: UDP and TCP, clients that dawdle, and the limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <unistd.h>

#include <cmocka.h>

#include "netns/names.h"
#include "proxy/flow/nameserver.h"
#include "tests/unit/loop.h"

struct rig {
    struct event_base *base;
    struct names *names;
    struct nameserver *server;
    struct addr udp, tcp;
    unsigned refused;
};

static int listener(int type, struct addr *at) {
    socklen_t n = sizeof at->in;
    assert_true(addr_parse(SLICE("127.0.0.1"), 0, at));
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, &at->sa, at->len), 0);
    if (type == SOCK_STREAM)
        assert_int_equal(listen(fd, 128), 0);
    getsockname(fd, &at->sa, &n);
    return fd;
}

static void on_refused(void *arg, struct slice name, const char *why) {
    struct rig *g = arg;
    g->refused++;
    assert_true(name.n > 0 && why);
}

static void rig_open(struct rig *g) {
    *g = (struct rig){.base = event_base_new()};
    assert_int_equal(names_new(&g->names, NULL), 0);
    g->server = nameserver_new(g->base, g->names, on_refused, g);
    assert_non_null(g->server);
    assert_int_equal(nameserver_add_udp(g->server, listener(SOCK_DGRAM, &g->udp)), 0);
    assert_int_equal(nameserver_add_tcp(g->server, listener(SOCK_STREAM, &g->tcp)), 0);
}

static void rig_close(struct rig *g) {
    nameserver_free(g->server);
    names_free(g->names);
    event_base_free(g->base);
}

/* A question for `name` ("a.test"), after two bytes of length as TCP has it. Returns the length of all. */
static size_t question(const char *name, unsigned type, uint16_t id, uint8_t out[300]) {
    size_t n = 2 + 12;
    memset(out, 0, 300);
    out[2] = (uint8_t)(id >> 8);
    out[3] = (uint8_t)id;
    out[4] = 1; /* RD */
    out[7] = 1;
    while (*name) {
        size_t label = strcspn(name, ".");
        out[n++] = (uint8_t)label;
        memcpy(out + n, name, label);
        n += label;
        name += label + (name[label] == '.');
    }
    n++;
    out[n++] = (uint8_t)(type >> 8);
    out[n++] = (uint8_t)type;
    out[n++] = 0;
    out[n++] = 1;
    out[0] = (uint8_t)((n - 2) >> 8);
    out[1] = (uint8_t)(n - 2);
    return n;
}

static int connect_to(const struct addr *to, int type) {
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, &to->sa, to->len), 0);
    return fd;
}

/* One answer over UDP; its length. */
static size_t ask_udp(struct rig *g, const char *name, unsigned type, uint8_t answer[1024]) {
    uint8_t q[300];
    size_t n = question(name, type, 0x1234, q);
    int fd = connect_to(&g->udp, SOCK_DGRAM);
    assert_int_equal(send(fd, q + 2, n - 2, 0), n - 2);
    loop_for(g->base, 30);
    ssize_t got = recv(fd, answer, 1024, MSG_DONTWAIT);
    close(fd);
    assert_true(got > 12);
    assert_true(answer[0] == 0x12 && answer[1] == 0x34);
    return (size_t)got;
}

static void over_udp(void **state) {
    struct rig g;
    uint8_t answer[1024];
    (void)state;
    rig_open(&g);
    size_t n = ask_udp(&g, "a.test", 1, answer);
    assert_int_equal(answer[3] & 15, 0);
    assert_int_equal(answer[7], 1);
    struct addr a = {0};
    struct slice name;
    a.in.sin_family = AF_INET;
    a.len = sizeof a.in;
    memcpy(&a.in.sin_addr, answer + n - 4, 4);
    assert_true(names_lookup(g.names, &a, &name) && slice_eq(name, SLICE("a.test")));
    ask_udp(&g, "a.test", 28, answer); /* no IPv6 listener: no IPv6 */
    assert_int_equal(answer[7], 0);
    assert_int_equal(answer[3] & 15, 0);
    ask_udp(&g, "a.test", 65, answer); /* HTTPS: none */
    assert_int_equal(answer[7], 0);
    assert_int_equal(g.refused, 0);
    ask_udp(&g, "a test", 1, answer);
    assert_int_equal(answer[3] & 15, 5);
    assert_int_equal(g.refused, 1);
    for (int i = 0; i < 50; i++) {
        uint8_t q[300];
        n = question("no host!", 1, 1, q);
        int fd = connect_to(&g.udp, SOCK_DGRAM);
        send(fd, q + 2, n - 2, 0);
        close(fd);
    }
    loop_for(g.base, 50);
    assert_in_range(g.refused, 2, 2 * NAMESERVER_REFUSED_PER_SECOND + 1);
    rig_close(&g);
}

static void udp_garbage(void **state) {
    struct rig g;
    char answer[1024];
    (void)state;
    rig_open(&g);
    int fd = connect_to(&g.udp, SOCK_DGRAM);
    send(fd, "", 0, 0);
    send(fd, "x", 1, 0);
    static char large[8192];
    send(fd, large, sizeof large, 0);
    loop_for(g.base, 30);
    /* an answer, if there is one, is an error and no longer than its question */
    for (ssize_t got; (got = recv(fd, answer, sizeof answer, MSG_DONTWAIT)) >= 0;)
        assert_true(got >= 12 && (answer[3] & 15) != 0);
    close(fd);
    uint8_t good[1024];
    ask_udp(&g, "b.test", 1, good);
    rig_close(&g);
}

static void over_tcp(void **state) {
    struct rig g;
    uint8_t q[300], answer[2048];
    (void)state;
    rig_open(&g);
    /* three questions byte by byte, the answers in order */
    int fd = connect_to(&g.tcp, SOCK_STREAM);
    for (uint16_t id = 1; id <= 3; id++) {
        size_t n = question("c.test", 1, id, q);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(send(fd, q + i, 1, 0), 1);
            if (i % 7 == 0)
                event_base_loop(g.base, EVLOOP_NONBLOCK);
        }
    }
    loop_for(g.base, 50);
    ssize_t got = recv(fd, answer, sizeof answer, MSG_DONTWAIT);
    size_t at = 0;
    for (uint16_t id = 1; id <= 3; id++) {
        assert_true(at + 4 <= (size_t)got);
        assert_int_equal(answer[at + 3], id);
        at += 2 + ((size_t)answer[at] << 8 | answer[at + 1]);
    }
    assert_int_equal(at, got);
    close(fd);
    /* a message that is too long ends the connection */
    fd = connect_to(&g.tcp, SOCK_STREAM);
    send(fd, "\xff\xff", 2, 0);
    loop_for(g.base, 30);
    assert_int_equal(recv(fd, answer, sizeof answer, MSG_DONTWAIT), 0);
    close(fd);
    rig_close(&g);
}

/* Many connections that say nothing: no more than the limit are held, and none keeps a later one out for
 * good. */
static void tcp_limit(void **state) {
    struct rig g;
    int fds[NAMESERVER_TCP_MAX + 20];
    unsigned closed = 0;
    char byte;
    (void)state;
    rig_open(&g);
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        fds[i] = connect_to(&g.tcp, SOCK_STREAM);
    loop_for(g.base, 100);
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        closed += recv(fds[i], &byte, 1, MSG_DONTWAIT) == 0;
    assert_int_equal(closed, 20);
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        close(fds[i]);
    loop_for(g.base, 50);
    uint8_t q[300], answer[512];
    size_t n = question("d.test", 1, 9, q);
    int fd = connect_to(&g.tcp, SOCK_STREAM);
    send(fd, q, n, 0);
    loop_for(g.base, 50);
    assert_true(recv(fd, answer, sizeof answer, MSG_DONTWAIT) > 14);
    close(fd);
    rig_close(&g);
}

/* A client that asks and asks and reads no answer is not read from: memory stays what it is. */
static void tcp_back_pressure(void **state) {
    struct rig g;
    uint8_t q[300];
    (void)state;
    rig_open(&g);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), small = 4096;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    assert_int_equal(connect(fd, &g.tcp.sa, g.tcp.len), 0);
    size_t n = question("e.test", 1, 9, q), sent = 0;
    for (int idle = 0; idle < 20;) {
        ssize_t r = send(fd, q + sent % n, n - sent % n, MSG_DONTWAIT | MSG_NOSIGNAL);
        idle = r > 0 ? 0 : idle + 1;
        sent += r > 0 ? (size_t)r : 0;
        assert_true(r > 0 || errno == EAGAIN);
        event_base_loop(g.base, EVLOOP_NONBLOCK);
        assert_true(sent < 64u << 20); /* the sockets' own buffers end long before */
    }
    close(fd);
    loop_for(g.base, 30);
    rig_close(&g);
}

/* Whoever made a listener may have it still. One that is shut down is readable for ever: it is not looked at any more, and the other goes
 * on. */
static void one_that_is_shut_down(void **state) {
    static const int types[] = {SOCK_DGRAM, SOCK_STREAM};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct rig g;
        struct addr at;
        uint8_t q[300], got[600];
        g = (struct rig){.base = event_base_new()};
        assert_int_equal(names_new(&g.names, NULL), 0);
        g.server = nameserver_new(g.base, g.names, on_refused, &g);
        int fd = listener(types[i], &at), theirs = dup(fd);
        assert_int_equal(
            types[i] == SOCK_DGRAM ? nameserver_add_udp(g.server, fd) : nameserver_add_tcp(g.server, fd), 0);
        assert_int_equal(nameserver_add_udp(g.server, listener(SOCK_DGRAM, &g.udp)), 0);
        int before = event_base_get_num_events(g.base, EVENT_BASE_COUNT_ADDED);
        (void)shutdown(theirs, SHUT_RDWR); /* of UDP it fails, and is so all the same */
        event_base_loop(g.base, EVLOOP_NONBLOCK);
        assert_int_equal(event_base_get_num_events(g.base, EVENT_BASE_COUNT_ADDED), before - 1);
        size_t n = question("a.test", 1, 7, q);
        int client = connect_to(&g.udp, SOCK_DGRAM);
        assert_int_equal(send(client, q + 2, n - 2, 0), n - 2);
        event_base_loop(g.base, EVLOOP_NONBLOCK);
        assert_true(recv(client, got, sizeof got, MSG_DONTWAIT) > 12);
        close(client);
        close(theirs);
        rig_close(&g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(over_udp),          cmocka_unit_test(udp_garbage),
        cmocka_unit_test(over_tcp),          cmocka_unit_test(tcp_limit),
        cmocka_unit_test(tcp_back_pressure), cmocka_unit_test(one_that_is_shut_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
