/*
 * HTTP/1 towards the client: heads are read one at a time, the next only when the answer before has ended. What is
 * pipelined waits in `in`, bounded; then in the kernel's buffers, since nothing more is read.
 *
 * h1_run() is the one loop that spends bytes of `in`. It is entered from the io's events and from the end of an
 * exchange, and never within itself (`running`), so a thousand requests in one segment need no stack.
 */
#include <assert.h>

#include "base/log.h"
#include "proxy/codec/websocket.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"

#define H1_STEP   4096        /* read at a time while a head is awaited */
#define H1_AHEAD  16384       /* pipelined bytes that are kept */
#define H1_SETTLE (64u << 10) /* so much of a request's body is read and thrown away to keep a connection */
#define H1_DRAIN_BODY                                                                                        \
    (8u << 20) /* … and so much to let the client read an answer before the connection ends */

static const struct xchg_client h1_client;
static void h1_run(struct conn *conn);

/* ---- the state of reading ---- */

static const char *const h1_phase_names[] = {"head", "body", "wait", "raw", "drain"};
_Static_assert(sizeof h1_phase_names / sizeof *h1_phase_names == H1_PHASES, "a name for each phase");

static void h1_enter(struct conn *conn, enum h1_phase phase) {
    static const uint8_t legal[H1_PHASES] = {
        [H1_HEAD] = 1 << H1_BODY | 1 << H1_WAIT,
        [H1_BODY] = 1 << H1_WAIT | 1 << H1_DRAIN,
        [H1_WAIT] = 1 << H1_HEAD | 1 << H1_RAW | 1 << H1_BODY,
        [H1_DRAIN] = 1 << H1_HEAD,
    };
    assert(legal[conn->phase] & 1 << phase);
    log_debug("conn %p: %s -> %s", (void *)conn, h1_phase_names[conn->phase], h1_phase_names[phase]);
    conn->phase = phase;
}

static bool h1_wants_bytes(const struct conn *conn) {
    if (conn->half_closed)
        return false;
    switch (conn->phase) {
    case H1_HEAD: return !io_full(conn->io);
    case H1_BODY: return conn->body_wanted;
    case H1_WAIT: return buf_len(&conn->in) < (io_share_pressed(&conn->share) ? 1 : H1_AHEAD);
    case H1_DRAIN: return true;
    case H1_RAW:
    case H1_PHASES: break;
    }
    return false;
}

static void h1_set_reading(struct conn *conn) {
    if (conn->state != CONN_HTTP)
        return;
    io_share_set(&conn->share, conn->in.cap);
    if (h1_wants_bytes(conn))
        io_resume(conn->io);
    else
        io_pause(conn->io);
}

static bool h1_closes(const struct conn *conn) {
    return conn->close_after || conn->half_closed || box_drains(conn->box);
}

static const struct engine_limits *h1_limits(const struct conn *conn) {
    return &conn->box->engine->config.limits;
}

/* How long may nothing come of a body? A WebSocket has a limit for both sides together, which is the exchange's. */
static unsigned h1_body_ms(const struct conn *conn) {
    return conn->phase == H1_BODY && conn->body.framing == HTTP_BODY_CLOSE ? 0 : h1_limits(conn)->body_ms;
}

/* ---- heads ---- */

/* Moves the head's bytes out: the whole buffer when nothing lies behind it. */
static int h1_move_head(struct conn *conn, struct slice head, struct buf *out) {
    size_t before = (size_t)(head.p - (conn->in.data + conn->in.start));
    buf_consume(&conn->in, before);
    if (buf_len(&conn->in) == head.n) {
        *out = conn->in;
        buf_init(&conn->in, out->limit);
        return 0;
    }
    int r = buf_put(out, head);
    buf_consume(&conn->in, head.n);
    return r;
}

