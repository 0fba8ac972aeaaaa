#include "proxy/flow/gitgate.h"

#include <stdlib.h>

#include "base/clock.h"
#include "proxy/codec/gunzip.h"
#include "proxy/flow/gitproof.h"
#include "proxy/flow/refusal.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"

#define GATE_HELD_MAX (GIT_SECTION_MAX + IO_SCRATCH)
#define GATE_EARLY                                                                                           \
    (256u << 10) /* a push up to this length is judged whole, before a byte of it goes upstream */
#define GATE_TAIL_MAX   (64u << 10)  /* bytes of the end of a longer one, which wait for the verdict */
#define GATE_GUNZIP_MAX (1u << 30)   /* what a pack in a gzip body may inflate to */
#define GATE_INFLATE    16384        /* bytes inflated in one step */
#define GATE_REPORT_MAX (12u << 20)  /* bytes of a refusal: a line for each of GIT_COMMANDS_MAX refs */
#define GATE_DRAIN      (8ull << 30) /* bytes of a refused push that are read and thrown away */

enum gate_phase {
    GATE_LIST, /* the command list is being read */
    GATE_PACK, /* the verdict hangs on what the pack proves, which is being read: up to GATE_EARLY bytes of the body
                   * are held, then it goes upstream as it comes, but for its end */
    GATE_PASSED,  /* permitted: nothing more is read here */
    GATE_REFUSED, /* `report` is the answer, as soon as the rest of the body has come */
};

struct gitgate {
    enum gate_phase phase;
    struct git_push push;
    struct gunzip gunzip;
    bool gzip;
    struct buf held;  /* the body as received */
    struct buf plain; /* inflated, not yet fed */
    struct buf text;  /* of one ref's refusal */
    struct buf tail;  /* the end of a body that went upstream up to here */
    struct facts_ref *refs;
    struct record_ref *record_refs;
    bool *wants; /* refs whose update is permitted only as a fast-forward */
    size_t nrefs, nwants;
    struct gitproof *proof;
    bool bad; /* the push could not be read */
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
    buf_release(&gate->tail);
    buf_release(&gate->report);
    gitproof_free(gate->proof);
    free(gate->wants);
    free(gate->refs);
    free(gate->record_refs);
    free(gate);
}

struct slice gitgate_held(const struct xchg *x) {
    return x->gate ? buf_slice(&x->gate->held) : SLICE_NONE;
}

void gitgate_sent(struct xchg *x) {
    if (x->gate)
        buf_release(&x->gate->held);
}

bool gitgate_undecided(const struct xchg *x) {
    return x->gate && x->gate->phase == GATE_PACK;
}

bool gitgate_reads(const struct xchg *x) {
    return x->state == XCHG_SECTION || (x->state == XCHG_RELAY && x->gate &&
                                        (x->gate->phase == GATE_PACK || x->gate->phase == GATE_REFUSED));
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
    buf_release(&gate->tail);
    gitproof_free(gate->proof);
    gate->proof = NULL;
    gate->phase = GATE_REFUSED;
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
    gate->wants = calloc(n, sizeof *gate->wants);
    if (!gate->refs || !gate->record_refs || !gate->wants)
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
            .proof = c.op == GIT_UPDATE ? SLICE("none") : SLICE_NONE,
        };
    }
    gate->nrefs = n;
    return 0;
}

static bool gate_allows(struct xchg *x, size_t i) {
    struct verdict v;
    policy_judge_ref(x->box->policy, &x->facts, i, &v);
    return v.action == VERDICT_ALLOW;
}

/* What has to be proved: updates that are permitted as a fast-forward and not otherwise. They are judged as such, for
 * the moment, to see whether a proof can help at all. */
static void gate_assume(struct xchg *x) {
    struct gitgate *gate = x->gate;
    for (size_t i = 0; i < gate->nrefs; i++) {
        struct facts_ref *ref = &gate->refs[i];
        if (!ref->unproved || gate_allows(x, i))
            continue;
        ref->op = FACTS_UPDATE;
        ref->unproved = false;
        gate->wants[i] = gate_allows(x, i);
        if (gate->wants[i]) {
            gate->nwants++;
        } else {
            ref->op = FACTS_FORCE;
            ref->unproved = true;
        }
    }
}

/* The server has a pack without an end, which it throws away. */
static void gate_cut(struct xchg *x) {
    if (x->link)
        upstream_release(x->link, false, 0);
    x->link = NULL;
    x->up_keep = false;
}

