#include "ca/leaf.h"

#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <time.h>

#include "ca/root.h"

/* One name. It is in the table from the first question on; in the order of use only while it has a context.
 * */
struct leaf {
    struct leaf *chain;         /* next in the bucket */
    struct leaf *newer, *older; /* order of use */
    uint64_t hash;
    SSL_CTX *ctx;       /* NULL: pending */
    int64_t good_until; /* of ctx: from then on it is not handed out */
    int64_t refresh_at; /* of ctx: from then on the keeper is asked for another one */
    bool asked;         /* a question is under way; set by ask_for, cleared by its answer */
    struct leaf_waiter *waiters;
    size_t n;
    char name[];
};

struct leaf_cache {
    struct leaf_config config;
    EVP_PKEY *key;
    unsigned char *spki;
    int spki_n;
    uint64_t seed;
    size_t mask; /* buckets - 1 */
    struct leaf **buckets;
    struct leaf *newest, *oldest;
    struct leaf_waiter *told; /* waiters whose answer is being handed out */
    struct leaf_stats stats;
};

static uint64_t hash_name(const struct leaf_cache *cache, struct slice name) {
    uint64_t h = cache->seed;
    for (size_t i = 0; i < name.n; i++)
        h = (h ^ (unsigned char)name.p[i]) * 0x100000001b3u;
    return h ^ h >> 32;
}

static struct leaf *find(struct leaf_cache *cache, struct slice name) {
    uint64_t h = hash_name(cache, name);
    for (struct leaf *l = cache->buckets[h & cache->mask]; l; l = l->chain)
        if (l->hash == h && slice_eq(slice_make(l->name, l->n), name))
            return l;
    return NULL;
}

/* --- order of use --------------------------------------------------------------------------------------- */

static void order_remove(struct leaf_cache *cache, struct leaf *l) {
    *(l->newer ? &l->newer->older : &cache->newest) = l->older;
    *(l->older ? &l->older->newer : &cache->oldest) = l->newer;
    l->newer = l->older = NULL;
}

static void order_front(struct leaf_cache *cache, struct leaf *l) {
    l->newer = NULL;
    l->older = cache->newest;
    *(l->older ? &l->older->newer : &cache->oldest) = l;
    cache->newest = l;
}

/* Takes the context away, so that the name counts as pending (if asked) or is about to be removed. */
static void drop_ctx(struct leaf_cache *cache, struct leaf *l) {
    if (!l->ctx)
        return;
    order_remove(cache, l);
    SSL_CTX_free(l->ctx);
    l->ctx = NULL;
    cache->stats.pending++;
}

static void remove_leaf(struct leaf_cache *cache, struct leaf *l) {
    struct leaf **p = &cache->buckets[l->hash & cache->mask];
    drop_ctx(cache, l);
    while (*p != l)
        p = &(*p)->chain;
    *p = l->chain;
    cache->stats.names--;
    cache->stats.pending--;
    free(l);
}

static struct leaf *add_leaf(struct leaf_cache *cache, struct slice name) {
    if (cache->stats.names >= cache->config.capacity) {
        if (!cache->oldest)
            return NULL;
        cache->stats.evicted++;
        remove_leaf(cache, cache->oldest);
    }
    struct leaf *l = calloc(1, sizeof *l + name.n);
    if (!l)
        return NULL;
    memcpy(l->name, name.p, name.n);
    l->n = name.n;
    l->hash = hash_name(cache, name);
    l->chain = cache->buckets[l->hash & cache->mask];
    cache->buckets[l->hash & cache->mask] = l;
    cache->stats.names++;
    cache->stats.pending++;
    return l;
}

/* --- waiting -------------------------------------------------------------------------------------------- */

static void wait_on(struct leaf_waiter **head, struct leaf_waiter *w) {
    w->next = *head;
    w->link = head;
    if (w->next)
        w->next->link = &w->next;
    *head = w;
}

