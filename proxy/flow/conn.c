#include "proxy/flow/conn.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "netns/sandbox.h"
#include "proxy/codec/sniff.h"
#include "proxy/flow/state.h"
#include "proxy/flow/tunnel.h"
#include "proxy/flow/xchg.h"

/* Room for a head, and for what may follow it before the exchange takes it. */
#define CONN_IN_MAX  (HTTP1_HEAD_MAX + IO_SCRATCH)
#define CONN_IN_STEP 4096

static const char *const conn_state_names[] = {"sniff", "hello", "shake", "http", "tunnel", "over"};
_Static_assert(sizeof conn_state_names / sizeof *conn_state_names == CONN_STATES, "a name for each state");

static const struct io_events conn_sniff_events;

void conn_enter(struct conn *conn, enum conn_state state) {
    static const uint8_t legal[CONN_STATES] = {
        [CONN_SNIFF] = 1 << CONN_HELLO | 1 << CONN_HTTP | 1 << CONN_TUNNEL | 1 << CONN_OVER,
        [CONN_TUNNEL] = 1 << CONN_HELLO | 1 << CONN_OVER,
        [CONN_HELLO] = 1 << CONN_SHAKE | 1 << CONN_OVER,
        [CONN_SHAKE] = 1 << CONN_HTTP | 1 << CONN_OVER,
        [CONN_HTTP] = 1 << CONN_SNIFF | 1 << CONN_OVER,
    };
    assert(legal[conn->state] & 1 << state);
    log_debug("conn %p: %s -> %s", (void *)conn, conn_state_names[conn->state], conn_state_names[state]);
    conn->state = state;
}

/* Where did the client want to go? */
static void conn_find_destination(struct conn *conn, int fd) {
    if (netns_original_dst(fd, &conn->dst, &conn->direct)) {
        conn->direct = true;
        conn->dst.len = 0;
        return;
    }
    conn->port = addr_port(&conn->dst);
    char text[ADDR_TEXT_MAX];
    addr_text(&conn->dst, false, text);
    bool v6 = strchr(text, ':') != NULL;
    snprintf(conn->dial_text, sizeof conn->dial_text, "%s%.*s%s", v6 ? "[" : "", ADDR_TEXT_MAX - 3, text,
             v6 ? "]" : "");
    if (conn->direct || !conn->box->names)
        return;
    /* an address of the synthetic range that no answer gave is a name of nothing: no Host agrees with it */
    if (!names_lookup(conn->box->names, &conn->dst, &conn->dialed) &&
        names_in_range(conn->box->names, &conn->dst))
        conn->dialed = slice_str(conn->dial_text);
}

struct conn *conn_new(struct box *box, int fd) {
    struct conn *conn = calloc(1, sizeof *conn);
    if (!conn) {
        close(fd);
        return NULL;
    }
    conn->box = box;
    buf_init(&conn->in, CONN_IN_MAX);
    conn_find_destination(conn, fd);
    conn->io = io_open(box->engine->config.base, fd, false, &conn_sniff_events, conn);
    if (!conn->io) {
        free(conn);
        return NULL;
    }
    io_share_begin(&conn->io->share, box->memory);
    io_share_begin(&conn->share, box->memory);
    conn->next = box->conns;
    conn->link = &box->conns;
    if (conn->next)
        conn->next->link = &conn->next;
    box->conns = conn;
    box->nconns++;
    box->engine->nconns++;
    io_deadline(conn->io, box->engine->config.limits.idle_ms);
    return conn;
}

/* All but the io. */
static struct io *conn_detach(struct conn *conn) {
    struct engine *engine = conn->box->engine;
    struct io *io = conn->io;
    conn_enter(conn, CONN_OVER);
    conn->io = NULL;
    leaf_cancel(&conn->leaf);
    if (conn->x) {
        struct xchg *x = conn->x;
        conn->x = NULL;
        xchg_conn_gone(x);
    }
    if (conn->h2)
        conn_http2_over(conn);
    tunnel_release(conn->tunnel);
    http1_body_release(&conn->body);
    buf_release(&conn->in);
    io_share_end(&conn->share);
    *conn->link = conn->next;
    if (conn->next)
        conn->next->link = conn->link;
    conn->box->nconns--;
    engine->nconns--;
    conn->next = engine->dead_conns;
    engine->dead_conns = conn;
    box_settle(conn->box);
    return io;
}

void conn_close(struct conn *conn) {
    if (conn->state != CONN_OVER)
        io_free(conn_detach(conn));
}

void conn_linger(struct conn *conn, unsigned drain) {
    if (conn->state == CONN_OVER)
        return;
    unsigned ms = conn->box->engine->config.limits.linger_ms;
    io_linger(conn_detach(conn), drain, ms);
}

void conn_cut(struct conn *conn, bool reset) {
    if (conn->state != CONN_OVER)
        io_cut(conn_detach(conn), reset);
}

