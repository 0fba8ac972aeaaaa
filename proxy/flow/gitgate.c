#include "proxy/flow/gitgate.h"

#include <stdlib.h>

#include "base/clock.h"
#include "proxy/codec/gunzip.h"
#include "proxy/flow/refusal.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"

#define GATE_HELD_MAX   (GIT_SECTION_MAX + IO_SCRATCH)
#define GATE_INFLATE    16384        /* bytes inflated in one step */
#define GATE_REPORT_MAX (12u << 20)  /* bytes of a refusal: a line for each of GIT_COMMANDS_MAX refs */
#define GATE_DRAIN      (8ull << 30) /* bytes of a refused push that are read and thrown away */

struct gitgate {
    struct git_push push;
    struct gunzip gunzip;
    bool gzip;
    struct buf held;  /* the body as received */
    struct buf plain; /* inflated, not yet fed */
    struct buf text;  /* of one ref's refusal */
    struct facts_ref *refs;
    struct record_ref *record_refs;
    size_t nrefs;
    bool bad;     /* the push could not be read */
    bool refused; /* `report` is the answer, as soon as the rest of the body has come */
    struct buf report;
    uint64_t thrown; /* bytes that came after the refusal */
};

void gitgate_free(struct gitgate *gate) {
    if (!gate)
        return;
    git_push_release(&gate->push);
    if (gate->gzip)
        gunzip_release(&gate->gunzip);
    buf_release(&gate->held);
    buf_release(&gate->plain);
    buf_release(&gate->text);
    buf_release(&gate->report);
    free(gate->refs);
    free(gate->record_refs);
    free(gate);
}

struct slice gitgate_held(const struct xchg *x) {
    return x->gate ? buf_slice(&x->gate->held) : SLICE_NONE;
}

void gitgate_record(struct xchg *x, struct record *r) {
    switch (x->git.kind) {
    case GIT_NOT: return;
    case GIT_DISCOVER_FETCH:
    case GIT_FETCH: r->git_service = SLICE("git-upload-pack"); break;
    case GIT_DISCOVER_PUSH:
    case GIT_PUSH: r->git_service = SLICE("git-receive-pack"); break;
    case GIT_REFUSED: break;
    }
    if (x->gate) {
        r->refs = x->gate->record_refs;
        r->nrefs = x->gate->nrefs;
    }
}

/* ---- refusing ---- */

static struct slice gate_reason(size_t i, void *arg) {
    struct xchg *x = arg;
    struct gitgate *gate = x->gate;
    struct verdict v;
    buf_clear(&gate->text);
    policy_judge_ref(x->box->policy, &x->facts, i, &v);
    buf_puts(&gate->text, "exeat: ");
    if (v.action == VERDICT_ALLOW)
        buf_puts(&gate->text, "refused with the rest of this push");
    else
        policy_explain_ref(x->box->policy, &x->facts, &v, &gate->text);
    buf_printf(&gate->text, " [%s]", x->decision.id.text);
    return buf_slice(&gate->text);
}

/* A push that can't be read has no refs to be named. */
static struct slice gate_reason_bad(size_t i, void *arg) {
    (void)i;
    (void)arg;
    return SLICE("exeat: this push can't be read");
}

static void gate_message(struct xchg *x, struct slice reason, struct buf *out) {
    buf_printf(out, "exeat: push refused: %.*s\n", SLICE_ARG(reason));
    struct slice rest = x->gate->bad ? SLICE_NONE : refusal_hint(x), line;
    for (bool first = true; rest.n; first = false) {
        slice_cut(rest, '\n', &line, &rest);
        buf_printf(out, "exeat: %s %.*s\n", first ? "to permit:" : "          ", SLICE_ARG(line));
    }
    buf_printf(out, "exeat: sandbox %s, decision %s\n", x->box->name, x->decision.id.text);
}

