#include "proxy/flow/conn_http2.h"

#include "proxy/flow/state.h"

void h2_out_sent(struct http2_out *out, size_t n) {
    struct h2_stream *stream = (struct h2_stream *)((char *)out - offsetof(struct h2_stream, out));
    struct h2 *h2 = stream->h2;
    http2_guard_sent(&h2->guard, n, buf_len(&out->bytes));
    if (!stream->x || (stream->due && !stream->wanted))
        h2_stream_due(stream, buf_len(&out->bytes) ? h2->conn->box->engine->config.limits.body_ms : 0);
}

/* What the library ends the connection for is in its last frame. */
static void broke_rule(struct h2 *h2, const nghttp2_goaway *goaway) {
    bool flood = goaway->error_code == NGHTTP2_ENHANCE_YOUR_CALM;
    struct slice rule = http2_broken_rule(goaway);
    char why[160];
    snprintf(why, sizeof why, "%s%.*s",
             flood ? "" : "the client broke the rules of HTTP/2: ", SLICE_ARG(rule));
    h2_blame(h2, flood ? "http2-flood" : "http2-error", why);
}

int h2_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *arg) {
    struct h2 *h2 = arg;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        h2_stop(h2);
        if (frame->goaway.error_code != NGHTTP2_NO_ERROR)
            broke_rule(h2, &frame->goaway);
        return 0;
    }
    bool ends = (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
                frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    struct h2_stream *stream =
        ends ? nghttp2_session_get_stream_user_data(session, frame->hd.stream_id) : NULL;
    if (stream) {
        h2_answer_enter(stream, H2A_SENT);
        if (!stream->x)
            stream->due = 0;
        h2_stream_settle(stream);
    }
    return 0;
}

/* ---- what exchanges ask for ---- */

/* Hands the final head over. `body`: something follows. */
static int answer_submit(struct h2_stream *stream, const struct http2_nvs *nvs, bool body) {
    nghttp2_data_provider provider = http2_out_provider(&stream->out);
    if (stream->phase != H2A_AWAITED)
        return ERR_USAGE;
    h2_answer_enter(stream, H2A_BEGUN);
    stream->out.complete = !body;
    if (stream->state == H2S_CLOSED)
        return 0;
    return nghttp2_submit_response(stream->h2->session, stream->id, nvs->nv, nvs->n, body ? &provider : NULL)
               ? ERR_NOMEM
               : 0;
}

static struct slice status_text(char text[12], int status) {
    snprintf(text, 12, "%03d", status);
    return slice_str(text);
}

static int h2_head(struct xchg *x, const struct http1_response *resp) {
    struct h2_stream *stream = x->stream;
    struct http2_nvs nvs = {.n = 0};
    char text[12];
    /* a WebSocket that was granted (RFC 8441 5) */
    bool granted = resp->status == 101;
    http2_nv_field(&nvs, &(struct http_field){.name = SLICE(":status"),
                                              .value = status_text(text, granted ? 200 : resp->status),
                                              .never = resp->never});
    for (size_t i = 0; i < resp->nfields; i++)
        if (http2_response_keeps(resp, x->head_request, &resp->fields[i]) &&
            !(granted && http_name_alike(resp->fields[i].name, SLICE("sec-websocket-accept"))))
            http2_nv_field(&nvs, &resp->fields[i]);
    if (resp->interim) {
        if (stream->state != H2S_CLOSED)
            nghttp2_submit_headers(stream->h2->session, NGHTTP2_FLAG_NONE, stream->id, NULL, nvs.nv, nvs.n,
                                   NULL);
        return 0;
    }
    /* an upstream's stream that is open still may end badly, which is told as long as ours is open, too */
    bool body = granted || x->up_open || resp->framing == HTTP_BODY_CHUNKED ||
                resp->framing == HTTP_BODY_CLOSE || (resp->framing == HTTP_BODY_LENGTH && resp->length > 0);
    return answer_submit(stream, &nvs, body);
}

static int h2_own(struct xchg *x, int status, struct slice type, struct slice body,
                  const struct http_field *more, size_t nmore) {
    struct h2_stream *stream = x->stream;
    struct http2_nvs nvs = {.n = 0};
    char text[12], length[24];
    bool head = slice_eq(x->req.method, SLICE("HEAD"));
    snprintf(length, sizeof length, "%zu", body.n);
    http2_nv_put(&nvs, SLICE(":status"), status_text(text, status));
    if (type.n)
        http2_nv_put(&nvs, SLICE("content-type"), type);
    http2_nv_put(&nvs, SLICE("content-length"), slice_str(length));
    for (size_t i = 0; i < nmore; i++)
        http2_nv_put(&nvs, more[i].name, more[i].value);
    int r = answer_submit(stream, &nvs, !head && body.n > 0);
    if (r)
        return r;
    r = head ? 0 : http2_out_put(&stream->out, body);
    stream->out.complete = true;
    return r;
}

