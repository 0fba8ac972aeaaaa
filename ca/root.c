/*
 * The root's life: made, loaded, checked, certified anew.
 *
 * The order of writing is the key first, then the certificate, and a certificate is always made from the key
 * that is there. So whatever a crash leaves behind (nothing; a key alone; both) is a beginning that the next
 * start goes on from.
 */
#include "ca/root.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ca/files.h"
#include "ca/internal.h"
#include "ca/libctx.h"

#define DAY 86400

#define OWN_ORGANIZATION "exeat"
#define OWN_NAME_PREFIX  "exeat root "

#define SECURE_HEAP 65536

/* PEM with a pass phrase is refused; without this OpenSSL would ask the terminal for it. */
static int no_pass_phrase(char *buf, int size, int rwflag, void *arg) {
    (void)buf, (void)size, (void)rwflag;
    *(bool *)arg = true;
    return -1;
}

/* --- checking ------------------------------------------------------------------------------------------- */

/* Algorithm identifiers, as they stand in a certificate. */
#define ECDSA_SHA256 "\x30\x0a\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02"
#define ECDSA_SHA384 "\x30\x0a\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x03"
#define RSA_SHA256   "\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b\x05\x00"

static int take_digest(struct ca_root *root, const char *name, struct slice algorithm, struct errmsg *msg) {
    root->digest = EVP_MD_fetch(libctx_root(), name, NULL);
    root->algorithm = algorithm;
    return root->digest ? 0 : ca_crypto_error(msg, name);
}

static int check_key_kind(struct ca_root *root, struct errmsg *msg) {
    char curve[32] = "";
    switch (EVP_PKEY_get_base_id(root->key)) {
    case EVP_PKEY_EC:
        EVP_PKEY_get_group_name(root->key, curve, sizeof curve, NULL);
        if (strcmp(curve, SN_X9_62_prime256v1) == 0)
            return take_digest(root, SN_sha256, SLICE(ECDSA_SHA256), msg);
        if (strcmp(curve, SN_secp384r1) == 0)
            return take_digest(root, SN_sha384, SLICE(ECDSA_SHA384), msg);
        break;
    case EVP_PKEY_RSA:
        if (EVP_PKEY_get_bits(root->key) >= 2048)
            return take_digest(root, SN_sha256, SLICE(RSA_SHA256), msg);
        break;
    }
    return errmsg_set(msg, ERR_UNSUPPORTED,
                      CA_KEY_FILE ": a key of a kind that clients refuse (EC P-256 or P-384, or RSA of 2048 "
                                  "bits and more, can be used)");
}

static int check_constraints(X509 *cert, struct errmsg *msg) {
    int critical = -1;
    BASIC_CONSTRAINTS *bc = X509_get_ext_d2i(cert, NID_basic_constraints, &critical, NULL);
    bool ca = bc && bc->ca;
    BASIC_CONSTRAINTS_free(bc);
    if (!ca)
        return errmsg_set(msg, ERR_PARSE, CA_CERT_FILE ": no basicConstraints CA:TRUE, so it can't sign");
    if (critical != 1)
        return errmsg_set(msg, ERR_PARSE,
                          CA_CERT_FILE ": basicConstraints is not critical; strict clients refuse it");
    ASN1_BIT_STRING *ku = X509_get_ext_d2i(cert, NID_key_usage, &critical, NULL);
    bool sign = ku && ASN1_BIT_STRING_get_bit(ku, 5);
    ASN1_BIT_STRING_free(ku);
    if (!sign)
        return errmsg_set(msg, ERR_PARSE,
                          CA_CERT_FILE ": no keyUsage with keyCertSign; strict clients refuse it");
    if (critical != 1)
        return errmsg_set(msg, ERR_PARSE,
                          CA_CERT_FILE ": keyUsage is not critical; strict clients refuse it");
    if (!X509_get0_subject_key_id(cert))
        return errmsg_set(msg, ERR_PARSE,
                          CA_CERT_FILE ": no subject key identifier; strict clients refuse it");
    return 0;
}

