#include "proxy/flow/conn_http2.h"

#include <assert.h>
#include <openssl/rand.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/clock.h"
#include "proxy/codec/websocket.h"
#include "proxy/flow/state.h"

#define STREAM_PIECE 16384 /* of what waited: given to the exchange at a time */

/* ---- states ---- */

void h2_stream_enter(struct h2_stream *stream, enum h2_stream_state state) {
    static const uint8_t legal[H2S_STATES] = {
        [H2S_HEAD] = 1 << H2S_BODY | 1 << H2S_WHOLE | 1 << H2S_DRAIN | 1 << H2S_CLOSED,
        [H2S_BODY] = 1 << H2S_WHOLE | 1 << H2S_DRAIN | 1 << H2S_CLOSED,
        [H2S_WHOLE] = 1 << H2S_DRAIN | 1 << H2S_CLOSED,
        [H2S_DRAIN] = 1 << H2S_CLOSED,
    };
    assert(legal[stream->state] & 1 << state);
    stream->state = state;
    stream->wanted = false;
}

void h2_answer_enter(struct h2_stream *stream, enum h2_answer_phase phase) {
    static const uint8_t legal[H2A_PHASES] = {
        [H2A_AWAITED] = 1 << H2A_BEGUN,
        [H2A_BEGUN] = 1 << H2A_SENT,
    };
    assert(legal[stream->phase] & 1 << phase);
    stream->phase = phase;
}

/* ---- life ---- */

/* NULL: too many streams, or no memory. */
static struct h2_stream *stream_new(struct h2 *h2, int32_t id) {
    struct box *box = h2->conn->box;
    if (box->nstreams >= box->engine->config.limits.sandbox_streams) {
        box_shed(box, "streams", "too many streams are open");
        return NULL;
    }
    struct h2_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->h2 = h2;
    stream->id = id;
    http2_list_init(&stream->list);
    buf_init(&stream->in, HTTP2_WINDOW + HTTP2_FRAME);
    io_share_begin(&stream->share, box->memory);
    http2_out_init(&stream->out, h2->session, h2->conn->io, id, h2_out_sent);
    stream->next = h2->streams;
    stream->link = &h2->streams;
    if (stream->next)
        stream->next->link = &stream->next;
    h2->streams = stream;
    h2->nstreams++;
    box->nstreams++;
    return stream;
}

void h2_stream_free(struct h2_stream *stream) {
    struct h2 *h2 = stream->h2;
    *stream->link = stream->next;
    if (stream->next)
        stream->next->link = stream->link;
    h2->nstreams--;
    h2->conn->box->nstreams--;
    http2_list_clear(&stream->list);
    buf_release(&stream->in);
    io_share_end(&stream->share);
    http2_out_release(&stream->out);
    free(stream);
}

void h2_stream_due(struct h2_stream *stream, unsigned ms) {
    stream->due = ms ? clock_monotonic_ms() + ms : 0;
    if (ms)
        h2_watch(stream->h2, stream->due);
}

unsigned h2_stream_body_ms(const struct h2_stream *stream) {
    return stream->x && stream->x->status == 101 ? 0 : stream->h2->conn->box->engine->config.limits.body_ms;
}

/* ---- windows ---- */

/* n bytes of the body are taken, and as many may come in their stead: under pressure no more than H2_NARROW of them all. */
static void stream_consume(struct h2_stream *stream, size_t n) {
    int32_t window = io_share_pressed(&stream->share) ? H2_NARROW : HTTP2_WINDOW;
    if (stream->state == H2S_CLOSED)
        return;
    if (stream->state == H2S_BODY)
        nghttp2_session_set_local_window_size(stream->h2->session, NGHTTP2_FLAG_NONE, stream->id, window);
    nghttp2_session_consume_stream(stream->h2->session, stream->id, n);
}

/* ---- heads ---- */

/* The key of a WebSocket's handshake proves nothing but that it was answered. */
static void stream_key(char key[HTTP2_KEY_LEN]) {
    unsigned char bytes[16] = {0};
    RAND_bytes(bytes, sizeof bytes);
    base64_encode(slice_make(bytes, sizeof bytes), key);
}

