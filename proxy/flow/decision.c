#include "proxy/flow/decision.h"

#include <assert.h>

#include "base/clock.h"
#include "proxy/record/recorder.h"
#include "proxy/flow/state.h"
#include "proxy/record/why.h"

static void decision_enter(struct decision *d, enum decision_state state) {
    static const uint8_t legal[DECISION_STATES] = {
        [DECISION_OPEN] = 1 << DECISION_TOLD,
        [DECISION_TOLD] = 1 << DECISION_OVER,
    };
    assert(legal[d->state] & 1 << state);
    d->state = state;
}

void decision_begin(struct decision *d) {
    *d = (struct decision){.id = ulid_new(), .began = clock_monotonic_ms()};
}

static void decision_fill(struct box *box, const struct decision *d, struct record *r,
                          enum record_event event) {
    r->event = event;
    r->id = d->id;
    r->time_ms = clock_wall_ms();
    r->sandbox = box_name(box);
}

void decision_verdict(struct box *box, struct decision *d, struct record *r, struct slice hint) {
    if (d->state != DECISION_OPEN)
        return;
    decision_enter(d, DECISION_TOLD);
    decision_fill(box, d, r, RECORD_VERDICT);
    struct slice encoded = recorder_send(box->engine->config.recorder, r);
    why_verdict(box->why, r, encoded, hint, d->asked);
}

void decision_errand(struct box *box, struct decision *d, struct record *r) {
    decision_fill(box, d, r, RECORD_ERRAND);
    struct slice encoded = recorder_send(box->engine->config.recorder, r);
    why_errand(box->why, r, encoded, !d->asked);
    d->asked = true;
}

void decision_outcome(struct box *box, struct decision *d, struct record *r) {
    if (d->state != DECISION_TOLD)
        return;
    decision_enter(d, DECISION_OVER);
    decision_fill(box, d, r, RECORD_OUTCOME);
    r->has |= RECORD_HAS_DURATION;
    r->duration_ms = clock_monotonic_ms() - d->began;
    struct slice encoded = recorder_send(box->engine->config.recorder, r);
    why_outcome(box->why, r, encoded);
}
