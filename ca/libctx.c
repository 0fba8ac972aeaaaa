/*
 * A provider of ours, built in, stands in for OpenSSL's default one: it names the same functions, to be called with the same
 * context, but only some of them. OpenSSL hands a provider's functions nothing but that context, which is not ours, so what we
 * know is static, and each has a function of its own.
 */
#include "ca/libctx.h"

#include <openssl/core_dispatch.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ca/openssl.h"

/* --- what is passed on ---------------------------------------------------------------------------------- */

struct passed {
    int operation;
    const char *properties; /* only what has these; NULL: all */
    const char *names[16];  /* beginnings of names */
};

#define PASSED_MAX 6

/* A context and the one provider in it; both NULL until they are asked for. */
struct made {
    OSSL_LIB_CTX *ctx;
    OSSL_PROVIDER *provider;
};

/* One in which there is some of the default provider's. An operation that is not in `passed` is passed on whole: it has few algorithms,
 * or none is looked for. */
struct slim {
    const char *name;
    OSSL_provider_init_fn *init;
    struct passed passed[PASSED_MAX];
    /* what of the default provider's is passed on; made at the first question */
    OSSL_ALGORITHM *some[PASSED_MAX];
    struct made made;
    bool asked;
};

static OSSL_provider_init_fn init_tls, init_root;

#define PUBLIC_KEYS "input=der,structure=SubjectPublicKeyInfo"

static struct slim tls = {
    .name = "exeat-tls",
    .init = init_tls,
    .passed =
        {
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
            {OSSL_OP_DECODER, PUBLIC_KEYS, {"DER", "RSA", "EC", "ED", "ML-DSA", "SLH-"}},
        },
};

/* Of the kinds of keys that ca/root.h takes. */
static struct slim root = {
    .name = "exeat-root",
    .init = init_root,
    .passed =
        {
            {OSSL_OP_DIGEST, NULL, {"SHA1", "SHA2-", "SHA3-"}},
            {OSSL_OP_KEYMGMT, NULL, {"RSA", "EC"}},
            {OSSL_OP_SIGNATURE, NULL, {"RSA", "ECDSA"}},
            {OSSL_OP_DECODER, PUBLIC_KEYS, {"DER", "RSA", "EC"}},
        },
};

static OSSL_PROVIDER *origin; /* the default provider, in the default context */

static bool is_passed(const struct passed *p, const OSSL_ALGORITHM *a) {
    if (p->properties && !strstr(a->property_definition, p->properties))
        return false;
    for (size_t i = 0; i < sizeof p->names / sizeof p->names[0] && p->names[i]; i++)
        if (strncmp(a->algorithm_names, p->names[i], strlen(p->names[i])) == 0)
            return true;
    return false;
}

/* All of them when memory is short. */
static const OSSL_ALGORITHM *some_of(struct slim *slim, size_t which, const OSSL_ALGORITHM *all) {
    size_t n = 0;
    if (slim->some[which] || !all)
        return slim->some[which];
    for (const OSSL_ALGORITHM *a = all; a->algorithm_names; a++)
        n += is_passed(&slim->passed[which], a);
    OSSL_ALGORITHM *some = calloc(n + 1, sizeof *some);
    if (!some)
        return all;
    slim->some[which] = some;
    for (const OSSL_ALGORITHM *a = all; a->algorithm_names; a++)
        if (is_passed(&slim->passed[which], a))
            *some++ = *a;
    return slim->some[which];
}

/* --- the providers -------------------------------------------------------------------------------------- */

static const OSSL_ALGORITHM *query(struct slim *slim, int operation, int *no_cache) {
    const OSSL_ALGORITHM *all = OSSL_PROVIDER_query_operation(origin, operation, no_cache);
    for (size_t i = 0; i < PASSED_MAX; i++)
        if (slim->passed[i].operation == operation)
            return some_of(slim, i, all);
    return all;
}

static const OSSL_ALGORITHM *query_tls(void *context, int operation, int *no_cache) {
    (void)context;
    return query(&tls, operation, no_cache);
}

static const OSSL_ALGORITHM *query_root(void *context, int operation, int *no_cache) {
    (void)context;
    return query(&root, operation, no_cache);
}

/* The groups of TLS, and in later versions its signatures. */
static int capabilities(void *context, const char *capability, OSSL_CALLBACK *cb, void *arg) {
    (void)context;
    return OSSL_PROVIDER_get_capabilities(origin, capability, cb, arg);
}

static int offer(const OSSL_DISPATCH *ours, const OSSL_DISPATCH **out, void **context) {
    *out = ours;
    *context = OSSL_PROVIDER_get0_provider_ctx(origin);
    return 1;
}

static int init_tls(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *in, const OSSL_DISPATCH **out,
                    void **context) {
    static const OSSL_DISPATCH ours[] = {
        {OSSL_FUNC_PROVIDER_QUERY_OPERATION, (void (*)(void))query_tls},
        {OSSL_FUNC_PROVIDER_GET_CAPABILITIES, (void (*)(void))capabilities},
        {0, NULL},
    };
    (void)handle;
    (void)in;
    return offer(ours, out, context);
}

static int init_root(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *in, const OSSL_DISPATCH **out,
                     void **context) {
    static const OSSL_DISPATCH ours[] = {
        {OSSL_FUNC_PROVIDER_QUERY_OPERATION, (void (*)(void))query_root},
        {0, NULL},
    };
    (void)handle;
    (void)in;
    return offer(ours, out, context);
}

/* --- the contexts --------------------------------------------------------------------------------------- */

static struct made made_none;

static int see_provider(OSSL_PROVIDER *provider, void *arg) {
    bool *only = arg;
    if (strcmp(OSSL_PROVIDER_get0_name(provider), "default") != 0)
        *only = false;
    return 1;
}

/* Who sets up OpenSSL otherwise (openssl.cnf) is to get what he has chosen. */
static bool is_standard(void) {
    bool only = true;
    if (origin)
        return true;
    return OSSL_PROVIDER_do_all(NULL, see_provider, &only) == 1 && only &&
           !EVP_default_properties_is_fips_enabled(NULL) &&
           (origin = OSSL_PROVIDER_try_load(NULL, "default", 1)) != NULL;
}

static void unmake(struct made *made) {
    if (made->provider)
        OSSL_PROVIDER_unload(made->provider);
    OSSL_LIB_CTX_free(made->ctx);
    *made = (struct made){0};
}

static void unmake_slim(struct slim *slim) {
    unmake(&slim->made);
    for (size_t i = 0; i < PASSED_MAX; i++) {
        free(slim->some[i]);
        slim->some[i] = NULL;
    }
}

/* OpenSSL calls this before it takes its own, default context apart. */
static void release(void) {
    unmake_slim(&tls);
    unmake_slim(&root);
    unmake(&made_none);
    if (origin)
        OSSL_PROVIDER_unload(origin);
    origin = NULL;
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

static OSSL_LIB_CTX *once(struct slim *slim) {
    if (!slim->asked && is_standard() && make(&slim->made, slim->name, slim->init))
        openssl_random(slim->made.ctx);
    slim->asked = true;
    return slim->made.ctx;
}

OSSL_LIB_CTX *libctx_tls(void) {
    return once(&tls);
}

OSSL_LIB_CTX *libctx_root(void) {
    return once(&root);
}

OSSL_LIB_CTX *libctx_none(void) {
    return made_none.ctx ? made_none.ctx : make(&made_none, "null", NULL);
}
