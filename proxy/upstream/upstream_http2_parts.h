/*
 * Between the files of HTTP/2 towards upstreams; nobody else includes this.
 */
#ifndef PROXY_UPSTREAM_UPSTREAM_HTTP2_PARTS_H
#define PROXY_UPSTREAM_UPSTREAM_HTTP2_PARTS_H

#include "proxy/io/http2_guard.h"
#include "proxy/upstream/upstream_parts.h"

/* What a stream has to tell, once it is listened to. */
struct up2_stream {
    struct up2 *up;
    LIST_ENTRY(up2_stream) entry;
    bool linked;                     /* somebody has a link on it */
    const struct up2_events *events; /* NULL: nobody is to be told, not yet or not any more */
    void *arg;
    int32_t id; /* 0: no request was sent */
    struct event timer;
    uint64_t due; /* monotonic ms, 0: none */
    struct http2_out out;
    struct http2_list list; /* the head under way or waiting */
    struct http2_list trailers;
    struct buf in; /* of the answer's body */
    bool listening;
    bool head_waits; /* `list` is a head to be told */
    bool head_ended; /* … and the whole answer */
    bool headed;     /* the final head has come: the next list is the trailers */
    bool ended;      /* END_STREAM has come */
    bool told;       /* … or the loss, and the owner knows */
    bool touched;    /* something was told in this turn */
    bool reset;      /* we gave it up */
    bool malformed;  /* … for what came on it */
    bool closed;     /* the session has no such stream any more */
    const char *why; /* it is lost */
    bool unseen;
};

struct up2 {
    struct upstream_pool *pool; /* NULL: retired */
    struct site *site;
    TAILQ_ENTRY(up2) entry; /* in site.http2 */
    struct io *io;
    struct addr peer;
    bool proxied;
    nghttp2_session *session;
    LIST_HEAD(, up2_stream) streams;
    size_t nstreams;
    unsigned busy;   /* inside of the library, or going through the streams */
    bool used;       /* a request was sent on it before */
    bool settled;    /* the server's settings have come */
    bool going;      /* no more streams: GOAWAY, or an error */
    bool broken;     /* the io can't be used any more */
    unsigned secret; /* heads with a secret that are not sent yet */
    struct event defer;
    struct http2_guard guard;
};

/* All that there is to tell, as long as it is listened to. The caller holds `busy`. */
void up2_stream_tell(struct up2_stream *s);
/* What is to be told or sent can't be now: from the event loop. */
void up2_later(struct up2 *up);
/* The session and its settings. 0 or ERR_NOMEM. */
int up2_session(struct up2 *up);

#endif
