/*
 * Push options (git push -o): a forge opens and merges by them ("merge_request.create", "topic=x"), so that a push rule
 * takes a push with options only if it names each of them. Those that write nothing anywhere (ci.skip) need no name.
 *
 * What stands behind a '%' in a ref of refs/for/ are options as well, as Gerrit has them: refs/for/main%submit.
 * Internal to policy/.
 */
#ifndef POLICY_PUSH_OPTIONS_H
#define POLICY_PUSH_OPTIONS_H

#include "policy/rule.h"

/* An allow needs every option to be named, a deny that names options one of them. */
bool push_options_match(const struct facts *f, const struct rule *r, const struct facts_ref *ref, bool loose);

/* The first option that an allow does not name; empty: there is none. */
struct slice push_option_open(const struct facts *f, const struct rule *r, const struct facts_ref *ref);

/* Whether an option has to be named at all. */
bool push_option_writes(struct slice option);

/* Whether the values of some are not known: a log has options as "topic=*". */
bool push_options_masked(const struct facts *f);

/* … and whether it makes no difference to the rule what they are. */
bool push_options_told(const struct facts *f, const struct rule *r);

#endif
