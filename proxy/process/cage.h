/*
 * From what was prepared to a sandbox: its environment, what is laid over the host's files, what is covered.
 */
#ifndef PROCESS_CAGE_H
#define PROCESS_CAGE_H

#include "base/err.h"
#include "netns/sandbox.h"
#include "proxy/process/prepare.h"

/*
 * Makes the sandbox, the command not yet running (sandbox_start). `ca_pem` is our root; `env` exeat's own environment. 0, or what
 * sandbox_start returns.
 */
int cage_start(const struct prepared *p, struct slice ca_pem, char *const *env,
               const struct sandbox_inherit *inherit, struct sandbox *sb, struct errmsg *msg);

#endif
