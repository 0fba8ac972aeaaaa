#include "proxy/flow/refusal.h"

#include "base/json.h"
#include "proxy/codec/lfs.h"
#include "proxy/flow/gitgate.h"
#include "proxy/flow/spot.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"

#define REFUSAL_GRPC_MAX                                                                                     \
    1500 /* bytes of a message of gRPC's, whose libraries take some KiB of fields, before it is encoded */
#define REFUSAL_DRAIN (64u << 20) /* bytes of a refused fetch's request that are read and thrown away */

/* What one answer says; empty parts are left out. */
struct saying {
    int status;
    const char *title;
    const char *code;
    struct slice reason;
    struct slice rule;
    struct slice hint;
    const char *retry_after; /* seconds */
};

/* ---- who reads it ---- */

static bool header_holds(const struct xchg *x, enum http_field_id id, const char *word) {
    const struct http_field *f = http_find(x->req.fields, x->req.nfields, id, NULL);
    return f && memmem(f->value.p, f->value.n, word, strlen(word));
}

/* git-lfs prints the `message` of an answer that is of its own type. */
static bool refusal_for_lfs(const struct xchg *x) {
    return header_holds(x, HTTP_F_ACCEPT, LFS_MEDIA_TYPE) || header_holds(x, HTTP_F_USER_AGENT, "git-lfs/");
}

bool refusal_wants_text(const struct xchg *x) {
    static const char *const agents[] = {"curl/", "Wget/", "git/", "Mozilla/", "w3m/", "lynx/", "Debian APT"};
    if (header_holds(x, HTTP_F_ACCEPT, "json") || refusal_for_lfs(x))
        return false;
    if (header_holds(x, HTTP_F_ACCEPT, "text/"))
        return true;
    for (size_t i = 0; i < sizeof agents / sizeof *agents; i++)
        if (header_holds(x, HTTP_F_USER_AGENT, agents[i]))
            return true;
    return false;
}

/* ---- forms ---- */

static void put_text(struct xchg *x, const struct saying *s, struct buf *out) {
    buf_printf(out, "exeat: %s: %.*s ", s->title, SLICE_ARG(x->req.method));
    xchg_put_url(x, out);
    buf_printf(out, "\n  reason:    %.*s\n", SLICE_ARG(s->reason));
    if (s->rule.n)
        buf_printf(out, "  rule:      %.*s\n", SLICE_ARG(s->rule));
    struct slice rest = s->hint, line;
    for (bool first = true; rest.n; first = false) {
        slice_cut(rest, '\n', &line, &rest);
        buf_printf(out, "  %s %.*s\n", first ? "to permit:" : "          ", SLICE_ARG(line));
    }
    buf_printf(out, "  sandbox:   %s\n  decision:  %s  (http://exeat.internal/why/%s)\n", x->box->name,
               x->decision.id.text, x->decision.id.text);
}

/* In one line. */
static void put_line(struct xchg *x, const struct saying *s, struct buf *out) {
    buf_printf(out, "exeat: %s: %.*s%s%.*s [%s]", s->title, SLICE_ARG(s->reason),
               s->hint.n ? "; to permit: " : "", SLICE_ARG(s->hint), x->decision.id.text);
}

