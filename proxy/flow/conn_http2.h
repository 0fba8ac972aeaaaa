/*
 * HTTP/2 (RFC 9113) towards the client: one transport, many exchanges. Frames, HPACK, streams and windows are
 * libnghttp2's, fed from memory; a stream's head goes through proxy/codec/http2.h and is an exchange like any other
 * from there on. This header is for the conn_http2 files alone; others see conn.h.
 *
 *     conn_http2.c          the session: begin, reading, writing, time limits, end
 *     conn_http2_stream.c   what comes: heads, bodies, resets
 *     conn_http2_client.c   what goes: the exchange's table of functions (xchg.h)
 *     http2_io.h            what both sides share
 *     http2_guard.h         how much of what is of no use a peer may send
 *     http2_memory.h        what a session takes, given back while it is idle
 *
 * libnghttp2 must not be entered twice, and closes streams while it sends. So `busy` counts who is inside of it, or
 * holds a stream across a call of the exchange's; only h2_pump() of the outermost sends, and then streams may go.
 *
 * Windows. What a client sends on a stream is taken when the upstream takes it, and only then that stream's window is
 * opened again: a stalled upload holds HTTP2_WINDOW bytes at most and stops there. Under pressure (io_memory.h) it is opened
 * to H2_NARROW only; what was granted before can't be taken back, and the first HTTP2_WINDOW of a stream are the client's by the
 * protocol: to say less in the settings would bind those alone that heed them, and there are clients that count wrongly then.
 * The connection's window is as large as can be, and opened again as bytes come: all streams together hold
 * H2_STREAMS * HTTP2_WINDOW at most, and none waits for another. In the other direction a stream's answer waits in `out`, and
 * its upstream is not read when that holds HTTP2_HIGH bytes.
 */
#ifndef PROXY_FLOW_CONN_HTTP2_H
#define PROXY_FLOW_CONN_HTTP2_H

#include <nghttp2/nghttp2.h>

#include "proxy/flow/conn.h"
#include "proxy/io/http2_guard.h"
#include "proxy/io/http2_io.h"
#include "proxy/io/http2_memory.h"
#include "proxy/flow/xchg.h"

#define H2_NARROW   IO_RECORD  /* bytes that a stream's window is opened to again under pressure */
#define H2_STREAMS  100        /* of one connection at a time */
#define H2_DRAIN    (8u << 20) /* of a request's body, thrown away after an answer that came before its end */
#define H2_AWAKE_MS 1000 /* without a stream and without a byte, until the session's memory goes to sleep */
#define H2_PILE     (256u << 10) /* bytes that are still read of a client behind the last frame to it */
#define H2_QUEUED   1000 /* frames for a client that reads nothing, from which nothing is read of it */
#define H2_ITEM     256  /* bytes of memory that such a frame takes, roughly */
#define H2_STEP     1024 /* bytes read at a time under pressure (io_memory.h), where one such frame is enough */

/*
 *     H2_OPEN --> H2_ENDING --> H2_FAILED
 *        +--------------------------^
 *
 * h2_enter() is the one writer. The connection is over (CONN_OVER) from any.
 */
enum h2_state {
    H2_OPEN,
    H2_ENDING, /* GOAWAY was sent, or is on its way: no new streams, those that there are go on */
    H2_FAILED, /* the client broke a rule: it was recorded, and GOAWAY says which; nothing more is begun */
    H2_STATES
};

/*
 * A stream's request.
 *
 *     H2S_HEAD --> H2S_BODY --> H2S_WHOLE --> H2S_DRAIN
 *         |            +--------------------------^
 *         +--> H2S_WHOLE without a body, or malformed; H2S_DRAIN where no exchange could be made
 *     any --> H2S_CLOSED
 *
 * h2_stream_enter() is the one writer. There is an exchange in BODY and WHOLE; in CLOSED until it knows.
 */
enum h2_stream_state {
    H2S_HEAD,   /* the head is under way */
    H2S_BODY,   /* the exchange is told of the body, when it takes some (`wanted`), and of its end */
    H2S_WHOLE,  /* it has been told all, or that it is malformed (`bad`) */
    H2S_DRAIN,  /* the exchange is over; what comes is thrown away */
    H2S_CLOSED, /* the session has no such stream any more */
    H2S_STATES
};

