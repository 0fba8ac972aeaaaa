/* io: both ends of a connection in one event loop, clear and with TLS. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <linux/tcp.h> /* tcpi_data_segs_out, which netinet/tcp.h lacks */
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <unistd.h>

#include "proxy/io/io.h"

/* One end, and what happened to it. */
struct end {
    struct io *io;
    struct buf got;
    int ready, err; /* calls of `ready`, and its last word */
    int drained, failed, timeout;
    bool ended;
    enum io_end how;
};

static struct event_base *base;

static void on_readable(struct io *io) {
    struct end *e = io->arg;
    size_t got;
    char *p = io_scratch();
    int r = io_read(io, p, IO_SCRATCH, &got);
    if (r == 0)
        assert_int_equal(buf_put(&e->got, slice_make(p, got)), 0);
    if (r == ERR_EOF) {
        e->ended = true;
        e->how = io->end;
    }
}

static void on_ready(struct io *io, int err) {
    struct end *e = io->arg;
    e->ready++;
    e->err = err;
}

static void on_drained(struct io *io) {
    ((struct end *)io->arg)->drained++;
}

static void on_failed(struct io *io, int err) {
    (void)err;
    ((struct end *)io->arg)->failed++;
}

static void on_timeout(struct io *io) {
    ((struct end *)io->arg)->timeout++;
}

static const struct io_events events = {on_ready, on_readable, on_drained, on_failed, on_timeout};

static void turn(int times) {
    for (int i = 0; i < times; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
}

/* A connected pair over TCP, so that RST and half-close are the real ones. */
static void tcp_pair(int fds[2]) {
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof sin;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&sin, sizeof sin), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&sin, &len), 0);
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fds[0], (struct sockaddr *)&sin, sizeof sin), 0);
    fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fds[1] >= 0);
    close(listener);
    int small = 65536; /* so that 3 MiB do not fit into the kernel */
    for (int i = 0; i < 2; i++) {
        int one = 1;
        setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
        setsockopt(fds[i], SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    }
    evutil_make_socket_nonblocking(fds[0]);
    evutil_make_socket_nonblocking(fds[1]);
}

static void open_pair(struct end *a, struct end *b) {
    int fds[2];
    memset(a, 0, sizeof *a);
    memset(b, 0, sizeof *b);
    buf_init(&a->got, 64u << 20);
    buf_init(&b->got, 64u << 20);
    tcp_pair(fds);
    a->io = io_open(base, fds[0], false, &events, a);
    b->io = io_open(base, fds[1], false, &events, b);
    assert_non_null(a->io);
    assert_non_null(b->io);
}

static void close_pair(struct end *a, struct end *b) {
    io_free(a->io);
    io_free(b->io);
    buf_release(&a->got);
    buf_release(&b->got);
}

/* ---- TLS ---- */

static SSL_CTX *server_ctx, *client_ctx;

static void make_contexts(void) {
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                               (const unsigned char *)"a.test", -1, -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(cert));
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -60);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    server_ctx = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_use_certificate(server_ctx, cert), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(server_ctx, key), 1);
    client_ctx = SSL_CTX_new(TLS_client_method());
    X509_free(cert);
    EVP_PKEY_free(key);
}

static void shake(struct end *client, struct end *server) {
    SSL *c = SSL_new(client_ctx), *s = SSL_new(server_ctx);
    SSL_set_connect_state(c);
    SSL_set_accept_state(s);
    assert_int_equal(io_tls(client->io, c), 0);
    assert_int_equal(io_tls(server->io, s), 0);
    io_handshake(client->io);
    io_handshake(server->io);
    turn(20);
    assert_int_equal(client->ready, 1);
    assert_int_equal(client->err, 0);
    assert_int_equal(server->ready, 1);
    assert_int_equal(server->err, 0);
}

static void open_tls(struct end *client, struct end *server) {
    open_pair(client, server);
    shake(client, server);
}