/* What is left after our own checks, which have better words for the common cases. */
static int check_strictly(X509 *cert, int64_t now, struct errmsg *msg) {
    int r = ERR_CRYPTO;
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    if (!store || !ctx || !X509_STORE_add_cert(store, cert) || !X509_STORE_CTX_init(ctx, store, cert, NULL)) {
        r = ca_crypto_error(msg, CA_CERT_FILE " can't be checked");
        goto out;
    }
    X509_STORE_CTX_set_flags(ctx, X509_V_FLAG_X509_STRICT | X509_V_FLAG_CHECK_SS_SIGNATURE);
    X509_STORE_CTX_set_time(ctx, 0, (time_t)now);
    if (X509_verify_cert(ctx) == 1)
        r = 0;
    else
        r = errmsg_set(msg, ERR_PARSE, CA_CERT_FILE ": %s",
                       X509_verify_cert_error_string(X509_STORE_CTX_get_error(ctx)));
out:
    ERR_clear_error();
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);
    return r;
}

static int64_t seconds_of(const ASN1_TIME *t) {
    struct tm tm;
    return t && ASN1_TIME_to_tm(t, &tm) ? (int64_t)timegm(&tm) : INT64_MIN;
}

static int check_cert(struct ca_root *root, int64_t now, struct errmsg *msg) {
    X509 *cert = root->cert;
    root->not_before = seconds_of(X509_get0_notBefore(cert));
    root->not_after = seconds_of(X509_get0_notAfter(cert));
    if (X509_check_private_key(cert, root->key) != 1) {
        ERR_clear_error();
        return errmsg_set(msg, ERR_PARSE, CA_CERT_FILE " and " CA_KEY_FILE " do not belong together");
    }
    if (X509_get_version(cert) != X509_VERSION_3)
        return errmsg_set(msg, ERR_PARSE, CA_CERT_FILE ": not an X.509 certificate of version 3");
    int r = check_constraints(cert, msg);
    if (r)
        return r;
    if (X509_self_signed(cert, 1) != 1) {
        ERR_clear_error();
        return errmsg_set(msg, ERR_PARSE,
                          CA_CERT_FILE ": not self-signed; a root is needed, no intermediate");
    }
    if (now > root->not_after)
        return errmsg_set(msg, ERR_PARSE,
                          CA_CERT_FILE " has expired: put another one there, or remove it and " CA_KEY_FILE);
    if (now < root->not_before)
        return errmsg_set(msg, ERR_PARSE, CA_CERT_FILE " is not yet valid: is this host's clock right?");
    return check_strictly(cert, now, msg);
}

/* Whether exeat made it, so that exeat may certify it anew. */
static bool own_cert(X509 *cert) {
    char o[64] = "", cn[64] = "";
    X509_NAME *name = X509_get_subject_name(cert);
    X509_NAME_get_text_by_NID(name, NID_organizationName, o, sizeof o);
    X509_NAME_get_text_by_NID(name, NID_commonName, cn, sizeof cn);
    return strcmp(o, OWN_ORGANIZATION) == 0 && strncmp(cn, OWN_NAME_PREFIX, strlen(OWN_NAME_PREFIX)) == 0;
}

/* --- making --------------------------------------------------------------------------------------------- */

static int make_key(int dirfd, struct ca_root *root, struct errmsg *msg) {
    struct secret pem = {0};
    char *bytes;
    int r = ERR_CRYPTO;
    BIO *bio = BIO_new(BIO_s_secmem());
    root->key = EVP_EC_gen("P-256");
    if (!bio || !root->key || !PEM_write_bio_PKCS8PrivateKey(bio, root->key, NULL, NULL, 0, NULL, NULL)) {
        r = ca_crypto_error(msg, "a key can't be made");
        goto out;
    }
    long n = BIO_get_mem_data(bio, &bytes);
    r = secret_set(&pem, slice_make(bytes, (size_t)n));
    secret_wipe(bytes, (size_t)n);
    if (r == 0)
        r = files_write(dirfd, CA_KEY_FILE, 0600, secret_slice(&pem), msg);
    else
        errmsg_set(msg, r, "a key can't be made: %s", err_text(r));
out:
    secret_release(&pem);
    BIO_free(bio);
    return r;
}

