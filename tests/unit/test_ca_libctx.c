/* ca/libctx: a server of OpenSSL's own, with each kind of certificate and of group, to whom ca/upstream speaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/provider.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ca/libctx.h"
#include "ca/openssl.h"
#include "ca/upstream.h"

#define KINDS 7

static const struct kind {
    const char *name;
    bool digest; /* signs SHA-256 of it, not it itself */
} kinds[KINDS] = {
    {"RSA", true},   {"RSA-PSS", true},  {"P-256", true},  {"P-384", true},
    {"P-521", true}, {"ED25519", false}, {"ED448", false},
};

/* One authority and one server of each kind. */
static struct {
    EVP_PKEY *ca_key, *key;
    X509 *ca, *cert, *expired;
    char *pem;
    size_t pem_n;
} made[KINDS];

static EVP_PKEY *new_key(const char *name) {
    EVP_PKEY *key = name[0] == 'P' ? EVP_EC_gen(name) : NULL;
    if (!key) {
        EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, name, NULL);
        assert_int_equal(EVP_PKEY_keygen_init(ctx), 1);
        if (name[0] == 'R')
            assert_int_equal(EVP_PKEY_CTX_set_rsa_keygen_bits(ctx, 2048), 1);
        assert_int_equal(EVP_PKEY_keygen(ctx, &key), 1);
        EVP_PKEY_CTX_free(ctx);
    }
    assert_non_null(key);
    return key;
}

static X509 *new_cert(const struct kind *kind, EVP_PKEY *key, EVP_PKEY *signer, bool authority, long life) {
    static long serial;
    X509 *cert = X509_new();
    X509V3_CTX v3;
    const char *subject = authority ? "An authority" : "a.test";
    X509_set_version(cert, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(cert), -7200);
    X509_gmtime_adj(X509_getm_notAfter(cert), life);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
                               (const unsigned char *)subject, -1, -1, 0);
    X509_NAME_add_entry_by_txt(X509_get_issuer_name(cert), "CN", MBSTRING_ASC,
                               (const unsigned char *)"An authority", -1, -1, 0);
    assert_int_equal(X509_set_pubkey(cert, key), 1);
    X509V3_set_ctx_nodb(&v3);
    X509_EXTENSION *ext =
        X509V3_EXT_conf_nid(NULL, &v3, authority ? NID_basic_constraints : NID_subject_alt_name,
                            authority ? "critical,CA:TRUE" : "DNS:a.test");
    assert_non_null(ext);
    X509_add_ext(cert, ext, -1);
    X509_EXTENSION_free(ext);
    assert_true(X509_sign(cert, signer, kind->digest ? EVP_sha256() : NULL) > 0);
    return cert;
}

static int set_up(void **state) {
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        BIO *bio = BIO_new(BIO_s_mem());
        char *text;
        made[i].ca_key = new_key(kinds[i].name);
        made[i].key = new_key(kinds[i].name);
        made[i].ca = new_cert(&kinds[i], made[i].ca_key, made[i].ca_key, true, 7200);
        made[i].cert = new_cert(&kinds[i], made[i].key, made[i].ca_key, false, 7200);
        made[i].expired = new_cert(&kinds[i], made[i].key, made[i].ca_key, false, -60);
        assert_int_equal(PEM_write_bio_X509(bio, made[i].ca), 1);
        made[i].pem_n = (size_t)BIO_get_mem_data(bio, &text);
        made[i].pem = malloc(made[i].pem_n);
        memcpy(made[i].pem, text, made[i].pem_n);
        BIO_free(bio);
    }
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        EVP_PKEY_free(made[i].ca_key);
        EVP_PKEY_free(made[i].key);
        X509_free(made[i].ca);
        X509_free(made[i].cert);
        X509_free(made[i].expired);
        free(made[i].pem);
    }
    return 0;
}

/* --- one handshake -------------------------------------------------------------------------------------- */

struct server {
    size_t kind;
    X509 *cert;
    int version;
    const char *groups, *suite; /* NULL: its own */
};

