/*
 * The smallest rule that would permit a request that is denied. Internal to policy/.
 *
 * Nothing is proposed that was not tried: the rule is added to the policy, to as much of it as may be about the request, and
 * the request is judged again, with what it writes through a forge's API. Several rules are proposed where it takes several.
 */
#ifndef POLICY_HINT_H
#define POLICY_HINT_H

#include "policy/rule.h"

/* policy_hint on a part of the policy (`reach`, see judge). *left: the verdict once all was tried that could be, so that it
 * tells which rule stands in the way; it may be NULL. */
int hint(const struct policy *p, const struct facts *f, const bool *reach, const struct verdict *v,
         struct buf *out, struct verdict *left);

/* --- hint_rule.c: a rule in words --------------------------------------------------------------------------- */

/* How narrow: what is left out, and what is put in, where the narrowest rule does not help. */
#define HINT_WIDE   (1u << 0) /* without conditions, and without what the push brings */
#define HINT_LENDER (1u << 1) /* with the credential that the other refs of the push get */
#define HINT_LEVELS 4

/* Appends the rule that permits the request as its kind asks, each line with a line break in front but for the first.
 * False: there is none, or none that is different from that of a lower level. */
bool hint_http(const struct policy *p, const struct facts *f, unsigned level, struct buf *out);
bool hint_git(const struct policy *p, const struct facts *f, unsigned level, struct buf *out);
bool hint_tunnel(const struct facts *f, unsigned level, struct buf *out);

/* hint_parts.c: parts of a rule that came close, turned so that they take this request (or push). False: nothing was
 * appended, since it has none or none that can be said. */
bool hint_conditions(const struct rule *r, const struct facts *f, struct buf *out);
bool hint_brought(const struct rule *r, const struct facts *f, const struct facts_ref *ref, struct buf *out);

#endif
