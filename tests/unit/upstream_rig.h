/* Upstreams, a resolver, a pool and certificates: what the tests of the upstream side have in common. */
#ifndef TESTS_UNIT_UPSTREAM_RIG_H
#define TESTS_UNIT_UPSTREAM_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ca/root.h"
#include "ca/upstream.h"
#include "proxy/io/io.h"
#include "proxy/upstream/proxyenv.h"
#include "proxy/upstream/resolve.h"
#include "proxy/upstream/upstream.h"
#include "tests/unit/ca_support.h"
#include "tests/unit/loop.h"
#include "tests/unit/upstream_support.h"

/* --- certificates ------------------------------------------------------------------------------------- */

static struct ca_root *good_root, *other_root;

/* A server's context with a certificate of `root` for `name`; `from_now`: when its life begins, in seconds. */
static inline SSL_CTX *server_context(struct ca_root *root, const char *name, int64_t from_now) {
    unsigned char *spki;
    struct slice key_der;
    struct buf der;
    EVP_PKEY *key = new_key(&spki, &key_der);
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    buf_init(&der, CA_DER_MAX);
    assert_int_equal(
        ca_mint_for(root, slice_str(name), key_der, (int64_t)time(NULL) + from_now, 3600, &der, NULL), 0);
    X509 *cert = cert_of(buf_slice(&der));
    assert_int_equal(SSL_CTX_use_certificate(ctx, cert), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(ctx, key), 1);
    X509_free(cert);
    EVP_PKEY_free(key);
    OPENSSL_free(spki);
    buf_release(&der);
    return ctx;
}

static inline struct ca_root *make_root(void) {
    char path[64];
    struct ca_root *root;
    struct errmsg msg = {""};
    int fd = state_dir(path);
    if (ca_root_open(fd, (int64_t)time(NULL), &root, &msg))
        fail_msg("%s", msg.text);
    state_remove(path, fd);
    return root;
}

static inline int make_roots(void **state) {
    (void)state;
    good_root = make_root();
    other_root = make_root();
    return 0;
}

static inline int free_roots(void **state) {
    (void)state;
    ca_root_free(good_root);
    ca_root_free(other_root);
    return 0;
}

/* --- the parts of a test ------------------------------------------------------------------------------ */

struct rig {
    struct event_base *base;
    struct resolver *resolver;
    struct proxyenv proxies;
    struct upstream *upstream;
    struct upstream_pool *pool;
    char hosts[64];

    unsigned calls;
    struct upstream_link *link;
    struct upstream_failure failure;
    char text[512];
};

static const char *proxy_variable;

static inline const char *get_proxy(const char *name) {
    return strcmp(name, "all_proxy") == 0 ? proxy_variable : NULL;
}

/* `hosts`: the text of a hosts file; `pins`: up to 4 of --resolve, NULL at the end. No name server is there. */
static inline void rig_open(struct rig *g, const char *hosts, const char *const *pins, const char *proxy) {
    struct errmsg msg = {""};
    size_t n = 0;
    *g = (struct rig){.base = event_base_new(), .hosts = "/tmp/exeat-hosts-XXXXXX"};
    int fd = mkstemp(g->hosts);
    assert_true(write(fd, hosts, strlen(hosts)) == (ssize_t)strlen(hosts));
    close(fd);
    while (pins && pins[n])
        n++;
    struct resolver_config config = {
        .resolv_conf = "/nonexistent", .servers = "127.0.0.1:1", .hosts = g->hosts, .pins = pins, .npins = n};
    if (resolver_new(g->base, &config, &g->resolver, &msg))
        fail_msg("%s", msg.text);
    unlink(g->hosts);
    proxy_variable = proxy;
    assert_int_equal(proxyenv_load(&g->proxies, get_proxy, &msg), 0);
    struct upstream_config up = {
        .base = g->base, .resolver = g->resolver, .extra = ca_root_pem(good_root), .proxies = &g->proxies};
    g->upstream = upstream_new(&up);
    g->pool = upstream_pool_new(g->upstream, NULL);
}

static inline void rig_close(struct rig *g) {
    upstream_pool_free(g->pool);
    upstream_free(g->upstream);
    resolver_free(g->resolver);
    proxyenv_release(&g->proxies);
    event_base_free(g->base);
}

