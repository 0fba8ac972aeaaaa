/*
 * A connection of HTTP/2 to an upstream: its life, and what its io says. What libnghttp2 says of it is heard in
 * upstream_http2_session.c; its streams are in upstream_http2_stream.c.
 */
#include "proxy/upstream/upstream_http2.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/secret.h"
#include "proxy/upstream/upstream_http2_parts.h"

#define UP2_LINGER_MS 1000

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

/* Streams that nobody owns and the session has forgotten. */
static void up2_sweep(struct up2 *up) {
    struct up2_stream *next;
    if (up->busy)
        return;
    for (struct up2_stream *s = LIST_FIRST(&up->streams); s; s = next) {
        next = LIST_NEXT(s, entry);
        if (s->linked || up2_stream_runs(s))
            continue;
        up2_stream_free(s);
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
        up2_stream_free(LIST_FIRST(&up->streams));
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

/* ---- turns ---- */

static void up2_tell(struct up2 *up) {
    up->busy++;
    for (struct up2_stream *s = LIST_FIRST(&up->streams); s; s = LIST_NEXT(s, entry))
        up2_stream_turn(s);
    up->busy--;
}

/* Nothing is read any more: the library would tell of streams that are gone. */
static void up2_lose(struct up2 *up, const char *why) {
    if (up->state == UP2_BROKEN)
        return;
    up2_enter(up, UP2_BROKEN);
    io_pause(up->io);
    for (struct up2_stream *s = LIST_FIRST(&up->streams); s; s = LIST_NEXT(s, entry))
        if (s->state == UP2S_UNSENT || up2_stream_runs(s))
            up2_stream_lose(s, why, s->state == UP2S_UNSENT);
}

/* Nobody waits for these any more. */
static void up2_reset_unowned(struct up2 *up) {
    for (struct up2_stream *s = LIST_FIRST(&up->streams); s; s = LIST_NEXT(s, entry)) {
        if (s->linked || !up2_stream_runs(s) || s->state == UP2S_RESET)
            continue;
        up2_stream_enter(s, UP2S_RESET);
        nghttp2_submit_rst_stream(up->session, NGHTTP2_FLAG_NONE, s->id,
                                  s->malformed ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_CANCEL);
    }
}

/* Why its io can't be used any more. */
static const char *ended_by(const struct up2 *up) {
    return io_unreachable(up->io) ? UPSTREAM_UNREACHED : up->ended;
}

static const char *broken(const struct up2 *up) {
    return up->why[0] ? up->why : UP2_BROKE_RULES;
}

/* Nothing goes out any more; but an answer, or the word that a request was not acted on, may lie in the socket: it is read to its
 * end, which is near. */
static void up2_deafen(struct up2 *up) {
    if (up->deaf || up->state == UP2_BROKEN)
        return;
    up->deaf = true;
    up2_stop(up);
    io_deadline(up->io, UP2_LINGER_MS);
}

/* The library is through with this connection. If it has ended it for an error of the server's, which may leave it open, it
 * will say nothing more of the streams that were under way. */
static void up2_session_over(struct up2 *up) {
    up2_stop(up);
    for (struct up2_stream *s = LIST_FIRST(&up->streams); s; s = LIST_NEXT(s, entry)) {
        if (!up2_stream_runs(s))
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

void up2_pump(struct up2 *up) {
    if (up->busy || up->deaf || up->state == UP2_BROKEN)
        return;
    up->busy++;
    if (up->secret)
        io_sensitive(up->io);
    int r = http2_send(up->session, up->io, true);
    up->busy--;
    if (r) {
        if (up->io->write_failed)
            up2_deafen(up);
        else
            up2_lose(up, ended_by(up));
        up2_later(up);
        return;
    }
    for (struct up2_stream *s = LIST_FIRST(&up->streams); s; s = LIST_NEXT(s, entry))
        if (s->events && http2_out_drains(&s->out))
            up2_later(up);
    if (!nghttp2_session_want_read(up->session) && !nghttp2_session_want_write(up->session))
        up2_session_over(up);
}

static void on_readable(struct io *io) {
    struct up2 *up = io->arg;
    size_t got;
    char *bytes = io_scratch();
    up->heard = clock_coarse_ms();
    int r = io_read(io, bytes, IO_SCRATCH, &got);
    if (r == ERR_AGAIN)
        return;
    if (r) {
        up2_lose(up, ended_by(up));
    } else {
        bool sensitive = up->sensitive > 0;
        up->busy++;
        ssize_t n = nghttp2_session_mem_recv(up->session, (const uint8_t *)bytes, got);
        up->busy--;
        if (sensitive)
            secret_wipe(bytes, got);
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
    up2_deafen(up);
    up2_turn(up);
}

/* The io's deadline, as long as there are streams, is the next time to look whether the server is there. */
static void up2_look(struct up2 *up) {
    uint64_t now = clock_coarse_ms();
    bool asked = up->heard < up->pinged;
    uint64_t due = asked ? up->pinged + (uint64_t)UP2_PING_TIMES * up->silent_ms : up->heard + up->silent_ms;
    uint64_t rest = up->soon ? UP2_PING_SOON_MS : UP2_PING_MS;
    if (!asked && up->pinged && due < up->pinged + rest)
        due = up->pinged + rest;
    if (now >= due && asked && io_unacknowledged(up->io, (unsigned)(now - up->pinged))) {
        up2_lose(up, UPSTREAM_UNREACHED);
    } else if (now >= due && asked) {
        due = now + up->silent_ms;
    } else if (now >= due) {
        nghttp2_submit_ping(up->session, NGHTTP2_FLAG_NONE, NULL);
        up->soon = up->soon && (!up->pinged || now >= up->pinged + UP2_PING_MS);
        up->pinged = now;
        due = now + (uint64_t)UP2_PING_TIMES * up->silent_ms;
    }
    io_deadline(up->io, (unsigned)(due > now ? due - now : 0));
    up2_turn(up);
}

static void on_timeout(struct io *io) {
    struct up2 *up = io->arg;
    if (up->nstreams == 0) {
        up2_retire(up);
    } else if (up->deaf) {
        up2_lose(up, ended_by(up));
        up2_turn(up);
    } else if (up->state != UP2_BROKEN) {
        up2_look(up);
    }
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
    up->soon = true;
    up->silent_ms = pool->upstream->config.silent_ms;
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

/* Is it not known whether its server is there? One who owes the answer to a PING owes it when those who waited have gone, too. */
static bool up2_silent(const struct up2 *up) {
    return up->heard < up->pinged || (up->nstreams && clock_coarse_ms() - up->heard >= up->silent_ms);
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
