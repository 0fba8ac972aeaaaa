/*
 * What follows a 101. Only a WebSocket gets here (proxy/codec/websocket.h). Over HTTP/1.1 on both sides the exchange
 * becomes a relay of bytes between the client's io and the upstream's, and neither connection carries a request
 * afterwards. Where either side is a stream of HTTP/2 (RFC 8441), what follows goes the way of bodies, as it comes. The
 * state stays XCHG_RELAY.
 */
#include "proxy/codec/websocket.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"

void xchg_upgrade_ask(struct xchg *x) {
    /* a rule that limits how much may be sent permits no stream without an end */
    if (!(x->client->raw || x->extended) || x->verdict.max_body || !websocket_asked(&x->req, &x->upgrade_key))
        x->upgrade_key = SLICE_NONE;
}

bool xchg_upgrade_waits(const struct xchg *x) {
    return (x->extended || (x->upgrade_key.n && x->link && x->link->http2)) && x->status != 101;
}

bool xchg_upgrade_fits(const struct xchg *x) {
    int status = x->resp.status;
    if (status == 101)
        return websocket_granted(&x->resp, x->upgrade_key);
    return !x->extended || status / 100 != 2; /* to HTTP/2's client it would mean that it was granted */
}

static void upgrade_over(struct relay *r, enum relay_end end, unsigned side) {
    struct xchg *x = r->arg;
    char limit[TIME_LIMIT_TEXT];
    if (end == RELAY_IDLE)
        xchg_trouble(x, "relay-idle", "nothing came from either side for %s",
                     engine_limits_met(&x->box->engine->config.limits, TIME_LIMIT_RELAY, limit));
    else if (end == RELAY_BROKEN && side == 0)
        xchg_trouble(x, "client-gone", "the client broke the connection off");
    else if (end == RELAY_BROKEN)
        xchg_trouble(x, "upstream-truncated", "the upstream broke the connection off");
    else if (x->link->io->end == IO_END_UNCLEAN)
        xchg_trouble(x, "upstream-unclean", "the upstream ended the connection without a close_notify");
    xchg_end(x, end == RELAY_ENDED);
}

static void upgrade_stream(struct xchg *x, struct slice behind) {
    http1_body_init(&x->up_body, HTTP_BODY_CLOSE, 0);
    x->up_length = http_length(HTTP_BODY_CLOSE, 0);
    x->body_done = false;
    if (x->client->stream)
        x->client->stream(x);
    x->server->deadline(x);
    if (behind.n)
        xchg_answer_data(x, behind);
    buf_release(&x->up_in);
    x->client->flush(x);
    if (x->state == XCHG_RELAY)
        x->client->want_body(x, true);
}

void xchg_upgrade_begin(struct xchg *x, struct slice behind) {
    struct buf ahead;
    if (x->extended || x->link->http2) {
        upgrade_stream(x, behind);
        return;
    }
    struct io *client = x->client->raw(x, &ahead);
    x->relay = (struct relay){
        .sides = {{.io = client, .moved = &x->sent}, {.io = x->link->io, .moved = &x->received}},
        .idle_ms = x->box->engine->config.limits.relay_ms,
        .over = upgrade_over,
        .arg = x,
    };
    relay_begin(&x->relay, (struct slice[2]){buf_slice(&ahead), behind});
    buf_release(&ahead);
    buf_release(&x->up_in); /* `behind` may have lain there */
}
