/*
 * Asking the server of a push for what the push does not bring: commits, by which it may be proved a fast-forward, or
 * other objects. What comes goes into a store of the push's proof (gitproof.h), where every object is known by its hash: a
 * server that lies can make a proof fail, never make one.
 *
 *     gitask_new - gitask_fetch or gitask_refs, done … - gitask_free
 *
 * The server is asked in git's protocol version 2 (proxy/codec/git_fetch.h), by errands (errand.h), so with the
 * credential of the push and on record. Its capabilities are asked for once, before the first fetch. A server without
 * filters is asked without one, within the same limits. Nothing is kept beyond the push.
 *
 * Limits, of all that one push asks for: GITASK_MS, GITASK_BYTES, and the memory of its proof. At the limit a fetch
 * fails, and what came before it stays in the store.
 */
#ifndef PROXY_FLOW_GITASK_H
#define PROXY_FLOW_GITASK_H

#include "proxy/codec/git_ids.h"

struct git_objects;
struct gitask;
struct gitproof;
struct xchg;

#define GITASK_MS        15000
#define GITASK_BYTES     (64u << 20)
#define GITASK_IDS_MAX   16384       /* wants and haves of one fetch */
#define GITASK_COMMITS   "tree:0"    /* filter: commits, and what is wanted by name */
#define GITASK_ALL_TREES "blob:none" /* filter: commits and trees, and what is wanted by name */

/* Both are borrowed. NULL: out of memory. */
struct gitask *gitask_new(struct xchg *x, struct gitproof *proof);
void gitask_free(struct gitask *a); /* NULL is fine; nobody is called any more */

struct gitask_wish {
    const struct git_ids *wants; /* all that is reachable from these (by git's rules for the filter) … */
    const struct git_ids *haves; /* … and not from these, if the server knows them; may be NULL */
    bool alone;                  /* no history beyond the wants; then there are no haves */
    struct git_objects *into;    /* one of the proof's stores */
    const char *filter;          /* a literal; NULL: none */
    const char *purpose;         /* a literal, for the record */
};

/* One at a time. 0: `done` will be called, once, from the event loop, unless gitask_free comes first; it may do
 * anything. Otherwise gitask_failed says why not. */
int gitask_fetch(struct gitask *a, const struct gitask_wish *wish, void (*done)(void *arg), void *arg);

/* The same for a list of the server's refs that begin with `prefix` (a literal): `ref` is called for each, with its id in
 * hexadecimal, good for the call; it must not free `a`. */
int gitask_refs(struct gitask *a, const char *prefix, const char *purpose,
                void (*ref)(void *arg, struct slice name, struct slice id), void (*done)(void *arg),
                void *arg);

/* There is no use in asking, for this reason (a literal). */
void gitask_give_up(struct gitask *a, const char *why);

/* Why the last question was not answered in full: a line for the record and for the sandbox. NULL: it was. */
const char *gitask_failed(const struct gitask *a);

/* … because the server itself said so, which it does when it hasn't all that is wanted. */
bool gitask_refused(const struct gitask *a);

#endif
