/*
 * Theory of operation. One request of every class that the policy tells apart (classes.h) is held against each rule
 * by itself. A rule that no class matches never can; one beside which in every class another one says the same is
 * covered; a deny beside which no allow ever matches takes nothing away. What is not about classes (credentials,
 * methods, proofs) is looked at rule by rule.
 *
 * Only rules of files that the user named are spoken of: an included file is checked by naming it.
 */
#include <stdlib.h>

#include "policy/check.h"
#include "policy/classes.h"
#include "policy/overlap.h"
#include "policy/plain.h"

/* What was learned of one rule. */
struct learned {
    bool matches;  /* some class */
    bool bites;    /* an allow: where no deny matches; a deny: where an allow does */
    bool needed;   /* … and where no other rule says the same */
    bool together; /* not one rule covers it but several */
    bool unsure;   /* not all that it is about could be followed */
    uint32_t by; /* the rule that says the same, or (allow that never bites) denies; 0 none, else index + 1 */
};

struct matching {
    uint32_t list[256];
    size_t n;
};

struct survey {
    const struct policy *p;
    struct learned *rules;
};

static void match_all(const struct policy *p, const struct facts *f, struct matching *m) {
    const struct index_slot *lists[INDEX_LISTS_MAX];
    size_t n = index_find(&p->index, f->host, f->host_is_address, lists);
    m->n = 0;
    for (size_t l = 0; l < n; l++)
        for (uint32_t k = 0; k < lists[l]->n; k++) {
            uint32_t i = lists[l]->rules[k];
            if (judge_rule(p, f, f->nrefs ? &f->refs[0] : NULL, i, NULL) == STAGE_MATCH &&
                m->n < sizeof m->list / sizeof *m->list)
                m->list[m->n++] = i;
        }
}

/* Of the others that say the same as rule i in this class: keeps in `by` one that did in all classes so far. */
static void note_cover(struct learned *rule, const struct matching *m, const bool *same) {
    bool again = false;
    uint32_t other = 0;
    for (size_t k = 0; k < m->n; k++) {
        if (!same[k])
            continue;
        again |= rule->by == m->list[k] + 1;
        if (!other)
            other = m->list[k] + 1;
    }
    if (!other) {
        rule->needed = true;
        return;
    }
    if (rule->by && !again)
        rule->together = true;
    if (!rule->by)
        rule->by = other;
}

static int look(void *arg, const struct facts *f) {
    struct survey *s = arg;
    const struct policy *p = s->p;
    struct matching m;
    bool denied = false, allowed = false;
    match_all(p, f, &m);
    for (size_t k = 0; k < m.n; k++) {
        const struct rule *r = &p->rules[m.list[k]];
        denied |= r->deny && plain_rule(r);
        allowed |= !r->deny;
    }
    for (size_t k = 0; k < m.n; k++) {
        const struct rule *r = &p->rules[m.list[k]];
        struct learned *rule = &s->rules[m.list[k]];
        bool same[sizeof m.list / sizeof *m.list];
        rule->matches = true;
        for (size_t o = 0; o < m.n; o++) {
            const struct rule *other = &p->rules[m.list[o]];
            same[o] = o != k && plain_rule(other) && plain_alike(other, r);
        }
        if (r->deny ? allowed : !denied) {
            if (!rule->bites) /* what was noted before was about a rule that does not bite */
                rule->by = rule->together = 0;
            rule->bites = true;
            note_cover(rule, &m, same);
        }
    }
    return 0;
}

/* Whether an allow that can't be followed is about the same host: then a deny may bite there. */
static bool others_unclear(const struct policy *p, const struct rule *deny) {
    for (size_t i = 0; i < p->nrules; i++)
        if (!p->rules[i].deny && !plain_rule(&p->rules[i]) && overlap_possible(&p->rules[i], deny))
            return true;
    return false;
}

static int look_unsure(void *arg, struct slice host, const char *why) {
    struct survey *s = arg;
    (void)why;
    for (size_t i = 0; i < s->p->nrules; i++)
        s->rules[i].unsure |= overlap_host(&s->p->rules[i].target, host);
    return 0;
}

static int tell_rule(struct check *c, const struct learned *all, uint32_t index) {
    const struct policy *p = c->p;
    const struct rule *r = &p->rules[index];
    const struct learned *l = &all[index];
    if (!plain_rule(r) || l->unsure)
        return 0; /* what it takes can't be followed */
    if (!l->matches && !r->deny)
        return check_warn(c, r, "never-matches", NULL, "this rule can never match a request");
    if (!l->bites && r->deny && others_unclear(p, r))
        return 0;
    if (!l->bites && r->deny)
        return check_warn(c, r, "never-bites", "no allow matches anything that this denies",
                          "this deny takes nothing away");
    if (!l->bites)
        return check_warn(c, r, "always-denied", NULL, "all that this allows is denied by other rules");
    if (l->needed || !l->by)
        return 0;
    const struct rule *by = &p->rules[l->by - 1];
    const struct learned *its = &all[l->by - 1];
    if (!l->together && !its->needed && !its->together && its->by == index + 1 && l->by > index + 1)
        return 0; /* each covers the other: told at the later one */
    if (l->together)
        return check_warn(c, r, "covered", NULL, "other rules together cover this one");
    return check_warn(c, r, "covered", NULL, "%s:%u covers this rule", by->where.file, by->where.line);
}

int check_classes(struct check *c) {
    struct survey s = {.p = c->p};
    const struct policy *list[] = {c->p};
    s.rules = calloc(c->p->nrules + 1, sizeof *s.rules);
    if (!s.rules)
        return ERR_NOMEM;
    struct classes classes = {
        .policies = list, .npolicies = 1, .found = look, .unsure = look_unsure, .arg = &s};
    int r = classes_walk(&classes);
    for (size_t i = 0; r == 0 && i < c->p->nrules; i++)
        if (check_speaks_of(c, &c->p->rules[i]))
            r = tell_rule(c, s.rules, (uint32_t)i);
    free(s.rules);
    return r;
}
