/*
 * The upstream's side of an exchange over HTTP/2: one stream of a connection that others use too. What comes is made
 * into the head of an HTTP/1.1 answer (proxy/codec/http2.h) and goes the way of those.
 */
#include "proxy/codec/websocket.h"
#include "proxy/flow/state.h"
#include "proxy/upstream/upstream_http2.h"
#include "proxy/flow/xchg.h"

static const struct up2_events xchg2_events;

/* ---- the request ---- */

static void xchg2_begin(struct xchg *x) {
    up2_own(x->link, &xchg2_events, x);
    if (x->lfs) /* tokens may be in the answer */
        up2_sensitive(x->link);
}

static int xchg2_head(struct xchg *x, struct http1_write *opt) {
    return up2_request(x->link, &x->req, opt);
}

static void xchg2_flush(struct xchg *x) {
    up2_flush(x->link);
}

static void xchg2_data(struct xchg *x, struct slice bytes, bool more) {
    if (x->send_phase != SEND_FAILED && up2_data(x->link, bytes)) {
        xchg_send_failed(x);
        x->unsent += bytes.n;
    }
    if (!more)
        up2_flush_late(x->link);
}

static void xchg2_end(struct xchg *x, const struct http_field *trailers, size_t n, bool more) {
    if (x->send_phase != SEND_FAILED && up2_end(x->link, trailers, n))
        xchg_send_failed(x);
    if (!more)
        up2_flush(x->link);
}

static bool xchg2_full(struct xchg *x) {
    return up2_full(x->link);
}

static void xchg2_listen(struct xchg *x, bool on) {
    up2_listen(x->link, on);
}

static void xchg2_deadline(struct xchg *x) {
    up2_deadline(x->link, xchg_patience(x));
}

static bool xchg2_sent(struct xchg *x) {
    return up2_sent(x->link);
}

static uint64_t xchg2_unsent(const struct xchg *x) {
    return up2_unsent(x->link);
}

const struct xchg_server xchg_http2 = {
    .begin = xchg2_begin,
    .head = xchg2_head,
    .data = xchg2_data,
    .end = xchg2_end,
    .flush = xchg2_flush,
    .full = xchg2_full,
    .listen = xchg2_listen,
    .deadline = xchg2_deadline,
    .sent = xchg2_sent,
    .unsent = xchg2_unsent,
};

/* ---- the answer ---- */

/* The answer as the head of HTTP/1.1. */
static enum http_refusal answer_parse(struct xchg *x, const struct http2_list *list, bool ended) {
    char proof[WEBSOCKET_ACCEPT_LEN];
    bool websocket = x->upgrade_key.n && websocket_proof(x->upgrade_key, proof) == 0;
    buf_clear(&x->up_in);
    enum http_refusal why = http2_response_head(
        list, ended || x->head_request, websocket ? slice_make(proof, sizeof proof) : SLICE_NONE, &x->up_in);
    if (!why && http1_response_parse(&x->resp, buf_slice(&x->up_in), x->req.method, websocket))
        why = x->resp.refusal;
    if (!why)
        x->resp.never = http2_list_marks(list, x->resp.fields, x->resp.nfields);
    return why;
}

static void on_head(void *arg, const struct http2_list *list, bool ended) {
    struct xchg *x = arg;
    xchg2_deadline(x);
    enum http_refusal why = answer_parse(x, list, ended);
    struct http1_response *resp = &x->resp;
    if (!why && upstream_misdirected(x->link, resp->status) && xchg_retry(x, true))
        return;
    xchg_answer_comes(x);
    if (!why && (x->answer_phase >= ANSWER_HELD || (resp->interim && ended)))
        why = HTTP_REFUSED_TRAILER;
    if (!why && ended && resp->framing == HTTP_BODY_CLOSE) {
        resp->framing = HTTP_BODY_LENGTH;
        resp->keep_alive = true;
    }
    if (!why && ended && resp->length)
        why = HTTP_REFUSED_LENGTH_DIFFERS;
    if (why) {
        up2_malformed(x->link);
        xchg_answer_malformed(x, why);
        return;
    }
    x->up_length = http_length(resp->framing, resp->length);
    x->up_open = !ended && !resp->interim;
    if (!xchg_answer_head(x))
        return;
    if (ended)
        xchg_answer_end(x, NULL, 0);
    else if (x->status == 101)
        xchg_upgrade_begin(x, SLICE_NONE);
}

static void on_data(void *arg, struct slice bytes) {
    struct xchg *x = arg;
    xchg2_deadline(x);
    if (x->answer_phase < ANSWER_HELD || !http_length_take(&x->up_length, bytes.n)) {
        up2_malformed(x->link);
        xchg_answer_broken(x, 502, "upstream-malformed", http_refusal_text(HTTP_REFUSED_LENGTH_DIFFERS));
        return;
    }
    if (bytes.n)
        xchg_answer_data(x, bytes);
}

static void on_end(void *arg, const struct http2_list *list) {
    struct xchg *x = arg;
    struct http_field trailers[HTTP1_TRAILER_FIELDS];
    size_t n;
    enum http_refusal why = http2_trailers(list, trailers, HTTP1_TRAILER_FIELDS, &n);
    if (why || x->answer_phase < ANSWER_HELD) {
        up2_malformed(x->link);
        xchg_answer_malformed(x, why ? why : HTTP_REFUSED_STATUS_LINE);
    } else if (http_length_short(&x->up_length)) {
        xchg_answer_broken(x, 502, "upstream-truncated", "the upstream's answer was cut off");
    } else {
        xchg_answer_end(x, trailers, n);
    }
}

static void on_turn(void *arg) {
    struct xchg *x = arg;
    if (x->state != XCHG_RELAY)
        return;
    x->client->flush(x);
    if (x->state == XCHG_RELAY && x->client->full(x))
        up2_listen(x->link, false);
}

static void on_lost(void *arg, const char *why, bool unseen) {
    struct xchg *x = arg;
    x->up_keep = false;
    xchg_send_failed(x);
    if (x->answer_phase == ANSWER_WHOLE)
        xchg_end(x, true);
    else if (x->answer_phase >= ANSWER_HELD)
        xchg_answer_broken(x, 502, "upstream-truncated", why);
    else
        xchg_answer_lost(x, why, unseen);
}

static void on_drained(void *arg) {
    xchg_upstream_drained(arg);
}

static void on_late(void *arg) {
    xchg_upstream_late(arg);
}

static const struct up2_events xchg2_events = {
    .head = on_head,
    .data = on_data,
    .end = on_end,
    .turn = on_turn,
    .lost = on_lost,
    .drained = on_drained,
    .late = on_late,
};
