/*
 * Refusing a push so that git says which ref, why, and what would be permitted.
 */
#include "proxy/flow/gitask.h"
#include "proxy/flow/gitgate.h"
#include "proxy/flow/gitgate_state.h"
#include "proxy/flow/refusal.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"

#define GATE_DRAIN (8ull << 30) /* bytes of a refused push that are read and thrown away */
#define GATE_SAID  4            /* refs, and rules that would permit them, in the message */
#define GATE_REASON_MAX                                                                                      \
    440 /* bytes of a ref's reason, so that with the id it is no longer than git_report_refusal takes */
#define GATE_REPORT_MAX (12u << 20) /* bytes of a refusal: a line for each of GIT_COMMANDS_MAX refs */

/* Why a push is refused. */
struct gate_why {
    struct xchg *x;
    const char *word; /* "refused", "failed" */
    /* of the whole push, where the refs by themselves were permitted; empty: look at the refs */
    struct slice reason;
    struct slice note; /* what else is to be known */
};

/* ---- a line for each ref ---- */

static void gate_explain(struct xchg *x, const struct verdict *v, struct buf *out) {
    policy_explain_ref(x->box->policy, &x->facts, v, out);
    refusal_remark(v, out);
}

static struct slice gate_reason(size_t i, void *arg) {
    const struct gate_why *why = arg;
    struct xchg *x = why->x;
    struct buf *text = &x->gate->text;
    struct verdict v;
    buf_clear(text);
    buf_puts(text, "exeat: ");
    if (why->reason.n) {
        buf_put(text, slice_sub(why->reason, 0, GATE_REASON_MAX));
    } else {
        policy_judge_ref(x->box->policy, &x->facts, i, &v);
        if (v.action == VERDICT_ALLOW)
            buf_puts(text, "refused with the rest of this push");
        else
            gate_explain(x, &v, text);
    }
    if (buf_len(text) > GATE_REASON_MAX) { /* what is cut off must not be the id */
        text->end = text->start + GATE_REASON_MAX;
        buf_puts(text, "…");
    }
    buf_printf(text, " [%s]", x->decision.id.text);
    return buf_slice(text);
}

/* ---- the message ---- */

/* The refs that are refused, with their reasons; git lists all of them once more. */
static void message_refs(const struct gate_why *why, struct buf *out) {
    struct xchg *x = why->x;
    size_t bad = 0;
    for (size_t i = 0; i < x->gate->nrefs; i++) {
        struct verdict v;
        policy_judge_ref(x->box->policy, &x->facts, i, &v);
        if (v.action == VERDICT_ALLOW || ++bad > GATE_SAID)
            continue;
        buf_clear(&x->gate->text);
        gate_explain(x, &v, &x->gate->text);
        buf_printf(out, "exeat: push %s: %.*s: %.*s\n", why->word, SLICE_ARG(x->gate->refs[i].name),
                   SLICE_ARG(buf_slice(&x->gate->text)));
    }
    if (bad > GATE_SAID)
        buf_printf(out, "exeat: push %s: and %zu more refs\n", why->word, bad - GATE_SAID);
}

static void message_hints(struct xchg *x, struct buf *out) {
    struct slice rest = refusal_hint(x), line;
    for (size_t n = 0; rest.n; n++) {
        slice_cut(rest, '\n', &line, &rest);
        if (n == GATE_SAID) {
            buf_puts(out, "exeat:            and so on\n");
            return;
        }
        buf_printf(out, "exeat: %s %.*s\n", n ? "          " : "to permit:", SLICE_ARG(line));
    }
}

static void gate_message(const struct gate_why *why, struct buf *out) {
    struct xchg *x = why->x;
    if (why->reason.n)
        buf_printf(out, "exeat: push %s: %.*s\n", why->word, SLICE_ARG(why->reason));
    else
        message_refs(why, out);
    if (why->note.n)
        buf_printf(out, "exeat: %.*s\n", SLICE_ARG(why->note));
    if (!why->reason.n)
        message_hints(x, out);
    buf_printf(out, "exeat: sandbox %s, decision %s\n", x->box->name, x->decision.id.text);
}

/* ---- saying it ---- */

/*
 * Status 200 and git's own report, at once: git shows the message while it is still sending, and who reads early (HTTP of
 * Go) stops sending. git itself sends all of its pack in any case. What was tried to have it stop, with git 2.39 and 2.55
 * and a pack of 60 MB, which this answer lets it send to this host and no further:
 *
 *   "Connection: close"        libcurl stops, and git sends the rest as further pushes, 43 of them with 56 MB
 *   … and then a reset         the same, and git doesn't show the refs any more
 *   … and then empty answers   git stops after 2 MB, no sooner in time, and says "Everything up-to-date"
 *   status 403                 git stops after 65 kB, shows no reason, and says "Everything up-to-date"
 *
 * Over HTTP/2, where the stream's window is opened no more and END_STREAM comes with the answer, what was sent and what
 * of the reason and of the line "[remote rejected]" for each ref was shown:
 *
 *                                     libcurl 7.88                     libcurl 8.14
 *   RST_STREAM(NO_ERROR) at once      72 kB, neither, "RPC failed"     6.6 MB in further pushes, the reason
 *   … 0.3 s later                     72 kB, the reason, "RPC failed"  3.9 MB in further pushes, the reason
 *   … with GOAWAY behind the answer   73 kB, the reason, "RPC failed"  4.1 MB in further pushes, the reason
 *   … with GOAWAY before the answer   4.3 MB in 60 further pushes, the reason (either)
 *   nothing                           72 kB, the reason; git stands still (either)
 *   the window opened for all of it   60 MB, both                      58 MB, the reason, "RPC failed"
 *
 * So long pushes come over HTTP/1.1 (xchg_judge.c), the connection is kept, and the rest of the body is read and thrown
 * away by the transport.
 */
