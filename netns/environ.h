/*
 * The command's environment: the caller's, with three differences.
 *
 *   - Variables that replace a client's trusted roots point at the bundle (system's roots and ours), those that add to
 *     them at our root alone. A file that such a variable named already is not lost: the caller puts its roots into the bundle
 *     (environ_roots tells which files).
 *   - Variables that lead to something exeat keeps away are gone: agents, buses, container engines, displays, host
 *     proxies and options for the host's name servers (exeat itself honours those), and those that the vault reads secrets from.
 *   - EXEAT=NAME says that this is a sandbox, and which.
 */
#ifndef NETNS_ENVIRON_H
#define NETNS_ENVIRON_H

#include "base/err.h"
#include "base/slice.h"

struct environ_spec {
    char *const *from;     /* exeat's own environment */
    const char *name;      /* the sandbox's */
    const char *state_dir; /* as in sandbox_spec: bundle.pem and ca.pem are there, inside */
    /* further variables to take out (the vault's sources); NULL-terminated, may be NULL */
    const char *const *drop;
};

/* Makes the environment: a NULL-terminated list to be freed with environ_free. 0 or ERR_NOMEM. */
int environ_build(const struct environ_spec *spec, char ***out);
void environ_free(char **env);

/* Files named by variables of `from` that replace roots (SSL_CERT_FILE, GIT_SSL_CAINFO …) or add to them
 * (NODE_EXTRA_CA_CERTS), each once; at most `max`; borrowed from `from`. Returns their number. */
size_t environ_roots(char *const *from, const char **paths, size_t max);

/* The value of a variable in a list, or NULL. */
const char *environ_get(char *const *env, const char *name);

#endif
