/*
 * Leaves: everything in them comes from a name that was checked here, a public key, and the root.
 *
 * They are written as bytes, not by way of OpenSSL's structures: beside the signature, which nothing can
 * spare, that costs next to nothing, while encoding through the library takes ten times as long as the
 * signature. RFC 5280, section 4.1, is the plan; members are written last to first (ca/der.h).
 */
#include <openssl/sha.h>

#include "base/addr.h"
#include "base/url.h"
#include "ca/der.h"
#include "ca/internal.h"

#define DAY 86400

/* A common name is at most this long (X.520). */
#define COMMON_NAME_MAX 64

/* Object identifiers, encoded. */
#define OID_COMMON_NAME  "\x55\x04\x03"
#define OID_ORGANIZATION "\x55\x04\x0a"
#define OID_KEY_ID       "\x55\x1d\x0e"
#define OID_KEY_USAGE    "\x55\x1d\x0f"
#define OID_ALT_NAME     "\x55\x1d\x11"
#define OID_AUTHORITY    "\x55\x1d\x23"
#define OID_EXT_USAGE    "\x55\x1d\x25"
#define OID_SERVER_AUTH  "\x2b\x06\x01\x05\x05\x07\x03\x01"

/* The whole extensions that are the same in each leaf: keyUsage digitalSignature, critical; extendedKeyUsage
 * serverAuth. */
#define KEY_USAGE "\x30\x0e\x06\x03" OID_KEY_USAGE "\x01\x01\xff\x04\x04\x03\x02\x07\x80"
#define EXT_USAGE "\x30\x13\x06\x03" OID_EXT_USAGE "\x04\x0c\x30\x0a\x06\x08" OID_SERVER_AUTH

/* --- the subject's key ---------------------------------------------------------------------------------- */

/* What stands before the point in the public key of a P-256 key: SEQUENCE { SEQUENCE { id-ecPublicKey,
 * prime256v1 }, BIT STRING of 65 bytes that begin with 4, not compressed }. */
#define SPKI_HEAD                                                                                            \
    "\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42"   \
    "\x00"
#define POINT_LEN 65

/* The identifier of a public key. It comes from a worker, which may have been taken over, so it is not given
 * to any parser: there is one form that it can have. Whether the point is on the curve matters to nobody but
 * that worker. False if it is no such key. */
static bool key_id(struct slice spki, unsigned char id[SHA256_DIGEST_LENGTH]) {
    struct slice point = slice_from(spki, sizeof SPKI_HEAD - 1);
    if (!slice_starts(spki, SLICE(SPKI_HEAD)) || point.n != POINT_LEN || point.p[0] != 4)
        return false;
    return SHA256((const unsigned char *)point.p, point.n, id) != NULL;
}

/* --- parts of a certificate ----------------------------------------------------------------------------- */

/* One attribute. Never empty: without a subject strict clients want a critical subjectAltName, which lax ones
 * trip over. */
static void put_subject(struct der *d, struct slice bare) {
    bool fits = bare.n <= COMMON_NAME_MAX;
    size_t mark = der_mark(d);
    der_value(d, DER_UTF8_STRING, fits ? bare : SLICE("exeat"));
    der_value(d, DER_OID, fits ? SLICE(OID_COMMON_NAME) : SLICE(OID_ORGANIZATION));
    der_wrap(d, DER_SEQUENCE, mark);
    der_wrap(d, DER_SET, mark);
    der_wrap(d, DER_SEQUENCE, mark);
}

/* An extension that is not critical; its value was written since `mark`. */
static void end_extension(struct der *d, struct slice oid, size_t mark) {
    der_wrap(d, DER_OCTET_STRING, mark);
    der_value(d, DER_OID, oid);
    der_wrap(d, DER_SEQUENCE, mark);
}

/* subjectAltName: one name, or one address. */
static void put_alt_name(struct der *d, const struct url_host *host) {
    struct addr addr;
    struct slice bare = url_host_bare(host);
    size_t mark = der_mark(d);
    if (host->kind == URL_HOST_NAME)
        der_value(d, DER_CONTEXT(2), bare);
    else if (!addr_parse(bare, 0, &addr))
        d->failed = true;
    else if (addr.sa.sa_family == AF_INET)
        der_value(d, DER_CONTEXT(7), slice_make(&addr.in.sin_addr, 4));
    else
        der_value(d, DER_CONTEXT(7), slice_make(&addr.in6.sin6_addr, 16));
    der_wrap(d, DER_SEQUENCE, mark);
    end_extension(d, SLICE(OID_ALT_NAME), mark);
}

