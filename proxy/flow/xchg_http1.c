/*
 * The upstream's side of an exchange over HTTP/1: the request is written as http1_write.h does, the answer parsed where
 * it was read. The connection is the exchange's own until it is given back.
 */

#include "base/secret.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"

#define UP1_SILENCES 2 /* so many times `silence_ms` may nothing come to the server */

static const struct io_events up1_events;

/* ---- the request ---- */

static void up1_begin(struct xchg *x) {
    io_own(x->link->io, &up1_events, x);
    http1_scan_init(&x->up_scan, true);
    buf_clear(&x->up_in);
}

static int up1_head(struct xchg *x, struct http1_write *opt) {
    struct buf *queue = io_queue(x->link->io);
    if (opt->nadd && x->req.framing != HTTP_BODY_NONE) {
        /* room for what follows the secret, too: a queue that grows leaves a copy behind (a head alone is written into
         * room that was made for all of it) */
        char *room;
        size_t secret = 0;
        for (size_t i = 0; i < opt->nadd; i++)
            secret += opt->add[i].name.n + opt->add[i].value.n;
        int r = buf_reserve(queue, x->head.limit + secret + IO_RECORD, &room);
        if (r)
            return r;
    }
    if (opt->nadd)
        io_sensitive(x->link->io);
    return http1_write_request(queue, &x->req, opt);
}

static void up1_write(struct xchg *x, struct slice bytes, bool more) {
    if (x->send_phase == SEND_FAILED)
        x->unsent += bytes.n; /* without what was to go before it, it would be something else to the server */
    else if (io_write(x->link->io, bytes, more)) /* which counts what is lost */
        xchg_send_failed(x);
}

/* One turn of the client's may bring thousands of pieces: they go together at its end. */
static void up1_data(struct xchg *x, struct slice bytes, bool more) {
    char size[HTTP1_CHUNK_HEAD_MAX];
    bool chunked = x->req.framing == HTTP_BODY_CHUNKED;
    if (chunked)
        up1_write(x, slice_make(size, http1_chunk_head(size, bytes.n)), true);
    up1_write(x, bytes, true);
    if (chunked)
        up1_write(x, SLICE("\r\n"), true);
    if (!more)
        io_flush_late(x->link->io);
}

static void up1_end(struct xchg *x, const struct http_field *trailers, size_t n, bool more) {
    if (x->status == 101)
        io_shutdown(x->link->io); /* of a WebSocket: our end is over */
    if (x->send_phase == SEND_FAILED || x->req.framing != HTTP_BODY_CHUNKED)
        return;
    if (http1_chunk_end(io_queue(x->link->io), trailers, n, NULL, 0))
        xchg_send_failed(x);
    else if (!more)
        up1_write(x, SLICE_NONE, false);
}

static void up1_flush(struct xchg *x) {
    if (io_flush_soon(x->link->io))
        xchg_send_failed(x);
}

static bool up1_full(struct xchg *x) {
    return io_full(x->link->io);
}

static void up1_listen(struct xchg *x, bool on) {
    if (on)
        io_resume(x->link->io);
    else
        io_pause(x->link->io);
}

/* How long until something is to be done about a server that says nothing? */
static unsigned up1_step(const struct xchg *x) {
    unsigned patience = xchg_patience(x), silence = x->box->engine->config.limits.silence_ms;
    unsigned left = x->waited < patience ? patience - x->waited : 1;
    return left < silence ? left : silence;
}

static void up1_deadline(struct xchg *x) {
    x->waited = 0;
    io_deadline(x->link->io, up1_step(x));
}

static bool up1_sent(struct xchg *x) {
    if (x->send_phase != SEND_FAILED && io_flush(x->link->io))
        xchg_send_failed(x);
    return io_queued(x->link->io) == 0;
}

/* The queue's end is the body's; what stands between its pieces (chunks) counts as if it were of it. */
static uint64_t up1_unsent(const struct xchg *x) {
    return io_queued(x->link->io) + x->link->io->dropped;
}

const struct xchg_server xchg_http1 = {
    .begin = up1_begin,
    .head = up1_head,
    .data = up1_data,
    .end = up1_end,
    .flush = up1_flush,
    .full = up1_full,
    .listen = up1_listen,
    .deadline = up1_deadline,
    .sent = up1_sent,
    .unsent = up1_unsent,
};

/* ---- the answer: its head ---- */

/* Takes heads off *in. 0: the final one is through. ERR_INCOMPLETE. ERR_DENIED: the exchange is over. */
static int up1_heads(struct xchg *x, struct slice *in) {
    while (x->answer_phase < ANSWER_HELD) {
        struct slice head;
        int r = http1_scan(&x->up_scan, *in, &head);
        if (r == ERR_INCOMPLETE)
            return r;
        if (r == 0)
            r = http1_response_parse(&x->resp, head, x->req.method, x->upgrade_key.n > 0);
        if (r) {
            xchg_answer_malformed(x, x->up_scan.refusal ? x->up_scan.refusal : x->resp.refusal);
            return ERR_DENIED;
        }
        *in = slice_from(*in, (size_t)(head.p + head.n - in->p));
        http1_scan_init(&x->up_scan, true);
        http1_body_init(&x->up_body, x->resp.framing, x->resp.length);
        if (!xchg_answer_head(x))
            return ERR_DENIED;
    }
    return 0;
}

/* ---- its body ---- */

static void up1_complete(struct xchg *x, bool leftover) {
    struct http_field trailers[HTTP1_TRAILER_FIELDS];
    size_t n = http1_body_trailers(&x->up_body, trailers, HTTP1_TRAILER_FIELDS);
    if (leftover)
        x->up_keep = false;
    xchg_answer_end(x, trailers, n);
}

