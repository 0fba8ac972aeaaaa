/*
 * Decisions on their way to the record, and to the memory of the last ones (why.h).
 *
 * A decision has one id (a ULID) from the moment when a request, or a connection without one, was read. The verdict is
 * handed over once, the outcome once after it:
 *
 *     DECISION_OPEN --> DECISION_TOLD --> DECISION_OVER
 *
 * decision_enter() is the one writer; who comes a second time, or for the outcome before the verdict, is not heard.
 */
#ifndef PROXY_FLOW_DECISION_H
#define PROXY_FLOW_DECISION_H

#include "base/slice.h"
#include "base/ulid.h"
#include "proxy/record/record.h"

struct box;

enum decision_state {
    DECISION_OPEN, /* errands may be recorded, here and in TOLD */
    DECISION_TOLD, /* the verdict is recorded */
    DECISION_OVER, /* the outcome is, too */
    DECISION_STATES
};

struct decision {
    struct ulid id;
    uint64_t began; /* monotonic ms */
    enum decision_state state;
    bool asked; /* errands went out for it */
};

void decision_begin(struct decision *d);

/* `r` holds what the caller knows; event, id, time and sandbox are filled in here. `hint` (may be empty) is kept for
 * /why. The second call for one decision does nothing. */
void decision_verdict(struct box *box, struct decision *d, struct record *r, struct slice hint);
/* Likewise; duration is filled in. Does nothing before the verdict. */
void decision_outcome(struct box *box, struct decision *d, struct record *r);
/* A request of exeat's own goes out for its sake (errand.h): event, id, time and sandbox are filled in. */
void decision_errand(struct box *box, struct decision *d, struct record *r);

#endif