static void put_extensions(struct der *d, const struct ca_root *root, const struct url_host *host,
                           const unsigned char *id) {
    size_t all = der_mark(d), mark = all;
    der_value(d, DER_CONTEXT(0), root->key_id);
    der_wrap(d, DER_SEQUENCE, mark);
    end_extension(d, SLICE(OID_AUTHORITY), mark);
    mark = der_mark(d);
    der_value(d, DER_OCTET_STRING, slice_make(id, KEY_ID_LEN));
    end_extension(d, SLICE(OID_KEY_ID), mark);
    der_put(d, SLICE(EXT_USAGE));
    der_put(d, SLICE(KEY_USAGE));
    put_alt_name(d, host);
    der_wrap(d, DER_SEQUENCE, all);
    der_wrap(d, DER_CONTEXT_OF(3), all);
}

static void put_serial(struct der *d) {
    unsigned char serial[CA_SERIAL_LEN];
    if (!ca_serial(serial))
        d->failed = true;
    der_value(d, DER_INTEGER, slice_make(serial, sizeof serial));
}

/* What is signed. */
static void put_body(struct der *d, const struct ca_root *root, const struct url_host *host,
                     struct slice spki, const unsigned char *id, int64_t from, int64_t to) {
    size_t all = der_mark(d), mark;
    put_extensions(d, root, host, id);
    der_put(d, spki);
    put_subject(d, url_host_bare(host));
    mark = der_mark(d);
    der_time(d, to);
    der_time(d, from);
    der_wrap(d, DER_SEQUENCE, mark);
    der_put(d, slice_make(root->name, (size_t)root->name_n));
    der_put(d, root->algorithm);
    put_serial(d);
    der_put(d, SLICE("\xa0\x03\x02\x01\x02")); /* version 3 */
    der_wrap(d, DER_SEQUENCE, all);
}

/* --- the whole ------------------------------------------------------------------------------------------ */

/* Signs `body` and appends the certificate to `out`. */
static int put_signed(struct ca_root *root, struct slice body, struct buf *out, struct errmsg *msg) {
    unsigned char bytes[CA_DER_MAX], hash[EVP_MAX_MD_SIZE], signature[1024];
    struct der d = {.bytes = bytes, .cap = sizeof bytes, .at = sizeof bytes};
    size_t n = sizeof signature;
    unsigned hash_n;
    if (EVP_Digest(body.p, body.n, hash, &hash_n, root->digest, NULL) != 1 ||
        EVP_PKEY_sign(root->signer, signature, &n, hash, hash_n) != 1)
        return ca_crypto_error(msg, "a certificate can't be signed");
    size_t mark = der_mark(&d);
    der_put(&d, slice_make(signature, n));
    der_byte(&d, 0); /* bits that are not used */
    der_wrap(&d, DER_BIT_STRING, mark);
    der_put(&d, root->algorithm);
    der_put(&d, body);
    der_wrap(&d, DER_SEQUENCE, mark);
    int r = d.failed ? ERR_LIMIT : buf_put(out, der_slice(&d));
    return r ? errmsg_set(msg, r, "a certificate: %s", err_text(r)) : 0;
}

int ca_mint_for(struct ca_root *root, struct slice name, struct slice spki, int64_t now, int64_t life,
                struct buf *der, struct errmsg *msg) {
    struct url_host host;
    unsigned char bytes[CA_DER_MAX], id[SHA256_DIGEST_LENGTH];
    struct der d = {.bytes = bytes, .cap = sizeof bytes, .at = sizeof bytes};
    if (url_host_parse(name, &host, NULL) || !slice_eq(url_host_slice(&host), name))
        return errmsg_set(msg, ERR_PARSE, "no canonical host name");
    if (!key_id(spki, id))
        return errmsg_set(msg, ERR_PARSE, "no public key that could be certified");

    int64_t from = now - (int64_t)CA_LEAF_BACK_DAYS * DAY, to = now + life;
    from = from < root->not_before ? root->not_before : from;
    to = to > root->not_after ? root->not_after : to;
    if (from >= to || to <= now)
        return errmsg_set(msg, ERR_CRYPTO, "the root certificate has expired: start exeat again");
    put_body(&d, root, &host, spki, id, from, to);
    if (d.failed)
        return errmsg_set(msg, ERR_LIMIT, "the certificate would be too long");
    return put_signed(root, der_slice(&d), der, msg);
}

int ca_mint(struct ca_root *root, struct slice name, struct slice spki, int64_t now, struct buf *der,
            struct errmsg *msg) {
    return ca_mint_for(root, name, spki, now, (int64_t)(CA_LEAF_DAYS - CA_LEAF_BACK_DAYS) * DAY, der, msg);
}