static void h1_start(struct conn *conn, struct slice head, enum http_refusal refusal) {
    struct buf own;
    buf_init(&own, HTTP1_HEAD_MAX);
    int lost = refusal == HTTP_REFUSED_NOT ? h1_move_head(conn, head, &own) : 0;
    struct xchg *x = lost ? NULL : xchg_new(conn, &h1_client);
    if (!x) {
        buf_release(&own);
        conn_refuse(conn, "no-memory", "out of memory");
        return;
    }
    x->head = own;
    conn->x = x;
    conn->body_wanted = false;
    int r = ERR_PARSE;
    if (refusal == HTTP_REFUSED_NOT) {
        r = http1_request_parse(&x->req, buf_slice(&x->head));
    } else {
        x->req.refusal = refusal;
        x->req.method = SLICE_NONE;
        x->req.minor = 1;
    }
    conn->close_after = r != 0 || !x->req.keep_alive;
    if (r == 0)
        http1_body_init(&conn->body, x->req.framing, x->req.length);
    bool body = r == 0 && (x->req.framing == HTTP_BODY_CHUNKED ||
                           (x->req.framing == HTTP_BODY_LENGTH && x->req.length > 0));
    h1_enter(conn, body ? H1_BODY : H1_WAIT);
    x->body_done = !body;
    io_deadline(conn->io, 0);
    xchg_start(x, r);
}

/* Looks for a head in `in`. True: an exchange was begun, or the connection is over. */
static bool h1_look(struct conn *conn) {
    struct slice head = SLICE_NONE;
    int r = buf_len(&conn->in) ? http1_scan(&conn->scan, buf_slice(&conn->in), &head) : ERR_INCOMPLETE;
    if (r == ERR_INCOMPLETE) {
        if (buf_len(&conn->in) == 0)
            buf_trim(&conn->in);
        if (conn->half_closed)
            conn_close(conn);
        return conn->half_closed;
    }
    h1_start(conn, head, r ? conn->scan.refusal : HTTP_REFUSED_NOT);
    return true;
}

/* ---- bodies ---- */

static void h1_body_done(struct conn *conn) {
    struct http_field trailers[HTTP1_TRAILER_FIELDS];
    size_t n = http1_body_trailers(&conn->body, trailers, HTTP1_TRAILER_FIELDS);
    h1_enter(conn, H1_WAIT);
    if (conn->x) {
        conn->x->body_done = true;
        io_deadline(conn->io, 0);
        xchg_body_end(conn->x, trailers, n);
    }
}

/* Has all of the body's content come, and only its end was not noticed yet? */
static bool h1_at_end(const struct conn *conn) {
    return conn->body.framing == HTTP_BODY_LENGTH && conn->body.left == 0;
}

/* Spends bytes of the body; returns how many. Stops where nobody wants more. */
static size_t h1_feed(struct conn *conn, struct slice in) {
    size_t spent = 0;
    while (conn->state == CONN_HTTP) {
        bool draining = conn->phase == H1_DRAIN;
        if (!draining && !(conn->phase == H1_BODY && conn->body_wanted))
            break;
        size_t used;
        struct slice data;
        enum http1_step step = http1_body_next(&conn->body, slice_from(in, spent), &used, &data);
        spent += used;
        if (step == HTTP1_STEP_MORE)
            break;
        if (step == HTTP1_STEP_DONE) {
            if (!draining)
                h1_body_done(conn);
            else if (h1_closes(conn))
                conn_linger(conn, 0);
            else
                h1_enter(conn, H1_HEAD);
            break;
        }
        if (draining) {
            conn->drain_left = data.n < conn->drain_left ? conn->drain_left - data.n : 0;
            if (step == HTTP1_STEP_BAD || conn->drain_left == 0)
                conn_linger(conn, 0);
        } else if (step == HTTP1_STEP_BAD) {
            conn->close_after = true;
            h1_enter(conn, H1_WAIT);
            xchg_body_bad(conn->x, conn->body.refusal);
        } else {
            xchg_body(conn->x, data);
        }
    }
    return spent;
}

static void h1_await(struct conn *conn) {
    io_deadline(conn->io, buf_len(&conn->in) ? h1_limits(conn)->head_ms : h1_limits(conn)->idle_ms);
}

/* A drained body has ended, or an exchange has: the next head may come. */
static void h1_next(struct conn *conn) {
    http1_body_release(&conn->body);
    http1_scan_init(&conn->scan, false);
    conn->body_wanted = false;
    h1_await(conn);
}

/* A client that takes no answers gets no more of them. */
static bool h1_is_stuck(struct conn *conn) {
    if (!io_full(conn->io))
        return false;
    io_deadline(conn->io, h1_limits(conn)->body_ms);
    return true;
}

