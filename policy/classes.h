/*
 * One request of every class that the rules of one or two policies tell apart: what the tools judge to learn all that
 * a policy permits, or all in which two differ. Internal to policy/.
 *
 * Requests of one class are of one host pattern, scheme, port, method and operation, and every pattern of a path or a
 * ref takes all of them or none. So a verdict on the one that is handed over is the verdict on all of the class.
 */
#ifndef POLICY_CLASSES_H
#define POLICY_CLASSES_H

#include "policy/rule.h"

struct classes {
    const struct policy *const *policies;
    size_t npolicies;
    /* One request. Its slices are good for the call alone. */
    int (*found)(void *arg, const struct facts *f);
    /* What could not be enumerated, and why: classes of this host may be missing. May be NULL. */
    int (*unsure)(void *arg, struct slice host, const char *why);
    void *arg;
    /* what may be spent (CLASSES_EFFORT), and is taken from; NULL: as much as for these policies */
    uint64_t *effort;
    const struct rule *about; /* only hosts on which a verdict may hang on this rule; NULL: all */
    bool doors; /* requests to forges' APIs as well, which the push rules judge too (classes_doors.h) … */
    /* … also where all policies judge what they write alike, if `found` has set this since it was cleared for the origin:
     * verdicts on its classes hang on what is written */
    bool *hidden;
};

/* What is spent on policies with so many rules, in units of some 10 ns: more on more rules. Where it is used up,
 * `unsure` is called for the hosts that are left. */
#define CLASSES_EFFORT(rules) (UINT64_C(12000000) + UINT64_C(800000) * (rules))

/* Returns what a callback returned other than 0, or ERR_NOMEM, or 0. */
int classes_walk(const struct classes *c);

#endif
