/*
 * From a permitted request to the request on its way: credential, connection, head, body.
 *
 * Second tries. A pooled connection may be closed by its server just while a request goes out on it. What may be said
 * twice (an idempotent method, no body or one that is kept here) takes any connection, and is said again on a fresh one
 * when not a byte of an answer has come. What may not be said twice gets one on which that race is not to be expected
 * (upstream.h, `once`), and is never said again. What a server of HTTP/2 says not to have acted on goes to it once more
 * even behind interim answers; over HTTP/1.1, where it says that it wants that.
 */
#include <assert.h>
#include <stdio.h>

#include "base/log.h"
#include "proxy/codec/websocket.h"
#include "proxy/flow/bodygate.h"
#include "proxy/flow/gitgate.h"
#include "proxy/flow/lfsgate.h"
#include "proxy/flow/putgate.h"
#include "proxy/flow/refusal.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"

static const struct upstream_callbacks go_callbacks;
static void go_on(struct xchg *x, struct upstream_link *link);

static const char *const send_phase_names[] = {"nothing", "body", "all", "failed"};
_Static_assert(sizeof send_phase_names / sizeof *send_phase_names == SEND_PHASES, "a name for each phase");

static void xchg_send_enter(struct xchg *x, enum xchg_send_phase phase) {
    static const uint8_t legal[SEND_PHASES] = {
        [SEND_NOTHING] = 1 << SEND_BODY,
        [SEND_BODY] = 1 << SEND_ALL | 1 << SEND_FAILED | 1 << SEND_NOTHING,
        [SEND_ALL] = 1 << SEND_FAILED | 1 << SEND_NOTHING,
        [SEND_FAILED] = 1 << SEND_NOTHING,
    };
    assert(legal[x->send_phase] & 1 << phase);
    log_debug("xchg %s: request: %s -> %s", x->decision.id.text, send_phase_names[x->send_phase],
              send_phase_names[phase]);
    x->send_phase = phase;
}

void xchg_send_failed(struct xchg *x) {
    if (x->send_phase != SEND_FAILED)
        xchg_send_enter(x, SEND_FAILED);
}

/* ---- the sandbox's own credentials ---- */

/* Marks them. */
static void xchg_strip(struct xchg *x, struct http_field *fields, size_t n) {
    if (!x->binding && !x->inject_name.n)
        return;
    for (size_t i = 0; i < n; i++) {
        if (fields[i].hop)
            continue;
        if (binding_removes(x->binding, fields[i].name) ||
            (x->inject_name.n && http_name_alike(fields[i].name, x->inject_name)))
            fields[i].hop = true;
    }
}

/* ---- connecting ---- */

static bool go_may_repeat(const struct xchg *x) {
    static const struct slice methods[] = {SLICE("GET"), SLICE("HEAD"),   SLICE("OPTIONS"),
                                           SLICE("PUT"), SLICE("DELETE"), SLICE("TRACE")};
    bool same = x->git.kind == GIT_FETCH; /* a POST that only reads */
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        same |= slice_eq(x->req.method, methods[i]);
    if (buf_len(&x->held) > XCHG_REPLAY_MAX)
        return false;
    return same && (x->body_done || (x->req.framing == HTTP_BODY_LENGTH && x->req.length <= XCHG_REPLAY_MAX));
}

void xchg_upstream_wish(const struct xchg *x, struct upstream_origin *origin,
                        struct upstream_options *options) {
    *origin =
        (struct upstream_origin){.scheme = x->target.scheme, .host = x->target.host, .port = x->target.port};
    *options = (struct upstream_options){
        .private_address = x->verdict.names_address,
        .private_name = x->verdict.to_private,
        .nets = x->verdict.nets,
        .nnets = x->verdict.nnets,
    };
}

static void go_connect(struct xchg *x, bool fresh) {
    struct upstream_origin origin;
    struct upstream_options options;
    xchg_upstream_wish(x, &origin, &options);
    options.fresh = fresh;
    options.once = !x->pooled;
    options.http2 = origin.scheme == URL_HTTPS;
    options.websocket = x->upgrade_key.n > 0;
    options.alone = x->retried;
    xchg_enter(x, XCHG_CONNECT);
    /* what has wholly come need not come by the loop again; a body, whose transport may be at work on it, does */
    struct upstream_link *link = x->body_done ? upstream_reuse(x->box->pool, &origin, &options) : NULL;
    if (link) {
        go_on(x, link);
        return;
    }
    x->attempt = upstream_acquire(x->box->pool, &origin, &options, &go_callbacks, x);
    if (!x->attempt)
        refusal_trouble(x, 503, "no-memory", "out of memory");
}

/* Is all that was sent of its body here still? */
static bool go_has_all(const struct xchg *x) {
    return !x->gate && buf_len(&x->replay) == x->sent;
}