static int add_own_extensions(X509 *cert, const unsigned char id[KEY_ID_LEN]) {
    int ok = 0;
    BASIC_CONSTRAINTS *bc = BASIC_CONSTRAINTS_new();
    X509_EXTENSION *basic = NULL, *usage = NULL, *key_id = NULL;
    if (!bc || !(bc->pathlen = ASN1_INTEGER_new()) || !ASN1_INTEGER_set(bc->pathlen, 0))
        goto out;
    bc->ca = 0xff;
    basic = ca_extension(NID_basic_constraints, true, bc);
    usage = ca_usage_extension(KU_KEY_CERT_SIGN | KU_CRL_SIGN);
    key_id = ca_key_id_extension(id);
    ok = basic && usage && key_id && X509_add_ext(cert, basic, -1) && X509_add_ext(cert, usage, -1) &&
         X509_add_ext(cert, key_id, -1);
out:
    BASIC_CONSTRAINTS_free(bc);
    X509_EXTENSION_free(basic);
    X509_EXTENSION_free(usage);
    X509_EXTENSION_free(key_id);
    return ok;
}

static int add_own_name(X509 *cert, const unsigned char id[KEY_ID_LEN]) {
    /* the key's first bytes: roots of different hosts get different names, and one that is certified anew
     * keeps its own */
    char cn[64];
    snprintf(cn, sizeof cn, OWN_NAME_PREFIX "%02x%02x%02x%02x", id[0], id[1], id[2], id[3]);
    X509_NAME *name = X509_get_subject_name(cert);
    return X509_NAME_add_entry_by_txt(name, "O", MBSTRING_ASC, (const unsigned char *)OWN_ORGANIZATION, -1,
                                      -1, 0) &&
           X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)cn, -1, -1, 0) &&
           X509_set_issuer_name(cert, name);
}

static int make_cert(int dirfd, struct ca_root *root, int64_t now, struct errmsg *msg) {
    unsigned char id[KEY_ID_LEN], serial[CA_SERIAL_LEN];
    char *bytes;
    int r = ERR_CRYPTO;
    int64_t from = now - CA_ROOT_BACK_DAYS * DAY;
    BIO *bio = BIO_new(BIO_s_mem());
    X509 *cert = X509_new();
    if (!bio || !cert || !X509_set_version(cert, X509_VERSION_3) || !ca_serial(serial) ||
        !ASN1_STRING_set(X509_get_serialNumber(cert), serial, sizeof serial) ||
        !ca_set_dates(cert, from, from + (int64_t)CA_ROOT_DAYS * DAY) || !X509_set_pubkey(cert, root->key) ||
        !ca_key_id(cert, id) || !add_own_name(cert, id) || !add_own_extensions(cert, id) ||
        !X509_sign(cert, root->key, root->digest) || !PEM_write_bio_X509(bio, cert)) {
        r = ca_crypto_error(msg, "a root certificate can't be made");
        goto out;
    }
    long n = BIO_get_mem_data(bio, &bytes);
    r = files_write(dirfd, CA_CERT_FILE, 0644, slice_make(bytes, (size_t)n), msg);
    if (r == 0) {
        X509_free(root->cert);
        root->cert = cert;
        cert = NULL;
    }
out:
    X509_free(cert);
    BIO_free(bio);
    return r;
}

/* --- loading -------------------------------------------------------------------------------------------- */

