#include "proxy/flow/tunnel.h"

#include <stdio.h>
#include <stdlib.h>

#include "proxy/codec/clienthello.h"
#include "proxy/flow/conn.h"
#include "proxy/flow/decision.h"
#include "proxy/flow/internal.h"
#include "proxy/io/relay.h"
#include "proxy/flow/state.h"
#include "proxy/upstream/upstream.h"

#define TUNNEL_STEP  4096
#define TUNNEL_DRAIN 65536 /* bytes that a client may still send after a refusal */

#define ALERT_ACCESS_DENIED  49
#define ALERT_INTERNAL_ERROR 80

struct tunnel {
    struct conn *conn;
    struct clienthello hello;
    struct facts facts; /* host points into `hello`, or into the connection */
    struct verdict verdict;
    struct decision decision;
    struct upstream_attempt *attempt;
    struct upstream_link *link;
    char peer[ADDR_TEXT_MAX];
    struct relay relay;
    uint64_t sent, received;
    bool released;
    const char *trouble; /* a word for the record, NULL: none */
    char trouble_text[UPSTREAM_TEXT_MAX];
};

static const struct io_events tunnel_hello_events, tunnel_wait_events;

/* ---- the record ---- */

static void tunnel_trouble(struct tunnel *t, const char *code, const char *text) {
    if (t->trouble)
        return;
    t->trouble = code;
    snprintf(t->trouble_text, sizeof t->trouble_text, "%s", text);
}

static void tunnel_record(struct tunnel *t, bool denied, const char *code, struct slice reason) {
    struct box *box = t->conn->box;
    struct buf *url = &box->engine->text2, hint;
    char authority[URL_HOST_MAX + 16], rule[RECORD_TEXT_MAX];
    buf_clear(url);
    buf_init(&hint, 8192);
    if (t->facts.port == url_default_port(URL_HTTPS))
        snprintf(authority, sizeof authority, "%.*s", SLICE_ARG(t->facts.host));
    else
        snprintf(authority, sizeof authority, "%.*s:%u", SLICE_ARG(t->facts.host), t->facts.port);
    record_put_url(url, URL_HTTPS, slice_str(authority), SLICE_NONE, SLICE_NONE, 0);
    struct record r = {.denied = denied,
                       .protocol = SLICE("tunnel"),
                       .code = slice_str(code),
                       .reason = reason,
                       .method = SLICE("tunnel"),
                       .url = buf_slice(url)};
    if (t->verdict.rule.index) {
        snprintf(rule, sizeof rule, "%s:%u", t->verdict.rule.file, t->verdict.rule.line);
        r.rule = slice_str(rule);
    }
    if (denied)
        policy_hint(box->policy, &t->facts, &t->verdict, &hint);
    decision_verdict(box, &t->decision, &r, buf_slice(&hint));
    buf_release(&hint);
}

/* What has not left by now never will. */
static void tunnel_count_sent(struct tunnel *t) {
    uint64_t unsent = t->link ? io_queued(t->link->io) + t->link->io->dropped : 0;
    t->sent -= unsent < t->sent ? unsent : t->sent;
}

void tunnel_release(struct tunnel *t) {
    if (!t || t->released)
        return;
    t->released = true;
    tunnel_count_sent(t);
    if (t->conn->box->cutting)
        tunnel_trouble(t, ENGINE_ENDED_CODE, ENGINE_ENDED_REASON);
    struct record r = {.sent = t->sent,
                       .received = t->received,
                       .has = RECORD_HAS_SENT | RECORD_HAS_RECEIVED,
                       .protocol = SLICE("tunnel"),
                       .upstream = slice_str(t->peer)};
    if (t->trouble) {
        r.code = slice_str(t->trouble);
        r.reason = slice_str(t->trouble_text);
    }
    decision_outcome(t->conn->box, &t->decision, &r);
    if (t->attempt)
        upstream_cancel(t->attempt);
    if (t->link)
        upstream_release(t->link, false, 0);
    t->attempt = NULL;
    t->link = NULL;
    clienthello_release(&t->hello);
}

void tunnel_free(struct tunnel *t) {
    tunnel_release(t);
    free(t);
}

/* ---- ends before the relay ---- */

/* An alert in clear, for nothing is agreed on yet; then the connection ends. */
static void tunnel_end(struct conn *conn, unsigned char alert) {
    const char record[] = {21, 3, 3, 0, 2, 2, (char)alert};
    (void)io_write(conn->io, slice_make(record, sizeof record), false);
    conn_linger(conn, TUNNEL_DRAIN);
}

static void tunnel_refuse(struct conn *conn, const char *code, struct slice reason) {
    tunnel_record(conn->tunnel, true, code, reason);
    tunnel_end(conn, ALERT_ACCESS_DENIED);
}

static void tunnel_refuse_policy(struct conn *conn) {
    struct tunnel *t = conn->tunnel;
    struct buf reason;
    buf_init(&reason, 8192);
    policy_explain(conn->box->policy, &t->facts, &t->verdict, 1, &reason);
    if (t->verdict.action == VERDICT_ASK)
        buf_puts(&reason, "; a tunnel is not held until a person has decided");
    tunnel_refuse(conn, verdict_reason_code(t->verdict.reason), buf_slice(&reason));
    buf_release(&reason);
}

