/* ca/tls13_kdf: held against OpenSSL's own, and against the trace of a handshake in RFC 8448. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <stdlib.h>
#include <string.h>

#include "base/slice.h"
#include "ca/libctx.h"
#include "ca/tls13_kdf.h"
#include "tests/unit/chance.h"

#define OUT_MAX 64

/* As libssl asks. A slice without bytes is not passed at all. */
struct question {
    int mode;
    const char *digest;
    struct slice key, salt, label, data;
    size_t n;
};

static int ask(OSSL_LIB_CTX *ctx, const struct question *q, unsigned char *out) {
    OSSL_PARAM params[8], *p = params;
    int mode = q->mode;
    EVP_KDF *kdf = EVP_KDF_fetch(ctx, TLS13_KDF_NAME, NULL);
    EVP_KDF_CTX *kctx = EVP_KDF_CTX_new(kdf);
    assert_non_null(kctx);
    *p++ = OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode);
    if (q->digest)
        *p++ = OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)q->digest, 0);
    const struct {
        const char *name;
        struct slice value;
    } bytes[] = {{OSSL_KDF_PARAM_KEY, q->key},
                 {OSSL_KDF_PARAM_SALT, q->salt},
                 {OSSL_KDF_PARAM_PREFIX, SLICE("tls13 ")},
                 {OSSL_KDF_PARAM_LABEL, q->label},
                 {OSSL_KDF_PARAM_DATA, q->data}};
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++)
        if (bytes[i].value.p)
            *p++ =
                OSSL_PARAM_construct_octet_string(bytes[i].name, (void *)bytes[i].value.p, bytes[i].value.n);
    *p = OSSL_PARAM_construct_end();
    int r = EVP_KDF_derive(kctx, out, q->n, params);
    EVP_KDF_CTX_free(kctx);
    EVP_KDF_free(kdf);
    ERR_clear_error();
    return r;
}

static void same(const struct question *q) {
    unsigned char ours[OUT_MAX] = {0}, theirs[OUT_MAX] = {0};
    assert_int_equal(ask(NULL, q, theirs), 1);
    assert_int_equal(ask(libctx_tls(), q, ours), 1);
    assert_memory_equal(ours, theirs, sizeof ours);
}

static void is_in_use(void **state) {
    (void)state;
    EVP_KDF *ours = EVP_KDF_fetch(libctx_tls(), TLS13_KDF_NAME, NULL),
            *theirs = EVP_KDF_fetch(NULL, TLS13_KDF_NAME, NULL);
    assert_null(EVP_KDF_settable_ctx_params(ours));
    assert_non_null(EVP_KDF_settable_ctx_params(theirs));
    EVP_KDF_free(ours);
    EVP_KDF_free(theirs);
}

static const struct {
    const char *name;
    size_t n;
} digests[] = {{"SHA2-256", 32}, {"SHA256", 32}, {"SHA2-384", 48}, {"SHA384", 48}};

#define DIGESTS (sizeof digests / sizeof digests[0])

static void expands_like_openssl(void **state) {
    unsigned char key[48], data[64];
    (void)state;
    for (int i = 0; i < 500; i++) {
        size_t d = (size_t)i % DIGESTS;
        static const char *const labels[] = {"key", "iv", "c hs traffic", "finished", ""};
        struct question q = {.mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY, .digest = digests[d].name};
        for (size_t k = 0; k < sizeof key; k++)
            key[k] = (unsigned char)chance(256);
        for (size_t k = 0; k < sizeof data; k++)
            data[k] = (unsigned char)chance(256);
        q.key = slice_make(key, digests[d].n);
        q.label = slice_str(labels[i % 5]);
        q.data = i % 3 ? slice_make(data, chance(sizeof data)) : SLICE_NONE;
        q.n = 1 + chance((uint32_t)digests[d].n);
        same(&q);
    }
}