/* What stands around the numbers of a key for P-256 in PKCS #8, as make_key writes it: version, algorithm, curve, and in it a key of
 * SEC 1 with its public point. */
#define OWN_BEFORE                                                                                           \
    "\x30\x81\x87\x02\x01\x00\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03"   \
    "\x01\x07"                                                                                               \
    "\x04\x6d\x30\x6b\x02\x01\x01\x04\x20"
#define OWN_BETWEEN "\xa1\x44\x03\x42\x00"
#define OWN_NUMBER  32
#define OWN_POINT   65

/* A key of our own form, NULL if it is of another one: OpenSSL, to find out which form it has, makes ready for all that there are, at
 * several times the cost. */
static EVP_PKEY *read_own_key(struct slice der) {
    struct slice before = SLICE(OWN_BEFORE), between = SLICE(OWN_BETWEEN);
    EVP_PKEY *key = NULL;
    if (der.n != before.n + OWN_NUMBER + between.n + OWN_POINT || !slice_starts(der, before) ||
        !slice_starts(slice_from(der, before.n + OWN_NUMBER), between))
        return NULL;
    const char *point = der.p + der.n - OWN_POINT;
    BIGNUM *number = BN_secure_new();
    OSSL_PARAM_BLD *list = OSSL_PARAM_BLD_new();
    OSSL_PARAM *params = NULL;
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(libctx_root(), "EC", NULL);
    if (ctx && list && number && BN_bin2bn((const unsigned char *)der.p + before.n, OWN_NUMBER, number) &&
        OSSL_PARAM_BLD_push_utf8_string(list, OSSL_PKEY_PARAM_GROUP_NAME, SN_X9_62_prime256v1, 0) &&
        OSSL_PARAM_BLD_push_BN(list, OSSL_PKEY_PARAM_PRIV_KEY, number) &&
        OSSL_PARAM_BLD_push_octet_string(list, OSSL_PKEY_PARAM_PUB_KEY, point, OWN_POINT) &&
        (params = OSSL_PARAM_BLD_to_param(list)) && EVP_PKEY_fromdata_init(ctx) == 1)
        (void)EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_KEYPAIR, params);
    OSSL_PARAM_free(params);
    OSSL_PARAM_BLD_free(list);
    EVP_PKEY_CTX_free(ctx);
    BN_clear_free(number);
    return key;
}

/* The traditional form says so in its head. OpenSSL, which does not know the cipher's old name (openssl.h), asks for no pass phrase. */
static bool says_encrypted(struct slice pem) {
    static const char line[] = "Proc-Type: 4,ENCRYPTED";
    return pem.n && memmem(pem.p, pem.n, line, sizeof line - 1);
}

static EVP_PKEY *read_key(struct slice pem, bool *encrypted) {
    unsigned char *der = NULL;
    long n = 0;
    EVP_PKEY *key = NULL;
    BIO *bio = BIO_new_mem_buf(pem.n ? pem.p : "", (int)pem.n);
    if (bio && PEM_bytes_read_bio_secmem(&der, &n, NULL, PEM_STRING_PKCS8INF, bio, no_pass_phrase, encrypted))
        key = read_own_key(slice_make(der, (size_t)n));
    OPENSSL_secure_clear_free(der, (size_t)n);
    if (bio && !key && BIO_reset(bio) == 1)
        key = PEM_read_bio_PrivateKey(bio, NULL, no_pass_phrase, encrypted);
    BIO_free(bio);
    *encrypted |= says_encrypted(pem);
    return key;
}

