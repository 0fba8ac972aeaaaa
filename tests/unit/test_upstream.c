/* Connections to upstreams: which addresses, which certificates, which ones again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ca/root.h"
#include "ca/upstream.h"
#include "proxy/flow/io.h"
#include "proxy/flow/proxyenv.h"
#include "proxy/flow/resolve.h"
#include "proxy/flow/upstream.h"
#include "tests/unit/ca_support.h"
#include "tests/unit/loop.h"
#include "tests/unit/upstream_support.h"

/* --- certificates ------------------------------------------------------------------------------------------- */

static struct ca_root *good_root, *other_root;

/* A server's context with a certificate of `root` for `name`; `from_now`: when its life begins, in seconds. */
static SSL_CTX *server_context(struct ca_root *root, const char *name, int64_t from_now) {
    unsigned char *spki;
    struct slice key_der;
    struct buf der;
    EVP_PKEY *key = new_key(&spki, &key_der);
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    buf_init(&der, CA_DER_MAX);
    assert_int_equal(ca_mint_for(root, slice_str(name), key_der, (int64_t)time(NULL) + from_now, 3600, &der, NULL), 0);
    X509 *cert = cert_of(buf_slice(&der));
    assert_int_equal(SSL_CTX_use_certificate(ctx, cert), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(ctx, key), 1);
    X509_free(cert);
    EVP_PKEY_free(key);
    OPENSSL_free(spki);
    buf_release(&der);
    return ctx;
}

static struct ca_root *make_root(void) {
    char path[64];
    struct ca_root *root;
    struct errmsg msg = {""};
    int fd = state_dir(path);
    if (ca_root_open(fd, (int64_t)time(NULL), &root, &msg))
        fail_msg("%s", msg.text);
    state_remove(path, fd);
    return root;
}

static int make_roots(void **state) {
    (void)state;
    good_root = make_root();
    other_root = make_root();
    return 0;
}

static int free_roots(void **state) {
    (void)state;
    ca_root_free(good_root);
    ca_root_free(other_root);
    return 0;
}

/* --- the parts of a test ------------------------------------------------------------------------------------ */

