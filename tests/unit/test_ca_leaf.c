/* ca/leaf and ca/upstream: the cache of certificates, and handshakes between the two over memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ca/leaf.h"
#include "ca/upstream.h"
#include "tests/unit/ca_support.h"

struct state {
    char path[32];
    int fd;
    struct ca_root *root;
    struct leaf_cache *cache;
    EVP_PKEY *other;

    int asked, set_up;
    char name[300];
    char spki[CA_SPKI_MAX];
    struct slice key;
    int ask_fails;
    bool at_once;
    int64_t life;
};

struct waiting {
    struct leaf_waiter w; /* first */
    int told, err;
    X509 *cert;
    struct leaf_waiter *cancels;
};

static void on_done(struct leaf_waiter *w, X509 *cert, int err, const char *why) {
    struct waiting *me = (struct waiting *)w;
    me->told++;
    me->err = err;
    me->cert = cert;
    assert_true(err == 0 ? cert && !why : !cert && why);
    if (me->cancels)
        leaf_cancel(me->cancels);
}

static int answer(struct state *s, const char *name, int64_t now) {
    struct buf der;
    buf_init(&der, CA_DER_MAX);
    assert_int_equal(ca_mint_for(s->root, slice_str(name), s->key, now, s->life, &der, NULL), 0);
    int r = leaf_cache_put(s->cache, slice_str(name), buf_slice(&der), now);
    buf_release(&der);
    return r;
}

static int on_ask(void *arg, struct slice name, struct slice spki) {
    struct state *s = arg;
    s->asked++;
    snprintf(s->name, sizeof s->name, "%.*s", SLICE_ARG(name));
    memcpy(s->spki, spki.p, spki.n);
    s->key = slice_make(s->spki, spki.n);
    if (s->at_once)
        assert_int_equal(answer(s, s->name, NOW), 0);
    return s->ask_fails;
}

static int on_set_up(void *arg, SSL_CTX *ctx) {
    struct state *s = arg;
    assert_non_null(ctx);
    s->set_up++;
    return 0;
}

static int set_up(void **state) {
    struct state *s = calloc(1, sizeof *s);
    struct leaf_config config = {.capacity = 4, .ask = on_ask, .setup = on_set_up, .arg = s};
    s->fd = state_dir(s->path);
    s->life = 29 * DAY;
    assert_int_equal(ca_root_open(s->fd, NOW, &s->root, NULL), 0);
    assert_int_equal(leaf_cache_new(&config, &s->cache, NULL), 0);
    *state = s;
    return 0;
}

static int tear_down(void **state) {
    struct state *s = *state;
    leaf_cache_free(s->cache);
    ca_root_free(s->root);
    state_remove(s->path, s->fd);
    free(s);
    return 0;
}

static int get(struct state *s, const char *name, int64_t now, struct waiting *w, X509 **cert) {
    w->w.done = on_done;
    *cert = NULL;
    return leaf_cache_get(s->cache, slice_str(name), now, &w->w, cert);
}

static X509 *ready(struct state *s, const char *name, int64_t now) {
    struct waiting w = {.told = 0};
    X509 *cert;
    if (get(s, name, now, &w, &cert) == ERR_AGAIN) {
        assert_int_equal(answer(s, name, now), 0);
        assert_int_equal(w.told, 1);
        cert = w.cert;
    }
    assert_non_null(cert);
    return cert;
}

static void test_absent_pending_ready(void **state) {
    struct state *s = *state;
    struct waiting a = {.told = 0}, b = {.told = 0}, c = {.told = 0};
    X509 *cert;
    assert_int_equal(get(s, "a.test", NOW, &a, &cert), ERR_AGAIN);
    assert_int_equal(get(s, "a.test", NOW, &b, &cert), ERR_AGAIN);
    assert_int_equal(s->asked, 1);
    assert_string_equal(s->name, "a.test");
    assert_true(slice_eq(s->key, leaf_cache_spki(s->cache)));
    assert_int_equal(answer(s, "a.test", NOW), 0);
    assert_int_equal(a.told + b.told, 2);
    assert_ptr_equal(a.cert, b.cert);
    assert_int_equal(get(s, "a.test", NOW, &c, &cert), 0);
    assert_ptr_equal(cert, a.cert);
    assert_int_equal(c.told, 0);
    assert_int_equal(s->asked, 1);
    assert_int_equal(s->set_up, 1);
    /* what nobody asked for */
    assert_int_equal(answer(s, "a.test", NOW), ERR_NOTFOUND);
    assert_int_equal(answer(s, "b.test", NOW), ERR_NOTFOUND);
}