/* The connection is none of ours: OpenSSL gets what has come. */
static void tunnel_pass_on(struct conn *conn) {
    tunnel_free(conn->tunnel);
    conn->tunnel = NULL;
    conn_tls_begin(conn);
}

/* ---- connecting, and the relay ---- */

static void tunnel_over(struct relay *r, enum relay_end end, unsigned side) {
    struct tunnel *t = r->arg;
    char limit[TIME_LIMIT_TEXT], text[128];
    if (end == RELAY_IDLE) {
        snprintf(text, sizeof text, "nothing came from either side for %s",
                 engine_limits_met(&t->conn->box->engine->config.limits, TIME_LIMIT_RELAY, limit));
        tunnel_trouble(t, "relay-idle", text);
    } else if (end == RELAY_BROKEN && side == 0)
        tunnel_trouble(t, "client-gone", "the client broke the connection off");
    else if (end == RELAY_BROKEN)
        tunnel_trouble(t, "upstream-truncated", "the upstream broke the connection off");
    if (end == RELAY_BROKEN && side == 1)
        conn_cut(t->conn, true);
    else
        conn_close(t->conn);
}

static void tunnel_connected(void *arg, struct upstream_link *link) {
    struct tunnel *t = arg;
    struct conn *conn = t->conn;
    struct buf early = conn->in;
    engine_reap(conn->box->engine);
    t->attempt = NULL;
    t->link = link;
    addr_text(&link->peer, true, t->peer);
    t->relay = (struct relay){
        .sides = {{.io = conn->io, .moved = &t->sent}, {.io = link->io, .moved = &t->received}},
        .idle_ms = conn->box->engine->config.limits.relay_ms,
        .over = tunnel_over,
        .arg = t,
    };
    buf_init(&conn->in, early.limit);
    relay_begin(&t->relay, (struct slice[2]){buf_slice(&early), SLICE_NONE});
    buf_release(&early);
}

static void tunnel_unconnected(void *arg, const struct upstream_failure *failure) {
    struct tunnel *t = arg;
    engine_reap(t->conn->box->engine);
    t->attempt = NULL;
    if (failure->peer.len)
        addr_text(&failure->peer, true, t->peer);
    tunnel_trouble(t, upstream_reason_code(failure->reason), failure->text);
    tunnel_end(t->conn,
               upstream_reason_refusal(failure->reason) ? ALERT_ACCESS_DENIED : ALERT_INTERNAL_ERROR);
}

static const struct upstream_callbacks tunnel_callbacks = {.ready = tunnel_connected,
                                                           .failed = tunnel_unconnected};

static void tunnel_go(struct conn *conn) {
    struct tunnel *t = conn->tunnel;
    const struct verdict *v = &t->verdict;
    struct upstream_origin origin = {.scheme = URL_HTTPS, .host = t->hello.name, .port = conn->port};
    struct upstream_options options = {
        .fresh = true, .unread = true, .private_name = v->to_private, .nets = v->nets, .nnets = v->nnets};
    struct buf reason;
    buf_init(&reason, 8192);
    policy_explain(conn->box->policy, &t->facts, v, 1, &reason);
    tunnel_record(t, false, verdict_reason_code(v->reason), buf_slice(&reason));
    buf_release(&reason);
    io_own(conn->io, &tunnel_wait_events, conn);
    io_pause(conn->io);
    io_deadline(conn->io, 0); /* the upstream has one of its own */
    t->attempt = upstream_acquire(conn->box->pool, &origin, &options, &tunnel_callbacks, t);
    if (!t->attempt) {
        tunnel_trouble(t, "no-memory", "out of memory");
        tunnel_end(conn, ALERT_INTERNAL_ERROR);
    }
}

/* ---- deciding ---- */

/* The name that was dialled, or empty: the address means nothing. */
static struct slice tunnel_dialed(const struct conn *conn) {
    return conn->tunnelled ? url_host_slice(&conn->inner) : conn->direct ? SLICE_NONE : conn->dialed;
}

/* Why the hello can't go through a tunnel, whatever the policy says of its name; NULL: it can. */
static const char *tunnel_obstacle(const struct conn *conn, const char **why) {
    const struct clienthello *hello = &conn->tunnel->hello;
    struct slice dialed = tunnel_dialed(conn);
    switch (hello->kind) {
    case CLIENTHELLO_NO_NAME:
        *why = "a tunnel goes by the name in the ClientHello (SNI), and there is none";
        return "tunnel-no-name";
    case CLIENTHELLO_ADDRESS:
        *why = "a tunnel goes by the name in the ClientHello (SNI), and there is an address";
        return "tunnel-address";
    case CLIENTHELLO_BAD_NAME:
        *why = "a tunnel goes by the name in the ClientHello (SNI), and that is malformed";
        return "tunnel-bad-name";
    case CLIENTHELLO_NAME: break;
    }
    if (conn->direct && !conn->tunnelled) {
        *why = "the proxy itself was dialled with TLS: where a tunnel is to lead is not known";
        return "tunnel-no-destination";
    }
    if (dialed.n && !slice_eq(dialed, url_host_slice(&hello->name))) {
        *why = "the name in the ClientHello (SNI) is another than the one that was dialled";
        return "tunnel-other-name";
    }
    if (hello->ech) {
        *why = "the ClientHello holds an encrypted one (ECH, or GREASE that looks like it), so that its name "
               "may be "
               "another than the one it shows";
        return "tunnel-ech";
    }
    return NULL;
}

