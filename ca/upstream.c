#include "ca/upstream.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include "base/url.h"
#include "ca/libctx.h"
#include "ca/trust.h"

/* A common name is not looked at: a certificate without subjectAltName names nothing. */
#define HOST_FLAGS (X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT)

int ca_upstream_new(struct slice roots, struct slice extra, SSL_CTX **out, struct errmsg *msg) {
    *out = NULL;
    SSL_CTX *ctx = libctx_ssl(TLS_client_method());
    if (!ctx)
        goto fail;
    X509_STORE *store = SSL_CTX_get_cert_store(ctx);
    if (trust_add(store, roots, extra))
        goto fail;
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    /* an operator may trust an intermediate of his and nothing above it */
    X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
    ERR_clear_error();
    *out = ctx;
    return 0;
fail:
    SSL_CTX_free(ctx);
    ERR_clear_error();
    return errmsg_set(msg, ERR_CRYPTO, "the context for upstream connections can't be made");
}

int ca_upstream_prepare(SSL *ssl, struct slice host, SSL_SESSION *session) {
    struct url_host h;
    if (url_host_parse(host, &h, NULL))
        return ERR_PARSE;
    struct slice bare = url_host_bare(&h);
    char text[URL_HOST_MAX + 1];
    memcpy(text, bare.p, bare.n);
    text[bare.n] = '\0';
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    if (h.kind == URL_HOST_NAME) {
        X509_VERIFY_PARAM_set_hostflags(param, HOST_FLAGS);
        if (X509_VERIFY_PARAM_set1_host(param, text, bare.n) != 1 || SSL_set_tlsext_host_name(ssl, text) != 1)
            return ERR_CRYPTO;
    } else if (X509_VERIFY_PARAM_set1_ip_asc(param, text) != 1) {
        return ERR_CRYPTO;
    }
    if (session && SSL_set_session(ssl, session) != 1)
        return ERR_CRYPTO;
    return 0;
}

/* What the handshake's own check of the name would say, and whether it is still in time. */
static bool names(X509 *cert, struct slice host) {
    struct url_host h;
    bool good = cert && url_host_parse(host, &h, NULL) == 0 && h.kind == URL_HOST_NAME &&
                X509_cmp_current_time(X509_get0_notAfter(cert)) > 0 &&
                X509_check_host(cert, h.text, h.n, HOST_FLAGS, NULL) == 1;
    ERR_clear_error();
    return good;
}

bool ca_upstream_also(const SSL *ssl, struct slice host) {
    return SSL_get_verify_result(ssl) == X509_V_OK && names(SSL_get0_peer_certificate(ssl), host);
}

bool ca_upstream_session_also(SSL_SESSION *session, struct slice host) {
    return names(SSL_SESSION_get0_peer(session), host);
}

const char *ca_upstream_reason(const SSL *ssl) {
    long r = SSL_get_verify_result(ssl);
    return r == X509_V_OK ? NULL : X509_verify_cert_error_string(r);
}

const char *ca_upstream_advice(const SSL *ssl) {
    switch (SSL_get_verify_result(ssl)) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID: return "it has to be renewed, or this host's clock is wrong";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH: return "another server answers there: see DNS and --resolve";
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        return "an authority of your own is trusted by --upstream-ca FILE";
    default: return "the server has to show another";
    }
}
