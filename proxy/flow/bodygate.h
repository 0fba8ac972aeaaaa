/*
 * The gate for bodies: where a rule has a condition on the request's body, it is held until the verdict, up to the
 * length that policy_needs_body asks for, and goes upstream from there when it is permitted. What is longer is judged
 * as too long, and streamed if it is permitted all the same. All that one sandbox may make a worker hold at a time is
 * BODYGATE_BOX_MAX.
 *
 *     bodygate_begin (XCHG_SECTION) - bodygate_feed… - the body ends, or is too long: xchg_decide
 */
#ifndef PROXY_FLOW_BODYGATE_H
#define PROXY_FLOW_BODYGATE_H

#include "base/slice.h"

#define BODYGATE_BOX_MAX (64u << 20) /* bytes */

struct xchg;

/* Holds the body if the verdict depends on it. False: it does not, or the whole body is known already. */
bool bodygate_begin(struct xchg *x);

/* Body of the request, and its end. The exchange may be over when they return. */
void bodygate_feed(struct xchg *x, struct slice bytes);
void bodygate_body_end(struct xchg *x);

/* For another gate that judges a body as a whole: asks for it (XCHG_SECTION), to be held up to `most` bytes, and keeps
 * a piece of it in x->held. False: it was refused, the exchange is over. */
void bodygate_ask(struct xchg *x, size_t most);
bool bodygate_keep(struct xchg *x, struct slice bytes);

/* Gives back what is held. */
void bodygate_release(struct xchg *x);

#endif
