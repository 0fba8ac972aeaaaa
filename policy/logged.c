/* Judging what a log tells of: every request that may have been behind it (variants.h). */
#include "policy/condition.h"
#include "policy/doors.h"
#include "policy/push_options.h"
#include "policy/tools.h"
#include "policy/variants.h"

struct guess {
    const struct policy *p;
    struct verdict first;
    bool some, differ;
};

static int judge_one(void *arg, const struct facts *f) {
    struct guess *g = arg;
    struct body_view view = {.read = false};
    struct verdict v;
    judge_rules(g->p, f, NULL, &view, &v);
    body_view_release(&view);
    if (!g->some)
        g->first = v;
    g->differ |= v.action != g->first.action ||
                 (v.action != VERDICT_DENY && !slice_eq(v.credential, g->first.credential));
    g->some = true;
    return 0;
}

/* Whether all that the rule asks of a request is in the log, or worked out by variants: regular expressions on what is
 * not in it are not, nor what a push changes, nor the values of its options. */
static bool told_of(const struct rule *r, const struct facts *f) {
    bool query = slice_find(f->query, '*') < 0;
    for (const struct condition *c = r->conditions; c; c = c->next)
        if (c->test == TREE_MATCHES && !(query && c->subject == TREE_QUERY))
            return false;
    return !r->brings && push_options_told(f, r);
}

/* The log does not tell all refs that were fetched: a rule about some of them, where fetches are kept to some. */
static bool fetches_some(const struct rule *r, bool kept_to_some) {
    return kept_to_some && r->action == TREE_FETCH && r->nrefs;
}

/* The first rule about the request, or a ref of it, that hangs on what the log does not tell. */
static void find_open(const struct policy *p, const struct facts *f, struct verdict_rule *on, bool *unclear) {
    bool batch = facts_lfs_batch(f) && f->lfs == FACTS_LFS_UNKNOWN;
    bool kept_to_some = f->refs_untold && policy_limits_fetch(p, f);
    *unclear = false;
    for (size_t i = 0; i < p->nrules; i++) {
        const struct rule *r = &p->rules[i];
        bool reaches = false, some = fetches_some(r, kept_to_some);
        if (!some && !r->conditions && told_of(r, f) && !(batch && r->action == TREE_LFS && r->ops_named))
            continue;
        /* what a deny says of some refs does not stop the fetch as a whole */
        reaches = some && judge_rule(p, f, NULL, i, NULL) >= STAGE_REF;
        for (size_t k = 0; k < (f->nrefs ? f->nrefs : 1) && !reaches; k++)
            reaches = judge_reaches(p, f, f->nrefs ? &f->refs[k] : NULL, i);
        if (!reaches)
            continue;
        if (on->index == 0)
            *on = r->where;
        *unclear |= some || !told_of(r, f);
    }
}

/* By the rules alone. */
static int judge_rules_logged(const struct policy *p, const struct facts *f, struct verdict *v, bool *told,
                              struct verdict_rule *on) {
    const struct policy *list[] = {p};
    struct guess g = {.p = p};
    struct variants variants = {
        .policies = list, .npolicies = 1, .logged = true, .found = judge_one, .arg = &g};
    bool unclear;
    judge_one(&g, f);
    *v = g.first;
    g.some = false;
    find_open(p, f, on, &unclear);
    if (on->index == 0)
        return 0;
    /* a ref that is denied is, whatever the others are */
    if (f->refs_untold && f->nrefs && v->action == VERDICT_DENY)
        return 0;
    /* a deny that asks for nothing more decides, whatever the others say */
    const struct rule *decides = v->rule.index ? &p->rules[v->rule.index - 1] : NULL;
    if (v->reason == REASON_DENIED_BY_RULE && !decides->conditions && told_of(decides, f))
        return 0;
    int r = variants_walk(&variants, f);
    *told = r == 0 && !unclear && !variants.unsure && !g.differ;
    if (*told)
        *v = g.first;
    return r;
}

int policy_judge_logged(const struct policy *p, const struct facts *f, struct verdict *v, bool *told,
                        struct verdict_rule *on) {
    struct verdict_rule permits;
    *on = (struct verdict_rule){.index = 0};
    *told = true;
    int r = judge_rules_logged(p, f, v, told, on);
    if (r || !*told || v->action == VERDICT_DENY || !doors_concern(f))
        return r;
    /* what it writes through a forge's API stands in its body, or is the forge's to tell */
    permits = v->rule;
    policy_judge(p, f, v);
    *told = v->action != VERDICT_DENY;
    if (!*told)
        *on = permits;
    return 0;
}