static int set_up(void **state) {
    (void)state;
    base = event_base_new();
    make_contexts();
    return base ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    io_end_lingering();
    SSL_CTX_free(server_ctx);
    SSL_CTX_free(client_ctx);
    event_base_free(base);
    return 0;
}

/* ---- clear ---- */

static void assert_got(struct end *e, const char *text) {
    assert_int_equal(buf_len(&e->got), strlen(text));
    assert_memory_equal(buf_slice(&e->got).p, text, strlen(text));
}

static void test_clear(void **state) {
    struct end a, b;
    (void)state;
    open_pair(&a, &b);
    assert_int_equal(io_write(a.io, SLICE("head "), true), 0);
    turn(2);
    assert_int_equal(buf_len(&b.got), 0); /* waits for more */
    assert_int_equal(io_write(a.io, SLICE("body"), false), 0);
    turn(2);
    assert_got(&b, "head body");
    assert_int_equal(a.io->sent, 9);
    assert_int_equal(b.io->received, 9);
    assert_null(a.io->queue.data); /* memory goes back */
    close_pair(&a, &b);
}

static void nothing(evutil_socket_t fd, short what, void *arg) {
    (void)fd;
    (void)what;
    (void)arg;
}

/* What is to go soon goes when the turn ends, together, and the owner hears nothing of it; at once if nobody else has a turn. */
static void test_soon(void **state) {
    struct end a, b;
    struct event other;
    (void)state;
    open_pair(&a, &b);
    event_assign(&other, base, -1, 0, nothing, NULL);
    event_active(&other, EV_TIMEOUT, 0);
    assert_int_equal(io_write(a.io, SLICE("one "), true), 0);
    assert_int_equal(io_flush_soon(a.io), 0);
    assert_int_equal(io_write(a.io, SLICE("two "), true), 0);
    assert_int_equal(io_flush_soon(a.io), 0);
    assert_int_equal(a.io->sent, 0);
    turn(2);
    assert_got(&b, "one two ");
    assert_int_equal(a.io->sent, 8);
    assert_int_equal(a.drained, 0);
    assert_null(a.io->queue.data);
    assert_int_equal(io_write(a.io, SLICE("three "), true), 0);
    assert_int_equal(io_flush_soon(a.io), 0);
    assert_int_equal(a.io->sent, 14);
    /* a write at once takes along what waits, in order, and the turn's end finds nothing */
    event_active(&other, EV_TIMEOUT, 0);
    assert_int_equal(io_write(a.io, SLICE("four "), true), 0);
    assert_int_equal(io_flush_soon(a.io), 0);
    assert_int_equal(io_write(a.io, SLICE("five"), false), 0);
    assert_int_equal(a.io->sent, 23);
    /* what ends here goes out before the end */
    assert_int_equal(io_write(a.io, SLICE(" six"), true), 0);
    assert_int_equal(io_flush_soon(a.io), 0);
    io_shutdown(a.io);
    assert_int_equal(io_flush_soon(b.io), 0); /* nothing is queued */
    turn(3);
    assert_got(&b, "one two three four five six");
    assert_true(b.ended);
    /* gone before its turn: nothing is left that would fire */
    event_active(&other, EV_TIMEOUT, 0);
    assert_int_equal(io_write(b.io, SLICE("never"), true), 0);
    assert_int_equal(io_flush_soon(b.io), 0);
    close_pair(&a, &b);
    turn(2);
}

static void test_half_close(void **state) {
    struct end a, b;
    (void)state;
    open_pair(&a, &b);
    io_write(a.io, SLICE("bye"), false);
    io_shutdown(a.io);
    turn(3);
    assert_true(b.ended);
    assert_int_equal(b.how, IO_END_CLEAN);
    assert_int_equal(io_write(b.io, SLICE("answer"), false), 0);
    turn(3);
    assert_got(&a, "answer");
    assert_false(a.ended);
    assert_int_equal(io_write(a.io, SLICE("x"), false), ERR_EOF);
    close_pair(&a, &b);
}

