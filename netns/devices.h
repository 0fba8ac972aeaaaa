/* Private to netns/: what the host's root may touch in /dev, /sys and /proc, and the sandbox's may not. */
#ifndef NETNS_DEVICES_H
#define NETNS_DEVICES_H

#include "netns/overlay.h"

/* For a sandbox in which all ids are mapped. User 0 inside is user 0 of the host to every permission bit: without this
 * it could read the raw disk, or set core_pattern to a program that the kernel runs outside. Devices work nowhere but in a new
 * /dev that holds harmless ones; /sys and the settings in /proc are read-only. A /proc of a nested container can't be
 * mounted then, the kernel sees to that. */
int devices_setup(struct stage *stage, struct errmsg *msg) MUST_CHECK;

#endif
