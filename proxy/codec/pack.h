/*
 * A packfile, read as it streams by: framing of every object, and the contents of its commits.
 *
 * For what a push does only the commits count. Blobs, trees and tags are inflated to find where the next object begins,
 * and never kept; neither are deltas of anything but a commit that the pack itself carries. A commit is kept whole and
 * known by the hash of its contents, so what it says about its parents is true whatever else the pack holds: an object
 * that is not understood here can only make a proof fail, never make one.
 *
 *     pack_init - pack_feed … (ERR_INCOMPLETE) … pack_feed (0) - pack_is_ancestor … - pack_release
 *
 * Hostile input is the rule. Every number is checked before it is used, what is kept is bounded by limits.memory, what
 * is only inflated by its ratio to what came in, and an object must inflate to the very size that its header says:
 * where this parser and a server's could disagree about where the pack ends, it is an error before that byte is
 * reached.
 */
#ifndef PROXY_CODEC_PACK_H
#define PROXY_CODEC_PACK_H

#include <openssl/evp.h>

#include "base/err.h"
#include "base/slice.h"

#define PACK_ID_MAX 32 /* bytes of a SHA-256 */

struct pack_limits {
    size_t memory;          /* for all that is kept */
    size_t commit;          /* bytes of one commit, or of a delta that makes one */
    uint32_t objects;       /* in the pack */
    uint32_t depth;         /* of deltas of commits */
    uint64_t inflate_free;  /* bytes that may come out of zlib, whatever went in; beyond them … */
    uint32_t inflate_ratio; /* … so many for each byte of the pack */
};

/* 256 MiB, 16 MiB, 50 million, 4095 (git's own), 1 GiB, 200. */
void pack_limits_default(struct pack_limits *limits);

/* One commit of the pack. */
struct pack_commit {
    uint64_t offset; /* of the object in the pack, what an OFS delta names it by */
    char *data;
    uint32_t size;
    uint32_t depth; /* of the chain of deltas that made it */
    uint8_t id[PACK_ID_MAX];
};

struct pack {
    /* results */
    uint32_t objects;      /* that the header announces */
    uint32_t objects_seen; /* complete ones */
    uint32_t deltas_open; /* deltas whose base the pack did not show as a commit: mostly of blobs and trees */
    size_t ncommits;
    size_t kept;       /* bytes of memory in use for commits */
    uint64_t consumed; /* bytes taken */
    uint64_t inflated; /* bytes that came out of zlib */
    struct errmsg error;

    /* private */
    struct pack_limits limits;
    unsigned id_size; /* 20 or 32 */
    int state;
    int err;
    EVP_MD *md;
    EVP_MD_CTX *sum;  /* of the pack */
    EVP_MD_CTX *hash; /* of one object */
    void *stream;     /* zlib's */
    struct pack_commit *commits;
    size_t room;
    uint32_t *table; /* open addressing, by id: number of the commit + 1 */
    size_t slots;
    uint8_t small[PACK_ID_MAX]; /* header, base's id, trailer: gathered here */
    unsigned have;
    struct {
        uint64_t at;   /* offset of the object that is being read */
        uint64_t size; /* as its header says */
        uint64_t came; /* bytes inflated so far */
        uint64_t back; /* of an OFS delta */
        unsigned shift;
        unsigned type;
        size_t base; /* number of the commit that a kept delta builds on */
        char *data;  /* NULL: not kept */
    } now;
};

/* id_size: 20 (SHA-1) or 32 (SHA-256) bytes. 0, ERR_NOMEM, ERR_CRYPTO, ERR_USAGE. */
int pack_init(struct pack *p, unsigned id_size, const struct pack_limits *limits);
void pack_release(struct pack *p); /* of a zeroed struct, too */

/* Reads a cut. *used bytes were taken. 0: the pack is complete, its checksum is right, and what is left of `in` is not
 * its; every further call takes nothing and returns 0. ERR_INCOMPLETE: all was taken. ERR_PARSE, ERR_LIMIT, ERR_NOMEM,
 * ERR_CRYPTO: error says why; they stay. */
int pack_feed(struct pack *p, struct slice in, size_t *used);

/* Have all objects been read, so that only (a part of) the checksum is missing, or nothing? Then the server, had it got
 * what was fed so far, could be a few bytes away from doing what it was asked to. */
bool pack_at_trailer(const struct pack *p);

/* The commit with this id (id_size bytes), or NULL. */
const struct pack_commit *pack_find(const struct pack *p, const uint8_t *id);

enum pack_answer {
    PACK_YES, /* proved by commits of the pack */
    PACK_NO, /* every line of history from `young` on was followed to its root inside of the pack: it is not */
    PACK_UNKNOWN, /* history leaves the pack before it comes to `old` */
};

/* Is `old` an ancestor of `young`, or the same? Ids in hexadecimal, as long as the pack's own. 0, ERR_NOMEM,
 * ERR_USAGE; ERR_PARSE: a commit on the way can't be read. */
int pack_is_ancestor(const struct pack *p, struct slice old, struct slice young, enum pack_answer *answer);

#endif
