#include "ca/tls13_kdf.h"

#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <string.h>

#include "base/slice.h"

#define HASH_MAX  48  /* of SHA-384 */
#define BLOCK_MAX 128 /* … and what it takes at once */
#define INFO_MAX  (2 + 1 + 255 + 1 + 255)

static struct hash {
    const char *name;
    size_t n, block;
    EVP_MD *md;
} hashes[] = {{"SHA2-256", 32, 64, NULL}, {"SHA2-384", HASH_MAX, BLOCK_MAX, NULL}};

#define HASHES (sizeof hashes / sizeof hashes[0])

static EVP_MD_CTX *work; /* holds nothing between two derivations */

bool tls13_kdf_begin(void) {
    bool good = (work = EVP_MD_CTX_new()) != NULL;
    for (size_t i = 0; i < HASHES; i++)
        good &= (hashes[i].md = EVP_MD_fetch(NULL, hashes[i].name, NULL)) != NULL;
    if (!good)
        tls13_kdf_end();
    return good;
}

void tls13_kdf_end(void) {
    EVP_MD_CTX_free(work);
    work = NULL;
    for (size_t i = 0; i < HASHES; i++) {
        EVP_MD_free(hashes[i].md);
        hashes[i].md = NULL;
    }
}

/* ---- HMAC (RFC 2104) and HKDF ---- */

/* One half of it: the digest of the padded key and two parts. */
static bool half(const struct hash *h, const unsigned char *key, unsigned char pad, struct slice a,
                 struct slice b, unsigned char *out) {
    unsigned char block[BLOCK_MAX];
    for (size_t i = 0; i < h->block; i++)
        block[i] = key[i] ^ pad;
    bool good = EVP_DigestInit_ex2(work, h->md, NULL) == 1 && EVP_DigestUpdate(work, block, h->block) == 1 &&
                EVP_DigestUpdate(work, a.p, a.n) == 1 && EVP_DigestUpdate(work, b.p, b.n) == 1 &&
                EVP_DigestFinal_ex(work, out, NULL) == 1;
    OPENSSL_cleanse(block, sizeof block);
    return good;
}

/* Of `a` and `b` behind it. No key is longer than a block; `out` may be part of any of them. */
static bool hmac(const struct hash *h, struct slice key, struct slice a, struct slice b, unsigned char *out) {
    unsigned char padded[BLOCK_MAX] = {0}, inner[HASH_MAX];
    if (key.n > h->block)
        return false;
    if (key.n)
        memcpy(padded, key.p, key.n);
    bool good =
        half(h, padded, 0x36, a, b, inner) && half(h, padded, 0x5c, slice_make(inner, h->n), SLICE_NONE, out);
    OPENSSL_cleanse(padded, sizeof padded);
    OPENSSL_cleanse(inner, sizeof inner);
    return good;
}

/* What libssl asks for. */
struct asked {
    int mode;
    const struct hash *hash;
    struct slice key, salt, prefix, label, data;
    bool has_key, has_salt;
};

static size_t put(unsigned char *at, struct slice s) {
    at[0] = (unsigned char)s.n;
    if (s.n)
        memcpy(at + 1, s.p, s.n);
    return 1 + s.n;
}

/* HKDF-Expand-Label, of one block of HMAC at most: TLS asks for no more than a hash. */
static bool expand(const struct asked *a, struct slice secret, struct slice data, unsigned char *out,
                   size_t n) {
    unsigned char info[INFO_MAX], block[HASH_MAX], label[255];
    size_t label_n = a->prefix.n + a->label.n, at = 2;
    if (n == 0 || n > a->hash->n || label_n > sizeof label || data.n > 255)
        return false;
    memcpy(label, a->prefix.p, a->prefix.n);
    memcpy(label + a->prefix.n, a->label.p, a->label.n);
    info[0] = (unsigned char)(n >> 8);
    info[1] = (unsigned char)n;
    at += put(info + at, slice_make(label, label_n));
    at += put(info + at, data);
    bool good = hmac(a->hash, secret, slice_make(info, at), SLICE("\x01"), block);
    if (good)
        memcpy(out, block, n);
    OPENSSL_cleanse(block, sizeof block);
    OPENSSL_cleanse(info, sizeof info);
    return good;
}