bool xchg_retry(struct xchg *x, bool unseen) {
    bool gone = x->link && (x->link->reused || upstream_wants_http1(x->link));
    bool stale = x->pooled && gone && x->answer_phase == ANSWER_AWAITED;
    bool untold = unseen && x->answer_phase <= ANSWER_BEGUN;
    if (x->retried || x->trailers || !x->link || !(stale || untold) || !go_has_all(x))
        return false;
    log_debug("xchg %s: stale connection, once more", x->decision.id.text);
    if (x->answer_phase == ANSWER_BEGUN)
        xchg_answer_enter(x, ANSWER_AWAITED);
    xchg_unlink(x, false);
    x->retried = true;
    xchg_send_enter(x, SEND_NOTHING);
    x->client->want_body(x, false);
    go_connect(x, true);
    return true;
}

static void go_failed(void *arg, const struct upstream_failure *failure) {
    struct xchg *x = arg;
    engine_reap(x->box->engine);
    x->attempt = NULL;
    if (failure->peer.len)
        addr_text(&failure->peer, true, x->peer);
    int status = upstream_reason_refusal(failure->reason) ? 403
                 : failure->reason == UPSTREAM_TIMEOUT    ? 504
                 : failure->reason == UPSTREAM_LIMIT      ? 503
                                                          : 502;
    refusal_trouble(x, status, upstream_reason_code(failure->reason), failure->text);
}

/* ---- the credential ---- */

void xchg_permitted(struct xchg *x) {
    if (x->extended && x->verdict.max_body) {
        refusal_other(x, "websocket", SLICE("a rule that limits how much is sent permits no WebSocket"));
        return;
    }
    if (!xchg_undecided(x))
        xchg_record(x, false, NULL, SLICE_NONE);
    xchg_strip(x, x->req.fields, x->req.nfields);
    xchg_upgrade_ask(x);
    x->pooled = go_may_repeat(x) && !x->upgrade_key.n;
    go_connect(x, x->upgrade_key.n > 0);
}

/* The header's value is in x->inject. */
static void go_lent(struct xchg *x, struct slice header) {
    if (header.n == 0 || header.n > sizeof x->inject_text) {
        refusal_other(x, "credential", SLICE("the credential's header has no usable name"));
        return;
    }
    memcpy(x->inject_text, header.p, header.n);
    x->inject_name = slice_make(x->inject_text, header.n);
    xchg_permitted(x);
}

static void go_rendered(struct vault_request *r, struct vault_answer *answer) {
    struct xchg *x = r->arg;
    engine_reap(x->box->engine);
    if (answer->err) {
        char why[512];
        snprintf(why, sizeof why, "credential %.*s: %.*s", SLICE_ARG(x->verdict.credential),
                 SLICE_ARG(answer->why));
        refusal_other(x, "credential", slice_str(why));
        return;
    }
    x->inject = answer->value;
    answer->value = (struct secret){0};
    go_lent(x, answer->header);
}

/* Was it rendered a moment ago? */
static bool go_leased(struct xchg *x, const struct vault_origin *origin) {
    struct slice header, value;
    if (!vault_lease(x->box->engine->config.vault, x->box->id, x->verdict.credential, origin, &header,
                     &value) ||
        secret_set(&x->inject, value))
        return false;
    go_lent(x, header);
    return true;
}

/* TRACE (TRACK to some servers) is answered with the request's own head: the credential would come back to the sandbox. */
static bool go_echoes(const struct xchg *x) {
    return slice_eq(x->req.method, SLICE("TRACE")) || slice_eq(x->req.method, SLICE("TRACK"));
}

void xchg_go(struct xchg *x) {
    if (lfsgate_go(x))
        return;
    if (x->verdict.credential.n == 0) {
        xchg_permitted(x);
        return;
    }
    if (go_echoes(x)) {
        refusal_other(x, "echo",
                      SLICE("this method has the server send the request back, and the credential with it"));
        return;
    }
    xchg_enter(x, XCHG_CREDENTIAL);
    struct vault_origin origin = {
        .scheme = x->target.scheme, .host = url_host_slice(&x->target.host), .port = x->target.port};
    if (go_leased(x, &origin))
        return;
    x->ask.done = go_rendered;
    x->ask.arg = x;
    int r = vault_ask_render(x->box->engine->config.vault, &x->ask, x->box->id, x->verdict.credential,
                             &origin, x->target.path);
    if (r)
        refusal_other(x, "credential", SLICE("the keeper of credentials can't be asked"));
}

/* ---- sending ---- */

static int go_write_head(struct xchg *x) {
    char host_text[URL_HOST_MAX + 8];
    struct buf host = {.data = host_text, .cap = sizeof host_text, .limit = sizeof host_text};
    if (target_host_field(&host, &x->target))
        return ERR_INTERNAL;
    struct http_field add[LFSGATE_FIELDS_MAX + 1];
    size_t nadd = lfsgate_fields(x, add);
    if (x->inject_name.n)
        add[nadd++] = (struct http_field){.name = x->inject_name, .value = secret_slice(&x->inject)};
    struct http1_write opt = {
        .add = add,
        .nadd = nadd,
        .host = buf_slice(&host),
        .drop_expect = x->proceed_said,
        .upgrade = x->upgrade_key.n ? WEBSOCKET_NAME : SLICE_NONE,
    };
    return x->server->head(x, &opt);
}