static void h1_run(struct conn *conn) {
    if (conn->running)
        return;
    conn->running = true;
    while (conn->state == CONN_HTTP) {
        if (conn->phase == H1_HEAD && !conn->x) {
            if (h1_is_stuck(conn) || !h1_look(conn))
                break;
        } else if ((conn->phase == H1_BODY && conn->body_wanted) || conn->phase == H1_DRAIN) {
            if (buf_len(&conn->in) == 0 && !h1_at_end(conn))
                break;
            size_t spent = h1_feed(conn, buf_slice(&conn->in));
            if (conn->state != CONN_HTTP)
                break;
            buf_consume(&conn->in, spent);
            if (conn->phase == H1_HEAD && !conn->x)
                h1_next(conn);
        } else {
            break;
        }
    }
    conn->running = false;
    h1_set_reading(conn);
}

/* ---- the io's events ---- */

static void h1_ended(struct conn *conn) {
    bool clean = conn->io->end == IO_END_CLEAN;
    if (clean && io_queued(conn->io) && (conn->phase == H1_HEAD || conn->phase == H1_DRAIN)) {
        conn_linger(conn, 0); /* it may still read the answer */
    } else if (conn->phase == H1_HEAD || conn->phase == H1_DRAIN) {
        conn_close(conn);
    } else if (conn->phase == H1_BODY && conn->body.framing == HTTP_BODY_CLOSE) {
        conn->half_closed = true;
        if (conn->io->end == IO_END_RESET || conn->io->end == IO_END_BROKEN)
            conn_close(conn);
        else
            h1_body_done(conn);
    } else if (conn->phase == H1_BODY) {
        conn->half_closed = conn->close_after = true;
        xchg_body_bad(conn->x, HTTP_REFUSED_NOT);
    } else if (clean) {
        conn->half_closed = conn->close_after = true; /* it may still read the answer */
    } else {
        conn_close(conn);
    }
}

/* Heads, and what is pipelined, go into `in`. */
static void h1_read_ahead(struct conn *conn) {
    char *room;
    size_t got;
    if (buf_reserve(&conn->in, H1_STEP, &room)) {
        conn_close(conn);
        return;
    }
    int r = io_read(conn->io, room, H1_STEP, &got);
    if (r == ERR_AGAIN) {
        buf_trim(&conn->in);
        return;
    }
    if (r) {
        h1_ended(conn);
        return;
    }
    if (buf_len(&conn->in) == 0 && conn->phase == H1_HEAD)
        io_deadline(conn->io, h1_limits(conn)->head_ms);
    buf_commit(&conn->in, got);
    if (conn->phase == H1_HEAD)
        h1_run(conn);
    else
        h1_set_reading(conn);
}

static void h1_read_body(struct conn *conn) {
    size_t got;
    char *bytes = io_scratch();
    int r = io_read(conn->io, bytes, IO_SCRATCH, &got);
    if (r == ERR_AGAIN)
        return;
    if (r) {
        h1_ended(conn);
        return;
    }
    if (conn->phase == H1_BODY || conn->drain_long)
        io_deadline(conn->io, h1_body_ms(conn));
    conn->running = true;
    size_t spent = h1_feed(conn, slice_make(bytes, got));
    conn->running = false;
    if (conn->state != CONN_HTTP)
        return;
    if (spent < got && buf_put(&conn->in, slice_make(bytes + spent, got - spent))) {
        conn_close(conn);
        return;
    }
    if (conn->phase == H1_HEAD && !conn->x)
        h1_next(conn);
    h1_run(conn);
}

static void h1_on_readable(struct io *io) {
    struct conn *conn = io->arg;
    engine_reap(conn->box->engine);
    if (!h1_wants_bytes(conn)) {
        io_pause(io);
        return;
    }
    if (conn->phase == H1_HEAD || conn->phase == H1_WAIT)
        h1_read_ahead(conn);
    else
        h1_read_body(conn);
}

static void h1_on_drained(struct io *io) {
    struct conn *conn = io->arg;
    engine_reap(conn->box->engine);
    if (conn->phase == H1_WAIT)
        io_deadline(io, 0);
    if (conn->x) {
        xchg_client_drained(conn->x);
    } else if (conn->phase == H1_HEAD) {
        h1_await(conn);
        h1_run(conn);
    }
}

