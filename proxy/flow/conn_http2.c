#include "proxy/flow/conn_http2.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "proxy/flow/state.h"

/* ---- state ---- */

static const char *const h2_state_names[] = {"open", "ending", "failed"};
_Static_assert(sizeof h2_state_names / sizeof *h2_state_names == H2_STATES, "a name for each state");

static void h2_enter(struct h2 *h2, enum h2_state state) {
    static const uint8_t legal[H2_STATES] = {
        [H2_OPEN] = 1 << H2_ENDING | 1 << H2_FAILED,
        [H2_ENDING] = 1 << H2_FAILED,
    };
    assert(legal[h2->state] & 1 << state);
    log_debug("conn %p: %s -> %s", (void *)h2->conn, h2_state_names[h2->state], h2_state_names[state]);
    h2->state = state;
}

void h2_stop(struct h2 *h2) {
    if (h2->state == H2_OPEN)
        h2_enter(h2, H2_ENDING);
}

bool h2_blame(struct h2 *h2, const char *code, const char *why) {
    if (h2->state == H2_FAILED)
        return false;
    h2_enter(h2, H2_FAILED);
    conn_note(h2->conn, code, why);
    return true;
}

/* ---- time ---- */

void h2_watch(struct h2 *h2, uint64_t due) {
    if (h2->armed && h2->armed <= due)
        return;
    uint64_t now = clock_monotonic_ms();
    h2->armed = due;
    io_deadline(h2->conn->io, due > now ? (unsigned)(due - now) : 1);
}

static const struct engine_limits *h2_limits(const struct h2 *h2) {
    return &h2->conn->box->engine->config.limits;
}

/* What the connection as a whole waits for. */
static uint64_t h2_due(const struct h2 *h2) {
    uint64_t due = h2->nstreams ? 0 : h2->idle_since + h2_limits(h2)->idle_ms;
    if (due && !http2_memory_sleeps(&h2->memory) && h2->woken + H2_AWAKE_MS < due)
        due = h2->woken + H2_AWAKE_MS;
    if (h2->head_since && (!due || h2->head_since + h2_limits(h2)->head_ms < due))
        due = h2->head_since + h2_limits(h2)->head_ms;
    if (h2->settled_by && (!due || h2->settled_by < due))
        due = h2->settled_by;
    return due;
}

static void h2_rearm(struct h2 *h2) {
    uint64_t due = h2_due(h2);
    for (struct h2_stream *s = h2->streams; s; s = s->next)
        if (s->due && (!due || s->due < due))
            due = s->due;
    if (due)
        h2_watch(h2, due);
}

void h2_rest(struct h2 *h2) {
    h2->idle_since = h2->woken = clock_monotonic_ms();
    h2_watch(h2, h2_due(h2));
}

static void h2_wake(struct h2 *h2) {
    if (h2->nstreams)
        return;
    h2->woken = clock_monotonic_ms();
    http2_memory_wake(&h2->memory);
    h2_watch(h2, h2_due(h2));
}

/* Nothing has happened for a while, and nothing is under way. */
static void h2_doze(struct h2 *h2, uint64_t now) {
    if (h2->nstreams || h2->head_since || http2_memory_sleeps(&h2->memory) || h2->woken + H2_AWAKE_MS > now)
        return;
    if (io_queued(h2->conn->io) || nghttp2_session_want_write(h2->session) ||
        !http2_memory_sleep(&h2->memory))
        h2->woken = now; /* not yet */
}

static void h2_stream_late(struct h2_stream *stream) {
    char limit[TIME_LIMIT_TEXT], text[128];
    stream->due = 0;
    if (stream->x) {
        snprintf(text, sizeof text, "%s for %s",
                 stream->wanted ? "the client sent no more of its request"
                                : "the client took no more of its answer",
                 engine_limits_met(h2_limits(stream->h2), TIME_LIMIT_BODY, limit));
        xchg_client_gone(stream->x, "client-timeout", text);
    } else if (stream->state != H2S_CLOSED)
        nghttp2_submit_rst_stream(stream->h2->session, NGHTTP2_FLAG_NONE, stream->id,
                                  stream->phase == H2A_SENT ? NGHTTP2_NO_ERROR : NGHTTP2_CANCEL);
}

