/* How a process begins with OpenSSL: to be called before anything else of it is. */
#ifndef CA_OPENSSL_H
#define CA_OPENSSL_H

#include <openssl/types.h>
#include <stdbool.h>

/*
 * Nothing is done at the exit, when all of OpenSSL goes with the process; and libcrypto's words for errors, of which it would make
 * a table of 130 KiB at the first error or none, stay away: such an error is told by its number. (Those of libssl are there.)
 * Names of ciphers and digests from before there were providers stay away, too, but for the digests that certificates name: OpenSSL
 * would put some 170 into each of its contexts, and goes through all that a context has seventeen times a handshake.
 * Its memory is base/block.h's, since it takes two buffers of a record's size for each turn of a connection, and keeps none.
 * `settings`: the host's (openssl.cnf) are read now, which is no longer possible once the process is confined.
 */
void openssl_begin(bool settings);

/* Part of it, for a further context: random numbers come from SP 800-90A's Hash_DRBG instead of its CTR_DRBG, at the same cost. That one
 * has OpenSSL make ready all ciphers that there are, to take one of them: half a millisecond of the first connection, and 140 KiB. */
void openssl_random(OSSL_LIB_CTX *ctx);

#endif
