/*
 * Decisions on their way to the record, and the last of them for `exeat.internal/why/ID`.
 *
 * A decision has one id (a ULID) from the moment when a request, or a connection without one, was read. The verdict is
 * handed over once, the outcome once after it; both functions see to "once" themselves.
 */
#ifndef PROXY_FLOW_DECISION_H
#define PROXY_FLOW_DECISION_H

#include "base/buf.h"
#include "base/ulid.h"
#include "proxy/flow/record.h"

struct box;

#define WHY_RECENT 256 /* decisions of a sandbox that can be asked for */

/* One decision as it is remembered: the record's message, and the hint. */
struct why_entry {
    struct ulid id;
    struct buf record; /* record_encode's bytes of the verdict */
    struct buf hint;
    struct buf outcome; /* the same of the outcome; empty: the answer has not ended */
};

struct why {
    struct why_entry *ring; /* WHY_RECENT of them, NULL until the first */
    size_t next;
};

void why_release(struct why *why);
const struct why_entry *why_find(const struct why *why, const struct ulid *id);

struct decision {
    struct ulid id;
    uint64_t began; /* monotonic ms */
    bool verdict_sent, outcome_sent;
};

void decision_begin(struct decision *d);

/* `r` holds what the caller knows; event, id, time and sandbox are filled in here. `hint` (may be empty) is kept for
 * /why. The second call for one decision does nothing. */
void decision_verdict(struct box *box, struct decision *d, struct record *r, struct slice hint);
/* Likewise; duration is filled in. Does nothing before the verdict. */
void decision_outcome(struct box *box, struct decision *d, struct record *r);

#endif
