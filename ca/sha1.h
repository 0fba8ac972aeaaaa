/*
 * SHA-1 (RFC 3174), for the digest of a Java key store, which guards against accidents and not against people. Nothing else may use it.
 * OpenSSL has it too, and the supervisor, which has no other use for OpenSSL, would be loaded with it at every start.
 */
#ifndef CA_SHA1_H
#define CA_SHA1_H

#include "base/slice.h"

#define SHA1_SIZE 20

/* Of `n` texts as if they were one. */
void sha1_of(const struct slice *texts, size_t n, unsigned char out[SHA1_SIZE]);

#endif
