#include "ca/bare.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#define SPKI_MAX 512

bool bare_open(struct bare *b) {
    b->ctx = OSSL_LIB_CTX_new();
    b->none = b->ctx ? OSSL_PROVIDER_load(b->ctx, "null") : NULL;
    return b->none != NULL;
}

void bare_close(struct bare *b) {
    if (b->none)
        OSSL_PROVIDER_unload(b->none);
    OSSL_LIB_CTX_free(b->ctx);
    *b = (struct bare){0};
}

bool bare_cert_has(X509 *cert, EVP_PKEY *key, struct slice spki) {
    unsigned char own[SPKI_MAX], *end = own;
    X509_PUBKEY *public = X509_get_X509_PUBKEY(cert);
    int n = spki.n && spki.n <= sizeof own ? i2d_X509_PUBKEY(public, NULL) : -1;
    return n > 0 && (size_t)n == spki.n && i2d_X509_PUBKEY(public, &end) == n &&
           memcmp(own, spki.p, spki.n) == 0 && X509_set_pubkey(cert, key) == 1;
}

X509 *bare_cert(const struct bare *b, struct slice der, EVP_PKEY *key, struct slice spki) {
    const unsigned char *p = (const unsigned char *)der.p;
    X509 *cert = der.n ? X509_new_ex(b->ctx, NULL) : NULL;
    if (cert && ASN1_item_d2i_ex((ASN1_VALUE **)&cert, &p, (long)der.n, ASN1_ITEM_rptr(X509), b->ctx, NULL) &&
        p == (const unsigned char *)der.p + der.n && (!key || bare_cert_has(cert, key, spki)))
        return cert;
    X509_free(cert);
    return NULL;
}

static int no_pass_phrase(char *buf, int size, int rwflag, void *arg) {
    (void)buf, (void)size, (void)rwflag, (void)arg;
    return -1;
}

EVP_PKEY *bare_key(const struct bare *b, struct slice pem) {
    unsigned char *der = NULL;
    long n = 0;
    EVP_PKEY *key = NULL;
    BIO *bio = BIO_new_mem_buf(pem.n ? pem.p : "", (int)pem.n);
    if (bio && PEM_bytes_read_bio_secmem(&der, &n, NULL, PEM_STRING_PKCS8INF, bio, no_pass_phrase, NULL)) {
        const unsigned char *p = der;
        PKCS8_PRIV_KEY_INFO *info = d2i_PKCS8_PRIV_KEY_INFO(NULL, &p, n);
        key = info && p == der + n ? EVP_PKCS82PKEY_ex(info, b->ctx, NULL) : NULL;
        PKCS8_PRIV_KEY_INFO_free(info); /* wipes */
        OPENSSL_secure_clear_free(der, (size_t)n);
    }
    BIO_free(bio);
    ERR_clear_error();
    return key;
}
