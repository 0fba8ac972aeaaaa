/*
 * A stream of a connection of HTTP/2 to an upstream: one request, and its answer as it comes and is told.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/secret.h"
#include "proxy/codec/websocket.h"
#include "proxy/upstream/upstream_http2_parts.h"

/* ---- states ---- */

void up2_stream_enter(struct up2_stream *s, enum up2_stream_state state) {
    static const uint8_t legal[UP2S_STATES] = {
        [UP2S_UNSENT] = 1 << UP2S_OPEN | 1 << UP2S_LOST,
        [UP2S_OPEN] = 1 << UP2S_SENT | 1 << UP2S_RESET | 1 << UP2S_CLOSED | 1 << UP2S_LOST,
        [UP2S_SENT] = 1 << UP2S_RESET | 1 << UP2S_CLOSED | 1 << UP2S_LOST,
        [UP2S_RESET] = 1 << UP2S_CLOSED | 1 << UP2S_LOST,
    };
    assert(legal[s->state] & 1 << state);
    s->state = state;
}

void up2_answer_enter(struct up2_stream *s, enum up2_answer_phase phase) {
    static const uint8_t legal[UP2A_PHASES] = {
        [UP2A_HEAD] = 1 << UP2A_BODY | 1 << UP2A_WHOLE | 1 << UP2A_GONE,
        [UP2A_BODY] = 1 << UP2A_WHOLE | 1 << UP2A_GONE,
        [UP2A_WHOLE] = 1 << UP2A_TOLD | 1 << UP2A_GONE,
        [UP2A_TOLD] = 1 << UP2A_GONE,
    };
    assert(legal[s->phase] & 1 << phase);
    s->phase = phase;
}

void up2_stream_lose(struct up2_stream *s, const char *why, bool unseen) {
    up2_stream_enter(s, UP2S_LOST);
    s->why = why;
    s->unseen = unseen;
}

/* ---- life ---- */

static void out_sent(struct http2_out *out, size_t n) {
    struct up2_stream *s = (struct up2_stream *)((char *)out - offsetof(struct up2_stream, out));
    http2_guard_sent(&s->up->guard, n, buf_len(&out->bytes));
}

static void on_late(evutil_socket_t fd, short what, void *arg);

int up2_attach(struct up2 *up, struct site *site, struct upstream_link *link) {
    struct up2_stream *s = calloc(1, sizeof *s);
    if (!s)
        return ERR_NOMEM;
    s->up = up;
    s->site = site;
    s->linked = true;
    http2_list_init(&s->list);
    http2_list_init(&s->trailers);
    buf_init(&s->in, UP2_WINDOW + HTTP2_FRAME);
    io_share_begin(&s->share, up->io->share.memory);
    http2_out_init(&s->out, up->session, up->io, 0, out_sent);
    event_assign(&s->timer, event_get_base(&up->defer), -1, 0, on_late, s);
    LIST_INSERT_HEAD(&up->streams, s, entry);
    if (up->nstreams++ == 0) {
        up->heard = clock_coarse_ms();
        io_deadline(up->io, up->silent_ms);
    }
    *link = (struct upstream_link){
        .peer = up->peer, .proxied = up->proxied, .reused = up->used, .http2 = s, .shared = site != up->site};
    up->used = true;
    return 0;
}

void up2_detach(struct upstream_link *link) {
    struct up2_stream *s = link->http2;
    s->events = NULL;
    s->linked = false;
    event_del(&s->timer);
    up2_later(s->up);
}

static void wipe_kept(struct up2_stream *s) {
    if (s->sensitive && s->in.data)
        secret_wipe(s->in.data, s->in.cap);
}

void up2_stream_free(struct up2_stream *s) {
    LIST_REMOVE(s, entry);
    s->up->nstreams--;
    event_del(&s->timer);
    http2_out_release(&s->out);
    http2_list_clear(&s->list);
    http2_list_clear(&s->trailers);
    wipe_kept(s);
    s->up->sensitive -= s->sensitive;
    buf_release(&s->in);
    io_share_end(&s->share);
    free(s);
}

/* ---- telling ---- */

static void tell_head(struct up2_stream *s) {
    s->head_waits = false;
    s->touched = true;
    if (s->head_ended)
        up2_answer_enter(s, UP2A_TOLD);
    s->events->head(s->arg, &s->list, s->head_ended);
    http2_list_clear(&s->list);
}

int up2_stream_keep(struct up2_stream *s, struct slice bytes) {
    char *room;
    /* where it grew, what it has been copied from would stay behind */
    int r = s->sensitive ? buf_reserve(&s->in, UP2_WINDOW + HTTP2_FRAME - buf_len(&s->in), &room) : 0;
    return r ? r : buf_put(&s->in, bytes);
}

