#include "proxy/flow/errand_parts.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"

#define ERRAND_TEXT_MAX     (4u << 20) /* bytes of method, target, fields and body together */
#define ERRAND_INTERIM_MAX  32         /* 1xx heads before the final one */
#define ERRAND_HEAD_ROOM    1024       /* what the head holds beside the caller's text */
#define ERRAND_AGENT        "exeat/" PACKAGE_VERSION
#define ERRAND_FIELD_EXTRAS 2 /* User-Agent, Accept-Encoding */

_Static_assert(ERRAND_FIELDS_MAX + ERRAND_FIELD_EXTRAS <= HTTP_FIELDS_MAX, "they fit a head");

static const char *const errand_state_names[] = {"credential", "connect", "sent", "head", "body", "over"};
_Static_assert(sizeof errand_state_names / sizeof *errand_state_names == ERRAND_STATES,
               "a name for each state");

static void errand_enter(struct errand *e, enum errand_state state) {
    static const uint8_t legal[ERRAND_STATES] = {
        [ERRAND_CREDENTIAL] = 1 << ERRAND_CONNECT | 1 << ERRAND_OVER,
        [ERRAND_CONNECT] = 1 << ERRAND_SENT | 1 << ERRAND_OVER,
        [ERRAND_SENT] = 1 << ERRAND_CONNECT | 1 << ERRAND_HEAD | 1 << ERRAND_OVER,
        [ERRAND_HEAD] = 1 << ERRAND_BODY | 1 << ERRAND_OVER,
        [ERRAND_BODY] = 1 << ERRAND_OVER,
    };
    assert(legal[e->state] & 1 << state);
    log_debug("xchg %s: errand: %s -> %s", e->x->decision.id.text, errand_state_names[e->state],
              errand_state_names[state]);
    e->state = state;
}

/* ---- the end ---- */

static void errand_free(struct errand *e) {
    buf_release(&e->text);
    buf_release(&e->in);
    buf_release(&e->gathered);
    free(e);
}

/* Nothing comes in any more, and the exchange knows nothing of it. */
static void errand_detach(struct errand *e, bool reusable) {
    errand_enter(e, ERRAND_OVER);
    event_del(&e->timer);
    vault_cancel(&e->ask);
    secret_release(&e->inject);
    if (e->attempt)
        upstream_cancel(e->attempt);
    if (e->link_up)
        upstream_release(e->link_up, reusable, 0);
    e->attempt = NULL;
    e->link_up = NULL;
    http1_body_release(&e->decoder);
    *e->link = e->next;
    if (e->next)
        e->next->link = e->link;
}

void errand_cancel(struct errand *e) {
    if (!e || e->state == ERRAND_OVER)
        return;
    errand_detach(e, false);
    if (!e->busy)
        errand_free(e);
}

void errand_cancel_all(struct xchg *x) {
    while (x->errands)
        errand_cancel(x->errands);
}

static void errand_over(struct errand *e, struct errand_answer *answer, bool reusable) {
    answer->status = e->state == ERRAND_BODY ? e->resp.status : 0;
    errand_detach(e, reusable);
    e->events->over(e->arg, answer);
    errand_free(e);
}

void errand_fail(struct errand *e, int err, const char *format, ...) {
    char why[512];
    struct errand_answer answer = {.err = err, .why = why};
    va_list ap;
    va_start(ap, format);
    vsnprintf(why, sizeof why, format, ap);
    va_end(ap);
    log_debug("xchg %s: errand: %s", e->x->decision.id.text, why);
    errand_over(e, &answer, false);
}

static void errand_on_timer(evutil_socket_t fd, short what, void *arg) {
    struct errand *e = arg;
    (void)fd;
    (void)what;
    engine_reap(e->x->box->engine);
    errand_fail(e, ERR_TIMEOUT, "no whole answer from %s within %u ms", e->x->target.host.text, e->ms);
}

/* ---- the answer ---- */

/* Calls into the owner. False: the errand was cancelled there. */
static bool errand_tell(struct errand *e, const struct slice *data) {
    e->busy = true;
    if (data)
        e->events->data(e->arg, *data);
    else
        e->events->head(e->arg, &e->resp);
    e->busy = false;
    if (e->state == ERRAND_OVER)
        errand_free(e);
    else
        return true;
    return false;
}

bool errand_piece(struct errand *e, struct slice data) {
    e->received += data.n;
    if (e->received > e->answer_max) {
        errand_fail(e, ERR_LIMIT, "the answer of %s is longer than %llu bytes", e->x->target.host.text,
                    (unsigned long long)e->answer_max);
        return false;
    }
    if (e->events->data)
        return errand_tell(e, &data);
    if (buf_put(&e->gathered, data)) {
        errand_fail(e, ERR_NOMEM, "out of memory");
        return false;
    }
    return true;
}

