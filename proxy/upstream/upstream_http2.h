/*
 * HTTP/2 (RFC 9113) towards an upstream: one verified connection that chose h2 by ALPN, and the requests of one sandbox
 * on it, to one origin and to those that share it (upstream_shared.c). The pool (upstream.h) makes it, hands out links on
 * it, and closes it; an exchange (xchg_http2.c) sends its request by what is declared here, on the link that it was given.
 *
 * Callbacks come from the event loop, never from within a call of this header's. A callback may do anything, release
 * the link too; then no other comes.
 *
 * Windows. An answer's bytes are taken when the exchange listens; what comes before waits, up to UP2_WINDOW bytes, and
 * the stream's window opens only as it goes; in streams that begin under pressure (proxy/io/io_memory.h) UP2_NARROW bytes. The
 * connection's window is as large as can be, so that no stream waits for another. Pushes are refused. Memory that the library
 * gives back is wiped, and so is what it made of a head: a credential passes through.
 *
 * What goes wrong with a connection must not go wrong with all that is asked of its server. Those under way go on, and the
 * next request gets another connection, where the server resets a stream with ENHANCE_YOUR_CALM (node's does so with all
 * that follow when the memory of a connection is used up), and as long as nothing at all has come for silent_ms
 * (upstream_config) though something is asked: the way to it may have gone, which TCP takes a quarter of an hour to tell.
 * Then the server is sent a PING (RFC 9113 6.7) as well, and until something comes no request gets this connection, though those that
 * waited may be gone. If nothing comes for UP2_PING_TIMES as long again, not even its kernel's
 * word that the PING has come (io_unacknowledged), the connection is given up, and those under way hear that it is lost. A server
 * that is there may think, and read nothing meanwhile, for as long as the answer's limit permits. The next PING is
 * UP2_PING_SOON_MS away at least, and UP2_PING_MS from the second on that no answer has come between: to servers of gRPC each PING
 * within five minutes of another, or of the connection's beginning, is a strike; an answer's head or body, when they send one, wipes
 * those out, and for the third they end the connection.
 */
#ifndef PROXY_UPSTREAM_UPSTREAM_HTTP2_H
#define PROXY_UPSTREAM_UPSTREAM_HTTP2_H

#include "proxy/codec/http1_write.h"
#include "proxy/io/http2_io.h"
#include "proxy/upstream/upstream.h"

#define UP2_WINDOW       (256 << 10) /* bytes of an answer that wait in one stream */
#define UP2_NARROW       IO_RECORD   /* … under pressure */
#define UP2_STREAMS      100         /* at a time, on one connection, if the server permits as many */
#define UP2_PING_MS      330000      /* from one PING to the next */
#define UP2_PING_SOON_MS 60000       /* … to the second since something of an answer came */
#define UP2_PING_TIMES   2 /* … and until something is to have come after it, so often silent_ms */

struct site;
struct up2;

struct up2_events {
    /* A head, interim or final. `ended`: nothing follows. */
    void (*head)(void *arg, const struct http2_list *list, bool ended);
    void (*data)(void *arg, struct slice bytes);
    /* The end, with the trailers (a list without fields: none). */
    void (*end)(void *arg, const struct http2_list *trailers);
    /* All that came in one piece has been told: now is the time to pass it on. */
    void (*turn)(void *arg);
    /* There is no answer, or no more of it. `unseen`: the server is known not to have acted on the request. */
    void (*lost)(void *arg, const char *why, bool unseen);
    /* The request's body may go on after up2_full; or its end has gone after the answer's was told, and the link was kept. */
    void (*drained)(void *arg);
    /* The deadline has passed. */
    void (*late)(void *arg);
};

/* ---- for the exchange ---- */

void up2_own(struct upstream_link *link, const struct up2_events *events, void *arg);
/* Sends a request's head, what opt->add puts in as secrets; opt->upgrade: as the extended CONNECT of a WebSocket. 0, ERR_NOMEM,
 * ERR_PARSE (what can't be in a head). */
int up2_request(struct upstream_link *link, const struct http1_request *req,
                const struct http1_write *opt) MUST_CHECK;
/* 0 or ERR_NOMEM, ERR_LIMIT, ERR_EOF (the stream is no more). Sent by up2_flush. */
int up2_data(struct upstream_link *link, struct slice bytes) MUST_CHECK;
int up2_end(struct upstream_link *link, const struct http_field *trailers, size_t n);
void up2_flush(struct upstream_link *link);
/* … when the loop's turn ends, if it is little: more pieces of it may come, each as small. */
void up2_flush_late(struct upstream_link *link);
bool up2_full(struct upstream_link *link);
/* Has the request's end gone? */
bool up2_sent(const struct upstream_link *link);
/* Bytes of its body that have not; of a connection that broke, at least so many. */
size_t up2_unsent(const struct upstream_link *link);
/* Whether the answer may be told; false at first. */
void up2_listen(struct upstream_link *link, bool on);
void up2_deadline(struct upstream_link *link, unsigned ms);
/* The answer may hold secrets, and where its bytes have lain is wiped behind them, as long as the stream is there. */
void up2_sensitive(struct upstream_link *link);
/* What came is malformed (RFC 9113 8.1.1): when the link is given back, the server hears so. */
void up2_malformed(struct upstream_link *link);

/* ---- for the pool ---- */

/* Takes the io, on success and on failure. NULL: memory is short. */
struct up2 *up2_new(struct upstream_pool *pool, struct site *site, struct io *io, const struct addr *peer,
                    bool proxied);
/* One on which another request may be begun, or a WebSocket; NULL: there is none. `once` as in upstream.h: an idle one is
 * looked at first. The site's own come before the one that it is a guest of, which gets no WebSocket. */
struct up2 *up2_find(struct site *site, bool websocket, bool once);
/* Whether another request may be begun on this one. */
bool up2_usable(const struct up2 *up, bool once);
/* Is it known what its server takes, and may a WebSocket be begun on it? */
bool up2_takes_websocket(const struct up2 *up);
/* What its server takes is waited for, with nothing to send as yet; attempt_answered follows, or it ends in `ms`. */
void up2_ask(struct up2 *up, unsigned ms);
/* Begins a stream for the link (io, peer and the like are set) of the site, which may be a guest; 0 or ERR_NOMEM. */
int up2_attach(struct up2 *up, struct site *site, struct upstream_link *link) MUST_CHECK;
/* … which ends here; what is under way is reset. */
void up2_detach(struct upstream_link *link);
/* Closes it now if no stream is left, else with the last one. The pool forgets it. */
void up2_retire(struct up2 *up);

#endif
