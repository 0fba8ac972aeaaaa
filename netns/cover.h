/* Private to netns/: what must not be reached is laid over. */
#ifndef NETNS_COVER_H
#define NETNS_COVER_H

#include "netns/overlay.h"
#include "netns/wire.h"

/* Covers, also under every other mount of the same file system: the files and directories of the specification,
 * control sockets and the directories where they appear, sockets of the host, other mounts of /proc. 0 or an error: what can't
 * be covered ends the start. */
int cover_all(const struct wire_spec *spec, struct stage *stage, struct errmsg *msg) MUST_CHECK;

/* Covers the other paths of a directory, not this one. `path` has no symbolic links. */
int cover_aliases(const struct wire_spec *spec, const char *path, struct errmsg *msg);

#endif
