/* Private to netns/: mapping of users and groups into a user namespace, each to itself. */
#ifndef NETNS_IDMAP_H
#define NETNS_IDMAP_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

/* Whether this process may map all ids: root with CAP_SETUID and CAP_SETGID. */
bool idmap_is_root(void);

/* Writes the maps of a child that has just made its user namespace: with `root` every id that this process's own
 * namespace has, else the caller's user and group alone (setgroups is denied then). The child must be dumpable, or its files in
 * /proc belong to somebody else. 0, ERR_UNSUPPORTED (not permitted) or ERR_IO. */
int idmap_write(pid_t child, bool root, struct errmsg *msg) MUST_CHECK;

#endif