void errand_done(struct errand *e, bool clean) {
    struct errand_answer answer = {.body = buf_slice(&e->gathered)};
    errand_over(e, &answer, clean && e->resp.keep_alive);
}

static void errand_body(struct errand *e, struct slice in) {
    for (;;) {
        size_t used;
        struct slice data;
        enum http1_step step = http1_body_next(&e->decoder, in, &used, &data);
        in = slice_from(in, used);
        switch (step) {
        case HTTP1_STEP_MORE: return;
        case HTTP1_STEP_DATA:
            if (!errand_piece(e, data))
                return;
            break;
        case HTTP1_STEP_DONE: errand_done(e, in.n == 0); return;
        case HTTP1_STEP_BAD:
            errand_fail(e, ERR_PARSE, "the answer of %s is malformed: %s", e->x->target.host.text,
                        http_refusal_text(e->decoder.refusal));
            return;
        }
    }
}

bool errand_head(struct errand *e) {
    if (e->resp.interim) {
        if (++e->interims <= ERRAND_INTERIM_MAX)
            return true;
        errand_fail(e, ERR_PARSE, "the answer of %s is malformed", e->x->target.host.text);
        return false;
    }
    errand_enter(e, ERRAND_BODY);
    http1_body_init(&e->decoder, e->resp.framing, e->resp.length);
    if (http_encoded(e->resp.fields, e->resp.nfields)) {
        errand_fail(e, ERR_PARSE, "the answer of %s is in a content coding that was not asked for",
                    e->x->target.host.text);
        return false;
    }
    return !e->events->head || errand_tell(e, NULL);
}

/* Takes heads off what has come; *rest is what lies behind the final one. False: it is not there yet, or all is
 * over. */
static bool errand_heads(struct errand *e, struct slice *rest) {
    for (;;) {
        struct slice head, all = buf_slice(&e->in);
        int r = http1_scan(&e->scan, all, &head);
        if (r == ERR_INCOMPLETE)
            return false;
        if (r == 0)
            r = http1_response_parse(&e->resp, head, e->req.method, false);
        if (r) {
            errand_fail(e, ERR_PARSE, "the answer of %s is malformed", e->x->target.host.text);
            return false;
        }
        size_t took = (size_t)(head.p + head.n - all.p);
        bool final = !e->resp.interim;
        *rest = slice_from(all, took);
        if (!errand_head(e))
            return false;
        if (final)
            return true;
        buf_consume(&e->in, took);
        http1_scan_init(&e->scan, true);
    }
}

static void errand_connect(struct errand *e, bool fresh);

bool errand_again(struct errand *e) {
    if (e->state != ERRAND_SENT || e->retried)
        return false;
    upstream_release(e->link_up, false, 0);
    e->link_up = NULL;
    e->retried = true;
    errand_connect(e, true);
    return true;
}

void errand_begun(struct errand *e) {
    if (e->state != ERRAND_SENT)
        return;
    errand_enter(e, ERRAND_HEAD);
    secret_release(&e->inject);
}

static void errand_ended(struct errand *e) {
    enum io_end end = e->link_up->io->end;
    if (e->link_up->reused && errand_again(e))
        return;
    if (e->state == ERRAND_BODY && end == IO_END_CLEAN && http1_body_eof(&e->decoder) == 0) {
        errand_done(e, false);
    } else {
        errand_fail(e, ERR_IO, "%s ended the connection before its answer was complete",
                    e->x->target.host.text);
    }
}

static void errand_on_readable(struct io *io) {
    struct errand *e = io->arg;
    size_t got;
    engine_reap(e->x->box->engine);
    char *bytes = io_scratch();
    int r = io_read(io, bytes, IO_SCRATCH, &got);
    if (r == ERR_AGAIN)
        return;
    if (r) {
        errand_ended(e);
        return;
    }
    struct slice in = slice_make(bytes, got);
    errand_begun(e);
    if (e->state != ERRAND_BODY) {
        if (buf_put(&e->in, in)) {
            errand_fail(e, ERR_PARSE, "the head of %s's answer is too long", e->x->target.host.text);
            return;
        }
        if (!errand_heads(e, &in))
            return;
    }
    errand_body(e, in);
}

/* `failed` is not looked at: an answer that came early may lie there, and the end of the stream follows. */
static const struct io_events errand_io_events = {.readable = errand_on_readable};

/* ---- sending ---- */