static void put_json(struct xchg *x, const struct saying *s, struct buf *out) {
    char url_memory[64];
    struct buf *url = &x->box->engine->text2;
    buf_clear(url);
    xchg_put_url(x, url);
    struct json j;
    json_init(&j, out);
    json_open_object(&j);
    json_key(&j, "type");
    json_cstring(&j, "about:blank");
    json_key(&j, "title");
    json_cstring(&j, s->title);
    json_key(&j, "status");
    json_u64(&j, (uint64_t)s->status);
    json_key(&j, "detail");
    json_put_string(&j, s->reason);
    snprintf(url_memory, sizeof url_memory, "http://exeat.internal/why/%s", x->decision.id.text);
    json_key(&j, "instance");
    json_cstring(&j, url_memory);
    json_key(&j, "code");
    json_cstring(&j, s->code);
    json_key(&j, "method");
    json_put_string(&j, x->req.method);
    json_key(&j, "url");
    json_put_string(&j, buf_slice(url));
    if (s->rule.n) {
        json_key(&j, "rule");
        json_put_string(&j, s->rule);
    }
    if (s->hint.n) {
        json_key(&j, "permit");
        json_put_string(&j, s->hint);
    }
    if (refusal_for_lfs(x)) {
        struct buf message;
        buf_init(&message, 8192);
        put_line(x, s, &message);
        json_key(&j, "message");
        json_put_string(&j, buf_slice(&message));
        buf_release(&message);
    }
    json_key(&j, "sandbox");
    json_cstring(&j, x->box->name);
    json_key(&j, "decision");
    json_cstring(&j, x->decision.id.text);
    json_close(&j);
    buf_putc(out, '\n');
}

/* Answers and ends. */
static void say(struct xchg *x, struct slice type, struct slice body, int status, const char *retry_after) {
    struct http_field fields[] = {
        {.name = SLICE("Cache-Control"), .value = SLICE("no-store")},
        {.name = SLICE("X-Exeat-Decision"), .value = slice_make(x->decision.id.text, ULID_LEN)},
        {.name = SLICE("Retry-After"), .value = slice_str(retry_after ? retry_after : "")},
    };
    x->status = (unsigned)status;
    int r = x->client->own(x, status, type, body, fields, retry_after ? 3 : 2);
    xchg_end(x, r == 0);
}

/* A call of gRPC: over HTTP/2 alone, of type application/grpc, with or without what messages are written in. */
static bool is_grpc(const struct xchg *x) {
    static const struct slice type = SLICE("application/grpc");
    const struct http_field *f = http_find(x->req.fields, x->req.nfields, HTTP_F_CONTENT_TYPE, NULL);
    return x->client->http2 && f && slice_starts(f->value, type) &&
           (f->value.n == type.n || f->value.p[type.n] == '+' || f->value.p[type.n] == ';');
}

/* What HTTP's status is among gRPC's codes, where one says more than how gRPC's own libraries would read it. */
static const char *grpc_status(int status) {
    switch (status) {
    case 403: return "7"; /* PERMISSION_DENIED */
    case 413:
    case 429: return "8"; /* RESOURCE_EXHAUSTED */
    case 502:
    case 503:
    case 504: return "14"; /* UNAVAILABLE */
    default: return "13";  /* INTERNAL */
    }
}

/* "PROTOCOL-HTTP2.md" of gRPC: all of the answer is its head, behind a 200; other bytes than printable ones of ASCII are
 * percent-encoded. */
static void say_in_grpc(struct xchg *x, const struct saying *s) {
    struct buf line, message;
    buf_init(&line, 131072);
    buf_init(&message, 3 * REFUSAL_GRPC_MAX);
    put_line(x, s, &line);
    struct slice text = slice_sub(buf_slice(&line), 0, REFUSAL_GRPC_MAX);
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        if (c < ' ' || c > '~' || c == '%')
            buf_printf(&message, "%%%02X", c);
        else
            buf_putc(&message, (char)c);
    }
    struct http_field fields[] = {
        {.name = SLICE("grpc-status"), .value = slice_str(grpc_status(s->status))},
        {.name = SLICE("grpc-message"), .value = buf_slice(&message)},
        {.name = SLICE("X-Exeat-Decision"), .value = slice_make(x->decision.id.text, ULID_LEN)},
    };
    x->status = 200;
    int r = x->client->own(x, 200, SLICE("application/grpc"), SLICE_NONE, fields, 3);
    xchg_end(x, r == 0);
    buf_release(&line);
    buf_release(&message);
}

