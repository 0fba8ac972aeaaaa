/*
 * The supervisor's roles: starting them, wiring them to each other, their messages and their deaths.
 *
 *     keeper ---- worker 0..N-1 ---- scribe          each line a socket pair that only the two ends hold
 *
 * A child is one process with its control channel. How a set of them is started: children_start spawns the keeper,
 * children_start_others the rest, and each is told what it needs to begin; `ready` follows when all are confined, or
 * `failed`, with the reason, when anyone ends, breaks the protocol or can't begin.
 *
 * A scribe that is killed takes no record with it: what workers have put into the rings, and put there until they end, is
 * written by another one, to the file alone, before all ends. If that is killed, a further one does so, up to three; then it is said
 * that some may be missing. Only what one of them had written and not yet let go of, a piece of a ring at most, would then be there
 * twice.
 */
#ifndef PROXY_PROCESS_CHILDREN_H
#define PROXY_PROCESS_CHILDREN_H

#include <sys/types.h>

#include "proxy/process/channel.h"
#include "proxy/process/config.h"
#include "proxy/process/prepare.h"
#include "proxy/process/spawn.h"

struct children;
struct ring;

/*
 *     CHILD_STARTING --> CHILD_READY --> CHILD_ENDING --> CHILD_DRAINED
 *            +--------------------------------^
 *     any --> CHILD_GONE
 *
 * child_enter() is the one writer.
 */
enum child_state {
    CHILD_STARTING,
    CHILD_READY,   /* it has confined itself, and works */
    CHILD_ENDING,  /* it was told to end, or has said that it can't work: its end is no failure of its own */
    CHILD_DRAINED, /* it has said that nothing follows */
    CHILD_GONE,    /* there is no such process any more */
    CHILD_STATES
};

struct child {
    struct children *all;
    enum child_state state;
    enum role role;
    uint32_t number; /* of a worker */
    pid_t pid;
    struct channel ctl;
};

#define CHILDREN_MAX (CONFIG_WORKERS_MAX + 2)

struct children_ops {
    /* before `ready`; our root, and the hash of its subject */
    void (*keeper_ready)(void *arg, struct slice ca_pem, uint32_t ca_hash);
    void (*ready)(void *arg);                    /* all are confined */
    void (*failed)(void *arg, const char *text); /* lines for the user. May come more than once */
    /* after children_drain: none is left, or those that are take too long, which was told then. May come more than once */
    void (*ended)(void *arg);
    /* of a worker: it can't take that sandbox; or nothing of it is left there, after IPC_SANDBOX_END, each says once */
    void (*sandbox_refused)(void *arg, uint64_t id, struct slice why);
    void (*sandbox_ended)(void *arg, uint64_t id);
    void (*flushed)(void *arg, uint64_t number); /* of the scribe, after IPC_FLUSH */
};

struct children {
    struct event_base *base;
    const struct prepared *prepared;
    const struct children_ops *ops;
    void *arg;
    size_t n;
    bool draining;          /* children_drain was called */
    struct event *deadline; /* … for the next one to end */
    bool failed;            /* `failed` was called */
    unsigned followers;     /* scribes in place of one that died, which it has been tried to start */
    int peers[CONFIG_WORKERS_MAX][2]; /* the workers' ends to keeper and scribe, until handed over; -1 */
    /* for their records; kept for a scribe that follows on one that died */
    struct ring *rings[CONFIG_WORKERS_MAX];
    struct child list[CHILDREN_MAX];
};

/* `c` is zero. Starts the keeper, which takes longest and may need variables that nobody else is to have. 0, or an error with a
 * message; then children_kill is due. */
int children_start(struct children *c, struct event_base *base, const struct prepared *p,
                   const struct children_ops *ops, void *arg, struct errmsg *msg);

/* Starts scribe and workers, once `prepared` has the roots. 0, or an error with a message. */
int children_start_others(struct children *c, struct errmsg *msg);

/* To every worker. 0, or the first error. ERR_EOF: one is gone, and `failed` follows with the reason. */
int children_send_workers(struct children *c, const struct msg_out *m);
/* To the keeper, to the scribe. The same. */
int children_send_keeper(struct children *c, const struct msg_out *m);
int children_send_scribe(struct children *c, const struct msg_out *m);

/* For all to end. On a machine that is too busy (a thousand sandboxes end together) each role that does end gives the others as much
 * again: what workers have said is not lost for want of the processor. */
#define CHILDREN_END_MS 4800
#define CHILDREN_LATE   "the last decisions may not have been written: not all could be ended within 5 s"

/* Lets workers end, then the scribe, then the keeper; `ended` follows, at once where memory is short. */
void children_drain(struct children *c);

/* SIGKILL to all that run, and waits for them. Safe at any time, also when nothing was started. */
void children_kill(struct children *c);

#endif
