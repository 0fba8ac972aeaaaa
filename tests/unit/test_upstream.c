/* Connections to upstreams: which addresses, which certificates, which ones again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <netinet/tcp.h>

#include "tests/unit/upstream_rig.h"

/* --- again, and not again ----------------------------------------------------------------------------- */

static size_t idle_of(struct rig *g) {
    return upstream_pool_idle(g->pool);
}

static bool none_idle(void *arg) {
    return idle_of(arg) == 0;
}

static void good_for_its_name_alone(const struct upstream_link *link) {
    assert_true(ca_upstream_also(link->io->ssl, SLICE("a.test")));
    assert_false(ca_upstream_also(link->io->ssl, SLICE("b.test")));
    assert_false(ca_upstream_also(link->io->ssl, SLICE("x.a.test")));
    assert_false(ca_upstream_also(link->io->ssl, SLICE("127.0.0.1")));
    assert_false(ca_upstream_also(link->io->ssl, SLICE("")));
}

/* What was good is not any more when its time has passed. */
static void good_for_a_time(const struct upstream_link *link) {
    ASN1_TIME *until = X509_getm_notAfter(SSL_get0_peer_certificate(link->io->ssl));
    SSL_SESSION *session = SSL_get0_session(link->io->ssl);
    ASN1_TIME *kept = ASN1_STRING_dup(until);
    assert_true(ca_upstream_session_also(session, SLICE("a.test")));
    assert_non_null(X509_gmtime_adj(until, -1));
    assert_false(ca_upstream_also(link->io->ssl, SLICE("a.test")));
    assert_false(ca_upstream_session_also(session, SLICE("a.test")));
    assert_int_equal(ASN1_STRING_copy(until, kept), 1);
    assert_true(ca_upstream_also(link->io->ssl, SLICE("a.test")));
    ASN1_TIME_free(kept);
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
    good_for_its_name_alone(link);
    good_for_a_time(link);
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
    good_for_its_name_alone(link);
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

static bool sure(struct rig *g, unsigned idle_ms) {
    const struct timespec pause = {.tv_sec = idle_ms / 1000, .tv_nsec = idle_ms % 1000 * 1000000L};
    nanosleep(&pause, NULL);
    struct upstream_link *link =
        get_with(g, URL_HTTPS, "a.test", 443, (struct upstream_options){.once = true});
    bool reused = link->reused;
    exchange(g, link);
    upstream_release(link, true, 0);
    return reused;
}

/* Once it is settled, and from then on. One that a machine under load has kept waiting for UPSTREAM_ONCE_MS is replaced. */
static bool sure_in_a_row(struct rig *g) {
    for (int i = 0; i < 5; i++)
        if (sure(g, UPSTREAM_SETTLE_MS + 10) && sure(g, 0) && sure(g, 0))
            return true;
    return false;
}

/* What can't be repeated: on a connection that has shown that it is kept, and that the server will keep a while longer. */
static void once(void **state) {
    struct server s = {.tls = server_context(good_root, "a.test", -60)};
    struct rig g;
    (void)state;
    server_start(&s);
    rig_open(&g, "", pin_to(s.port, "a.test", NULL), NULL);
    assert_false(sure(&g, 0));
    /* a machine under load may take its time between the two */
    uint64_t began = clock_monotonic_ms();
    bool reused = sure(&g, 0);
    if (clock_monotonic_ms() - began < UPSTREAM_SETTLE_MS)
        assert_false(reused);
    assert_true(sure_in_a_row(&g));
    assert_false(sure(&g, UPSTREAM_ONCE_MS + 10));
    /* others wait longer */
    struct upstream_link *link = get(&g, URL_HTTPS, "a.test", 443);
    assert_true(link->reused);
    upstream_release(link, false, 0);
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
        struct server s = {.kind = kinds[i / 2],
                           .tls = i % 2 ? server_context(good_root, "a.test", -60) : NULL};
        struct rig g;
        server_start(&s);
        rig_open(&g, "", pin_to(s.port, "a.test", NULL), NULL);
        for (int k = 0; k < 3; k++) {
            struct upstream_link *link = get(&g, i % 2 ? URL_HTTPS : URL_HTTP, "a.test", 443);
            assert_false(link->reused);
            exchange(&g, link);
            upstream_release(link, true, 0);
            assert_true(
                loop_until(g.base, none_idle, &g, UPSTREAM_IDLE_MS * 3 / 4)); /* not by its own time */
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
    g.pool = upstream_pool_new(g.upstream, NULL);
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
    assert_true(loop_until(g.base, none_idle, &g, UPSTREAM_IDLE_MS - 100));
    rig_close(&g);
    server_stop(&s);
}

static struct upstream_link *at_once(struct rig *g, const char *name, struct upstream_options options) {
    struct upstream_origin origin = {.scheme = URL_HTTP, .port = 443};
    assert_int_equal(url_host_parse(slice_str(name), &origin.host, NULL), 0);
    return upstream_reuse(g->pool, &origin, &options);
}

/* What is idle is had without the loop, by who may have it; what is not there is not made. */
static void without_the_loop(void **state) {
    struct server s = {.kind = SERVER_ORIGIN};
    struct upstream_options any = {0}, fresh = {.fresh = true}, other = {.private_name = true};
    struct rig g;
    (void)state;
    server_start(&s);
    rig_open(&g, "", pin_to(s.port, "a.test", "b.test"), NULL);
    assert_null(at_once(&g, "a.test", any));
    assert_int_equal(upstream_pool_open(g.pool), 0);
    struct upstream_link *link = get(&g, URL_HTTP, "a.test", 443);
    assert_null(at_once(&g, "a.test", any)); /* it is out */
    for (int i = 0; i < 3; i++) {
        exchange(&g, link);
        upstream_release(link, true, 0);
        assert_null(at_once(&g, "b.test", any));
        assert_null(at_once(&g, "a.test", fresh));
        assert_null(at_once(&g, "a.test", other));
        link = at_once(&g, "a.test", any);
        assert_non_null(link);
        assert_true(link->reused);
        assert_int_equal(idle_of(&g), 0);
        assert_int_equal(upstream_pool_open(g.pool), 1);
    }
    upstream_release(link, false, 0);
    assert_int_equal(upstream_pool_open(g.pool), 0);
    rig_close(&g);
    server_stop(&s);
}

/* … and one that has ended meanwhile, which the loop has not seen, carries nothing that can't be repeated. */
static void ended_unseen(void **state) {
    struct server s = {.kind = SERVER_ORIGIN};
    struct rig g;
    (void)state;
    server_start(&s);
    rig_open(&g, "", pin_to(s.port, "a.test", NULL), NULL);
    int fd = -1;
    for (int i = 0; i < 2; i++) { /* it has shown that it is kept */
        struct upstream_link *link = get(&g, URL_HTTP, "a.test", 443);
        char byte;
        size_t got;
        exchange(&g, link);
        assert_int_equal(io_read(link->io, &byte, 1, &got), ERR_AGAIN);
        assert_true(io_at_rest(link->io));
        fd = link->io->fd;
        upstream_release(link, true, 0);
    }
    assert_int_equal(shutdown(fd, SHUT_RD), 0);
    assert_null(at_once(&g, "a.test", (struct upstream_options){.once = true}));
    rig_close(&g);
    server_stop(&s);
}

static int unsent(const struct upstream_link *link) {
    int value = 0;
    socklen_t n = sizeof value;
    assert_int_equal(getsockopt(link->io->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &value, &n), 0);
    return value;
}

/* The kernel holds less for those that come when there are many. */
static void crowd(void **state) {
    static struct upstream_link *links[IO_CROWD + 1];
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    struct rig g;
    char pin[64];
    const char *pins[] = {pin, NULL};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)state;
    assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(listener, 2 * IO_CROWD), 0);
    getsockname(listener, (struct sockaddr *)&a, &n);
    snprintf(pin, sizeof pin, "a.test:80:127.0.0.1:%u", ntohs(a.sin_port));
    rig_open(&g, "", pins, NULL);
    for (size_t i = 0; i <= IO_CROWD; i++) {
        start(&g, URL_HTTP, "a.test", 80, (struct upstream_options){.fresh = true});
        assert_true(loop_until(g.base, called, &g, LOOP_PATIENCE));
        assert_non_null(links[i] = g.link);
    }
    assert_int_not_equal(unsent(links[IO_CROWD - 1]), IO_CROWDED);
    assert_int_equal(unsent(links[IO_CROWD]), IO_CROWDED);
    for (size_t i = 0; i <= IO_CROWD; i++)
        upstream_release(links[i], false, 0);
    close(listener);
    rig_close(&g);
}

