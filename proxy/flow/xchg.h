/*
 * One request and its answer, from the head received to the outcome recorded, whatever transport carries it on either
 * side.
 *
 *     XCHG_JUDGE ----> XCHG_SECTION   a push: its command list is read before the verdict (gitgate.h)
 *         |                 |
 *         +--------> XCHG_CREDENTIAL  the keeper renders the header
 *         |                 |
 *         |          XCHG_CONNECT     the upstream is found, connected to, verified
 *         |                 |
 *         |          XCHG_RELAY ----> XCHG_TAIL   answered; the end of the request, taken from the client, waits for the
 *         |                 |             |       server to take it
 *         +--------> XCHG_OVER <----------+       outcome recorded, everything given back; the struct waits for engine_reap
 *
 * xchg_enter() is the one writer of the state. The verdict is recorded on leaving JUDGE, SECTION or CREDENTIAL for
 * CONNECT or for a refusal: before a byte goes upstream. The outcome is recorded by xchg_end(), which every path
 * comes to, once.
 *
 * A server may answer before it has read the request, and read on (RFC 9112 9.3, RFC 9113 8.1). The client has all then,
 * may go on or go away, and what was taken of it is not lost: in TAIL the exchange has no client any more (`conn` is
 * NULL), is one of the sandbox's `tails`, and ends when all has gone, when the server closes or resets, or when its
 * deadline passes, which is that of the last piece: a server that takes what is left in drops can't keep it for longer.
 *
 * Within RELAY two lives run beside each other, as an answer may come while the request is still going up: what went up
 * (enum xchg_send_phase) and how far the answer is (enum xchg_answer_phase).
 *
 * The client's side is behind `struct xchg_client`: a table of functions that HTTP/1 (conn_http1.c) and HTTP/2
 * (conn_http2.h) fill. The exchange never touches the client's io, but for what follows a 101 (xchg_upgrade.c).
 */
#ifndef PROXY_FLOW_XCHG_H
#define PROXY_FLOW_XCHG_H

#include <sys/queue.h>

#include "policy/facts.h"
#include "policy/verdict.h"
#include "proxy/codec/git.h"
#include "proxy/codec/http1_write.h"
#include "proxy/codec/target.h"
#include "proxy/flow/conn.h"
#include "proxy/flow/decision.h"
#include "proxy/io/relay.h"
#include "proxy/upstream/upstream.h"
#include "vault/bindings.h"
#include "vault/client.h"

struct errand;
struct doorgate;
struct fetchgate;
struct gitgate;
struct lfsgate;
struct putgate;

/* So many exchanges of a sandbox may be in XCHG_TAIL; those beyond keep their clients waiting instead. */
#define XCHG_TAILS 256

/* A request's body is kept for a second try up to this length. */
#define XCHG_REPLAY_MAX 65536

enum xchg_state {
    XCHG_JUDGE,
    XCHG_SECTION,
    XCHG_CREDENTIAL,
    XCHG_CONNECT,
    XCHG_RELAY,
    XCHG_TAIL,
    XCHG_OVER,
    XCHG_STATES
};

/*
 * The request, as it goes up. xchg_send_enter() in xchg_upstream.c is the one writer.
 *
 *     SEND_NOTHING --> SEND_BODY --> SEND_ALL
 *                          |            |
 *                          +-------> SEND_FAILED
 *
 *     any other --> SEND_NOTHING   once more, on another connection (xchg_retry)
 */
enum xchg_send_phase {
    SEND_NOTHING,
    SEND_BODY,   /* the head is written, and of the body what has come */
    SEND_ALL,    /* … and its end */
    SEND_FAILED, /* the upstream takes no more; an answer may come all the same */
    SEND_PHASES
};

/*
 * The answer, as it comes. xchg_answer_enter() is the one writer. There is no way back but for a second try behind interim
 * heads (xchg_retry), and what is refused in an answer's stead is over at once.
 *
 *     ANSWER_AWAITED <-> ANSWER_BEGUN --> ANSWER_PASSED --> ANSWER_WHOLE
 *                             |
 *                             +---------> ANSWER_HELD ----> ANSWER_HELD_WHOLE   (lfsgate.h)
 *
 * In the order of what the client has had: from HELD on the final head has come, from PASSED on it was passed on.
 */
