/*
 * Is one of the vault's secrets in what a sandbox sends? The watch (proxy/codec/watch.h) finds places that look like one,
 * the keeper tells which of them are, one after the other, while the stream goes on.
 *
 *     spot_begin - (spot_feed, spot_whole, or a pack's bytes into spot->watch - spot_ask) … - spot_state … - spot_end
 *
 * Nobody but the keeper has a secret for that: not the worker, nor what is recorded or answered, which name the credential and
 * where the secret was.
 */
#ifndef PROXY_FLOW_SPOT_H
#define PROXY_FLOW_SPOT_H

#include "base/buf.h"
#include "proxy/codec/watch.h"
#include "vault/client.h"

struct box;

/*
 *     SPOT_CLEAR <--> SPOT_OPEN --> SPOT_FOUND
 *     either --> SPOT_FAILED
 *
 * spot_enter() in spot.c is the one writer. FOUND and FAILED stay.
 */
enum spot_state {
    SPOT_CLEAR,  /* no secret was found so far */
    SPOT_OPEN,   /* the keeper is being asked: `told` will be called */
    SPOT_FOUND,  /* one was */
    SPOT_FAILED, /* it can't be told */
    SPOT_STATES
};

struct spot {
    struct watch watch;
    /* what is looked through, if it is not a pack: a literal ("the request's body"). A pack may follow it: then only the
     * first `nwhat` hits are in there. */
    const char *what;
    size_t nwhat;

    /* private */
    struct box *box;
    struct vault_request ask;
    size_t asked; /* hits that the keeper was asked about */
    enum spot_state state;
    void (*told)(void *arg);
    void *arg;
    char credential[VAULT_NAME_MAX + 1];
    enum marks_form form;
    struct errmsg why;
};

/* `told` is called when the state is no longer SPOT_OPEN, directly from the event loop. What it keeps is of
 * the account of all pushes of the worker. 0; ERR_NOMEM, ERR_LIMIT: SPOT_FAILED. */
int spot_begin(struct spot *spot, const char *what, struct box *box, void (*told)(void *arg), void *arg);
void spot_end(struct spot *spot); /* of a zeroed struct, too */

/* Has the keeper told about what was found up to now. */
enum spot_state spot_ask(struct spot *spot);

/* Bytes of `what`, and their end; or all of them. More is found after spot_ask. */
void spot_feed(struct spot *spot, struct slice bytes);
void spot_feed_end(struct spot *spot);
void spot_whole(struct spot *spot, struct slice bytes);

/* SPOT_FOUND: appends whose secret is where: "the secret of credential 'forge' is in blob 5f0c…". SPOT_FAILED: why it can't be
 * told. */
void spot_reason(const struct spot *spot, struct buf *out);

/* SPOT_FOUND: is it in `what`? */
bool spot_in_what(const struct spot *spot);

/* SPOT_FOUND, and git can find the place: appends how. */
void spot_hint(const struct spot *spot, struct buf *out);

#endif
