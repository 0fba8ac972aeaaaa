#include "proxy/flow/xchg.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "proxy/flow/bodygate.h"
#include "proxy/flow/doorgate.h"
#include "proxy/flow/errand.h"
#include "proxy/flow/fetchgate.h"
#include "proxy/flow/gitgate.h"
#include "proxy/flow/lfsgate.h"
#include "proxy/flow/putgate.h"
#include "proxy/flow/refusal.h"
#include "proxy/flow/state.h"

#define XCHG_SPARE 64

static const char *const xchg_state_names[] = {"judge", "section", "credential", "connect",
                                               "relay", "tail",    "over"};
_Static_assert(sizeof xchg_state_names / sizeof *xchg_state_names == XCHG_STATES, "a name for each state");

void xchg_enter(struct xchg *x, enum xchg_state state) {
    static const uint8_t legal[XCHG_STATES] = {
        [XCHG_JUDGE] = 1 << XCHG_SECTION | 1 << XCHG_CREDENTIAL | 1 << XCHG_CONNECT | 1 << XCHG_OVER,
        [XCHG_SECTION] = 1 << XCHG_CREDENTIAL | 1 << XCHG_CONNECT | 1 << XCHG_OVER,
        [XCHG_CREDENTIAL] = 1 << XCHG_CONNECT | 1 << XCHG_OVER,
        [XCHG_CONNECT] = 1 << XCHG_RELAY | 1 << XCHG_OVER,
        [XCHG_RELAY] = 1 << XCHG_CONNECT | 1 << XCHG_TAIL | 1 << XCHG_OVER,
        [XCHG_TAIL] = 1 << XCHG_OVER,
    };
    assert(legal[x->state] & 1 << state);
    log_debug("xchg %s: %s -> %s", x->decision.id.text, xchg_state_names[x->state], xchg_state_names[state]);
    x->state = state;
}

/* ---- memory ---- */

struct xchg *xchg_new(struct conn *conn, const struct xchg_client *client) {
    struct engine *engine = conn->box->engine;
    struct xchg *x = engine->spare_xchgs;
    if (x) {
        engine->spare_xchgs = x->next;
        engine->nspare--;
    } else {
        x = malloc(sizeof *x);
        if (!x)
            return NULL;
    }
    memset(x, 0, offsetof(struct xchg, req)); /* the rest is filled before it is read */
    x->conn = conn;
    x->box = conn->box;
    x->client = client;
    buf_init(&x->head, HTTP1_HEAD_MAX);
    buf_init(&x->path, 4 * HTTP1_TARGET_MAX);
    buf_init(&x->up_in, HTTP1_HEAD_MAX + IO_SCRATCH);
    buf_init(&x->replay, XCHG_REPLAY_MAX);
    x->req.nfields = 0;
    x->resp.nfields = 0;
    engine->nxchgs++;
    x->box->nxchgs++;
    return x;
}

void xchg_recycle(struct xchg *x) {
    struct engine *engine = x->box->engine;
    buf_release(&x->head);
    buf_release(&x->path);
    buf_release(&x->up_in);
    xchg_no_retry(x);
    if (engine->nspare >= XCHG_SPARE) {
        free(x);
        return;
    }
    x->next = engine->spare_xchgs;
    engine->spare_xchgs = x;
    engine->nspare++;
}

/* ---- records ---- */

void xchg_trouble(struct xchg *x, const char *code, const char *format, ...) {
    if (x->trouble)
        return;
    x->trouble = code;
    va_list ap;
    va_start(ap, format);
    vsnprintf(x->trouble_text, sizeof x->trouble_text, format, ap);
    va_end(ap);
}

/* The URL as the record shows it: as far as the request could be read. */
void xchg_put_url(struct xchg *x, struct buf *out) {
    char authority[URL_HOST_MAX + 8];
    const struct conn *conn = x->conn;
    const struct target *t = &x->target;
    if (t->host.n == 0) {
        struct slice host = conn->sni.n ? url_host_slice(&conn->sni) : conn->dialed;
        snprintf(authority, sizeof authority, "%.*s", SLICE_ARG(host));
        record_put_url(out, conn->tls ? URL_HTTPS : URL_HTTP, slice_str(authority), SLICE_NONE, SLICE_NONE,
                       0);
        return;
    }
    enum url_scheme scheme = t->port ? t->scheme : conn->tls ? URL_HTTPS : URL_HTTP;
    if (t->connect)
        scheme = URL_HTTPS;
    struct slice where = url_host_slice(&t->host);
    if (t->port && t->port != url_default_port(scheme)) {
        snprintf(authority, sizeof authority, "%s:%u", t->host.text, t->port);
        where = slice_str(authority);
    }
    struct slice path = SLICE_NONE, query = SLICE_NONE;
    bool has_query = false;
    if (x->req.origin.n && !t->connect)
        url_target_split(x->req.origin, &path, &query, &has_query);
    unsigned flags = has_query ? RECORD_URL_QUERY : 0;
    if (x->box->engine->config.log_query)
        flags |= RECORD_URL_VALUES;
    record_put_url(out, scheme, where, path, query, flags);
}

