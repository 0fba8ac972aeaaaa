/*
 * What exeat says to a client itself: refusals and trouble, in words that a person and an agent can act on.
 *
 * Each function answers, records (the verdict, if none was recorded), and ends the exchange; it may be over when they
 * return. JSON (application/problem+json, RFC 9457) is for programs; curl, wget, git, browsers and whoever accepts
 * text and no JSON get plain text with the same content. A call of gRPC gets a status and a message of gRPC's, which its library
 * shows: of an answer that is none of its own it would tell the status of HTTP alone.
 */
#ifndef PROXY_FLOW_REFUSAL_H
#define PROXY_FLOW_REFUSAL_H

#include "base/buf.h"
#include "base/slice.h"

struct spot;
struct verdict;
struct xchg;

/* 403: the policy says no (x->verdict). */
void refusal_policy(struct xchg *x);

/* What refusal_policy says, for up to `max_refs` refs of a push. */
void refusal_policy_text(struct xchg *x, size_t max_refs, struct buf *out);

/* What this version can't do yet is said behind the policy's own words. */
void refusal_remark(const struct verdict *v, struct buf *out);

/* 429, Retry-After: the rule that permits it has a limit, which is used up. */
void refusal_limit(struct xchg *x, unsigned wait_s);
void refusal_limit_text(struct xchg *x, unsigned wait_s, struct buf *out);

/* 413: the body is longer than the rule that permits it takes. Before the verdict was recorded it is a refusal, after
 * that the request is cut off. */
void refusal_too_large(struct xchg *x);

/* 403 for another reason than a rule: an address, a self-made loop, the keeper's no. */
void refusal_other(struct xchg *x, const char *code, struct slice reason);

/* 403: a secret of the vault's is in it, or it can't be told whether one is (spot.h). */
void refusal_secret(struct xchg *x, const struct spot *spot);

/* 400 and the like: could be read in two ways, or not at all. The connection ends after it. */
void refusal_malformed(struct xchg *x, int status, const char *code, const char *reason);

/* 502, 503, 504: permitted, and did not work. The verdict stays what it was. */
void refusal_trouble(struct xchg *x, int status, const char *code, const char *reason);

/* A request of git's is refused, in one line that git prints: of a discovery as text/plain behind a 403; of what follows
 * it git would show the status alone, so that the line goes into the answer that it expects, behind a 200. */
void refusal_git_line(struct xchg *x, const char *code, struct slice reason);

/* Does this client rather read text than JSON? */
bool refusal_wants_text(const struct xchg *x);

/* The smallest rule that would have let the request through; empty when none could. In the engine's block for texts:
 * good until the next call here. */
struct slice refusal_hint(struct xchg *x);

#endif
