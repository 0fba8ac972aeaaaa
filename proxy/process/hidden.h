/*
 * What no sandbox may see of what exeat works with: the files that hold secrets, a log that was named, the socket of Redis, the variables
 * that secrets were read from. Names alone.
 *
 * A service tells it to whoever joins, who makes the sandbox (service_wire.h).
 */
#ifndef PROXY_PROCESS_HIDDEN_H
#define PROXY_PROCESS_HIDDEN_H

#include "base/err.h"
#include "base/msg.h"
#include "vault/vault.h"

#define HIDDEN_MAX (VAULT_CREDENTIALS_MAX + 2) /* of a kind: a source each, the vault's file, a log */

/* Lists of strings, each ended by NULL; NULL: none. Zero is a good beginning. */
struct hidden {
    char **files; /* absolute paths */
    size_t nfiles;
    char **variables;
    size_t nvariables;
    char redis_path[108]; /* of the unix socket of Redis, which need not be there yet; "": none */
};

/* Of the vault's file `vault_path` and its sources (`vault` NULL: none), and of a log (NULL: it is in the state directory). 0, or an
 * error with a message: ERR_USAGE, a secret has a second name; then, too, hidden_release is due. */
int hidden_collect(struct hidden *h, const char *vault_path, const struct vault *vault, const char *log,
                   struct errmsg *msg) MUST_CHECK;

/* As fields of a message, and back: u32 n, n × str file, u32 n, n × str variable, str redis path. Whether the message was well-formed
 * msg_end tells; hidden_get: 0 or ERR_NOMEM, or ERR_PEER. */
void hidden_put(const struct hidden *h, struct msg_out *m);
int hidden_get(struct hidden *h, struct msg_in *m) MUST_CHECK;

void hidden_release(struct hidden *h);

#endif
