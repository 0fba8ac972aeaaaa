/*
 * The keeper's request table: a closed list of requests, each with who may make it. Anything else, and
 * anything malformed, is ERR_PEER: the process closes that peer and says so; a keeper never ends because of
 * what a worker sent.
 *
 * No event loop, no socket: a message in, a message out. What a worker says about a sandbox's request is
 * believed as far as the supervisor granted that sandbox the credential and the credential's `for` names the
 * origin, never further.
 */
#ifndef VAULT_KEEPER_H
#define VAULT_KEEPER_H

#include "base/buf.h"
#include "base/err.h"
#include "base/msg.h"
#include "vault/vault.h"
#include "vault/wire.h"

struct keeper;

enum keeper_peer { KEEPER_SUPERVISOR, KEEPER_WORKER };

/* Makes a leaf certificate: ca_mint, bound by the process, since vault and ca do not know each other. Appends
 * DER to `der`. */
typedef int keeper_mint(void *arg, struct slice name, struct slice spki, struct buf *der, struct errmsg *msg);

/* `vault` (resolved; NULL for none) is the caller's and outlives the keeper. 0 or ERR_NOMEM; ERR_LIMIT if the
 * vault is too large for its bindings to be told. */
int keeper_new(const struct vault *vault, keeper_mint *mint, void *arg, struct keeper **out,
               struct errmsg *msg) MUST_CHECK;
void keeper_free(struct keeper *k);

/*
 * Handles one message of a peer. `memory` of `cap` bytes (MSG_MAX serves for all) is where the answer is
 * written to.
 * 0: *out is the answer, to be sent to that peer, or has n == 0 if there is none. After sending, call
 * keeper_wipe: the answer may hold a secret; one that has to wait for a full socket is kept in a `struct
 * secret`.
 * ERR_PEER (or ERR_NOMEM, ERR_LIMIT): close that peer. `msg` says what was wrong, fit for a log.
 */
int keeper_handle(struct keeper *k, enum keeper_peer peer, struct msg_in *in, struct msg_out *out,
                  void *memory, size_t cap, struct errmsg *msg) MUST_CHECK;

/* Overwrites what was written of an answer. */
void keeper_wipe(struct msg_out *out);

#endif
