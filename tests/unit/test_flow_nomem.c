/* A client's first bytes, and there is no memory for exeat, or for OpenSSL: whichever piece it is, the connection ends or goes on, and
 * nothing is left of it. Linked with --wrap for malloc() and its like, so that what libraries take is given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "policy/policy.h"
#include "proxy/flow/conn.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"
#include "tests/unit/policy_support.h"
#include "tests/unit/record_support.h"

/* ---- memory ---- */

static bool counting;
static long before; /* so many pieces are given out before one is refused */

static bool refused(void) {
    return counting && before-- == 0;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

void *__wrap_malloc(size_t n) {
    return refused() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size) {
    return refused() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n) {
    return refused() ? NULL : __real_realloc(p, n);
}

static void *take(size_t n, const char *file, int line) {
    (void)file;
    (void)line;
    return malloc(n);
}

static void *resize(void *p, size_t n, const char *file, int line) {
    (void)file;
    (void)line;
    return realloc(p, n);
}

static void give(void *p, const char *file, int line) {
    (void)file;
    (void)line;
    free(p);
}

/* ---- a client's connection, as far as its certificate is asked for ---- */

struct world {
    struct event_base *base;
    struct recording records;
    struct engine engine;
    struct box box;
    char hello[1024];
    size_t n;
    unsigned asked;
};

static int on_ask(void *arg, struct slice name, struct slice spki) {
    struct world *w = arg;
    (void)name;
    (void)spki;
    w->asked++;
    return 0;
}

/* What a client says first. */
static void world_hello(struct world *w) {
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl = SSL_new(ctx);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, in, out);
    SSL_set_tlsext_host_name(ssl, "a.test");
    assert_int_equal(SSL_connect(ssl), -1);
    int n = BIO_read(out, w->hello, sizeof w->hello);
    assert_in_range(n, 1, sizeof w->hello - 1);
    w->n = (size_t)n;
    SSL_free(ssl);
    SSL_CTX_free(ctx);
}

static void world_open(struct world *w) {
    struct leaf_config leaves = {.ask = on_ask, .setup = conn_tls_setup, .arg = w};
    memset(w, 0, sizeof *w);
    w->base = event_base_new();
    recording_open(&w->records, w->base, NULL, NULL);
    w->engine.config = (struct engine_config){.base = w->base, .recorder = w->records.recorder};
    engine_limits_default(&w->engine.config.limits);
    buf_init(&w->engine.text, 65536);
    buf_init(&w->engine.text2, 65536);
    assert_int_equal(leaf_cache_new(&leaves, &w->engine.leaves, NULL), 0);
    w->box = (struct box){.engine = &w->engine, .name = "sandbox", .memory = io_memory_new(128u << 20)};
    w->box.policy = load_set("allow GET https://a.test/ok\n", NULL, NULL);
    world_hello(w);
}

static void world_close(struct world *w) {
    for (struct xchg *x; (x = w->engine.spare_xchgs); free(x))
        w->engine.spare_xchgs = x->next;
    leaf_cache_free(w->engine.leaves);
    io_memory_drop(w->box.memory);
    policy_free((struct policy *)(uintptr_t)w->box.policy);
    buf_release(&w->engine.text);
    buf_release(&w->engine.text2);
    recording_close(&w->records);
    event_base_free(w->base);
}

/* One connection, and what it says; the `piece`th piece of memory is refused. False: it needed fewer. */
static bool world_try(struct world *w, uint16_t port, struct slice said, long piece) {
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    assert_int_equal(write(ends[0], said.p, said.n), said.n);
    before = piece;
    counting = true;
    struct conn *conn = conn_new(&w->box, ends[1]);
    if (conn) {
        conn->direct = false;
        conn->dialed = SLICE("a.test");
        conn->port = port;
        for (int i = 0; i < 20; i++)
            event_base_loop(w->base, EVLOOP_NONBLOCK);
        counting = false;
        conn_close(conn);
    }
    counting = false;
    engine_reap(&w->engine);
    assert_int_equal(w->engine.nconns, 0);
    assert_int_equal(w->engine.nxchgs, 0);
    ERR_clear_error();
    close(ends[0]);
    return before < 0;
}

static long world_try_each(struct world *w, uint16_t port, struct slice said) {
    long piece = 0;
    while (world_try(w, port, said, piece))
        piece++;
    return piece;
}

static void a_hello(void **state) {
    struct world w;
    (void)state;
    world_open(&w);
    assert_false(world_try(&w, 443, slice_make(w.hello, w.n), 1000000));
    assert_int_equal(w.asked, 1);
    assert_true(world_try_each(&w, 443, slice_make(w.hello, w.n)) > 20);
    world_close(&w);
}

/* Two at once, so that the first is copied. */
static void requests(void **state) {
    struct world w;
    struct msg_in m;
    unsigned records = 0;
    (void)state;
    world_open(&w);
    struct slice said =
        SLICE("GET /1 HTTP/1.1\r\nHost: a.test\r\n\r\nGET /2 HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_false(world_try(&w, 80, said, 1000000));
    while (recording_take(&w.records, &m))
        records++;
    assert_int_equal(records, 4);
    assert_true(world_try_each(&w, 80, said) > 4);
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_hello), cmocka_unit_test(requests)};
    CRYPTO_set_mem_functions(take, resize, give);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