static void test_at_once(void **state) {
    struct state *s = *state;
    struct waiting w = {.told = 0};
    X509 *cert;
    s->at_once = true;
    assert_int_equal(get(s, "a.test", NOW, &w, &cert), ERR_AGAIN);
    assert_int_equal(w.told, 1);
    assert_int_equal(get(s, "a.test", NOW, &w, &cert), 0);
}

static void test_failures(void **state) {
    struct state *s = *state;
    struct waiting a = {.told = 0}, b = {.told = 0};
    X509 *cert;
    struct leaf_stats st;
    s->ask_fails = ERR_EOF;
    assert_int_equal(get(s, "a.test", NOW, &a, &cert), ERR_EOF);
    assert_int_equal(a.told, 0);
    s->ask_fails = 0;
    assert_int_equal(get(s, "a.test", NOW, &a, &cert), ERR_AGAIN);
    leaf_cache_fail(s->cache, SLICE("a.test"), ERR_CRYPTO, "no");
    assert_int_equal(a.told, 1);
    assert_int_equal(a.err, ERR_CRYPTO);
    leaf_cache_fail(s->cache, SLICE("a.test"), ERR_CRYPTO, "no");
    assert_int_equal(a.told, 1);
    /* a certificate that is none, and one for another key */
    assert_int_equal(get(s, "a.test", NOW, &b, &cert), ERR_AGAIN);
    assert_int_equal(leaf_cache_put(s->cache, SLICE("a.test"), SLICE("0\003\002\001\001"), NOW), ERR_CRYPTO);
    assert_int_equal(b.told, 1);
    assert_int_equal(b.err, ERR_CRYPTO);
    assert_int_equal(get(s, "a.test", NOW, &b, &cert), ERR_AGAIN);
    unsigned char *bytes;
    EVP_PKEY *other = new_key(&bytes, &s->key);
    assert_int_equal(answer(s, "a.test", NOW), ERR_CRYPTO);
    assert_int_equal(b.told, 2);
    EVP_PKEY_free(other);
    OPENSSL_free(bytes);
    leaf_cache_stats(s->cache, &st);
    assert_int_equal(st.names, 0);
    assert_int_equal(st.pending, 0);
}

static void test_cancel(void **state) {
    struct state *s = *state;
    struct waiting a = {.told = 0}, b = {.told = 0}, c = {.told = 0};
    X509 *cert;
    get(s, "a.test", NOW, &a, &cert);
    get(s, "a.test", NOW, &b, &cert);
    get(s, "a.test", NOW, &c, &cert);
    leaf_cancel(&b.w);
    leaf_cancel(&b.w);
    /* whoever is told first cancels the other */
    a.cancels = &c.w;
    c.cancels = &a.w;
    assert_int_equal(answer(s, "a.test", NOW), 0);
    assert_int_equal(a.told + c.told, 1);
    assert_int_equal(b.told, 0);
    /* a cache that goes away tells nobody */
    get(s, "b.test", NOW, &b, &cert);
    leaf_cache_free(s->cache);
    s->cache = NULL;
    assert_int_equal(b.told, 0);
    assert_null(b.w.link);
}

static void test_bounded(void **state) {
    struct state *s = *state;
    struct leaf_stats st;
    char name[32];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "n%d.test", i);
        ready(s, name, NOW);
    }
    ready(s, "n0.test", NOW); /* now n1 is the one not used for longest */
    ready(s, "n4.test", NOW);
    leaf_cache_stats(s->cache, &st);
    assert_int_equal(st.names, 4);
    assert_int_equal(st.evicted, 1);
    int before = s->asked;
    ready(s, "n0.test", NOW);
    assert_int_equal(s->asked, before);
    ready(s, "n1.test", NOW);
    assert_int_equal(s->asked, before + 1);
}

static void test_too_many_pending(void **state) {
    struct state *s = *state;
    struct waiting w[5] = {{.told = 0}};
    X509 *cert;
    char name[32];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "n%d.test", i);
        assert_int_equal(get(s, name, NOW, &w[i], &cert), ERR_AGAIN);
    }
    assert_int_equal(get(s, "n4.test", NOW, &w[4], &cert), ERR_LIMIT);
    assert_int_equal(answer(s, "n0.test", NOW), 0);
    assert_int_equal(get(s, "n4.test", NOW, &w[4], &cert), ERR_AGAIN);
    assert_int_equal(s->asked, 5);
    for (int i = 0; i < 5; i++)
        leaf_cancel(&w[i].w);
}