/* What the frames say against what the head says. */
static enum http_refusal stream_framing(struct h2_stream *stream, const struct http1_request *req) {
    /* where nothing is said of a body, and none is chunked, a WebSocket follows */
    if (req->framing == HTTP_BODY_LENGTH)
        stream->length = http_length(req->framing, req->length);
    return stream->ended && http_length_short(&stream->length) ? HTTP_REFUSED_LENGTH_DIFFERS
                                                               : HTTP_REFUSED_NOT;
}

static int stream_parse(struct h2_stream *stream, struct xchg *x) {
    struct http2_request about;
    char key[HTTP2_KEY_LEN];
    stream_key(key);
    enum http_refusal refusal = http2_request_head(&stream->list, stream->ended, key, &x->head, &about);
    int r = refusal ? ERR_PARSE : http1_request_parse(&x->req, buf_slice(&x->head));
    if (r == 0)
        refusal = stream_framing(stream, &x->req);
    if (r == 0)
        x->req.never = http2_list_marks(&stream->list, x->req.fields, x->req.nfields);
    if (r == 0 && about.websocket) {
        struct slice asked;
        x->extended = websocket_asked(&x->req, &asked);
        refusal = x->extended ? HTTP_REFUSED_NOT : HTTP_REFUSED_PROTOCOL;
    }
    if (refusal)
        r = ERR_PARSE;
    if (refusal) {
        /* the method is all that can be told; it moves to where the exchange keeps its bytes */
        struct slice method = about.method.n <= HTTP1_METHOD_MAX ? about.method : SLICE_NONE;
        buf_clear(&x->head);
        if (buf_put(&x->head, method))
            method = SLICE_NONE;
        memset(&x->req, 0, offsetof(struct http1_request, fields));
        x->req.method = method.n ? buf_slice(&x->head) : SLICE_NONE;
        x->req.minor = 1;
        x->req.refusal = refusal;
    }
    return r;
}

