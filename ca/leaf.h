/*
 * The worker's side of certificates: one key and one server context for the whole process, and a bounded cache
 * from names to certificates for that key.
 *
 * A leaf is wanted before a handshake starts (the name is known from the ClientHello), so nothing blocks
 * inside of OpenSSL:
 *
 *     absent  --leaf_cache_get-->  pending  --leaf_cache_put-->  ready  --old-->  ready, asked anew
 *        ^                            |                            |
 *        +------leaf_cache_fail-------+           expired, evicted +--> absent
 *
 * How the keeper is asked is the caller's matter: `ask` starts it, leaf_cache_put or leaf_cache_fail brings
 * the answer, later or at once (from within `ask`). One question is under way for a name, however many wait
 * for it.
 *
 * The context has the key, and takes TLS 1.2 or better; leaf_use gives a handshake that has begun in it the
 * certificate of its name, and binds tickets for resumption to that name. So a name costs its certificate
 * and no more. Nothing is loaded from a file, so all of this works after confinement.
 *
 * Not thread-safe. Callbacks run inside of leaf_cache_put and leaf_cache_fail; they may call leaf_cache_get
 * and leaf_cancel.
 */
#ifndef CA_LEAF_H
#define CA_LEAF_H

#include <openssl/ssl.h>

#include "base/err.h"
#include "base/slice.h"

#define LEAF_CACHE_DEFAULT 4096

struct leaf_cache;

/* Embedded in whatever waits (a connection), which cancels it before it goes away; zero-initialised. `done`
 * is called once, unless leaf_cancel was called first: err 0 with `cert`, which is good until `done` returns
 * (leaf_use takes a reference of its own); else `cert` is NULL and `why` says why. */
struct leaf_waiter {
    void (*done)(struct leaf_waiter *w, X509 *cert, int err, const char *why);
    struct leaf_waiter *next, **link; /* the cache's; link is NULL when nothing is awaited */
};

struct leaf_config {
    size_t capacity; /* names kept at most; 0: LEAF_CACHE_DEFAULT */

    /* Starts asking for a certificate for `name` with the public key `spki`, both borrowed for the call. A
     * failure is the answer. */
    int (*ask)(void *arg, struct slice name, struct slice spki);

    /* May add to the context before its first use (ALPN, the callback on hellos, options). NULL: nothing to
     * add. */
    int (*setup)(void *arg, SSL_CTX *ctx);

    void *arg;
};

/* An empty cache. The process's leaf key and the context are made when they are first asked for, by whichever call; that needs no file.
 * 0, ERR_NOMEM or ERR_IO. */
int leaf_cache_new(const struct leaf_config *config, struct leaf_cache **out, struct errmsg *msg);

/* Waiters are forgotten, not called. No handshake of the context may be under way. */
void leaf_cache_free(struct leaf_cache *cache);

/* The context of every handshake, for SSL_new. It has no certificate: see leaf_use. Borrowed; NULL if it can't be made. */
SSL_CTX *leaf_cache_context(struct leaf_cache *cache);

/*
 * The certificate for `name` (canonical, as for ca_mint) at `now`, seconds since 1970.
 * 0: *cert is ready, borrowed until the next call into the cache.
 * ERR_AGAIN: asked for; `w` is told. `w` must not be waiting already.
 * Else an error at once, `w` is not told: ERR_LIMIT (too many names are pending), ERR_NOMEM, ERR_CRYPTO (there is no key), ERR_PARSE
 * (no name), or what `ask` returned.
 */
int leaf_cache_get(struct leaf_cache *cache, struct slice name, int64_t now, struct leaf_waiter *w,
                   X509 **cert);

/*
 * A handshake in the cache's context goes on as `name`: it gets `cert`, which the cache has for that name. To
 * be called before the hello is answered (SSL_CTX_set_client_hello_cb, and while it is suspended there).
 * Returns 0 or ERR_CRYPTO.
 */
int leaf_use(SSL *ssl, X509 *cert, struct slice name);

/* `w` is not told any more. Nothing happens if it does not wait. */
void leaf_cancel(struct leaf_waiter *w);

/*
 * The keeper's answer for `name`: a certificate. It is checked against our key. An answer that nobody asked
 * for is ERR_NOTFOUND, and ignored. Returns 0, or an error that the waiters were told too.
 */
int leaf_cache_put(struct leaf_cache *cache, struct slice name, struct slice der, int64_t now);

/* The keeper's answer for `name`: none. A certificate that is still good stays in use. */
void leaf_cache_fail(struct leaf_cache *cache, struct slice name, int err, const char *why);

/* The public key in DER; borrowed; none if it can't be made. */
struct slice leaf_cache_spki(struct leaf_cache *cache);

struct leaf_stats {
    size_t names, pending;
    uint64_t hits, asked, evicted, failed;
};
void leaf_cache_stats(const struct leaf_cache *cache, struct leaf_stats *out);

#endif
