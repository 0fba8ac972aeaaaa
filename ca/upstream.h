/*
 * The client side of TLS: a context that trusts the host's roots and --upstream-ca, for all connections of a
 * process. There is no way to make one that does not verify.
 */
#ifndef CA_UPSTREAM_H
#define CA_UPSTREAM_H

#include <openssl/ssl.h>

#include "base/err.h"
#include "base/slice.h"

/*
 * A context with the roots of `roots` and `extra` (PEM, any number; see ca/bundle.h), which are borrowed for as
 * long as it lives: no file is read, so it may be made after confinement. TLS 1.2 or better, verification on, client session cache without
 * internal storage (set SSL_CTX_sess_set_new_cb to keep sessions; hand them to ca_upstream_prepare). Returns 0
 * and a context that the caller frees by SSL_CTX_free, or ERR_CRYPTO. What is no certificate in them is passed over.
 */
int ca_upstream_new(struct slice roots, struct slice extra, SSL_CTX **out, struct errmsg *msg) MUST_CHECK;

/*
 * Readies one connection to `host` (canonical, base/url.h): the server's certificate must name it (a name:
 * DNS names of subjectAltName, wildcards for a whole left-most label; an address: its IP names); SNI is sent
 * for a name, not for an address. `session` (may be NULL) is offered for resumption; it must come from a
 * connection to the same host and port, or be one of ca_upstream_session_also: what is resumed is not verified
 * again. Returns 0, ERR_PARSE (no host) or ERR_CRYPTO.
 */
int ca_upstream_prepare(SSL *ssl, struct slice host, SSL_SESSION *session) MUST_CHECK;

/* Whether a handshake that was good is good for the name `host` (canonical) as well: what the server's certificate names is
 * looked at as ca_upstream_prepare has it done, and it has not expired since. False for an address. */
bool ca_upstream_also(const SSL *ssl, struct slice host) MUST_CHECK;
/* … of a session of it, which may be given to ca_upstream_prepare for `host` then, if the server is the same. */
bool ca_upstream_session_also(SSL_SESSION *session, struct slice host) MUST_CHECK;

/* After a failed handshake: why the certificate was refused ("certificate has expired", "hostname mismatch"),
 * or NULL if that was not the reason. */
const char *ca_upstream_reason(const SSL *ssl);
/* … and what the operator can do about it. Never NULL. */
const char *ca_upstream_advice(const SSL *ssl);

#endif