/* Beyond what is kept of one origin, the one that is idle longest makes room. */
static void as_many_as_are_kept(void **state) {
    struct server s = {.tls = NULL};
    struct rig g;
    struct upstream_link *links[UPSTREAM_IDLE_PER_ORIGIN + 2];
    (void)state;
    server_start(&s);
    rig_open(&g, "", pin_to(s.port, "a.test", NULL), NULL);
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        links[i] = get_with(&g, URL_HTTP, "a.test", 443, (struct upstream_options){.fresh = true});
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        upstream_release(links[i], true, 0);
    assert_int_equal(idle_of(&g), UPSTREAM_IDLE_PER_ORIGIN);
    assert_int_equal(upstream_pool_open(g.pool), UPSTREAM_IDLE_PER_ORIGIN);
    rig_close(&g);
    server_stop(&s);
}

/* Those that are being made count. A name of exeat's own takes up no descriptor, and its place until the loop has told of it. */
static void as_many_as_are_open(void **state) {
    static struct upstream_attempt *places[UPSTREAM_OPEN_PER_POOL - 1];
    struct server s = {.tls = NULL};
    struct upstream_options none = {0};
    struct rig g;
    (void)state;
    server_start(&s);
    rig_open(&g, "", pin_to(s.port, "a.test", NULL), NULL);
    struct upstream_link *link = get(&g, URL_HTTP, "a.test", 443);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        places[i] = start(&g, URL_HTTP, "exeat.internal", 443, none);
    assert_int_equal(upstream_pool_open(g.pool), UPSTREAM_OPEN_PER_POOL);
    start(&g, URL_HTTP, "a.test", 443, none); /* one too many */
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        upstream_cancel(places[i]);
    assert_true(loop_until(g.base, called, &g, LOOP_PATIENCE));
    assert_null(g.link);
    assert_int_equal(g.failure.reason, UPSTREAM_LIMIT);
    assert_int_equal(upstream_pool_open(g.pool), 1);

    for (size_t i = 0; i < sizeof places / sizeof *places - 1; i++)
        places[i] = start(&g, URL_HTTP, "exeat.internal", 443, none);
    assert_int_equal(upstream_pool_open(g.pool), UPSTREAM_OPEN_PER_POOL - 1);
    start(&g, URL_HTTP, "a.test", 443, none); /* the last that there is room for */
    for (size_t i = 0; i < sizeof places / sizeof *places - 1; i++)
        upstream_cancel(places[i]);
    assert_true(loop_until(g.base, called, &g, LOOP_PATIENCE));
    if (!g.link)
        fail_msg("%s", g.text);
    upstream_release(g.link, false, 0);
    upstream_release(link, false, 0);
    assert_int_equal(upstream_pool_open(g.pool), 0);
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
        struct upstream_attempt *a =
            start(&g, URL_HTTPS, "a.test", 443, (struct upstream_options){.fresh = true});
        loop_for(g.base, ms);
        if (g.calls)
            upstream_release(g.link, false, 0);
        else
            upstream_cancel(a);
    }
    struct upstream_link *link = get(&g, URL_HTTPS, "a.test", 443);
    exchange(&g, link);
    upstream_release(link, true, 0);
    upstream_cancel(
        start(&g, URL_HTTPS, "a.test", 443, (struct upstream_options){0})); /* one that is ready: kept */
    loop_for(g.base, 30);
    assert_int_equal(g.calls, 0);
    assert_int_equal(idle_of(&g), upstream_pool_open(g.pool));
    assert_true(idle_of(&g) >= 1);
    start(&g, URL_HTTPS, "a.test", 443, (struct upstream_options){.fresh = true});
    rig_close(&g); /* with an attempt under way */
    server_stop(&s);
    SSL_CTX_free(s.tls);
}

