/*
 * Sites: what a sandbox's pool knows of one origin, the TLS sessions to be resumed among it. A session is of the sandbox
 * and the origin that it was made with, and of no other.
 */
#include <stdlib.h>
#include <time.h>

#include "base/hash.h"
#include "ca/upstream.h"
#include "proxy/io/http2_io.h"
#include "proxy/upstream/upstream_parts.h"

#define SITES_MAX 1024 /* kept for their sessions when nobody uses them */

/* --- sessions ----------------------------------------------------------------------------------------- */

/* OpenSSL has a session that may be resumed. 1: it is ours now. */
static int on_session(SSL *ssl, SSL_SESSION *session) {
    struct site *site = SSL_get_app_data(ssl);
    if (!site)
        return 0;
    if (site->nsessions == SITE_SESSIONS) {
        SSL_SESSION_free(site->sessions[0]);
        memmove(site->sessions, site->sessions + 1, sizeof site->sessions - sizeof site->sessions[0]);
        site->nsessions--;
    }
    site->sessions[site->nsessions++] = session;
    return 1;
}

/* The newest session, or NULL. The caller frees it. One of TLS 1.3 is used once only (RFC 8446, C.4). */
static SSL_SESSION *site_session(struct site *site) {
    while (site->nsessions) {
        SSL_SESSION *s = site->sessions[--site->nsessions];
        bool good =
            SSL_SESSION_is_resumable(s) && SSL_SESSION_get_time(s) + SSL_SESSION_get_timeout(s) > time(NULL);
        if (good && SSL_SESSION_get_protocol_version(s) < TLS1_3_VERSION) {
            SSL_SESSION_up_ref(s);
            site->nsessions++;
        }
        if (good)
            return s;
        SSL_SESSION_free(s);
    }
    return NULL;
}

/* The context of all connections, or NULL. */
static SSL_CTX *context(struct upstream *u) {
    if (!u->tls && ca_upstream_new(u->config.roots, u->config.extra, &u->tls, NULL) == 0)
        SSL_CTX_sess_set_new_cb(u->tls, on_session);
    return u->tls;
}

int site_tls(struct site *site, struct io *io, struct upstream *u, bool http2) {
    struct slice offer = http2_alpn(http2);
    SSL_CTX *tls = context(u);
    SSL *ssl = tls ? SSL_new(tls) : NULL;
    if (!ssl)
        return ERR_NOMEM;
    SSL_set_connect_state(ssl);
    SSL_SESSION *session = site_session(site);
    int r = ca_upstream_prepare(ssl, url_host_slice(&site->origin.host), session);
    SSL_SESSION_free(session);
    if (r == 0 && SSL_set_alpn_protos(ssl, (const unsigned char *)offer.p, (unsigned)offer.n))
        r = ERR_CRYPTO;
    if (r) {
        SSL_free(ssl);
        return r;
    }
    SSL_set_app_data(ssl, site);
    return io_tls(io, ssl);
}

/* --- sites -------------------------------------------------------------------------------------------- */

static unsigned bucket_of(const struct upstream_origin *o) {
    uint64_t seed = HASH_SEED ^ o->port ^ (uint64_t)o->scheme << 16;
    return (unsigned)(hash_bytes(seed, url_host_slice(&o->host)) % POOL_BUCKETS);
}

static bool same_origin(const struct upstream_origin *a, const struct upstream_origin *b) {
    return a->scheme == b->scheme && a->port == b->port &&
           slice_eq(url_host_slice(&a->host), url_host_slice(&b->host));
}

bool site_same_reach(const struct upstream_options *a, const struct upstream_options *b) {
    return a->unread == b->unread && a->private_address == b->private_address &&
           a->private_name == b->private_name && a->nets == b->nets && a->nnets == b->nnets;
}

struct site *site_get(struct upstream_pool *p, const struct upstream_origin *origin,
                      const struct upstream_options *options) {
    unsigned bucket = bucket_of(origin);
    struct site *site;
    LIST_FOREACH(site, &p->buckets[bucket], bucket)
    if (site_same_reach(&site->options, options) && same_origin(&site->origin, origin))
        break;
    if (site) {
        TAILQ_REMOVE(&p->sites, site, age);
    } else {
        site = calloc(1, sizeof *site);
        if (!site)
            return NULL;
        site->origin = *origin;
        site->options = *options;
        TAILQ_INIT(&site->idle);
        TAILQ_INIT(&site->http2);
        LIST_INSERT_HEAD(&p->buckets[bucket], site, bucket);
        p->nsites++;
    }
    TAILQ_INSERT_TAIL(&p->sites, site, age);
    site->users++;
    return site;
}

void site_free(struct upstream_pool *p, struct site *site) {
    shared_leave(site);
    LIST_REMOVE(site, bucket);
    TAILQ_REMOVE(&p->sites, site, age);
    p->nsites--;
    while (site->nsessions)
        SSL_SESSION_free(site->sessions[--site->nsessions]);
    free(site);
}

void site_put(struct upstream_pool *p, struct site *site) {
    struct site *next;
    site->users--;
    for (site = TAILQ_FIRST(&p->sites); site && p->nsites > SITES_MAX; site = next) {
        next = TAILQ_NEXT(site, age);
        if (site->users == 0 && site->nidle == 0)
            site_free(p, site);
    }
}
