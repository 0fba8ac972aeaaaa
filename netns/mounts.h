/* Private to netns/: what the sandbox sees of the file system, in the mount namespace of user namespace A. */
#ifndef NETNS_MOUNTS_H
#define NETNS_MOUNTS_H

#include "netns/wire.h"

/* Cuts the mount namespace off from the host's and mounts /proc for the new pid namespace. */
int mounts_proc(struct errmsg *msg);

/* The rest, in this order: the state directory's tmpfs, what is covered (netns/cover.h), trust and names (netns/trust.h), for
 * root the devices (netns/devices.h), the working directory anew. */
int mounts_setup(const struct wire_spec *spec, struct errmsg *msg);

#endif
