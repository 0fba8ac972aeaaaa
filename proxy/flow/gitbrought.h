/*
 * What the update of a ref brings (proxy/codec/git_changes.h): found out a slice at a time, between the other work of the
 * event loop. What the store lacks for that, the server is asked for (gitask.h).
 *
 *     gitbrought_new - gitbrought_find, done … - gitbrought_free
 *
 * The server's own, and so not brought, is the history of the ref's old id (a push with another old id than the ref's
 * does nothing at the server), and that of the branches which `own` says the sandbox can't have changed. The server is
 * asked for its branches, and then for where the pack's history meets theirs, only when that history leaves the pack
 * elsewhere than at the old id. What the server holds beside that (other branches of the sandbox's, forks) counts as
 * brought.
 *
 * A server that lies can say that a commit is part of its own branches, which is its own business, or withhold what is
 * asked for: then it is not known what the push brings. Each object is known by its hash.
 */
#ifndef PROXY_FLOW_GITBROUGHT_H
#define PROXY_FLOW_GITBROUGHT_H

#include "proxy/codec/git_changes.h"

struct gitask;
struct gitbrought;
struct gitproof;
struct xchg;

struct gitbrought_config {
    struct xchg *x;
    struct gitproof *proof; /* made with trees, and whole */
    struct gitask *ask;
    bool (*own)(void *arg, struct slice ref); /* is this branch out of the sandbox's reach? */
    void *arg;
};

/* NULL: out of memory. All in `config` is borrowed. */
struct gitbrought *gitbrought_new(const struct gitbrought_config *config);
void gitbrought_free(struct gitbrought *b); /* NULL is fine; nobody is called any more */

struct gitbrought_update {
    struct slice old; /* hexadecimal; empty: the ref is created */
    struct slice new;
    bool ff; /* it is known to be a fast-forward */
};

/*
 * One at a time. `changes` (zeroed) is the caller's, to be released by git_changes_release after `done`, before the proof
 * goes. `done` is called once, from the event loop, unless gitbrought_free comes first; it may do anything. Then the
 * results in `changes` are all there is to know, unless gitbrought_failed says why not. 0, or an error, and nobody is
 * called: ERR_USAGE (ids of another length), ERR_NOMEM.
 */
int gitbrought_find(struct gitbrought *b, const struct gitbrought_update *update, struct git_changes *changes,
                    void (*done)(void *arg), void *arg);

/* A line for the record and for the sandbox; NULL: it is known what the push brings. */
const char *gitbrought_failed(const struct gitbrought *b);

#endif
