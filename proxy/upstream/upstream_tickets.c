/*
 * TLS towards upstreams, and the sessions that it goes on with. A session is of the sandbox that it was made for.
 *
 * A site goes on with the newest of its own. A name that has none may take one of another name's, of TLS 1.3, that a server
 * at the very same address gave (RFC 8446 4.6.1: if the certificate of that session is good for the name, and there
 * is reason to expect that the server takes it). It was verified for the certificate that both names have, the chain of it
 * too, and the server that can go on with it is the one that showed it. Who does not know it gets a whole handshake, in
 * which the name is verified as ever; who ends the connection over it is asked anew, and not again in this way. What else a
 * connection must not be shared for (upstream_shared.c), a session is not taken for either.
 */
#include <stdlib.h>
#include <time.h>

#include "ca/upstream.h"
#include "proxy/io/http2_io.h"
#include "proxy/upstream/upstream_parts.h"

struct ticket {
    TAILQ_ENTRY(ticket) entry; /* in site.tickets */
    LIST_ENTRY(ticket) shelf;  /* in pool.tickets, if `addr` is known */
    struct site *site;
    struct addr addr; /* that it was made with; len 0: behind a proxy */
    SSL_SESSION *session;
};

/* Where a connection's sessions go. It goes with its SSL. */
struct source {
    struct upstream_pool *pool;
    struct site *site; /* NULL: nowhere any more */
    struct addr addr;
};

static int source_index = -1;

static void source_free(void *parent, void *source, CRYPTO_EX_DATA *data, int index, long argl, void *argp) {
    (void)parent, (void)data, (void)index, (void)argl, (void)argp;
    free(source);
}

void tickets_forget(SSL *ssl) {
    struct source *source = ssl && source_index >= 0 ? SSL_get_ex_data(ssl, source_index) : NULL;
    if (source)
        source->site = NULL;
}

static int source_set(SSL *ssl, const struct upstream_attempt *a) {
    struct source *source = malloc(sizeof *source);
    if (!source)
        return ERR_NOMEM;
    *source = (struct source){.pool = a->pool, .site = a->site, .addr = a->peer};
    if (a->proxy)
        source->addr.len = 0;
    if (SSL_set_ex_data(ssl, source_index, source) == 1)
        return 0;
    free(source);
    return ERR_NOMEM;
}

/* ---- tickets ---- */

/* It is in no list then; its session is the caller's. */
static SSL_SESSION *ticket_free(struct ticket *t) {
    SSL_SESSION *session = t->session;
    TAILQ_REMOVE(&t->site->tickets, t, entry);
    t->site->ntickets--;
    if (t->addr.len)
        LIST_REMOVE(t, shelf);
    free(t);
    return session;
}

void tickets_free(struct site *site) {
    for (struct ticket *t; (t = TAILQ_FIRST(&site->tickets));)
        SSL_SESSION_free(ticket_free(t));
}

/* OpenSSL has a session that may be resumed. 1: it is ours now. */
static int on_session(SSL *ssl, SSL_SESSION *session) {
    const struct source *source = SSL_get_ex_data(ssl, source_index);
    struct site *site = source ? source->site : NULL;
    struct ticket *t = site ? malloc(sizeof *t) : NULL;
    if (!t)
        return 0;
    *t = (struct ticket){.site = site, .addr = source->addr, .session = session};
    if (site->ntickets == SITE_TICKETS)
        SSL_SESSION_free(ticket_free(TAILQ_LAST(&site->tickets, ticket_list)));
    TAILQ_INSERT_HEAD(&site->tickets, t, entry);
    site->ntickets++;
    if (t->addr.len)
        LIST_INSERT_HEAD(&source->pool->tickets[pool_bucket(&t->addr)], t, shelf);
    return 1;
}

static bool ticket_good(const struct ticket *t) {
    const SSL_SESSION *s = t->session;
    return SSL_SESSION_is_resumable(s) && SSL_SESSION_get_time(s) + SSL_SESSION_get_timeout(s) > time(NULL);
}

static bool ticket_once(const struct ticket *t) {
    return SSL_SESSION_get_protocol_version(t->session) >= TLS1_3_VERSION;
}

/* The site's newest session, or NULL. The caller frees it. One of TLS 1.3 is used once only (RFC 8446, C.4). */
static SSL_SESSION *ticket_own(struct site *site) {
    for (struct ticket *t; (t = TAILQ_FIRST(&site->tickets));) {
        if (!ticket_good(t)) {
            SSL_SESSION_free(ticket_free(t));
            continue;
        }
        if (ticket_once(t))
            return ticket_free(t);
        SSL_SESSION_up_ref(t->session);
        return t->session;
    }
    return NULL;
}

/* Another name's, or NULL. The caller frees it. */
static SSL_SESSION *ticket_borrow(struct upstream_pool *p, const struct site *site, const struct addr *addr) {
    unsigned looks = 0, checks = 0;
    struct ticket *t;
    if (site->own_tickets || site->origin.host.kind != URL_HOST_NAME)
        return NULL;
    LIST_FOREACH(t, &p->tickets[pool_bucket(addr)], shelf) {
        if (++looks > SAME_SERVER_LOOKS)
            break;
        if (!site_same_server(site, addr, t->site, &t->addr) || !ticket_once(t) || !ticket_good(t))
            continue;
        if (ca_upstream_session_also(t->session, url_host_slice(&site->origin.host)))
            return ticket_free(t);
        if (++checks == SAME_SERVER_CHECKS)
            break;
    }
    return NULL;
}

/* ---- TLS ---- */

/* The context of all connections, or NULL. */
static SSL_CTX *context(struct upstream *u) {
    if (source_index < 0)
        source_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, source_free);
    if (!u->tls && source_index >= 0 && ca_upstream_new(u->config.roots, u->config.extra, &u->tls, NULL) == 0)
        SSL_CTX_sess_set_new_cb(u->tls, on_session);
    return u->tls;
}

int attempt_tls(struct upstream_attempt *a, struct io *io) {
    struct slice offer = http2_alpn(a->options.http2);
    SSL_CTX *tls = context(a->pool->upstream);
    SSL *ssl = tls ? SSL_new(tls) : NULL;
    if (!ssl)
        return ERR_NOMEM;
    SSL_set_connect_state(ssl);
    SSL_SESSION *session = ticket_own(a->site);
    a->borrowed = false;
    if (!session && !a->proxy) {
        session = ticket_borrow(a->pool, a->site, &a->peer);
        a->borrowed = session != NULL;
    }
    int r = ca_upstream_prepare(ssl, url_host_slice(&a->site->origin.host), session);
    SSL_SESSION_free(session);
    if (r == 0 && SSL_set_alpn_protos(ssl, (const unsigned char *)offer.p, (unsigned)offer.n))
        r = ERR_CRYPTO;
    if (r == 0)
        r = source_set(ssl, a);
    if (r) {
        SSL_free(ssl);
        return r;
    }
    return io_tls(io, ssl);
}
