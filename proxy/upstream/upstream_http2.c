#include "proxy/upstream/upstream_http2.h"

#include <stdlib.h>

#include "base/clock.h"
#include "proxy/codec/websocket.h"
#include "proxy/upstream/upstream_http2_parts.h"

#define UP2_LINGER_MS 1000
#define UP2_CLOSED    "the upstream ended the connection"
#define UP2_BROKEN    "the upstream broke the rules of HTTP/2"

static void up2_pump(struct up2 *up);

/* ---- life ---- */

static void up2_free(struct up2 *up) {
    event_del(&up->defer);
    nghttp2_session_del(up->session);
    if (up->broken)
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
    free(stream);
}

/* Streams that nobody owns and the session has forgotten. */
static void up2_sweep(struct up2 *up) {
    struct up2_stream *next;
    if (up->busy)
        return;
    for (struct up2_stream *s = LIST_FIRST(&up->streams); s; s = next) {
        next = LIST_NEXT(s, entry);
        if (s->linked || (s->id && !s->closed && !up->broken))
            continue;
        stream_free(s);
        if (up->nstreams == 0)
            io_deadline(up->io, UPSTREAM_IDLE_MS);
    }
}

/* Nobody owns a stream of it: all goes. */
static void up2_end_now(struct up2 *up) {
    if (!up->broken) {
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
    up->going = true;
    if (p) {
        attempt_answered(p, up);
        TAILQ_REMOVE(&up->site->http2, up, entry);
        p->open--;
        up->site->users--;
        up->pool = NULL;
        up->site = NULL;
        if (up->io->ssl)
            SSL_set_app_data(up->io->ssl, NULL);
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
    if (!up->pool || up->going || up->broken)
        up2_retire(up);
}

void up2_later(struct up2 *up) {
    event_active(&up->defer, EV_TIMEOUT, 0);
}

/* ---- telling ---- */

static void tell_head(struct up2_stream *s) {
    s->head_waits = false;
    s->touched = true;
    s->told = s->head_ended;
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
    if (s->id && !s->up->broken)
        nghttp2_session_consume_stream(s->up->session, s->id, part.n);
    s->touched = true;
    s->events->data(s->arg, slice_make(piece, part.n));
}

/* All that there is to tell, as long as it is listened to. The caller holds `busy`. */
void up2_stream_tell(struct up2_stream *s) {
    while (s->events && s->listening && !s->told) {
        if (s->head_waits) {
            tell_head(s);
        } else if (buf_len(&s->in)) {
            tell_data(s);
        } else if (s->ended) {
            s->told = s->touched = true;
            s->events->end(s->arg, &s->trailers);
        } else if (s->why) {
            s->told = true;
            s->events->lost(s->arg, s->why, s->unseen);
        } else {
            break;
        }
    }
    /* an answer that was whole, and then the rest of the request is refused */
    if (s->events && s->listening && s->told && s->why && !s->closed) {
        s->closed = true;
        s->events->lost(s->arg, s->why, s->unseen);
    }
}

static void up2_tell(struct up2 *up) {
    up->busy++;
    for (struct up2_stream *s = LIST_FIRST(&up->streams); s; s = LIST_NEXT(s, entry)) {
        up2_stream_tell(s);
        if (s->events && http2_out_drained(&s->out))
            s->events->drained(s->arg);
        if (s->events && s->touched)
            s->events->turn(s->arg);
        s->touched = false;
    }
    up->busy--;
}

/* Nothing is read any more: the library would tell of streams that are gone. */
static void up2_lose(struct up2 *up, const char *why) {
    up->going = up->broken = true;
    io_pause(up->io);
    for (struct up2_stream *s = LIST_FIRST(&up->streams); s; s = LIST_NEXT(s, entry))
        if (!s->why && !s->closed)
            s->why = why;
}

/* Nobody waits for these any more. */
static void up2_reset_unowned(struct up2 *up) {
    for (struct up2_stream *s = LIST_FIRST(&up->streams); s && !up->broken; s = LIST_NEXT(s, entry)) {
        if (s->linked || !s->id || s->reset)
            continue;
        s->reset = true;
        nghttp2_submit_rst_stream(up->session, NGHTTP2_FLAG_NONE, s->id,
                                  s->malformed ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_CANCEL);
    }
}

/* The library is through with this connection. If it has ended it for an error of the server's, which may leave it open, it
 * will say nothing more of the streams that were under way. */
static void up2_session_over(struct up2 *up) {
    up->going = true;
    for (struct up2_stream *s = LIST_FIRST(&up->streams); s; s = LIST_NEXT(s, entry)) {
        if (!s->id)
            continue;
        up2_lose(up, UP2_BROKEN);
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
    if (up->busy || up->broken)
        return;
    up->busy++;
    if (up->secret)
        io_sensitive(up->io);
    int r = http2_send(up->session, up->io, true);
    up->busy--;
    if (r) {
        up2_lose(up, UP2_CLOSED);
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
        up2_lose(up, UP2_CLOSED);
    } else {
        up->busy++;
        ssize_t n = nghttp2_session_mem_recv(up->session, (const uint8_t *)bytes, got);
        up->busy--;
        if (n < 0)
            up2_lose(up, UP2_BROKEN);
    }
    up2_turn(up);
}

static void on_drained(struct io *io) {
    up2_turn(io->arg);
}

static void on_failed(struct io *io, int err) {
    (void)err;
    up2_lose(io->arg, UP2_CLOSED);
    up2_turn(io->arg);
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
    LIST_INIT(&up->streams);
    http2_guard_init(&up->guard, clock_monotonic_ms());
    event_assign(&up->defer, pool->upstream->config.base, -1, 0, on_deferred, up);
    if (up2_session(up)) {
        up->broken = true;
        up2_free(up);
        return NULL;
    }
    up->pool = pool;
    up->site = site;
    site->users++;
    TAILQ_INSERT_TAIL(&site->http2, up, entry);
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

static bool up2_room(const struct up2 *up) {
    uint32_t theirs =
        nghttp2_session_get_remote_settings(up->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    return !up->going && !up->broken && up->nstreams < UP2_STREAMS && up->nstreams < theirs;
}

bool up2_takes_websocket(const struct up2 *up) {
    return up->settled && up2_room(up) &&
           nghttp2_session_get_remote_settings(up->session, NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL) == 1;
}

struct up2 *up2_find(struct site *site, bool websocket) {
    struct up2 *up;
    TAILQ_FOREACH(up, &site->http2, entry)
    if (websocket ? up2_takes_websocket(up) : up2_room(up))
        return up;
    return NULL;
}

static void out_sent(struct http2_out *out, size_t n) {
    struct up2_stream *s = (struct up2_stream *)((char *)out - offsetof(struct up2_stream, out));
    http2_guard_sent(&s->up->guard, n, buf_len(&out->bytes));
}

static void on_late(evutil_socket_t fd, short what, void *arg);

int up2_attach(struct up2 *up, struct upstream_link *link) {
    struct up2_stream *s = calloc(1, sizeof *s);
    if (!s)
        return ERR_NOMEM;
    s->up = up;
    s->linked = true;
    http2_list_init(&s->list);
    http2_list_init(&s->trailers);
    buf_init(&s->in, UP2_WINDOW + HTTP2_FRAME);
    http2_out_init(&s->out, up->session, up->io, 0, out_sent);
    event_assign(&s->timer, event_get_base(&up->defer), -1, 0, on_late, s);
    LIST_INSERT_HEAD(&up->streams, s, entry);
    up->nstreams++;
    io_deadline(up->io, 0);
    *link = (struct upstream_link){.peer = up->peer, .proxied = up->proxied, .reused = up->used, .http2 = s};
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

/* `body`: more follows. `secret`: a value in it is one. */
static int stream_request(struct up2_stream *s, const struct http2_nvs *nvs, bool body, bool secret) {
    struct up2 *up = s->up;
    nghttp2_data_provider provider = http2_out_provider(&s->out);
    char *room;
    if (up->broken || up->going) {
        s->why = UP2_CLOSED;
        s->unseen = true;
        up2_later(up);
        return 0;
    }
    /* a queue that grows leaves a copy behind */
    if (secret && buf_reserve(io_queue(up->io), HTTP2_HIGH + 2 * IO_RECORD, &room))
        return ERR_NOMEM;
    s->out.complete = !body;
    int32_t id = nghttp2_submit_request(up->session, NULL, nvs->nv, nvs->n, body ? &provider : NULL, s);
    if (id < 0)
        return ERR_NOMEM;
    s->id = s->out.id = id;
    up->secret += secret;
    return 0;
}

int up2_request(struct upstream_link *link, const struct http1_request *req, const struct http1_write *opt) {
    struct http2_nvs nvs = {.n = 0};
    bool websocket = opt->upgrade.n > 0; /* RFC 8441 */
    http2_nv_put(&nvs, SLICE(":method"), websocket ? SLICE("CONNECT") : req->method);
    if (websocket)
        http2_nv_put(&nvs, SLICE(":protocol"), WEBSOCKET_NAME);
    http2_nv_put(&nvs, SLICE(":scheme"), SLICE("https"));
    http2_nv_put(&nvs, SLICE(":authority"), opt->host);
    http2_nv_put(&nvs, SLICE(":path"), req->origin);
    for (size_t i = 0; i < req->nfields; i++) {
        const struct http_field *f = &req->fields[i];
        if (!http2_request_keeps(req, websocket, f))
            continue;
        if (!http_is_token(f->name) || !http_is_value(f->value))
            return ERR_PARSE;
        http2_nv_put(&nvs, f->name, f->value);
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
    return s->id && !s->up->broken ? http2_out_put(&s->out, bytes) : ERR_EOF;
}

int up2_end(struct upstream_link *link, const struct http_field *trailers, size_t n) {
    struct up2_stream *s = link->http2;
    if (!s->id || s->up->broken)
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
    if (on && (s->head_waits || buf_len(&s->in) || s->ended || s->why))
        up2_later(s->up);
}

/* The timer is moved when it fires, not each time. */
void up2_deadline(struct upstream_link *link, unsigned ms) {
    struct up2_stream *s = link->http2;
    s->due = ms ? clock_monotonic_ms() + ms : 0;
    struct timeval tv = {.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000) * 1000};
    if (ms && !event_pending(&s->timer, EV_TIMEOUT, NULL))
        event_add(&s->timer, &tv);
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
        struct timeval tv = {.tv_sec = (time_t)((s->due - now) / 1000),
                             .tv_usec = (suseconds_t)((s->due - now) % 1000) * 1000};
        event_add(&s->timer, &tv);
        return;
    }
    s->due = 0;
    s->events->late(s->arg);
    up2_later(up);
}
