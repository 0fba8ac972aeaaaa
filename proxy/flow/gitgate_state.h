/*
 * What the files of the gate for pushes share (gitgate.h): what it knows of one push, and the way from one file to the
 * next. gitgate.c reads, gitgate_judge.c turns what was read into facts and asks the policy, gitgate_ask.c has fast-forwards
 * proved and gitgate_look.c finds out what is brought, gitgate_spot.c has secrets looked for, gitgate_refuse.c says no,
 * gitgate_answer.c reads what the server says.
 */
#ifndef PROXY_FLOW_GITGATE_STATE_H
#define PROXY_FLOW_GITGATE_STATE_H

#include "policy/facts.h"
#include "proxy/codec/git.h"
#include "proxy/codec/gunzip.h"
#include "proxy/flow/gitproof.h"
#include "proxy/record/record.h"
#include "proxy/flow/spot.h"

struct gate_answer;
struct gitask;
struct xchg;

#define GATE_GUNZIP_MAX (1u << 30) /* what a pack in a gzip body may inflate to */

/*
 *     GATE_LIST --> GATE_PACK --> GATE_ASK --> GATE_PASSED
 *         |             +-------------------------^
 *         +---------------------------------------^
 *
 * gitgate_enter() is the one writer. A refusal ends the exchange in whatever phase.
 */
enum gate_phase {
    GATE_LIST, /* the command list is being read */
    GATE_PACK, /* the verdict hangs on what the pack proves, which is being read: up to GATE_EARLY bytes of the body
                   * are held, then it goes upstream as it comes, but for its end */
    GATE_ASK,    /* it has been read, and the server is asked for what it leaves open (gitask.h) */
    GATE_PASSED, /* permitted: nothing more is read here */
    GATE_PHASES
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
    struct slice *options;     /* push options */
    struct buf record_options; /* … as the record has them */
    bool *wants;               /* refs whose update is permitted only as a fast-forward */
    size_t nrefs, nwants;
    struct gitproof *proof;
    struct gitask *ask;            /* NULL: the server was not asked */
    size_t asking;                 /* about this ref alone; SIZE_MAX: about all at once */
    bool asked_all;                /* … which was done */
    bool asked_bases;              /* what deltas of the pack are made of has been asked for */
    struct gate_answer *answer;    /* what the server said so far; NULL: nothing */
    unsigned needs;                /* POLICY_PACK_…: what the verdict hangs on beside proofs */
    uint64_t most_size, most_blob; /* beyond them no rule permits it; 0: there is no such limit */
    struct gate_look *look;        /* what the push brings; NULL: not looked at (yet) */
    bool looked;
    bool watches; /* it is looked through for secrets of the vault's */
    bool unsaid;  /* … and one is in the names of its refs, or in its options: they are not recorded */
    bool waits;   /* … and the keeper's word on what was found is waited for */
    struct spot spot;
};

/* ---- gitgate_spot.c ---- */

/* The vault has secrets that could be recognised: what the command list says is looked through for them, and from here on
 * the pack is. */
void gitgate_watch(struct xchg *x);

/* More of the pack has been looked through. */
void gitgate_spot(struct xchg *x);

/* Is it known that no secret is in the push? False: it is refused, or gitgate_conclude will be called again. */
bool gitgate_clean(struct xchg *x);

/* ---- gitgate_judge.c ---- */

/* Judges by the command list. 0: permitted whatever the pack holds. ERR_INCOMPLETE: if the pack proves what is wanted.
 * ERR_DENIED: refused, the exchange may be over. */
int gitgate_judge(struct xchg *x);

/* Gives each ref whose proof is wanted, or (`again`) is still open, the operation that is proved by what is known now; `by` (a
 * literal) is for the record. Returns how many of them are no fast-forwards, or not proved. */
size_t gitgate_prove(struct gitgate *gate, bool again, const char *by);

/* Has the pack been read to its end, if there is one? */
bool gitgate_whole(const struct gitgate *gate);

/* Is it too large already for every rule? */
bool gitgate_exceeds(const struct gitgate *gate);

/* What is known of the pack by now, as facts; what is not known is not taken to come out well any more. True: it is too
 * large already for every rule, so that it is refused whatever else it brings. */
bool gitgate_measure(struct xchg *x);

/* Has all been proved that was wanted? */
bool gitgate_proved(const struct gitgate *gate);

/* Is one that had to be proved a fast-forward known to be none? Then all are refused. */
bool gitgate_forced(const struct gitgate *gate);

/* ---- gitgate_ask.c ---- */

/* Asks the server for what the pack leaves open. True: gitgate_conclude will be called; the phase is GATE_ASK. False:
 * there is nothing to ask, or it can't be (then gitask_failed says why, if there is an `ask`). */
bool gitgate_ask(struct xchg *x);

/* ---- gitgate_look.c ---- */

/* Finds out what each ref is brought, for x->facts, asking the server where the pack leaves it open. True: it goes on,
 * gitgate_conclude will be called; the phase is GATE_ASK. False: done; what could not be found out is not known then, and
 * facts.unknown says why. */
bool gitgate_look(struct xchg *x);
void gitgate_look_free(struct gate_look *look); /* NULL is fine */

/* ---- gitgate.c ---- */

void gitgate_enter(struct xchg *x, enum gate_phase phase);

/* All that can be known is known: passes the push on, or refuses it. The exchange may be over when it returns. */
void gitgate_conclude(struct xchg *x);

/* ---- gitgate_refuse.c: the exchange is over when they return ---- */

/* Refuses the push by the policy: x->verdict. `note` (may be empty) is said besides. */
void gitgate_refuse(struct xchg *x, struct slice note);

/* … because it can't be read. */
void gitgate_unreadable(struct xchg *x, const char *code, const char *error);

/* … because of what had to be proved, or was found out; the upstream's connection is cut. */
void gitgate_refuse_unproved(struct xchg *x);

/* … because the rule that permits it lends another credential than it was begun with. */
void gitgate_refuse_changed(struct xchg *x);

/* … because a secret of the vault's is in it, or it can't be told whether one is. */
void gitgate_refuse_secret(struct xchg *x);

/* The push is permitted. True: the rule's limit is used up, so it is refused. */
bool gitgate_limited(struct xchg *x);

/* ---- gitgate_answer.c ---- */

void gate_answer_free(struct gate_answer *answer);

#endif
