/* Walking the certificates of a PEM text. Internal to ca/. */
#ifndef CA_PEM_H
#define CA_PEM_H

#include <openssl/x509.h>

#include "base/slice.h"

/* Calls `each` for every certificate in `pem` (blocks CERTIFICATE, X509 CERTIFICATE and TRUSTED CERTIFICATE;
 * others, and what can't be read, are passed over) until it returns something other than 0, which is
 * returned; else 0. `cert` is borrowed for the call. */
int pem_each(struct slice pem, int (*each)(void *arg, X509 *cert), void *arg);

#endif
