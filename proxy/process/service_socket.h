/*
 * Where a service is found: a unix socket in the state directory, which is covered in every sandbox that works with that directory.
 * Who may join is the user who serves, from the user namespace that the service is in; and nobody joins a service of another user's, which
 * could be there where others may write to the directory.
 */
#ifndef PROXY_PROCESS_SERVICE_SOCKET_H
#define PROXY_PROCESS_SERVICE_SOCKET_H

#include <stdbool.h>

#include "base/err.h"

#define SERVICE_SOCKET "service.sock"
#define SERVICE_LOCK   "service.lock" /* held while it serves */

#define SERVICE_CONNECT_S 10 /* for a service that has much to do */

/* `state_dir` is open at `state_fd`. The socket, non-blocking, or -1 with a message: another service has it. The lock is in *lock, to be
 * closed when all is over. A socket that a dead one left behind is taken away. */
int service_listen(const char *state_dir, int state_fd, int *lock, struct errmsg *msg);

/* Takes the socket's name away, unless it is another one's by now: who takes the lock's file away takes the socket, too. */
void service_unlisten(int state_fd, int lock);

/* A connection to a service of this user's, non-blocking, or -1 with a message for the user. */
int service_connect(const char *state_dir, struct errmsg *msg);

/* Whether the other end is the same user's. */
bool service_same_user(int fd);

/* This process's user namespace, or -1 with errno; and whether a descriptor is just that. */
int service_namespace(void);
bool service_same_namespace(int fd);

#endif