static void say_in_form(struct xchg *x, const struct saying *s) {
    struct buf body;
    if (is_grpc(x)) {
        say_in_grpc(x, s);
        return;
    }
    buf_init(&body, 65536);
    bool text = refusal_wants_text(x);
    if (text)
        put_text(x, s, &body);
    else
        put_json(x, s, &body);
    struct slice type = text                 ? SLICE("text/plain; charset=utf-8")
                        : refusal_for_lfs(x) ? SLICE(LFS_MEDIA_TYPE)
                                             : SLICE("application/problem+json");
    say(x, type, buf_slice(&body), s->status, s->retry_after);
    buf_release(&body);
}

/* git shows a refusal's text after a discovery; of a later answer that is not a 200 it shows the status alone. */
static bool say_in_git(struct xchg *x, const char *word, struct slice reason) {
    if (x->git.kind == GIT_PUSH)
        return gitgate_says(x, word, reason);
    if (x->git.kind != GIT_FETCH)
        return false;
    struct buf body;
    buf_init(&body, PKT_MAX);
    pkt_printf(&body, "ERR exeat: %s: %.*s [%s]\n", word, SLICE_ARG(slice_sub(reason, 0, 1500)),
               x->decision.id.text);
    x->drain = REFUSAL_DRAIN;
    say(x, SLICE(GIT_FETCH_RESULT), buf_slice(&body), 200, NULL);
    buf_release(&body);
    return true;
}

/* ---- the reasons ---- */

struct slice refusal_hint(struct xchg *x) {
    struct buf *out = &x->box->engine->text;
    buf_clear(out);
    if (x->judged)
        policy_hint(x->box->policy, &x->facts, &x->verdict, out);
    struct slice hint = buf_slice(out);
    while (hint.n && hint.p[hint.n - 1] == '\n')
        hint.n--;
    return hint;
}

void refusal_remark(const struct verdict *v, struct buf *out) {
    if (v->action == VERDICT_ASK)
        buf_puts(out, "; this version can't wait for one yet");
}

void refusal_policy_text(struct xchg *x, size_t max_refs, struct buf *out) {
    policy_explain(x->box->policy, &x->facts, &x->verdict, max_refs, out);
    refusal_remark(&x->verdict, out);
}

void refusal_limit_text(struct xchg *x, unsigned wait_s, struct buf *out) {
    const struct verdict *v = &x->verdict;
    const char *unit = v->limit_seconds == 1      ? "a second"
                       : v->limit_seconds == 60   ? "a minute"
                       : v->limit_seconds == 3600 ? "an hour"
                                                  : "a day";
    buf_printf(out, "%s:%u permits %u request%s %s, and no more: again in %u s", v->rule.file, v->rule.line,
               v->limit, v->limit == 1 ? "" : "s", unit, wait_s);
}

void refusal_limit(struct xchg *x, unsigned wait_s) {
    char seconds[16];
    struct buf reason;
    buf_init(&reason, 8192);
    refusal_limit_text(x, wait_s, &reason);
    snprintf(seconds, sizeof seconds, "%u", wait_s);
    xchg_record(x, true, "limit", buf_slice(&reason));
    if (say_in_git(x, "denied", buf_slice(&reason))) {
        buf_release(&reason);
        return;
    }
    struct saying s = {.status = 429,
                       .title = "denied",
                       .code = "limit",
                       .reason = buf_slice(&reason),
                       .retry_after = seconds};
    say_in_form(x, &s);
    buf_release(&reason);
}

void refusal_too_large(struct xchg *x) {
    struct buf reason;
    buf_init(&reason, 8192);
    buf_printf(&reason, "the body is longer than the %llu bytes that %s:%u permits",
               (unsigned long long)x->verdict.max_body, x->verdict.rule.file, x->verdict.rule.line);
    xchg_record(x, true, "max-body", buf_slice(&reason)); /* nothing if it was permitted already */
    xchg_trouble(x, "max-body", "%.*s", SLICE_ARG(buf_slice(&reason)));
    x->conn->close_after = true;
    x->up_keep = false;
    struct saying s = {.status = 413, .title = "denied", .code = "max-body", .reason = buf_slice(&reason)};
    if (x->answer_phase >= ANSWER_HELD)
        xchg_end(x, false);
    else
        say_in_form(x, &s);
    buf_release(&reason);
}

