#include "proxy/flow/bodygate.h"

#include "proxy/codec/lfs.h"
#include "proxy/flow/lfsgate.h"
#include "proxy/flow/refusal.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"

static void gate_judge(struct xchg *x, enum facts_body state) {
    x->client->want_body(x, false);
    x->facts.body_state = state;
    x->facts.body = state == FACTS_BODY_WHOLE ? buf_slice(&x->held) : SLICE_NONE;
    x->holding = false;
    xchg_decide(x);
}

bool bodygate_begin(struct xchg *x) {
    if (x->body_done)
        return false;
    size_t most = policy_needs_body(x->box->policy, &x->facts);
    if (lfsgate_is_batch(x) && most < LFS_REQUEST_MAX)
        most = LFS_REQUEST_MAX;
    if (most == 0)
        return false;
    if (x->req.framing == HTTP_BODY_LENGTH && x->req.length > most) {
        x->facts.body_state = FACTS_BODY_OVER;
        return false;
    }
    x->holding = true;
    bodygate_ask(x, most);
    return true;
}

void bodygate_ask(struct xchg *x, size_t most) {
    buf_init(&x->held, most + IO_SCRATCH);
    x->held_most = most;
    xchg_enter(x, XCHG_SECTION);
    if (x->req.expect_continue) {
        x->proceed_said = true;
        x->client->proceed(x);
    }
    if (x->state == XCHG_SECTION)
        x->client->want_body(x, true);
}

bool bodygate_keep(struct xchg *x, struct slice bytes) {
    if (x->box->held + bytes.n > BODYGATE_BOX_MAX) {
        refusal_other(x, "bodies-held", SLICE("this sandbox has too many bodies waiting to be judged"));
        return false;
    }
    x->box->held += bytes.n;
    x->held_counted += bytes.n;
    if (buf_put(&x->held, bytes) == 0)
        return true;
    refusal_trouble(x, 503, "no-memory", "out of memory");
    return false;
}

void bodygate_feed(struct xchg *x, struct slice bytes) {
    if (bodygate_keep(x, bytes) && buf_len(&x->held) > x->held_most)
        gate_judge(x, FACTS_BODY_OVER);
}

void bodygate_release(struct xchg *x) {
    x->box->held -= x->held_counted;
    x->held_counted = 0;
    x->facts.body = SLICE_NONE;
    buf_release(&x->held);
}

void bodygate_body_end(struct xchg *x) {
    gate_judge(x, FACTS_BODY_WHOLE);
}
