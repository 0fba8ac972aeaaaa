/*
 * The gate for pushes: the command list at the head of a push is read whole and judged before a byte of the request
 * goes upstream. All commands stand or fall together.
 *
 *     gitgate_begin (XCHG_SECTION) - gitgate_feed… - permitted: xchg_go, and gitgate_held() goes up first, in the bytes received
 *                                                  - refused: an answer of status 200 in git's own words
 *
 * A gzip body is inflated as far as the command list goes, within GIT_SECTION_MAX, and passed on unchanged.
 *
 * By the command list alone a forced update can't be told from a fast-forward, so every update of an existing ref is
 * judged as `force`, with the note that no proof was made.
 */
#ifndef PROXY_FLOW_GITGATE_H
#define PROXY_FLOW_GITGATE_H

#include "base/slice.h"

struct gitgate;
struct record;
struct xchg;

/* The policy lets the sandbox push to this repository in principle: reads what it wants to push. */
void gitgate_begin(struct xchg *x);

/* Body of the request, and its end. The exchange may be over when they return. */
void gitgate_feed(struct xchg *x, struct slice bytes);
void gitgate_body_end(struct xchg *x);

/* What was read for judging; empty without a gate. */
struct slice gitgate_held(const struct xchg *x);

/* Fills in the record's part about git. What it points to lives as long as the exchange. */
void gitgate_record(struct xchg *x, struct record *r);

void gitgate_free(struct gitgate *gate);

#endif
