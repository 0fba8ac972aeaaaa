/*
 * A provider of ours, built in, stands in for OpenSSL's default one: it names the same functions, to be called with the same
 * context, but only some of them. OpenSSL hands a provider's functions nothing but that context, which is not ours, so what we
 * know is static.
 */
#include "ca/libctx.h"

#include <openssl/core_dispatch.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ca/openssl.h"

/* --- what is passed on ---------------------------------------------------------------------------------- */

/* Beginnings of names. An operation that is not here is passed on whole: it has few algorithms, or none is looked for. */
static const struct passed {
    int operation;
    const char *properties; /* only what has these; NULL: all */
    const char *names[16];
} passed[] = {
    {OSSL_OP_DIGEST, NULL, {"SHA1", "SHA2-", "SHA3-", "MD5"}},
    {OSSL_OP_CIPHER,
     NULL,
     {"AES-128-GCM", "AES-256-GCM", "AES-128-CCM", "AES-256-CCM", "AES-128-CBC", "AES-256-CBC",
      "ChaCha20-Poly1305",
      /* what a system's setting may ask for instead */
      "ARIA-128-GCM", "ARIA-256-GCM", "CAMELLIA-128-CBC", "CAMELLIA-256-CBC"}},
    {OSSL_OP_MAC, NULL, {"HMAC"}},
    {OSSL_OP_KDF, NULL, {"HKDF", "TLS"}},
    /* keys of certificates, of the groups in which keys are agreed on, and of a ticket's proof */
    {OSSL_OP_KEYMGMT, NULL, {"RSA", "EC", "ED", "X", "DH:", "ML-", "SLH-", "SecP", "HMAC"}},
    {OSSL_OP_DECODER,
     "input=der,structure=SubjectPublicKeyInfo",
     {"DER", "RSA", "EC", "ED", "ML-DSA", "SLH-"}},
};

#define PASSED_N (sizeof passed / sizeof passed[0])

static struct {
    OSSL_PROVIDER *origin;          /* the default provider, in the default context */
    OSSL_ALGORITHM *some[PASSED_N]; /* what of it is passed on; made at the first question */
} tls;

static bool is_passed(const struct passed *p, const OSSL_ALGORITHM *a) {
    if (p->properties && !strstr(a->property_definition, p->properties))
        return false;
    for (size_t i = 0; i < sizeof p->names / sizeof p->names[0] && p->names[i]; i++)
        if (strncmp(a->algorithm_names, p->names[i], strlen(p->names[i])) == 0)
            return true;
    return false;
}

/* All of them when memory is short. */
static const OSSL_ALGORITHM *some_of(size_t which, const OSSL_ALGORITHM *all) {
    size_t n = 0;
    if (tls.some[which] || !all)
        return tls.some[which];
    while (all[n].algorithm_names)
        n++;
    OSSL_ALGORITHM *some = calloc(n + 1, sizeof *some);
    if (!some)
        return all;
    tls.some[which] = some;
    for (const OSSL_ALGORITHM *a = all; a->algorithm_names; a++)
        if (is_passed(&passed[which], a))
            *some++ = *a;
    return tls.some[which];
}

/* --- the provider --------------------------------------------------------------------------------------- */

static const OSSL_ALGORITHM *query(void *context, int operation, int *no_cache) {
    const OSSL_ALGORITHM *all = OSSL_PROVIDER_query_operation(tls.origin, operation, no_cache);
    (void)context;
    for (size_t i = 0; i < PASSED_N; i++)
        if (passed[i].operation == operation)
            return some_of(i, all);
    return all;
}

/* The groups of TLS, and in later versions its signatures. */
static int capabilities(void *context, const char *capability, OSSL_CALLBACK *cb, void *arg) {
    (void)context;
    return OSSL_PROVIDER_get_capabilities(tls.origin, capability, cb, arg);
}

static int init(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *in, const OSSL_DISPATCH **out,
                void **context) {
    static const OSSL_DISPATCH ours[] = {
        {OSSL_FUNC_PROVIDER_QUERY_OPERATION, (void (*)(void))query},
        {OSSL_FUNC_PROVIDER_GET_CAPABILITIES, (void (*)(void))capabilities},
        {0, NULL},
    };
    (void)handle;
    (void)in;
    *out = ours;
    *context = OSSL_PROVIDER_get0_provider_ctx(tls.origin);
    return 1;
}