static void h1_on_timeout(struct io *io) {
    struct conn *conn = io->arg;
    engine_reap(conn->box->engine);
    if (conn->x) {
        struct xchg *x = conn->x;
        conn->close_after = true;
        char limit[TIME_LIMIT_TEXT];
        xchg_trouble(x, "client-timeout",
                     conn->phase == H1_WAIT ? "the client took no more of its answer for %s"
                                            : "the client sent no more of its request for %s",
                     engine_limits_met(h1_limits(conn), TIME_LIMIT_BODY, limit));
        conn_close(conn);
    } else if (conn->phase == H1_HEAD && buf_len(&conn->in) > 0 && !io_full(io)) {
        conn_late(conn, "head-timeout", "the request's head did not end", TIME_LIMIT_HEAD);
    } else {
        conn_linger(conn, 0);
    }
}

const struct io_events conn_http1_events = {
    .readable = h1_on_readable,
    .drained = h1_on_drained,
    .failed = conn_on_failed,
    .timeout = h1_on_timeout,
};

void conn_http1_begin(struct conn *conn) {
    conn_enter(conn, CONN_HTTP);
    io_own(conn->io, &conn_http1_events, conn);
    h1_next(conn);
    h1_run(conn);
}

/* ---- what exchanges ask for ---- */

/* Does the client send all of its request before it looks for an answer? Not if it still waits for leave to begin. */
static bool h1_drains(const struct conn *conn, const struct xchg *x) {
    return conn->phase == H1_BODY && x->drain && (!x->req.expect_continue || x->proceed_said);
}

/* May the connection go on after an answer that came before the request's end? */
static bool h1_settles(const struct conn *conn, const struct xchg *x) {
    if (conn->phase != H1_BODY || h1_drains(conn, x))
        return true;
    return conn->body.framing == HTTP_BODY_LENGTH && conn->body.left <= H1_SETTLE && !x->req.expect_continue;
}

/* A client that can't be written to is gone; the exchange is told before this returns. */
static void h1_write(struct conn *conn, struct slice bytes, bool more) {
    if (conn->state == CONN_HTTP && !conn->io->shut_wanted && io_write(conn->io, bytes, more))
        conn_close(conn);
}

static int h1_head(struct xchg *x, const struct http1_response *resp) {
    struct conn *conn = x->conn;
    if (resp->interim && x->req.minor == 0)
        return 0;
    /* a refusal before the request's end: nobody wants the rest */
    if (!resp->interim && resp->status >= 400 && !h1_settles(conn, x))
        conn->close_after = true;
    struct http1_write opt = {
        .client_minor = x->req.minor,
        .client_keep_alive = x->req.keep_alive,
        .close = !resp->interim && h1_closes(conn),
        .upgrade = resp->status == 101 ? WEBSOCKET_NAME : SLICE_NONE,
    };
    /* room for a small body, too, so that one piece of memory serves for the answer */
    char *room;
    if (resp->framing == HTTP_BODY_LENGTH && resp->length < H1_STEP &&
        buf_reserve(io_queue(conn->io), (size_t)resp->length + H1_STEP, &room))
        return ERR_NOMEM;
    int r = http1_write_response(io_queue(conn->io), resp, x->head_request, &opt);
    if (r || resp->interim)
        return r;
    conn->chunked_out = opt.framing_out == HTTP_BODY_CHUNKED;
    if (opt.closing)
        conn->close_after = true;
    return 0;
}

static int h1_own(struct xchg *x, int status, struct slice type, struct slice body,
                  const struct http_field *more, size_t nmore) {
    struct conn *conn = x->conn;
    if (!h1_settles(conn, x))
        conn->close_after = true;
    int r = http1_write_own(io_queue(conn->io), status, type, body.n, more, nmore, h1_closes(conn));
    if (r)
        return r;
    h1_write(conn, slice_eq(x->req.method, SLICE("HEAD")) ? SLICE_NONE : body, false);
    return 0;
}

static int h1_tunnel(struct xchg *x) {
    h1_write(x->conn, SLICE("HTTP/1.1 200 Connection established\r\n\r\n"), false);
    return 0;
}

static void h1_proceed(struct xchg *x) {
    h1_write(x->conn, SLICE("HTTP/1.1 100 Continue\r\n\r\n"), false);
}