/* --- certificates (C15) ------------------------------------------------------------------------------- */

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

/* --- addresses (C10, M13) ----------------------------------------------------------------------------- */

/* … whatever the policy says of where it may lead. */
static void must_refuse(struct rig *g, const char *host, uint16_t port, struct upstream_options options) {
    start(g, URL_HTTP, host, port, options);
    assert_true(loop_until(g->base, called, g, LOOP_PATIENCE) && !g->link);
    assert_int_equal(g->failure.reason, UPSTREAM_ADDRESS);
}

static void addresses(void **state) {
    static const char *const refused[] = {
        "127.0.0.1",
        "127.1.2.3",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.169.254",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "168.63.129.16",
        "[::1]",
        "[::]",
        "[fe80::1]",
        "[fc00::1]",
        "[ff02::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[::127.0.0.1]",
        "[fd00:ec2::254]",
    };
    struct server s = {.kind = SERVER_ORIGIN};
    struct rig g;
    (void)state;
    server_start(&s);
    rig_open(&g, "127.0.0.1 here.test\n10.1.1.1 both.test\n169.254.169.254 both.test\n::1 six.test", NULL,
             NULL);
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
    must_refuse(&g, "127.0.0.1", s.port, (struct upstream_options){.private_address = true});
    must_refuse(&g, "both.test", s.port, (struct upstream_options){.private_address = true});
    /* nor does a name, or a network that reaches further than the addresses of its own kind */
    static const struct verdict_net all = {.bits = 0}, ten = {.address = {10}, .bits = 8};
    must_refuse(&g, "here.test", s.port, (struct upstream_options){.private_name = true});
    must_refuse(&g, "here.test", s.port, (struct upstream_options){.nets = &all, .nnets = 1});
    must_refuse(&g, "here.test", s.port, (struct upstream_options){.nets = &ten, .nnets = 1});
    assert_int_equal(s.count->accepted, 0);
    rig_close(&g);
    server_stop(&s);
}