/* The push is permitted, but the rule's limit is used up: refused. */
static bool gate_limited(struct xchg *x) {
    const struct verdict *v = &x->verdict;
    struct buf reason;
    unsigned wait_s;
    if (v->limit == 0 ||
        limits_take(x->box->limits, v->limit_id, v->limit, v->limit_seconds, clock_monotonic_ms(), &wait_s))
        return false;
    buf_init(&reason, 8192);
    refusal_limit_text(x, wait_s, &reason);
    gate_cut(x);
    gate_refuse(x, "limit", buf_slice(&reason));
    buf_release(&reason);
    return true;
}

/* Judges by the command list. 0: permitted whatever the pack holds. ERR_INCOMPLETE: if the pack proves what is wanted.
 * ERR_DENIED: refused. */
static int gate_judge(struct xchg *x) {
    struct gitgate *gate = x->gate;
    if (gate_collect(gate)) {
        gate_unreadable(x, "no-memory", "out of memory");
        return ERR_DENIED;
    }
    x->facts.refs = gate->refs;
    x->facts.nrefs = gate->nrefs;
    gate_assume(x);
    policy_judge(x->box->policy, &x->facts, &x->verdict);
    if (x->verdict.action != VERDICT_ALLOW) {
        struct buf reason;
        buf_init(&reason, 8192);
        refusal_policy_text(x, 8, &reason);
        gate_refuse(x, NULL, buf_slice(&reason));
        buf_release(&reason);
        return ERR_DENIED;
    }
    if (gate->nwants == 0) {
        if (gate_limited(x))
            return ERR_DENIED;
        gate->phase = GATE_PASSED;
        return 0;
    }
    gate->proof = gitproof_new(gate->push.caps.id_digits, &x->box->engine->proof_memory);
    if (!gate->proof) {
        gate_unreadable(x, "no-memory", "out of memory");
        return ERR_DENIED;
    }
    gate->gunzip.limit = GATE_GUNZIP_MAX;
    gate->phase = GATE_PACK;
    return ERR_INCOMPLETE;
}

/* ---- deciding by the pack ---- */

/* Gives each ref the operation that was proved. Returns how many wanted proofs failed. */
static size_t gate_prove(struct gitgate *gate) {
    size_t failed = 0;
    for (size_t i = 0; i < gate->nrefs; i++) {
        struct facts_ref *ref = &gate->refs[i];
        if (!gate->wants[i])
            continue;
        enum pack_answer answer = gitproof_ask(gate->proof, ref->old, ref->new);
        ref->op = answer == PACK_YES ? FACTS_UPDATE : FACTS_FORCE;
        ref->unproved = answer == PACK_UNKNOWN;
        failed += answer != PACK_YES;
        gate->record_refs[i].op = slice_str(facts_op_name(ref->op));
        if (answer != PACK_UNKNOWN)
            gate->record_refs[i].proof = SLICE("pack");
    }
    return failed;
}

static void gate_refuse_unproved(struct xchg *x) {
    struct buf reason;
    char why[ERRMSG_MAX] = "";
    const char *failed = gitproof_failed(x->gate->proof);
    if (failed)
        snprintf(why, sizeof why, "; the pack can't be looked through: %s", failed);
    buf_init(&reason, 16384);
    policy_judge(x->box->policy, &x->facts, &x->verdict);
    refusal_policy_text(x, 8, &reason);
    buf_puts(&reason, why);
    gate_cut(x);
    gate_refuse(x, NULL, buf_slice(&reason));
    buf_release(&reason);
}

/* Everything has come, or what came can't be read on. */
static void gate_decide(struct xchg *x) {
    struct gitgate *gate = x->gate;
    if (!gitproof_whole(gate->proof))
        gitproof_fail(gate->proof, "it ends too early");
    if (gate_prove(gate)) {
        gate_refuse_unproved(x);
        return;
    }
    if (gate_limited(x))
        return;
    gitproof_free(gate->proof);
    gate->proof = NULL;
    gate->phase = GATE_PASSED;
    if (x->state == XCHG_SECTION) {
        xchg_go(x);
        return;
    }
    xchg_record(x, false, NULL, SLICE_NONE);
    io_resume(x->link->io);
    xchg_send_body(x, buf_slice(&gate->tail));
    if (x->state == XCHG_RELAY)
        xchg_send_end(x, NULL, 0);
}

/* ---- reading ---- */

/* One cut of the plain body. 0: permitted by the list alone; ERR_INCOMPLETE; ERR_DENIED: refused, the exchange may be
 * over. */
