#include "proxy/upstream/upstream_http2.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "proxy/codec/websocket.h"
#include "proxy/upstream/upstream_http2_parts.h"

#define UP2_LINGER_MS 1000

static void up2_pump(struct up2 *up);

/* ---- states ---- */

static const char *const up2_state_names[] = {"new", "open", "going", "broken"};
_Static_assert(sizeof up2_state_names / sizeof *up2_state_names == UP2_STATES, "a name for each state");

static void up2_enter(struct up2 *up, enum up2_state state) {
    static const uint8_t legal[UP2_STATES] = {
        [UP2_NEW] = 1 << UP2_OPEN | 1 << UP2_GOING | 1 << UP2_BROKEN,
        [UP2_OPEN] = 1 << UP2_GOING | 1 << UP2_BROKEN,
        [UP2_GOING] = 1 << UP2_BROKEN,
    };
    assert(legal[up->state] & 1 << state);
    log_debug("up2 %p: %s -> %s", (void *)up, up2_state_names[up->state], up2_state_names[state]);
    up->state = state;
}

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

void up2_settle(struct up2 *up) {
    if (up->state != UP2_NEW)
        return;
    up2_enter(up, UP2_OPEN);
    if (up->pool)
        attempt_answered(up->pool, up);
}

void up2_stop(struct up2 *up) {
    if (up->state < UP2_GOING)
        up2_enter(up, UP2_GOING);
}

/* Does the session have it? */
static bool stream_runs(const struct up2_stream *s) {
    return s->state == UP2S_OPEN || s->state == UP2S_SENT || s->state == UP2S_RESET;
}

/* ---- life ---- */

static void up2_free(struct up2 *up) {
    event_del(&up->defer);
    nghttp2_session_del(up->session);
    if (up->state == UP2_BROKEN)
        io_free(up->io);
    else
        io_linger(up->io, 0, UP2_LINGER_MS); /* GOAWAY is in its queue */
    free(up);
}

static void stream_free(struct up2_stream *stream) {
    LIST_REMOVE(stream, entry);
    stream->up->nstreams--;
    event_del(&stream->timer);
    http2_out_release(&stream->out);
    http2_list_clear(&stream->list);
    http2_list_clear(&stream->trailers);
    buf_release(&stream->in);
    io_share_end(&stream->share);
    free(stream);
}

/* Streams that nobody owns and the session has forgotten. */
static void up2_sweep(struct up2 *up) {
    struct up2_stream *next;
    if (up->busy)
        return;
    for (struct up2_stream *s = LIST_FIRST(&up->streams); s; s = next) {
        next = LIST_NEXT(s, entry);
        if (s->linked || stream_runs(s))
            continue;
        stream_free(s);
        if (up->nstreams == 0)
            io_deadline(up->io, UPSTREAM_IDLE_MS);
    }
}

/* Nobody owns a stream of it: all goes. */
static void up2_end_now(struct up2 *up) {
    if (up->state != UP2_BROKEN) {
        nghttp2_session_terminate_session(up->session, NGHTTP2_NO_ERROR);
        up->busy++;
        http2_send(up->session, up->io, true);
    }
    while (!LIST_EMPTY(&up->streams))
        stream_free(LIST_FIRST(&up->streams));
    up2_free(up);
}

void up2_retire(struct up2 *up) {
    struct upstream_pool *p = up->pool;
    struct up2_stream *s;
    up2_stop(up);
    if (p) {
        attempt_answered(p, up);
        shared_remove(up);
        TAILQ_REMOVE(&up->site->http2, up, entry);
        p->open--;
        up->site->users--;
        up->pool = NULL;
        up->site = NULL;
        tickets_forget(up->io->ssl);
    }
    LIST_FOREACH(s, &up->streams, entry)
    if (s->linked)
        return;
    if (!up->busy)
        up2_end_now(up);
}

/* The last stream has gone: is it kept? Never from within the library. */
static void up2_rest(struct up2 *up) {
    if (up->nstreams || up->busy)
        return;
    if (!up->pool || up->state >= UP2_GOING)
        up2_retire(up);
}

