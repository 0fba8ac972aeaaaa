/*
 * What two patterns, or two rules, have in common, written as patterns again. Internal to policy/, for the tools.
 */
#ifndef POLICY_OVERLAP_H
#define POLICY_OVERLAP_H

#include "policy/rule.h"

#define OVERLAP_MAX 8

/* What two patterns have in common is finitely many patterns. */
struct overlap {
    struct buf text; /* each with a NUL behind it */
    size_t n;
    bool truncated; /* there are more */
};

void overlap_init(struct overlap *o);
void overlap_release(struct overlap *o);

/* Adds what both take. `nocase`: letter case makes no difference (the letters of `a` are shown). */
void overlap_globs(struct overlap *o, const struct glob *a, const struct glob *b, bool nocase);

/* The pattern as it would be written, '$' as it stands. */
void overlap_put_glob(struct buf *out, const struct glob *g);

/* Whether some origin is common to both. */
bool overlap_origin(const struct rule *a, const struct rule *b);

/* Whether some host, scheme, port, method, ref and operation is common to both; paths are not looked at. */
bool overlap_possible(const struct rule *a, const struct rule *b);

/* Whether the target takes a host, or a pattern of hosts ("example.com" of "*.example.com") has some that it takes. */
bool overlap_host(const struct target *t, struct slice host);

/* Whether a request can be of both rules, one of which is a deny or an ask, read generously; conditions are not looked at,
 * and where it can't be told it can. */
bool overlap_loosely(const struct rule *a, const struct rule *b);

/* Adds the paths (for git the repositories) that both rules are about; "" if that is every path. */
void overlap_paths(struct overlap *o, const struct rule *a, const struct rule *b);

#endif
