/*
 * Refusing a push so that git says which ref, why, and what would be permitted.
 */
#include "base/clock.h"
#include "proxy/flow/gitask.h"
#include "proxy/flow/gitgate_state.h"
#include "proxy/flow/refusal.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"

#define GATE_DRAIN      (8ull << 30) /* bytes of a refused push that are read and thrown away */
#define GATE_REPORT_MAX (12u << 20)  /* bytes of a refusal: a line for each of GIT_COMMANDS_MAX refs */

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
 * So the connection is kept, and the rest of the body is read and thrown away by the transport.
 */
void gitgate_refuse(struct xchg *x, const char *code, struct slice reason) {
    struct gitgate *gate = x->gate;
    struct http_field field = {.name = SLICE("Cache-Control"), .value = SLICE("no-cache")};
    struct buf report, message;
    buf_init(&report, GATE_REPORT_MAX);
    buf_init(&message, 65536);
    xchg_record(x, true, code, reason);
    gate_message(x, reason, &message);
    int r = git_report_refusal(&report, &gate->push, gate->bad ? gate_reason_bad : gate_reason, x,
                               buf_slice(&message));
    if (r == 0) {
        x->status = 200;
        x->drain = GATE_DRAIN;
        r = x->client->own(x, 200, SLICE(GIT_PUSH_RESULT), buf_slice(&report), &field, 1);
    }
    buf_release(&message);
    buf_release(&report);
    xchg_end(x, r == 0);
}

void gitgate_unreadable(struct xchg *x, const char *code, const char *why) {
    char reason[ERRMSG_MAX];
    snprintf(reason, sizeof reason, "%s", why);
    x->gate->bad = true;
    gitgate_refuse(x, code, slice_str(reason));
}

/* The server has a pack without an end, which it throws away. */
static void gate_cut(struct xchg *x) {
    if (x->link)
        upstream_release(x->link, false, 0);
    x->link = NULL;
    x->up_keep = false;
}

bool gitgate_limited(struct xchg *x) {
    const struct verdict *v = &x->verdict;
    struct buf reason;
    unsigned wait_s;
    if (v->limit == 0 ||
        limits_take(x->box->limits, v->limit_id, v->limit, v->limit_seconds, clock_monotonic_ms(), &wait_s))
        return false;
    buf_init(&reason, 8192);
    refusal_limit_text(x, wait_s, &reason);
    gate_cut(x);
    gitgate_refuse(x, "limit", buf_slice(&reason));
    buf_release(&reason);
    return true;
}

void gitgate_refuse_unproved(struct xchg *x) {
    struct buf reason;
    char why[ERRMSG_MAX] = "";
    const char *failed = gitproof_failed(x->gate->proof);
    const char *unasked = x->gate->ask ? gitask_failed(x->gate->ask) : NULL;
    if (failed)
        snprintf(why, sizeof why, "; the pack can't be looked through: %.900s", failed);
    else if (unasked)
        snprintf(why, sizeof why, "; the server was asked in vain: %.900s", unasked);
    buf_init(&reason, 16384);
    policy_judge(x->box->policy, &x->facts, &x->verdict);
    refusal_policy_text(x, 8, &reason);
    buf_puts(&reason, why);
    gate_cut(x);
    gitgate_refuse(x, NULL, buf_slice(&reason));
    buf_release(&reason);
}
