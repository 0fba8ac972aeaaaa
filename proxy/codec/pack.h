/*
 * A packfile, read as it streams by: framing of every object; contents of those that a store of objects wants
 * (git_objects.h: commits, tags, and trees if it keeps them), which go there as soon as they are complete.
 *
 *     pack_init - pack_feed … (ERR_INCOMPLETE) … pack_feed (0) - pack_release
 *
 * Blobs are inflated to find where the next object begins, and never kept; neither are deltas of blobs. What the pack
 * says about sizes is kept in numbers only. With a watch (watch.h) all that is inflated is also looked through for a
 * vault's secrets: files, commits, tags and trees whole, of deltas what they add.
 *
 * Hostile input is the rule. Every number is checked before it is used, what is kept is bounded by the store's limits,
 * what is only inflated by its ratio to what came in, and an object must inflate to the very size that its header says:
 * where this parser and a server's could disagree about where the pack ends, it is an error before that byte is
 * reached.
 */
#ifndef PROXY_CODEC_PACK_H
#define PROXY_CODEC_PACK_H

#include "proxy/codec/git_objects.h"
#include "proxy/codec/watch.h"

struct pack_limits {
    uint32_t objects;       /* in the pack */
    uint64_t inflate_free;  /* bytes that may come out of zlib, whatever went in; beyond them … */
    uint32_t inflate_ratio; /* … so many for each byte of the pack */
};

/* 50 million, 1 GiB, 200. */
void pack_limits_default(struct pack_limits *limits);

struct pack_place; /* what became of the object at an offset */

#define PACK_HEAD_MAX 20 /* of a delta: two sizes */
#define PACK_WHOLE                                                                                           \
    (256u << 10) /* bytes of a file that a watch can name by its id; longer ones by their length */

struct pack {
    /* results */
    uint32_t objects;      /* that the header announces */
    uint32_t objects_seen; /* complete ones */
    uint32_t deltas_lost;  /* deltas that are not kept: of blobs, or of what is not known */
    /* bytes of the largest blob. What a delta makes that is not kept counts as one; of those that wait in the store,
     * git_objects_largest_waiting knows */
    uint64_t largest;
    uint64_t consumed; /* bytes taken */
    uint64_t inflated; /* bytes that came out of zlib */
    struct errmsg error;

    /* to be set before the first byte, if at all */
    struct watch *watch; /* borrowed */
    bool nothing_kept;   /* nothing goes into the store */

    /* private */
    struct pack_limits limits;
    struct git_objects *into;
    char *whole; /* a short file, for the watch */
    bool pushed;
    int state;
    int err;
    EVP_MD_CTX *sum; /* of the pack */
    void *stream;    /* zlib's */
    struct pack_place *places;
    size_t nplaces, places_room;
    uint8_t small[GIT_ID_MAX]; /* header, base's id, trailer: gathered here */
    unsigned have;
    struct {
        uint64_t at;   /* offset of the object that is being read */
        uint64_t size; /* as its header says */
        uint64_t came; /* bytes inflated so far */
        uint64_t back; /* of an OFS delta */
        unsigned shift;
        unsigned type;
        size_t base;              /* place of an OFS delta's base */
        char *data;               /* NULL: not kept */
        char head[PACK_HEAD_MAX]; /* of a delta that is not kept */
    } now;
};

/* Objects go into `into`, which is borrowed until pack_release and says how long their ids are; `pushed`: they come from
 * the sandbox, not from the server. 0, ERR_NOMEM, ERR_CRYPTO. */
int pack_init(struct pack *p, struct git_objects *into, bool pushed,
              const struct pack_limits *limits) MUST_CHECK;
void pack_release(struct pack *p); /* of a zeroed struct, too; before the store */

/* Reads a cut. *used bytes were taken. 0: the pack is complete, its checksum is right, and what is left of `in` is not
 * its; every further call takes nothing and returns 0. ERR_INCOMPLETE: all was taken. ERR_PARSE, ERR_LIMIT, ERR_NOMEM,
 * ERR_CRYPTO: error says why; they stay. */
int pack_feed(struct pack *p, struct slice in, size_t *used) MUST_CHECK;

/* Have all objects been read, so that only (a part of) the checksum is missing, or nothing? Then the server, had it got
 * what was fed so far, could be a few bytes away from doing what it was asked to. */
bool pack_at_trailer(const struct pack *p);

#endif
