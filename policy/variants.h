/*
 * One request of every kind that the conditions of rules tell apart: queries, headers and bodies beside one host, method
 * and path. Internal to policy/, for the tools (classes.h).
 *
 * The values that conditions name, one that none names, one of another type, and what can't be told for certain, in
 * all combinations; of lists (`labels[*]`, the fields of a GraphQL document) as many members at once as the conditions
 * could tell apart. The requests are whole ones, which judging reads as it reads a client's. What regular expressions
 * in conditions tell apart is not among it.
 */
#ifndef POLICY_VARIANTS_H
#define POLICY_VARIANTS_H

#include "policy/rule.h"

#define VARIANTS_MAX 4096

struct variants {
    const struct policy *const *policies; /* all whose rules count */
    size_t npolicies;
    /* The values of the query are what a log tells: one that is "*" is not known, the others are not varied. */
    bool logged;
    int (*found)(void *arg, const struct facts *f);
    void *arg;
    const char *unsure; /* set by variants_walk: why some may be missing; NULL: none is */
};

/* Hands over `base` with all that can be beside it; its slices are good for the call alone. Returns what `found`
 * returned other than 0, or ERR_NOMEM, or 0. */
int variants_walk(struct variants *v, const struct facts *base);

#endif