/* A rule's `to` names where a name may lead; connections are not shared with requests that were told otherwise. */
static void named_networks(void **state) {
    static const struct verdict_net loop = {.address = {127}, .bits = 8};
    struct server s = {.kind = SERVER_ORIGIN};
    struct rig g;
    (void)state;
    server_start(&s);
    rig_open(&g, "127.0.0.1 here.test", NULL, NULL);
    start(&g, URL_HTTP, "here.test", s.port, (struct upstream_options){.nets = &loop, .nnets = 1});
    assert_true(loop_until(g.base, called, &g, LOOP_PATIENCE) && g.link);
    exchange(&g, g.link);
    upstream_release(g.link, true, 0);
    must_fail(&g, URL_HTTP, "here.test", s.port, UPSTREAM_ADDRESS);
    start(&g, URL_HTTP, "here.test", s.port, (struct upstream_options){.nets = &loop, .nnets = 1});
    assert_true(loop_until(g.base, called, &g, LOOP_PATIENCE) && g.link && g.link->reused);
    upstream_release(g.link, false, 0);
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
    assert_true(clock_monotonic_ms() - start_ms < UPSTREAM_ADDRESS_MS);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(again),
        cmocka_unit_test(once),
        cmocka_unit_test(not_again),
        cmocka_unit_test(without_the_loop),
        cmocka_unit_test(ended_unseen),
        cmocka_unit_test(apart),
        cmocka_unit_test(as_many_as_are_kept),
        cmocka_unit_test(as_many_as_are_open),
        cmocka_unit_test(cancelled),
        cmocka_unit_test(bad_certificates),
        cmocka_unit_test(no_tls),
        cmocka_unit_test(old_tls),
        cmocka_unit_test(addresses),
        cmocka_unit_test(named_networks),
        cmocka_unit_test(all_in_turn),
        cmocka_unit_test(crowd),
    };
    return cmocka_run_group_tests(tests, make_roots, free_roots);
}