static bool tunnel_limited(struct conn *conn) {
    const struct verdict *v = &conn->tunnel->verdict;
    unsigned wait_s;
    char why[128];
    if (box_takes(conn->box, v, &wait_s))
        return false;
    snprintf(why, sizeof why, "%s:%u permits %u connections in %u s, and they are used up: again in %u s",
             v->rule.file, v->rule.line, v->limit, v->limit_seconds, wait_s);
    tunnel_refuse(conn, "limit", slice_str(why));
    return true;
}

/* The hello is whole. */
static void tunnel_decide(struct conn *conn) {
    struct tunnel *t = conn->tunnel;
    const char *why = NULL, *code = tunnel_obstacle(conn, &why);
    bool named = t->hello.kind == CLIENTHELLO_NAME;
    /* without a name in it, the one that was dialled tells which rule does not come to bear */
    t->facts = (struct facts){.kind = FACTS_TUNNEL,
                              .scheme = URL_HTTPS,
                              .host = named ? url_host_slice(&t->hello.name) : tunnel_dialed(conn),
                              .port = conn->port};
    struct policy_about about = policy_about(conn->box->policy, &t->facts);
    policy_judge(conn->box->policy, &t->facts, &t->verdict);
    bool through = t->verdict.action == VERDICT_TUNNEL;
    if (!about.tunnels || slice_eq(t->facts.host, SLICE(INTERNAL_HOST)) ||
        (about.reads && (code || !through)))
        tunnel_pass_on(conn);
    else if (!through)
        tunnel_refuse_policy(conn);
    else if (code)
        tunnel_refuse(conn, code, slice_str(why));
    else if (!tunnel_limited(conn))
        tunnel_go(conn);
}

/* ---- the hello ---- */

/* More has come: the last `fresh` bytes of conn->in. */
static void tunnel_feed(struct conn *conn, size_t fresh) {
    struct tunnel *t = conn->tunnel;
    struct slice in = buf_slice(&conn->in);
    int r = clienthello_feed(&t->hello, slice_from(in, in.n - fresh));
    if (r == ERR_INCOMPLETE)
        return;
    if (r == 0)
        tunnel_decide(conn);
    else if (r == ERR_LIMIT)
        conn_refuse(conn, "hello-too-long", t->hello.why);
    else if (r == ERR_PARSE)
        tunnel_pass_on(conn); /* OpenSSL says what is wrong with it, and reads what it takes for good */
    else
        conn_close(conn);
}

bool tunnel_begin(struct conn *conn) {
    if (!policy_tunnels(conn->box->policy))
        return false;
    struct tunnel *t = calloc(1, sizeof *t);
    if (!t)
        return false;
    t->conn = conn;
    clienthello_init(&t->hello);
    decision_begin(&t->decision);
    conn->tunnel = t;
    conn->in.limit = CLIENTHELLO_WIRE + TUNNEL_STEP;
    conn_enter(conn, CONN_TUNNEL);
    io_own(conn->io, &tunnel_hello_events, conn);
    tunnel_feed(conn, buf_len(&conn->in));
    return true;
}

static void tunnel_on_hello(struct io *io) {
    struct conn *conn = io->arg;
    char *room;
    size_t got;
    engine_reap(conn->box->engine);
    int r = buf_reserve(&conn->in, TUNNEL_STEP, &room);
    if (r == 0)
        r = io_read(io, room, TUNNEL_STEP, &got);
    if (r == ERR_AGAIN)
        return;
    if (r == ERR_EOF) {
        conn_refuse(conn, "handshake-ended", "the client ended the connection during the TLS handshake");
    } else if (r) {
        conn_close(conn);
    } else {
        buf_commit(&conn->in, got);
        tunnel_feed(conn, got);
    }
}

static void tunnel_on_timeout(struct io *io) {
    struct conn *conn = io->arg;
    engine_reap(conn->box->engine);
    conn_late(conn, "handshake-timeout", "the ClientHello did not end", TIME_LIMIT_HANDSHAKE);
}

static const struct io_events tunnel_hello_events = {
    .readable = tunnel_on_hello,
    .failed = conn_on_failed,
    .timeout = tunnel_on_timeout,
};

static void tunnel_on_nothing(struct io *io) {
    io_pause(io);
}

/* While the upstream is connected to, nothing is read. */
static const struct io_events tunnel_wait_events = {
    .readable = tunnel_on_nothing,
    .failed = conn_on_failed,
};