static SSL *new_server(const struct server *server, SSL_CTX **ctx) {
    *ctx = SSL_CTX_new(TLS_server_method());
    SSL_CTX_set_dh_auto(*ctx, 1);
    SSL_CTX_set_min_proto_version(*ctx, server->version);
    SSL_CTX_set_max_proto_version(*ctx, server->version);
    assert_int_equal(SSL_CTX_use_PrivateKey(*ctx, made[server->kind].key), 1);
    assert_int_equal(SSL_CTX_use_certificate(*ctx, server->cert), 1);
    assert_int_equal(SSL_CTX_add1_chain_cert(*ctx, made[server->kind].ca), 1);
    if (server->groups)
        assert_int_equal(SSL_CTX_set1_groups_list(*ctx, server->groups), 1);
    if (server->suite && server->version == TLS1_3_VERSION)
        assert_int_equal(SSL_CTX_set_ciphersuites(*ctx, server->suite), 1);
    else if (server->suite)
        assert_int_equal(SSL_CTX_set_cipher_list(*ctx, server->suite), 1);
    SSL *ssl = SSL_new(*ctx);
    SSL_set_accept_state(ssl);
    return ssl;
}

/* Puts them together. Have both come to an end? */
static bool join(SSL *server, SSL *client) {
    BIO *a, *b;
    assert_int_equal(BIO_new_bio_pair(&a, 0, &b, 0), 1);
    SSL_set_bio(server, a, a);
    SSL_set_bio(client, b, b);
    SSL_set_connect_state(client);
    int c = -1, d = -1;
    for (int i = 0; i < 20 && (c != 1 || d != 1); i++) {
        c = SSL_do_handshake(client);
        d = SSL_do_handshake(server);
    }
    return c == 1 && d == 1;
}

/* NULL when the client is content, else why it is not. */
static const char *shake(const struct server *as, SSL_CTX *client_ctx, const char *host) {
    SSL_CTX *ctx;
    SSL *server = new_server(as, &ctx), *client = SSL_new(client_ctx);
    char byte = 0;
    assert_int_equal(ca_upstream_prepare(client, slice_str(host), NULL), 0);
    bool joined = join(server, client);
    const char *reason = joined ? NULL : ca_upstream_reason(client);
    if (joined) {
        assert_int_equal(SSL_get_verify_result(client), X509_V_OK);
        assert_int_equal(SSL_version(client), as->version);
        assert_int_equal(SSL_write(server, "x", 1), 1);
        assert_int_equal(SSL_read(client, &byte, 1), 1);
        assert_int_equal(byte, 'x');
        assert_int_equal(SSL_write(client, "y", 1), 1);
        assert_int_equal(SSL_read(server, &byte, 1), 1);
        assert_int_equal(byte, 'y');
    } else if (!reason) {
        ERR_print_errors_fp(stderr);
        reason = "no handshake";
    }
    ERR_clear_error();
    SSL_free(server);
    SSL_free(client);
    SSL_CTX_free(ctx);
    return reason;
}

static SSL_CTX *client_of(size_t kind) {
    SSL_CTX *ctx = NULL;
    assert_int_equal(ca_upstream_new(SLICE_NONE, slice_make(made[kind].pem, made[kind].pem_n), &ctx, NULL),
                     0);
    return ctx;
}

static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

/* --- tests ---------------------------------------------------------------------------------------------- */

static void kinds_of_certificates(void **state) {
    (void)state;
    assert_non_null(libctx_tls());
    for (size_t k = 0; k < KINDS; k++)
        for (size_t v = 0; v < 2; v++) {
            SSL_CTX *client = client_of(k), *stranger = client_of((k + 1) % KINDS);
            struct server server = {.kind = k, .cert = made[k].cert, .version = versions[v]};
            assert_null(shake(&server, client, "a.test"));
            assert_string_equal(shake(&server, client, "b.test"), "hostname mismatch");
            assert_non_null(shake(&server, stranger, "a.test"));
            server.cert = made[k].expired;
            assert_string_equal(shake(&server, client, "a.test"), "certificate has expired");
            SSL_CTX_free(client);
            SSL_CTX_free(stranger);
        }
}

