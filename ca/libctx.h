/*
 * OpenSSL's library contexts with fewer algorithms than the default one has. What OpenSSL 3 does for a handshake grows
 * with how many there are: to find a decoder for the public key of a certificate it goes through all that the
 * context has, ciphers and digests too, each time. In the default context that costs as much as to verify the
 * certificate's signature.
 *
 * The algorithms themselves are those of OpenSSL's default provider, passed on. Each context is made once, when it is
 * first asked for, and lives as long as the process. No file is opened, so this works after confinement. Not
 * thread-safe.
 */
#ifndef CA_LIBCTX_H
#define CA_LIBCTX_H

#include <openssl/ssl.h>

/*
 * What TLS 1.2 and 1.3 need, and no more: for an SSL_CTX of either side, and for the certificates that are verified in
 * it. Keys are neither read from files nor written with it.
 *
 * NULL, which OpenSSL takes for the default context, where the system is set up to use other providers than the default
 * one, or FIPS, or when the context can't be made: all works with that too.
 */
OSSL_LIB_CTX *libctx_tls(void);

/*
 * A context for connections in it, with what both sides want: TLS 1.2 or better, no renegotiation, no compression,
 * buffers that go back, partial writes, and AES of 128 bits before 256 where TLS 1.3 has both (as browsers and RFC 8446
 * have it: it is as good for any key exchange that we do, and its handshake and records cost less). What the system
 * forbids stays forbidden. The caller frees it; NULL when it can't be made.
 */
SSL_CTX *libctx_ssl(const SSL_METHOD *method);

/*
 * What a root (ca/root.h) is read, checked and signed with. To read a certificate OpenSSL makes ready each algorithm of a kind that
 * it needs one of, and keeps it: in the default context that is 90 KiB. NULL as for libctx_tls.
 */
OSSL_LIB_CTX *libctx_root(void);

/*
 * Nothing at all: a certificate that is read in it keeps its public key as bytes. NULL when it can't be made: the default
 * context does for that too, only slower.
 */
OSSL_LIB_CTX *libctx_none(void);

#endif
