/*
 * The answer, from the upstream's first byte to its last. Heads are parsed where they were read; the body's spans go to
 * the client as they come. Nothing is waited for that could be passed on: each turn ends with a flush.
 */
#include <stdio.h>

#include "base/log.h"
#include "proxy/flow/gitgate.h"
#include "proxy/flow/refusal.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"

#define ANSWER_INTERIM_MAX 32 /* 1xx heads before the final one */

void xchg_answer_begin(struct xchg *x) {
    http1_scan_init(&x->up_scan, true);
    buf_clear(&x->up_in);
    x->interims = 0;
    io_deadline(x->link->io, x->box->engine->config.limits.answer_ms);
    if (gitgate_undecided(x))
        io_pause(x->link->io); /* until the verdict nothing of it reaches the client */
    else
        io_resume(x->link->io);
}

/* No answer will come, or none that can be understood. */
static void answer_broken(struct xchg *x, int status, const char *code, const char *reason) {
    x->up_keep = false;
    xchg_trouble(x, code, "%s", reason);
    if (x->answer_head)
        xchg_end(x, false);
    else
        refusal_trouble(x, status, code, reason);
}

/* ---- heads ---- */

/* Keep-Alive: timeout=5 */
static unsigned answer_keep_ms(const struct http1_response *resp) {
    for (size_t i = 0; i < resp->nfields; i++) {
        if (resp->fields[i].id != HTTP_F_KEEP_ALIVE)
            continue;
        struct slice list = resp->fields[i].value, element, name, value;
        while (http_list_next(&list, &element)) {
            uint64_t seconds;
            if (slice_cut(element, '=', &name, &value) && slice_caseeq(slice_trim(name), SLICE("timeout")) &&
                slice_u64(slice_trim(value), 3600, &seconds))
                return seconds ? (unsigned)seconds * 1000 : 1;
        }
    }
    return 0;
}

/* git would ask for a password, which nobody in the sandbox has: the sandbox's own is taken off on the way to this
 * host. What it needs to know is that the lent one was not good. */
static bool answer_is_prompt(const struct xchg *x) {
    return x->resp.status == 401 && x->git.kind != GIT_NOT && x->binding;
}

static void answer_instead_of_prompt(struct xchg *x) {
    char why[512];
    if (x->verdict.credential.n)
        snprintf(why, sizeof why, "%s refused the credential %.*s (status 401)", x->target.host.text,
                 SLICE_ARG(x->verdict.credential));
    else
        snprintf(why, sizeof why, "%s wants a credential (status 401), and the rule lends none",
                 x->target.host.text);
    x->up_keep = false;
    refusal_trouble(x, 403, "upstream-unauthorized", why);
}

/* The final head. False: the exchange is over. */
static bool answer_final(struct xchg *x) {
    const struct http1_response *resp = &x->resp;
    if (answer_is_prompt(x)) {
        answer_instead_of_prompt(x);
        return false;
    }
    secret_release(&x->inject); /* no second try any more */
    x->answer_head = true;
    x->status = (unsigned)resp->status;
    x->up_keep = resp->keep_alive;
    x->keep_ms = answer_keep_ms(resp);
    http1_body_init(&x->up_body, resp->framing, resp->length);
    if (x->client->head(x, resp)) {
        x->answer_head = false;
        x->status = 0;
        answer_broken(x, 502, "upstream-head", "the upstream's answer can't be passed on");
        return false;
    }
    return x->state == XCHG_RELAY;
}

/* Takes heads off *in. 0: the final one is through. ERR_INCOMPLETE. ERR_DENIED: the exchange is over. */
static int answer_heads(struct xchg *x, struct slice *in) {
    while (!x->answer_head) {
        struct slice head;
        int r = http1_scan(&x->up_scan, *in, &head);
        if (r == ERR_INCOMPLETE)
            return r;
        if (r == 0)
            r = http1_response_parse(&x->resp, head, x->req.method, x->upgrade_key.n > 0);
        if (r || (x->resp.interim && ++x->interims > ANSWER_INTERIM_MAX)) {
            enum http_refusal why = x->up_scan.refusal ? x->up_scan.refusal : x->resp.refusal;
            char text[256];
            snprintf(text, sizeof text, "the upstream's answer is malformed: %s",
                     why ? http_refusal_text(why) : "too many interim answers (1xx)");
            answer_broken(x, 502, "upstream-malformed", text);
            return ERR_DENIED;
        }
        if (x->resp.status == 101 && !xchg_upgrade_fits(x)) {
            answer_broken(x, 502, "upstream-malformed",
                          "the upstream's answer does not fit the WebSocket handshake");
            return ERR_DENIED;
        }
        *in = slice_from(*in, (size_t)(head.p + head.n - in->p));
        http1_scan_init(&x->up_scan, true);
        if (!x->resp.interim)
            return answer_final(x) ? 0 : ERR_DENIED;
        if (!(x->resp.status == 100 && x->proceed_said))
            x->client->head(x, &x->resp);
        x->client->flush(x);
        if (x->state != XCHG_RELAY)
            return ERR_DENIED;
    }
    return 0;
}

/* ---- bodies ---- */

