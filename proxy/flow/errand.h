/*
 * An errand: one request of exeat's own on behalf of an exchange that can't be judged by what the sandbox sent. git's
 * history that a push does not bring is asked for in this way, and what a hosting service knows about the thing that a
 * request is about.
 *
 *     errand_start - keeper: the credential - upstream: a connection - record - head, data …, over
 *                                                                     (at any time: errand_cancel)
 *
 * Where it goes. To the exchange's own origin (scheme, host, port), by the same pool and with the same addresses
 * permitted, and nowhere else: a redirect is not followed, it is an answer like any other. By HTTP/2 where the server chooses it, as a
 * stream of the connection that the sandbox's requests use.
 *
 * What it carries. What the caller gives, and no field of the sandbox's request. The credential is the one that the
 * exchange's verdict lends; the keeper is asked again, with the errand's own path, and checks again by itself. A verdict
 * that lends none sends none. Only for an exchange that the policy permits as far as it is known (verdict.action is
 * VERDICT_ALLOW) is an errand run at all.
 *
 * The record. Before a byte of it leaves, an event `errand` is recorded under the id of the exchange's decision: method,
 * URL, the credential's name, and `purpose` as the reason.
 *
 * Limits. `ms` from errand_start to the last byte of the answer, `answer_max` bytes of the answer's body, ERRANDS_MAX for
 * one exchange, LIMITS_ERRANDS (limits.h) in a minute for a sandbox: a `limit` of a rule counts what the sandbox asks for,
 * and one request of its may take many of exeat's own. A body comes decoded from its transfer coding; no content coding is
 * asked for, and an answer in one has failed. An answer that may be cut off (no length, no chunks, and no clean end) has
 * failed. On a pooled connection that turns out to be stale, or where the server of HTTP/2 says that it has not seen it, it
 * is sent once more, so what is asked should only read.
 *
 * Memory. The errand is its own; it is gone when `over` begins, when errand_cancel returns, and with the exchange
 * (xchg_end cancels what is under way, and nobody is called). Callbacks come from the event loop, never from within
 * errand_start, and may do anything: cancel, start others, end the exchange.
 */
#ifndef PROXY_FLOW_ERRAND_H
#define PROXY_FLOW_ERRAND_H

#include "base/err.h"
#include "proxy/codec/http1.h"

struct errand;
struct xchg;

#define ERRANDS_MAX       128 /* of one exchange */
#define ERRAND_FIELDS_MAX 8

struct errand_ask {
    struct slice method;
    struct slice target; /* path and query, as they go upstream; the path must be one that base/url.h takes */
    /* name and value; not Host, framing, credentials; User-Agent is put in if none is */
    const struct http_field *fields;
    size_t nfields;
    struct slice body;   /* empty: none, and no Content-Length */
    const char *purpose; /* for the record: "to prove a fast-forward"; a literal */
    unsigned ms;
    uint64_t answer_max;
};

/* How it ended. */
struct errand_answer {
    int err; /* 0: a whole answer came, of whatever status. Else: ERR_DENIED (the keeper's no, or an address
                        * that may not be connected to), ERR_TIMEOUT, ERR_LIMIT (the answer is longer than answer_max), ERR_PARSE
                        * (malformed, encoded), ERR_IO (no connection, cut off), ERR_NOMEM */
    int status;        /* 0: no head came */
    struct slice body; /* the whole of it, when there is no `data`; good for the call */
    const char *why; /* when err is not 0: one line, for the record and for the sandbox; good for the call */
};

struct errand_events {
    /* The head of the answer (never a 1xx); `resp` is good for the call. May be NULL. */
    void (*head)(void *arg, const struct http1_response *resp);
    /* A piece of its body, good for the call. NULL: it is gathered for `over`. */
    void (*data)(void *arg, struct slice bytes);
    void (*over)(void *arg, const struct errand_answer *answer);
};

/* Everything in `ask` is copied but `purpose`; `events` must last. NULL, and nobody is called: memory is short, the
 * target can't be asked for, the exchange has had ERRANDS_MAX or the sandbox its share, the exchange's verdict is no
 * permission, or the keeper can't be asked; x->errand_why says which. */
struct errand *errand_start(struct xchg *x, const struct errand_ask *ask, const struct errand_events *events,
                            void *arg);

/* Nobody is called any more. NULL is fine. */
void errand_cancel(struct errand *e);

/* For xchg_end. */
void errand_cancel_all(struct xchg *x);

#endif