void leaf_cancel(struct leaf_waiter *w) {
    if (!w->link)
        return;
    *w->link = w->next;
    if (w->next)
        w->next->link = w->link;
    w->next = NULL;
    w->link = NULL;
}

/* Hands one answer to all in `*waiters`. They are moved to a list of the cache's own first: a callback may do
 * what it likes with other waiters, and the leaf may be gone after it. */
static void tell(struct leaf_cache *cache, struct leaf_waiter **waiters, SSL_CTX *ctx, int err,
                 const char *why) {
    struct leaf_waiter *w;
    while ((w = *waiters)) {
        leaf_cancel(w);
        wait_on(&cache->told, w);
    }
    if (ctx)
        SSL_CTX_up_ref(ctx);
    while ((w = cache->told)) {
        leaf_cancel(w);
        w->done(w, ctx, err, why);
    }
    SSL_CTX_free(ctx);
}

/* --- contexts ------------------------------------------------------------------------------------------- */

static SSL_CTX *make_ctx(struct leaf_cache *cache, X509 *cert) {
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    if (!ctx)
        return NULL;
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    /* resumption by tickets alone: nothing is kept for a client here */
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ctx, 1);
    /* the client's word is not asked for: no certificate of its own could mean anything here */
    SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
    if (SSL_CTX_use_certificate(ctx, cert) == 1 && SSL_CTX_use_PrivateKey(ctx, cache->key) == 1 &&
        (!cache->config.setup || cache->config.setup(cache->config.arg, ctx) == 0))
        return ctx;
    SSL_CTX_free(ctx);
    return NULL;
}

static int64_t end_of(const X509 *cert) {
    struct tm tm;
    return ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm) ? (int64_t)timegm(&tm) : 0;
}

/* Reads the keeper's answer into a context for `l`. 0 or ERR_CRYPTO; then `l` is as it was. */
static int take_cert(struct leaf_cache *cache, struct leaf *l, struct slice der, int64_t now) {
    const unsigned char *p = (const unsigned char *)der.p;
    SSL_CTX *ctx = NULL;
    X509 *cert = der.n && der.n <= CA_DER_MAX ? d2i_X509(NULL, &p, (long)der.n) : NULL;
    int64_t end = cert && p == (const unsigned char *)der.p + der.n ? end_of(cert) : 0;
    if (end > now)
        ctx = make_ctx(cache, cert);
    X509_free(cert);
    ERR_clear_error();
    if (!ctx)
        return ERR_CRYPTO;
    drop_ctx(cache, l);
    l->ctx = ctx;
    cache->stats.pending--;
    order_front(cache, l);
    /* a handshake that begins just before the end must not finish behind it */
    int64_t margin = (end - now) / 10;
    l->good_until = end - (margin > 60 ? 60 : margin);
    l->refresh_at = now + (end - now) / 3 * 2;
    return 0;
}

/* --- asking --------------------------------------------------------------------------------------------- */

static int ask_for(struct leaf_cache *cache, struct leaf *l) {
    l->asked = true;
    cache->stats.asked++;
    return cache->config.ask(cache->config.arg, slice_make(l->name, l->n),
                             slice_make(cache->spki, (size_t)cache->spki_n));
}

/* A context that gets old: asked for anew, while the old one serves on. */
static void refresh(struct leaf_cache *cache, struct leaf *l, struct slice name) {
    if (ask_for(cache, l) && (l = find(cache, name)))
        l->asked = false;
}

