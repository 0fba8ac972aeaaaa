#include "proxy/flow/doorgate.h"

#include <stdlib.h>

#include "proxy/flow/errand.h"
#include "proxy/flow/refusal.h"
#include "proxy/flow/spot.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"

#define QUESTION_MAX (64u << 10)

struct doorgate {
    struct facts_answer answers[DOORGATE_QUESTIONS];
    struct buf targets[DOORGATE_QUESTIONS], bodies[DOORGATE_QUESTIONS], texts[DOORGATE_QUESTIONS];
    size_t n; /* asked */
    struct errand *errand;
    struct spot spot;
};

void doorgate_free(struct doorgate *gate) {
    if (!gate)
        return;
    errand_cancel(gate->errand);
    spot_end(&gate->spot);
    for (size_t i = 0; i < DOORGATE_QUESTIONS; i++) {
        buf_release(&gate->targets[i]);
        buf_release(&gate->bodies[i]);
        buf_release(&gate->texts[i]);
    }
    free(gate);
}

static struct doorgate *gate_of(struct xchg *x) {
    if (x->door)
        return x->door;
    struct doorgate *gate = calloc(1, sizeof *gate);
    for (size_t i = 0; gate && i < DOORGATE_QUESTIONS; i++) {
        buf_init(&gate->targets[i], QUESTION_MAX);
        buf_init(&gate->bodies[i], QUESTION_MAX);
        buf_init(&gate->texts[i], DOORGATE_ANSWER_MAX);
    }
    x->door = gate;
    return gate;
}

static void answered(void *arg, const struct errand_answer *answer) {
    struct xchg *x = arg;
    struct doorgate *gate = x->door;
    size_t i = gate->n - 1;
    gate->errand = NULL;
    if (answer->err == 0 && answer->status == 200)
        buf_put(&gate->texts[i], answer->body);
    gate->answers[i] = (struct facts_answer){.target = buf_slice(&gate->targets[i]),
                                             .body = buf_slice(&gate->bodies[i]),
                                             .answer = buf_slice(&gate->texts[i])};
    x->facts.answers = gate->answers;
    x->facts.nanswers = gate->n;
    xchg_decide(x);
}

void doorgate_record(const struct xchg *x, struct record *r, struct door_record *memory) {
    struct facts_ref refs[DOORGATE_REFS];
    buf_init(&memory->names, 1 << 16);
    if (!x->judged || x->facts.kind != FACTS_HTTP || x->facts.body_state != FACTS_BODY_WHOLE)
        return;
    size_t n = policy_writes(x->box->policy, &x->facts, refs, DOORGATE_REFS, &memory->names);
    for (size_t i = 0; i < n; i++)
        memory->refs[i] = (struct record_ref){
            .ref = refs[i].name.n ? refs[i].name : SLICE(RECORD_REF_UNKNOWN),
            .op = slice_str(facts_op_name(refs[i].op)),
        };
    if (n) {
        r->refs = memory->refs;
        r->nrefs = n;
    }
}

void doorgate_record_release(struct door_record *memory) {
    buf_release(&memory->names);
}

static const struct errand_events door_events = {.over = answered};

bool doorgate_begin(struct xchg *x) {
    struct verdict permitted;
    struct doorgate *gate;
    if (x->facts.body_state != FACTS_BODY_WHOLE || !(gate = gate_of(x)) || gate->n == DOORGATE_QUESTIONS)
        return false;
    struct buf *target = &gate->targets[gate->n], *body = &gate->bodies[gate->n];
    if (!policy_question(x->box->policy, &x->facts, &permitted, target, body))
        return false;
    struct http_field fields[] = {{.name = SLICE("Accept"), .value = SLICE("application/json")},
                                  {.name = SLICE("Content-Type"), .value = SLICE("application/json")}};
    struct errand_ask ask = {.method = buf_len(body) ? SLICE("POST") : SLICE("GET"),
                             .target = buf_slice(target),
                             .fields = fields,
                             .nfields = buf_len(body) ? 2 : 1,
                             .body = buf_slice(body),
                             .purpose = "to learn which ref a request writes",
                             .ms = DOORGATE_MS,
                             .answer_max = DOORGATE_ANSWER_MAX};
    struct verdict denied = x->verdict;
    x->verdict = permitted; /* by the rules about HTTP, whose credential the errand takes */
    gate->errand = errand_start(x, &ask, &door_events, x);
    if (!gate->errand) {
        x->verdict = denied;
        return false;
    }
    gate->n++;
    if (x->state == XCHG_JUDGE)
        xchg_enter(x, XCHG_SECTION);
    return true;
}

/* ---- secrets ---- */

static void door_clear(struct xchg *x) {
    if (!xchg_limited(x))
        xchg_go(x);
}

static void door_told(void *arg) {
    struct xchg *x = arg;
    if (x->door->spot.state == SPOT_CLEAR)
        door_clear(x);
    else
        refusal_secret(x, &x->door->spot);
}

void doorgate_permit(struct xchg *x) {
    struct slice body = x->facts.body_state == FACTS_BODY_WHOLE ? x->facts.body : SLICE_NONE;
    if (x->verdict.push.index == 0 || body.n == 0 || !x->box->engine->watched) {
        door_clear(x);
        return;
    }
    struct doorgate *gate = gate_of(x);
    if (!gate) {
        refusal_trouble(x, 503, "no-memory", "out of memory");
        return;
    }
    if (spot_begin(&gate->spot, "the request's body", x->box, door_told, x) == 0)
        spot_whole(&gate->spot, body);
    switch (spot_ask(&gate->spot)) {
    case SPOT_CLEAR: door_clear(x); break;
    case SPOT_OPEN: break;
    case SPOT_FOUND:
    case SPOT_FAILED:
    case SPOT_STATES: refusal_secret(x, &gate->spot); break;
    }
}