enum xchg_answer_phase {
    ANSWER_AWAITED,
    ANSWER_BEGUN,      /* a byte has come; interim heads (1xx) may have been passed on */
    ANSWER_HELD,       /* nothing of it is passed on until the whole was looked at */
    ANSWER_HELD_WHOLE, /* it is here, and the upstream's connection given back: the request had gone up whole */
    ANSWER_PASSED,     /* the final head was passed on, and so is what follows */
    ANSWER_WHOLE,      /* … up to the end; the rest of the request may still be going up */
    ANSWER_PHASES
};

/* What an exchange asks of the transport that carries it to the client. */
struct xchg_client {
    bool http2;
    /* Heads. `resp` is the upstream's; interim ones (1xx) may come before the last. Negative: it can't be written. */
    int (*head)(struct xchg *x, const struct http1_response *resp);
    /* An answer of exeat's own, whole. `more` are fields. */
    int (*own)(struct xchg *x, int status, struct slice type, struct slice body,
               const struct http_field *more, size_t nmore);
    /* Answers a CONNECT by 200; after `over` everything starts again inside. Negative: not on this transport. */
    int (*tunnel)(struct xchg *x);
    /* "100 Continue", of exeat's own. */
    void (*proceed)(struct xchg *x);
    /* Body, and its end with trailers. Errors show as xchg_client_gone. */
    void (*data)(struct xchg *x, struct slice bytes);
    void (*end)(struct xchg *x, const struct http_field *trailers, size_t n);
    /* What was written since is to go out now. */
    void (*flush)(struct xchg *x);
    /* Is the client slow? Then xchg_client_drained() follows. */
    bool (*full)(struct xchg *x);
    /* May the request's body come (xchg_body, xchg_body_end)? */
    void (*want_body)(struct xchg *x, bool want);
    /* What follows the 101 just written is not HTTP: the connection is the exchange's until `over`. Its io, and in
     * *ahead (to be released) what had been read of it already. NULL instead of a function: not on this transport. */
    struct io *(*raw)(struct xchg *x, struct buf *ahead);
    /* … or the connection stays the transport's: what comes is a body that ends with it, and so is what goes. NULL: that
     * is what it is anyway. */
    void (*stream)(struct xchg *x);
    /* The exchange is over and the transport may go on. `whole`: the answer was complete; else it is cut off, or, when
     * no head was written (`silent`), the connection just ends. Called once, last; x must not be used after it. */
    void (*over)(struct xchg *x, bool whole);
};

/* … and of the one that carries it to the upstream. What can't be written is told by xchg_send_failed(). */
struct xchg_server {
    /* x->link is the exchange's now. */
    void (*begin)(struct xchg *x);
    /* x->req, written anew. Negative: it can't be. */
    int (*head)(struct xchg *x, struct http1_write *opt);
    /* Body, and its end. `more`: a flush follows. */
    void (*data)(struct xchg *x, struct slice bytes, bool more);
    void (*end)(struct xchg *x, const struct http_field *trailers, size_t n, bool more);
    void (*flush)(struct xchg *x);
    /* Is the upstream slow? Then xchg_upstream_drained() follows. */
    bool (*full)(struct xchg *x);
    /* May the answer come? */
    void (*listen)(struct xchg *x, bool on);
    /* xchg_upstream_late() when xchg_patience() has passed, unless it is said again before. */
    void (*deadline)(struct xchg *x);
    /* Is all that was written on its way? What can go now goes. If not, xchg_upstream_drained() follows. */
    bool (*sent)(struct xchg *x);
    /* Bytes of the body that were written and have not left. */
    uint64_t (*unsent)(const struct xchg *x);
};

struct xchg {
    struct conn *conn; /* NULL in XCHG_TAIL */
    struct box *box;
    const struct xchg_client *client;
    const struct xchg_server *server; /* of `link` */
    enum xchg_state state;
    void *stream;          /* the transport's own: which of its exchanges is this? (HTTP/2) */
    struct xchg *next;     /* of spare or dead ones */
    LIST_ENTRY(xchg) tail; /* in box.tails, in XCHG_TAIL */
    struct decision decision;

