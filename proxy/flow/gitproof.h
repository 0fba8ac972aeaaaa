/*
 * Proving what a push does by its pack: is an update a fast-forward?
 *
 * The pack is read as it streams by (proxy/codec/pack.h). What its commits say about their parents is true by their
 * hashes; what they don't say is not proved, but by further commits that the server is asked for (gitask.h). Memory is
 * bounded for one push and for all pushes of a worker together.
 */
#ifndef PROXY_FLOW_GITPROOF_H
#define PROXY_FLOW_GITPROOF_H

#include "proxy/codec/pack.h"

#define GITPROOF_MEMORY        (256u << 20) /* for the commits and trees of one push */
#define GITPROOF_WORKER_MEMORY (512u << 20) /* … of all that are under way */

struct gitproof;

/* id_digits: 40 or 64. `trees`: what the push changes is asked, too. *used counts the memory of all proofs of a worker.
 * NULL: out of memory. */
struct gitproof *gitproof_new(int id_digits, bool trees, size_t *used);
void gitproof_free(struct gitproof *proof);

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
 * pack's ends; what is there is nothing that the push brings. More may be put into both, as long as gitproof_count says
 * after each step that there is room (if not, nothing more may come). Only while gitproof_whole. */
struct git_objects *gitproof_objects(struct gitproof *proof);
struct git_objects *gitproof_beyond(struct gitproof *proof); /* NULL: out of memory */
bool gitproof_count(struct gitproof *proof);

/* Is the way from `old` to `young` a fast-forward? GIT_UNKNOWN unless the pack is whole. */
enum git_answer gitproof_ask(const struct gitproof *proof, struct slice old, struct slice young);

#endif
