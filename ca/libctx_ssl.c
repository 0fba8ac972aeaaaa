/* Contexts of TLS; apart, for who has no TLS to speak does not link libssl. */
#include "ca/libctx.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

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

/* Does it need a key, or a password (SRP), that both sides have? Here there is none. */
static bool is_shared(const SSL_CIPHER *suite) {
    int kx = SSL_CIPHER_get_kx_nid(suite);
    return kx == NID_kx_psk || kx == NID_kx_rsa_psk || kx == NID_kx_dhe_psk || kx == NID_kx_ecdhe_psk ||
           kx == NID_kx_srp;
}

/* Suites of TLS 1.2 that can never be agreed on go: they are half of OpenSSL's own, and for each ClientHello the list is gone
 * through three times. The order, which may be somebody's, stays. */
static bool leave_out(SSL_CTX *ctx) {
    STACK_OF(SSL_CIPHER) *all = SSL_CTX_get_ciphers(ctx);
    char list[4096];
    size_t n = 0;
    for (int i = 0; i < sk_SSL_CIPHER_num(all); i++) {
        const SSL_CIPHER *suite = sk_SSL_CIPHER_value(all, i);
        if (SSL_CIPHER_get_kx_nid(suite) == NID_kx_any || is_shared(suite))
            continue;
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n ? ":" : "", SSL_CIPHER_get_name(suite));
        if (n >= sizeof list)
            return true; /* more than there are */
    }
    return n == 0 || SSL_CTX_set_cipher_list(ctx, list) == 1;
}

SSL_CTX *libctx_ssl(const SSL_METHOD *method) {
    SSL_CTX *ctx = SSL_CTX_new_ex(libctx_tls(), NULL, method);
    if (!ctx)
        return NULL;
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    if (prefer(ctx) && leave_out(ctx))
        return ctx;
    SSL_CTX_free(ctx);
    return NULL;
}
