/* Private to netns/: what the sandbox sees of the file system, in the mount namespace of user namespace A. */
#ifndef NETNS_MOUNTS_H
#define NETNS_MOUNTS_H

#include "netns/wire.h"

/* Cuts the mount namespace off from the host's and mounts /proc for the new pid namespace. */
int mounts_proc(struct errmsg *msg);

/* The rest, in this order: the state directory's tmpfs, what is covered (netns/cover.h), trust and names (netns/trust.h), for
 * root the devices (netns/devices.h), the working directory anew. */
int mounts_setup(const struct wire_spec *spec, struct errmsg *msg);

/* Where files of ours are put before they are laid over others: the tmpfs of the state directory. */
struct stage {
    const char *dir;
    unsigned next; /* number of the next file */
};

/* Writes a file into the stage; its path goes to `path` (PATH_MAX). The name is NULL for any. */
int stage_file(struct stage *stage, const char *name, struct slice bytes, unsigned mode, char *path,
               struct errmsg *msg);

/* Makes an empty directory in it. */
int stage_dir(struct stage *stage, char *path, struct errmsg *msg);

/* Lays `source` over `target`, a file over a file or a directory over a directory. */
int mount_bind(const char *source, const char *target, bool recursive, struct errmsg *msg);

/* Adds attributes (MOUNT_ATTR_…) to a mount, and to those below it if `recursive`; takes `clear` off. */
int mount_attributes(const char *path, uint64_t set, uint64_t clear, bool recursive, struct errmsg *msg);

int mount_tmpfs(const char *path, const char *options, struct errmsg *msg);

#endif