/*
 * … and its answer.
 *
 *     H2A_AWAITED --> H2A_BEGUN --> H2A_SENT
 *
 * h2_answer_enter() is the one writer.
 */
enum h2_answer_phase {
    H2A_AWAITED,
    H2A_BEGUN, /* the final head was handed to the session */
    H2A_SENT,  /* END_STREAM is out */
    H2A_PHASES
};

struct h2 {
    struct conn *conn;
    enum h2_state state;
    nghttp2_session *session;
    struct h2_stream *streams;
    size_t nstreams;
    struct io_share share; /* what the session's frames take that wait for the client */
    unsigned busy;         /* see above */
    bool pumping;          /* h2_pump is at work */
    uint64_t idle_since;   /* monotonic ms: when the last stream went */
    uint64_t woken;        /* … when something happened last on a connection without a stream */
    uint64_t head_since;   /* … when the head began that is under way; 0: none is */
    uint64_t settled_by; /* … when the client must have agreed to our settings (RFC 9113 6.5.3); 0: it has */
    uint64_t armed;      /* … when the io's deadline comes; 0: it is not set */
    struct http2_guard guard;
    /* The session's. It sleeps only while there are no streams: who enters the session from elsewhere wakes it. */
    struct http2_memory memory;
};

struct h2_stream {
    struct h2 *h2;
    struct h2_stream *next, **link;
    int32_t id;
    enum h2_stream_state state;
    enum h2_answer_phase phase;
    struct xchg *x;

    /* the request */
    struct http2_list list; /* the head while it comes; then the trailers */
    struct buf in;          /* of the body: nobody took it yet … */
    struct io_share share;  /* … which counts in the sandbox's sum */
    struct http_length length;
    bool feeding;        /* the exchange is being given some of it */
    bool wanted;         /* H2S_BODY: the exchange takes some now */
    bool ended;          /* END_STREAM has come */
    uint64_t drain_left; /* bytes of its body that are thrown away when the exchange is over */
    bool drain_long;     /* … and the client may take its time for it */
    bool bad;            /* the request is malformed: the stream is reset when the answer is through */

    /* the answer */
    struct http2_out out;
    /* monotonic ms: the client must have sent more of its request (`wanted`), or taken more of its answer, by then;
     * 0: no matter */
    uint64_t due;
};

/* No new streams. */
void h2_stop(struct h2 *h2);
/* The client broke a rule, which is recorded; false: it was, before. */
bool h2_blame(struct h2 *h2, const char *code, const char *why);

/* Sends what can be sent, unless somebody further up the stack will; ends the connection where it is over. */
void h2_pump(struct h2 *h2);

/* Something has changed that a time limit hangs on. */
void h2_watch(struct h2 *h2, uint64_t due);

/* The last stream has gone. */
void h2_rest(struct h2 *h2);

/* The client breaks a rule: said once in the record, and by GOAWAY. */
void h2_fail(struct h2 *h2, uint32_t error, const char *code, const char *why);

/* ---- conn_http2_stream.c ---- */

void h2_stream_enter(struct h2_stream *stream, enum h2_stream_state state);
void h2_answer_enter(struct h2_stream *stream, enum h2_answer_phase phase);
/* The session's callbacks about what comes. NULL: memory is short. */
nghttp2_session_callbacks *h2_callbacks(void);
/* Hands the exchange what lies in `in`, as long as it takes it, and the end. */
void h2_stream_feed(struct h2_stream *stream);
/* Forgets the exchange, frees the stream. */
void h2_stream_free(struct h2_stream *stream);
/* An answer that came before the request's end is out: how long may the client go on? */
void h2_stream_settle(struct h2_stream *stream);
/* The exchange was broken off by the client, or for what it sent: it may not happen often. */
void h2_stream_broken(struct h2_stream *stream);
/* Where a wait begins or ends; `ms` 0: none. */
void h2_stream_due(struct h2_stream *stream, unsigned ms);
/* How long may nothing come of a body? 0: a WebSocket has a limit for both sides together, which is the exchange's. */
unsigned h2_stream_body_ms(const struct h2_stream *stream);

/* ---- conn_http2_client.c ---- */

extern const struct xchg_client h2_client;
/* n bytes of an answer's body went into the connection's queue. */
void h2_out_sent(struct http2_out *out, size_t n);
/* A frame has gone: nghttp2's on_frame_send callback. */
int h2_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *arg);

#endif