/* Is what it signs taken by its own public half? */
static int check_signing(EVP_PKEY *key) {
    static const unsigned char text[] = "?";
    unsigned char signature[2048]; /* as long as 16384 bits are */
    size_t n = sizeof signature;
    EVP_MD_CTX *sign = EVP_MD_CTX_new(), *verify = EVP_MD_CTX_new();
    int good = sign && verify &&
               EVP_DigestSignInit_ex(sign, NULL, SN_sha256, libctx_root(), NULL, key, NULL) == 1 &&
               EVP_DigestSign(sign, signature, &n, text, sizeof text) == 1 &&
               EVP_DigestVerifyInit_ex(verify, NULL, SN_sha256, libctx_root(), NULL, key, NULL) == 1 &&
               EVP_DigestVerify(verify, signature, n, text, sizeof text) == 1;
    EVP_MD_CTX_free(sign);
    EVP_MD_CTX_free(verify);
    return good;
}

/* Do a key's own two halves belong together? Only the public one is compared with the certificate, and what is signed with another
 * number no client takes. Whether the numbers of an RSA key are primes takes longer than all of a start, and nobody asks: it is tried. */
static int check_halves(struct ca_root *root, struct errmsg *msg) {
    int good;
    if (EVP_PKEY_get_base_id(root->key) == EVP_PKEY_EC) {
        EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(libctx_root(), root->key, NULL);
        good = ctx ? EVP_PKEY_pairwise_check(ctx) : -1;
        EVP_PKEY_CTX_free(ctx);
    } else {
        good = check_signing(root->key);
    }
    ERR_clear_error();
    if (good == 1)
        return 0;
    return errmsg_set(msg, ERR_PARSE,
                      CA_KEY_FILE
                      ": its private half does not belong to its public one: put the right key there, "
                      "or remove it and " CA_CERT_FILE " and both are made anew");
}

static int load_key(int dirfd, struct ca_root *root, struct errmsg *msg) {
    struct secret pem = {0};
    bool encrypted = false;
    int r = files_read(dirfd, CA_KEY_FILE, CA_PEM_MAX - 1, true, &pem, msg);
    if (r)
        return r;
    root->key = read_key(secret_slice(&pem), &encrypted);
    secret_release(&pem);
    ERR_clear_error();
    if (root->key) {
        r = check_key_kind(root, msg);
        return r ? r : check_halves(root, msg);
    }
    if (encrypted)
        return errmsg_set(msg, ERR_UNSUPPORTED,
                          CA_KEY_FILE " is encrypted; exeat has no way to ask for a pass phrase");
    return errmsg_set(msg, ERR_PARSE,
                      CA_KEY_FILE
                      " holds no private key in PEM: put the right key there, or remove it and " CA_CERT_FILE
                      " and both are made anew");
}

static int load_cert(int dirfd, struct ca_root *root, struct errmsg *msg) {
    struct secret pem = {0};
    int r = files_read(dirfd, CA_CERT_FILE, CA_PEM_MAX - 1, false, &pem, msg);
    if (r)
        return r;
    BIO *bio = BIO_new_mem_buf(pem.n ? pem.bytes : "", (int)pem.n);
    X509 *cert = X509_new_ex(libctx_root(), NULL);
    if (bio && cert && PEM_read_bio_X509(bio, &cert, NULL, NULL)) {
        root->cert = cert;
        cert = NULL;
    }
    X509_free(cert);
    BIO_free(bio);
    secret_release(&pem);
    ERR_clear_error();
    return root->cert ? 0 : errmsg_set(msg, ERR_PARSE, CA_CERT_FILE " holds no certificate in PEM");
}

/* With the lock held. */
static int load_or_make(int dirfd, struct ca_root *root, int64_t now, struct errmsg *msg) {
    int cert = load_cert(dirfd, root, msg);
    if (cert && cert != ERR_NOTFOUND)
        return cert;
    int r = load_key(dirfd, root, msg);
    if (r == ERR_NOTFOUND && cert == 0)
        return errmsg_set(msg, ERR_NOTFOUND,
                          CA_CERT_FILE " is there, but " CA_KEY_FILE
                                       " is not: put it back, or remove " CA_CERT_FILE
                                       " and both are made anew");
    if (r == ERR_NOTFOUND) {
        r = make_key(dirfd, root, msg);
        if (r == 0)
            r = check_key_kind(root, msg);
    }
    if (r)
        return r;
    if (cert == ERR_NOTFOUND)
        r = make_cert(dirfd, root, now, msg);
    else if (own_cert(root->cert) && X509_check_private_key(root->cert, root->key) == 1 &&
             seconds_of(X509_get0_notAfter(root->cert)) < now + (int64_t)CA_RENEW_DAYS * DAY)
        r = make_cert(dirfd, root, now, msg);
    ERR_clear_error();
    return r ? r : check_cert(root, now, msg);
}

