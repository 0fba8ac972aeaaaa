/*
 * Which hosts a credential is bound to, and which fields of a request to them are taken off: what the worker
 * knows of the vault without asking, and without a secret.
 *
 * To a bound host, in whatever scheme and on whatever port, no authentication of the sandbox's own goes
 * through, whether or not the rule lends a credential: Authorization, Proxy-Authorization, the usual fields
 * for keys and tokens, the fields that the host's credentials are sent in, and those that
 * `remove` lines name (Cookie, for instance). Names are compared without regard to case and with '_' as '-',
 * since servers that hand fields on as variables can't tell these apart. The same goes for trailers.
 */
#ifndef VAULT_BINDINGS_H
#define VAULT_BINDINGS_H

#include "base/err.h"
#include "base/msg.h"
#include "base/slice.h"

struct vault;
struct bindings;
struct binding; /* one host's */

/* Writes the message VAULT_BINDINGS (vault/wire.h). 0; ERR_LIMIT: it does not fit one message, a vault
 * of thousands of hosts, and the keeper refuses to start; ERR_NOMEM. */
int bindings_put(const struct vault *v, struct msg_out *m);

/* Reads that message. 0 and what the caller frees, ERR_PEER or ERR_NOMEM. */
int bindings_get(struct msg_in *m, struct bindings **out);
void bindings_free(struct bindings *b);

/* The binding of `host` (canonical), NULL if no credential is bound to it. One hash, one comparison. `b` may
 * be NULL. */
const struct binding *bindings_find(const struct bindings *b, struct slice host);

/* Whether the field `name` of a request (header or trailer) is to be taken off on its way to that host.
 * `binding` may be NULL: false. */
bool binding_removes(const struct binding *binding, struct slice name);

/*
 * Whether the query of a request to that host carries authentication: a parameter by one of the names that
 * services take a key or a token under (access_token, private_token, api_key …), percent-encoded or not. A
 * query goes upstream in the bytes it came in, so such a request can't be mended and is to be refused.
 * `binding` may be NULL: false.
 */
bool binding_refuses_query(const struct binding *binding, struct slice query);

#endif
