/*
 * The gate for objects of Git LFS on their way up: the body is looked through for secrets of the vault's (spot.h), as the pack of
 * a push is.
 *
 *     putgate_begin - xchg_permitted - putgate_feed… - putgate_body_end - the keeper has told: the last byte follows
 *                                          |                            - a secret is in it: the upstream is cut
 *                                          +-- … or as soon as one was found
 *
 * It goes upstream while it is read, but for its end (the last byte of a length that was told, or the last chunk): without
 * that the server has an upload that broke off, which it throws away. Until then nothing is recorded, and what the upstream says waits.
 */
#ifndef PROXY_FLOW_PUTGATE_H
#define PROXY_FLOW_PUTGATE_H

#include "base/slice.h"

struct putgate;
struct xchg;

/* The request may go on, and belongs to a batch's answer. False: it is refused, the exchange is over. */
bool putgate_begin(struct xchg *x);

/* The verdict hangs on the rest of the body, which is for the gate. */
bool putgate_undecided(const struct xchg *x);

/* Body of the request, and its end, in XCHG_RELAY. The exchange may be over when they return. The end may come once more, when
 * the request is sent once more. */
void putgate_feed(struct xchg *x, struct slice bytes);
void putgate_body_end(struct xchg *x);

void putgate_free(struct putgate *gate); /* NULL is fine */

#endif
