/*
 * The one type that holds a secret.
 *
 * Its bytes live in memory of their own: whole pages, kept out of core dumps (MADV_DONTDUMP) and of children
 * (MADV_WIPEONFORK), locked against swapping where the limit permits it, and wiped when released. Small secrets share pages.
 * No function prints one, and no conversion to a string exists: a secret is copied into a message between our processes, or into
 * the bytes of a request on its way to the host it is bound to, and both are wiped by those who made them.
 *
 * Life cycle: zero-initialised is empty; secret_set - use - secret_release (wipes; also good on an empty one).
 */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include "base/err.h"
#include "base/slice.h"

/* Longer ones are refused: no header value or token is. */
#define SECRET_MAX 65536

struct secret {
    char *bytes;
    size_t n;
    size_t cap; /* room at `bytes`: as much as was asked for, or a little more */
};

/* Copies `value` in; an earlier value is wiped. 0, ERR_LIMIT or ERR_NOMEM; on failure the secret is empty. */
int secret_set(struct secret *s, struct slice value) MUST_CHECK;

/* Makes an empty secret with room for `cap` bytes, to be filled through `bytes` and `n` (readers of files and pipes). */
int secret_reserve(struct secret *s, size_t cap) MUST_CHECK;

void secret_release(struct secret *s);

/* Borrowed; good until the secret is changed or released. */
static inline struct slice secret_slice(const struct secret *s) {
    return (struct slice){s->bytes, s->n};
}

/* Overwrites memory so that no compiler removes it. */
void secret_wipe(void *p, size_t n);

/* Whether locking failed for want of RLIMIT_MEMLOCK; said once at start with -v. */
bool secret_unlocked(void);

#endif