static void test_reset(void **state) {
    struct end a, b;
    struct linger now = {.l_onoff = 1};
    (void)state;
    open_pair(&a, &b);
    setsockopt(a.io->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    io_free(a.io);
    a.io = NULL;
    turn(3);
    assert_true(b.ended);
    assert_int_equal(b.how, IO_END_RESET);
    close_pair(&a, &b);
}

static void big(struct end *a, struct end *b) {
    size_t n = 3u << 20;
    char *bytes = malloc(n);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (char)(i * 7 + i / 251);
    io_pause(b->io);
    assert_int_equal(io_write(a->io, slice_make(bytes, n), false), 0);
    turn(10);
    assert_int_equal(buf_len(&b->got), 0);
    assert_true(io_full(a->io));
    assert_int_equal(a->drained, 0);
    io_resume(b->io);
    turn(3000);
    assert_int_equal(buf_len(&b->got), n);
    assert_memory_equal(buf_slice(&b->got).p, bytes, n);
    assert_true(a->drained >= 1);
    assert_false(io_full(a->io));
    free(bytes);
}

static void test_back_pressure(void **state) {
    struct end a, b;
    (void)state;
    open_pair(&a, &b);
    big(&a, &b);
    close_pair(&a, &b);
}

static void test_deadline(void **state) {
    struct end a, b;
    (void)state;
    open_pair(&a, &b);
    io_deadline(a.io, 10);
    io_deadline(a.io, 600000); /* moved */
    usleep(20000);
    turn(3);
    assert_int_equal(a.timeout, 0);
    io_deadline(a.io, 10);
    usleep(60000);
    turn(3);
    assert_int_equal(a.timeout, 1);
    io_deadline(a.io, 10);
    io_deadline(a.io, 0);
    usleep(20000);
    turn(3);
    assert_int_equal(a.timeout, 1);
    close_pair(&a, &b);
}

static void test_failed(void **state) {
    struct end a, b;
    (void)state;
    open_pair(&a, &b);
    io_free(b.io);
    b.io = NULL;
    int r = 0;
    for (int i = 0; i < 5 && r == 0; i++) {
        r = io_write(a.io, SLICE("into the void"), false);
        turn(2);
    }
    assert_int_equal(r, ERR_EOF);
    close_pair(&a, &b);
}

static void test_idle(void **state) {
    struct end a, b;
    (void)state;
    open_pair(&a, &b);
    assert_true(io_idle_ok(a.io));
    io_write(b.io, SLICE("x"), false);
    assert_false(io_idle_ok(a.io));
    turn(2);
    assert_true(io_idle_ok(a.io));
    io_shutdown(b.io);
    assert_false(io_idle_ok(a.io));
    close_pair(&a, &b);
}

static void test_connect(void **state) {
    struct sockaddr_in sin = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(1)};
    struct end a = {0};
    (void)state;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int r = connect(fd, (struct sockaddr *)&sin, sizeof sin);
    assert_true(r < 0);
    a.io = io_open(base, fd, true, &events, &a);
    for (int i = 0; i < 100 && !a.ready; i++)
        turn(1);
    assert_int_equal(a.ready, 1);
    assert_int_equal(a.err, ERR_IO);
    io_free(a.io);
}

/* ---- TLS ---- */

static void test_tls(void **state) {
    struct end a, b;
    (void)state;
    open_tls(&a, &b);
    io_write(a.io, SLICE("head "), true);
    io_write(a.io, SLICE("body"), false);
    turn(5);
    assert_got(&b, "head body");
    io_write(b.io, SLICE("answer"), false);
    turn(5);
    assert_got(&a, "answer");
    buf_clear(&a.got);
    big(&b, &a);
    close_pair(&a, &b);
}

