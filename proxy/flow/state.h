/*
 * What the engine's files share: the worker's engine and its sandboxes. Not for others: they use engine.h.
 *
 * Memory of connections and exchanges is given back late: whatever ends is unlinked at once, but its struct waits in
 * `dead` until the next event comes in from the loop (engine_reap, called first in every such entry), so that
 * functions further up the stack may still look at its state and see that it is over.
 */
#ifndef PROXY_FLOW_STATE_H
#define PROXY_FLOW_STATE_H

#include <event2/event_struct.h>
#include <sys/queue.h>

#include "base/addr.h"
#include "base/buf.h"
#include "netns/names.h"
#include "policy/policy.h"
#include "proxy/codec/git_memory.h"
#include "proxy/flow/decision.h"
#include "proxy/flow/engine.h"
#include "proxy/flow/limits.h"

struct conn;
struct leaf_cache;
struct mint;
struct upstream_pool;
struct watch_table;
struct xchg;

struct box;

struct box_listener {
    struct event event;
    struct box *box;
    int fd;
};

/* An end that waits for what is under way. */
struct drain {
    bool on;
    struct event timer;      /* also made active when nothing is left */
    void (*done)(void *arg); /* NULL once it was called */
    void *arg;
};

/* One sandbox. */
struct box {
    struct engine *engine;
    struct box *next, **link;
    uint64_t id;
    char name[ENGINE_NAME_MAX + 1];
    const struct policy *policy;
    struct names *names;
    struct upstream_pool *pool;
    struct io_memory *memory; /* of bytes on their way between its clients and their servers */
    struct box_listener listeners[ENGINE_LISTENERS_MAX];
    size_t nlisteners;
    struct conn *conns;
    size_t nconns;
    LIST_HEAD(, xchg) tails; /* exchanges whose clients have gone on (xchg.h) */
    size_t ntails;
    size_t held;         /* bytes of bodies that wait to be judged */
    struct why *why;     /* its last decisions */
    struct shown *shown; /* objects of git's that it may ask for */
    struct limits *limits;
    size_t nstreams; /* of HTTP/2, on all connections */
    size_t nxchgs;
    struct drain drain;
    bool cutting;        /* it ends: what ends now was broken off by exeat, not by a client */
    uint64_t shed_noted; /* monotonic ms of the last record about connections refused for a limit */
};

struct engine {
    struct engine_config config;
    struct leaf_cache *leaves;
    struct bindings *bindings;
    struct watch_table *watched; /* NULL: no secret is to be looked for */
    struct box *boxes;
    struct mint *mints; /* questions to the keeper under way */
    struct buf ca_pem;
    struct conn *dead_conns;
    struct xchg *dead_xchgs, *spare_xchgs;
    size_t nspare;
    int reserve_fd;     /* given up for a moment when descriptors run out */
    struct event retry; /* accepting goes on */
    struct event tidy;  /* after a crowd: memory that it needed goes back */
    bool accept_paused;
    struct drain drain;
    size_t nconns, nxchgs;          /* of all sandboxes */
    struct git_memory proof_memory; /* for looking through packs (gitproof.h) */
    struct buf text;                /* one block for texts that are made and sent at once */
    struct buf text2;               /* … and another */
};

/* Why something that is under way is over at the end of a drain, or of its sandbox. */
#define ENGINE_ENDED_CODE   "exeat-ended"
#define ENGINE_ENDED_REASON "exeat ended while this was under way"

static inline struct slice box_name(const struct box *box) {
    return slice_str(box->name);
}

/* Frees what has ended. Only from a place that the event loop called directly. */
void engine_reap(struct engine *engine);

/* Takes one of what the verdict's rule permits in a time. False: it is used up, for *wait_s seconds more. */
bool box_takes(struct box *box, const struct verdict *v, unsigned *wait_s);

/* Something was turned away for a limit of the sandbox's: recorded once in a while. */
void box_shed(struct box *box, const char *code, const char *why);

/* Whether its connections are to end with the request that they are at. */
static inline bool box_drains(const struct box *box) {
    return box->drain.on || box->engine->drain.on;
}

/* A connection has gone, or the tail of an exchange: may a drain be over? */
void box_settle(struct box *box);

#endif