static void kinds_of_groups(void **state) {
    static const char *const groups[] = {"X25519", "P-256", "P-384", "P-521", "X448"};
    SSL_CTX *client = client_of(0);
    (void)state;
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++)
        for (size_t v = 0; v < 2; v++) {
            struct server server = {
                .kind = 0, .cert = made[0].cert, .version = versions[v], .groups = groups[g]};
            assert_null(shake(&server, client, "a.test"));
        }
    struct server finite = {
        .kind = 0, .cert = made[0].cert, .version = TLS1_3_VERSION, .groups = "ffdhe2048"};
    assert_null(shake(&finite, client, "a.test"));
    finite = (struct server){
        .kind = 0, .cert = made[0].cert, .version = TLS1_2_VERSION, .suite = "DHE-RSA-AES128-GCM-SHA256"};
    assert_null(shake(&finite, client, "a.test"));
    SSL_CTX_free(client);
}

static int place_in(STACK_OF(SSL_CIPHER) * suites, const SSL_CIPHER *suite) {
    for (int i = 0; i < sk_SSL_CIPHER_num(suites); i++)
        if (sk_SSL_CIPHER_value(suites, i) == suite)
            return i;
    return -1;
}

/* Every suite that the default context would offer, in default order or by the list that a system's setting may have. */
static void suites_of(const char *list, int least) {
    SSL_CTX *client = client_of(0), *standard = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_min_proto_version(standard, TLS1_2_VERSION);
    if (list) {
        assert_int_equal(SSL_CTX_set_cipher_list(client, list), 1);
        assert_int_equal(SSL_CTX_set_cipher_list(standard, list), 1);
    }
    SSL *lean = SSL_new(client), *full = SSL_new(standard);
    STACK_OF(SSL_CIPHER) *ours = SSL_get1_supported_ciphers(lean), *theirs = SSL_get1_supported_ciphers(full);
    int done = 0, last = -1;
    assert_int_equal(sk_SSL_CIPHER_num(ours), sk_SSL_CIPHER_num(theirs));
    assert_string_equal(SSL_CIPHER_get_name(sk_SSL_CIPHER_value(ours, 0)), "TLS_AES_128_GCM_SHA256");
    for (int i = 0; i < sk_SSL_CIPHER_num(ours); i++) {
        const SSL_CIPHER *suite = sk_SSL_CIPHER_value(ours, i);
        int auth = SSL_CIPHER_get_auth_nid(suite);
        bool tls13 = strcmp(SSL_CIPHER_get_version(suite), "TLSv1.3") == 0;
        int at = place_in(theirs, suite);
        assert_true(at >= 0 && (tls13 || at > last)); /* TLS 1.3 has an order of its own */
        last = tls13 ? last : at;
        if (auth != NID_auth_rsa && auth != NID_auth_ecdsa && auth != NID_auth_any)
            continue;
        size_t kind = auth == NID_auth_ecdsa ? 2 : 0;
        SSL_CTX *trusting = client_of(kind);
        if (list)
            assert_int_equal(SSL_CTX_set_cipher_list(trusting, list), 1);
        struct server server = {.kind = kind,
                                .cert = made[kind].cert,
                                .version = tls13 ? TLS1_3_VERSION : TLS1_2_VERSION,
                                .suite = SSL_CIPHER_get_name(suite)};
        assert_null(shake(&server, trusting, "a.test"));
        SSL_CTX_free(trusting);
        done++;
    }
    assert_true(done >= least);
    sk_SSL_CIPHER_free(ours);
    sk_SSL_CIPHER_free(theirs);
    SSL_free(lean);
    SSL_free(full);
    SSL_CTX_free(client);
    SSL_CTX_free(standard);
}

static void suites(void **state) {
    (void)state;
    suites_of(NULL, 11); /* DSA, which no public authority signs for, is left out */
    suites_of("ARIA:-aDSS", 4);
    suites_of("CAMELLIA:-aDSS", 4);
    suites_of("ALL:-aDSS", 20);
}