static int gate_take(struct xchg *x, struct slice plain) {
    struct gitgate *gate = x->gate;
    if (gate->phase == GATE_LIST) {
        size_t used;
        int r = git_push_feed(&gate->push, plain, &used);
        if (r == ERR_INCOMPLETE)
            return r;
        plain = slice_from(plain, used);
        if (r) {
            gate_unreadable(x, r == ERR_LIMIT ? "push-too-long" : "push-malformed", gate->push.error.text);
            return ERR_DENIED;
        }
        if (!gate->gzip && !gate->push.pack_follows && plain.n) {
            gate_unreadable(x, "push-malformed", "bytes behind a command list that no pack follows");
            return ERR_DENIED;
        }
        r = gate_judge(x);
        if (r != ERR_INCOMPLETE)
            return r;
    }
    gitproof_feed(gate->proof, plain);
    return ERR_INCOMPLETE;
}

static int gate_bad_gzip(struct xchg *x, int err) {
    const char *why = err == ERR_LIMIT ? x->gate->phase == GATE_LIST ? "the command list is too long"
                                                                     : "it is too long for a gzip body"
                                       : "the body is not gzip, as it claims to be";
    if (x->gate->phase == GATE_PACK) {
        gitproof_fail(x->gate->proof, why);
        return ERR_INCOMPLETE;
    }
    gate_unreadable(x, "push-malformed", why);
    return ERR_DENIED;
}

static int gate_inflate(struct xchg *x, struct slice bytes) {
    struct gitgate *gate = x->gate;
    int r = ERR_INCOMPLETE;
    bool stuck = false;
    while (r == ERR_INCOMPLETE && !stuck) {
        size_t used;
        buf_clear(&gate->plain);
        int g = gunzip_feed(&gate->gunzip, bytes, &used, &gate->plain, GATE_INFLATE);
        bytes = slice_from(bytes, used);
        if (g && g != ERR_EOF)
            return gate_bad_gzip(x, g);
        size_t came = buf_len(&gate->plain);
        r = gate_take(x, buf_slice(&gate->plain));
        stuck = g == ERR_EOF || (bytes.n == 0 && came < GATE_INFLATE);
        if (r == ERR_INCOMPLETE && g == ERR_EOF && gate->phase == GATE_PACK && bytes.n)
            gitproof_fail(gate->proof, "there are bytes behind the gzip body");
    }
    return r;
}

/* `bytes` of the body as received have been read. Those that could complete the push at the server are kept here. */
static void gate_pass_on(struct xchg *x, struct slice bytes) {
    struct gitgate *gate = x->gate;
    bool wait = gitproof_at_end(gate->proof) || buf_len(&gate->tail);
    if (gitproof_failed(gate->proof)) {
        gate_decide(x);
    } else if (x->state == XCHG_SECTION) {
        if (wait || buf_len(&gate->held) < GATE_EARLY)
            return;
        x->client->want_body(x, false);
        xchg_go(x);
    } else if (!wait) {
        xchg_send_body(x, bytes);
    } else if (buf_put(&gate->tail, bytes)) {
        gitproof_fail(gate->proof, "there are bytes behind it");
        gate_decide(x);
    }
}

void gitgate_feed(struct xchg *x, struct slice bytes) {
    struct gitgate *gate = x->gate;
    if (gate->phase == GATE_REFUSED) {
        gate->thrown += bytes.n;
        if (gate->thrown > GATE_DRAIN)
            gate_answer(x);
        return;
    }
    if (x->state == XCHG_SECTION && buf_put(&gate->held, bytes)) {
        gate_unreadable(x, "push-too-long", "the command list is too long");
        return;
    }
    int r = gate->gzip ? gate_inflate(x, bytes) : gate_take(x, bytes);
    if (r == ERR_INCOMPLETE && gate->phase == GATE_PACK) {
        gate_pass_on(x, bytes);
    } else if (r == 0) {
        x->client->want_body(x, false);
        xchg_go(x);
    }
}

void gitgate_body_end(struct xchg *x) {
    switch (x->gate->phase) {
    case GATE_LIST: gate_unreadable(x, "push-malformed", "the body ended before the command list did"); break;
    case GATE_PACK: gate_decide(x); break;
    case GATE_REFUSED: gate_answer(x); break;
    case GATE_PASSED: break;
    }
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
    buf_init(&gate->tail, GATE_TAIL_MAX);
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
