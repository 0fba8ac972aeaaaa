/* Private to netns/: the mounts of this mount namespace, as the kernel lists them. */
#ifndef NETNS_MOUNTINFO_H
#define NETNS_MOUNTINFO_H

#include <stdbool.h>

#include "base/err.h"
#include "base/slice.h"

struct mount {
    int id;
    char *dev;   /* "major:minor" */
    char *root;  /* the part of the file system that is mounted, unescaped */
    char *point; /* where, unescaped */
    char *type;  /* "ext4" */
};

struct mountinfo {
    struct mount *list;
    size_t n;
};

/* Reads /proc/self/mountinfo. 0, ERR_IO, ERR_NOMEM or ERR_PARSE. */
int mountinfo_read(struct mountinfo *out, struct errmsg *msg);
void mountinfo_release(struct mountinfo *info);

/* Whether something is mounted below the directory `path` (absolute, without symbolic links), not counting what is mounted on it. */
bool mountinfo_below(const struct mountinfo *info, const char *path);

/* Calls `each` with every other path by which the object at `path` (absolute, without symbolic links) is reached
 * through a mount of the same file system. Stops at the first that returns other than 0, and returns that. */
int mountinfo_aliases(const struct mountinfo *info, const char *path,
                      int (*each)(void *arg, const char *alias), void *arg);

#endif
