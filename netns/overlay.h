/*
 * Private to netns/: the means by which something is laid over something else, and the stage where files of ours wait for
 * that. In what order it is done stands in netns/mounts.h.
 */
#ifndef NETNS_OVERLAY_H
#define NETNS_OVERLAY_H

#include <limits.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

/* Where files of ours are put before they are laid over others: the tmpfs of the state directory. */
struct stage {
    const char *dir;
    unsigned next;          /* number of the next file */
    char scratch[PATH_MAX]; /* a tmpfs in it, for what has to be writable where it is laid */
};

/* Mounts `scratch`. */
int stage_scratch(struct stage *stage, struct errmsg *msg);

/* When all is laid: nothing of the stage can be changed any more by its own name. What was bound elsewhere is part of it, but for
 * `scratch`. */
int stage_seal(const struct stage *stage, struct errmsg *msg);

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

/*
 * Lays a directory over `target` (without symbolic links) that shows the entries of `top` before those of `target`, by overlayfs.
 * What is mounted below `target` does not show. `changes`, an empty directory on a file system that stays writable, takes what is
 * changed; where it is NULL nothing can be. ERR_UNSUPPORTED where the kernel or the file system is not able to, or a path
 * has a character that overlayfs reads as its own: there is no message, for copies serve as well.
 */
int mount_merged(const char *top, const char *target, const char *changes);

/* errno as an error of ours: what the host forbids is ERR_UNSUPPORTED, which the doctor explains. */
int mount_error(struct errmsg *msg, const char *what, const char *path);

#endif