int leaf_cache_get(struct leaf_cache *cache, struct slice name, int64_t now, struct leaf_waiter *w,
                   SSL_CTX **ctx) {
    if (name.n == 0 || name.n > UINT16_MAX)
        return ERR_PARSE;
    struct leaf *l = find(cache, name);
    if (l && l->ctx && now >= l->good_until)
        drop_ctx(cache, l);
    if (l && l->ctx) {
        cache->stats.hits++;
        order_remove(cache, l);
        order_front(cache, l);
        if (now >= l->refresh_at && !l->asked)
            refresh(cache, l, name);
        /* the answer may have come at once, or room been made for another name */
        l = find(cache, name);
        *ctx = l ? l->ctx : NULL;
        return *ctx ? 0 : ERR_INTERNAL;
    }
    if (!l && !(l = add_leaf(cache, name)))
        return cache->oldest ? ERR_NOMEM : ERR_LIMIT;
    wait_on(&l->waiters, w);
    int r = l->asked ? 0 : ask_for(cache, l);
    if (r == 0)
        return ERR_AGAIN;
    l = find(cache, name);
    leaf_cancel(w);
    if (l && !l->ctx)
        leaf_cache_fail(cache, name, r, err_text(r));
    return r;
}

int leaf_cache_put(struct leaf_cache *cache, struct slice name, struct slice der, int64_t now) {
    struct leaf *l = find(cache, name);
    if (!l || !l->asked)
        return ERR_NOTFOUND;
    int r = take_cert(cache, l, der, now);
    if (r) {
        leaf_cache_fail(cache, name, r, "the certificate that was made does not fit");
        return r;
    }
    l->asked = false;
    tell(cache, &l->waiters, l->ctx, 0, NULL);
    return 0;
}

void leaf_cache_fail(struct leaf_cache *cache, struct slice name, int err, const char *why) {
    struct leaf *l = find(cache, name);
    if (!l || !l->asked)
        return;
    cache->stats.failed++;
    l->asked = false;
    if (l->ctx)
        return; /* nobody waits for what is there */
    struct leaf_waiter *waiters = l->waiters;
    if (waiters)
        waiters->link = &waiters;
    remove_leaf(cache, l);
    tell(cache, &waiters, NULL, err, why);
}

/* --- life ----------------------------------------------------------------------------------------------- */

int leaf_cache_new(const struct leaf_config *config, struct leaf_cache **out, struct errmsg *msg) {
    struct leaf_cache *cache = calloc(1, sizeof *cache);
    size_t buckets = 16;
    *out = NULL;
    if (!cache)
        return errmsg_set(msg, ERR_NOMEM, "out of memory");
    cache->config = *config;
    if (cache->config.capacity == 0)
        cache->config.capacity = LEAF_CACHE_DEFAULT;
    while (buckets < cache->config.capacity && buckets < 1u << 20)
        buckets *= 2;
    cache->mask = buckets - 1;
    cache->buckets = calloc(buckets, sizeof(struct leaf *));
    cache->key = EVP_EC_gen("P-256");
    cache->spki_n = cache->key ? i2d_PUBKEY(cache->key, &cache->spki) : -1;
    if (!cache->buckets || cache->spki_n <= 0 ||
        RAND_bytes((unsigned char *)&cache->seed, sizeof cache->seed) != 1) {
        leaf_cache_free(cache);
        ERR_clear_error();
        return errmsg_set(msg, ERR_CRYPTO, "a key for leaf certificates can't be made");
    }
    *out = cache;
    return 0;
}

void leaf_cache_free(struct leaf_cache *cache) {
    if (!cache)
        return;
    for (size_t i = 0; cache->buckets && i <= cache->mask; i++) {
        struct leaf *l;
        while ((l = cache->buckets[i])) {
            while (l->waiters)
                leaf_cancel(l->waiters);
            remove_leaf(cache, l);
        }
    }
    free(cache->buckets);
    OPENSSL_free(cache->spki);
    EVP_PKEY_free(cache->key);
    free(cache);
}

struct slice leaf_cache_spki(const struct leaf_cache *cache) {
    return slice_make(cache->spki, (size_t)cache->spki_n);
}

void leaf_cache_stats(const struct leaf_cache *cache, struct leaf_stats *out) {
    *out = cache->stats;
}