/* What can be tunnelled is another connection; judge_connect refuses it before inside of TLS. */
static int h2_tunnel(struct xchg *x) {
    (void)x;
    return ERR_USAGE;
}

static void h2_proceed(struct xchg *x) {
    struct h2_stream *stream = x->stream;
    struct http2_nvs nvs = {.n = 0};
    http2_nv_put(&nvs, SLICE(":status"), SLICE("100"));
    if (stream->state != H2S_CLOSED)
        nghttp2_submit_headers(stream->h2->session, NGHTTP2_FLAG_NONE, stream->id, NULL, nvs.nv, nvs.n, NULL);
    h2_pump(stream->h2);
}

static void h2_data(struct xchg *x, struct slice bytes) {
    struct h2_stream *stream = x->stream;
    if (stream->state != H2S_CLOSED && !stream->out.complete && http2_out_put(&stream->out, bytes))
        nghttp2_submit_rst_stream(stream->h2->session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_INTERNAL_ERROR);
}

static void h2_end(struct xchg *x, const struct http_field *trailers, size_t n) {
    struct h2_stream *stream = x->stream;
    if (stream->state != H2S_CLOSED)
        http2_out_end(&stream->out, trailers, n);
}

static void h2_flush(struct xchg *x) {
    struct h2_stream *stream = x->stream;
    h2_pump(stream->h2);
}

static bool h2_full(struct xchg *x) {
    struct h2_stream *stream = x->stream;
    bool full = http2_out_full(&stream->out);
    if (full && !stream->wanted && !stream->due)
        h2_stream_due(stream, h2_stream_body_ms(stream));
    return full;
}

static void h2_want_body(struct xchg *x, bool want) {
    struct h2_stream *stream = x->stream;
    if (stream->state != H2S_BODY || stream->wanted == want)
        return;
    stream->wanted = want;
    h2_stream_due(stream, want ? h2_stream_body_ms(stream) : 0);
    if (want)
        h2_stream_feed(stream);
}

/* A reset overtakes what is queued: before it goes what has come of the answer, as far as there is room. False: the stream is no
 * more. */
static bool answer_out(struct h2_stream *stream) {
    struct h2 *h2 = stream->h2;
    struct conn *conn = h2->conn;
    int32_t id = stream->id;
    h2_pump(h2);
    return conn->state == CONN_HTTP && nghttp2_session_get_stream_user_data(h2->session, id) == stream;
}

static void h2_over(struct xchg *x, bool whole) {
    struct h2_stream *stream = x->stream;
    struct h2 *h2 = stream->h2;
    stream->x = NULL;
    if (!whole && stream->phase == H2A_BEGUN && stream->state != H2S_CLOSED && !answer_out(stream))
        return;
    bool closed = stream->state == H2S_CLOSED;
    if (!closed)
        h2_stream_enter(stream, H2S_DRAIN);
    size_t left = buf_len(&stream->in);
    buf_release(&stream->in);
    if (h2->conn->state != CONN_HTTP || closed)
        return;
    stream->drain_long = x->drain && (!x->req.expect_continue || x->proceed_said);
    stream->drain_left = stream->drain_long ? x->drain : H2_DRAIN;
    nghttp2_session_consume_stream(h2->session, stream->id, left);
    /* all of it at once: curl does not look for more room when it has had its answer */
    if (!stream->ended && !stream->bad)
        nghttp2_session_set_local_window_size(
            h2->session, NGHTTP2_FLAG_NONE, stream->id,
            (int32_t)(stream->drain_left < INT32_MAX ? stream->drain_left : INT32_MAX));
    if (stream->bad)
        h2_stream_broken(stream);
    if (whole && stream->phase != H2A_AWAITED) {
        if (!stream->bad)
            http2_guard_whole(&h2->guard);
        h2_stream_due(stream, x->box->engine->config.limits.body_ms);
        h2_stream_settle(stream);
    } else {
        nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, stream->id,
                                  stream->bad  ? NGHTTP2_PROTOCOL_ERROR
                                  : x->repeats ? NGHTTP2_HTTP_1_1_REQUIRED
                                               : NGHTTP2_INTERNAL_ERROR);
    }
    h2_pump(h2);
}

const struct xchg_client h2_client = {
    .http2 = true,
    .head = h2_head,
    .own = h2_own,
    .tunnel = h2_tunnel,
    .proceed = h2_proceed,
    .data = h2_data,
    .end = h2_end,
    .flush = h2_flush,
    .full = h2_full,
    .want_body = h2_want_body,
    .over = h2_over,
};
