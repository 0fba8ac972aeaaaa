#include "ca/leaf.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/sha.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "base/hash.h"
#include "ca/libctx.h"
#include "ca/root.h"

#define BUCKETS_LEAST 16 /* a power of two */

/* One name. It is in the table from the first question on; in the order of use only while it has a
 * certificate. */
struct leaf {
    struct leaf *chain;         /* next in the bucket */
    struct leaf *newer, *older; /* order of use */
    uint64_t hash;
    X509 *cert;         /* NULL: pending */
    int64_t good_until; /* of cert: from then on it is not handed out */
    int64_t refresh_at; /* of cert: from then on the keeper is asked for another one */
    bool asked;         /* a question is under way; set by ask_for, cleared by its answer */
    struct leaf_waiter *waiters;
    size_t n;
    char name[];
};

struct leaf_cache {
    struct leaf_config config;
    EVP_PKEY *key;
    SSL_CTX *ctx;
    unsigned char *spki;
    int spki_n;
    uint64_t seed;
    size_t mask;           /* buckets - 1 */
    struct leaf **buckets; /* as many as names or more, where there is memory for them */
    struct leaf *newest, *oldest;
    struct leaf_waiter *told; /* waiters whose answer is being handed out */
    struct leaf_stats stats;
};

static struct leaf *find(struct leaf_cache *cache, struct slice name) {
    uint64_t h = hash_bytes(cache->seed, name);
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

/* Takes the certificate away, so that the name counts as pending (if asked) or is about to be removed. */
static void drop_cert(struct leaf_cache *cache, struct leaf *l) {
    if (!l->cert)
        return;
    order_remove(cache, l);
    X509_free(l->cert);
    l->cert = NULL;
    cache->stats.pending++;
}

static void remove_leaf(struct leaf_cache *cache, struct leaf *l) {
    struct leaf **p = &cache->buckets[l->hash & cache->mask];
    drop_cert(cache, l);
    while (*p != l)
        p = &(*p)->chain;
    *p = l->chain;
    cache->stats.names--;
    cache->stats.pending--;
    free(l);
}

/* Twice as many buckets: a sandbox that asks for few names costs few. */
static void grow(struct leaf_cache *cache) {
    size_t mask = 2 * cache->mask + 1;
    struct leaf **buckets = calloc(mask + 1, sizeof(struct leaf *));
    if (!buckets)
        return;
    for (size_t i = 0; i <= cache->mask; i++) {
        struct leaf *l;
        while ((l = cache->buckets[i])) {
            cache->buckets[i] = l->chain;
            l->chain = buckets[l->hash & mask];
            buckets[l->hash & mask] = l;
        }
    }
    free(cache->buckets);
    cache->buckets = buckets;
    cache->mask = mask;
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
    if (cache->stats.names > cache->mask)
        grow(cache);
    memcpy(l->name, name.p, name.n);
    l->n = name.n;
    l->hash = hash_bytes(cache->seed, name);
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
static void tell(struct leaf_cache *cache, struct leaf_waiter **waiters, X509 *cert, int err,
                 const char *why) {
    struct leaf_waiter *w;
    while ((w = *waiters)) {
        leaf_cancel(w);
        wait_on(&cache->told, w);
    }
    if (cert)
        X509_up_ref(cert);
    while ((w = cache->told)) {
        leaf_cancel(w);
        w->done(w, cert, err, why);
    }
    X509_free(cert);
}

/* --- the context and the key ------------------------------------------------------------------------------ */

/*
 * All that is the same for every name. No chain is looked for: there is none, since the root is the client's,
 * and OpenSSL would go through a whole verification in each handshake to find that out.
 */
static SSL_CTX *make_ctx(const struct leaf_config *config, EVP_PKEY *key) {
    SSL_CTX *ctx = libctx_ssl(TLS_server_method());
    if (!ctx)
        return NULL;
    SSL_CTX_set_mode(ctx, SSL_MODE_NO_AUTO_CHAIN);
    /* resumption by tickets alone: nothing is kept for a client here */
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ctx, 1);
    /* the client's word is not asked for: no certificate of its own could mean anything here */
    SSL_CTX_set_verify(ctx, SSL_VERIFY_NONE, NULL);
    if (SSL_CTX_use_PrivateKey(ctx, key) == 1 && (!config->setup || config->setup(config->arg, ctx) == 0))
        return ctx;
    SSL_CTX_free(ctx);
    return NULL;
}

int leaf_use(SSL *ssl, X509 *cert, struct slice name) {
    unsigned char id[SHA256_DIGEST_LENGTH];
    SHA256((const unsigned char *)name.p, name.n, id);
    if (SSL_use_certificate(ssl, cert) == 1 && SSL_set_session_id_context(ssl, id, sizeof id) == 1)
        return 0;
    ERR_clear_error();
    return ERR_CRYPTO;
}

/* --- certificates --------------------------------------------------------------------------------------- */

/*
 * OpenSSL 3.0 decodes the public key of a certificate as it reads it, and to find a decoder it goes through all
 * that it has: 150 us, several times the cost of minting. Ours is always the same key, which is at hand. So a
 * leaf is read in a library context that has no decoders (no algorithms at all), its key is compared byte by
 * byte, and the object that we have takes its place.
 */

/* A private key of P-256 in DER (RFC 5915): what stands before the scalar, and between it and the point. */
#define KEY_HEAD   "\x30\x77\x02\x01\x01\x04\x20"
#define KEY_CURVE  "\xa0\x0a\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\xa1\x44\x03\x42\x00"
#define SCALAR_LEN 32
#define POINT_LEN  65

/*
 * A key that goes into a certificate as it is: in OpenSSL 3.0 that is one that was read without decoders. Any other is
 * encoded, and decoded, each time. It is written out by hand for that: OpenSSL would load all its encoders, which take
 * more memory than the rest of this file.
 */
static EVP_PKEY *make_key(void) {
    unsigned char der[sizeof KEY_HEAD - 1 + SCALAR_LEN + sizeof KEY_CURVE - 1 + POINT_LEN];
    unsigned char *scalar = der + sizeof KEY_HEAD - 1, *curve = scalar + SCALAR_LEN,
                  *point = curve + sizeof KEY_CURVE - 1;
    const unsigned char *p = der;
    size_t n = 0;
    BIGNUM *number = NULL;
    EVP_PKEY *read = NULL, *made = EVP_PKEY_Q_keygen(libctx_tls(), NULL, "EC", "P-256");
    memcpy(der, KEY_HEAD, sizeof KEY_HEAD - 1);
    memcpy(curve, KEY_CURVE, sizeof KEY_CURVE - 1);
    if (made && EVP_PKEY_get_bn_param(made, OSSL_PKEY_PARAM_PRIV_KEY, &number) == 1 &&
        BN_bn2binpad(number, scalar, SCALAR_LEN) == SCALAR_LEN &&
        EVP_PKEY_get_octet_string_param(made, OSSL_PKEY_PARAM_PUB_KEY, point, POINT_LEN, &n) == 1 &&
        n == POINT_LEN)
        read = d2i_PrivateKey_ex(EVP_PKEY_EC, NULL, &p, sizeof der, libctx_none(), NULL);
    BN_clear_free(number);
    OPENSSL_cleanse(der, sizeof der);
    if (!read)
        return made;
    EVP_PKEY_free(made);
    return read;
}

static void release_key(struct leaf_cache *cache) {
    OPENSSL_free(cache->spki);
    SSL_CTX_free(cache->ctx);
    EVP_PKEY_free(cache->key);
    cache->spki = NULL;
    cache->ctx = NULL;
    cache->key = NULL;
}

/* Once, when it is first needed: a worker that no client comes to does without, and none waits for it at its start. */
static int begin(struct leaf_cache *cache) {
    if (cache->ctx)
        return 0;
    cache->key = make_key();
    cache->spki_n = cache->key ? i2d_PUBKEY(cache->key, &cache->spki) : -1;
    if (cache->spki_n > 0 && cache->spki_n <= CA_SPKI_MAX)
        cache->ctx = make_ctx(&cache->config, cache->key);
    if (cache->ctx)
        return 0;
    release_key(cache);
    ERR_clear_error();
    return ERR_CRYPTO;
}

SSL_CTX *leaf_cache_context(struct leaf_cache *cache) {
    return begin(cache) ? NULL : cache->ctx;
}

struct slice leaf_cache_spki(struct leaf_cache *cache) {
    return begin(cache) ? SLICE_NONE : slice_make(cache->spki, (size_t)cache->spki_n);
}

/* The certificate in `der`, which must be for our key and have nothing behind it; or NULL. */
static X509 *read_cert(struct leaf_cache *cache, struct slice der) {
    const unsigned char *p = (const unsigned char *)der.p;
    unsigned char spki[CA_SPKI_MAX], *end = spki;
    X509 *cert = X509_new_ex(libctx_none(), NULL);
    if (!cert || der.n == 0 || der.n > CA_DER_MAX ||
        !ASN1_item_d2i_ex((ASN1_VALUE **)&cert, &p, (long)der.n, ASN1_ITEM_rptr(X509), libctx_none(), NULL) ||
        p != (const unsigned char *)der.p + der.n)
        goto fail;
    X509_PUBKEY *key = X509_get_X509_PUBKEY(cert);
    if (i2d_X509_PUBKEY(key, NULL) != cache->spki_n || i2d_X509_PUBKEY(key, &end) != cache->spki_n ||
        memcmp(spki, cache->spki, (size_t)cache->spki_n) != 0 || X509_set_pubkey(cert, cache->key) != 1)
        goto fail;
    return cert;
fail:
    X509_free(cert);
    return NULL;
}

static int64_t end_of(const X509 *cert) {
    struct tm tm;
    return ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm) ? (int64_t)timegm(&tm) : 0;
}