/* The next secret of the schedule: HKDF-Extract of the new one, by what is derived from the one before. */
static bool extract(const struct asked *a, unsigned char *out, size_t n) {
    static const unsigned char zeros[HASH_MAX];
    unsigned char empty[HASH_MAX], salt[HASH_MAX] = {0};
    const struct hash *h = a->hash;
    struct slice key = a->has_key ? a->key : slice_make(zeros, h->n);
    bool good = n == h->n;
    if (good && a->has_salt)
        good = EVP_DigestInit_ex2(work, h->md, NULL) == 1 && EVP_DigestFinal_ex(work, empty, NULL) == 1 &&
               expand(a, a->salt, slice_make(empty, h->n), salt, h->n);
    good = good && hmac(h, slice_make(salt, h->n), key, SLICE_NONE, out);
    OPENSSL_cleanse(salt, sizeof salt);
    return good;
}

/* ---- parameters ---- */

static bool take_hash(struct asked *a, const OSSL_PARAM *p) {
    static const char *const others[] = {"SHA256", "SHA384"}; /* as libssl of OpenSSL 3.0 may call them */
    const char *name;
    if (OSSL_PARAM_get_utf8_string_ptr(p, &name) != 1)
        return false;
    for (size_t i = 0; i < HASHES; i++)
        if (strcmp(name, hashes[i].name) == 0 || strcmp(name, others[i]) == 0)
            a->hash = &hashes[i];
    return a->hash != NULL;
}

static bool take_bytes(struct slice *out, const OSSL_PARAM *p) {
    const void *bytes;
    size_t n;
    if (OSSL_PARAM_get_octet_string_ptr(p, &bytes, &n) != 1)
        return false;
    *out = slice_make(bytes, n);
    return true;
}

static bool take(struct asked *a, const OSSL_PARAM *p) {
    if (strcmp(p->key, OSSL_KDF_PARAM_MODE) == 0)
        return OSSL_PARAM_get_int(p, &a->mode) == 1;
    if (strcmp(p->key, OSSL_KDF_PARAM_DIGEST) == 0)
        return take_hash(a, p);
    if (strcmp(p->key, OSSL_KDF_PARAM_KEY) == 0)
        return a->has_key = take_bytes(&a->key, p);
    if (strcmp(p->key, OSSL_KDF_PARAM_SALT) == 0)
        return a->has_salt = take_bytes(&a->salt, p);
    if (strcmp(p->key, OSSL_KDF_PARAM_PREFIX) == 0)
        return take_bytes(&a->prefix, p);
    if (strcmp(p->key, OSSL_KDF_PARAM_LABEL) == 0)
        return take_bytes(&a->label, p);
    return strcmp(p->key, OSSL_KDF_PARAM_DATA) != 0 || take_bytes(&a->data, p);
}

static int derive(void *context, unsigned char *out, size_t n, const OSSL_PARAM params[]) {
    struct asked a = {.mode = -1};
    bool good = true;
    (void)context;
    for (const OSSL_PARAM *p = params; good && p && p->key; p++)
        good = take(&a, p);
    good = good && a.hash;
    if (good && a.mode == EVP_KDF_HKDF_MODE_EXPAND_ONLY)
        good = a.has_key && expand(&a, a.key, a.data, out, n);
    else
        good = good && a.mode == EVP_KDF_HKDF_MODE_EXTRACT_ONLY && extract(&a, out, n);
    if (a.hash)
        EVP_DigestInit_ex2(work, a.hash->md, NULL); /* the last digest, which is the secret, leaves */
    return good;
}

/* There is nothing to hold, but NULL would be a failure. */
static void *new_context(void *provider) {
    static char nothing;
    (void)provider;
    return &nothing;
}

static void free_context(void *context) {
    (void)context;
}

const OSSL_DISPATCH tls13_kdf_functions[] = {
    {OSSL_FUNC_KDF_NEWCTX, (void (*)(void))new_context},
    {OSSL_FUNC_KDF_FREECTX, (void (*)(void))free_context},
    {OSSL_FUNC_KDF_DERIVE, (void (*)(void))derive},
    {0, NULL},
};
