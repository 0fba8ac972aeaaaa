/*
 * How children are started, and what each is told to begin with: what children.c and children_start.c share.
 */
#ifndef PROXY_PROCESS_CHILDREN_START_H
#define PROXY_PROCESS_CHILDREN_START_H

#include "proxy/process/children.h"

/* The one writer of a child's state. */
void child_enter(struct child *child, enum child_state state);

/* Messages of a child, and the end of its socket. */
extern const struct channel_ops children_ctl_ops;

/* Spawns a role. `child` is a place in the list that nobody has, or has any more. 0, or an error with a message. */
int children_start_at(struct children *c, struct child *child, enum role role, uint32_t number,
                      struct errmsg *msg);

/* Tells a scribe what it needs to begin. `follows`: on one that died. */
int children_start_scribe(struct children *c, struct child *scribe, bool follows);

#endif