struct target_identity conn_identity(const struct conn *conn, enum http1_form form) {
    bool as_proxy = !conn->tls && (form == HTTP1_FORM_ABSOLUTE || form == HTTP1_FORM_AUTHORITY);
    struct target_identity id = {.tls = conn->tls, .sni = url_host_slice(&conn->sni), .port = conn->port};
    if (conn->tunnelled)
        id.dialed = url_host_slice(&conn->inner);
    else if (conn->direct || as_proxy)
        id.proxied = true;
    else
        id.dialed = conn->dialed;
    return id;
}

/* ---- refusing a connection ---- */

void conn_note(struct conn *conn, const char *code, const char *why) {
    struct engine *engine = conn->box->engine;
    struct buf *url = &engine->text;
    struct slice host = conn->sni.n       ? url_host_slice(&conn->sni)
                        : conn->tunnelled ? url_host_slice(&conn->inner)
                        : conn->dialed.n  ? conn->dialed
                                          : slice_str(conn->dial_text);
    char authority[URL_HOST_MAX + 16];
    snprintf(authority, sizeof authority, "%.*s:%u", SLICE_ARG(host), conn->port);
    buf_clear(url);
    bool clear = conn->state == CONN_SNIFF || (conn->state == CONN_HTTP && !conn->tls);
    record_put_url(url, clear && conn->port != 443 ? URL_HTTP : URL_HTTPS, slice_str(authority), SLICE_NONE,
                   SLICE_NONE, 0);
    struct decision decision;
    decision_begin(&decision);
    struct record r = {
        .denied = true, .code = slice_str(code), .reason = slice_str(why), .url = buf_slice(url)};
    decision_verdict(conn->box, &decision, &r, SLICE_NONE);
}

void conn_refuse(struct conn *conn, const char *code, const char *why) {
    conn_note(conn, code, why);
    conn_close(conn);
}

void conn_late(struct conn *conn, const char *code, const char *what, enum time_limit which) {
    char limit[TIME_LIMIT_TEXT], why[160];
    snprintf(why, sizeof why, "%s within %s", what,
             engine_limits_met(&conn->box->engine->config.limits, which, limit));
    conn_refuse(conn, code, why);
}

/* ---- the first bytes ---- */

static void conn_sniffed(struct conn *conn) {
    switch (sniff_first(buf_slice(&conn->in))) {
    case SNIFF_MORE: return;
    case SNIFF_TLS: {
        if (tunnel_begin(conn))
            return;
        if (conn_hello_length(buf_slice(&conn->in)))
            conn_tls_begin(conn);
        return;
    }
    case SNIFF_HTTP: conn_http1_begin(conn); return;
    case SNIFF_HTTP2: conn_refuse(conn, "http2-clear", "HTTP/2 in clear text is not served"); return;
    case SNIFF_SSH: conn_refuse(conn, "ssh", "neither TLS nor HTTP: SSH"); return;
    case SNIFF_OTHER: conn_refuse(conn, "not-tls-nor-http", "neither TLS nor HTTP"); return;
    }
}

static void conn_on_first(struct io *io) {
    struct conn *conn = io->arg;
    engine_reap(conn->box->engine);
    char *room;
    size_t got;
    if (buf_reserve(&conn->in, CONN_IN_STEP, &room)) {
        conn_close(conn);
        return;
    }
    int r = io_read(io, room, CONN_IN_STEP, &got);
    if (r == ERR_EOF) {
        if (buf_len(&conn->in) > 0)
            conn_refuse(conn, "not-tls-nor-http", "neither TLS nor HTTP: ended after a few bytes");
        else
            conn_close(conn);
        return;
    }
    if (r)
        return;
    if (buf_len(&conn->in) == 0)
        io_deadline(io, conn->box->engine->config.limits.handshake_ms);
    buf_commit(&conn->in, got);
    conn_sniffed(conn);
}

static void conn_on_silence(struct io *io) {
    struct conn *conn = io->arg;
    engine_reap(conn->box->engine);
    if (buf_len(&conn->in) > 0)
        conn_late(conn, "handshake-timeout", "the first bytes did not come", TIME_LIMIT_HANDSHAKE);
    else
        conn_close(conn);
}

void conn_on_failed(struct io *io, int err) {
    struct conn *conn = io->arg;
    (void)err;
    engine_reap(conn->box->engine);
    conn_close(conn);
}

static const struct io_events conn_sniff_events = {
    .readable = conn_on_first,
    .failed = conn_on_failed,
    .timeout = conn_on_silence,
};

/* Inside of a CONNECT everything begins again. */
void conn_http1_tunnel(struct conn *conn, const struct url_host *host, uint16_t port) {
    conn_enter(conn, CONN_SNIFF);
    io_share_set(&conn->share, 0); /* what is left goes to TLS, or is counted again */
    conn->tunnelled = true;
    conn->inner = *host;
    conn->port = port;
    conn->direct = false;
    io_own(conn->io, &conn_sniff_events, conn);
    io_deadline(conn->io, conn->box->engine->config.limits.handshake_ms);
    io_resume(conn->io);
    if (buf_len(&conn->in) > 0)
        conn_sniffed(conn);
}
