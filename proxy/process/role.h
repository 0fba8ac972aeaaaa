/*
 * What keeper, worker and scribe have in common: how they begin, a loop, the channel to the supervisor, and an end.
 */
#ifndef PROXY_PROCESS_ROLE_H
#define PROXY_PROCESS_ROLE_H

#include "base/confine.h"
#include "proxy/process/channel.h"

#define ROLE_SIGNALS 3 /* SIGTERM, SIGINT, SIGHUP */

#define ROLE_TURNS 256 /* after so many the loop looks at all sockets again */

struct role_base {
    struct event_base *base;
    struct channel ctl;
    int status; /* the process's exit status */
    struct event *told[ROLE_SIGNALS];
    int told_by;          /* the signal that told it to end; 0: none did */
    struct event *settle; /* pending: memory that a start took is given back when it is over */
};

/* How spawn_role starts a role: exeat --role=NAME SUPERVISOR-PID VERSION, with the socket at IPC_FD. */
#define ROLE_OPTION "--role="

/* main() of the role `name`: confine_begin, then run(), whose exit status is returned: when it was told to end, or the
 * supervisor is gone. */
int role_main(int argc, char **argv, const char *name, int (*run)(void));

/* Exit status of a role that ends because another role is gone: the supervisor tells of the other one. */
#define ROLE_PEER_GONE 3

/* `message` gets what the supervisor sends; when the supervisor is gone, the loop ends. 0 or ERR_NOMEM. */
int role_open(struct role_base *b, const struct channel_ops *ops, void *arg);
/* A signal that tells a process to end ends the role from now on in its own way: `told` is called from the loop, and role_end is to
 * follow. The process's end shows the signal all the same. Before confinement. 0 or ERR_NOMEM. */
int role_on_told(struct role_base *b, void (*told)(struct role_base *b));
/* Such a signal is of no effect: others of ours end first, and this role by itself then. */
void role_outlives(void);
/* Runs until role_end. */
void role_loop(struct role_base *b);
/* Frees channel and loop, after all that has events of it. The exit status; does not return where a signal told it to end. */
int role_close(struct role_base *b);
void role_end(struct role_base *b, int status);

/* What was taken by what begins (the process, a sandbox) and is not needed any more goes back to the system in a while (base/heap.h). */
void role_settle(struct role_base *b);

/* Gives up everything, then sends `ready` (IPC_READY with its fields). */
int role_ready(struct role_base *b, enum confine_role confine, const struct msg_out *ready);
/* The same with a message that has no fields. */
int role_ready_plain(struct role_base *b, enum confine_role confine);
/* Tells the supervisor why the role can't work, and ends. Returns `err`. */
int role_failed(struct role_base *b, int err, struct slice text);

/* For ops.closed of the channel to the supervisor. `arg` of the channel must be the struct role_base. */
void role_supervisor_gone(struct channel *c, int err);

#endif
