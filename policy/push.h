/*
 * What a push brings, against the parts of a rule that are about it. Internal to policy/.
 *
 * An allow takes a push all of whose paths and identities match, that is within its limits, and all of whose commits are
 * signed if it says so; a deny takes one of which any path and any identity match (each by itself: they need not be of
 * one commit). What is not known is no match for an allow, and one for a deny. A deletion brings nothing.
 */
#ifndef POLICY_PUSH_H
#define POLICY_PUSH_H

#include "policy/rule.h"

/* What decided. */
struct push_finding {
    const struct facts_text *text; /* NULL: no text did */
    bool unknown;
};

/* STAGE_MATCH, or the first part of the rule that does not hold. *finding says by what; of a deny that matches it is what
 * matched. */
enum stage push_stage(const struct facts *f, const struct facts_ref *ref, const struct rule *r, bool loose,
                      struct push_finding *finding);

/* The parts of a rule that are about what is not known of the push. Returns how many. */
#define PUSH_PARTS 7
size_t push_unknown(const struct facts *f, const struct facts_ref *ref, const struct rule *r,
                    enum stage stages[PUSH_PARTS]);

/* "changes", "has the author": what is said of the text that a stage is about. NULL: it is about none. */
const char *push_how(enum stage stage);

/* The part of a rule that a stage is about: "paths", "max-size"; NULL: it is about no such part. */
const char *push_word(enum stage stage);

#endif
