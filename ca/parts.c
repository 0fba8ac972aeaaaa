/* The parts that a root and a leaf are made of. */
#include "ca/internal.h"

#include <openssl/err.h>
#include <openssl/rand.h>

int ca_crypto_error(struct errmsg *msg, const char *what) {
    unsigned long e = ERR_peek_last_error();
    const char *reason = e ? ERR_reason_error_string(e) : "OpenSSL gives no reason";
    if (reason)
        errmsg_set(msg, ERR_CRYPTO, "%s: %s", what, reason);
    else /* its words are not loaded */
        errmsg_set(msg, ERR_CRYPTO, "%s: OpenSSL's error %lX (openssl errstr)", what, e);
    ERR_clear_error();
    return ERR_CRYPTO;
}

bool ca_serial(unsigned char serial[CA_SERIAL_LEN]) {
    if (RAND_bytes(serial, CA_SERIAL_LEN) != 1)
        return false;
    /* the top bit clear: positive without a leading zero byte; the next one set: never shorter */
    serial[0] = (unsigned char)((serial[0] & 0x7f) | 0x40);
    return true;
}

int ca_set_dates(X509 *cert, int64_t from, int64_t to) {
    return ASN1_TIME_set(X509_getm_notBefore(cert), (time_t)from) != NULL &&
           ASN1_TIME_set(X509_getm_notAfter(cert), (time_t)to) != NULL;
}

int ca_key_id(X509 *cert, unsigned char id[KEY_ID_LEN]) {
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    if (X509_pubkey_digest(cert, EVP_sha256(), md, &n) != 1 || n < KEY_ID_LEN)
        return 0;
    memcpy(id, md, KEY_ID_LEN);
    return 1;
}

X509_EXTENSION *ca_extension(int nid, bool critical, void *value) {
    return value ? X509V3_EXT_i2d(nid, critical, value) : NULL;
}

X509_EXTENSION *ca_key_id_extension(const unsigned char id[KEY_ID_LEN]) {
    X509_EXTENSION *ext = NULL;
    ASN1_OCTET_STRING *s = ASN1_OCTET_STRING_new();
    if (s && ASN1_OCTET_STRING_set(s, id, KEY_ID_LEN))
        ext = ca_extension(NID_subject_key_identifier, false, s);
    ASN1_OCTET_STRING_free(s);
    return ext;
}

X509_EXTENSION *ca_usage_extension(int bits) {
    X509_EXTENSION *ext = NULL;
    ASN1_BIT_STRING *s = ASN1_BIT_STRING_new();
    bool ok = s != NULL;
    for (int bit = 0; ok && bit < 8; bit++)
        if (bits & 0x80 >> bit)
            ok = ASN1_BIT_STRING_set_bit(s, bit, 1);
    if (ok)
        ext = ca_extension(NID_key_usage, true, s);
    ASN1_BIT_STRING_free(s);
    return ext;
}