    /* the request */
    struct buf head; /* its bytes; `req` points into them */
    struct buf path;
    struct target target;
    struct git_request git;
    struct facts facts;
    struct verdict verdict;
    struct buf held; /* of the body, until a condition on it is judged (bodygate.h) */
    size_t held_most, held_counted;
    bool holding;
    bool judged;             /* facts and verdict mean something */
    struct gitgate *gate;    /* of a push */
    struct fetchgate *fetch; /* of a fetch, or of the discovery before it */
    struct lfsgate *lfs;     /* of a batch of Git LFS, or a transfer that fields are kept for */
    struct putgate *put;     /* of the upload of an object of Git LFS, while it is looked through */
    struct doorgate *door;   /* of a request to a forge's API, when the forge was asked (doorgate.h) */
    struct errand *errands;  /* under way (errand.h) */
    unsigned nerrands;       /* ever */
    const char *errand_why;  /* why errand_start, the last time, did not; a literal */
    bool body_done;          /* all of the request's body has come */
    bool internal;           /* exeat's own host: no record */

    /* the credential */
    const struct binding *binding;
    struct vault_request ask;
    struct slice inject_name; /* into inject_text */
    char inject_text[128];
    struct secret inject;

    /* the upstream */
    struct upstream_attempt *attempt;
    struct upstream_link *link;
    char peer[ADDR_TEXT_MAX];
    struct buf up_in;      /* bytes of the answer's head */
    struct buf replay;     /* the request's body as far as sent, for a second try … */
    struct io_share share; /* … which counts in the sandbox's sum */
    struct http1_scan up_scan;
    struct http1_body up_body;    /* the answer's, HTTP/1's … */
    struct http_length up_length; /* … and HTTP/2's */
    unsigned waited;              /* HTTP/1: ms of the server's silence, up to the io's last deadline */
    bool up_open;                 /* its head did not end it: an end follows, even where no body can */
    enum xchg_send_phase send_phase;
    bool trailers; /* it has some, which are not kept for a second try */
    bool corked;   /* the head is written and more follows at once */
    bool retried;
    bool pooled;         /* a connection used before may carry it: if that fails, it can be repeated */
    bool proceed_said;   /* 100 Continue was answered by us */
    unsigned interims;   /* 1xx heads so far … */
    size_t interim_size; /* … and the bytes of their fields */
    enum xchg_answer_phase answer_phase;
    bool up_keep;     /* the upstream's connection may be used again */
    unsigned keep_ms; /* … for so long, by its own word */
    bool head_request;
    /* an answer of exeat's own that the client will look for when it has sent its request: so many bytes of the rest
     * are read and thrown away by the transport, after over(); 0: it stops where it can */
    uint64_t drain;
    bool tunnel; /* a CONNECT that may go on: the transport starts again inside of it */

    bool repeats; /* the client does it again over HTTP/1.1, unanswered */

    bool extended;            /* it is asked for by an extended CONNECT: the stream is what follows the 101 */
    struct slice upgrade_key; /* of the WebSocket that is asked for; empty: none */
    struct relay relay;       /* … and once it was granted */

    /* the outcome */
    unsigned status;
    uint64_t sent, received; /* `sent`: while there is a link, also what has not left … */
    uint64_t unsent;     /* … of which that much was not even written: it is of use to a second try alone */
    const char *trouble; /* a word for the record, NULL: none */
    char trouble_text[UPSTREAM_TEXT_MAX];

    struct http1_request req; /* last, as they are large and not cleared */
    struct http1_response resp;
};

/* ---- for the transport ---- */

/* A head is to be put into x->head and parsed into x->req; xchg_start follows. NULL: memory is short. */
struct xchg *xchg_new(struct conn *conn, const struct xchg_client *client);
/* Judges and goes on; parse_error is what http1_request_parse returned. The exchange may be over when this returns, and when
 * what follows does. */
void xchg_start(struct xchg *x, int parse_error);
void xchg_body(struct xchg *x, struct slice bytes);
void xchg_body_end(struct xchg *x, struct http_field *trailers, size_t n);
/* The request's body is malformed (its refusal), or ended early (HTTP_REFUSED_NOT). */
void xchg_body_bad(struct xchg *x, enum http_refusal refusal);
void xchg_client_drained(struct xchg *x);
/* The client went away: no more is to be written. */
void xchg_client_gone(struct xchg *x, const char *code, const char *why);
/* … and its whole connection: by itself, or because exeat ends, or the sandbox alone. */
void xchg_conn_gone(struct xchg *x);

/* ---- for the upstream's transport; each may end the exchange ---- */

