/* What rules say of refs: which they take, and whether fetches from a repository are kept to some. */
#include "policy/doors.h"
#include "policy/rule.h"

bool rule_takes_ref(const struct rule *r, struct slice name, bool loose) {
    if (r->nrefs == 0 || name.n == 0)
        return doors_unknown_ref(r, loose);
    for (size_t i = 0; i < r->nrefs; i++)
        if (glob_match(&r->refs[i], name, loose ? GLOB_NOCASE : 0))
            return true;
    return false;
}

bool policy_may_push_to(const struct policy *p, const struct facts *f, struct slice ref) {
    struct facts_ref one = {.name = ref};
    struct facts any = *f;
    struct verdict v;
    any.refs = &one;
    any.nrefs = 1;
    any.options = NULL; /* another push had others, and one without any may do the most */
    any.noptions = 0;
    any.unread = true;
    for (unsigned op = FACTS_CREATE; op <= FACTS_FORCE; op++) {
        one.op = (enum facts_op)op;
        judge(p, &any, NULL, &v);
        if (v.action != VERDICT_DENY)
            return true;
    }
    return false;
}

bool policy_limits_fetch(const struct policy *p, const struct facts *f) {
    struct facts whole = *f;
    const struct index_slot *lists[INDEX_LISTS_MAX];
    struct verdict v;
    bool some = false;
    if (!p->limits_fetches || f->kind != FACTS_GIT_FETCH)
        return false;
    whole.refs = NULL;
    whole.nrefs = 0;
    whole.extra = FACTS_PLAIN;
    judge(p, &whole, NULL, &v);
    size_t n = index_find(&p->index, f->host, f->host_is_address, lists);
    for (size_t l = 0; l < n; l++)
        for (uint32_t k = 0; k < lists[l]->n; k++) {
            const struct rule *r = &p->rules[lists[l]->rules[k]];
            if (r->action != TREE_FETCH)
                continue;
            enum stage s = judge_rule(p, &whole, NULL, lists[l]->rules[k], NULL);
            if (r->deny && r->nrefs && s == STAGE_REF)
                return true; /* the repository is the one that it is about */
            some |= !r->deny && r->nrefs == 0 && s == STAGE_MATCH && slice_eq(r->credential, v.credential);
        }
    return !some;
}