static struct slice xchg_rule_text(const struct xchg *x, char *memory, size_t cap) {
    struct buf text = {.data = memory, .cap = cap, .limit = cap};
    char line[SLICE_DECIMAL_MAX];
    if (!x->verdict.rule.index)
        return SLICE_NONE;
    buf_put(&text, slice_sub(slice_str(x->verdict.rule.file), 0, cap - sizeof line - 1));
    buf_putc(&text, ':');
    buf_put(&text, slice_decimal(x->verdict.rule.line, line));
    return buf_slice(&text);
}

/* What is spoken on either side; the client's is known as soon as its target is. */
static void xchg_protocols(const struct xchg *x, struct record *r) {
    bool websocket = x->status == 101;
    if (x->client->http2)
        r->protocol = websocket ? SLICE("h2+websocket") : SLICE("h2");
    else if (x->target.host.n && x->req.minor == 0)
        r->protocol = SLICE("http/1.0");
    else
        r->protocol = websocket ? SLICE("http/1.1+websocket") : SLICE("http/1.1");
    if (x->server == &xchg_http2)
        r->upstream_protocol = websocket ? SLICE("h2+websocket") : SLICE("h2");
    else if (x->server)
        r->upstream_protocol = websocket ? SLICE("http/1.1+websocket") : SLICE("http/1.1");
}

void xchg_record(struct xchg *x, bool denied, const char *code, struct slice reason) {
    if (x->decision.state != DECISION_OPEN)
        return;
    struct buf *url = &x->box->engine->text2;
    char rule[RECORD_TEXT_MAX];
    struct door_record door;
    buf_clear(url);
    xchg_put_url(x, url);
    struct record r = {
        .denied = denied,
        .code = slice_str(code ? code : verdict_reason_code(x->verdict.reason)),
        .reason = reason.n ? reason : SLICE("allowed"),
        .rule = xchg_rule_text(x, rule, sizeof rule),
        .method = x->req.method,
        .url = buf_slice(url),
        .credential = denied ? SLICE_NONE : x->verdict.credential,
    };
    xchg_protocols(x, &r);
    doorgate_record(x, &r, &door);
    gitgate_record(x, &r);
    fetchgate_record(x, &r);
    lfsgate_record(x, &r);
    decision_verdict(x->box, &x->decision, &r, denied ? refusal_hint(x) : SLICE_NONE);
    doorgate_record_release(&door);
}

/* What was written to the upstream's connection and has not left by now never will. */
static void xchg_count_sent(struct xchg *x) {
    uint64_t unsent = x->unsent + (x->link ? x->server->unsent(x) : 0);
    x->sent -= unsent < x->sent ? unsent : x->sent;
    x->unsent = 0;
}

void xchg_unlink(struct xchg *x, bool reusable) {
    xchg_count_sent(x);
    upstream_release(x->link, reusable, x->keep_ms);
    x->link = NULL;
}

static void xchg_record_outcome(struct xchg *x) {
    xchg_count_sent(x);
    struct record r = {
        .status = x->status,
        .sent = x->sent,
        .received = x->received,
        .has = RECORD_HAS_SENT | RECORD_HAS_RECEIVED | (x->status ? RECORD_HAS_STATUS : 0),
        .upstream = slice_str(x->peer),
    };
    if (x->trouble) {
        r.code = slice_str(x->trouble);
        r.reason = slice_str(x->trouble_text);
    }
    xchg_protocols(x, &r);
    gitgate_outcome(x, &r);
    decision_outcome(x->box, &x->decision, &r);
}

/* ---- the end ---- */

/* The client has all of its answer, and all of its request was taken: what is left is between exeat and the server. */
static void xchg_part(struct xchg *x) {
    xchg_enter(x, XCHG_TAIL);
    LIST_INSERT_HEAD(&x->box->tails, x, tail);
    x->box->ntails++;
    x->server->listen(x, true); /* for its end */
    x->client->over(x, true);
    x->conn = NULL;
    x->stream = NULL;
}

/* A server that answers well before it has read all may read on: the request goes on being passed up; so does one direction of
 * a WebSocket. */
static bool xchg_reads_on(const struct xchg *x) {
    bool may = x->status == 101 || (x->up_keep && x->status < 300 && !x->upgrade_key.n);
    return x->send_phase == SEND_BODY && may;
}