void up2_later(struct up2 *up) {
    event_active(&up->defer, EV_TIMEOUT, 0);
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

static void tell_data(struct up2_stream *s) {
    char piece[HTTP2_FRAME]; /* `in` may grow while the exchange has it */
    struct slice part = slice_sub(buf_slice(&s->in), 0, sizeof piece);
    memcpy(piece, part.p, part.n);
    buf_consume(&s->in, part.n);
    if (buf_len(&s->in) == 0)
        buf_trim(&s->in);
    io_share_set(&s->share, s->in.cap);
    if (stream_runs(s))
        nghttp2_session_consume_stream(s->up->session, s->id, part.n);
    s->touched = true;
    s->events->data(s->arg, slice_make(piece, part.n));
}

/* All that there is to tell, as long as it is listened to. The caller holds `busy`. */
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

static void up2_tell(struct up2 *up) {
    up->busy++;
    for (struct up2_stream *s = LIST_FIRST(&up->streams); s; s = LIST_NEXT(s, entry)) {
        up2_stream_tell(s);
        if (s->events && (http2_out_drained(&s->out) || stream_done(s)))
            s->events->drained(s->arg);
        if (s->events && s->touched)
            s->events->turn(s->arg);
        s->touched = false;
    }
    up->busy--;
}

/* Nothing is read any more: the library would tell of streams that are gone. */
static void up2_lose(struct up2 *up, const char *why) {
    if (up->state == UP2_BROKEN)
        return;
    up2_enter(up, UP2_BROKEN);
    io_pause(up->io);
    for (struct up2_stream *s = LIST_FIRST(&up->streams); s; s = LIST_NEXT(s, entry))
        if (s->state == UP2S_UNSENT || stream_runs(s))
            up2_stream_lose(s, why, s->state == UP2S_UNSENT);
}

/* Nobody waits for these any more. */
static void up2_reset_unowned(struct up2 *up) {
    for (struct up2_stream *s = LIST_FIRST(&up->streams); s; s = LIST_NEXT(s, entry)) {
        if (s->linked || !stream_runs(s) || s->state == UP2S_RESET)
            continue;
        up2_stream_enter(s, UP2S_RESET);
        nghttp2_submit_rst_stream(up->session, NGHTTP2_FLAG_NONE, s->id,
                                  s->malformed ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_CANCEL);
    }
}

static const char *broken(const struct up2 *up) {
    return up->why[0] ? up->why : UP2_BROKE_RULES;
}

/* The library is through with this connection. If it has ended it for an error of the server's, which may leave it open, it
 * will say nothing more of the streams that were under way. */
static void up2_session_over(struct up2 *up) {
    up2_stop(up);
    for (struct up2_stream *s = LIST_FIRST(&up->streams); s; s = LIST_NEXT(s, entry)) {
        if (!stream_runs(s))
            continue;
        up2_lose(up, broken(up));
        up2_later(up);
        return;
    }
}

/* From the event loop: tell, send, and see what is left. */
static void up2_turn(struct up2 *up) {
    up2_tell(up);
    up2_reset_unowned(up);
    up2_pump(up);
    up2_sweep(up);
    up2_rest(up);
}

static void on_deferred(evutil_socket_t fd, short what, void *arg) {
    (void)fd;
    (void)what;
    up2_turn(arg);
}

/* ---- the io ---- */

static void up2_pump(struct up2 *up) {
    if (up->busy || up->state == UP2_BROKEN)
        return;
    up->busy++;
    if (up->secret)
        io_sensitive(up->io);
    int r = http2_send(up->session, up->io, true);
    up->busy--;
    if (r) {
        up2_lose(up, up->ended);
        up2_later(up);
        return;
    }
    for (struct up2_stream *s = LIST_FIRST(&up->streams); s; s = LIST_NEXT(s, entry))
        if (s->out.was_full && buf_len(&s->out.bytes) <= HTTP2_LOW)
            up2_later(up);
    if (!nghttp2_session_want_read(up->session) && !nghttp2_session_want_write(up->session))
        up2_session_over(up);
}

static void on_readable(struct io *io) {
    struct up2 *up = io->arg;
    size_t got;
    char *bytes = io_scratch();
    int r = io_read(io, bytes, IO_SCRATCH, &got);
    if (r == ERR_AGAIN)
        return;
    if (r) {
        up2_lose(up, up->ended);
    } else {
        up->busy++;
        up->heard = clock_coarse_ms();
        ssize_t n = nghttp2_session_mem_recv(up->session, (const uint8_t *)bytes, got);
        up->busy--;
        if (n < 0)
            up2_lose(up, broken(up));
    }
    up2_turn(up);
}

static void on_drained(struct io *io) {
    up2_turn(io->arg);
}

static void on_failed(struct io *io, int err) {
    struct up2 *up = io->arg;
    (void)err;
    up2_lose(up, up->ended);
    up2_turn(up);
}

static void on_timeout(struct io *io) {
    struct up2 *up = io->arg;
    if (up->nstreams == 0)
        up2_retire(up);
}

static const struct io_events up2_io = {
    .readable = on_readable, .drained = on_drained, .failed = on_failed, .timeout = on_timeout};

/* ---- for the pool ---- */

struct up2 *up2_new(struct upstream_pool *pool, struct site *site, struct io *io, const struct addr *peer,
                    bool proxied) {
    struct up2 *up = calloc(1, sizeof *up);
    if (!up) {
        io_free(io);
        return NULL;
    }
    up->io = io;
    up->peer = *peer;
    up->proxied = proxied;
    up->ended = UP2_ENDED;
    LIST_INIT(&up->streams);
    http2_guard_init(&up->guard, clock_monotonic_ms());
    event_assign(&up->defer, pool->upstream->config.base, -1, 0, on_deferred, up);
    if (up2_session(up)) {
        up2_enter(up, UP2_BROKEN);
        up2_free(up);
        return NULL;
    }
    up->pool = pool;
    up->site = site;
    site->users++;
    TAILQ_INSERT_TAIL(&site->http2, up, entry);
    shared_add(pool, up);
    io_own(io, &up2_io, up);
    io_deadline(
        io, UPSTREAM_IDLE_MS); /* it may get no stream: another connection was made meanwhile, and has room */
    io_pause(io);
    io_resume(io);
    return up;
}

void up2_ask(struct up2 *up, unsigned ms) {
    io_deadline(up->io, ms);
    up2_later(up); /* the server may wait for our first words */
}

/* Is there an id for one more stream? Those that have sent nothing yet get theirs before it: at most all. */
static bool up2_numbers(const struct up2 *up) {
    return nghttp2_session_get_next_stream_id(up->session) + 2 * up->nstreams <= INT32_MAX;
}

static bool up2_silent(const struct up2 *up) {
    return up->nstreams && clock_coarse_ms() - up->heard >= UP2_SILENT_MS;
}

static bool up2_room(const struct up2 *up) {
    uint32_t theirs =
        nghttp2_session_get_remote_settings(up->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    return up->state < UP2_GOING && up->nstreams < UP2_STREAMS && up->nstreams < theirs && up2_numbers(up) &&
           !up2_silent(up);
}

bool up2_takes_websocket(const struct up2 *up) {
    return up->state == UP2_OPEN && up2_room(up) &&
           nghttp2_session_get_remote_settings(up->session, NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL) == 1;
}

/* Nothing has come on an idle one that no turn of the loop has read yet: its end may be in it. */
static bool up2_still_there(const struct up2 *up) {
    return !up->used || up->nstreams || io_idle_ok(up->io);
}

bool up2_usable(const struct up2 *up, bool once) {
    return up2_room(up) && (!once || up2_still_there(up));
}

struct up2 *up2_find(struct site *site, bool websocket, bool once) {
    struct up2 *up;
    TAILQ_FOREACH(up, &site->http2, entry)
    if (up2_usable(up, once) && (!websocket || up2_takes_websocket(up)))
        return up;
    return site->host && !websocket && up2_usable(site->host, once) ? site->host : NULL;
}

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
    if (up->nstreams++ == 0)
        up->heard = clock_coarse_ms();
    io_deadline(up->io, 0);
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

/* ---- for the exchange ---- */

void up2_own(struct upstream_link *link, const struct up2_events *events, void *arg) {
    struct up2_stream *s = link->http2;
    s->events = events;
    s->arg = arg;
}

/* The window of new streams, under pressure and without. */
static void fit_window(struct up2 *up) {
    bool narrow = io_share_pressed(&up->io->share);
    const nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE,
                                           narrow ? UP2_NARROW : UP2_WINDOW};
    if (narrow != up->narrow && !nghttp2_submit_settings(up->session, NGHTTP2_FLAG_NONE, &window, 1))
        up->narrow = narrow;
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

bool up2_full(struct upstream_link *link) {
    struct up2_stream *s = link->http2;
    return http2_out_full(&s->out);
}

void up2_malformed(struct upstream_link *link) {
    struct up2_stream *s = link->http2;
    s->malformed = true;
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