static void errand_record(struct errand *e) {
    char authority[URL_HOST_MAX + 8], peer[ADDR_TEXT_MAX];
    struct buf *url = &e->x->box->engine->text2;
    const struct target *t = &e->x->target;
    struct slice path, query;
    bool has_query = false;
    if (e->recorded)
        return;
    e->recorded = true;
    url_target_split(e->req.origin, &path, &query, &has_query);
    if (t->port != url_default_port(t->scheme))
        snprintf(authority, sizeof authority, "%s:%u", t->host.text, t->port);
    else
        snprintf(authority, sizeof authority, "%s", t->host.text);
    addr_text(&e->link_up->peer, true, peer);
    buf_clear(url);
    record_put_url(url, t->scheme, slice_str(authority), path, query,
                   (has_query ? RECORD_URL_QUERY : 0) |
                       (e->x->box->engine->config.log_query ? RECORD_URL_VALUES : 0));
    struct record r = {
        .reason = slice_str(e->purpose),
        .method = e->req.method,
        .url = buf_slice(url),
        .credential = e->x->verdict.credential,
        .upstream = slice_str(peer),
        .upstream_protocol = e->link_up->http2 ? SLICE("h2") : SLICE("http/1.1"),
    };
    decision_errand(e->x->box, &e->x->decision, &r);
}

static int errand_write(struct errand *e) {
    char *room;
    struct http_field add = {.name = e->inject_name, .value = secret_slice(&e->inject)};
    char host_text[URL_HOST_MAX + 8];
    struct buf host = {.data = host_text, .cap = sizeof host_text, .limit = sizeof host_text};
    if (target_host_field(&host, &e->x->target))
        return ERR_INTERNAL;
    struct http1_write opt = {.add = &add, .nadd = e->inject_name.n ? 1 : 0, .host = buf_slice(&host)};
    if (e->link_up->http2)
        return errand2_send(e, &opt);
    struct buf *queue = io_queue(e->link_up->io);
    /* room before the secret is written: a queue that grows leaves a copy behind */
    int r = buf_reserve(queue, buf_len(&e->text) + add.value.n + ERRAND_HEAD_ROOM + IO_RECORD, &room);
    if (r)
        return r;
    if (opt.nadd)
        io_sensitive(e->link_up->io);
    r = http1_write_request(queue, &e->req, &opt);
    return r ? r : io_write(e->link_up->io, e->body, false);
}

static void errand_ready(void *arg, struct upstream_link *link) {
    struct errand *e = arg;
    engine_reap(e->x->box->engine);
    errand_enter(e, ERRAND_SENT);
    e->attempt = NULL;
    e->link_up = link;
    if (!link->http2)
        io_own(link->io, &errand_io_events, e);
    http1_scan_init(&e->scan, true);
    buf_clear(&e->in);
    errand_record(e);
    if (errand_write(e))
        errand_fail(e, ERR_IO, "the request to %s can't be written", e->x->target.host.text);
    else if (!link->http2)
        io_resume(link->io);
}

static void errand_unreached(void *arg, const struct upstream_failure *failure) {
    struct errand *e = arg;
    engine_reap(e->x->box->engine);
    e->attempt = NULL;
    int err = upstream_reason_refusal(failure->reason) ? ERR_DENIED
              : failure->reason == UPSTREAM_TIMEOUT    ? ERR_TIMEOUT
                                                       : ERR_IO;
    errand_fail(e, err, "%s", failure->text);
}

static const struct upstream_callbacks errand_upstream = {.ready = errand_ready, .failed = errand_unreached};

/* False: memory is short. */
static bool errand_acquire(struct errand *e, bool fresh) {
    struct upstream_origin origin;
    struct upstream_options options;
    errand_enter(e, ERRAND_CONNECT);
    xchg_upstream_wish(e->x, &origin, &options);
    options.fresh = fresh;
    options.http2 = origin.scheme == URL_HTTPS;
    options.alone = e->retried;
    e->attempt = upstream_acquire(e->x->box->pool, &origin, &options, &errand_upstream, e);
    return e->attempt != NULL;
}

static void errand_connect(struct errand *e, bool fresh) {
    if (!errand_acquire(e, fresh))
        errand_fail(e, ERR_NOMEM, "out of memory");
}

static void errand_rendered(struct vault_request *r, struct vault_answer *answer) {
    struct errand *e = r->arg;
    engine_reap(e->x->box->engine);
    if (answer->err) {
        errand_fail(e, ERR_DENIED, "credential %.*s: %.*s", SLICE_ARG(e->x->verdict.credential),
                    SLICE_ARG(answer->why));
        return;
    }
    if (answer->header.n == 0 || answer->header.n > sizeof e->inject_text) {
        errand_fail(e, ERR_DENIED, "the credential's header has no usable name");
        return;
    }
    memcpy(e->inject_text, answer->header.p, answer->header.n);
    e->inject_name = slice_make(e->inject_text, answer->header.n);
    e->inject = answer->value;
    answer->value = (struct secret){0};
    errand_connect(e, false);
}

/* ---- the beginning ---- */

/* Copies into `text`, which has the room. */
static struct slice errand_keep(struct errand *e, struct slice s) {
    size_t at = buf_len(&e->text);
    buf_put(&e->text, s);
    return slice_from(buf_slice(&e->text), at);
}