static void extracts_like_openssl(void **state) {
    unsigned char key[64], salt[48];
    (void)state;
    for (int i = 0; i < 500; i++) {
        size_t d = (size_t)i % DIGESTS;
        struct question q = {
            .mode = EVP_KDF_HKDF_MODE_EXTRACT_ONLY, .digest = digests[d].name, .n = digests[d].n};
        for (size_t k = 0; k < sizeof key; k++)
            key[k] = (unsigned char)chance(256);
        for (size_t k = 0; k < sizeof salt; k++)
            salt[k] = (unsigned char)chance(256);
        if (i % 3)
            q.key = slice_make(key, 1 + chance(sizeof key));
        if (i % 5)
            q.salt = slice_make(salt, digests[d].n);
        q.label = SLICE("derived");
        same(&q);
    }
}

/* RFC 8448, section 3: the early secret, what is derived of it, and the handshake's, from the key that was agreed on. */
static void trace_of_rfc_8448(void **state) {
    static const unsigned char early
        [] = "\x33\xad\x0a\x1c\x60\x7e\xc0\x3b\x09\xe6\xcd\x98\x93\x68\x0c\xe2\x10\xad\xf3\x00\xaa\x1f\x26"
             "\x60\xe1\xb2"
             "\x2e\x10\xf1\x70\xf9\x2a",
   agreed[] =
        "\x8b\xd4\x05\x4f\xb5\x5b\x9d\x63\xfd\xfb\xac\xf9\xf0\x4b\x9f\x0d\x35\xe6\xd6\x3f\x53\x75\x63\xef\xd4"
        "\x62\x72\x90\x0f\x89\x49\x2d",
   handshake[] =
        "\x1d\xc8\x26\xe9\x36\x06\xaa\x6f\xdc\x0a\xad\xc1\x2f\x74\x1b\x01\x04\x6a\xa6\xb9\x9f\x69\x1e\xd2"
        "\x21\xa9\xf0\xca\x04\x3f\xbe\xac";
    unsigned char out[32];
    (void)state;
    struct question q = {
        .mode = EVP_KDF_HKDF_MODE_EXTRACT_ONLY, .digest = "SHA2-256", .label = SLICE("derived"), .n = 32};
    assert_int_equal(ask(libctx_tls(), &q, out), 1);
    assert_memory_equal(out, early, 32);
    q.salt = slice_make(early, 32);
    q.key = slice_make(agreed, 32);
    assert_int_equal(ask(libctx_tls(), &q, out), 1);
    assert_memory_equal(out, handshake, 32);
}

/* What TLS does not ask for is no derivation, rather than a wrong one. */
static void refuses_what_tls_does_not_ask(void **state) {
    static const unsigned char long_one[300];
    const struct question good = {.mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY,
                                  .digest = "SHA2-256",
                                  .key = slice_make(long_one, 32),
                                  .label = SLICE("key"),
                                  .n = 16};
    struct question q = good;
    unsigned char out[OUT_MAX];
    (void)state;
    assert_int_equal(ask(libctx_tls(), &q, out), 1);
    q.n = 33;
    assert_int_equal(ask(libctx_tls(), &q, out), 0);
    q = good, q.digest = "SHA2-512";
    assert_int_equal(ask(libctx_tls(), &q, out), 0);
    q = good, q.digest = NULL;
    assert_int_equal(ask(libctx_tls(), &q, out), 0);
    q = good, q.key = SLICE_NONE;
    assert_int_equal(ask(libctx_tls(), &q, out), 0);
    q = good, q.key = slice_make(long_one, 65);
    assert_int_equal(ask(libctx_tls(), &q, out), 0);
    q = good, q.label = slice_make(long_one, 250);
    assert_int_equal(ask(libctx_tls(), &q, out), 0);
    q = good, q.data = slice_make(long_one, 256);
    assert_int_equal(ask(libctx_tls(), &q, out), 0);
    q = good, q.mode = EVP_KDF_HKDF_MODE_EXTRACT_AND_EXPAND;
    assert_int_equal(ask(libctx_tls(), &q, out), 0);
    q = good, q.mode = EVP_KDF_HKDF_MODE_EXTRACT_ONLY;
    assert_int_equal(ask(libctx_tls(), &q, out), 0); /* of another length than the hash */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_in_use),
        cmocka_unit_test(expands_like_openssl),
        cmocka_unit_test(extracts_like_openssl),
        cmocka_unit_test(trace_of_rfc_8448),
        cmocka_unit_test(refuses_what_tls_does_not_ask),
    };
    /* the host's own setting is not what is tried here */
    setenv("OPENSSL_CONF", "/dev/null", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