void refusal_policy(struct xchg *x) {
    struct buf reason, rule;
    buf_init(&reason, 8192);
    buf_init(&rule, 8192);
    refusal_policy_text(x, 0, &reason);
    const struct verdict_rule *by = &x->verdict.rule;
    if (by->index)
        buf_printf(&rule, "%s:%u: %.*s", by->file, by->line, SLICE_ARG(by->text));
    xchg_record(x, true, NULL, buf_slice(&reason));
    struct saying s = {
        .status = 403,
        .title = "denied",
        .code = verdict_reason_code(x->verdict.reason),
        .reason = buf_slice(&reason),
        .rule = buf_slice(&rule),
        .hint = refusal_hint(x),
    };
    if (x->git.kind != GIT_NOT)
        refusal_git_line(x, s.code, s.reason);
    else
        say_in_form(x, &s);
    buf_release(&reason);
    buf_release(&rule);
}

void refusal_git_line(struct xchg *x, const char *code, struct slice reason) {
    struct buf line, text;
    struct slice hint, rest;
    xchg_record(x, true, code, reason);
    if (x->git.kind == GIT_PUSH && say_in_git(x, "refused", reason))
        return;
    buf_init(&line, 16384);
    buf_init(&text, 16384);
    buf_put(&line, reason);
    slice_cut(refusal_hint(x), '\n', &hint, &rest);
    if (hint.n)
        buf_printf(&line, "; to permit: %.*s", SLICE_ARG(hint));
    if (x->git.kind == GIT_FETCH) {
        say_in_git(x, "denied", buf_slice(&line));
    } else {
        buf_printf(&text, "exeat: denied: %.*s [%s]\n", SLICE_ARG(buf_slice(&line)), x->decision.id.text);
        say(x, SLICE("text/plain; charset=utf-8"), buf_slice(&text), 403, NULL);
    }
    buf_release(&line);
    buf_release(&text);
}

void refusal_other(struct xchg *x, const char *code, struct slice reason) {
    xchg_record(x, true, code, reason);
    if (x->git.kind != GIT_NOT) {
        refusal_git_line(x, code, reason);
        return;
    }
    struct saying s = {.status = 403, .title = "denied", .code = code, .reason = reason};
    say_in_form(x, &s);
}

void refusal_secret(struct xchg *x, const struct spot *spot) {
    struct buf reason;
    buf_init(&reason, 4096);
    spot_reason(spot, &reason);
    refusal_other(x, spot->state == SPOT_FOUND ? "secret" : "secret-unknown", buf_slice(&reason));
    buf_release(&reason);
}

void refusal_malformed(struct xchg *x, int status, const char *code, const char *reason) {
    x->conn->close_after = true;
    xchg_record(x, true, code, slice_str(reason));
    struct saying s = {.status = status, .title = "refused", .code = code, .reason = slice_str(reason)};
    say_in_form(x, &s);
}

void refusal_trouble(struct xchg *x, int status, const char *code, const char *reason) {
    char copy[UPSTREAM_TEXT_MAX];
    snprintf(copy, sizeof copy, "%s", reason);
    xchg_trouble(x, code, "%s", copy);
    struct saying s = {.status = status,
                       .title = status == 403 ? "denied" : "no answer from the upstream",
                       .code = code,
                       .reason = slice_str(copy)};
    if (x->git.kind != GIT_NOT) {
        struct buf body;
        if (say_in_git(x, x->git.kind == GIT_PUSH ? "failed" : "fetch failed", s.reason))
            return;
        buf_init(&body, 4096);
        buf_printf(&body, "exeat: %s [%s]\n", copy, x->decision.id.text);
        say(x, SLICE("text/plain; charset=utf-8"), buf_slice(&body), status, NULL);
        buf_release(&body);
    } else {
        say_in_form(x, &s);
    }
}
