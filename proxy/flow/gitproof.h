/*
 * Proving what a push does by its pack: is an update a fast-forward? And looking it through for secrets.
 *
 * The pack is read as it streams by (proxy/codec/pack.h). What its commits say about their parents is true by their
 * hashes; what they don't say is not proved, but by further commits that the server is asked for (gitask.h).
 *
 * Memory is bounded for one push, and for all pushes of a worker together by twice as much (proxy/codec/git_memory.h):
 * what is kept of the pack and of the server's answers, and what finding out by it takes.
 */
#ifndef PROXY_FLOW_GITPROOF_H
#define PROXY_FLOW_GITPROOF_H

#include "proxy/codec/git_ancestry.h"
#include "proxy/codec/pack.h"

struct gitproof;

/* What of the pack is kept, for questions: nothing is asked; how commits descend from one another; what they change, too. */
enum gitproof_keep { GITPROOF_NOTHING, GITPROOF_COMMITS, GITPROOF_TREES };

/* id_digits: 40 or 64. `watch` (NULL: none): has the pack looked through for secrets; borrowed. `worker` is the account of all
 * that are under way; this one may take half of it. NULL: out of memory. */
struct gitproof *gitproof_new(int id_digits, enum gitproof_keep keep, struct watch *watch,
                              struct git_memory *worker);
void gitproof_free(struct gitproof *proof); /* after all that draws on its memory */

/* The account of this push may be full. */
#define GITPROOF_BUSY "other pushes are being looked through, which have taken the memory for it; try again"

/* The reason for something that failed: `why`, or, if it failed for want of room in the account, that. Good for the next
 * call. */
const char *gitproof_reason(struct gitproof *proof, const char *why);

/* More of the pack, decoded. What is wrong with it shows in gitproof_failed. */
void gitproof_feed(struct gitproof *proof, struct slice plain);

/* Only (a part of) the pack's checksum is missing, or nothing: what was fed last is to wait for the verdict. */
bool gitproof_at_end(const struct gitproof *proof);

/* The pack is complete and its checksum right. */
bool gitproof_whole(const struct gitproof *proof);

/* Bytes of the pack so far, and of the largest file in it (or of what may be one, see pack.h). */
uint64_t gitproof_size(const struct gitproof *proof);
uint64_t gitproof_largest(const struct gitproof *proof);

/* Nothing can be proved any more, for this reason; the first one counts. NULL: all is well. */
void gitproof_fail(struct gitproof *proof, const char *why);
const char *gitproof_failed(const struct gitproof *proof);

/* The store that the pack's objects are in, and one for history beyond the pack, by which gitproof_ask goes on where the
 * pack's ends; what is there is nothing that the push brings. More may be put into both. Only while gitproof_whole. */
struct git_objects *gitproof_objects(struct gitproof *proof);
struct git_objects *gitproof_beyond(struct gitproof *proof); /* NULL: out of memory */

/* Which of these are fast-forwards? GIT_UNKNOWN, all of them, unless the pack is whole. */
void gitproof_ask(const struct gitproof *proof, struct git_update *updates, size_t n);

#endif