/* A time limit has passed, and what follows from it may not go out, since the client reads nothing. */
static void h2_stuck(struct conn *conn, bool over, bool late) {
    if (conn->state == CONN_HTTP && over)
        conn_linger(conn, H2_PILE);
    else if (conn->state == CONN_HTTP && late && io_full(conn->io))
        conn_close(conn);
}

static void h2_on_timeout(struct io *io) {
    struct conn *conn = io->arg;
    struct h2 *h2 = conn->h2;
    uint64_t now = clock_monotonic_ms();
    engine_reap(conn->box->engine);
    h2->armed = 0;
    if (h2->head_since && h2->head_since + h2_limits(h2)->head_ms <= now) {
        conn_late(conn, "head-timeout", "the request's head did not end", TIME_LIMIT_HEAD);
        return;
    }
    bool over = h2->settled_by && h2->settled_by <= now, late = false;
    char limit[TIME_LIMIT_TEXT], why[128];
    if (over) {
        h2_wake(h2);
        snprintf(why, sizeof why, "no word on our settings came within %s",
                 engine_limits_met(h2_limits(h2), TIME_LIMIT_HANDSHAKE, limit));
        h2_fail(h2, NGHTTP2_SETTINGS_TIMEOUT, "handshake-timeout", why);
    }
    h2->busy++;
    for (struct h2_stream *s = h2->streams; s && conn->state == CONN_HTTP; s = s->next)
        if (s->due && s->due <= now) {
            h2_stream_late(s);
            late = true;
        }
    h2->busy--;
    if (conn->state != CONN_HTTP)
        return;
    if (!over && !h2->nstreams && h2->idle_since + h2_limits(h2)->idle_ms <= now) {
        h2_wake(h2);
        nghttp2_session_terminate_session(h2->session, NGHTTP2_NO_ERROR);
        over = true;
    }
    if (over || h2->nstreams)
        h2_pump(h2);
    else
        h2_doze(h2, now);
    h2_stuck(conn, over, late);
    if (conn->state == CONN_HTTP)
        h2_rearm(h2);
}

/* ---- writing ---- */

/* Exchanges that waited for room go on. True: there were some, which may have written. */
static bool h2_tell_drained(struct h2 *h2) {
    bool told = false;
    h2->busy++;
    for (struct h2_stream *s = h2->streams; s; s = s->next)
        if (http2_out_drained(&s->out) && s->x) {
            xchg_client_drained(s->x);
            told = true;
        }
    h2->busy--;
    return told;
}

/* Counts the frames that wait for the client, who does not read. Too many? */
static bool h2_is_stuck(struct h2 *h2) {
    size_t queued = nghttp2_session_get_outbound_queue_size(h2->session);
    io_share_set(&h2->share, queued * H2_ITEM);
    return queued >= (io_share_pressed(&h2->share) ? 1 : H2_QUEUED);
}

void h2_pump(struct h2 *h2) {
    struct conn *conn = h2->conn;
    if (h2->busy || h2->pumping || conn->state != CONN_HTTP)
        return;
    h2->pumping = true;
    do {
        h2->busy++;
        int r = http2_send(h2->session, conn->io, false);
        h2->busy--;
        if (conn->state == CONN_HTTP && r)
            conn_close(conn);
    } while (conn->state == CONN_HTTP && h2_tell_drained(h2));
    h2->pumping = false;
    if (conn->state != CONN_HTTP)
        return;
    bool stuck = h2_is_stuck(h2);
    bool over = !nghttp2_session_want_read(h2->session) && !nghttp2_session_want_write(h2->session);
    if (over && h2->state == H2_OPEN) /* a client's own GOAWAY, which has ours for an answer (RFC 9113 6.8) */
        conn_http2_drain(conn);
    else if (over)
        conn_linger(conn, H2_PILE); /* what it still sends must not take the GOAWAY away */
    else if (stuck)
        io_pause(conn->io); /* the io is full: on_drained goes on */
}

static void h2_on_drained(struct io *io) {
    struct conn *conn = io->arg;
    engine_reap(conn->box->engine);
    io_resume(io);
    h2_wake(conn->h2);
    h2_pump(conn->h2);
}

