/* How a process begins with OpenSSL: to be called before anything else of it is. */
#ifndef CA_OPENSSL_H
#define CA_OPENSSL_H

#include <stdbool.h>

/*
 * Nothing is done at the exit, when all of OpenSSL goes with the process; and libcrypto's words for errors, of which it would make
 * a table of 130 KiB at the first error or none, stay away: such an error is told by its number. (Those of libssl are there.)
 * Its memory is base/block.h's, since it takes two buffers of a record's size for each turn of a connection, and keeps none.
 * `settings`: the host's (openssl.cnf) are read now, which is no longer possible once the process is confined.
 */
void openssl_begin(bool settings);

#endif
