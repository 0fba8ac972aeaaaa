/*
 * Trees of git: "MODE NAME", NUL, and the id of the entry in binary, one behind the other.
 *
 * The reading is strict, so that nobody else can read something else: a mode that git writes or once wrote (0100664 and
 * leading zeros are in old history), a name that is not empty, holds no '/', and is not "." or "..", entries sorted as
 * git sorts them (a directory as if its name ended in '/') and none twice, be it once as a file and once as a directory.
 * ".git" and its look-alikes are left to the server: they are names like others here.
 */
#ifndef PROXY_CODEC_GIT_TREE_H
#define PROXY_CODEC_GIT_TREE_H

#include "base/err.h"
#include "base/slice.h"

/* Modes, in git's own numbers. */
#define GIT_MODE_TREE    0040000u
#define GIT_MODE_LINK    0120000u /* symbolic */
#define GIT_MODE_GITLINK 0160000u /* a commit of a submodule */

struct git_entry {
    unsigned mode; /* leading zeros make no difference */
    struct slice name;
    const uint8_t *id;
};

/* Takes one entry off a tree. 0, ERR_EOF, ERR_PARSE. The order is not looked at: git_tree_check does. */
int git_tree_next(struct slice *tree, unsigned id_size, struct git_entry *out);

/* Is a tree well-formed as a whole? 0, ERR_PARSE. */
int git_tree_check(struct slice tree, unsigned id_size);

/* The order of entries: <0, 0, >0. */
int git_entry_cmp(const struct git_entry *a, const struct git_entry *b);

static inline bool git_entry_is_tree(const struct git_entry *e) {
    return e->mode == GIT_MODE_TREE;
}

#endif