/* --- the contexts --------------------------------------------------------------------------------------- */

static int see_provider(OSSL_PROVIDER *provider, void *arg) {
    bool *only = arg;
    if (strcmp(OSSL_PROVIDER_get0_name(provider), "default") != 0)
        *only = false;
    return 1;
}

/* Who sets up OpenSSL otherwise (openssl.cnf) is to get what he has chosen. */
static bool is_standard(void) {
    bool only = true;
    return OSSL_PROVIDER_do_all(NULL, see_provider, &only) == 1 && only &&
           !EVP_default_properties_is_fips_enabled(NULL) &&
           (tls.origin = OSSL_PROVIDER_try_load(NULL, "default", 1)) != NULL;
}

/* A context and the one provider in it; both NULL until they are asked for. */
struct made {
    OSSL_LIB_CTX *ctx;
    OSSL_PROVIDER *provider;
};

static struct made made_tls, made_none;

static void unmake(struct made *made) {
    if (made->provider)
        OSSL_PROVIDER_unload(made->provider);
    OSSL_LIB_CTX_free(made->ctx);
    *made = (struct made){0};
}

/* OpenSSL calls this before it takes its own, default context apart. */
static void release(void) {
    unmake(&made_tls);
    unmake(&made_none);
    if (tls.origin)
        OSSL_PROVIDER_unload(tls.origin);
    for (size_t i = 0; i < PASSED_N; i++)
        free(tls.some[i]);
    memset(&tls, 0, sizeof tls);
}

static OSSL_LIB_CTX *make(struct made *made, const char *provider, OSSL_provider_init_fn *with) {
    static bool at_exit;
    if (!at_exit && !(at_exit = OPENSSL_atexit(release) == 1))
        return NULL;
    made->ctx = OSSL_LIB_CTX_new();
    if (made->ctx && (!with || OSSL_PROVIDER_add_builtin(made->ctx, provider, with) == 1))
        made->provider = OSSL_PROVIDER_load(made->ctx, provider);
    if (!made->provider) {
        unmake(made);
        ERR_clear_error();
    }
    return made->ctx;
}

OSSL_LIB_CTX *libctx_tls(void) {
    static bool asked;
    if (!asked && is_standard() && make(&made_tls, "exeat-tls", init))
        openssl_random(made_tls.ctx);
    asked = true;
    return made_tls.ctx;
}

OSSL_LIB_CTX *libctx_none(void) {
    return made_none.ctx ? made_none.ctx : make(&made_none, "null", NULL);
}

/* --- TLS ------------------------------------------------------------------------------------------------ */

#define PREFERRED "TLS_AES_128_GCM_SHA256"

/* Puts it before the others, if it is among them. */
static bool prefer(SSL_CTX *ctx) {
    STACK_OF(SSL_CIPHER) *all = SSL_CTX_get_ciphers(ctx);
    char list[512] = PREFERRED;
    size_t n = strlen(list);
    bool found = false;
    for (int i = 0; i < sk_SSL_CIPHER_num(all); i++) {
        const SSL_CIPHER *suite = sk_SSL_CIPHER_value(all, i);
        const char *name = SSL_CIPHER_get_name(suite);
        if (SSL_CIPHER_get_kx_nid(suite) != NID_kx_any)
            continue; /* not of TLS 1.3 */
        bool same = strcmp(name, PREFERRED) == 0;
        int more = same ? 0 : snprintf(list + n, sizeof list - n, ":%s", name);
        found |= same;
        n += (size_t)more;
        if (n >= sizeof list)
            return true; /* so many that somebody has ordered them */
    }
    return !found || SSL_CTX_set_ciphersuites(ctx, list) == 1;
}

SSL_CTX *libctx_ssl(const SSL_METHOD *method) {
    SSL_CTX *ctx = SSL_CTX_new_ex(libctx_tls(), NULL, method);
    if (!ctx)
        return NULL;
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    if (prefer(ctx))
        return ctx;
    SSL_CTX_free(ctx);
    return NULL;
}