void xchg_settle(struct xchg *x) {
    if ((x->state != XCHG_RELAY && x->state != XCHG_TAIL) || x->answer_phase != ANSWER_WHOLE ||
        xchg_reads_on(x))
        return;
    bool sent = x->server->sent(x); /* or it has failed */
    if (sent || x->send_phase != SEND_ALL)
        xchg_end(x, true);
    else if (x->state == XCHG_RELAY && !x->errands && x->box->ntails < XCHG_TAILS)
        xchg_part(x);
}

void xchg_end(struct xchg *x, bool whole) {
    struct engine *engine = x->box->engine;
    bool parted = x->state == XCHG_TAIL;
    if (x->state == XCHG_OVER)
        return;
    if (!x->internal) {
        if (x->decision.state == DECISION_OPEN)
            xchg_record(x, true, x->trouble ? x->trouble : "aborted",
                        x->trouble ? slice_str(x->trouble_text) : SLICE("ended before it was decided"));
        xchg_record_outcome(x);
    }
    xchg_enter(x, XCHG_OVER);
    if (parted) {
        LIST_REMOVE(x, tail);
        x->box->ntails--;
    }
    vault_cancel(&x->ask);
    secret_release(&x->inject);
    if (x->attempt)
        upstream_cancel(x->attempt);
    x->attempt = NULL;
    if (x->link) {
        bool reusable = whole && x->answer_phase == ANSWER_WHOLE && x->send_phase == SEND_ALL && x->up_keep &&
                        x->server->sent(x);
        upstream_release(x->link, reusable, x->keep_ms);
        x->link = NULL;
    }
    http1_body_release(&x->up_body);
    gitgate_free(x->gate);
    x->gate = NULL;
    lfsgate_end(x);
    putgate_free(x->put);
    x->put = NULL;
    doorgate_free(x->door);
    x->door = NULL;
    fetchgate_free(x->fetch);
    x->fetch = NULL;
    errand_cancel_all(x); /* what none of those holds */
    bodygate_release(x);
    engine->nxchgs--;
    x->box->nxchgs--;
    x->next = engine->dead_xchgs;
    engine->dead_xchgs = x;
    if (parted)
        box_settle(x->box);
    else
        x->client->over(x, whole);
}

void xchg_client_gone(struct xchg *x, const char *code, const char *why) {
    if (x->state == XCHG_OVER)
        return;
    xchg_trouble(x, code, "%s", why);
    xchg_end(x, false);
}

void xchg_conn_gone(struct xchg *x) {
    if (x->box->cutting)
        xchg_client_gone(x, ENGINE_ENDED_CODE, ENGINE_ENDED_REASON);
    else
        xchg_client_gone(x, "client-gone", "the client went away");
}

/* ---- what the transport brings ---- */

void xchg_start(struct xchg *x, int parse_error) {
    decision_begin(&x->decision);
    if (parse_error) {
        refusal_malformed(x, http_refusal_status(x->req.refusal), http_refusal_code(x->req.refusal),
                          http_refusal_text(x->req.refusal));
        return;
    }
    xchg_judge(x);
}

void xchg_body(struct xchg *x, struct slice bytes) {
    if (x->state == XCHG_SECTION && x->holding)
        bodygate_feed(x, bytes);
    else if (fetchgate_reads(x))
        fetchgate_feed(x, bytes);
    else if (gitgate_reads(x))
        gitgate_feed(x, bytes);
    else if (x->state == XCHG_RELAY && putgate_undecided(x))
        putgate_feed(x, bytes);
    else if (x->state == XCHG_RELAY)
        xchg_send_body(x, bytes);
}

void xchg_body_end(struct xchg *x, struct http_field *trailers, size_t n) {
    if (x->state == XCHG_SECTION && x->holding)
        bodygate_body_end(x);
    else if (fetchgate_reads(x))
        fetchgate_body_end(x);
    else if (gitgate_reads(x))
        gitgate_body_end(x);
    else if (x->state == XCHG_RELAY && putgate_undecided(x))
        putgate_body_end(x);
    else if (x->state == XCHG_RELAY)
        xchg_send_end(x, trailers, n);
}

void xchg_body_bad(struct xchg *x, enum http_refusal refusal) {
    if (refusal == HTTP_REFUSED_NOT)
        xchg_trouble(x, "request-truncated", "the client ended its request early");
    else
        xchg_trouble(x, http_refusal_code(refusal), "%s", http_refusal_text(refusal));
    x->up_keep = false;
    if (x->answer_phase >= ANSWER_HELD)
        xchg_end(x, false);
    else
        refusal_malformed(x, 400, x->trouble, x->trouble_text);
}

void xchg_client_drained(struct xchg *x) {
    if (x->state == XCHG_RELAY && x->link)
        x->server->listen(x, true);
}