static void h1_data(struct xchg *x, struct slice bytes) {
    struct conn *conn = x->conn;
    if (!conn->chunked_out) {
        h1_write(conn, bytes, bytes.n < H1_STEP);
        return;
    }
    char size[HTTP1_CHUNK_HEAD_MAX];
    h1_write(conn, slice_make(size, http1_chunk_head(size, bytes.n)), true);
    h1_write(conn, bytes, true);
    h1_write(conn, SLICE("\r\n"), true);
}

static void h1_flush(struct xchg *x) {
    struct conn *conn = x->conn;
    if (conn->state == CONN_HTTP && !conn->io->shut_wanted && io_flush_soon(conn->io))
        conn_close(conn);
}

static void h1_end(struct xchg *x, const struct http_field *trailers, size_t n) {
    struct conn *conn = x->conn;
    if (conn->chunked_out && http1_chunk_end(io_queue(conn->io), trailers, n, NULL, 0)) {
        conn_close(conn); /* what comes next would be taken for the rest of this answer */
        return;
    }
    h1_flush(x); /* before all that is to be done at an exchange's end */
    if (x->status == 101 && conn->state == CONN_HTTP)
        io_shutdown(conn->io); /* the way back stays open */
}

/* A client that takes nothing has a limit; while its request is on its way there is one already. */
static bool h1_full(struct xchg *x) {
    struct conn *conn = x->conn;
    bool full = io_full(conn->io);
    if (full && conn->phase == H1_WAIT)
        io_deadline(conn->io, h1_limits(conn)->body_ms);
    return full;
}

static void h1_want_body(struct xchg *x, bool want) {
    struct conn *conn = x->conn;
    if (conn->phase != H1_BODY || conn->body_wanted == want)
        return;
    conn->body_wanted = want;
    io_deadline(conn->io, want ? h1_body_ms(conn) : 0);
    if (want)
        h1_run(conn);
    else
        h1_set_reading(conn);
}

static struct io *h1_raw(struct xchg *x, struct buf *ahead) {
    struct conn *conn = x->conn;
    *ahead = conn->in;
    buf_init(&conn->in, ahead->limit);
    io_share_set(&conn->share, 0);
    h1_enter(conn, H1_RAW);
    conn->close_after = true;
    return conn->io;
}

static void h1_stream(struct xchg *x) {
    struct conn *conn = x->conn;
    http1_body_init(&conn->body, HTTP_BODY_CLOSE, 0);
    h1_enter(conn, H1_BODY);
    conn->close_after = true;
}

/* The answer is complete, the request may not be. `drain`: so much of it is read all the same. */
static void h1_whole(struct conn *conn, bool settles, uint64_t drain) {
    bool closes = h1_closes(conn);
    conn->drain_long = drain > 0;
    if (conn->phase == H1_BODY && (drain || (!closes && settles))) {
        h1_enter(conn, H1_DRAIN);
        conn->drain_left = drain ? drain : H1_SETTLE;
        io_deadline(conn->io, drain ? h1_limits(conn)->body_ms : h1_limits(conn)->linger_ms);
    } else if (conn->phase == H1_BODY || closes) {
        conn_linger(conn, H1_DRAIN_BODY);
    } else {
        h1_enter(conn, H1_HEAD);
        h1_next(conn);
    }
}

static void h1_over(struct xchg *x, bool whole) {
    struct conn *conn = x->conn;
    bool settles = h1_settles(conn, x);
    uint64_t drain = h1_drains(conn, x) ? x->drain : 0;
    conn->x = NULL;
    if (conn->state != CONN_HTTP)
        return;
    if (!whole) {
        io_flush(conn->io);
        conn_cut(conn, !conn->tls && !conn->chunked_out);
        return;
    }
    if (x->tunnel) {
        h1_enter(conn, H1_HEAD);
        conn_http1_tunnel(conn, &x->target.host, x->target.port);
        return;
    }
    h1_whole(conn, settles, drain);
    h1_run(conn);
}

static const struct xchg_client h1_client = {
    .head = h1_head,
    .own = h1_own,
    .tunnel = h1_tunnel,
    .proceed = h1_proceed,
    .data = h1_data,
    .end = h1_end,
    .flush = h1_flush,
    .full = h1_full,
    .want_body = h1_want_body,
    .raw = h1_raw,
    .stream = h1_stream,
    .over = h1_over,
};