struct rig {
    struct event_base *base;
    struct resolver *resolver;
    SSL_CTX *tls;
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

static const char *get_proxy(const char *name) {
    return strcmp(name, "all_proxy") == 0 ? proxy_variable : NULL;
}

/* `hosts`: the text of a hosts file; `pins`: up to 4 of --resolve, NULL at the end. No name server is there. */
static void rig_open(struct rig *g, const char *hosts, const char *const *pins, const char *proxy) {
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
    assert_int_equal(ca_upstream_new(SLICE_NONE, ca_root_pem(good_root), &g->tls, &msg), 0);
    proxy_variable = proxy;
    assert_int_equal(proxyenv_load(&g->proxies, get_proxy, &msg), 0);
    struct upstream_config up = {.base = g->base, .resolver = g->resolver, .tls = g->tls, .proxies = &g->proxies};
    g->upstream = upstream_new(&up);
    g->pool = upstream_pool_new(g->upstream);
}

static void rig_close(struct rig *g) {
    upstream_pool_free(g->pool);
    upstream_free(g->upstream);
    resolver_free(g->resolver);
    SSL_CTX_free(g->tls);
    proxyenv_release(&g->proxies);
    event_base_free(g->base);
}

static void on_ready(void *arg, struct upstream_link *link) {
    struct rig *g = arg;
    g->calls++;
    g->link = link;
}

static void on_failed(void *arg, const struct upstream_failure *failure) {
    struct rig *g = arg;
    g->calls++;
    g->failure = *failure;
    snprintf(g->text, sizeof g->text, "%s", failure->text);
}

static bool called(void *arg) {
    return ((struct rig *)arg)->calls > 0;
}

static struct upstream_attempt *start(struct rig *g, enum url_scheme scheme, const char *name, unsigned port,
                                      struct upstream_options options) {
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

static struct upstream_link *get_with(struct rig *g, enum url_scheme scheme, const char *name, unsigned port,
                                      struct upstream_options options) {
    start(g, scheme, name, port, options);
    assert_true(loop_until(g->base, called, g, 12000));
    if (!g->link)
        fail_msg("%s: %s", name, g->text);
    return g->link;
}

static struct upstream_link *get(struct rig *g, enum url_scheme scheme, const char *name, unsigned port) {
    return get_with(g, scheme, name, port, (struct upstream_options){0});
}

static void must_fail(struct rig *g, enum url_scheme scheme, const char *name, unsigned port, enum upstream_reason reason) {
    start(g, scheme, name, port, (struct upstream_options){0});
    assert_true(loop_until(g->base, called, g, 12000));
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

static void on_exchange_readable(struct io *io) {
    struct exchange *x = io->arg;
    size_t got;
    int r = io_read(io, x->answer + x->n, sizeof x->answer - 1 - x->n, &got);
    x->n += got;
    x->answer[x->n] = 0;
    x->ended = x->ended || r == ERR_EOF || strstr(x->answer, "\r\n\r\nok");
}

static bool exchanged(void *arg) {
    return ((struct exchange *)arg)->ended;
}

/* A request and its answer over a link. */
static void exchange(struct rig *g, struct upstream_link *link) {
    static const struct io_events events = {.readable = on_exchange_readable};
    struct exchange x = {.n = 0};
    io_own(link->io, &events, &x);
    assert_int_equal(io_write(link->io, SLICE("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), false), 0);
    assert_true(loop_until(g->base, exchanged, &x, 5000));
    assert_non_null(strstr(x.answer, "\r\n\r\nok"));
}

static char pin_text[4][128];
static const char *pin_list[5];

/* "a.test:443:127.0.0.1:PORT" for each name. */
static const char *const *pin_to(unsigned port, const char *first, const char *second) {
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

/* --- again, and not again ----------------------------------------------------------------------------------- */

static size_t idle_of(struct rig *g) {
    return upstream_pool_idle(g->pool);
}

static bool none_idle(void *arg) {
    return idle_of(arg) == 0;
}

static void reuse(int max_version) {
    struct server s = {.tls = server_context(good_root, "a.test", -60), .max_version = max_version};
    struct rig g;
    server_start(&s);
    rig_open(&g, "", pin_to(s.port, "a.test", NULL), NULL);
    struct upstream_link *link = get(&g, URL_HTTPS, "a.test", 443);
    assert_false(link->reused || link->proxied);
    assert_int_equal(addr_port(&link->peer), s.port);
    assert_int_equal(SSL_get_verify_result(link->io->ssl), X509_V_OK);
    exchange(&g, link);
    upstream_release(link, true, 0);
    assert_int_equal(idle_of(&g), 1);
    for (int i = 0; i < 5; i++) {
        link = get(&g, URL_HTTPS, "a.test", 443);
        assert_true(link->reused);
        assert_int_equal(idle_of(&g), 0);
        exchange(&g, link);
        upstream_release(link, true, 0);
    }
    assert_int_equal(s.count->accepted, 1);
    /* asked for fresh: another connection, and the session goes on */
    link = get_with(&g, URL_HTTPS, "a.test", 443, (struct upstream_options){.fresh = true});
    assert_false(link->reused);
    assert_int_equal(SSL_session_reused(link->io->ssl), 1);
    assert_int_equal(SSL_get_verify_result(link->io->ssl), X509_V_OK);
    exchange(&g, link);
    upstream_release(link, false, 0);
    assert_int_equal(idle_of(&g), 1);
    assert_int_equal(s.count->accepted, 2);
    assert_int_equal(s.count->resumed, 1);
    rig_close(&g);
    server_stop(&s);
    SSL_CTX_free(s.tls);
}

static void again(void **state) {
    (void)state;
    reuse(0);
    reuse(TLS1_2_VERSION);
}

/* An idle connection that ends, or on which somebody speaks, is gone before anybody could get it. */
static void not_again(void **state) {
    static const enum server_kind kinds[] = {SERVER_CLOSES, SERVER_CLOSES_RST, SERVER_CHATTY};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof kinds / sizeof kinds[0]; i++) {
        struct server s = {.kind = kinds[i / 2], .tls = i % 2 ? server_context(good_root, "a.test", -60) : NULL};
        struct rig g;
        server_start(&s);
        rig_open(&g, "", pin_to(s.port, "a.test", NULL), NULL);
        for (int k = 0; k < 3; k++) {
            struct upstream_link *link = get(&g, i % 2 ? URL_HTTPS : URL_HTTP, "a.test", 443);
            assert_false(link->reused);
            exchange(&g, link);
            upstream_release(link, true, 0);
            assert_true(loop_until(g.base, none_idle, &g, 1000));
            assert_int_equal(upstream_pool_open(g.pool), 0);
        }
        rig_close(&g);
        server_stop(&s);
        SSL_CTX_free(s.tls);
    }
}

/* Origins, pools and time keep connections apart. */
static void apart(void **state) {
    struct server s = {.kind = SERVER_ORIGIN};
    struct rig g;
    (void)state;
    server_start(&s);
    rig_open(&g, "", pin_to(s.port, "a.test", "b.test"), NULL);
    struct upstream_link *link = get(&g, URL_HTTP, "a.test", 443);
    exchange(&g, link);
    upstream_release(link, true, 0);
    link = get(&g, URL_HTTP, "b.test", 443);
    assert_false(link->reused);
    upstream_release(link, false, 0);
    assert_int_equal(idle_of(&g), 1);

    struct upstream_pool *first = g.pool;
    g.pool = upstream_pool_new(g.upstream);
    link = get(&g, URL_HTTP, "a.test", 443);
    assert_false(link->reused);
    /* a pool goes while a link is out */
    upstream_pool_free(g.pool);
    exchange(&g, link);
    upstream_release(link, true, 0);
    g.pool = first;

    link = get(&g, URL_HTTP, "a.test", 443);
    assert_true(link->reused);
    upstream_release(link, true, 900); /* the server's word leaves no time */
    assert_int_equal(idle_of(&g), 0);
    link = get(&g, URL_HTTP, "a.test", 443);
    upstream_release(link, true, 1400);
    assert_int_equal(idle_of(&g), 1);
    assert_true(loop_until(g.base, none_idle, &g, 1500));
    rig_close(&g);
    server_stop(&s);
}

static void cancelled(void **state) {
    struct server s = {.tls = server_context(good_root, "a.test", -60)};
    struct rig g;
    (void)state;
    server_start(&s);
    rig_open(&g, "", pin_to(s.port, "a.test", NULL), NULL);
    upstream_cancel(start(&g, URL_HTTPS, "a.test", 443, (struct upstream_options){0}));
    for (unsigned ms = 1; ms < 12; ms += 2) {
        struct upstream_attempt *a = start(&g, URL_HTTPS, "a.test", 443, (struct upstream_options){.fresh = true});
        loop_for(g.base, ms);
        if (g.calls)
            upstream_release(g.link, false, 0);
        else
            upstream_cancel(a);
    }
    struct upstream_link *link = get(&g, URL_HTTPS, "a.test", 443);
    exchange(&g, link);
    upstream_release(link, true, 0);
    upstream_cancel(start(&g, URL_HTTPS, "a.test", 443, (struct upstream_options){0})); /* one that is ready: kept */
    loop_for(g.base, 30);
    assert_int_equal(g.calls, 0);
    assert_int_equal(idle_of(&g), upstream_pool_open(g.pool));
    assert_true(idle_of(&g) >= 1);
    start(&g, URL_HTTPS, "a.test", 443, (struct upstream_options){.fresh = true});
    rig_close(&g); /* with an attempt under way */
    server_stop(&s);
    SSL_CTX_free(s.tls);
}

/* --- certificates (C15) --------------------------------------------------------------------------------------- */

static void bad_certificates(void **state) {
    struct {
        SSL_CTX *tls;
        const char *says;
    } table[] = {
        {server_context(other_root, "a.test", -60), "certificate"},
        {server_context(good_root, "b.test", -60), "mismatch"},
        {server_context(good_root, "127.0.0.1", -60), "mismatch"},
        {server_context(good_root, "a.test", -7200), "expired"},
        {server_context(good_root, "a.test", 3 * 86400), "not yet valid"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct server s = {.tls = table[i].tls};
        struct rig g;
        server_start(&s);
        rig_open(&g, "", pin_to(s.port, "a.test", NULL), NULL);
        must_fail(&g, URL_HTTPS, "a.test", 443, UPSTREAM_CERTIFICATE);
        if (!strstr(g.text, table[i].says))
            fail_msg("'%s' does not say '%s'", g.text, table[i].says);
        assert_int_equal(addr_port(&g.failure.peer), s.port);
        loop_for(g.base, 50);
        assert_true(s.count->accepted >= 1);
        assert_int_equal(s.count->requests, 0);
        assert_int_equal(upstream_pool_open(g.pool), 0);
        rig_close(&g);
        server_stop(&s);
        SSL_CTX_free(s.tls);
    }
}

static void no_tls(void **state) {
    static const enum server_kind kinds[] = {SERVER_NOISE, SERVER_HANGS_UP};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct server s = {.kind = kinds[i]};
        struct rig g;
        server_start(&s);
        rig_open(&g, "", pin_to(s.port, "a.test", NULL), NULL);
        must_fail(&g, URL_HTTPS, "a.test", 443, UPSTREAM_TLS);
        rig_close(&g);
        server_stop(&s);
    }
}

static void old_tls(void **state) {
    struct server s = {.tls = server_context(good_root, "a.test", -60), .max_version = TLS1_1_VERSION};
    struct rig g;
    (void)state;
    SSL_CTX_set_security_level(s.tls, 0);
    SSL_CTX_set_min_proto_version(s.tls, TLS1_VERSION);
    server_start(&s);
    rig_open(&g, "", pin_to(s.port, "a.test", NULL), NULL);
    must_fail(&g, URL_HTTPS, "a.test", 443, UPSTREAM_TLS);
    rig_close(&g);
    server_stop(&s);
    SSL_CTX_free(s.tls);
}

/* --- addresses (C10, M13) ----------------------------------------------------------------------------------- */

static void addresses(void **state) {
    static const char *const refused[] = {
        "127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254",
        "198.18.0.1", "224.0.0.1", "255.255.255.255", "168.63.129.16", "[::1]", "[::]", "[fe80::1]", "[fc00::1]", "[ff02::1]",
        "[::ffff:127.0.0.1]", "[::ffff:169.254.169.254]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::127.0.0.1]",
        "[fd00:ec2::254]",
    };
    struct server s = {.kind = SERVER_ORIGIN};
    struct rig g;
    (void)state;
    server_start(&s);
    rig_open(&g, "127.0.0.1 here.test\n10.1.1.1 both.test\n169.254.169.254 both.test\n::1 six.test", NULL, NULL);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        must_fail(&g, URL_HTTP, refused[i], s.port, UPSTREAM_ADDRESS);
        assert_true(upstream_reason_refusal(g.failure.reason));
    }
    must_fail(&g, URL_HTTP, "here.test", s.port, UPSTREAM_ADDRESS);
    assert_non_null(strstr(g.text, "here.test leads to 127.0.0.1, a loopback address"));
    must_fail(&g, URL_HTTP, "both.test", s.port, UPSTREAM_ADDRESS);
    must_fail(&g, URL_HTTP, "six.test", s.port, UPSTREAM_ADDRESS);
    must_fail(&g, URL_HTTP, "unknown.test", s.port, UPSTREAM_NAME_FAILED);
    must_fail(&g, URL_HTTP, "exeat.internal", s.port, UPSTREAM_SELF);
    must_fail(&g, URL_HTTP, "x.exeat.internal", s.port, UPSTREAM_SELF);
    /* a policy that names an address may mean a private one, and never more than that */
    start(&g, URL_HTTP, "127.0.0.1", s.port, (struct upstream_options){.private_address = true});
    assert_true(loop_until(g.base, called, &g, 3000) && !g.link && g.failure.reason == UPSTREAM_ADDRESS);
    start(&g, URL_HTTP, "both.test", s.port, (struct upstream_options){.private_address = true});
    assert_true(loop_until(g.base, called, &g, 3000) && !g.link && g.failure.reason == UPSTREAM_ADDRESS);
    assert_int_equal(s.count->accepted, 0);
    rig_close(&g);
    server_stop(&s);
}

/* The address that is dead, and the one that swallows everything, hold the good one up for a moment only. */
static void all_in_turn(void **state) {
    struct server s = {.kind = SERVER_ORIGIN};
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    struct rig g;
    int full = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fill[4];
    (void)state;
    server_start(&s);
    /* a listener whose queue is full: further SYNs are dropped */
    assert_int_equal(bind(full, (struct sockaddr *)&a, sizeof a) | listen(full, 0), 0);
    getsockname(full, (struct sockaddr *)&a, &n);
    for (int i = 0; i < 4; i++) {
        fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)!connect(fill[i], (struct sockaddr *)&a, sizeof a);
    }
    snprintf(pin_text[0], sizeof pin_text[0], "a.test:443:127.0.0.1:1,127.0.0.1:%u,127.0.0.1:1,127.0.0.1:%u",
             ntohs(a.sin_port), s.port);
    rig_open(&g, "", (const char *[]){pin_text[0], "dead.test:443:127.0.0.1:1,127.0.0.1:2", NULL}, NULL);
    uint64_t start_ms = clock_monotonic_ms();
    struct upstream_link *link = get(&g, URL_HTTP, "a.test", 443);
    assert_int_equal(addr_port(&link->peer), s.port);
    assert_true(clock_monotonic_ms() - start_ms < 3 * UPSTREAM_STAGGER_MS);
    exchange(&g, link);
    upstream_release(link, false, 0);
    must_fail(&g, URL_HTTP, "dead.test", 443, UPSTREAM_UNREACHABLE);
    assert_non_null(strstr(g.text, "127.0.0.1:2): Connection refused"));
    assert_int_equal(upstream_pool_open(g.pool), 0);
    rig_close(&g);
    close(full);
    for (int i = 0; i < 4; i++)
        close(fill[i]);
    server_stop(&s);
}

/* --- behind a proxy ----------------------------------------------------------------------------------------- */

static void proxied(void **state) {
    struct server origin = {.tls = server_context(good_root, "a.test", -60)}, wrong = {.tls = server_context(good_root, "b.test", -60)};
    struct server clear = {.kind = SERVER_ORIGIN};
    struct rig g;
    char proxy[128];
    (void)state;
    server_start(&origin);
    server_start(&wrong);
    server_start(&clear);
    struct server p = {.kind = SERVER_PROXY, .behind = origin.port};
    server_start(&p);
    snprintf(proxy, sizeof proxy, "http://joe:SECRET-P@127.0.0.1:%u", p.port);
    /* no name server: the proxy's word is all there is */
    rig_open(&g, "192.0.2.1 b.test\n10.0.0.1 inner.test\n192.0.2.1 half.test\n127.0.0.1 half.test", NULL, proxy);
    struct upstream_link *link = get(&g, URL_HTTPS, "a.test", 443);
    assert_true(link->proxied);
    assert_int_equal(addr_port(&link->peer), p.port);
    exchange(&g, link);
    assert_string_equal(p.count->first, "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n"
                                        "Proxy-Authorization: Basic am9lOlNFQ1JFVC1Q\r\n\r\n");
    upstream_release(link, true, 0);
    link = get(&g, URL_HTTPS, "a.test", 443);
    assert_true(link->reused && link->proxied);
    upstream_release(link, true, 0);
    assert_int_equal(p.count->accepted, 1);
    /* the certificate counts all the same, and so do the addresses that can be known */
    must_fail(&g, URL_HTTPS, "b.test", 443, UPSTREAM_CERTIFICATE);
    must_fail(&g, URL_HTTPS, "inner.test", 443, UPSTREAM_ADDRESS);
    must_fail(&g, URL_HTTPS, "half.test", 443, UPSTREAM_ADDRESS);
    must_fail(&g, URL_HTTPS, "169.254.169.254", 443, UPSTREAM_ADDRESS);
    must_fail(&g, URL_HTTPS, "[::ffff:10.0.0.1]", 443, UPSTREAM_ADDRESS);
    assert_int_equal(p.count->accepted, 2);
    rig_close(&g);
    server_stop(&p);

    struct server q = {.kind = SERVER_PROXY, .behind = clear.port};
    server_start(&q);
    snprintf(proxy, sizeof proxy, "127.0.0.1:%u", q.port);
    rig_open(&g, "", (const char *[]){"pinned.test:80:10.9.8.7:81", NULL}, proxy);
    link = get(&g, URL_HTTP, "pinned.test", 80);
    exchange(&g, link);
    upstream_release(link, false, 0);
    assert_string_equal(q.count->first, "CONNECT 10.9.8.7:81 HTTP/1.1\r\nHost: 10.9.8.7:81\r\n\r\n");
    rig_close(&g);
    server_stop(&q);
    server_stop(&origin);
    server_stop(&wrong);
    server_stop(&clear);
    SSL_CTX_free(origin.tls);
    SSL_CTX_free(wrong.tls);
}

static void proxies_that_refuse(void **state) {
    static char endless[16384];
    (void)state;
    snprintf(endless, sizeof endless, "HTTP/1.1 200 OK\r\nX: %09999d", 0);
    const struct {
        const char *status, *says;
    } table[] = {
        {"HTTP/1.1 403 Forbidden\r\n\r\n", "status 403"},
        {"HTTP/1.1 407 Who?\r\nProxy-Authenticate: Basic\r\n\r\n", "user name and a password"},
        {"HTTP/2 200 OK\r\n\r\n", "as a proxy does"},
        {"HTTP/1.1 2000 OK\r\n\r\n", "as a proxy does"},
        {"\x15\x03\x03\r\n\r\n", "as a proxy does"},
        {"HTTP/1.1 200 OK\r\n", "closed the connection"},
        {endless, "over-long head"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct server p = {.kind = SERVER_PROXY_STATUS, .status = table[i].status};
        char proxy[64];
        struct rig g;
        server_start(&p);
        snprintf(proxy, sizeof proxy, "http://joe:SECRET-P@127.0.0.1:%u", p.port);
        rig_open(&g, "192.0.2.1 a.test", NULL, proxy);
        must_fail(&g, URL_HTTPS, "a.test", 443, UPSTREAM_PROXY);
        if (!strstr(g.text, table[i].says))
            fail_msg("'%s' does not say '%s'", g.text, table[i].says);
        assert_null(strstr(g.text, "SECRET"));
        assert_int_equal(upstream_pool_open(g.pool), 0);
        rig_close(&g);
        server_stop(&p);
    }
    struct rig g;
    rig_open(&g, "192.0.2.1 a.test", NULL, "127.0.0.1:1");
    must_fail(&g, URL_HTTPS, "a.test", 443, UPSTREAM_PROXY);
    rig_close(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(again),       cmocka_unit_test(not_again),        cmocka_unit_test(apart),
        cmocka_unit_test(cancelled),   cmocka_unit_test(bad_certificates), cmocka_unit_test(no_tls),
        cmocka_unit_test(old_tls),     cmocka_unit_test(addresses),        cmocka_unit_test(all_in_turn),
        cmocka_unit_test(proxied),     cmocka_unit_test(proxies_that_refuse),
    };
    return cmocka_run_group_tests(tests, make_roots, free_roots);
}