static void gate_say(struct gate_why *why) {
    struct xchg *x = why->x;
    struct http_field field = {.name = SLICE("Cache-Control"), .value = SLICE("no-cache")};
    struct buf report, message;
    buf_init(&report, GATE_REPORT_MAX);
    buf_init(&message, 65536);
    gate_message(why, &message);
    int r = git_report_refusal(&report, &x->gate->push, gate_reason, why, buf_slice(&message));
    if (r == 0) {
        x->status = 200;
        x->drain = GATE_DRAIN;
        r = x->client->own(x, 200, SLICE(GIT_PUSH_RESULT), buf_slice(&report), &field, 1);
    }
    buf_release(&message);
    buf_release(&report);
    xchg_end(x, r == 0);
}

/* Is there a ref that is refused for a reason of its own? */
static bool gate_offends(struct xchg *x) {
    for (size_t i = 0; i < x->gate->nrefs; i++) {
        struct verdict v;
        policy_judge_ref(x->box->policy, &x->facts, i, &v);
        if (v.action != VERDICT_ALLOW)
            return true;
    }
    return false;
}

void gitgate_refuse(struct xchg *x, struct slice note) {
    struct buf reason;
    buf_init(&reason, 16384);
    refusal_policy_text(x, 8, &reason);
    struct gate_why why = {
        .x = x, .word = "refused", .reason = gate_offends(x) ? SLICE_NONE : buf_slice(&reason), .note = note};
    struct buf recorded;
    buf_init(&recorded, 16384);
    buf_printf(&recorded, "%.*s%s%.*s", SLICE_ARG(buf_slice(&reason)), note.n ? "; " : "", SLICE_ARG(note));
    xchg_record(x, true, NULL, buf_slice(&recorded));
    gate_say(&why);
    buf_release(&recorded);
    buf_release(&reason);
}

void gitgate_unreadable(struct xchg *x, const char *code, const char *error) {
    char reason[ERRMSG_MAX];
    snprintf(reason, sizeof reason, "%s", error);
    struct gate_why why = {.x = x, .word = "refused", .reason = slice_str(reason)};
    xchg_record(x, true, code, why.reason);
    gate_say(&why);
}

bool gitgate_says(struct xchg *x, const char *word, struct slice reason) {
    struct gate_why why = {.x = x, .word = word, .reason = reason};
    if (!x->gate || x->gate->phase == GATE_LIST)
        return false;
    gate_say(&why);
    return true;
}

bool gitgate_limited(struct xchg *x) {
    struct buf reason;
    unsigned wait_s;
    if (box_takes(x->box, &x->verdict, &wait_s))
        return false;
    buf_init(&reason, 8192);
    refusal_limit_text(x, wait_s, &reason);
    xchg_cut(x);
    xchg_record(x, true, "limit", buf_slice(&reason));
    struct gate_why why = {.x = x, .word = "refused", .reason = buf_slice(&reason)};
    gate_say(&why);
    buf_release(&reason);
    return true;
}

void gitgate_refuse_changed(struct xchg *x) {
    struct gate_why why = {
        .x = x,
        .word = "refused",
        .reason = SLICE("what this push brings is permitted with another credential than it was begun with: "
                        "push less at once"),
    };
    xchg_cut(x);
    xchg_record(x, true, "mixed-credentials", why.reason);
    gate_say(&why);
}

void gitgate_refuse_secret(struct xchg *x) {
    struct gitgate *gate = x->gate;
    const char *failed = gate->spot.state == SPOT_CLEAR ? gitproof_failed(gate->proof) : NULL;
    struct buf reason, note;
    buf_init(&reason, 4096);
    buf_init(&note, 4096);
    if (failed)
        buf_printf(&reason, "it can't be looked through for secrets of the vault: %.900s", failed);
    else
        spot_reason(&gate->spot, &reason);
    spot_hint(&gate->spot, &note);
    struct gate_why why = {.x = x, .word = "refused", .reason = buf_slice(&reason), .note = buf_slice(&note)};
    gate->unsaid = gate->spot.state == SPOT_FOUND && spot_in_what(&gate->spot);
    xchg_cut(x);
    xchg_record(x, true, gate->spot.state == SPOT_FOUND ? "secret" : "secret-unknown", why.reason);
    gate_say(&why);
    buf_release(&reason);
    buf_release(&note);
}

/* Once one ref is known to be forced, no more is asked about the others: they are refused with the rest of the push, not for a
 * reason of their own. The record goes on to say that nothing was proved of them. */
static void gate_blame_forced(struct gitgate *gate) {
    if (!gitgate_forced(gate))
        return;
    for (size_t i = 0; i < gate->nrefs; i++)
        if (gate->wants[i] && gate->refs[i].unproved) {
            gate->refs[i].op = FACTS_UPDATE;
            gate->refs[i].unproved = false;
        }
}

void gitgate_refuse_unproved(struct xchg *x) {
    char note[ERRMSG_MAX] = "";
    const char *failed = gitproof_failed(x->gate->proof);
    const char *unasked = x->gate->ask ? gitask_failed(x->gate->ask) : NULL;
    if (failed)
        snprintf(note, sizeof note, "the pack can't be looked through: %.900s", failed);
    else if (unasked && !x->facts.unknown)
        snprintf(note, sizeof note, "the server was asked in vain: %.900s", unasked);
    gate_blame_forced(x->gate);
    policy_judge(x->box->policy, &x->facts, &x->verdict);
    xchg_cut(x);
    gitgate_refuse(x, slice_str(note));
}
