/*
 * Looking for a vault's secrets in bytes that stream by, with nothing but their watchmarks (base/watchmark.h).
 *
 *     watch_init - (watch_feed … - watch_end, or watch_whole, or watch_delta … - watch_delta_end) … - watch_release
 *
 * A run is a row of bytes that belong together (a file); what is cut in two by the end of a run is not found. At every
 * byte the fingerprint of eight is taken, and looked up in a set: that is all that is done for most bytes, however
 * many secrets there are. Where a mark fits, the whole that it belongs to, which is still at hand, is digested and becomes
 * a hit: a place that looks like a secret. The keeper tells which of them are (vault/client.h: vault_ask_spot). The same
 * bytes are a hit once.
 *
 * Of a delta the bytes are seen that it adds; those that it copies are its base's, and out of sight. What it adds in one
 * place is a run, and there the second half of a secret counts, too, since the beginnings of two tokens are often alike
 * (github_pat_…, the head of a JWT). A secret whose second half the delta puts together of pieces is not found.
 *
 * Hostile input: memory is bounded by the longest secret. Bytes made to look like a secret in many places cost no more
 * than digesting all of them a few times, then it is ERR_LIMIT.
 */
#ifndef PROXY_CODEC_WATCH_H
#define PROXY_CODEC_WATCH_H

#include "base/watchmark.h"
#include "proxy/codec/git_ids.h"

/* What is looked for: shared by any number of watches, never changed. */
struct watch_table;

/* 0, ERR_NOMEM. `marks` is copied. */
int watch_table_new(const struct watch_key *key, const struct watchmark *marks, size_t n,
                    struct watch_table **out);
void watch_table_free(struct watch_table *table); /* NULL is fine */

#define WATCH_HITS_MAX 64 /* of one watch */

/* Where a hit is, in the words of whoever feeds. */
struct watch_place {
    uint8_t type; /* enum git_type; 0: what a delta makes */
    uint8_t id_size;
    uint8_t id[GIT_ID_MAX]; /* id_size 0: not known */
    uint64_t size;          /* of the object; of a delta, of what it makes */
};

struct watch_hit {
    uint32_t mark; /* its number */
    uint8_t digest[WATCH_DIGEST_SIZE];
    struct watch_place place;
};

struct watch {
    struct watch_hit hits[WATCH_HITS_MAX];
    size_t nhits;
    uint64_t makes; /* bytes that the delta that is being read makes; 0 while that is not known */

    /* private */
    const struct watch_table *table;
    struct git_memory *memory;
    char *window; /* the last bytes of the run */
    size_t n, cap;
    size_t at; /* the end of the next eight bytes to look at */
    uint64_t seen, digested;
    bool parts;
    int err;
    struct {
        uint8_t state, shift, wants;
        unsigned left;
        uint64_t number;
        bool run;
    } delta;
};

/* `table` and `memory` are borrowed until watch_release; the second (NULL: nobody counts) is the account for what is kept. 0,
 * ERR_NOMEM; ERR_LIMIT: there is no room in it. */
int watch_init(struct watch *w, const struct watch_table *table, struct git_memory *memory) MUST_CHECK;
void watch_release(struct watch *w); /* of a zeroed struct, too */

/* More of a run, and its end; a run that is at hand as a whole. 0; ERR_LIMIT: too much looks like a secret; ERR_CRYPTO. These
 * stay. */
int watch_feed(struct watch *w, struct slice bytes) MUST_CHECK;
int watch_end(struct watch *w) MUST_CHECK;
int watch_whole(struct watch *w, struct slice bytes) MUST_CHECK;

/* More of a delta, and its end. The same; ERR_PARSE: it is malformed. */
int watch_delta(struct watch *w, struct slice bytes);
int watch_delta_end(struct watch *w);

#endif
