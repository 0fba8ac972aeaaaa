/*
 * An errand to a server that chose HTTP/2: a stream of the connection that the sandbox's own requests to it use.
 */
#include "proxy/codec/http2.h"
#include "proxy/flow/errand_parts.h"
#include "proxy/upstream/upstream_http2.h"

static void errand2_malformed(struct errand *e) {
    errand_fail(e, ERR_PARSE, "the answer of %s is malformed", e->x->target.host.text);
}

/* The list as the head of HTTP/1.1. */
static bool errand2_parse(struct errand *e, const struct http2_list *list, bool ended) {
    struct http1_response *resp = &e->resp;
    buf_clear(&e->in);
    if (e->state == ERRAND_BODY || http2_response_head(list, ended, SLICE_NONE, &e->in) ||
        http1_response_parse(resp, buf_slice(&e->in), e->req.method, false))
        return false;
    if (ended && resp->framing == HTTP_BODY_CLOSE)
        resp->framing = HTTP_BODY_LENGTH;
    return !ended || (!resp->interim && !resp->length);
}

static void on_head(void *arg, const struct http2_list *list, bool ended) {
    struct errand *e = arg;
    bool good = errand2_parse(e, list, ended);
    if (good && upstream_misdirected(e->link_up, e->resp.status) && errand_again(e))
        return;
    if (!good || !e->resp.interim)
        errand_begun(e);
    e->length = http_length(e->resp.framing, e->resp.length);
    if (!good)
        errand2_malformed(e);
    else if (errand_head(e) && ended)
        errand_done(e, true);
}

static void on_data(void *arg, struct slice bytes) {
    struct errand *e = arg;
    if (e->state != ERRAND_BODY || !http_length_take(&e->length, bytes.n))
        errand2_malformed(e);
    else if (bytes.n)
        errand_piece(e, bytes);
}

static void on_end(void *arg, const struct http2_list *list) {
    struct errand *e = arg;
    struct http_field trailers[HTTP1_TRAILER_FIELDS];
    size_t n;
    if (http2_trailers(list, trailers, HTTP1_TRAILER_FIELDS, &n) || e->state != ERRAND_BODY ||
        http_length_short(&e->length))
        errand2_malformed(e);
    else
        errand_done(e, true);
}

static void on_lost(void *arg, const char *why, bool unseen) {
    struct errand *e = arg;
    bool stale = (e->link_up->reused || upstream_wants_http1(e->link_up)) && !e->interims;
    if (!(unseen || stale) || !errand_again(e))
        errand_fail(e, ERR_IO, "no whole answer from %s: %s", e->x->target.host.text, why);
}

/* As much of the body as the server takes. */
static int errand2_body(struct errand *e) {
    struct upstream_link *link = e->link_up;
    while (e->unsent.n && !up2_full(link)) {
        struct slice piece = slice_sub(e->unsent, 0, HTTP2_FRAME);
        int r = up2_data(link, piece);
        if (r)
            return r;
        e->unsent = slice_from(e->unsent, piece.n);
    }
    if (e->unsent.n == 0)
        up2_end(link, NULL, 0);
    up2_flush(link);
    return 0;
}

static void on_drained(void *arg) {
    (void)errand2_body(arg); /* of a connection that is no more on_lost tells */
}

/* What comes is the owner's piece by piece, and the errand has its own time. */
static void on_nothing(void *arg) {
    (void)arg;
}

static const struct up2_events errand2_events = {
    .head = on_head,
    .data = on_data,
    .end = on_end,
    .turn = on_nothing,
    .lost = on_lost,
    .drained = on_drained,
    .late = on_nothing,
};

int errand2_send(struct errand *e, const struct http1_write *opt) {
    struct upstream_link *link = e->link_up;
    up2_own(link, &errand2_events, e);
    int r = up2_request(link, &e->req, opt);
    if (r)
        return r;
    up2_listen(link, true);
    e->unsent = e->body;
    r = errand2_body(e);
    return r == ERR_EOF ? 0 : r; /* on_lost will tell */
}
