/*
 * What the files of the gate for fetches share (fetchgate.h): what it knows of one request, and the way from one file to the
 * other. fetchgate.c reads what is asked for and judges it, fetchgate_answer.c reads the answer and rewrites it.
 */
#ifndef PROXY_FLOW_FETCHGATE_STATE_H
#define PROXY_FLOW_FETCHGATE_STATE_H

#include "policy/facts.h"
#include "proxy/codec/git_asked.h"
#include "proxy/codec/git_fetch.h"
#include "proxy/codec/git_offer.h"
#include "proxy/flow/fetched.h"
#include "proxy/flow/shown.h"

struct xchg;

/*
 *     FETCH_IDLE <--> FETCH_BODY    of a fetch
 *     FETCH_IDLE <--> FETCH_ASK     … once, if what it names was not shown
 *     FETCH_IDLE <--> FETCH_OFFER, or --> FETCH_BORDERS
 *
 * fetchgate_enter() is the one writer. `offer` is there in ASK and OFFER, `borders` in BORDERS, and neither in others.
 */
enum fetch_phase {
    FETCH_IDLE,    /* nothing is read here: it is being judged, or what comes goes by as it is */
    FETCH_BODY,    /* the request's body is read */
    FETCH_ASK,     /* the server is asked for its refs, and its answer is read */
    FETCH_OFFER,   /* the answer is a list of refs, which is rewritten */
    FETCH_BORDERS, /* … or what a fetch brings, and is read as it goes by */
    FETCH_PHASES
};

struct fetchgate {
    bool limited;    /* only some refs of the repository are permitted */
    bool any_object; /* … but objects by whatever id */
    enum fetch_phase phase;
    struct shown_repo repo;
    uint32_t list; /* the number of the one that is read */
    struct fetched fetched;
    struct git_asked asked;
    struct git_offer offer;
    struct git_borders borders;
    struct buf out;
    struct facts_ref ref; /* that is refused */
    char object[16];      /* the beginning of an id that was not shown */
    /* the server was asked for its refs, since the sandbox has not asked for all that it wants */
    bool refreshed;
    struct errmsg trouble;
};

/* ---- fetchgate.c ---- */

void fetchgate_enter(struct xchg *x, enum fetch_phase phase);

/* Gives back what the phase reads with; another one follows. */
void fetchgate_release_reader(struct fetchgate *gate);

/* Would the policy permit that besides, with the credential that the request was begun with? `arg` is the exchange. */
bool fetchgate_extra(const struct xchg *x, enum facts_extra extra);
bool fetchgate_permits(void *arg, struct slice name);

/* ---- fetchgate_answer.c: what comes back is read here, and so is asked for as it is ---- */

/* A list of refs comes: the request's own answer (FETCH_OFFER), or that to exeat's question (FETCH_ASK). */
void fetchgate_rewrite(struct xchg *x, enum git_offer_kind kind, enum fetch_phase phase);
/* … of the discovery of a push. */
void fetchgate_rewrite_push(struct xchg *x);
/* The commits at which a fetch is cut off count as shown. */
void fetchgate_read_borders(struct xchg *x);

#endif
