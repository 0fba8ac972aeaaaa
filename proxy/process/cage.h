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
 * Tells it what to trust: the host's roots, those that the user's variables name, and ours, `ca_pem`, whose subject has the hash
 * `ca_hash`; for Java the same in its own form. The command does not run yet (sandbox_ready). Takes p->roots, which nobody needs any
 * more. 0, or what sandbox_trust returns.
 */
int cage_trust(struct prepared *p, struct slice ca_pem, uint32_t ca_hash, char *const *env,
               struct sandbox *sb, struct errmsg *msg) MUST_CHECK;

#endif
