/*
 * What the files of the gate for pushes share (gitgate.h): what it knows of one push, and the way from one file to the
 * next. gitgate.c reads, gitgate_judge.c turns what was read into facts and asks the policy, gitgate_refuse.c says no.
 */
#ifndef PROXY_FLOW_GITGATE_STATE_H
#define PROXY_FLOW_GITGATE_STATE_H

#include "policy/facts.h"
#include "proxy/codec/git.h"
#include "proxy/codec/gunzip.h"
#include "proxy/flow/gitproof.h"
#include "proxy/flow/record.h"

struct xchg;

#define GATE_GUNZIP_MAX (1u << 30) /* what a pack in a gzip body may inflate to */

enum gate_phase {
    GATE_LIST, /* the command list is being read */
    GATE_PACK, /* the verdict hangs on what the pack proves, which is being read: up to GATE_EARLY bytes of the body
                   * are held, then it goes upstream as it comes, but for its end */
    GATE_PASSED, /* permitted: nothing more is read here */
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
};

/* ---- gitgate_judge.c ---- */

/* Judges by the command list. 0: permitted whatever the pack holds. ERR_INCOMPLETE: if the pack proves what is wanted.
 * ERR_DENIED: refused, the exchange may be over. */
int gitgate_judge(struct xchg *x);

/* Gives each ref the operation that was proved. Returns how many wanted proofs failed. */
size_t gitgate_prove(struct gitgate *gate);

/* ---- gitgate_refuse.c: the exchange is over when they return ---- */

/* Refuses the push as a whole. `code` NULL: the policy's own. */
void gitgate_refuse(struct xchg *x, const char *code, struct slice reason);

/* … because it can't be read, so that no ref is named. */
void gitgate_unreadable(struct xchg *x, const char *code, const char *why);

/* … because what had to be proved is not; the upstream's connection is cut. */
void gitgate_refuse_unproved(struct xchg *x);

/* The push is permitted. True: the rule's limit is used up, so it is refused. */
bool gitgate_limited(struct xchg *x);

#endif
