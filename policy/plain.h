/*
 * Which rules the tools can follow in all that they take. Internal to policy/.
 */
#ifndef POLICY_PLAIN_H
#define POLICY_PLAIN_H

#include "policy/rule.h"

/* Whether a rule is about host, method, patterns, operations and values alone: not about what a push changes, nor by a
 * regular expression. */
bool plain_rule(const struct rule *r);

/* Whether what the one permits it permits as the other does: credential, limits, networks. */
bool plain_alike(const struct rule *a, const struct rule *b);

/* Whether some request could be of both; where it can't be told it can. */
bool plain_touch(const struct rule *a, const struct rule *b);

/* Whether two rules say the same, whatever they are written with. */
bool plain_same(const struct rule *a, const struct rule *b);

/* Whether two verdicts of VERDICT_ALLOW and the like permit in the same way. */
bool plain_terms(const struct verdict *a, const struct verdict *b);

/*
 * Calls `told` for each rule of the two policies that is not plain, unless the other policy has the same and no rule
 * that touches it is in one of them alone, or comes before it in one and after it in the other.
 */
int plain_undecided(const struct policy *const p[2], int (*told)(void *arg, const struct rule *r), void *arg);

#endif
