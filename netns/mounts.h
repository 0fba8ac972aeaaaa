/* Private to netns/: what the sandbox sees of the file system, in the mount namespace of user namespace A. */
#ifndef NETNS_MOUNTS_H
#define NETNS_MOUNTS_H

#include <limits.h>

#include "netns/overlay.h"
#include "netns/wire.h"

/* Cuts the mount namespace off from the host's and mounts /proc for the new pid namespace. */
int mounts_proc(struct errmsg *msg) MUST_CHECK;

/* The state directory's tmpfs, which `stage` becomes, and what is covered (netns/cover.h): all that needs no roots. `dir` is memory
 * for the stage's name. */
int mounts_cover(const struct wire_spec *spec, struct stage *stage, char dir[PATH_MAX],
                 struct errmsg *msg) MUST_CHECK;

/* The rest, in this order: trust and names (netns/trust.h), for root the devices (netns/devices.h), the working directory anew. */
int mounts_finish(const struct wire_spec *spec, const struct wire_trust *trust, struct stage *stage,
                  struct errmsg *msg) MUST_CHECK;

#endif
