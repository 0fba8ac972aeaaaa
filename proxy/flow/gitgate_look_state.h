/*
 * What the two halves of looking at what a push brings share: gitgate_look.c goes through the refs, gitgate_look_ask.c asks the
 * server for what they leave open. Nobody else includes this.
 */
#ifndef PROXY_FLOW_GITGATE_LOOK_STATE_H
#define PROXY_FLOW_GITGATE_LOOK_STATE_H

#include "proxy/codec/git_changes.h"
#include "proxy/flow/gitgate_state.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"

/* What one ref is brought. */
struct look_ref {
    struct facts_brought brought;
    struct facts_text *texts; /* paths, authors, committers */
    char *ids;                /* hexadecimal, of their commits */
    struct git_changes changes;
};

enum look_ask {
    LOOK_COMMITS,
    LOOK_TREES_OF,
    LOOK_TREES,
    LOOK_HISTORY,
    LOOK_NEEDS, /* how many kinds a ref can need */
    LOOK_BRANCHES,
    LOOK_BASES,
    LOOK_TIPS
};

struct gate_look {
    struct xchg *x;
    struct git_objects *objects;
    struct look_ref *refs; /* as many as the push has */
    size_t at, nrefs;      /* the one that is being looked at */
    bool begun, again;     /* … its changes are, for another time */
    bool bases;            /* merge bases are looked for */
    bool branches;         /* the server's branches are known: tips */
    bool asked_tips;       /* the way from there to what was pushed was asked for */
    bool asked_bases;      /* what deltas of the pack are made of was asked for */
    struct git_ids tips;
    struct git_ids own; /* part of their history, as the server says */
    enum look_ask asked;
    struct git_ids asked_ids;
    bool of_all;                      /* the question is not about one ref alone */
    struct git_ids later[LOOK_NEEDS]; /* of refs that were put off: what is to be asked for */
    unsigned rounds;
    size_t budget; /* what is left of this turn's LOOK_SLICE */
    uint64_t work; /* done for all refs so far */
    size_t texts;  /* bytes of what was found, in the push's memory */
    struct event *turn;
    struct errmsg unknown;
};

/* ---- gitgate_look.c ---- */

/* It can't be found out, for that reason. Returns `err`. */
int look_fails(struct gate_look *look, int err, const char *why);

/* Forgets what was found out. */
void look_anew(struct gate_look *look);

/* What was asked for is here, or is known not to come: goes on. The exchange may be over when they return. */
void look_resume(struct gate_look *look);
/* … or nothing more can be found out: look->unknown. */
void look_give_up(struct gate_look *look);

/* ---- gitgate_look_ask.c: where the server is asked, look_resume or look_give_up follows ---- */

/* What counts as known already for the ref that is looked at: its old id (NULL: it has none), and the server's own history. 0 or
 * ERR_NOMEM. */
int look_settle(struct gate_look *look, const uint8_t *old);

/* Does it matter which branches the server has, which is not known yet? Where all that the ref is brought came in the pack, upon
 * its old id, it does not. */
bool look_wants_branches(const struct gate_look *look);

/* Does what the ref needs hang on nothing that is settled for it alone? Then look_put_off: it comes again when that has been asked
 * for, with what others need. */
bool look_may_wait(const struct gate_look *look);
int look_put_off(struct gate_look *look);

/* Asks for what the ref's answer needs first. 0, or why the server can't be asked. */
int look_ask(struct gate_look *look);
/* … for the first kind of what those need that were put off. ERR_EOF: none was. */
int look_ask_later(struct gate_look *look);
/* All is found out. Would the push be refused, and may that be for what a server's branch holds? Then that is asked for: 0. */
int look_doubt(struct gate_look *look);

#endif
