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
