/*
 * TLS with the client. The name is taken from the ClientHello by OpenSSL's own callback, however the hello was split
 * into records and segments. The callback asks for the leaf and, when it is not at hand, suspends the handshake; the
 * answer resumes it. Nothing waits inside of OpenSSL.
 */
#include <openssl/err.h>

#include "base/clock.h"
#include "base/log.h"
#include "proxy/flow/conn.h"
#include "proxy/io/http2_io.h"
#include "proxy/flow/state.h"

static const struct io_events conn_tls_events;

size_t conn_hello_length(struct slice data) {
    unsigned char first[4];
    size_t have = 0, at = 0;
    while (have < sizeof first) {
        if (data.n - at < 5)
            return 0;
        const unsigned char *record = (const unsigned char *)data.p + at;
        size_t n = (size_t)record[3] << 8 | record[4];
        if (record[0] != SSL3_RT_HANDSHAKE || n == 0)
            return CONN_HELLO_BROKEN;
        at += 5;
        size_t take = n < sizeof first - have ? n : sizeof first - have;
        if (data.n - at < take)
            return 0;
        memcpy(first + have, data.p + at, take);
        have += take;
        if (have < sizeof first && data.n - at < n)
            return 0;
        at += n;
    }
    return 4 + ((size_t)first[1] << 16 | (size_t)first[2] << 8 | first[3]);
}

/* ---- the context ---- */

/* May HTTP/2 be spoken over this? With TLS 1.2 not by the ciphers of RFC 9113's appendix A: all but those with an
 * ephemeral key and authenticated encryption. */
static bool conn_fits_http2(const SSL *ssl) {
    const SSL_CIPHER *cipher = SSL_get_pending_cipher(ssl);
    if (SSL_version(ssl) != TLS1_2_VERSION)
        return true;
    return cipher && SSL_CIPHER_is_aead(cipher) && SSL_CIPHER_get_kx_nid(cipher) == NID_kx_ecdhe;
}

/* One of ours or nothing: a list without them is not refused, since a client that insists ends the handshake by
 * itself. */
