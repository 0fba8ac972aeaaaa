/* Two ends of a connection in one event loop, for the tests of io. */
#ifndef TESTS_UNIT_IO_SUPPORT_H
#define TESTS_UNIT_IO_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <linux/tcp.h> /* tcpi_data_segs_out, which netinet/tcp.h lacks */
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <sched.h>
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

static inline void on_readable(struct io *io) {
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

static inline void on_ready(struct io *io, int err) {
    struct end *e = io->arg;
    e->ready++;
    e->err = err;
}

static inline void on_drained(struct io *io) {
    ((struct end *)io->arg)->drained++;
}

static inline void on_failed(struct io *io, int err) {
    (void)err;
    ((struct end *)io->arg)->failed++;
}

static inline void on_timeout(struct io *io) {
    ((struct end *)io->arg)->timeout++;
}

static const struct io_events events = {on_ready, on_readable, on_drained, on_failed, on_timeout};

static int herald = -1; /* a socket that is connected to itself */

/* What was sent on loopback before is with its receiver when this returns, ends and resets too: the kernel may keep it for a while, but
 * what one CPU sent it hands over in order (set_up() keeps us on one). */
static inline void delivered(void) {
    char byte = 0;
    assert_int_equal(write(herald, &byte, 1), 1);
    assert_int_equal(read(herald, &byte, 1), 1);
}

static inline void turn(int times) {
    for (int i = 0; i < times; i++) {
        delivered();
        event_base_loop(base, EVLOOP_NONBLOCK);
    }
}

/* A connected pair over TCP, so that RST and half-close are the real ones. */
static inline void wide_pair(int fds[2]) {
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
    for (int i = 0; i < 2; i++) {
        int one = 1;
        setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        evutil_make_socket_nonblocking(fds[i]);
    }
}

/* … for which 3 MiB are too much for the kernel. */
static inline void tcp_pair(int fds[2]) {
    int small = 65536;
    wide_pair(fds);
    for (int i = 0; i < 2; i++) {
        setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
        setsockopt(fds[i], SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    }
}

static inline void open_pair(struct end *a, struct end *b) {
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

static inline void close_pair(struct end *a, struct end *b) {
    io_free(a->io);
    io_free(b->io);
    buf_release(&a->got);
    buf_release(&b->got);
}

/* ---- TLS ---- */

static SSL_CTX *server_ctx, *client_ctx;

static inline void make_contexts(void) {
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

static inline void shake(struct end *client, struct end *server) {
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

static inline void open_tls(struct end *client, struct end *server) {
    open_pair(client, server);
    shake(client, server);
}

static inline int set_up(void **state) {
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof sin;
    cpu_set_t one;
    (void)state;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    herald = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (sched_setaffinity(0, sizeof one, &one) || bind(herald, (struct sockaddr *)&sin, sizeof sin) ||
        getsockname(herald, (struct sockaddr *)&sin, &len) ||
        connect(herald, (struct sockaddr *)&sin, sizeof sin))
        return -1;
    base = event_base_new();
    make_contexts();
    return base ? 0 : -1;
}

static inline int tear_down(void **state) {
    (void)state;
    io_end_lingering();
    close(herald);
    SSL_CTX_free(server_ctx);
    SSL_CTX_free(client_ctx);
    event_base_free(base);
    return 0;
}

static inline void assert_got(struct end *e, const char *text) {
    assert_int_equal(buf_len(&e->got), strlen(text));
    assert_memory_equal(buf_slice(&e->got).p, text, strlen(text));
}

static inline void big(struct end *a, struct end *b) {
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

#endif