/* Asked for anew before the end, served until then, never behind it. */
static void test_expiry(void **state) {
    struct state *s = *state;
    struct waiting w = {.told = 0};
    X509 *cert;
    s->life = 3000;
    X509 *first = ready(s, "a.test", NOW);
    assert_ptr_equal(ready(s, "a.test", NOW + 1900), first);
    assert_int_equal(s->asked, 1);
    assert_int_equal(get(s, "a.test", NOW + 2100, &w, &cert), 0);
    assert_ptr_equal(cert, first);
    assert_int_equal(s->asked, 2);
    assert_int_equal(get(s, "a.test", NOW + 2101, &w, &cert), 0); /* one question at a time */
    assert_int_equal(s->asked, 2);
    leaf_cache_fail(s->cache, SLICE("a.test"), ERR_CRYPTO, "no");
    assert_int_equal(get(s, "a.test", NOW + 2102, &w, &cert), 0);
    assert_int_equal(s->asked, 3);
    assert_int_equal(answer(s, "a.test", NOW + 2103), 0);
    assert_int_equal(get(s, "a.test", NOW + 2999, &w, &cert), 0);
    assert_int_equal(s->asked, 3);
    /* behind the end without an answer */
    assert_int_equal(get(s, "a.test", NOW + 2103 + 2990, &w, &cert), ERR_AGAIN);
    assert_int_equal(s->asked, 4);
    assert_int_equal(answer(s, "a.test", NOW + 5100), 0);
    assert_int_equal(w.told, 1);
    /* an answer that is expired already */
    s->life = 5;
    assert_int_equal(get(s, "b.test", NOW, &w, &cert), ERR_AGAIN);
    struct buf der;
    buf_init(&der, CA_DER_MAX);
    assert_int_equal(ca_mint_for(s->root, SLICE("b.test"), s->key, NOW, 5, &der, NULL), 0);
    assert_int_equal(leaf_cache_put(s->cache, SLICE("b.test"), buf_slice(&der), NOW + 6), ERR_CRYPTO);
    buf_release(&der);
    assert_int_equal(w.told, 2);
}

/* --- handshakes --------------------------------------------------------------------------------------- */

static SSL_SESSION *kept;

static int keep_session(SSL *ssl, SSL_SESSION *session) {
    (void)ssl;
    SSL_SESSION_free(kept);
    kept = session;
    return 1;
}

/* What a server does: a hello comes, and the handshake goes on as the name in `arg`. */
struct server {
    X509 *cert;
    const char *name;
};

static int on_hello(SSL *ssl, int *alert, void *arg) {
    const struct server *server = SSL_get_app_data(ssl);
    (void)alert, (void)arg;
    assert_int_equal(leaf_use(ssl, server->cert, slice_str(server->name)), 0);
    return SSL_CLIENT_HELLO_SUCCESS;
}

/* Client and server talk until both are done. 1 when the handshake succeeds; *reason is why the client
 * refused. */
static int shake(SSL_CTX *server_ctx, struct server *as, SSL_CTX *client_ctx, const char *host,
                 SSL_SESSION *session, int version, bool *resumed, const char **reason) {
    SSL *server = SSL_new(server_ctx), *client = SSL_new(client_ctx);
    BIO *a, *b;
    char byte;
    assert_int_equal(BIO_new_bio_pair(&a, 0, &b, 0), 1);
    SSL_set_bio(server, a, a);
    SSL_set_bio(client, b, b);
    SSL_set_app_data(server, as);
    SSL_set_accept_state(server);
    SSL_set_connect_state(client);
    SSL_set_max_proto_version(client, version);
    assert_int_equal(ca_upstream_prepare(client, slice_str(host), session), 0);
    /* the CA's own clock is not the machine's */
    X509_VERIFY_PARAM_set_time(SSL_get0_param(client), NOW + 60);
    int c = -1, d = -1;
    for (int i = 0; i < 20 && (c != 1 || d != 1); i++) {
        c = SSL_do_handshake(client);
        d = SSL_do_handshake(server);
    }
    *reason = ca_upstream_reason(client);
    *resumed = SSL_session_reused(client);
    if (c == 1 && d == 1) {
        assert_int_equal(SSL_write(server, "x", 1), 1);
        assert_int_equal(SSL_read(client, &byte, 1), 1); /* takes the ticket of TLS 1.3 in */
        SSL_shutdown(client);
        SSL_shutdown(server);
    }
    SSL_free(server);
    SSL_free(client);
    return c == 1 && d == 1;
}

