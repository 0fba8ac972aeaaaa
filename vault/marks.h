/*
 * By what the vault's secrets are recognised in what a sandbox sends (base/watchmark.h): marks, which every worker
 * gets, and beside each the digest that tells whether a place that one was found at holds the secret, which stays here.
 *
 * A secret is looked for as it is, and as a part of whatever is written in base64: in three ways, by where in a group of
 * three bytes it begins, which covers "user:secret", too, and all of that also in the alphabet for URLs. Of each that is
 * long enough the second half has a mark of its own. Not looked for: what is shorter than WATCH_LEAST bytes, and what
 * repeats itself so that any text may hold a part of it ("aaaaaaaaaaaa").
 *
 * All secrets of the vault count, whether or not a sandbox was granted them: one that no rule lends is not to be given away
 * either.
 */
#ifndef VAULT_MARKS_H
#define VAULT_MARKS_H

#include "base/msg.h"
#include "base/watchmark.h"

struct marks;

enum marks_form { MARKS_PLAIN, MARKS_BASE64, MARKS_FORMS };

/* 0, ERR_NOMEM, ERR_CRYPTO. */
int marks_new(struct marks **out) MUST_CHECK;
void marks_free(struct marks *marks); /* NULL is fine */

/* Adds what credential `number` is recognised by; earlier ones of it stay. 0; ERR_UNSUPPORTED: it can't be looked for;
 * ERR_NOMEM, ERR_LIMIT, ERR_CRYPTO: none or some were added. */
int marks_add(struct marks *marks, uint32_t number, struct slice secret) MUST_CHECK;

/* Whose mark `mark` is, if `digest` is the right one for it; in time that does not depend on where they differ. False: it
 * is not, or there is no such mark. */
bool marks_confirm(const struct marks *marks, uint32_t mark, struct slice digest, uint32_t *number,
                   enum marks_form *form);

/* Writes the fields of VAULT_MARKS (vault/wire.h) for the marks from `from` on, as many as fit. NULL: there are none. */
void marks_put(const struct marks *marks, uint32_t from, struct msg_out *m);

/* What a worker knows of them. Zero-initialised is empty. */
struct marks_told {
    struct watch_key key;
    struct watchmark *list;
    uint32_t n, total;
};

/* Reads one such message: they come in order. 0, and all are there when n == total; ERR_PEER, ERR_NOMEM. */
int marks_get(struct msg_in *m, struct marks_told *told) MUST_CHECK;
void marks_told_release(struct marks_told *told);

#endif
