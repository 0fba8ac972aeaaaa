/*
 * Starting a role: a fork and an exec of this very program, so that nothing of the supervisor's memory, environment or descriptors
 * is inherited.
 *
 * The role runs in a session of its own, where no terminal's signal reaches it, with SIGKILL as the signal of its parent's death; it has
 * /dev/null as input and output, the supervisor's standard error, the socket to the supervisor at descriptor IPC_FD, and nothing else.
 */
#ifndef PROXY_PROCESS_SPAWN_H
#define PROXY_PROCESS_SPAWN_H

#include <sys/types.h>

#include "base/err.h"

enum role { ROLE_KEEPER, ROLE_WORKER, ROLE_SCRIBE };
#define ROLE_COUNT 3

const char *role_name(enum role role);

/* The program's own file, opened before anything can take its place. -1 and a message on failure. */
int spawn_open_self(struct errmsg *msg);

/*
 * Starts a role with the environment `env` (NULL-terminated; its strings are copied by exec). 0, *pid, and in *fd the supervisor's end
 * of the socket, which is the caller's; or ERR_IO, when nothing was started.
 */
int spawn_role(enum role role, int self, char *const env[], pid_t *pid, int *fd, struct errmsg *msg);

/* If the program was started as a role: runs it and returns its exit status; else -1. main()'s first call. */
int spawn_role_main(int argc, char **argv);

#endif
