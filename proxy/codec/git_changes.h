/*
 * What an update of a ref brings, by the commits and trees of a store (git_objects.h): which commits, and which paths
 * they change.
 *
 * The pushed commits are those that the new id reaches and that are not settled, nor history of what is settled: neither
 * the pack nor what the server holds somewhere decides, but what its branches hold. (A commit of someone else's fork lies
 * at the same server, and whoever pushes may build on it without sending it.)
 *
 * A path is changed
 *   - by a commit with one parent: if its entry (mode, and what is there) is another than the parent's. So additions,
 *     changes, deletions, changed modes, symbolic links and submodules count alike, a rename is a deletion and an
 *     addition, and what history once had and is put back is a change like any other;
 *   - by a commit without parents: all of its paths are;
 *   - by a merge of two: if its entry is another than that of either parent, unless it is what an honest merge has to
 *     make of it: the entry of the one parent, where the other parent has it as all their merge bases had it. So what a
 *     merge invents counts, and what it drops, or takes from the side that did not change it. What it takes over is
 *     judged at the commits that brought it, if they are pushed, and is the server's own if not;
 *   - by a merge of more than two: if its entry is another than that of any parent;
 *   - by the update itself, if it is no fast-forward: as by a merge of the old tip and the new one that is the new one.
 *     So a path that the old tip's side changed counts when the new tip has it otherwise, and going back does.
 * Where the merge bases can't be found out, no path that differs from a parent is excused (`excuse`).
 *
 *     git_changes_init - git_changes_run … (ERR_INCOMPLETE) … (0) - results - git_changes_release
 *
 * Work is done a slice at a time, so that no push holds up others. What is missing for an answer is listed in `needs`; when it
 * has come into the store, begin anew. What it takes is counted with the store's memory (git_memory.h).
 */
#ifndef PROXY_CODEC_GIT_CHANGES_H
#define PROXY_CODEC_GIT_CHANGES_H

#include "base/buf.h"
#include "proxy/codec/git_objects.h"

#define GIT_CHANGES_WORK 100000000ull /* entries and commits looked at in all */
#define GIT_PATH_MAX     4096

#define GIT_NO_COMMIT UINT32_MAX

/* Different texts, each once. */
struct git_text {
    uint32_t at, n;  /* in the arena */
    uint32_t commit; /* number in the store of the first that has it; GIT_NO_COMMIT: the update itself */
    bool link; /* a path that is or was a symbolic link or a submodule: what is below it is meant, too */
};

struct git_texts {
    struct git_text *list;
    size_t n;
    /* private */
    size_t room;
    size_t arena_counted;
    struct buf arena;
    struct git_memory *memory;
    struct git_ids seen; /* hashes */
};

/* What the store lacks for an answer. (`commits` may be there, but as context only.) */
struct git_needs {
    /* are they the server's own? Ask for them with what is settled as `have`: what does not come is, and is to be
     * settled */
    struct git_ids commits;
    struct git_ids trees_of; /* commits of the server's whose own object and trees are compared with */
    struct git_ids trees;    /* trees of these ids, and what is below */
    struct git_ids history;  /* all commits that these reach: merge bases are looked for */
};

struct git_changes {
    /* results, when git_changes_run has returned 0. Good while the store is not fed. */
    struct git_texts paths, authors, committers; /* identities: "Name <mail>" */
    uint32_t *commits;                           /* pushed: numbers in the store, the newest first */
    size_t ncommits;
    size_t nsigned; /* of them: there is a signature; whose, and whether it is good, is not looked at */
    struct git_needs needs;
    struct errmsg error;

    /* private */
    const struct git_objects *o;
    uint8_t old[GIT_ID_MAX], young[GIT_ID_MAX];
    bool update, excuse, trees;
    int phase, err;
    size_t at, job; /* commit and diff that is being made */
    uint64_t work;
    size_t commits_room;
    EVP_MD *md; /* of texts, whatever the repository's is */
    EVP_MD_CTX *hash;
    struct git_diff *diff;
};

#define GIT_CHANGES_FF      (1u << 0) /* the update is known to be a fast-forward, should the store not prove it */
#define GIT_CHANGES_EXCUSE  (1u << 1) /* look for merge bases (see above); without, they are not asked for */
#define GIT_CHANGES_COMMITS (1u << 2) /* what the commits say of themselves is enough: no trees, no paths */

/* The store is borrowed. `old`: the ref's id before, which should be settled, too; NULL: it is created. 0, ERR_NOMEM. */
int git_changes_init(struct git_changes *c, const struct git_objects *o, const uint8_t *old,
                     const uint8_t *young, unsigned flags) MUST_CHECK;
void git_changes_release(struct git_changes *c); /* of a zeroed struct, too */

/* Looks at about `budget` entries. ERR_INCOMPLETE: there is more to do. 0: done; the results are all there is to know if
 * git_changes_complete, else `needs` says what is missing. ERR_PARSE, ERR_LIMIT, ERR_NOMEM: c->error says why; they
 * stay. */
int git_changes_run(struct git_changes *c, size_t budget) MUST_CHECK;
bool git_changes_complete(const struct git_changes *c);

static inline struct slice git_text(const struct git_texts *texts, size_t i) {
    return slice_sub(buf_slice(&texts->arena), texts->list[i].at, texts->list[i].n);
}

#endif