/* x->resp is the next head, interim or final. False: the exchange is over. */
bool xchg_answer_head(struct xchg *x);
/* A byte of it has come. */
void xchg_answer_comes(struct xchg *x);
void xchg_answer_data(struct xchg *x, struct slice bytes);
void xchg_answer_end(struct xchg *x, const struct http_field *trailers, size_t n);
/* No answer will come, or none that can be understood. */
void xchg_answer_broken(struct xchg *x, int status, const char *code, const char *reason);
void xchg_answer_malformed(struct xchg *x, enum http_refusal why);
/* The connection, or its stream, ended before an answer: once more, if that may be; else the reason says what is known of the
 * request. `unseen`: as in xchg_retry(). */
void xchg_answer_lost(struct xchg *x, const char *why, bool unseen);
/* The upstream takes bytes again, or all that there were; it takes no more at all; it let the deadline pass. */
void xchg_upstream_drained(struct xchg *x);
void xchg_upstream_deaf(struct xchg *x);
void xchg_upstream_late(struct xchg *x);
/* What was to go up can't be written. Again: nothing. */
void xchg_send_failed(struct xchg *x);

extern const struct xchg_server xchg_http1, xchg_http2;

/* ---- for the exchange's own files ---- */

void xchg_enter(struct xchg *x, enum xchg_state state);
/* The end of every path: outcome, upstream, memory; then client->over. */
void xchg_end(struct xchg *x, bool whole);
/* Something has changed: if the answer is whole, and the server is to have no more of the request or has it all, the exchange is
 * over, or else the client's part in it may be. */
void xchg_settle(struct xchg *x);
/* Remembers what went wrong for the outcome; the first one counts. */
void xchg_trouble(struct xchg *x, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Hands the verdict over; no-op the second time. `code`/`reason` NULL: the policy's own. */
void xchg_record(struct xchg *x, bool denied, const char *code, struct slice reason);
/* Appends the request's URL in the record's form. */
void xchg_put_url(struct xchg *x, struct buf *out);
/* Frees what a dead exchange holds (engine_reap). */
void xchg_recycle(struct xchg *x);

/* xchg_judge.c */
void xchg_judge(struct xchg *x);
/* All that the verdict depends on is known. */
void xchg_decide(struct xchg *x);
/* Does the verdict hang on the rest of a request that is on its way? Nothing is recorded yet, and nothing of an answer goes to
 * the client. */
bool xchg_undecided(const struct xchg *x);
/* The policy permits it: is there a limit that stands in the way? True after a refusal. */
bool xchg_limited(struct xchg *x);

/* xchg_upstream.c: from the verdict to the request on its way */
void xchg_go(struct xchg *x);        /* permitted: credential, upstream, relay */
void xchg_permitted(struct xchg *x); /* … and the credential, if any, is there */
/* Where it goes, and to which addresses, as the verdict says. */
void xchg_upstream_wish(const struct xchg *x, struct upstream_origin *origin,
                        struct upstream_options *options);
/* The connection was stale, or (`unseen`) the server is known not to have acted on the request: tries once more; false:
 * it can not. */
bool xchg_retry(struct xchg *x, bool unseen);
/* There will be none: what is kept for it goes. */
void xchg_no_retry(struct xchg *x);
void xchg_send_body(struct xchg *x, struct slice bytes);
void xchg_send_end(struct xchg *x, struct http_field *trailers, size_t n);
/* Gives the upstream's connection back before the exchange is over. `reusable`: as upstream_release has it. */
void xchg_unlink(struct xchg *x, bool reusable);
/* It is to be refused: the upstream, which has a request without an end, gets nothing more. */
void xchg_cut(struct xchg *x);

/* In milliseconds: how long may nothing come, of either side? */
unsigned xchg_patience(const struct xchg *x);

/* xchg_answer.c: from the upstream's first byte to its last */
void xchg_answer_begin(struct xchg *x);
void xchg_answer_enter(struct xchg *x, enum xchg_answer_phase phase);

/* xchg_upgrade.c */
void xchg_upgrade_ask(struct xchg *x);         /* is the request one to be passed on with its upgrade? */
bool xchg_upgrade_waits(const struct xchg *x); /* what the client sends is nothing before the 101 has come */
bool xchg_upgrade_fits(const struct xchg *x);  /* is x->resp the 101 that was asked for, or no such thing? */
void xchg_upgrade_begin(struct xchg *x, struct slice behind); /* it was passed on; `behind` came behind it */

#endif