/* TLS 1.2: who asks for another handshake is told that there is none (RFC 9113 9.2.1). */
static void asks_again(SSL *who, SSL *other) {
    char byte;
    assert_true(join(SSL_is_server(who) ? who : other, SSL_is_server(who) ? other : who));
    assert_int_equal(SSL_renegotiate(who), 1);
    int told = SSL_do_handshake(who);
    for (int i = 0; i < 20 && (told > 0 || SSL_get_error(who, told) == SSL_ERROR_WANT_READ); i++) {
        assert_int_equal(SSL_read(other, &byte, 1), -1);
        told = SSL_read(who, &byte, 1);
    }
    assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_NO_RENEGOTIATION);
    ERR_clear_error();
}

static void one_handshake(void **state) {
    const struct server plain = {.kind = 0, .cert = made[0].cert, .version = TLS1_2_VERSION};
    SSL_CTX *theirs, *ours = client_of(0);
    (void)state;
    SSL *server = new_server(&plain, &theirs), *client = SSL_new(ours);
    asks_again(server, client);
    SSL_free(server);
    SSL_free(client);
    SSL_CTX_free(theirs);
    SSL_CTX_free(ours);
    ours = libctx_ssl(TLS_server_method());
    theirs = SSL_CTX_new(TLS_client_method());
    assert_int_equal(SSL_CTX_use_PrivateKey(ours, made[0].key), 1);
    assert_int_equal(SSL_CTX_use_certificate(ours, made[0].cert), 1);
    SSL_CTX_set_max_proto_version(ours, TLS1_2_VERSION);
    SSL_CTX_set_options(ours, SSL_OP_ALLOW_CLIENT_RENEGOTIATION); /* as a system's setting may */
    server = SSL_new(ours);
    client = SSL_new(theirs);
    SSL_set_accept_state(server);
    asks_again(client, server);
    SSL_free(server);
    SSL_free(client);
    SSL_CTX_free(theirs);
    SSL_CTX_free(ours);
}

/* What it is for: there is less to go through. */
static void count_cipher(EVP_CIPHER *cipher, void *arg) {
    (void)cipher;
    ++*(int *)arg;
}

static void lean(void **state) {
    int some = 0, all = 0, none = 0;
    (void)state;
    EVP_CIPHER_do_all_provided(libctx_tls(), count_cipher, &some);
    EVP_CIPHER_do_all_provided(NULL, count_cipher, &all);
    EVP_CIPHER_do_all_provided(libctx_none(), count_cipher, &none);
    assert_true(some > 5 && some < all / 3);
    assert_int_equal(none, 0);
    /* nor is a suite in the list that is never offered */
    SSL_CTX *client = client_of(0);
    SSL *ssl = SSL_new(client);
    STACK_OF(SSL_CIPHER) *offered = SSL_get1_supported_ciphers(ssl);
    assert_int_equal(sk_SSL_CIPHER_num(SSL_CTX_get_ciphers(client)), sk_SSL_CIPHER_num(offered));
    sk_SSL_CIPHER_free(offered);
    SSL_free(ssl);
    SSL_CTX_free(client);
}

static void count_keys(EVP_KEYMGMT *keys, void *arg) {
    (void)keys;
    ++*(int *)arg;
}

/* RSA, RSA-PSS and EC: what is none of these is not even looked for. */
static void lean_root(void **state) {
    int some = 0;
    (void)state;
    EVP_KEYMGMT_do_all_provided(libctx_root(), count_keys, &some);
    assert_int_equal(some, 3);
}

/* Where the system has a provider of its own choice, that is the one that is used. */
static void other_providers(void **state) {
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        SSL_CTX *ctx = NULL;
        bool good = OSSL_PROVIDER_load(NULL, "base") && OSSL_PROVIDER_load(NULL, "default") &&
                    !libctx_tls() && !libctx_root() &&
                    ca_upstream_new(SLICE_NONE, SLICE_NONE, &ctx, NULL) == 0;
        SSL_CTX_free(ctx);
        _exit(good ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_providers), /* before the context is made */
        cmocka_unit_test(kinds_of_certificates),
        cmocka_unit_test(kinds_of_groups),
        cmocka_unit_test(suites),
        cmocka_unit_test(one_handshake),
        cmocka_unit_test(lean),
        cmocka_unit_test(lean_root),
    };
    /* the host's own setting is not what is tried here */
    setenv("OPENSSL_CONF", "/dev/null", 1);
    openssl_begin(true);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