static inline void on_ready(void *arg, struct upstream_link *link) {
    struct rig *g = arg;
    g->calls++;
    g->link = link;
}

static inline void on_failed(void *arg, const struct upstream_failure *failure) {
    struct rig *g = arg;
    g->calls++;
    g->failure = *failure;
    snprintf(g->text, sizeof g->text, "%s", failure->text);
}

static inline bool called(void *arg) {
    return ((struct rig *)arg)->calls > 0;
}

static inline struct upstream_attempt *start(struct rig *g, enum url_scheme scheme, const char *name,
                                             unsigned port, struct upstream_options options) {
    static const struct upstream_callbacks callbacks = {on_ready, on_failed};
    struct upstream_origin origin = {.scheme = scheme, .port = (uint16_t)port};
    g->calls = 0;
    g->link = NULL;
    g->text[0] = 0;
    if (url_host_parse(slice_str(name), &origin.host, NULL))
        fail_msg("%s is no host", name);
    struct upstream_attempt *a = upstream_acquire(g->pool, &origin, &options, &callbacks, g);
    assert_non_null(a);
    assert_int_equal(g->calls, 0);
    return a;
}

static inline struct upstream_link *get_with(struct rig *g, enum url_scheme scheme, const char *name,
                                             unsigned port, struct upstream_options options) {
    start(g, scheme, name, port, options);
    assert_true(loop_until(g->base, called, g, LOOP_PATIENCE));
    if (!g->link)
        fail_msg("%s: %s", name, g->text);
    return g->link;
}

static inline struct upstream_link *get(struct rig *g, enum url_scheme scheme, const char *name,
                                        unsigned port) {
    return get_with(g, scheme, name, port, (struct upstream_options){0});
}

static inline void must_fail(struct rig *g, enum url_scheme scheme, const char *name, unsigned port,
                             enum upstream_reason reason) {
    start(g, scheme, name, port, (struct upstream_options){0});
    assert_true(loop_until(g->base, called, g, LOOP_PATIENCE));
    if (g->link)
        fail_msg("%s was connected to", name);
    if (g->failure.reason != reason)
        fail_msg("%s: %s (%s)", name, upstream_reason_code(g->failure.reason), g->text);
    assert_true(g->text[0]);
    assert_int_equal(g->calls, 1);
}

struct exchange {
    char answer[256];
    size_t n;
    bool ended;
};

static inline void on_exchange_readable(struct io *io) {
    struct exchange *x = io->arg;
    size_t got;
    int r = 0;
    /* byte by byte: what comes behind the answer is for whoever has the connection next */
    while (r == 0 && !x->ended) {
        r = io_read(io, x->answer + x->n, x->n < sizeof x->answer - 1, &got);
        x->n += got;
        x->answer[x->n] = 0;
        x->ended = r == ERR_EOF || strstr(x->answer, "\r\n\r\nok");
    }
}

static inline bool exchanged(void *arg) {
    return ((struct exchange *)arg)->ended;
}

/* A request and its answer over a link. */
static inline void exchange(struct rig *g, struct upstream_link *link) {
    static const struct io_events events = {.readable = on_exchange_readable};
    struct exchange x = {.n = 0};
    io_own(link->io, &events, &x);
    assert_int_equal(io_write(link->io, SLICE("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), false), 0);
    assert_true(loop_until(g->base, exchanged, &x, LOOP_PATIENCE));
    assert_non_null(strstr(x.answer, "\r\n\r\nok"));
}

static char pin_text[4][128];
static const char *pin_list[5];

/* "a.test:443:127.0.0.1:PORT" for each name. */
static inline const char *const *pin_to(unsigned port, const char *first, const char *second) {
    snprintf(pin_text[0], sizeof pin_text[0], "%s:443:127.0.0.1:%u", first, port);
    pin_list[0] = pin_text[0];
    pin_list[1] = NULL;
    if (second) {
        snprintf(pin_text[1], sizeof pin_text[1], "%s:443:127.0.0.1:%u", second, port);
        pin_list[1] = pin_text[1];
        pin_list[2] = NULL;
    }
    return pin_list;
}

#endif