static int keep_pem(struct ca_root *root, struct errmsg *msg) {
    char *bytes;
    int r = 0;
    BIO *bio = BIO_new(BIO_s_mem());
    if (!bio || !PEM_write_bio_X509(bio, root->cert)) {
        r = ca_crypto_error(msg, CA_CERT_FILE);
        goto out;
    }
    root->pem_n = (size_t)BIO_get_mem_data(bio, &bytes);
    root->pem = malloc(root->pem_n);
    if (root->pem)
        memcpy(root->pem, bytes, root->pem_n);
    else
        r = ERR_NOMEM;
out:
    BIO_free(bio);
    return r;
}

/* What all leaves take from the root. */
static int keep_parts(struct ca_root *root, struct errmsg *msg) {
    const ASN1_OCTET_STRING *id = X509_get0_subject_key_id(root->cert);
    root->key_id = slice_make(ASN1_STRING_get0_data(id), (size_t)ASN1_STRING_length(id));
    root->name_n = i2d_X509_NAME(X509_get_subject_name(root->cert), &root->name);
    root->signer = EVP_PKEY_CTX_new_from_pkey(libctx_root(), root->key, NULL);
    /* ECDSA takes any digest; to be told which, it would have OpenSSL make ready all those of the default context */
    if (root->name_n <= 0 || !root->signer || EVP_PKEY_sign_init(root->signer) != 1 ||
        (EVP_PKEY_get_base_id(root->key) == EVP_PKEY_RSA &&
         EVP_PKEY_CTX_set_signature_md(root->signer, root->digest) != 1))
        return ca_crypto_error(msg, "the parts of a certificate can't be made");
    return 0;
}

int ca_root_open(int dirfd, int64_t now, struct ca_root **out, struct errmsg *msg) {
    int lock = -1;
    /* the numbers of a private key then live in locked pages that no core dump holds; where that fails the
     * heap serves */
    if (!CRYPTO_secure_malloc_initialized())
        (void)CRYPTO_secure_malloc_init(SECURE_HEAP, 32);
    struct ca_root *root = calloc(1, sizeof *root);
    int r = root ? files_check_dir(dirfd, msg) : errmsg_set(msg, ERR_NOMEM, "out of memory");
    if (r == 0)
        r = files_lock(dirfd, &lock, msg);
    if (r == 0)
        r = load_or_make(dirfd, root, now, msg);
    if (r == 0)
        r = keep_pem(root, msg);
    if (r == 0)
        r = keep_parts(root, msg);
    if (lock >= 0)
        close(lock);
    if (r) {
        ca_root_free(root);
        root = NULL;
    }
    *out = root;
    return r;
}

void ca_root_free(struct ca_root *root) {
    if (!root)
        return;
    EVP_PKEY_CTX_free(root->signer);
    OPENSSL_free(root->name);
    X509_free(root->cert);
    EVP_PKEY_free(root->key);
    EVP_MD_free(root->digest);
    free(root->pem);
    free(root);
}

struct slice ca_root_pem(const struct ca_root *root) {
    return slice_make(root->pem, root->pem_n);
}

uint32_t ca_root_hash(const struct ca_root *root) {
    return (uint32_t)X509_NAME_hash_ex(X509_get_subject_name(root->cert), libctx_root(), NULL, NULL);
}