static void test_handshakes(void **state) {
    struct state *s = *state;
    const char *reason;
    bool resumed;
    SSL_CTX *client = NULL, *stranger = NULL, *ctx = leaf_cache_context(s->cache);
    SSL_CTX_set_client_hello_cb(ctx, on_hello, NULL);
    assert_int_equal(ca_upstream_new(SLICE_NONE, ca_root_pem(s->root), &client, NULL), 0);
    assert_int_equal(ca_upstream_new(SLICE_NONE, SLICE_NONE, &stranger, NULL), 0);
    SSL_CTX_sess_set_new_cb(client, keep_session);
    struct server name = {ready(s, "a.test", NOW), "a.test"}, v4 = {ready(s, "192.0.2.7", NOW), "192.0.2.7"},
                  v6 = {ready(s, "[2001:db8::1]", NOW), "[2001:db8::1]"};
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (size_t i = 0; i < 2; i++) {
        assert_true(shake(ctx, &name, client, "a.test", NULL, versions[i], &resumed, &reason));
        assert_false(resumed);
        assert_null(reason);
        assert_non_null(kept);
        SSL_SESSION *session = kept;
        kept = NULL;
        assert_true(shake(ctx, &name, client, "a.test", session, versions[i], &resumed, &reason));
        assert_true(resumed);
        /* a ticket is good for its own name alone */
        assert_true(shake(ctx, &v4, client, "192.0.2.7", session, versions[i], &resumed, &reason));
        assert_false(resumed);
        SSL_SESSION_free(session);
        assert_true(shake(ctx, &v6, client, "[2001:db8::1]", NULL, versions[i], &resumed, &reason));
        assert_false(shake(ctx, &name, client, "b.test", NULL, versions[i], &resumed, &reason));
        assert_string_equal(reason, "hostname mismatch");
        assert_false(shake(ctx, &name, client, "192.0.2.7", NULL, versions[i], &resumed, &reason));
        assert_string_equal(reason, "IP address mismatch");
        assert_false(shake(ctx, &v4, client, "192.0.2.8", NULL, versions[i], &resumed, &reason));
        assert_false(shake(ctx, &name, stranger, "a.test", NULL, versions[i], &resumed, &reason));
        assert_non_null(reason);
    }
    assert_false(shake(ctx, &name, client, "a.test", NULL, TLS1_1_VERSION, &resumed, &reason));
    SSL_SESSION_free(kept);
    kept = NULL;
    SSL_CTX_free(client);
    SSL_CTX_free(stranger);
}

static void test_upstream_hosts(void **state) {
    (void)state;
    SSL_CTX *ctx = NULL;
    assert_int_equal(ca_upstream_new(SLICE_NONE, SLICE_NONE, &ctx, NULL), 0);
    assert_int_equal(SSL_CTX_get_verify_mode(ctx), SSL_VERIFY_PEER);
    SSL *ssl = SSL_new(ctx);
    assert_int_equal(ca_upstream_prepare(ssl, SLICE(""), NULL), ERR_PARSE);
    assert_int_equal(ca_upstream_prepare(ssl, SLICE("*.test"), NULL), ERR_PARSE);
    assert_int_equal(ca_upstream_prepare(ssl, slice_make("a.test\0b", 8), NULL), ERR_PARSE);
    assert_int_equal(ca_upstream_prepare(ssl, SLICE("a.test"), NULL), 0);
    assert_string_equal(SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name), "a.test");
    SSL_free(ssl);
    ssl = SSL_new(ctx);
    assert_int_equal(ca_upstream_prepare(ssl, SLICE("[::1]"), NULL), 0);
    assert_null(SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name));
    SSL_free(ssl);
    SSL_CTX_free(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_absent_pending_ready, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failures, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cancel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_too_many_pending, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_expiry, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_handshakes, set_up, tear_down),
        cmocka_unit_test(test_upstream_hosts),
    };
    return cmocka_run_group_tests_name("ca_leaf", tests, NULL, NULL);
}
