/* Walking the certificates of a PEM text, and writing one. Internal to ca/. */
#ifndef CA_PEM_H
#define CA_PEM_H

#include "base/buf.h"
#include "base/slice.h"

/*
 * Calls `each` for every certificate in `pem` (blocks CERTIFICATE, X509 CERTIFICATE and TRUSTED CERTIFICATE,
 * of the last without OpenSSL's own trust settings) until it returns something other than 0, which is
 * returned; else 0. `der` is borrowed for the call. Other blocks, and what has not the outer form of a
 * certificate, are passed over. More than the form is not looked at: reading a hundred certificates whole,
 * keys and all, takes OpenSSL tens of milliseconds, and reading their text by its BIOs several.
 */
int pem_each(struct slice pem, int (*each)(void *arg, struct slice der), void *arg);

/* Appends a certificate as a block CERTIFICATE. 0, or what the buffer has failed with. */
int pem_put(struct buf *out, struct slice der);

/* The subject's name in a certificate, in DER; empty if it is not there. */
struct slice pem_subject(struct slice der);

#endif