static void errand_put_field(struct errand *e, struct slice name, struct slice value) {
    struct http_field *f = &e->req.fields[e->req.nfields++];
    *f = (struct http_field){.name = errand_keep(e, name), .value = errand_keep(e, value)};
}

/* Takes what was asked for; false: it does not fit, or memory is short. */
static bool errand_take(struct errand *e, const struct errand_ask *ask) {
    size_t room = ask->method.n + ask->target.n + ask->body.n + ERRAND_HEAD_ROOM;
    bool agent = false;
    char *unused;
    if (ask->nfields > ERRAND_FIELDS_MAX || ask->method.n > HTTP1_METHOD_MAX ||
        ask->target.n > HTTP1_TARGET_MAX)
        return false;
    for (size_t i = 0; i < ask->nfields; i++) {
        room += ask->fields[i].name.n + ask->fields[i].value.n;
        agent |= http_name_alike(ask->fields[i].name, SLICE("User-Agent"));
    }
    buf_init(&e->text, ERRAND_TEXT_MAX);
    if (buf_reserve(&e->text, room, &unused))
        return false;
    e->req.method = errand_keep(e, ask->method);
    e->req.origin = errand_keep(e, ask->target);
    e->req.minor = 1;
    e->req.framing = ask->body.n ? HTTP_BODY_LENGTH : HTTP_BODY_NONE;
    e->req.length = ask->body.n;
    for (size_t i = 0; i < ask->nfields; i++)
        errand_put_field(e, ask->fields[i].name, ask->fields[i].value);
    if (!agent)
        errand_put_field(e, SLICE("User-Agent"), SLICE(ERRAND_AGENT));
    errand_put_field(e, SLICE("Accept-Encoding"), SLICE("identity"));
    e->body = errand_keep(e, ask->body);
    return true;
}

/* Sends it on its way: to the keeper, or at once to the upstream. False: nobody will be called. */
static bool errand_go(struct errand *e) {
    struct xchg *x = e->x;
    struct slice raw, query;
    struct buf path;
    bool has_query;
    url_target_split(e->req.origin, &raw, &query, &has_query);
    buf_init(&path, 4 * HTTP1_TARGET_MAX);
    int r = url_path_canonical(raw, &path, NULL, NULL);
    if (r == 0 && has_query)
        r = url_query_check(query, NULL);
    if (r == 0 && x->verdict.credential.n) {
        struct vault_origin origin = {
            .scheme = x->target.scheme, .host = url_host_slice(&x->target.host), .port = x->target.port};
        e->ask.done = errand_rendered;
        e->ask.arg = e;
        r = vault_ask_render(x->box->engine->config.vault, &e->ask, x->box->id, x->verdict.credential,
                             &origin, buf_slice(&path));
    } else if (r == 0) {
        r = errand_acquire(e, false) ? 0 : ERR_NOMEM;
    }
    buf_release(&path);
    return r == 0;
}

static const char *errand_forbidden(struct xchg *x) {
    if (x->verdict.action != VERDICT_ALLOW)
        return "what is asked for is not permitted";
    if (x->nerrands >= ERRANDS_MAX)
        return "the server has been asked too often";
    if (!limits_take_errand(x->box->limits, clock_monotonic_ms()))
        return "servers have been asked too often for this sandbox within a minute; try again later";
    return NULL;
}

struct errand *errand_start(struct xchg *x, const struct errand_ask *ask, const struct errand_events *events,
                            void *arg) {
    const struct timeval limit = {.tv_sec = ask->ms / 1000, .tv_usec = ask->ms % 1000 * 1000};
    x->errand_why = errand_forbidden(x);
    struct errand *e = x->errand_why ? NULL : calloc(1, sizeof *e);
    if (!e && !x->errand_why)
        x->errand_why = "out of memory";
    if (!e)
        return NULL;
    e->x = x;
    e->events = events;
    e->arg = arg;
    e->purpose = ask->purpose;
    e->answer_max = ask->answer_max;
    e->ms = ask->ms;
    buf_init(&e->in, HTTP1_HEAD_MAX + IO_SCRATCH);
    buf_init(&e->gathered, ask->answer_max < SIZE_MAX ? (size_t)ask->answer_max : SIZE_MAX);
    if (!errand_take(e, ask) || !errand_go(e)) {
        x->errand_why = "no request to the server can be made";
        errand_free(e);
        return NULL;
    }
    x->nerrands++;
    e->next = x->errands;
    e->link = &x->errands;
    if (e->next)
        e->next->link = &e->next;
    x->errands = e;
    event_assign(&e->timer, x->box->engine->config.base, -1, 0, errand_on_timer, e);
    event_add(&e->timer, &limit);
    return e;
}
