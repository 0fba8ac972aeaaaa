/*
 * What libnghttp2 says of a connection to an upstream.
 */
#include "base/clock.h"
#include "proxy/upstream/upstream_http2_parts.h"

static struct up2_stream *find(nghttp2_session *session, int32_t id) {
    return nghttp2_session_get_stream_user_data(session, id);
}

/* `why`: the server asks for too much that is of no use to it; NULL: it does not. */
static int guarded(struct up2 *up, const char *why) {
    if (!why)
        return 0;
    snprintf(up->why, sizeof up->why, UP2_FLOODS ": %s", why);
    up2_stop(up);
    nghttp2_session_terminate_session(up->session, NGHTTP2_ENHANCE_YOUR_CALM);
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* ---- the codes of errors (RFC 9113 7), as a reason says them ---- */

#define CODES(before)                                                                                        \
    {                                                                                                        \
        [NGHTTP2_NO_ERROR] = before "NO_ERROR", [NGHTTP2_PROTOCOL_ERROR] = before "PROTOCOL_ERROR",          \
        [NGHTTP2_INTERNAL_ERROR] = before "INTERNAL_ERROR",                                                  \
        [NGHTTP2_FLOW_CONTROL_ERROR] = before "FLOW_CONTROL_ERROR",                                          \
        [NGHTTP2_SETTINGS_TIMEOUT] = before "SETTINGS_TIMEOUT",                                              \
        [NGHTTP2_STREAM_CLOSED] = before "STREAM_CLOSED",                                                    \
        [NGHTTP2_FRAME_SIZE_ERROR] = before "FRAME_SIZE_ERROR",                                              \
        [NGHTTP2_REFUSED_STREAM] = before "REFUSED_STREAM", [NGHTTP2_CANCEL] = before "CANCEL",              \
        [NGHTTP2_COMPRESSION_ERROR] = before "COMPRESSION_ERROR",                                            \
        [NGHTTP2_CONNECT_ERROR] = before "CONNECT_ERROR",                                                    \
        [NGHTTP2_ENHANCE_YOUR_CALM] = before "ENHANCE_YOUR_CALM",                                            \
        [NGHTTP2_INADEQUATE_SECURITY] = before "INADEQUATE_SECURITY",                                        \
        [NGHTTP2_HTTP_1_1_REQUIRED] = before "HTTP_1_1_REQUIRED",                                            \
        [CODES_KNOWN] = before "a code that RFC 9113 does not define",                                       \
    }
#define CODES_KNOWN (NGHTTP2_HTTP_1_1_REQUIRED + 1)

static const char *coded(const char *const words[CODES_KNOWN + 1], uint32_t error) {
    return words[error < CODES_KNOWN ? error : CODES_KNOWN];
}

static const char *const reset_words[] = CODES("the upstream reset the stream: ");
static const char *const ended_words[] = CODES(UP2_ENDED ": ");

/* ---- frames ---- */

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *head, void *arg) {
    struct up2 *up = arg;
    (void)session;
    if (head->type == NGHTTP2_ORIGIN && head->stream_id == 0)
        shared_remove(up);
    return guarded(up, http2_guard_frame(&up->guard, head, clock_monotonic_ms()));
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t nname,
                     const uint8_t *value, size_t nvalue, uint8_t flags, void *arg) {
    struct up2_stream *s = find(session, frame->hd.stream_id);
    (void)arg;
    if (!s || !s->events)
        return 0;
    int r = http2_list_add(s->phase == UP2A_HEAD ? &s->list : &s->trailers, slice_make(name, nname),
                           slice_make(value, nvalue), flags & NGHTTP2_NV_FLAG_NO_INDEX);
    return r ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg) {
    struct up2_stream *s = find(session, frame->hd.stream_id);
    (void)arg;
    if (s && s->head_waits && s->phase == UP2A_HEAD) { /* an interim one that nobody took yet */
        s->head_waits = false;
        http2_list_clear(&s->list);
    }
    return 0;
}

/* Is what lies in the list a head of 1xx? */
static bool is_interim(const struct http2_list *list) {
    struct http_field f;
    size_t at = 0;
    return http2_list_next(list, &at, &f) && slice_eq(f.name, SLICE(":status")) &&
           slice_starts(f.value, SLICE("1"));
}

static void stream_headers(struct up2_stream *s, bool ended) {
    if (s->phase != UP2A_HEAD) {
        if (!ended) { /* trailers, which must end it: else they are told as a head, an empty one, which is refused */
            http2_list_clear(&s->list);
            s->head_waits = true;
        }
        return;
    }
    if (!is_interim(&s->list))
        up2_answer_enter(s, UP2A_BODY);
    s->head_waits = true;
    s->head_ended = ended;
}

