/*
 * Starting a role: a fork and an exec, so that nothing of the supervisor's memory, environment or descriptors is inherited. Each is a
 * program of its own, exeat-keeper, exeat-worker and exeat-scribe, with the libraries that it needs (as init is, exeat-init):
 * to load all into each takes longer than all the rest of a start, and so the keeper holds no line of code that reads what is hostile.
 * They are looked for beside this program, as it was executed (links to it are followed), then where `make install` puts them, and not
 * taken from somebody who could not write to this program: each must be a file of its owner or of root that nobody else may write to,
 * but a group that may write to this program, too.
 *
 * The role runs in a session of its own, where no terminal's signal reaches it, with SIGKILL as the signal of its parent's death; it has
 * /dev/null as input and output, the supervisor's standard error, the socket to the supervisor at descriptor IPC_FD, and nothing else.
 */
#ifndef PROXY_PROCESS_SPAWN_H
#define PROXY_PROCESS_SPAWN_H

#include <limits.h>
#include <sys/types.h>

#include "base/err.h"

enum role { ROLE_KEEPER, ROLE_WORKER, ROLE_SCRIBE };
#define ROLE_COUNT 3

const char *role_name(enum role role);

/* The program exeat-PART, from beside this one or from where `make install` puts it: a descriptor to execute (O_PATH), which is the
 * caller's, and in `path` where it was found; or -1 with a message. */
int spawn_open(const char *part, char path[PATH_MAX], struct errmsg *msg);

/*
 * Starts a role with the environment `env` (NULL-terminated; its strings are copied by exec). 0, *pid, and in *fd the supervisor's end
 * of the socket, which is the caller's; or ERR_IO, when nothing was started.
 */
int spawn_role(enum role role, char *const env[], pid_t *pid, int *fd, struct errmsg *msg);

#endif