static void up1_body(struct xchg *x, struct slice in) {
    while (x->state == XCHG_RELAY) {
        size_t used;
        struct slice data;
        enum http1_step step = http1_body_next(&x->up_body, in, &used, &data);
        in = slice_from(in, used);
        switch (step) {
        case HTTP1_STEP_MORE: return;
        case HTTP1_STEP_DATA: xchg_answer_data(x, data); break;
        case HTTP1_STEP_DONE: up1_complete(x, in.n > 0); return;
        case HTTP1_STEP_BAD:
            xchg_answer_broken(x, 502, "upstream-malformed", http_refusal_text(x->up_body.refusal));
            return;
        }
    }
}

/* ---- the io's events ---- */

/* `unreached`: nothing comes to the server any more. */
static void up1_lost(struct xchg *x, bool unreached) {
    if (x->answer_phase < ANSWER_HELD) {
        xchg_answer_lost(
            x, unreached ? UPSTREAM_UNREACHED : "the upstream ended the connection without an answer", false);
    } else if (x->answer_phase < ANSWER_WHOLE) {
        xchg_answer_broken(x, 502, "upstream-truncated",
                           unreached ? UPSTREAM_UNREACHED : "the upstream's answer was cut off");
    } else {
        xchg_trouble(x, "upstream-closed", UPSTREAM_UNREACHED);
        xchg_end(x, true);
    }
}

static void up1_ended(struct xchg *x) {
    enum io_end end = x->link->io->end;
    if (x->answer_phase < ANSWER_HELD || http1_body_eof(&x->up_body) || end == IO_END_RESET ||
        end == IO_END_BROKEN) {
        up1_lost(x, io_unreachable(x->link->io));
        return;
    }
    if (end == IO_END_UNCLEAN)
        xchg_trouble(x, "upstream-unclean", "the upstream ended its answer without a close_notify");
    x->up_keep = false;
    up1_complete(x, false);
}

/* A head in pieces is gathered in up_in. */
static int up1_gather(struct xchg *x, struct slice *in) {
    if (buf_len(&x->up_in) == 0)
        return 0;
    int r = buf_put(&x->up_in, *in);
    *in = buf_slice(&x->up_in);
    return r;
}

/* What is left of `in` waits for more. */
static int up1_keep(struct xchg *x, struct slice in) {
    if (buf_len(&x->up_in) == 0)
        return buf_put(&x->up_in, in);
    buf_consume(&x->up_in, buf_len(&x->up_in) - in.n);
    return 0;
}

static void up1_on_readable(struct io *io) {
    struct xchg *x = io->arg;
    size_t got;
    engine_reap(x->box->engine);
    char *bytes = io_scratch();
    int r = io_read(io, bytes, IO_SCRATCH, &got);
    if (r == ERR_AGAIN)
        return;
    /* the server has had enough of the request, or says what nobody asked for */
    if (x->answer_phase == ANSWER_WHOLE) {
        x->up_keep = false;
        /* who ended his side alone may read on, and where he does not it is heard by a reset */
        if (!(x->state == XCHG_TAIL && r == ERR_EOF && io->end == IO_END_CLEAN))
            xchg_end(x, true);
        return;
    }
    if (r) {
        up1_ended(x);
        return;
    }
    up1_deadline(x);
    xchg_answer_comes(x);
    struct slice in = slice_make(bytes, got);
    if (x->answer_phase < ANSWER_HELD) {
        r = up1_gather(x, &in);
        if (r == 0)
            r = up1_heads(x, &in);
        if (r == ERR_DENIED)
            return;
        if (r == ERR_INCOMPLETE)
            r = up1_keep(x, in);
        if (r) {
            xchg_answer_broken(x, 502, "upstream-malformed", "the upstream's head is too long");
            return;
        }
        if (x->answer_phase < ANSWER_HELD)
            return;
    }
    if (x->status == 101 && x->up_body.framing != HTTP_BODY_CLOSE) {
        xchg_upgrade_begin(x, in);
        return;
    }
    bool held = x->answer_phase == ANSWER_HELD; /* tokens may be in it */
    up1_body(x, in);
    if (held)
        secret_wipe(bytes, got);
    if (x->state != XCHG_RELAY || !x->link)
        return;
    buf_release(&x->up_in);
    x->client->flush(x);
    if (x->state == XCHG_RELAY && x->client->full(x))
        io_pause(io);
}

static void up1_on_drained(struct io *io) {
    struct xchg *x = io->arg;
    engine_reap(x->box->engine);
    xchg_upstream_drained(x);
}

static void up1_on_failed(struct io *io, int err) {
    struct xchg *x = io->arg;
    (void)err;
    engine_reap(x->box->engine);
    xchg_upstream_deaf(x);
}

/* A server may think, or read nothing, for as long as the answer has; but its kernel acknowledges what comes. */
static void up1_on_timeout(struct io *io) {
    struct xchg *x = io->arg;
    unsigned borne = UP1_SILENCES * x->box->engine->config.limits.silence_ms;
    engine_reap(x->box->engine);
    x->waited += up1_step(x);
    if (x->waited >= xchg_patience(x))
        xchg_upstream_late(x);
    else if (x->waited >= borne && io_unacknowledged(io, borne))
        up1_lost(x, true);
    else
        io_deadline(io, up1_step(x));
}

static const struct io_events up1_events = {
    .readable = up1_on_readable,
    .drained = up1_on_drained,
    .failed = up1_on_failed,
    .timeout = up1_on_timeout,
};