static void test_tls_ends(void **state) {
    struct end a, b;
    (void)state;
    open_tls(&a, &b);
    io_shutdown(a.io); /* close_notify and FIN, and reading goes on */
    turn(5);
    assert_true(b.ended);
    assert_int_equal(b.how, IO_END_CLEAN);
    assert_int_equal(io_write(b.io, SLICE("still"), false), 0);
    turn(5);
    assert_got(&a, "still");
    close_pair(&a, &b);

    open_tls(&a, &b);
    shutdown(a.io->fd, SHUT_WR); /* FIN alone */
    turn(5);
    assert_true(b.ended);
    assert_int_equal(b.how, IO_END_UNCLEAN);
    assert_int_equal(io_write(b.io, SLICE("still"), false), 0); /* the session is not broken by it */
    turn(5);
    assert_got(&a, "still");
    close_pair(&a, &b);

    open_tls(&a, &b);
    io_free(a.io);
    a.io = NULL;
    turn(5);
    assert_int_equal(b.how, IO_END_CLEAN);
    close_pair(&a, &b);
}

/* Bytes and the end behind them, all there when reading goes on: first the one, then the other. */
static void test_end_behind(void **state) {
    static char bytes[40000];
    (void)state;
    for (int reset = 0; reset < 2; reset++) {
        struct end a, b;
        open_tls(&a, &b);
        io_pause(b.io);
        assert_int_equal(io_write(a.io, slice_make(bytes, sizeof bytes), false), 0);
        if (reset)
            io_cut(a.io, true);
        else
            io_shutdown(a.io);
        turn(5);
        assert_false(b.ended);
        io_resume(b.io);
        turn(5);
        assert_int_equal(buf_len(&b.got), sizeof bytes);
        assert_true(b.ended);
        assert_int_equal(b.how, reset ? IO_END_RESET : IO_END_CLEAN);
        a.io = reset ? NULL : a.io;
        close_pair(&a, &b);
    }
}