/* The head is whole: an exchange begins. */
static void stream_start(struct h2_stream *stream) {
    struct h2 *h2 = stream->h2;
    struct xchg *x = xchg_new(h2->conn, &h2_client);
    if (!x) {
        h2_stream_enter(stream, H2S_DRAIN);
        nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    x->stream = stream;
    stream->x = x;
    int r = stream_parse(stream, x);
    http2_list_clear(&stream->list);
    if (r)
        stream->bad = true;
    x->body_done = r == 0 && (stream->ended || (stream->length.told && stream->length.left == 0));
    h2_stream_enter(stream, r || x->body_done ? H2S_WHOLE : H2S_BODY);
    xchg_start(x, r);
}

/* ---- bodies ---- */

static void stream_count(struct h2_stream *stream) {
    io_share_set(&stream->share, stream->in.cap);
}

static void stream_is_bad(struct h2_stream *stream, enum http_refusal refusal) {
    stream->bad = true;
    if (stream->state == H2S_BODY)
        h2_stream_enter(stream, H2S_WHOLE);
    buf_release(&stream->in);
    stream_count(stream);
    h2_stream_due(stream, 0);
    xchg_body_bad(stream->x, refusal);
}

static void stream_feed_end(struct h2_stream *stream) {
    struct http_field trailers[HTTP1_TRAILER_FIELDS];
    size_t n = 0;
    enum http_refusal refusal = http2_trailers(&stream->list, trailers, HTTP1_TRAILER_FIELDS, &n);
    if (!refusal && http_length_short(&stream->length))
        refusal = HTTP_REFUSED_LENGTH_DIFFERS;
    if (refusal) {
        stream_is_bad(stream, refusal);
        return;
    }
    h2_stream_enter(stream, H2S_WHOLE);
    stream->x->body_done = true;
    h2_stream_due(stream, 0);
    xchg_body_end(stream->x, trailers, n);
}

static void stream_feed_piece(struct h2_stream *stream) {
    char piece[STREAM_PIECE]; /* `in` may go while the exchange has it */
    struct slice part = slice_sub(buf_slice(&stream->in), 0, sizeof piece);
    memcpy(piece, part.p, part.n);
    buf_consume(&stream->in, part.n);
    stream_consume(stream, part.n);
    xchg_body(stream->x, slice_make(piece, part.n));
}

void h2_stream_feed(struct h2_stream *stream) {
    struct h2 *h2 = stream->h2;
    if (stream->feeding)
        return; /* further up the stack, which goes on */
    stream->feeding = true;
    h2->busy++;
    while (stream->wanted && buf_len(&stream->in))
        stream_feed_piece(stream);
    if (buf_len(&stream->in) == 0)
        buf_trim(&stream->in);
    stream_count(stream);
    if (stream->wanted && stream->ended && buf_len(&stream->in) == 0)
        stream_feed_end(stream);
    stream->feeding = false;
    h2->busy--;
    h2_pump(h2);
}

/* Request and answer have passed whole, and the session forgets the stream: what the exchange had no room for, HTTP2_WINDOW bytes
 * at most, is handed over all the same. */
static void stream_hand_over(struct h2_stream *stream) {
    stream->feeding = true;
    while (stream->state == H2S_BODY && buf_len(&stream->in))
        stream_feed_piece(stream);
    if (stream->state == H2S_BODY)
        stream_feed_end(stream);
    stream->feeding = false;
}

/* A client that is sending does not look at once: curl takes a reset that comes with the answer for a failure and
 * shows no answer. So the rest of its request is taken and thrown away for a while, as io_linger does for HTTP/1; then
 * the client is told that nobody wants it (RFC 9113 8.1), which can't be done before the answer is out, since a reset
 * overtakes what is queued. */
void h2_stream_settle(struct h2_stream *stream) {
    if (stream->phase != H2A_SENT || stream->ended || stream->state != H2S_DRAIN)
        return;
    const struct engine_limits *limits = &stream->h2->conn->box->engine->config.limits;
    if (stream->bad || stream->drain_left == 0)
        nghttp2_submit_rst_stream(stream->h2->session, NGHTTP2_FLAG_NONE, stream->id,
                                  stream->bad ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_NO_ERROR);
    else if (!stream->due)
        h2_stream_due(stream, stream->drain_long ? limits->body_ms : limits->linger_ms);
}

/* The exchange is over, the request is not. */
static void stream_drain(struct h2_stream *stream, size_t n) {
    if (stream->state == H2S_CLOSED || stream->bad)
        return;
    stream->drain_left = n < stream->drain_left ? stream->drain_left - n : 0;
    if (stream->drain_left == 0) {
        h2_stream_settle(stream);
        return;
    }
    nghttp2_session_consume_stream(stream->h2->session, stream->id, n);
    if (stream->drain_long && stream->phase == H2A_SENT)
        h2_stream_due(stream, h2_stream_body_ms(stream));
}

/* Bytes go to the exchange at once where it takes them, and wait where it does not. */
static int stream_data(struct h2_stream *stream, struct slice bytes) {
    if (!http_length_take(&stream->length, bytes.n)) {
        stream_is_bad(stream, HTTP_REFUSED_LENGTH_DIFFERS);
        return 0;
    }
    if (!stream->wanted || buf_len(&stream->in)) {
        int r = buf_put(&stream->in, bytes);
        stream_count(stream);
        return r;
    }
    h2_stream_due(stream, h2_stream_body_ms(stream));
    stream->feeding = true;
    xchg_body(stream->x, bytes);
    stream->feeding = false;
    stream_consume(stream, bytes.n);
    return 0;
}

/* ---- the session's callbacks ---- */

/* After each: is there anything left to go on with? */
static int stream_goes_on(const struct h2 *h2) {
    return h2->conn->state == CONN_HTTP ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *head, void *arg) {
    struct h2 *h2 = arg;
    (void)session;
    const char *why = http2_guard_frame(&h2->guard, head, clock_monotonic_ms());
    if (why)
        h2_fail(h2, NGHTTP2_ENHANCE_YOUR_CALM, "http2-flood", why);
    else if (head->type == NGHTTP2_PRIORITY && head->stream_id == 0) /* which the library passes over */
        h2_fail(h2, NGHTTP2_PROTOCOL_ERROR, "http2-error", "PRIORITY on stream 0");
    return stream_goes_on(h2);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg) {
    struct h2 *h2 = arg;
    struct h2_stream *stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    h2->head_since = clock_monotonic_ms();
    h2_watch(h2, h2->head_since + h2->conn->box->engine->config.limits.head_ms);
    if (stream || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    if (h2->state != H2_OPEN || !(stream = stream_new(h2, frame->hd.stream_id))) {
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM);
        return 0;
    }
    nghttp2_session_set_stream_user_data(session, stream->id, stream);
    /* all alike, and in turn: what a client wishes is its own matter among its own streams, but costs us work */
    nghttp2_extpri alike = {.urgency = NGHTTP2_EXTPRI_DEFAULT_URGENCY, .inc = 1};
    nghttp2_session_change_extpri_stream_priority(session, stream->id, &alike, 1);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t nname,
                     const uint8_t *value, size_t nvalue, uint8_t flags, void *arg) {
    struct h2_stream *stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    (void)arg;
    if (!stream || stream->state > H2S_BODY)
        return 0;
    int r = http2_list_add(&stream->list, slice_make(name, nname), slice_make(value, nvalue),
                           flags & NGHTTP2_NV_FLAG_NO_INDEX);
    return r ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static void stream_block_whole(struct h2_stream *stream, bool ended) {
    struct h2 *h2 = stream->h2;
    h2->head_since = 0;
    stream->ended |= ended;
    if (h2->state == H2_FAILED)
        return;
    if (stream->state == H2S_HEAD) {
        stream_start(stream);
    } else if (stream->state == H2S_BODY && !ended) {
        stream_is_bad(stream, HTTP_REFUSED_TRAILER); /* a second block is the trailers, and these end it */
    } else if (stream->state == H2S_BODY) {
        h2_stream_feed(stream);
    }
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg) {
    struct h2 *h2 = arg;
    struct h2_stream *stream = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    bool ended = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    if (frame->hd.type == NGHTTP2_HEADERS && !stream)
        h2->head_since = 0;
    if (frame->hd.type == NGHTTP2_SETTINGS && frame->hd.flags & NGHTTP2_FLAG_ACK)
        h2->settled_by = 0;
    if (!stream)
        return stream_goes_on(h2);
    if (frame->hd.type == NGHTTP2_HEADERS) {
        stream_block_whole(stream, ended);
    } else if (frame->hd.type == NGHTTP2_DATA && ended) {
        stream->ended = true;
        if (stream->wanted)
            h2_stream_feed(stream);
        else if (stream->state == H2S_BODY && http_length_short(&stream->length))
            stream_is_bad(stream, HTTP_REFUSED_LENGTH_DIFFERS);
    }
    return stream_goes_on(h2);
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *p, size_t n,
                   void *arg) {
    struct h2 *h2 = arg;
    struct h2_stream *stream = nghttp2_session_get_stream_user_data(session, id);
    (void)flags;
    http2_guard_data(&h2->guard, n);
    nghttp2_session_consume_connection(session, n);
    if (stream && !stream->x)
        stream_drain(stream, n);
    if (!stream || !stream->x || (stream->state != H2S_BODY && !stream->length.told) ||
        h2->state == H2_FAILED || stream->bad)
        return stream_goes_on(h2);
    if (stream_data(stream, slice_make(p, n)))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    return stream_goes_on(h2);
}

void h2_stream_broken(struct h2_stream *stream) {
    struct h2 *h2 = stream->h2;
    const char *why = http2_guard_broken(&h2->guard, clock_monotonic_ms());
    if (why)
        h2_fail(h2, NGHTTP2_ENHANCE_YOUR_CALM, "http2-flood", why);
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t error, void *arg) {
    struct h2 *h2 = arg;
    struct h2_stream *stream = nghttp2_session_get_stream_user_data(session, id);
    if (!stream)
        return 0;
    bool whole = error == NGHTTP2_NO_ERROR && stream->ended && stream->phase == H2A_SENT;
    if (whole)
        stream_hand_over(stream);
    h2_stream_enter(stream, H2S_CLOSED);
    if (stream->x && whole) {
        xchg_client_gone(
            stream->x, "tails",
            "too many requests that were answered wait for their upstreams to take what was sent");
    } else if (stream->x) {
        h2_stream_broken(stream);
        xchg_client_gone(stream->x, "client-reset",
                         error == NGHTTP2_CANCEL ? "the client gave the request up"
                                                 : "the client reset the stream");
    }
    bool own = h2->conn->state == CONN_HTTP;
    h2_stream_free(stream);
    if (!own)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (h2->nstreams == 0)
        h2_rest(h2);
    return 0;
}

nghttp2_session_callbacks *h2_callbacks(void) {
    nghttp2_session_callbacks *c = http2_callbacks();
    if (!c)
        return NULL;
    nghttp2_session_callbacks_set_on_begin_frame_callback(c, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(c, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(c, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(c, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(c, h2_frame_sent);
    return c;
}
