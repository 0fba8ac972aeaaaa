/*
 * The gate for pushes: the command list at the head of a push is read whole and judged before a byte of the request
 * goes upstream. All commands stand or fall together.
 *
 *     gitgate_begin (XCHG_SECTION) - gitgate_feed… - permitted: xchg_go, and gitgate_held() goes up first, in the bytes received
 *                                                  - refused: an answer of status 200 in git's own words, at once; the
 *                                                    rest of the request is thrown away
 *
 * By the command list alone a forced update can't be told from a fast-forward, nor what the push brings: paths, sizes,
 * identities. Where the verdict hangs on that, the pack is read too (gitproof.h). A push of up to 256 KiB is read whole
 * first. A longer one goes upstream while it is read, and its end waits here: proved, it follows and the push is done; not
 * proved, the upstream's connection is cut, so that the server has a pack without an end, which it throws away, and the
 * client gets git's own report all the same. Whatever the upstream says before that waits, too. What the pack leaves open
 * the server is asked for (gitask.h), while the end waits.
 *
 * Where the vault has secrets, every push is read in this way, and looked through for them (spot.h), its list first; one that
 * holds one is refused as soon as that is known.
 *
 * What is too large already for every rule that could permit it is refused at once. A rule's conditions on what the push
 * brings are taken to come out well until it is known; should another rule permit it then, which lends another credential
 * than the one that the request was begun with, it is refused.
 *
 * A gzip body is inflated for reading, within limits, and passed on unchanged.
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

/* What was read for judging; empty without a gate. gitgate_sent: it is on its way, and won't be asked for again. */
struct slice gitgate_held(const struct xchg *x);
void gitgate_sent(struct xchg *x);

/* The verdict hangs on the rest of the pack: the request is on its way and nothing is recorded yet. */
bool gitgate_undecided(const struct xchg *x);

/* The body is for the gate: it passes on what may pass. */
bool gitgate_reads(const struct xchg *x);

/* The command list was read: answers with `reason` for each of its refs, in git's own words ("push failed: …"), and ends
 * the exchange. False: it was not. */
bool gitgate_says(struct xchg *x, const char *word, struct slice reason);

/* Fills in the record's part about git. What it points to lives as long as the exchange. */
void gitgate_record(struct xchg *x, struct record *r);

/* Body of the answer, on its way to the client: it is read for what the server says of each ref. */
void gitgate_answer(struct xchg *x, struct slice bytes);

/* Fills in what was said of the refs, "unknown" where nothing was. What it points to lives as long as the exchange. */
void gitgate_outcome(struct xchg *x, struct record *r);

void gitgate_free(struct gitgate *gate);

#endif
