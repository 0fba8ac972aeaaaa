/*
 * What is read without OpenSSL's decoders. To read a public key, or a private one, OpenSSL 3.0 goes through all decoders that it has: 150 us
 * for each key, several times the cost of minting, and a millisecond more for the first. In a library context that has
 * none (no algorithms at all) a certificate is read without its key, which then is compared byte by byte with the one that
 * is at hand, and a private key in the manner of earlier versions. What is read so is used like any other, while the context lives.
 */
#ifndef CA_BARE_H
#define CA_BARE_H

#include <openssl/provider.h>
#include <openssl/x509.h>

#include "base/slice.h"

struct bare {
    OSSL_LIB_CTX *ctx;
    OSSL_PROVIDER *none; /* in it */
};

bool bare_open(struct bare *b);
void bare_close(struct bare *b); /* after all that was read in it; also good on a zero-initialised one */

/* A certificate in DER, all of `der`, with `key` as its public key, if that is what it has (`spki` is it in DER); or NULL. With no `key`
 * it is left without one. */
X509 *bare_cert(const struct bare *b, struct slice der, EVP_PKEY *key, struct slice spki);
/* Gives a certificate `key` as its public key, if that is what it has. */
bool bare_cert_has(X509 *cert, EVP_PKEY *key, struct slice spki);

/* A private key in unencrypted PKCS #8, in PEM; or NULL, also where OpenSSL would read it in another way. */
EVP_PKEY *bare_key(const struct bare *b, struct slice pem);

#endif