static void answer_complete(struct xchg *x, bool leftover) {
    struct http_field trailers[HTTP1_TRAILER_FIELDS];
    size_t n = http1_body_trailers(&x->up_body, trailers, HTTP1_TRAILER_FIELDS);
    x->answer_done = true;
    if (leftover)
        x->up_keep = false;
    x->client->end(x, trailers, n);
    /* a server that answers well before it has read all may read on: the request goes on being passed up */
    bool reads_on = !x->sent_all && !x->send_failed && x->up_keep && x->status < 300;
    if (x->state == XCHG_RELAY && !reads_on)
        xchg_end(x, true);
}

static void answer_body(struct xchg *x, struct slice in) {
    while (x->state == XCHG_RELAY) {
        size_t used;
        struct slice data;
        enum http1_step step = http1_body_next(&x->up_body, in, &used, &data);
        in = slice_from(in, used);
        switch (step) {
        case HTTP1_STEP_MORE: return;
        case HTTP1_STEP_DATA:
            x->received += data.n;
            gitgate_answer(x, data);
            x->client->data(x, data);
            break;
        case HTTP1_STEP_DONE: answer_complete(x, in.n > 0); return;
        case HTTP1_STEP_BAD:
            answer_broken(x, 502, "upstream-malformed", http_refusal_text(x->up_body.refusal));
            return;
        }
    }
}

/* ---- the io's events ---- */

static void answer_ended(struct xchg *x) {
    enum io_end end = x->link->io->end;
    if (!x->answer_head) {
        if (xchg_retry(x))
            return;
        answer_broken(x, 502, "upstream-closed", "the upstream ended the connection without an answer");
        return;
    }
    if (http1_body_eof(&x->up_body) || end == IO_END_RESET || end == IO_END_BROKEN) {
        answer_broken(x, 502, "upstream-truncated", "the upstream's answer was cut off");
        return;
    }
    if (end == IO_END_UNCLEAN)
        xchg_trouble(x, "upstream-unclean", "the upstream ended its answer without a close_notify");
    x->up_keep = false;
    answer_complete(x, false);
}

/* A head in pieces is gathered in up_in. */
static int answer_gather(struct xchg *x, struct slice *in) {
    if (buf_len(&x->up_in) == 0)
        return 0;
    int r = buf_put(&x->up_in, *in);
    *in = buf_slice(&x->up_in);
    return r;
}

/* What is left of `in` waits for more. */
static int answer_keep(struct xchg *x, struct slice in) {
    if (buf_len(&x->up_in) == 0)
        return buf_put(&x->up_in, in);
    buf_consume(&x->up_in, buf_len(&x->up_in) - in.n);
    return 0;
}

static void answer_on_readable(struct io *io) {
    struct xchg *x = io->arg;
    size_t got;
    engine_reap(x->box->engine);
    char *bytes = io_scratch();
    int r = io_read(io, bytes, IO_SCRATCH, &got);
    if (r == ERR_AGAIN)
        return;
    if (x->answer_done) { /* the server has had enough of the request, or says what nobody asked for */
        x->up_keep = false;
        xchg_end(x, true);
        return;
    }
    if (r) {
        answer_ended(x);
        return;
    }
    io_deadline(io, x->box->engine->config.limits.answer_ms);
    x->answer_any = true;
    struct slice in = slice_make(bytes, got);
    if (!x->answer_head) {
        r = answer_gather(x, &in);
        if (r == 0)
            r = answer_heads(x, &in);
        if (r == ERR_DENIED)
            return;
        if (r == ERR_INCOMPLETE)
            r = answer_keep(x, in);
        if (r) {
            answer_broken(x, 502, "upstream-malformed", "the upstream's head is too long");
            return;
        }
        if (!x->answer_head)
            return;
    }
    if (x->status == 101) {
        xchg_upgrade_begin(x, in);
        return;
    }
    answer_body(x, in);
    if (x->state != XCHG_RELAY)
        return;
    buf_release(&x->up_in);
    x->client->flush(x);
    if (x->state == XCHG_RELAY && x->client->full(x))
        io_pause(io);
}

/* The upstream takes bytes again. */
static void answer_on_drained(struct io *io) {
    struct xchg *x = io->arg;
    engine_reap(x->box->engine);
    if (!x->body_done && !x->send_failed)
        x->client->want_body(x, true);
}

/* It takes no more: an answer that came early may still lie there. The rest of the request is not asked for. */
static void answer_on_failed(struct io *io, int err) {
    struct xchg *x = io->arg;
    (void)err;
    engine_reap(x->box->engine);
    x->send_failed = true;
    x->up_keep = false;
    if (gitgate_undecided(x))
        x->client->want_body(x,
                             true); /* the verdict is made all the same, then comes the upstream's answer */
    if (x->answer_done)
        xchg_end(x, true);
}

static void answer_on_timeout(struct io *io) {
    struct xchg *x = io->arg;
    engine_reap(x->box->engine);
    if (x->answer_done)
        xchg_end(x, true);
    else
        answer_broken(x, 504, "upstream-timeout", "the upstream gave no answer in time");
}

const struct io_events xchg_upstream_events = {
    .readable = answer_on_readable,
    .drained = answer_on_drained,
    .failed = answer_on_failed,
    .timeout = answer_on_timeout,
};
