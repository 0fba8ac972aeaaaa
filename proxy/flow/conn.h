/*
 * The client's transport: one accepted connection, from its first byte to its last. It knows where the client wanted
 * to go (the address dialled, the name behind it, the SNI, a CONNECT), and carries exchanges: one at a time over
 * HTTP/1, many over HTTP/2. What an exchange says and whether it may is not its matter (xchg.h).
 *
 *     CONN_SNIFF --TLS--> CONN_HELLO --leaf there--> CONN_SHAKE --> CONN_HTTP
 *         |  ^                                                        |  |
 *         |  +----------------- CONNECT was answered by 200 ----------+  |
 *         +--HTTP--> CONN_HTTP                                           |
 *         +--TLS, where a rule passes some through--> CONN_TUNNEL --not this one--> CONN_HELLO
 *     any --> CONN_OVER  (the io is given back; the struct waits for engine_reap)
 *
 * conn_enter() is the one writer of the state. Legal calls in each:
 *     CONN_SNIFF   only what tells the protocol is read, into `in`
 *     CONN_HELLO   the client-hello callback waits for the leaf; nothing is read but by OpenSSL
 *     CONN_SHAKE   as before
 *     CONN_HTTP    conn_http1.c has the word, and `x` may be set; or conn_http2.h has, and `h2` is set
 *     CONN_TUNNEL  tunnel.c has the word
 *     CONN_OVER    nothing; io and x are NULL
 */
#ifndef PROXY_FLOW_CONN_H
#define PROXY_FLOW_CONN_H

#include "base/addr.h"
#include "base/url.h"
#include "ca/leaf.h"
#include "proxy/codec/http1.h"
#include "proxy/codec/http1_body.h"
#include "proxy/codec/target.h"
#include "proxy/flow/time_limits.h"
#include "proxy/io/io.h"

struct box;
struct tunnel;
struct h2;
struct xchg;

enum conn_state { CONN_SNIFF, CONN_HELLO, CONN_SHAKE, CONN_HTTP, CONN_TUNNEL, CONN_OVER, CONN_STATES };

/* What one hop of HTTP/1 is doing; conn_http1.c's.
 *
 *     H1_HEAD --> H1_BODY --> H1_WAIT --> H1_HEAD
 *        |           |           +--> H1_RAW, or H1_BODY once more, without an end: a WebSocket
 *        |           +--> H1_DRAIN --> H1_HEAD
 *        +--> H1_WAIT  without a body, or malformed
 *
 * h1_enter() is the one writer. A connection begins in H1_HEAD, and ends in any (CONN_OVER).
 */
enum h1_phase {
    H1_HEAD,  /* between two requests, or a head is on its way */
    H1_BODY,  /* the exchange may be given its request's body (body_wanted says whether now) */
    H1_WAIT,  /* the request is complete; the answer is not */
    H1_RAW,   /* the answer was a 101: the io is the exchange's */
    H1_DRAIN, /* the answer is complete; the rest of the request's body is thrown away */
    H1_PHASES
};

struct conn {
    struct box *box;
    struct conn *next, **link;
    struct io *io; /* owned; NULL when over */
    enum conn_state state;

    /* identity */
    struct addr dst; /* as the client dialled it */
    /* the name that dst was given for, or dst's text (dial_text), or empty: it means nothing */
    struct slice dialed;
    char dial_text[ADDR_TEXT_MAX];
    uint16_t port;  /* of dst, or of the CONNECT */
    bool direct;    /* the listener itself was dialled: an explicit proxy's client */
    bool tunnelled; /* inside of a CONNECT; `inner` is its host */
    bool tls;
    struct url_host inner;
    struct url_host sni; /* n == 0: none */

    struct tunnel *tunnel; /* of CONN_TUNNEL */

    /* TLS accept */
    struct leaf_waiter leaf;
    int leaf_err; /* the answer */
    bool leaf_known;
    const char *hello_code; /* why the hello was refused: a word, and a sentence; NULL: it was not */
    const char *hello_why;

    /* HTTP/1 */
    enum h1_phase phase;
    struct buf in;         /* bytes read and not yet spent; empty and without memory when idle … */
    struct io_share share; /* … which count in the sandbox's sum */
    struct http1_scan scan;
    struct http1_body body;
    struct xchg *x;
    bool body_wanted;
    bool running;     /* conn_http1 is at work further up the stack */
    bool close_after; /* the answer said "close", or its framing does */
    bool half_closed; /* the client has ended its side properly */
    bool chunked_out; /* of the answer under way */
    uint64_t drain_left;
    bool drain_long; /* … and the client may take its time for it */

    struct h2 *h2; /* HTTP/2: conn_http2.h's; freed late, like the struct */
};

/* Takes an accepted descriptor. NULL: out of memory; the descriptor is closed. */
struct conn *conn_new(struct box *box, int fd);

/* Ends it: the exchange is told (xchg_conn_gone), the io freed. */
void conn_close(struct conn *conn);
/* The same, but the client still gets what is queued, and time to read it (io_linger), while it may send `drain`
 * bytes more. */
void conn_linger(struct conn *conn, unsigned drain);
/* The same for an answer that was cut off (io_cut). */
void conn_cut(struct conn *conn, bool reset);

/* A connection without a request of its own is refused: recorded, then closed. `code` is a stable word, `why` a
 * sentence. */
void conn_refuse(struct conn *conn, const char *code, const char *why);
/* … since a time limit has passed: "`what` within 30s (--time-limit head)". */
void conn_late(struct conn *conn, const char *code, const char *what, enum time_limit which);
/* Recorded alone. */
void conn_note(struct conn *conn, const char *code, const char *why);

/* What target_resolve wants to know about a request of that form. A client that was told of a proxy dials it, and names
 * the destination in the request: on a clear connection the dialled address then means nothing. */
struct target_identity conn_identity(const struct conn *conn, enum http1_form form);

void conn_enter(struct conn *conn, enum conn_state state);

/* For io_events.failed, whoever has the word: a client that takes nothing any more has none to listen for either. */
void conn_on_failed(struct io *io, int err);

/* ---- conn_tls.c ---- */

/* conn->in holds the first bytes of a hello: TLS begins, unless it is to be too long. */
void conn_tls_begin(struct conn *conn);
/* What the context of all handshakes gets: ALPN, the callback on hellos, options. For leaf_config.setup. */
int conn_tls_setup(void *arg, SSL_CTX *ctx);

/* The length of the ClientHello that `data`, the first bytes, begins; 0: not known yet. Follows records of any size;
 * CONN_HELLO_BROKEN: something else stands between its pieces. */
size_t conn_hello_length(struct slice data);
#define CONN_HELLO_MAX    32768
#define CONN_HELLO_BROKEN SIZE_MAX

/* ---- conn_http1.c ---- */

void conn_http1_begin(struct conn *conn);
extern const struct io_events conn_http1_events;
/* The exchange answered a CONNECT by 200: everything starts again inside of it, for `host`. */
void conn_http1_tunnel(struct conn *conn, const struct url_host *host, uint16_t port);

/* ---- conn_http2.c ---- */

void conn_http2_begin(struct conn *conn);
/* No more exchanges are begun; those under way may end, then the connection does. */
void conn_http2_drain(struct conn *conn);
/* The connection is over: the exchanges are told. */
void conn_http2_over(struct conn *conn);
/* … and its memory goes. */
void conn_http2_free(struct h2 *h2);

#endif
