#include "policy/plain.h"

#include "policy/condition.h"
#include "policy/overlap.h"

bool plain_rule(const struct rule *r) {
    for (const struct condition *c = r->conditions; c; c = c->next)
        if (c->test == TREE_MATCHES)
            return false;
    return !r->target.regex && !r->brings && !r->npush_options;
}

static bool has_net(const struct verdict_net *list, size_t n, const struct verdict_net *net) {
    for (size_t i = 0; i < n; i++)
        if (list[i].v6 == net->v6 && list[i].bits == net->bits &&
            memcmp(list[i].address, net->address, sizeof net->address) == 0)
            return true;
    return false;
}

/* In whatever order. */
static bool same_nets(const struct verdict_net *a, size_t n, const struct verdict_net *b, size_t m) {
    bool same = true;
    for (size_t i = 0; i < n; i++)
        same &= has_net(b, m, &a[i]);
    for (size_t i = 0; i < m; i++)
        same &= has_net(a, n, &b[i]);
    return same;
}

bool plain_alike(const struct rule *a, const struct rule *b) {
    return a->verb == b->verb && slice_eq(a->credential, b->credential) && a->limit == b->limit &&
           a->limit_seconds == b->limit_seconds && a->max_body == b->max_body &&
           a->to_private == b->to_private && same_nets(a->nets, a->nnets, b->nets, b->nnets);
}

bool plain_terms(const struct verdict *a, const struct verdict *b) {
    return slice_eq(a->credential, b->credential) && a->limit == b->limit &&
           a->limit_seconds == b->limit_seconds && a->max_body == b->max_body &&
           a->to_private == b->to_private && same_nets(a->nets, a->nnets, b->nets, b->nnets);
}

/* --- rules that say the same ------------------------------------------------------------------------------- */

static bool same_globs(const struct glob *a, size_t n, const struct glob *b, size_t m) {
    bool same = n == m;
    for (size_t i = 0; same && i < n; i++)
        same = a[i].n == b[i].n && memcmp(a[i].units, b[i].units, a[i].n * sizeof *a[i].units) == 0;
    return same;
}

static bool same_target(const struct target *a, const struct target *b) {
    return a->scheme == b->scheme && a->host_kind == b->host_kind && slice_eq(a->host, b->host) &&
           a->any_port == b->any_port && (a->any_port || a->port == b->port) &&
           a->regex_slash == b->regex_slash && regex_same(a->regex, b->regex) &&
           same_globs(a->paths, a->npaths, b->paths, b->npaths);
}

static bool same_conditions(const struct condition *a, const struct condition *b) {
    for (; a && b; a = a->next, b = b->next)
        if (!condition_same(a, b))
            return false;
    return a == b;
}

/* What a push brings. */
static bool same_brought(const struct rule *a, const struct rule *b) {
    return a->wants_signed == b->wants_signed && a->max_size == b->max_size && a->max_blob == b->max_blob &&
           a->max_commits == b->max_commits && same_globs(a->changes, a->nchanges, b->changes, b->nchanges) &&
           same_globs(a->authors, a->nauthors, b->authors, b->nauthors) &&
           same_globs(a->committers, a->ncommitters, b->committers, b->ncommitters) &&
           same_globs(a->push_options, a->npush_options, b->push_options, b->npush_options);
}

bool plain_same(const struct rule *a, const struct rule *b) {
    return a->action == b->action && a->ops == b->ops && a->ops_named == b->ops_named && a->also == b->also &&
           a->any_method == b->any_method && slice_eq(a->methods, b->methods) && a->body == b->body &&
           same_target(&a->target, &b->target) && same_globs(a->refs, a->nrefs, b->refs, b->nrefs) &&
           same_conditions(a->conditions, b->conditions) && same_brought(a, b) && plain_alike(a, b);
}

/* --- rules that can't be followed -------------------------------------------------------------------------- */

/* The first rule that says the same; nrules: none does. */
static size_t find_same(const struct policy *p, const struct rule *r) {
    size_t i = 0;
    while (i < p->nrules && !plain_same(&p->rules[i], r))
        i++;
    return i;
}

/* git's endpoints are also stopped by rules about methods */
bool plain_touch(const struct rule *a, const struct rule *b) {
    if (a->action != b->action)
        return overlap_origin(a, b);
    if (a->verb != TREE_ALLOW || b->verb != TREE_ALLOW)
        return overlap_loosely(a, b);
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

/* Whether the other policy has rule `r`, every rule that touches it, and has them in the same order where that makes a
 * difference. */
static bool followed(const struct policy *const p[2], int k, const struct rule *r) {
    size_t own = find_same(p[k], r), twin = find_same(p[!k], r);
    if (twin == p[!k]->nrules)
        return false;
    for (int m = 0; m < 2; m++)
        for (size_t n = 0; n < p[m]->nrules; n++) {
            const struct rule *other = &p[m]->rules[n];
            if (!plain_touch(r, other))
                continue;
            size_t here = find_same(p[k], other), there = find_same(p[!k], other);
            if (here == p[k]->nrules || there == p[!k]->nrules)
                return false;
            if (!r->deny && !other->deny && !plain_alike(r, other) && (here < own) != (there < twin))
                return false;
        }
    return true;
}

int plain_undecided(const struct policy *const p[2], int (*told)(void *arg, const struct rule *r),
                    void *arg) {
    int result = 0;
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; result == 0 && i < p[k]->nrules; i++) {
            const struct rule *r = &p[k]->rules[i];
            if (plain_rule(r) || followed(p, k, r))
                continue;
            /* of two that are the same the old one is told */
            if (k == 0 || find_same(p[0], r) == p[0]->nrules)
                result = told(arg, r);
        }
    return result;
}
