/*
 * Objects of a repository by id: commits and tags, trees where they are wanted, never blobs. What a push brings, and
 * what the server was asked for beside it, come together here, from as many packs as it takes (pack.h), and are asked
 * about here.
 *
 *     git_objects_init - pack_init, pack_feed … for each pack - git_objects_find, _is_ancestor, _missing … - _release
 *
 * Every object is known by the hash of its contents, which was made here, so what it says is true whoever sent it; what
 * nobody sent is not known. So an object that is not understood, or not there, can only make a proof fail, never make
 * one. A malformed commit or tree is kept and marked, and whoever comes to it gets ERR_PARSE.
 *
 * A delta may come before its base, or its base in another pack: in a thin pack it is an object that the server has.
 * Such a delta is kept, whatever it may make, and becomes an object as soon as its base is there. With trees wanted half of
 * the memory is for those that wait; without, 8 MiB, and 64 KiB for one of them: more than a commit takes. One that finds
 * no room is forgotten (`forgotten`), so that what it would have made is an object that is not known.
 *
 * Ids are binary (git_ids.h). All memory is counted (git_memory.h): what is kept, up to the share of that, beyond which
 * objects are refused with ERR_LIMIT, and what answering takes. A store whose filling failed is still good for questions,
 * about less.
 */
#ifndef PROXY_CODEC_GIT_OBJECTS_H
#define PROXY_CODEC_GIT_OBJECTS_H

#include <openssl/evp.h>

#include "proxy/codec/git_ids.h"

/* Types, by the numbers that packs have for them. */
enum git_type {
    GIT_TYPE_NONE = 0,
    GIT_TYPE_COMMIT = 1,
    GIT_TYPE_TREE = 2,
    GIT_TYPE_BLOB = 3,
    GIT_TYPE_TAG = 4,
};

struct git_objects_limits {
    size_t object;  /* bytes of one object, or of a delta that makes one */
    uint32_t depth; /* of deltas built upon one another */
    uint64_t made;  /* bytes that deltas may make in all, among them what is known already */
};

/* 16 MiB, 4095 (git's own), 1 GiB. */
void git_objects_limits_default(struct git_objects_limits *limits);

struct git_object {
    const char *data; /* its contents, without a header */
    uint32_t size;
    uint16_t depth; /* of the chain of deltas that made it */
    uint8_t type;
    bool pushed;  /* it came in a pack of the sandbox's; another may have brought it, too */
    bool context; /* it came only while git_objects.context was set */
    bool bad;     /* a commit whose head, or a tree any of whose entries, is malformed */
};

struct git_delta; /* one that waits for its base */
struct git_due;

struct git_objects {
    /* results */
    size_t kept;    /* bytes of memory in use for what packs brought */
    size_t waiting; /* deltas whose base is not known: mostly of blobs, which have none here */
    /* to be set by whoever feeds: what comes is to compare with. If it is reached from what is pushed, that says
     * nothing of whether it is brought (git_changes.h) */
    bool context;
    size_t forgotten; /* deltas that would have waited, but for the room they take */
    struct errmsg error;

    /* private */
    struct git_memory *memory;
    struct git_objects_limits limits;
    unsigned id_size;
    bool trees;
    uint64_t made;
    EVP_MD *md;
    EVP_MD_CTX *hash;
    struct git_ids ids; /* the number of an object is that of its id */
    struct git_object *list;
    size_t room;
    struct git_ids settled; /* git_objects_settle was told of them; in the store or not */
    struct git_ids bases;   /* ids that deltas wait for, and for each … */
    uint32_t *first;        /* … the first of them */
    size_t first_room;
    struct git_delta *pending;
    size_t npending, pending_room, pending_kept;
    struct git_due *due; /* objects whose deltas are still to be made */
    size_t ndue, due_room;
};

/* id_size: 20 (SHA-1) or 32 (SHA-256). `trees`: keep trees, too. `memory` is borrowed. 0, ERR_NOMEM, ERR_CRYPTO,
 * ERR_USAGE, ERR_LIMIT. */
int git_objects_init(struct git_objects *o, unsigned id_size, bool trees,
                     const struct git_objects_limits *limits, struct git_memory *memory);
void git_objects_release(struct git_objects *o); /* of a zeroed struct, too */

/* The object with this id, or NULL. Good until the next pack_feed. The empty tree, which git doesn't send, is always
 * there. */
const struct git_object *git_objects_find(const struct git_objects *o, const uint8_t *id);

/*
 * This commit and all of its history are the server's own: the tip of a ref before the push, the tip of a branch that
 * the sandbox can't push to, or history that the server said is part of theirs. It may be in the store or not. Walks that
 * ask what a push brings (git_objects_missing, git_changes.h) don't go beyond it; questions about ancestry do.
 * 0, ERR_NOMEM.
 */
int git_objects_settle(struct git_objects *o, const uint8_t *id);
/* Nothing is settled any more: what is the server's own for one ref of a push need not be for another. */
void git_objects_unsettle(struct git_objects *o);

/* Adds to `out` (a set of the store's id_size) the ids that deltas wait for, where the object is of at most `size` bytes.
 * 0, ERR_NOMEM. */
int git_objects_bases(const struct git_objects *o, uint64_t size, struct git_ids *out);

/* Bytes of the largest object that a pushed delta would make which still waits: it is a blob, for all that is known. */
uint64_t git_objects_largest_waiting(const struct git_objects *o);

enum git_answer {
    GIT_YES,     /* proved by the commits of the store */
    GIT_NO,      /* every line of history from `young` on was followed to its root: it is not */
    GIT_UNKNOWN, /* history leaves the store before it comes to `old`, or can't be read there */
};

/* Is `old` an ancestor of `young`, or the same? One of those that git_ancestry.h tells. 0, ERR_NOMEM. */
int git_objects_is_ancestor(const struct git_objects *o, const uint8_t *old, const uint8_t *young,
                            enum git_answer *answer);

/*
 * The commits that would have to be known for knowing all that `tips` bring: those that are reached from them, are not
 * settled, and are not in the store. They are added to `out` (both are sets of the store's id_size). None: all is known. A tag
 * in the store is followed to what it names. 0, ERR_NOMEM, ERR_PARSE.
 *
 * For a push: settle the old ids and the tips of the branches that count as the server's own, then ask for the new ids.
 * What comes out is where the pushed commits meet history. Ask the server for exactly these with `filter tree:0`, naming
 * what was settled as `have`: what it does not send of them is part of their history, so settle it; what it sends goes
 * into the store; repeat until nothing is missing.
 */
int git_objects_missing(const struct git_objects *o, const struct git_ids *tips, struct git_ids *out);

/*
 * Walks a commit's head: "tree ID", then "parent ID" for each parent. *at is 0 at first. The first call gives the tree,
 * each further one a parent. 0: `id` is filled. ERR_EOF: no more. ERR_PARSE.
 */
int git_commit_next(struct slice commit, unsigned id_size, size_t *at, uint8_t *id);

/* What a tag names: its id and the type it says. 0, ERR_PARSE. */
int git_tag_target(struct slice tag, unsigned id_size, uint8_t *id, enum git_type *type);

#endif
