/*
 * The worker's side of the keeper: questions with numbers, answers by callback. No event loop: the caller
 * gives a function that sends, and feeds what comes in.
 *
 * A request is embedded in whatever asks (zero-initialised); it is in use from vault_ask_… until its `done`
 * was called, which happens once, never from within vault_ask_…; or until vault_cancel.
 */
#ifndef VAULT_CLIENT_H
#define VAULT_CLIENT_H

#include "base/err.h"
#include "base/msg.h"
#include "base/secret.h"
#include "vault/lease.h"
#include "vault/marks.h"
#include "vault/vault.h"
#include "vault/wire.h"

struct vault_client;
struct vault_request;

struct vault_answer {
    int err;             /* 0, or why not */
    struct slice why;    /* a sentence, when err is not 0; fit for the record and for the sandbox */
    struct slice der;    /* MINT: the certificate */
    struct slice header; /* RENDER: the field's name, as it is to be written */
    struct secret value; /* RENDER, RECALL: the value; who keeps it moves the struct and zeroes this one */
    struct slice credential; /* SPOT: its name */
    enum marks_form form;    /* … and how the secret is written there */
};

struct vault_request {
    /* All of `answer` but a taken value is good for the call only. May ask again, cancel others, and free
     * `r`. */
    void (*done)(struct vault_request *r, struct vault_answer *answer);
    void *arg;       /* the caller's */
    uint32_t number; /* the client's from here on; 0: not in use */
    uint16_t type;
    struct lease_key key; /* RENDER: what was asked for; credential and host are the caller's until `done` */
    struct vault_request *next, **link;
};

/* `send` sends one message to the keeper now, or keeps a copy until it can (ERR_AGAIN is the sender's matter,
 * not passed on). What VAULT_KEEP holds is secret: `send` wipes a copy that it makes, the client its own. */
int vault_client_new(int (*send)(void *arg, const struct msg_out *m), void *arg, struct vault_client **out);

/* Requests under way are forgotten, not called. Leases are wiped. */
void vault_client_free(struct vault_client *c);

/* Each returns 0, and `r->done` follows, or an error, and it does not. */
int vault_ask_mint(struct vault_client *c, struct vault_request *r, struct slice name,
                   struct slice spki) MUST_CHECK;
int vault_ask_render(struct vault_client *c, struct vault_request *r, uint64_t sandbox,
                     struct slice credential, const struct vault_origin *origin,
                     struct slice path) MUST_CHECK;
/*
 * What was rendered for this sandbox, credential and origin a moment ago (lease.h): then there is nothing to ask.
 * False: ask. Both slices are good until the next call of the client.
 */
bool vault_lease(const struct vault_client *c, uint64_t sandbox, struct slice credential,
                 const struct vault_origin *origin, struct slice *header, struct slice *value);

/* Wipes leases whose time is over; true while there are others. To be called about once in VAULT_LEASE_MS. */
bool vault_expire(struct vault_client *c);

int vault_ask_bindings(struct vault_client *c); /* the answer goes to bindings_get, not to the client */

/* What is to be kept for one request (vault/kept.h). */
struct vault_keep {
    char key[32];
    uint32_t seconds;
    struct secret value;
};
/* The first of `list`, as many as fit a message: *taken says how many. */
int vault_ask_keep(struct vault_client *c, struct vault_request *r, uint64_t sandbox,
                   const struct vault_keep *list, size_t n, size_t *taken) MUST_CHECK;
int vault_ask_recall(struct vault_client *c, struct vault_request *r, uint64_t sandbox,
                     struct slice key) MUST_CHECK;

/* The marks of the vault's secrets from `from` on. The answer goes to marks_get, not to the client. */
int vault_ask_marks(struct vault_client *c, uint32_t from);

/* Does a place that looks like it, by mark number `mark`, hold the secret? `digest`: watch_digest of it. ERR_NOTFOUND: no. */
int vault_ask_spot(struct vault_client *c, struct vault_request *r, uint64_t sandbox, uint32_t mark,
                   struct slice digest) MUST_CHECK;

void vault_cancel(struct vault_request *r);

/*
 * A message of type VAULT_MINTED, VAULT_RENDERED, VAULT_KEPT, VAULT_RECALLED or VAULT_SPOTTED. 0; or ERR_PEER (malformed, of
 * another type, an answer of the wrong kind): the worker can't go on. An answer to a cancelled request is dropped. The
 * message's bytes are wiped when it may have held a secret.
 */
int vault_client_feed(struct vault_client *c, struct msg_in *m);

/* For the supervisor: writes GRANT and REVOKE. */
void vault_put_grant(struct msg_out *m, void *memory, size_t cap, uint64_t sandbox,
                     const char *const *credentials, size_t n);
void vault_put_revoke(struct msg_out *m, void *memory, size_t cap, uint64_t sandbox);

#endif
