/*
 * From what was prepared to a sandbox: its environment, what is laid over the host's files, what is covered.
 */
#ifndef PROXY_PROCESS_CAGE_H
#define PROXY_PROCESS_CAGE_H

#include "base/err.h"
#include "netns/sandbox.h"
#include "proxy/process/prepare.h"

/*
 * Begins to make the sandbox (sandbox_start): all of it that needs no roots. `env` is exeat's own environment. 0, or what
 * sandbox_start returns.
 */
int cage_start(const struct prepared *p, char *const *env, const struct sandbox_inherit *inherit,
               struct sandbox *sb, struct errmsg *msg) MUST_CHECK;

/*
 * What it is to trust, in two steps, for all but our own CA is known before the keeper has told that.
 *
 * cage_gather: the host's roots, those that the user's variables name, where they belong, and for Java the same in its own form.
 * Takes p->roots, which must have been handed to whoever needs it. *out is due to cage_trust_free, also after an error (then NULL,
 * or what there was). 0, ERR_NOMEM, ERR_LIMIT.
 *
 * cage_trust: adds ours, `ca_pem`, whose subject has the hash `ca_hash`, and tells the sandbox, whose command does not run yet
 * (sandbox_ready). Once. 0, or what sandbox_trust returns.
 */
struct cage_trust;
int cage_gather(struct prepared *p, char *const *env, struct cage_trust **out, struct errmsg *msg) MUST_CHECK;
int cage_trust(struct cage_trust *t, struct slice ca_pem, uint32_t ca_hash, struct sandbox *sb,
               struct errmsg *msg) MUST_CHECK;
void cage_trust_free(struct cage_trust *t);

#endif
