/*
 * The last decisions of a sandbox, for `exeat.internal/why/ID`.
 *
 * They lie in a memfd that the workers of the sandbox share, since the connection that asks may be another worker's than
 * the one that was judged. No lock is taken: a worker that dies halfway blocks nobody, and loses one entry at most.
 * Records hold no secret, and no more of a push than its first refs are kept.
 *
 * Each function accepts NULL: nothing is remembered then.
 */
#ifndef PROXY_RECORD_WHY_H
#define PROXY_RECORD_WHY_H

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "base/ulid.h"
#include "proxy/record/record.h"

#define WHY_RECENT  (1u << 8)  /* decisions that can be asked for at most */
#define WHY_ERRANDS 8          /* of one decision */
#define WHY_BYTES   (1u << 18) /* of all of them; only what was written to takes memory */

struct why;

/* 0, ERR_IO or ERR_NOMEM. */
int why_new(struct why **out, struct errmsg *msg);
/* What another process made; `fd` is taken, in every case. ERR_PEER if it is none. */
int why_attach(int fd, struct why **out, struct errmsg *msg);
/* Borrowed: the descriptor to hand to other processes. */
int why_fd(const struct why *why);
void why_free(struct why *why);

/* In what follows `encoded` is the record as record_encode has it, if that is at hand already: else SLICE_NONE. */

/* Remembers what exeat itself asked a server for the sake of a decision that is to come (errand.h). `first`: it is the
 * first such request. */
void why_errand(struct why *why, const struct record *r, struct slice encoded, bool first);
/* Remembers a verdict, with the smallest rule that would have let it through (may be empty). `asked`: errands were
 * remembered for it. */
void why_verdict(struct why *why, const struct record *r, struct slice encoded, struct slice hint,
                 bool asked);
/* Remembers the outcome of a verdict that this process has remembered. */
void why_outcome(struct why *why, const struct record *r, struct slice encoded);

/* One decision as it was remembered. */
struct why_entry {
    struct buf record;               /* record_encode's bytes of the verdict */
    struct buf hint;                 /* may be empty */
    struct buf outcome;              /* the same of the outcome; empty: the answer has not ended */
    struct buf errands[WHY_ERRANDS]; /* the same of the first nerrands errands */
    size_t nerrands, errands_omitted;
};

/* False: not among the last. Otherwise the caller releases *out. */
bool why_find(const struct why *why, const struct ulid *id, struct why_entry *out);
void why_entry_release(struct why_entry *e);

#endif