/* Reads the keeper's answer for `l`. 0 or ERR_CRYPTO; then `l` is as it was. */
static int take_cert(struct leaf_cache *cache, struct leaf *l, struct slice der, int64_t now) {
    X509 *cert = read_cert(cache, der);
    int64_t end = cert ? end_of(cert) : 0;
    ERR_clear_error();
    if (end <= now) {
        X509_free(cert);
        return ERR_CRYPTO;
    }
    drop_cert(cache, l);
    l->cert = cert;
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

/* A certificate that gets old: asked for anew, while the old one serves on. */
static void refresh(struct leaf_cache *cache, struct leaf *l, struct slice name) {
    if (ask_for(cache, l) && (l = find(cache, name)))
        l->asked = false;
}

int leaf_cache_get(struct leaf_cache *cache, struct slice name, int64_t now, struct leaf_waiter *w,
                   X509 **cert) {
    if (name.n == 0 || name.n > UINT16_MAX)
        return ERR_PARSE;
    int r = begin(cache);
    if (r)
        return r;
    struct leaf *l = find(cache, name);
    if (l && l->cert && now >= l->good_until)
        drop_cert(cache, l);
    if (l && l->cert) {
        cache->stats.hits++;
        order_remove(cache, l);
        order_front(cache, l);
        if (now >= l->refresh_at && !l->asked)
            refresh(cache, l, name);
        /* the answer may have come at once, or room been made for another name */
        l = find(cache, name);
        *cert = l ? l->cert : NULL;
        return *cert ? 0 : ERR_INTERNAL;
    }
    if (!l && !(l = add_leaf(cache, name)))
        return cache->oldest ? ERR_NOMEM : ERR_LIMIT;
    wait_on(&l->waiters, w);
    r = l->asked ? 0 : ask_for(cache, l);
    if (r == 0)
        return ERR_AGAIN;
    l = find(cache, name);
    leaf_cancel(w);
    if (l && !l->cert)
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
    tell(cache, &l->waiters, l->cert, 0, NULL);
    return 0;
}

void leaf_cache_fail(struct leaf_cache *cache, struct slice name, int err, const char *why) {
    struct leaf *l = find(cache, name);
    if (!l || !l->asked)
        return;
    cache->stats.failed++;
    l->asked = false;
    if (l->cert)
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
    *out = NULL;
    if (!cache)
        return errmsg_set(msg, ERR_NOMEM, "out of memory");
    cache->config = *config;
    if (cache->config.capacity == 0)
        cache->config.capacity = LEAF_CACHE_DEFAULT;
    cache->mask = BUCKETS_LEAST - 1;
    cache->buckets = calloc(BUCKETS_LEAST, sizeof(struct leaf *));
    int r = cache->buckets ? 0 : errmsg_set(msg, ERR_NOMEM, "out of memory");
    if (r == 0 && getrandom(&cache->seed, sizeof cache->seed, 0) != sizeof cache->seed)
        r = errmsg_errno(msg, ERR_IO, "getrandom");
    if (r) {
        leaf_cache_free(cache);
        return r;
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
    release_key(cache);
    free(cache);
}

void leaf_cache_stats(const struct leaf_cache *cache, struct leaf_stats *out) {
    *out = cache->stats;
}
