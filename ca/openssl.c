#include "ca/openssl.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdint.h>

#include "base/block.h"

static void *take(size_t n, const char *file, int line) {
    (void)file;
    (void)line;
    return block_take(n);
}

static void *resize(void *p, size_t n, const char *file, int line) {
    (void)file;
    (void)line;
    return block_resize(p, n);
}

static void give(void *p, const char *file, int line) {
    (void)file;
    (void)line;
    block_give(p);
}

void openssl_random(OSSL_LIB_CTX *ctx) {
    if (RAND_set_DRBG_type(ctx, "HASH-DRBG", NULL, NULL, "SHA256") != 1)
        ERR_clear_error();
}

/* What the signature of a certificate may be of: to verify it, the digest is looked for among the old names. */
static const EVP_MD *(*const named[])(void) = {
    EVP_sha1,     EVP_sha224,   EVP_sha256,   EVP_sha384,   EVP_sha512,
    EVP_sha3_224, EVP_sha3_256, EVP_sha3_384, EVP_sha3_512,
};

void openssl_begin(bool settings) {
    uint64_t options = OPENSSL_INIT_NO_LOAD_CRYPTO_STRINGS | OPENSSL_INIT_NO_ADD_ALL_CIPHERS |
                       OPENSSL_INIT_NO_ADD_ALL_DIGESTS;
#ifndef __SANITIZE_ADDRESS__ /* a search for leaks would find what it keeps */
    options |= OPENSSL_INIT_NO_ATEXIT;
#endif
    CRYPTO_set_mem_functions(take, resize, give);
    OPENSSL_init_crypto(options, NULL);
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        EVP_add_digest(named[i]());
    /* before the settings, which may have another one */
    openssl_random(NULL);
    if (settings)
        OPENSSL_init_crypto(OPENSSL_INIT_LOAD_CONFIG, NULL);
}
