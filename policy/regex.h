/*
 * Regular expressions (`~`): PCRE2, anchored at both ends, on bytes (no UTF), without JIT, which a confined worker's
 * W^X does not permit. Internal to policy/.
 *
 * Every match is bounded in steps, depth and memory, whatever pattern and text are; one that meets a bound is neither
 * a match nor none (TRI_UNKNOWN): an allow does not take it, a deny does.
 */
#ifndef POLICY_REGEX_H
#define POLICY_REGEX_H

#include "policy/vars.h"

#define REGEX_TEXT_MAX 2048 /* bytes of a pattern, variables filled in */

struct regex;

/* The pattern in e->c[from…to). What came out of a variable stands for itself. False after an error that has been
 * reported. It is freed with the policy. */
bool regex_compile(struct compiler *c, const struct expanded *e, size_t from, size_t to, bool caseless,
                   const struct regex **out);

/* Whether two were compiled from the same text in the same way. */
bool regex_same(const struct regex *a, const struct regex *b);

enum tri regex_match(const struct regex *re, struct slice text);

/* Frees those of a policy. */
void regex_release(struct policy *p);

#endif
