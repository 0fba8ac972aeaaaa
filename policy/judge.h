/*
 * Between judge.c and needs.c, which asks what a verdict would depend on. Internal to policy/.
 */
#ifndef POLICY_JUDGE_H
#define POLICY_JUDGE_H

#include "policy/condition.h"
#include "policy/rule.h"

/* A request, with what is worked out about it once. */
struct request {
    const struct policy *p;
    const struct facts *f;
    const bool *reach;
    struct slice repository;
    bool doubled;  /* the path holds "//" */
    bool encoded;  /* the path holds "%2F" */
    bool percent;  /* … any '%' */
    bool bodyless; /* conditions on bodies are taken to hold: does the verdict depend on one? */
    unsigned method_bit;
    const struct index_slot *lists[INDEX_LISTS_MAX];
    size_t nlists;
    struct body_view *view;
};

/* False if the verdict is known without looking at a rule. `reach` as judge's; `view` is the
 * caller's, to be released. */
bool judge_prepare(struct request *q, const struct policy *p, const struct facts *f, const bool *reach,
                   struct body_view *view, struct verdict *v);

/* How far a rule comes with the request, or with one ref of it; `loose`: as a deny reads it. */
enum stage judge_stage(struct request *q, const struct rule *r, const struct facts_ref *ref, bool loose);

/* The same for a rule about fetch or push and the repository alone. */
enum stage judge_git_stage(const struct request *q, const struct rule *r, enum tree_action action,
                           bool loose);

#endif
