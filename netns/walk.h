/*
 * Private to netns/: sockets by where they lie, for those of other network namespaces are in nobody's list (hostsockets.h).
 *
 * Folders that hold much are read by several threads: a busy /tmp has thousands, and a start waits for this. What lies nearer to the top
 * is looked at first, and no more than WALK_ENTRIES names in all: of what is further down in more than that, sockets that no list
 * has stay visible.
 */
#ifndef NETNS_WALK_H
#define NETNS_WALK_H

#include "base/err.h"

#define WALK_ENTRIES 20000

/*
 * Finds the sockets in `dir`, in its folders, in theirs … to `depth` of these levels, then calls `each` with the path of each. Stops at
 * the first that returns other than 0, and returns that. ERR_NOMEM, before any call. Links are not followed; what can't be read is left
 * out, for the command may see no more than we do.
 */
int walk_sockets(const char *dir, int depth, int (*each)(void *arg, const char *path), void *arg,
                 struct errmsg *msg);

#endif
