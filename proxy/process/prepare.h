/*
 * What `run` and `serve` read and open before they start any process, and every complaint about it, all in one text: a policy or vault with
 * an error starts nothing.
 *
 * No secret is touched here: of the vault only names, variables and paths are known.
 */
#ifndef PROXY_PROCESS_PREPARE_H
#define PROXY_PROCESS_PREPARE_H

#include <event2/event.h>

#include "base/buf.h"
#include "base/err.h"
#include "ca/bundle.h"
#include "proxy/process/config.h"
#include "proxy/process/hidden.h"
#include "vault/vault.h"

struct limits;
struct names;
struct shown;
struct why;

#define PREPARE_TEXT_MAX (256u << 10) /* of all complaints together */

/* One sandbox to be; all but `config` is zero, and policy_fd -1, where there is none. */
struct prepared_sandbox {
    uint64_t id;
    const struct config_sandbox *config;
    struct policy *policy;
    int policy_fd;         /* the bundle, sealed */
    struct names *names;   /* the table of synthetic addresses, shared with the workers */
    struct why *why;       /* its last decisions, likewise */
    struct limits *limits; /* how often its rules have permitted, likewise */
    struct shown *shown;   /* which objects of git's it was shown, likewise */
};

struct prepared {
    const struct config *config;
    char *state_dir; /* absolute */
    int state_fd;
    int log_fd;            /* CONFIG_JOIN: -1 */
    struct vault *vault;   /* names only; NULL: none */
    struct buf vault_text; /* the file; what the keeper parses is the very text that was checked here */
    struct hidden hidden;  /* CONFIG_JOIN: the service tells it */
    struct buf roots;      /* PEM: the host's, from prepare_roots */
    struct ca_read read;   /* the files that they are from */
    struct buf extra;      /* PEM: --upstream-ca */
    struct prepared_sandbox sandbox;
};

/* 0, or an error, and then what is wrong is in `out`, whole lines. prepare_release is due in both cases. */
int prepare(const struct config *config, struct prepared *p, struct buf *out);
void prepare_release(struct prepared *p);

/* Gives back what only a start needs, policy and texts among it, and the vault but for a service, once that is over: it may be most of
 * the heap, which goes back to the system in a while (base/heap.h). */
void prepare_settle(struct prepared *p, struct event_base *base);

/* Reads the host's roots: apart, for it takes as long as all of the above, and neither keeper nor init waits for them. 0, ERR_LIMIT,
 * ERR_NOMEM or ERR_IO. */
int prepare_roots(struct prepared *p, struct errmsg *msg);

/* Whether a credential of the vault comes from a program that the keeper has to start. */
bool prepared_runs_programs(const struct prepared *p);

#endif
