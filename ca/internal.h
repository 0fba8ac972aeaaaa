/* What the files of ca/ share about the root. */
#ifndef CA_INTERNAL_H
#define CA_INTERNAL_H

#include <openssl/evp.h>
#include <openssl/x509v3.h>

#include "ca/root.h"

#define KEY_ID_LEN 20

struct ca_root {
    EVP_PKEY *key;
    X509 *cert;
    EVP_MD *digest;
    EVP_PKEY_CTX *signer; /* ready for any number of them: to find the algorithm takes as long as to sign */
    int64_t not_before, not_after;
    char *pem;
    size_t pem_n;

    /* what every leaf takes from the root, in DER */
    unsigned char *name; /* its subject, which is their issuer */
    int name_n;
    struct slice key_id;    /* its subject key identifier; lives in `cert` */
    struct slice algorithm; /* that it signs by */
};

/* Fills `msg` with what was tried and OpenSSL's own last reason, empties its queue, and returns ERR_CRYPTO.
 * */
int ca_crypto_error(struct errmsg *msg, const char *what);

/* 126 random bits: positive, and always of the same length. False without randomness. */
#define CA_SERIAL_LEN 16
bool ca_serial(unsigned char serial[CA_SERIAL_LEN]);
int ca_set_dates(X509 *cert, int64_t from, int64_t to);

/* The first 160 bits of the SHA-256 of the public key (RFC 7093, method 1). */
int ca_key_id(X509 *cert, unsigned char id[KEY_ID_LEN]);

/* An extension from a structure of OpenSSL's, NULL when it can't be made. */
X509_EXTENSION *ca_extension(int nid, bool critical, void *value);
X509_EXTENSION *ca_key_id_extension(const unsigned char id[KEY_ID_LEN]);
X509_EXTENSION *ca_usage_extension(int bits);

#endif