static void tell_data(struct up2_stream *s) {
    char piece[HTTP2_FRAME]; /* `in` may grow while the exchange has it */
    struct slice part = slice_sub(buf_slice(&s->in), 0, sizeof piece);
    memcpy(piece, part.p, part.n);
    buf_consume(&s->in, part.n);
    if (buf_len(&s->in) == 0) {
        wipe_kept(s);
        buf_trim(&s->in);
    }
    io_share_set(&s->share, s->in.cap);
    if (up2_stream_runs(s))
        nghttp2_session_consume_stream(s->up->session, s->id, part.n);
    s->touched = true;
    bool sensitive = s->sensitive; /* the stream may be gone then */
    s->events->data(s->arg, slice_make(piece, part.n));
    if (sensitive)
        secret_wipe(piece, part.n);
}

void up2_stream_tell(struct up2_stream *s) {
    while (s->events && s->listening && s->phase < UP2A_TOLD) {
        if (s->head_waits) {
            tell_head(s);
        } else if (buf_len(&s->in)) {
            tell_data(s);
        } else if (s->phase == UP2A_WHOLE) {
            up2_answer_enter(s, UP2A_TOLD);
            s->touched = true;
            s->events->end(s->arg, &s->trailers);
        } else if (s->state == UP2S_LOST) {
            up2_answer_enter(s, UP2A_GONE);
            s->events->lost(s->arg, s->why, s->unseen);
        } else {
            break;
        }
    }
    /* an answer that was whole, and then the rest of the request is refused */
    if (s->events && s->listening && s->phase == UP2A_TOLD && s->state == UP2S_LOST) {
        up2_answer_enter(s, UP2A_GONE);
        s->events->lost(s->arg, s->why, s->unseen);
    }
}

/* Both ways have ended, and whoever has the link waits for the second. */
static bool stream_done(const struct up2_stream *s) {
    return s->phase == UP2A_TOLD && up2_stream_sent(s);
}

void up2_stream_turn(struct up2_stream *s) {
    up2_stream_tell(s);
    if (s->events && (http2_out_drained(&s->out) || stream_done(s)))
        s->events->drained(s->arg);
    if (s->events && s->touched)
        s->events->turn(s->arg);
    s->touched = false;
}

/* ---- for the exchange ---- */

void up2_own(struct upstream_link *link, const struct up2_events *events, void *arg) {
    struct up2_stream *s = link->http2;
    s->events = events;
    s->arg = arg;
}

/* The window of new streams, under pressure and without. Where that comes and goes the server has a word of it as often as it can
 * follow. */
static void fit_window(struct up2 *up) {
    bool narrow = io_share_pressed(&up->io->share);
    const nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE,
                                           narrow ? UP2_NARROW : UP2_WINDOW};
    if (narrow == up->narrow || up->told > 1 ||
        nghttp2_submit_settings(up->session, NGHTTP2_FLAG_NONE, &window, 1))
        return;
    up->narrow = narrow;
    up->told++;
}

/* `body`: more follows. `secret`: a value in it is one. */
static int stream_request(struct up2_stream *s, const struct http2_nvs *nvs, bool body, bool secret) {
    struct up2 *up = s->up;
    nghttp2_data_provider provider = http2_out_provider(&s->out);
    char *room;
    if (up->state >= UP2_GOING) {
        if (s->state == UP2S_UNSENT)
            up2_stream_lose(s, up->ended, true);
        up2_later(up);
        return 0;
    }
    /* a queue that grows leaves a copy behind */
    if (secret && buf_reserve(io_queue(up->io), HTTP2_HIGH + 2 * IO_RECORD, &room))
        return ERR_NOMEM;
    s->out.complete = !body;
    fit_window(up);
    int32_t id = nghttp2_submit_request(up->session, NULL, nvs->nv, nvs->n, body ? &provider : NULL, s);
    if (id < 0)
        return ERR_NOMEM;
    s->id = s->out.id = id;
    up2_stream_enter(s, UP2S_OPEN);
    up->secret += secret;
    if (!nghttp2_session_check_request_allowed(up->session)) /* that was the last id (RFC 9113 5.1.1) */
        up2_stop(up);
    return 0;
}