static void gate_answer(struct xchg *x) {
    struct http_field field = {.name = SLICE("Cache-Control"), .value = SLICE("no-cache")};
    x->status = 200;
    int r = x->client->own(x, 200, SLICE(GIT_PUSH_RESULT), buf_slice(&x->gate->report), &field, 1);
    xchg_end(x, r == 0);
}

/*
 * Status 200 and git's own report: git then prints which ref was refused, and why. It comes to read the answer only when
 * it has sent the whole pack; an answer before that makes it send the rest as if it were another push. So the rest is
 * read and thrown away, on this host, and nothing of it goes upstream.
 */
static void gate_refuse(struct xchg *x, const char *code, struct slice reason) {
    struct gitgate *gate = x->gate;
    struct buf message;
    buf_init(&gate->report, GATE_REPORT_MAX);
    buf_init(&message, 65536);
    xchg_record(x, true, code, reason);
    gate_message(x, reason, &message);
    int r = git_report_refusal(&gate->report, &gate->push, gate->bad ? gate_reason_bad : gate_reason, x,
                               buf_slice(&message));
    buf_release(&message);
    buf_release(&gate->held);
    gate->refused = true;
    if (r)
        xchg_end(x, false);
    else if (x->body_done)
        gate_answer(x);
    else
        x->client->want_body(x, true);
}

static void gate_unreadable(struct xchg *x, const char *code, const char *why) {
    char reason[ERRMSG_MAX];
    snprintf(reason, sizeof reason, "%s", why);
    x->gate->bad = true;
    gate_refuse(x, code, slice_str(reason));
}

/* ---- judging ---- */

static enum facts_op gate_op(enum git_op op) {
    switch (op) {
    case GIT_CREATE: return FACTS_CREATE;
    case GIT_DELETE: return FACTS_DELETE;
    case GIT_UPDATE: break;
    }
    return FACTS_FORCE;
}

static int gate_collect(struct gitgate *gate) {
    size_t n = gate->push.ncommands;
    if (n == 0)
        return 0;
    gate->refs = calloc(n, sizeof *gate->refs);
    gate->record_refs = calloc(n, sizeof *gate->record_refs);
    if (!gate->refs || !gate->record_refs)
        return ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        struct git_command c = git_push_command(&gate->push, i);
        gate->refs[i] = (struct facts_ref){
            .name = c.ref,
            .op = gate_op(c.op),
            .unproved = c.op == GIT_UPDATE,
            .old = c.old_id,
            .new = c.new_id,
        };
        gate->record_refs[i] = (struct record_ref){
            .ref = c.ref,
            .old = c.old_id,
            .new = c.new_id,
            .op = slice_str(facts_op_name(gate->refs[i].op)),
        };
    }
    gate->nrefs = n;
    return 0;
}

static void gate_judge(struct xchg *x) {
    struct gitgate *gate = x->gate;
    x->client->want_body(x, false);
    if (gate_collect(gate)) {
        gate_unreadable(x, "no-memory", "out of memory");
        return;
    }
    x->facts.refs = gate->refs;
    x->facts.nrefs = gate->nrefs;
    policy_judge(x->box->policy, &x->facts, &x->verdict);
    struct buf reason;
    unsigned wait_s;
    const struct verdict *v = &x->verdict;
    bool allowed = v->action == VERDICT_ALLOW;
    if (allowed &&
        (v->limit == 0 || limits_take(&x->box->limits, policy_rule_count(x->box->policy), v->limit_id,
                                      v->limit, v->limit_seconds, clock_monotonic_ms(), &wait_s))) {
        xchg_go(x);
        return;
    }
    buf_init(&reason, 8192);
    if (allowed)
        refusal_limit_text(x, wait_s, &reason);
    else
        refusal_policy_text(x, 8, &reason);
    gate_refuse(x, allowed ? "limit" : NULL, buf_slice(&reason));
    buf_release(&reason);
}

/* ---- reading ---- */

