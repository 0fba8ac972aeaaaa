/* Leaves: everything in them comes from a name that was checked here, a public key, and the root. */
#include <openssl/err.h>

#include "base/addr.h"
#include "base/url.h"
#include "ca/internal.h"

#define DAY 86400

/* A common name is at most this long (X.520). */
#define COMMON_NAME_MAX 64

static void forget_key(struct ca_subject_key *k) {
    EVP_PKEY_free(k->key);
    X509_EXTENSION_free(k->key_id);
    *k = (struct ca_subject_key){0};
}

/* The public key in `spki`, read once and kept. */
static struct ca_subject_key *subject_key(struct ca_root *root, struct slice spki, struct errmsg *msg) {
    for (size_t i = 0; i < CA_KEYS; i++)
        if (root->keys[i].n && slice_eq(slice_make(root->keys[i].spki, root->keys[i].n), spki))
            return &root->keys[i];
    struct ca_subject_key *k = &root->keys[root->next_key];
    root->next_key = (root->next_key + 1) % CA_KEYS;
    forget_key(k);

    unsigned char id[KEY_ID_LEN];
    const unsigned char *p = (const unsigned char *)spki.p;
    X509 *scratch = X509_new();
    if (spki.n && spki.n <= CA_SPKI_MAX)
        k->key = d2i_PUBKEY(NULL, &p, (long)spki.n);
    if (k->key && p == (const unsigned char *)spki.p + spki.n && scratch &&
        X509_set_pubkey(scratch, k->key) && ca_key_id(scratch, id) && (k->key_id = ca_key_id_extension(id))) {
        memcpy(k->spki, spki.p, spki.n);
        k->n = spki.n;
    } else {
        forget_key(k);
        errmsg_set(msg, ERR_PARSE, "no public key that could be certified");
        ERR_clear_error();
        k = NULL;
    }
    X509_free(scratch);
    return k;
}

/* subjectAltName: one name, or one address. */
static X509_EXTENSION *alt_name(const struct url_host *host) {
    X509_EXTENSION *ext = NULL;
    struct addr addr;
    bool name = host->kind == URL_HOST_NAME;
    struct slice bare = url_host_bare(host);
    GENERAL_NAMES *all = GENERAL_NAMES_new();
    GENERAL_NAME *one = GENERAL_NAME_new();
    ASN1_STRING *value = name ? ASN1_IA5STRING_new() : ASN1_OCTET_STRING_new();
    if (!all || !one || !value)
        goto out;
    if (name) {
        if (!ASN1_STRING_set(value, bare.p, (int)bare.n))
            goto out;
    } else {
        if (!addr_parse(bare, 0, &addr))
            goto out;
        bool v4 = addr.sa.sa_family == AF_INET;
        const void *bytes = v4 ? (const void *)&addr.in.sin_addr : (const void *)&addr.in6.sin6_addr;
        if (!ASN1_STRING_set(value, bytes, v4 ? 4 : 16))
            goto out;
    }
    GENERAL_NAME_set0_value(one, name ? GEN_DNS : GEN_IPADD, value);
    value = NULL;
    if (!sk_GENERAL_NAME_push(all, one))
        goto out;
    one = NULL;
    ext = ca_extension(NID_subject_alt_name, false, all);
out:
    ASN1_STRING_free(value);
    GENERAL_NAME_free(one);
    GENERAL_NAMES_free(all);
    return ext;
}

/* Never empty: with an empty one strict clients want a critical subjectAltName, which lax ones trip over. */
static int set_subject(X509 *cert, struct slice bare) {
    const char *field = bare.n <= COMMON_NAME_MAX ? "CN" : "O";
    struct slice value = bare.n <= COMMON_NAME_MAX ? bare : SLICE("exeat");
    return X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), field, MBSTRING_ASC,
                                      (const unsigned char *)value.p, (int)value.n, -1, 0);
}

static X509 *build(struct ca_root *root, const struct url_host *host, const struct ca_subject_key *k,
                   int64_t from, int64_t to) {
    X509 *cert = X509_new();
    X509_EXTENSION *alt = alt_name(host);
    if (cert && alt && X509_set_version(cert, X509_VERSION_3) && ca_set_serial(cert) &&
        X509_set_issuer_name(cert, X509_get_subject_name(root->cert)) &&
        set_subject(cert, url_host_bare(host)) && ca_set_dates(cert, from, to) &&
        X509_set_pubkey(cert, k->key) && X509_add_ext(cert, alt, -1) && X509_add_ext(cert, root->usage, -1) &&
        X509_add_ext(cert, root->extended, -1) && X509_add_ext(cert, k->key_id, -1) &&
        X509_add_ext(cert, root->authority, -1) && X509_sign(cert, root->key, root->digest)) {
        X509_EXTENSION_free(alt);
        return cert;
    }
    X509_EXTENSION_free(alt);
    X509_free(cert);
    return NULL;
}

int ca_mint_for(struct ca_root *root, struct slice name, struct slice spki, int64_t now, int64_t life,
                struct buf *der, struct errmsg *msg) {
    struct url_host host;
    int r = url_host_parse(name, &host, msg);
    if (r || !slice_eq(url_host_slice(&host), name))
        return errmsg_set(msg, ERR_PARSE, "no canonical host name");
    struct ca_subject_key *k = subject_key(root, spki, msg);
    if (!k)
        return ERR_PARSE;

    int64_t from = now - (int64_t)CA_LEAF_BACK_DAYS * DAY, to = now + life;
    from = from < root->not_before ? root->not_before : from;
    to = to > root->not_after ? root->not_after : to;
    if (from >= to || to <= now)
        return errmsg_set(msg, ERR_CRYPTO, "the root certificate has expired: start exeat again");

    X509 *cert = build(root, &host, k, from, to);
    int n = cert ? i2d_X509(cert, NULL) : -1;
    char *room;
    if (n <= 0) {
        r = ca_crypto_error(msg, "a certificate can't be made");
    } else if (n > CA_DER_MAX) {
        r = errmsg_set(msg, ERR_LIMIT, "the certificate would be too long");
    } else if ((r = buf_reserve(der, (size_t)n, &room)) == 0) {
        unsigned char *p = (unsigned char *)room;
        buf_commit(der, (size_t)i2d_X509(cert, &p));
    } else {
        errmsg_set(msg, r, "the certificate: %s", err_text(r));
    }
    X509_free(cert);
    return r;
}

int ca_mint(struct ca_root *root, struct slice name, struct slice spki, int64_t now, struct buf *der,
            struct errmsg *msg) {
    return ca_mint_for(root, name, spki, now, (int64_t)(CA_LEAF_DAYS - CA_LEAF_BACK_DAYS) * DAY, der, msg);
}