static void connection_ends(struct up2 *up, uint32_t error) {
    struct up2_stream *s;
    up2_stop(up);
    if (error)
        up->ended = coded(ended_words, error);
    if (error != NGHTTP2_HTTP_1_1_REQUIRED || !up->pool)
        return;
    site_wants_http1(up->site);
    LIST_FOREACH(s, &up->streams, entry)
    if (s->linked)
        site_wants_http1(s->site);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg) {
    struct up2 *up = arg;
    struct up2_stream *s = frame->hd.stream_id ? find(session, frame->hd.stream_id) : NULL;
    bool ended = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    if (frame->hd.type == NGHTTP2_GOAWAY)
        connection_ends(up, frame->goaway.error_code);
    if (frame->hd.type == NGHTTP2_SETTINGS && !(frame->hd.flags & NGHTTP2_FLAG_ACK))
        up2_settle(up);
    else if (frame->hd.type == NGHTTP2_SETTINGS)
        up->told--; /* one that answers nothing is an error, and is not told of */
    if (!s || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
        return 0;
    up->soon = true;
    if (frame->hd.type == NGHTTP2_HEADERS)
        stream_headers(s, ended);
    if (ended && s->phase < UP2A_WHOLE)
        up2_answer_enter(s, UP2A_WHOLE);
    up2_stream_tell(s);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *p, size_t n,
                   void *arg) {
    struct up2 *up = arg;
    struct up2_stream *s = find(session, id);
    (void)flags;
    http2_guard_data(&up->guard, n);
    nghttp2_session_consume_connection(session, n);
    if (!s || !s->events)
        return 0;
    if (buf_len(&s->in) || !s->listening || s->head_waits) {
        int r = up2_stream_keep(s, slice_make(p, n));
        io_share_set(&s->share, s->in.cap);
        return r ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
    }
    s->touched = true;
    s->events->data(s->arg, slice_make(p, n));
    nghttp2_session_consume_stream(session, id, n);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t error, void *arg) {
    struct up2 *up = arg;
    struct up2_stream *s = find(session, id);
    const char *broken = NULL;
    if (!s)
        return 0;
    bool whole = s->phase == UP2A_WHOLE || s->phase == UP2A_TOLD;
    if (whole)
        http2_guard_whole(&up->guard);
    else if (s->events && error != NGHTTP2_REFUSED_STREAM)
        broken = http2_guard_broken(&up->guard, clock_monotonic_ms());
    int r = guarded(up, broken);
    /* its server may say so to all that would follow on this connection */
    if (error == NGHTTP2_ENHANCE_YOUR_CALM && !whole)
        up2_stop(up);
    /* so do browsers and curl: it is of HTTP/2 and not of the request that this is said, before that is acted on */
    bool http1 = error == NGHTTP2_HTTP_1_1_REQUIRED;
    if (http1 && s->linked && up->pool)
        site_wants_http1(s->site);
    /* behind a GOAWAY the library closes what its sender has not acted on as if he had refused it */
    bool refused = error == NGHTTP2_REFUSED_STREAM;
    const char *reset = refused && up->ended[sizeof UP2_ENDED - 1] ? up->ended : coded(reset_words, error);
    if (s->events && (!whole || s->state == UP2S_OPEN))
        up2_stream_lose(s, broken ? up->why : reset, refused || http1);
    else
        up2_stream_enter(s, UP2S_CLOSED);
    up2_later(up);
    return r;
}

/* What the library ends a connection for is in its last frame. */
static void broke_rule(struct up2 *up, const nghttp2_goaway *goaway) {
    bool flood = goaway->error_code == NGHTTP2_ENHANCE_YOUR_CALM;
    struct slice rule = http2_broken_rule(goaway);
    snprintf(up->why, sizeof up->why, "%s: %.*s", flood ? UP2_FLOODS : UP2_BROKE_RULES, SLICE_ARG(rule));
}

/* Who has had the answer's end, and waits for this one, is told. */
static void stream_sent(struct up2_stream *s) {
    if (s->state == UP2S_OPEN)
        up2_stream_enter(s, UP2S_SENT);
    if (s->phase == UP2A_TOLD)
        up2_later(s->up);
}

static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *arg) {
    struct up2 *up = arg;
    bool ends = (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
                frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    struct up2_stream *s = ends ? find(session, frame->hd.stream_id) : NULL;
    if (s)
        stream_sent(s);
    if (frame->hd.type == NGHTTP2_HEADERS && up->secret)
        up->secret--;
    if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code && !up->why[0])
        broke_rule(up, &frame->goaway);
    return 0;
}

static nghttp2_session_callbacks *up2_callbacks(void) {
    nghttp2_session_callbacks *c = http2_callbacks();
    if (!c)
        return NULL;
    nghttp2_session_callbacks_set_on_begin_frame_callback(c, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(c, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(c, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(c, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(c, on_frame_sent);
    return c;
}

int up2_session(struct up2 *up) {
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, UP2_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HTTP2_LIST_MAX},
    };
    nghttp2_session_callbacks *callbacks = up2_callbacks();
    nghttp2_option *option = http2_option();
    int r = callbacks && option ? 0 : ERR_NOMEM;
    if (r == 0) {
        if (nghttp2_session_client_new3(&up->session, callbacks, up, option, http2_wiping_memory()) ||
            nghttp2_submit_settings(up->session, NGHTTP2_FLAG_NONE, settings,
                                    sizeof settings / sizeof *settings) ||
            nghttp2_session_set_local_window_size(up->session, NGHTTP2_FLAG_NONE, 0, INT32_MAX))
            r = ERR_NOMEM;
        up->told = 1;
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return r;
}
