/*
 * What a worker gets of a sandbox: the fields of IPC_SANDBOX (ipc.h) that stand behind its name.
 */
#ifndef PROXY_PROCESS_HANDOVER_H
#define PROXY_PROCESS_HANDOVER_H

#include "netns/sandbox.h"
#include "proxy/process/prepare.h"

#define HANDOVER_FDS 5 /* memory: policy, names, why, limits, shown; in this order */

/* Puts them. All descriptors stay the caller's. */
void handover_put(struct msg_out *m, const struct prepared_sandbox *s, const struct sandbox_listeners *l);

/* Passes those of a message that ends with them on to another one. The descriptors stay those of `in` (msg_close_fds), and have to be
 * there until `out` is sent. 0 or ERR_PEER. */
int handover_pass(struct msg_in *in, struct msg_out *out) MUST_CHECK;

#endif
