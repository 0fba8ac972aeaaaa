/*
 * What a server handed out for one sandbox, kept for the requests that it belongs to: the header fields, tokens mostly,
 * that the answer to a batch of Git LFS names for each transfer. The sandbox gets a stand-in.
 *
 * Why here, in the keeper. A worker has read them, but the connections of a sandbox come to all workers, so that the
 * transfer is likely another one's: somebody has to hold them for all. Shared memory would show every worker all of
 * them at any time; this way one at a time is asked for, by who already has the request. And what has to be secret stays
 * in one type, in one process. The keeper reads nothing of what it keeps: a key and a value, both bytes.
 *
 * An upload is kept whether or not it needs a field, so that it is recognised when it comes: a value may be empty.
 *
 * A key is the digest of what the value is for (sandbox, method, URL), 32 bytes. Values end by themselves, and with
 * the sandbox. When a sandbox has KEPT_MAX of them, or KEPT_BYTES together, the oldest go.
 *
 * Life cycle: zero-initialised is empty; kept_release wipes all, and leaves it empty.
 */
#ifndef VAULT_KEPT_H
#define VAULT_KEPT_H

#include "base/err.h"
#include "base/secret.h"

#define KEPT_KEY_SIZE    32
#define KEPT_VALUE_MAX   16384
#define KEPT_MAX         1024
#define KEPT_BYTES       (1u << 20)
#define KEPT_SECONDS_MAX 86400

struct kept_entry;

/* Of one sandbox. */
struct kept {
    struct kept_entry *first, **last;
    size_t n, bytes;
};

/* 0; ERR_LIMIT (a value too long), ERR_USAGE (no such key), ERR_NOMEM. A value of the same key is replaced. `seconds`
 * beyond KEPT_SECONDS_MAX are cut. Times are monotonic. */
int kept_put(struct kept *k, struct slice key, struct slice value, uint32_t seconds, uint64_t now_ms);

/* The value, borrowed until the next call; p NULL: none, or its time is over. */
struct slice kept_find(struct kept *k, struct slice key, uint64_t now_ms);

void kept_release(struct kept *k);

#endif
