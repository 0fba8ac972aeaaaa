#include "policy/plain.h"

#include "policy/condition.h"
#include "policy/overlap.h"

bool plain_rule(const struct rule *r) {
    for (const struct condition *c = r->conditions; c; c = c->next)
        if (c->test == TREE_MATCHES)
            return false;
    return !r->target.regex && !r->brings && !r->npush_options;
}

bool plain_alike(const struct rule *a, const struct rule *b) {
    return a->verb == b->verb && slice_eq(a->credential, b->credential) && a->limit == b->limit &&
           a->limit_seconds == b->limit_seconds && a->max_body == b->max_body &&
           a->to_private == b->to_private && a->nnets == b->nnets &&
           (a->nnets == 0 || memcmp(a->nets, b->nets, a->nnets * sizeof *a->nets) == 0);
}

/* Whether two rules say the same with the same words, variables filled in. */
static bool plain_same(const struct rule *a, const struct rule *b) {
    return a->action == b->action && a->ops == b->ops && slice_eq(a->methods, b->methods) &&
           slice_eq(a->target.text, b->target.text) && slice_eq(a->refs_text, b->refs_text) &&
           slice_eq(a->options_text, b->options_text) && plain_alike(a, b);
}

static bool has_same(const struct policy *p, const struct rule *r) {
    for (size_t i = 0; i < p->nrules; i++)
        if (plain_same(&p->rules[i], r))
            return true;
    return false;
}

/* Whether some request could be of both; git's endpoints are also stopped by rules about methods. */
static bool touch(const struct rule *a, const struct rule *b) {
    if (a->action != b->action)
        return slice_eq(a->target.host, b->target.host) || a->target.host_kind != RULE_HOST_EXACT ||
               b->target.host_kind != RULE_HOST_EXACT;
    if (!overlap_possible(a, b))
        return false;
    if (a->target.regex || b->target.regex)
        return true;
    struct overlap o;
    overlap_init(&o);
    overlap_paths(&o, a, b);
    bool some = o.n || o.truncated;
    overlap_release(&o);
    return some;
}

int plain_undecided(const struct policy *const p[2], int (*told)(void *arg, const struct rule *r),
                    void *arg) {
    int result = 0;
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; result == 0 && i < p[k]->nrules; i++) {
            const struct rule *r = &p[k]->rules[i];
            if (plain_rule(r))
                continue;
            bool twin = has_same(p[!k], r), clear = twin;
            for (int m = 0; clear && m < 2; m++)
                for (size_t n = 0; clear && n < p[m]->nrules; n++)
                    clear = has_same(p[!m], &p[m]->rules[n]) || !touch(r, &p[m]->rules[n]);
            if (!clear && !(twin && k)) /* of two that are the same the old one is told */
                result = told(arg, r);
        }
    return result;
}
