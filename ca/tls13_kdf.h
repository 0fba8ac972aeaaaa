/*
 * TLS13-KDF, the key schedule of TLS 1.3 (RFC 8446 7.1), for the provider of ca/libctx.h: HKDF (RFC 5869) over SHA-256 or
 * SHA-384, which all cipher suites of TLS 1.3 have. A handshake takes twenty steps of it. OpenSSL's own looks for the digest by
 * its name and makes five objects for each, so that an eighth of a handshake's time goes there; this one finds the digests
 * once and makes nothing.
 *
 * For libssl alone, which hands all parameters over with the derivation itself. Not thread-safe.
 */
#ifndef CA_TLS13_KDF_H
#define CA_TLS13_KDF_H

#include <openssl/core.h>
#include <stdbool.h>

#define TLS13_KDF_NAME "TLS13-KDF"

/* The functions of an OSSL_ALGORITHM. */
extern const OSSL_DISPATCH tls13_kdf_functions[];

/* Finds the digests in the default context. False: they are not there, and OpenSSL's own is to be taken. */
bool tls13_kdf_begin(void);
void tls13_kdf_end(void);

#endif
