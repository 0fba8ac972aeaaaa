/*
 * The gate for Git LFS: what its batch asks for, and the tokens in what a server answers.
 *
 * A batch is held whole before it is judged (bodygate.h): the policy reads from its body whether it downloads or
 * uploads, the record how much. Its answer is held as well, and rewritten (proxy/codec/lfs.h): an object whose transfer
 * no rule permits becomes an error, which git-lfs prints; the header fields of the others go to the keeper
 * (vault/kept.h), and the sandbox gets a stand-in. When all are kept, the answer goes on. When a request brings the
 * stand-in back, the fields kept for its method and URL are put on it, in place of the sandbox's own and of a
 * credential that the rule lends: the server has said what this request needs. A stand-in on another request is
 * refused, and never passed on. An upload brings one in any case, by which it is recognised: it is looked through for secrets
 * (putgate.h).
 *
 *     lfsgate_go - lfsgate_fields - lfsgate_answer_begin - lfsgate_answer_data… - lfsgate_answer_end
 *         |                              (a batch's answer)
 *         +-- of a transfer: the keeper is asked (XCHG_CREDENTIAL) - putgate_begin - xchg_permitted
 */
#ifndef PROXY_FLOW_LFSGATE_H
#define PROXY_FLOW_LFSGATE_H

#include "base/slice.h"
#include "proxy/codec/http.h"

#define LFSGATE_FIELDS_MAX 33

struct record;
struct xchg;

/* Whether the request is a batch, by method, path and what it accepts. */
bool lfsgate_is_batch(const struct xchg *x);

/* What the record tells of it. */
void lfsgate_record(const struct xchg *x, struct record *r);

/* The policy permits the request. True: it is refused here, or goes on when the keeper has answered. */
bool lfsgate_go(struct xchg *x);

/* The fields to put on the request; how many. Good until lfsgate_sent. */
size_t lfsgate_fields(const struct xchg *x, struct http_field list[LFSGATE_FIELDS_MAX]);
/* The request is not sent once more. */
void lfsgate_sent(struct xchg *x);

/* The answer's head is in x->resp. True: the answer is held (or refused, the exchange is over then). */
bool lfsgate_answer_begin(struct xchg *x);
/* Pieces of its body, and its end. The exchange may be over when they return; at the end the upstream's connection is
 * given back. */
void lfsgate_answer_data(struct xchg *x, struct slice bytes);
void lfsgate_answer_end(struct xchg *x);

/* Gives everything back, and wipes it. For xchg_end. */
void lfsgate_end(struct xchg *x);

#endif
