/*
 * The gate for requests to a forge's API: where the verdict hangs on what only the forge knows (the default branch, the
 * base of a pull request, the project behind a number), it is asked, by errands (errand.h), and judged again.
 *
 *     doorgate_begin (XCHG_SECTION) - a question, an answer … - xchg_decide, which finds nothing more to ask
 *
 * A question is asked once. What is not told (no answer, another status than 200, more than DOORGATE_ANSWER_MAX) stays
 * unknown, and then only rules about everything permit the request. Between answer and request the forge may change
 * what it answered; exeat sees to it that the sandbox itself can't (policy/forge.h: to give a pull request another base
 * is judged as a write to that).
 */
#ifndef PROXY_FLOW_DOORGATE_H
#define PROXY_FLOW_DOORGATE_H

#include "proxy/record/record.h"

#define DOORGATE_QUESTIONS  6
#define DOORGATE_ANSWER_MAX (1u << 20)
#define DOORGATE_MS         10000

struct doorgate;
struct xchg;

/* The policy denies the request. True: that may change, and a question is under way; xchg_decide follows. */
bool doorgate_begin(struct xchg *x);

/* The policy permits the request: lets it go on, if there is no limit in the way, and if it is not a write that brings a secret
 * of the vault's in its body (spot.h). */
void doorgate_permit(struct xchg *x);

#define DOORGATE_REFS 16 /* that a record tells of */

struct door_record {
    struct record_ref refs[DOORGATE_REFS];
    struct buf names;
};

/* Fills in the record's part about refs, if the request writes some through a forge's API. What it points to is in
 * `memory`, which doorgate_record_release gives back. */
void doorgate_record(const struct xchg *x, struct record *r, struct door_record *memory);
void doorgate_record_release(struct door_record *memory);

/* NULL is fine. */
void doorgate_free(struct doorgate *gate);

#endif