static unsigned segments(const struct end *e) {
    struct tcp_info info;
    socklen_t len = sizeof info;
    assert_int_equal(getsockopt(e->io->fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
    return info.tcpi_data_segs_out;
}

/* The records of one write share packets; what `more` keeps in the kernel goes with the flush; what comes behind a head
 * fills its record. */
static void test_gathers(void **state) {
    static char bytes[3 * IO_RECORD];
    struct end a, b;
    (void)state;
    open_tls(&a, &b);
    unsigned before = segments(&a);
    assert_int_equal(io_write(a.io, slice_make(bytes, sizeof bytes), false), 0);
    assert_true(segments(&a) - before < sizeof bytes / IO_RECORD);
    turn(5);
    assert_int_equal(buf_len(&b.got), sizeof bytes);
    assert_int_equal(io_write(a.io, slice_make(bytes, IO_RECORD), true), 0);
    assert_int_equal(io_flush(a.io), 0);
    turn(5);
    assert_int_equal(buf_len(&b.got), sizeof bytes + IO_RECORD);
    buf_clear(&b.got);
    assert_int_equal(io_write(a.io, SLICE("head"), true), 0);
    assert_int_equal(io_write(a.io, slice_make(bytes, sizeof bytes), true), 0);
    assert_int_equal(io_write(a.io, SLICE("tail"), false), 0);
    turn(5);
    assert_int_equal(buf_len(&b.got), sizeof bytes + 8);
    assert_memory_equal(buf_slice(&b.got).p + sizeof bytes + 4, "tail", 4);
    close_pair(&a, &b);
}

static void test_tls_garbage(void **state) {
    struct end a, b;
    (void)state;
    open_tls(&a, &b);
    assert_int_equal(send(a.io->fd, "not a record", 12, 0), 12);
    turn(5);
    assert_true(b.ended);
    assert_int_equal(b.how, IO_END_BROKEN);
    assert_true(strlen(io_error_text(b.io)) > 3);
    close_pair(&a, &b);
}

/* The server reads the hello in the clear, looks at it, and gives it back. */
static void test_unread(void **state) {
    struct end a, b;
    (void)state;
    open_pair(&a, &b);
    SSL *c = SSL_new(client_ctx), *s = SSL_new(server_ctx);
    SSL_set_connect_state(c);
    SSL_set_accept_state(s);
    assert_int_equal(io_tls(a.io, c), 0);
    io_handshake(a.io);
    turn(5);
    assert_true(buf_len(&b.got) > 50);
    assert_int_equal(buf_slice(&b.got).p[0], 22);
    assert_int_equal(io_unread(b.io, buf_slice(&b.got)), 0);
    buf_clear(&b.got);
    assert_int_equal(io_tls(b.io, s), 0);
    io_handshake(b.io);
    turn(20);
    assert_int_equal(a.err, 0);
    assert_int_equal(b.err, 0);
    assert_int_equal(a.ready + b.ready, 2);
    io_write(a.io, SLICE("hello"), false);
    turn(5);
    assert_got(&b, "hello");
    close_pair(&a, &b);
}

static void test_tls_refused(void **state) {
    struct end a, b;
    (void)state;
    open_pair(&a, &b);
    SSL *s = SSL_new(server_ctx);
    SSL_set_accept_state(s);
    assert_int_equal(io_tls(b.io, s), 0);
    io_handshake(b.io);
    io_write(a.io, SLICE("GET / HTTP/1.1\r\n\r\n"), false);
    turn(5);
    assert_int_equal(b.ready, 1);
    assert_int_equal(b.err, ERR_CRYPTO);
    close_pair(&a, &b);
}

static void test_linger(void **state) {
    struct end a, b;
    (void)state;
    open_tls(&a, &b);
    io_write(b.io, SLICE("refused"), true); /* not even flushed */
    io_linger(b.io, 1000000, 5000);
    b.io = NULL;
    io_write(a.io, SLICE("more of the request"), false);
    turn(10);
    assert_got(&a, "refused");
    assert_true(a.ended);
    assert_int_equal(a.how, IO_END_CLEAN);
    close_pair(&a, &b);
    turn(5);
}

static void test_cut(void **state) {
    struct end a, b;
    (void)state;
    open_tls(&a, &b);
    io_write(b.io, SLICE("half an ans"), false);
    io_cut(b.io, false);
    b.io = NULL;
    turn(10);
    assert_got(&a, "half an ans");
    assert_true(a.ended);
    assert_int_equal(a.how, IO_END_UNCLEAN);
    close_pair(&a, &b);

    open_pair(&a, &b);
    io_cut(b.io, true);
    b.io = NULL;
    turn(10);
    assert_true(a.ended);
    assert_int_equal(a.how, IO_END_RESET);
    close_pair(&a, &b);
}

/* Freed from within its own callback. */
static void free_me(struct io *io) {
    struct end *e = io->arg;
    e->io = NULL;
    io_free(io);
}

static void test_free_within(void **state) {
    static const struct io_events suicidal = {.readable = free_me};
    struct end a, b;
    (void)state;
    open_tls(&a, &b);
    io_own(b.io, &suicidal, &b);
    io_write(a.io, SLICE("die"), false);
    turn(5);
    assert_null(b.io);
    assert_true(a.ended);
    close_pair(&a, &b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clear),         cmocka_unit_test(test_soon),
        cmocka_unit_test(test_half_close),    cmocka_unit_test(test_reset),
        cmocka_unit_test(test_back_pressure), cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_failed),        cmocka_unit_test(test_idle),
        cmocka_unit_test(test_connect),       cmocka_unit_test(test_tls),
        cmocka_unit_test(test_tls_ends),      cmocka_unit_test(test_tls_garbage),
        cmocka_unit_test(test_unread),        cmocka_unit_test(test_tls_refused),
        cmocka_unit_test(test_linger),        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_free_within),   cmocka_unit_test(test_gathers),
        cmocka_unit_test(test_end_behind),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