/* The whole of a body that is known already, on a second try or after the section of a push was judged. */
static void go_send_known(struct xchg *x) {
    struct slice known = gitgate_held(x);
    if (known.n)
        xchg_send_body(x, known);
    gitgate_sent(x);
    if (buf_len(&x->held)) {
        if (putgate_undecided(x))
            putgate_feed(x, buf_slice(&x->held));
        else
            xchg_send_body(x, buf_slice(&x->held));
        if (x->state != XCHG_RELAY)
            return;
        bodygate_release(x); /* a second try sends what is kept for it */
    }
    if (x->retried && buf_len(&x->replay) > 0) {
        x->sent = buf_len(&x->replay);
        x->server->data(x, buf_slice(&x->replay), true);
    }
}

static void go_send(struct xchg *x) {
    int r = go_write_head(x);
    if (r) {
        refusal_trouble(x, 502, "head", "the request's head can't be written");
        return;
    }
    xchg_send_enter(x, SEND_BODY);
    x->corked = true;
    xchg_answer_begin(x);
    go_send_known(x);
    if (x->state != XCHG_RELAY)
        return;
    if (x->body_done && !xchg_upgrade_waits(x))
        xchg_body_end(x, NULL, 0);
    else if (!x->server->full(x) && !xchg_upgrade_waits(x))
        x->client->want_body(x, true);
    if (x->state == XCHG_RELAY && x->link) {
        x->corked = false;
        x->server->flush(x);
        if (x->state == XCHG_RELAY && !x->body_done && !x->server->full(x) && !xchg_upgrade_waits(x))
            x->client->want_body(x, true);
    }
}

static void go_on(struct xchg *x, struct upstream_link *link) {
    x->link = link;
    addr_text(&link->peer, true, x->peer);
    x->server = link->http2 ? &xchg_http2 : &xchg_http1;
    x->server->begin(x);
    xchg_enter(x, XCHG_RELAY);
    go_send(x);
}

static void go_ready(void *arg, struct upstream_link *link) {
    struct xchg *x = arg;
    engine_reap(x->box->engine);
    x->attempt = NULL;
    go_on(x, link);
}

static const struct upstream_callbacks go_callbacks = {.ready = go_ready, .failed = go_failed};

/* ---- the body ---- */

void xchg_no_retry(struct xchg *x) {
    if (!x->share.memory && !x->replay.data)
        return;
    buf_release(&x->replay);
    io_share_end(&x->share);
}

/* For a second try. A part of it is of no use. */
static void go_keep(struct xchg *x, struct slice bytes) {
    if (!x->replay.data)
        io_share_begin(&x->share, x->box->memory);
    if (buf_put(&x->replay, bytes))
        xchg_no_retry(x);
    else
        io_share_set(&x->share, x->replay.cap);
}

void xchg_send_body(struct xchg *x, struct slice bytes) {
    /* what comes between a failure and the second try belongs to that one, too */
    bool kept =
        (x->pooled || x->link->http2) && !x->retried && x->answer_phase < ANSWER_HELD && go_has_all(x);
    if ((x->send_phase == SEND_FAILED && !kept) || bytes.n == 0)
        return;
    if (x->verdict.max_body && x->sent + bytes.n > x->verdict.max_body) {
        refusal_too_large(x);
        return;
    }
    x->sent += bytes.n;
    if (kept)
        go_keep(x, bytes);
    if (x->send_phase == SEND_FAILED) {
        x->unsent += bytes.n;
        return;
    }
    x->server->deadline(x);
    x->server->data(x, bytes, x->corked);
    bool failed = x->send_phase == SEND_FAILED;
    if (failed && x->answer_phase == ANSWER_WHOLE)
        xchg_end(x, true);
    else if (!failed && x->server->full(x))
        x->client->want_body(x, false);
}

/* There are servers that merge them into the head (which RFC 9110, 6.5.1, leaves to what a field's definition says): one that
 * stands there already, or that the policy has a condition on, would be another value than was judged. */
static void go_strip_judged(const struct xchg *x, struct http_field *trailers, size_t n) {
    for (size_t i = 0; i < n; i++)
        trailers[i].hop |= http_find_name(x->req.fields, x->req.nfields, trailers[i].name, NULL) != NULL ||
                           policy_asks_header(x->box->policy, &x->facts, trailers[i].name);
}

void xchg_send_end(struct xchg *x, struct http_field *trailers, size_t n) {
    xchg_strip(x, trailers, n);
    go_strip_judged(x, trailers, n);
    x->trailers |= n > 0;
    x->server->end(x, trailers, n, x->corked);
    if (x->send_phase == SEND_BODY)
        xchg_send_enter(x, SEND_ALL);
    xchg_settle(x);
}

void xchg_cut(struct xchg *x) {
    if (x->link)
        xchg_unlink(x, false);
    x->up_keep = false;
}