int up2_request(struct upstream_link *link, const struct http1_request *req, const struct http1_write *opt) {
    struct http2_nvs nvs = {.n = 0};
    bool websocket = opt->upgrade.n > 0; /* RFC 8441 */
    void (*put)(struct http2_nvs *, struct slice, struct slice) = req->never ? http2_nv_secret : http2_nv_put;
    put(&nvs, SLICE(":method"), websocket ? SLICE("CONNECT") : req->method);
    if (websocket)
        put(&nvs, SLICE(":protocol"), WEBSOCKET_NAME);
    put(&nvs, SLICE(":scheme"), SLICE("https"));
    put(&nvs, SLICE(":authority"), opt->host);
    put(&nvs, SLICE(":path"), req->origin);
    for (size_t i = 0; i < req->nfields; i++) {
        const struct http_field *f = &req->fields[i];
        if (!http2_request_keeps(req, websocket, f))
            continue;
        if (!http_is_token(f->name) || !http_is_value(f->value))
            return ERR_PARSE;
        http2_nv_field(&nvs, f);
    }
    if (req->te_trailers)
        http2_nv_put(&nvs, SLICE("te"), SLICE("trailers"));
    if (req->expect_continue && !opt->drop_expect)
        http2_nv_put(&nvs, SLICE("expect"), SLICE("100-continue"));
    for (size_t i = 0; i < opt->nadd; i++) {
        if (!http_is_token(opt->add[i].name) || !http_is_value(opt->add[i].value))
            return ERR_PARSE;
        http2_nv_secret(&nvs, opt->add[i].name, opt->add[i].value);
    }
    bool body = req->framing == HTTP_BODY_CHUNKED || (req->framing == HTTP_BODY_LENGTH && req->length > 0);
    if (req->framing == HTTP_BODY_LENGTH)
        http2_out_expect(&link->http2->out, req->length);
    return stream_request(link->http2, &nvs, body || websocket, opt->nadd > 0);
}

int up2_data(struct upstream_link *link, struct slice bytes) {
    struct up2_stream *s = link->http2;
    return s->state == UP2S_OPEN ? http2_out_put(&s->out, bytes) : ERR_EOF;
}

int up2_end(struct upstream_link *link, const struct http_field *trailers, size_t n) {
    struct up2_stream *s = link->http2;
    if (s->state == UP2S_SENT)
        return 0; /* with its head */
    if (s->state != UP2S_OPEN)
        return ERR_EOF;
    http2_out_end(&s->out, trailers, n);
    return 0;
}

void up2_flush(struct upstream_link *link) {
    struct up2_stream *s = link->http2;
    if (s->up->busy)
        up2_later(s->up);
    else
        up2_pump(s->up);
}

void up2_flush_late(struct upstream_link *link) {
    struct up2_stream *s = link->http2;
    if (buf_len(&s->out.bytes) < HTTP2_FRAME)
        up2_later(s->up);
    else
        up2_flush(link);
}

bool up2_sent(const struct upstream_link *link) {
    return up2_stream_sent(link->http2);
}

size_t up2_unsent(const struct upstream_link *link) {
    const struct up2_stream *s = link->http2;
    const struct up2 *up = s->up;
    /* what is in the queue of one that lives goes yet, whatever becomes of the stream; one that broke has lost it, whosever bytes
     * it has */
    size_t lost = up->deaf || up->state == UP2_BROKEN ? io_queued(up->io) + up->io->dropped : 0;
    return buf_len(&s->out.bytes) + lost;
}

bool up2_full(struct upstream_link *link) {
    struct up2_stream *s = link->http2;
    return http2_out_full(&s->out);
}

void up2_malformed(struct upstream_link *link) {
    struct up2_stream *s = link->http2;
    s->malformed = true;
}

void up2_sensitive(struct upstream_link *link) {
    struct up2_stream *s = link->http2;
    s->up->sensitive += !s->sensitive;
    s->sensitive = true;
}

void up2_listen(struct upstream_link *link, bool on) {
    struct up2_stream *s = link->http2;
    s->listening = on;
    if (on && (s->head_waits || buf_len(&s->in) || s->phase >= UP2A_WHOLE || s->state == UP2S_LOST))
        up2_later(s->up);
}

static void stream_arm(struct up2_stream *s, uint64_t ms) {
    struct timeval tv = {.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000) * 1000};
    s->fires = s->due;
    event_add(&s->timer, &tv);
}

/* The timer is moved when it fires, not each time; but one that would fire too late is. */
void up2_deadline(struct upstream_link *link, unsigned ms) {
    struct up2_stream *s = link->http2;
    s->due = ms ? clock_monotonic_ms() + ms : 0;
    if (ms && (!event_pending(&s->timer, EV_TIMEOUT, NULL) || s->due < s->fires))
        stream_arm(s, ms);
}

static void on_late(evutil_socket_t fd, short what, void *arg) {
    struct up2_stream *s = arg;
    struct up2 *up = s->up;
    uint64_t now = clock_monotonic_ms();
    (void)fd;
    (void)what;
    if (!s->due || !s->events)
        return;
    if (s->due > now) {
        stream_arm(s, s->due - now);
        return;
    }
    s->due = 0;
    s->events->late(s->arg);
    up2_later(up);
}