static int conn_select_alpn(SSL *ssl, const unsigned char **out, unsigned char *n, const unsigned char *in,
                            unsigned in_n, void *arg) {
    struct slice ours = http2_alpn(conn_fits_http2(ssl));
    (void)arg;
    unsigned char *chosen;
    if (SSL_select_next_proto(&chosen, n, (const unsigned char *)ours.p, (unsigned)ours.n, in, in_n) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static int conn_on_hello(SSL *ssl, int *alert, void *arg);

int conn_tls_setup(void *arg, SSL_CTX *ctx) {
    (void)arg;
    /* A truncated request is told by its own framing, a missing close_notify by io's end: OpenSSL is not to hide it. */
    SSL_CTX_clear_options(ctx, SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_options(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_client_hello_cb(ctx, conn_on_hello, NULL);
    SSL_CTX_set_alpn_select_cb(ctx, conn_select_alpn, NULL);
    return 0;
}

/* ---- the hello ---- */

static int conn_hello_refused(struct conn *conn, const char *code, const char *why) {
    conn->hello_code = code;
    conn->hello_why = why;
    return ERR_DENIED;
}

/* Does a rule speak of this address by its literal, whatever it says about method and path? */
static bool conn_names_address(const struct conn *conn, const struct url_host *host) {
    struct facts f = {.kind = FACTS_HTTP,
                      .scheme = URL_HTTPS,
                      .host = url_host_slice(host),
                      .host_is_address = true,
                      .port = conn->port,
                      .method = SLICE("GET"),
                      .path = SLICE("/")};
    struct verdict v;
    policy_judge(conn->box->policy, &f, &v);
    return v.action == VERDICT_ALLOW ||
           (v.reason != REASON_NO_RULES && v.reason != REASON_HOST && v.reason != REASON_ADDRESS &&
            v.reason != REASON_SCHEME && v.reason != REASON_PORT);
}

/* The client named no host. By address it may be served where a rule spells that address out. */
static int conn_without_sni(struct conn *conn) {
    struct url_host host;
    struct slice dialed = conn->tunnelled ? url_host_slice(&conn->inner) : slice_str(conn->dial_text);
    bool literal = conn->tunnelled ? conn->inner.kind != URL_HOST_NAME : !conn->direct && conn->dialed.n == 0;
    if (!literal || url_host_parse(dialed, &host, NULL) || !conn_names_address(conn, &host))
        return conn_hello_refused(conn, "no-sni", "the ClientHello names no host (no SNI)");
    conn->sni = host;
    return 0;
}

/* server_name: u16 list, then u8 type 0, u16 name; one name and nothing else. */
static int conn_take_sni(struct conn *conn, SSL *ssl) {
    const unsigned char *p;
    size_t n;
    if (!SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &p, &n))
        return conn_without_sni(conn);
    if (n < 5 || ((size_t)p[0] << 8 | p[1]) != n - 2 || p[2] != 0 || ((size_t)p[3] << 8 | p[4]) != n - 5)
        return conn_hello_refused(conn, "sni-malformed", "the SNI is malformed");
    struct url_host host;
    if (url_host_parse(slice_make(p + 5, n - 5), &host, NULL))
        return conn_hello_refused(conn, "sni-malformed", "the SNI is not a host name");
    if (host.kind != URL_HOST_NAME && !conn_names_address(conn, &host))
        return conn_hello_refused(conn, "sni-address", "the SNI is an address");
    conn->sni = host;
    return 0;
}

static void conn_on_leaf(struct leaf_waiter *w, X509 *cert, int err, const char *why);

/* The first look at the hello: asks for the leaf. */
static void conn_ask_leaf(struct conn *conn, SSL *ssl) {
    int r = conn_take_sni(conn, ssl);
    if (r == 0) {
        X509 *cert = NULL;
        conn->leaf.done = conn_on_leaf;
        r = leaf_cache_get(conn->box->engine->leaves, url_host_slice(&conn->sni),
                           (int64_t)(clock_wall_ms() / 1000), &conn->leaf, &cert);
        if (r == ERR_AGAIN)
            return;
        if (r == 0)
            r = leaf_use(ssl, cert, url_host_slice(&conn->sni));
        if (r)
            conn_hello_refused(conn, "no-certificate", "no certificate could be made for this name");
    }
    conn->leaf_known = true;
    conn->leaf_err = r;
}

static int conn_on_hello(SSL *ssl, int *alert, void *arg) {
    struct conn *conn = SSL_get_app_data(ssl);
    (void)arg;
    if (!conn->leaf_known && !conn->leaf.link)
        conn_ask_leaf(conn, ssl);
    if (!conn->leaf_known)
        return SSL_CLIENT_HELLO_RETRY;
    if (conn->leaf_err == 0) {
        if (conn->state == CONN_HELLO)
            conn_enter(conn, CONN_SHAKE);
        return SSL_CLIENT_HELLO_SUCCESS;
    }
    *alert = conn->leaf_err == ERR_DENIED ? SSL_AD_UNRECOGNIZED_NAME : SSL_AD_INTERNAL_ERROR;
    return SSL_CLIENT_HELLO_ERROR;
}

static void conn_on_leaf(struct leaf_waiter *w, X509 *cert, int err, const char *why) {
    struct conn *conn = (struct conn *)((char *)w - offsetof(struct conn, leaf));
    if (conn->state != CONN_HELLO)
        return;
    if (!err)
        err = leaf_use(conn->io->ssl, cert, url_host_slice(&conn->sni));
    /* Whoever comes for a name that nobody has come for gets no ticket: of the clients of a sandbox most come once, and a
     * ticket takes longer to make than it would save. */
    if (!err && SSL_set_num_tickets(conn->io->ssl, 0) != 1)
        err = ERR_CRYPTO;
    if (err) {
        log_warn("no certificate for %.*s: %s", SLICE_ARG(url_host_slice(&conn->sni)),
                 why ? why : err_text(err));
        conn_hello_refused(conn, "no-certificate", "no certificate could be made for this name");
    }
    conn->leaf_known = true;
    conn->leaf_err = err;
    if (io_suspended(conn->io))
        io_handshake(conn->io);
}

void conn_tls_begin(struct conn *conn) {
    struct engine *engine = conn->box->engine;
    size_t n = conn_hello_length(buf_slice(&conn->in));
    if (n == CONN_HELLO_BROKEN) {
        conn_refuse(conn, "handshake-failed", "something else stands between the pieces of the ClientHello");
        return;
    }
    if (n > CONN_HELLO_MAX) {
        conn_refuse(conn, "hello-too-long", "the ClientHello is longer than 32 KiB");
        return;
    }
    SSL *ssl = SSL_new(leaf_cache_context(engine->leaves));
    conn_enter(conn, CONN_HELLO);
    if (!ssl || SSL_set_app_data(ssl, conn) != 1 || io_unread(conn->io, buf_slice(&conn->in))) {
        SSL_free(ssl);
        conn_close(conn);
        return;
    }
    buf_release(&conn->in);
    SSL_set_accept_state(ssl);
    if (io_tls(conn->io, ssl)) {
        conn_close(conn);
        return;
    }
    conn->tls = true;
    io_own(conn->io, &conn_tls_events, conn);
    io_handshake(conn->io);
}

/* ---- its end ---- */

static void conn_on_shaken(struct io *io, int err) {
    struct conn *conn = io->arg;
    engine_reap(conn->box->engine);
    if (err == 0) {
        if (http2_chosen(io))
            conn_http2_begin(conn);
        else
            conn_http1_begin(conn);
        return;
    }
    if (conn->hello_code) {
        conn_refuse(conn, conn->hello_code, conn->hello_why);
    } else if (err == ERR_TIMEOUT) {
        conn_late(conn, "handshake-timeout", "the TLS handshake did not end", TIME_LIMIT_HANDSHAKE);
    } else if (err == ERR_EOF) {
        conn_refuse(conn, "handshake-ended", "the client ended the connection during the TLS handshake");
    } else {
        char why[256];
        snprintf(why, sizeof why, "the TLS handshake failed: %s", io_error_text(io));
        conn_refuse(conn, "handshake-failed", why);
    }
}

static void conn_tls_failed(struct io *io, int err) {
    (void)err;
    conn_close(io->arg);
}

static const struct io_events conn_tls_events = {
    .ready = conn_on_shaken,
    .failed = conn_tls_failed,
};
