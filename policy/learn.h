/*
 * From requests that were seen to the smallest policy that a person can read: what `exeat learn` writes.
 *
 * A part of a path (or of a ref) becomes `*` when three or more differ in it; one or two stay as they are. What comes
 * first, in a path or behind refs/heads/, stays unless ten or more differ, or three go on in the same way. What a careful
 * person would not permit stands commented out, with the reason.
 */
#ifndef POLICY_LEARN_H
#define POLICY_LEARN_H

#include "policy/policy.h"

#define LEARN_REQUESTS_MAX 100000 /* different ones */

struct learner;

struct learner *learner_new(void);
void learner_free(struct learner *l);

/* Notes one request (of a push every ref). `sent`: bytes of its body. `denied`: it was refused, for `why`. */
int learner_add(struct learner *l, const struct facts *f, struct slice credential, uint64_t sent, bool denied,
                struct slice why);

/* Appends the policy. `usual` says whether a host is one that such a command may be expected to speak to. */
int learner_write(struct learner *l, bool (*usual)(void *arg, enum url_scheme scheme, struct slice host),
                  void *arg, struct buf *out);

#endif