/* One cut of the plain body. 0: the section is complete; ERR_INCOMPLETE; or it was refused (ERR_DENIED). */
static int gate_take(struct xchg *x, struct slice plain, size_t *used) {
    struct gitgate *gate = x->gate;
    int r = git_push_feed(&gate->push, plain, used);
    if (r == 0 || r == ERR_INCOMPLETE)
        return r;
    gate_unreadable(x, r == ERR_LIMIT ? "push-too-long" : "push-malformed", gate->push.error.text);
    return ERR_DENIED;
}

static int gate_inflate(struct xchg *x, struct slice bytes) {
    struct gitgate *gate = x->gate;
    int r = ERR_INCOMPLETE;
    bool stuck = false;
    while (r == ERR_INCOMPLETE && !stuck) {
        size_t used, taken;
        buf_clear(&gate->plain);
        int g = gunzip_feed(&gate->gunzip, bytes, &used, &gate->plain, GATE_INFLATE);
        bytes = slice_from(bytes, used);
        if (g && g != ERR_EOF) {
            gate_unreadable(x, "push-malformed",
                            g == ERR_LIMIT ? "the command list is too long"
                                           : "the body is not gzip, as it claims to be");
            return ERR_DENIED;
        }
        size_t came = buf_len(&gate->plain);
        r = gate_take(x, buf_slice(&gate->plain), &taken);
        stuck = g == ERR_EOF || (bytes.n == 0 && came < GATE_INFLATE);
    }
    return r;
}

void gitgate_feed(struct xchg *x, struct slice bytes) {
    struct gitgate *gate = x->gate;
    size_t used;
    if (gate->refused) {
        gate->thrown += bytes.n;
        if (gate->thrown > GATE_DRAIN)
            gate_answer(x);
        return;
    }
    int r = buf_put(&gate->held, bytes);
    if (r) {
        gate_unreadable(x, "push-too-long", "the command list is too long");
        return;
    }
    r = gate->gzip ? gate_inflate(x, bytes) : gate_take(x, bytes, &used);
    if (r)
        return;
    if (!gate->gzip && !gate->push.pack_follows && used < bytes.n)
        gate_unreadable(x, "push-malformed", "bytes behind a command list that no pack follows");
    else
        gate_judge(x);
}

void gitgate_body_end(struct xchg *x) {
    if (x->gate->refused)
        gate_answer(x);
    else
        gate_unreadable(x, "push-malformed", "the body ended before the command list did");
}

void gitgate_begin(struct xchg *x) {
    const struct http_field *f = http_find(x->req.fields, x->req.nfields, HTTP_F_CONTENT_ENCODING, NULL);
    enum git_encoding encoding = git_encoding(f ? f->value : SLICE_NONE);
    struct gitgate *gate = calloc(1, sizeof *gate);
    if (!gate) {
        refusal_trouble(x, 503, "no-memory", "out of memory");
        return;
    }
    git_push_init(&gate->push);
    buf_init(&gate->held, GATE_HELD_MAX);
    buf_init(&gate->plain, GATE_INFLATE);
    buf_init(&gate->text, 4096);
    x->gate = gate;
    xchg_enter(x, XCHG_SECTION);
    if (encoding == GIT_ENCODING_UNKNOWN) {
        gate_unreadable(x, "push-encoding", "the body's encoding is neither none nor gzip");
        return;
    }
    if (encoding == GIT_ENCODING_GZIP) {
        if (gunzip_init(&gate->gunzip, GIT_SECTION_MAX)) {
            gate_unreadable(x, "no-memory", "out of memory");
            return;
        }
        gate->gzip = true;
    }
    if (x->body_done) {
        gitgate_body_end(x);
        return;
    }
    if (x->req.expect_continue) {
        x->proceed_said = true;
        x->client->proceed(x);
    }
    if (x->state == XCHG_SECTION)
        x->client->want_body(x, true);
}