/* ---- reading ---- */

void h2_fail(struct h2 *h2, uint32_t error, const char *code, const char *why) {
    if (h2_blame(h2, code, why))
        nghttp2_session_terminate_session(h2->session, error);
}

static void h2_on_readable(struct io *io) {
    struct conn *conn = io->arg;
    struct h2 *h2 = conn->h2;
    size_t got;
    engine_reap(conn->box->engine);
    char *bytes = io_scratch();
    int r = io_read(io, bytes, io_share_pressed(&h2->share) ? H2_STEP : IO_SCRATCH, &got);
    if (r == ERR_AGAIN)
        return;
    if (r) {
        conn_close(conn);
        return;
    }
    h2_wake(h2);
    h2->busy++;
    ssize_t n = nghttp2_session_mem_recv(h2->session, (const uint8_t *)bytes, got);
    h2->busy--;
    if (conn->state != CONN_HTTP)
        return;
    if (n < 0) {
        if (h2->state == H2_FAILED)
            conn_close(conn);
        else
            conn_refuse(conn, n == NGHTTP2_ERR_FLOODED ? "http2-flood" : "http2-error",
                        nghttp2_strerror((int)n));
        return;
    }
    h2_pump(h2);
}

static const struct io_events h2_events = {
    .readable = h2_on_readable,
    .drained = h2_on_drained,
    .failed = conn_on_failed,
    .timeout = h2_on_timeout,
};

/* ---- life ---- */

/* The session's options are the same for all. */
static int h2_session(struct h2 *h2) {
    nghttp2_session_callbacks *callbacks = h2_callbacks();
    nghttp2_option *option = http2_option();
    int r = callbacks && option ? 0 : ERR_NOMEM;
    http2_memory_init(&h2->memory);
    if (r == 0) {
        nghttp2_mem *memory = http2_memory_for(&h2->memory);
        if (nghttp2_session_server_new3(&h2->session, callbacks, h2, option, memory))
            r = ERR_NOMEM;
    }
    http2_memory_made(&h2->memory);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return r;
}

static const nghttp2_settings_entry h2_settings[] = {
    {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, H2_STREAMS},
    {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HTTP2_LIST_MAX},
    {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1}, /* RFC 8441 */
};

void conn_http2_begin(struct conn *conn) {
    struct h2 *h2 = calloc(1, sizeof *h2);
    conn_enter(conn, CONN_HTTP);
    conn->h2 = h2;
    if (!h2) {
        conn_close(conn);
        return;
    }
    h2->conn = conn;
    io_share_begin(&h2->share, conn->io->share.memory);
    h2->idle_since = h2->woken = clock_monotonic_ms();
    h2->settled_by = h2->idle_since + h2_limits(h2)->handshake_ms;
    http2_guard_init(&h2->guard, h2->idle_since);
    if (h2_session(h2) ||
        nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, h2_settings,
                                sizeof h2_settings / sizeof *h2_settings) ||
        nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0, INT32_MAX)) {
        conn_close(conn);
        return;
    }
    io_own(conn->io, &h2_events, conn);
    h2_rearm(h2);
    io_resume(conn->io);
    h2_pump(h2);
}

void conn_http2_drain(struct conn *conn) {
    struct h2 *h2 = conn->h2;
    h2_stop(h2);
    h2_wake(h2);
    nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE,
                          nghttp2_session_get_last_proc_stream_id(h2->session), NGHTTP2_NO_ERROR, NULL, 0);
    h2_pump(h2);
}

void conn_http2_over(struct conn *conn) {
    struct h2 *h2 = conn->h2;
    h2->busy++; /* for good */
    io_share_end(&h2->share);
    for (struct h2_stream *s = h2->streams; s; s = s->next)
        if (s->x)
            xchg_conn_gone(s->x);
}

void conn_http2_free(struct h2 *h2) {
    while (h2->streams)
        h2_stream_free(h2->streams);
    http2_memory_wake(&h2->memory);
    nghttp2_session_del(h2->session);
    http2_memory_release(&h2->memory);
    free(h2);
}
