/*
 * Roots that are read when they are asked for. Internal to ca/.
 *
 * OpenSSL takes a quarter of a millisecond to read a certificate, and a host has a hundred and fifty roots,
 * of which a process meets three. So the store is given none, but a look-up (as OpenSSL's own for
 * directories) that finds a root by its subject in memory and reads it then. No file is opened, so it works
 * in a process that can open none. Their text itself is not looked at before the first such question: most
 * processes of short-lived sandboxes never have one.
 */
#ifndef CA_TRUST_H
#define CA_TRUST_H

#include <openssl/x509.h>

#include "base/slice.h"

/* Adds a look-up in `pem` and `extra` to the store, which owns it. Both texts are borrowed for as long as the store lives. 0,
 * ERR_NOMEM or ERR_CRYPTO. */
int trust_add(X509_STORE *store, struct slice pem, struct slice extra);

#endif
