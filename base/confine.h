/*
 * How a process of ours gives up what it does not need. The stages come in this order; each says why it can't come earlier.
 *
 *  1. confine_begin    first thing in every role: no core dump, not traceable by others of the same user, dies with its parent.
 *     (Earlier is impossible: exec resets dumpability.)
 *  2. The role does what needs files, names or privileges: reads roots, resolver configuration, the vault.
 *  3. confine_role     no new privileges, no capability, Landlock (nothing in the file system, and no TCP where the role has
 *     none), then the seccomp filter, last, since the others need system calls that it forbids.
 *
 * After stage 3 no file can be opened and no program run, whatever runs in the process. There is no switch that turns
 * this off. Sanitizer builds keep all but the filter, which the sanitizers' runtime can't live under, and may read /proc,
 * where it looks for threads when it searches for leaks.
 */
#ifndef BASE_CONFINE_H
#define BASE_CONFINE_H

#include <sys/types.h>

#include "base/err.h"

enum confine_role {
    CONFINE_WORKER, /* internet sockets, accepted descriptors; no unix socket, no file, no program */
    CONFINE_KEEPER, /* only the descriptors it has: no socket of any kind is made */
    CONFINE_SCRIBE, /* as a worker, and unix sockets (Redis) */
};

/* `parent` is the process that must live for this one to live; 0 skips that part. 0, ERR_IO, or ERR_EOF: it has ended. */
int confine_begin(pid_t parent, struct errmsg *msg) MUST_CHECK;

/* 0, or ERR_IO / ERR_UNSUPPORTED (kernel without seccomp or Landlock) with a message: the caller must end. */
int confine_role(enum confine_role role, struct errmsg *msg) MUST_CHECK;

/* The version of Landlock that this kernel offers; 0: none. */
int confine_landlock_abi(void);

#endif
