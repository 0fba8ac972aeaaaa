/*
 * Theory of operation. One request of every class that the policy tells apart (classes.h) is held against each rule
 * by itself. A rule that no class matches never can; one beside which in every class another one says the same is
 * covered; a deny beside which no allow ever matches takes nothing away; what permits only where an earlier rule permits
 * in another way is shadowed. Before anything of that is said, it is proved: the policy without the rule must judge
 * every class, also those of a forge's API (classes_doors.h), as the policy with it does. What is not about classes
 * (credentials, methods, proofs) is looked at rule by rule.
 *
 * Only rules of files that the user named are spoken of: an included file is checked by naming it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "policy/check.h"
#include "policy/classes.h"
#include "policy/condition.h"
#include "policy/diff.h"
#include "policy/overlap.h"
#include "policy/plain.h"

#define EFFORT_LEAST  10000 /* with less nothing is proved any more */
#define SUSPICION_MAX 8192  /* bytes */

/* What was learned of one rule. */
struct learned {
    bool matches;    /* some class */
    bool bites;      /* an allow: where no deny matches; a deny: where an allow does */
    bool needed;     /* … and where no other rule says the same */
    bool together;   /* not one rule covers it but several */
    bool decides;    /* an allow: some verdict or its terms are this rule's */
    bool unsure;     /* not all that it is about could be followed */
    uint32_t before; /* an allow: the rule that decides where it might, index + 1; 0 none or several */
    bool many;       /* … several */
    uint32_t by; /* the rule that says the same, or (allow that never bites) denies; 0 none, else index + 1 */
};

struct matching {
    uint32_t list[256];
    size_t n;
};

/* What seems to be wrong with a rule, as it would be said. */
struct suspicion {
    const char *code; /* NULL: nothing */
    const char *hint;
    char text[SUSPICION_MAX];
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

/* Who decides in this class, of those that permit: the rule of the verdict, and where a person is asked about what
 * another permits, that one's terms. */
static void note_decision(struct survey *s, const struct facts *f, const struct matching *m) {
    struct verdict v;
    struct body_view view = {.read = false};
    uint32_t allow = UINT32_MAX;
    bool strictly = false; /* it matches as a rule that permits does, and gives the terms */
    judge_rules(s->p, f, NULL, &view, &v);
    body_view_release(&view);
    for (size_t k = 0; k < m->n; k++) {
        if (s->p->rules[m->list[k]].verb == TREE_ALLOW && m->list[k] < allow)
            allow = m->list[k];
        strictly |= m->list[k] + 1 == v.rule.index;
    }
    if (v.action == VERDICT_DENY || v.rule.index == 0)
        return;
    s->rules[v.rule.index - 1].decides = true;
    if (!strictly && allow != UINT32_MAX)
        s->rules[allow].decides = true;
    for (size_t k = 0; k < m->n; k++) {
        struct learned *rule = &s->rules[m->list[k]];
        rule->many |= rule->before && rule->before != v.rule.index;
        rule->before = v.rule.index;
    }
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
    note_decision(s, f, &m);
    return 0;
}

/* Whether a rule that permits and can't be followed may be about the same requests. */
static bool others_unclear(const struct policy *p, const struct rule *rule) {
    for (size_t i = 0; i < p->nrules; i++)
        if (!p->rules[i].deny && !plain_rule(&p->rules[i]) && plain_touch(&p->rules[i], rule))
            return true;
    return false;
}

/* Whether every verdict is the same without the rule. */
static int superfluous(const struct policy *p, uint32_t index, uint64_t *effort, bool *out) {
    struct policy without = *p;
    bool some = true;
    int r = ERR_NOMEM;
    *out = false;
    arena_init(&without.arena, SIZE_MAX);
    memset(&without.index, 0, sizeof without.index);
    without.rules = arena_alloc(&without.arena, p->nrules * sizeof *p->rules);
    if (without.rules) {
        memcpy(without.rules, p->rules, index * sizeof *p->rules);
        memcpy(without.rules + index, p->rules + index + 1, (p->nrules - index - 1) * sizeof *p->rules);
        without.nrules--;
        r = index_build(&without) ? diff_some(p, &without, &p->rules[index], effort, &some) : ERR_NOMEM;
    }
    arena_release(&without.arena);
    *out = r == 0 && !some;
    return r;
}

static int look_unsure(void *arg, struct slice host, const char *why) {
    struct survey *s = arg;
    (void)why;
    for (size_t i = 0; i < s->p->nrules; i++)
        s->rules[i].unsure |= overlap_host(&s->p->rules[i].target, host);
    return 0;
}

/* What seems wrong with a rule, and in which words; false: nothing. */
static bool suspect(const struct policy *p, const struct learned *all, uint32_t index, struct suspicion *s) {
    const struct rule *r = &p->rules[index];
    const struct learned *l = &all[index];
    *s = (struct suspicion){.hint = NULL};
    if (!plain_rule(r) || l->unsure)
        return false; /* what it takes can't be followed */
    if (!l->matches && !r->deny) {
        s->code = "never-matches";
        snprintf(s->text, sizeof s->text, "this rule can never match a request");
    } else if (!l->bites && r->deny) {
        s->code = others_unclear(p, r) ? NULL : "never-bites";
        s->hint = "no allow matches anything that this denies";
        snprintf(s->text, sizeof s->text, "this deny takes nothing away");
    } else if (!l->bites) {
        s->code = "always-denied";
        snprintf(s->text, sizeof s->text, "all that this allows is denied by other rules");
    } else if (!l->needed && l->by) {
        const struct rule *by = &p->rules[l->by - 1];
        const struct learned *its = &all[l->by - 1];
        /* each covers the other: told at the later one */
        bool mutual = !l->together && !its->needed && !its->together && its->by == index + 1;
        s->code = (mutual && l->by > index + 1) || (!r->deny && others_unclear(p, r)) ? NULL : "covered";
        if (l->together)
            snprintf(s->text, sizeof s->text, "other rules together cover this one");
        else
            snprintf(s->text, sizeof s->text, "%s:%u covers this rule", by->where.file, by->where.line);
    } else if (!r->deny && !l->decides && l->before) {
        const struct rule *by = &p->rules[l->before - 1];
        s->code = others_unclear(p, r) ? NULL : "shadowed";
        s->hint =
            "of rules that permit the first gives credential and limits, and `ask` comes before `allow`";
        if (l->many)
            snprintf(s->text, sizeof s->text, "earlier rules decide all that this permits, in another way");
        else
            snprintf(s->text, sizeof s->text, "%s:%u decides all that this permits, in another way",
                     by->where.file, by->where.line);
    }
    return s->code != NULL;
}

static int tell_rule(struct check *c, const struct learned *all, uint32_t index, uint64_t *effort) {
    struct suspicion s;
    bool proved;
    if (!suspect(c->p, all, index, &s))
        return 0;
    if (*effort == 0)
        return 0;
    int r = superfluous(c->p, index, effort, &proved);
    if (r == 0 && !proved && *effort < EFFORT_LEAST) {
        *effort = 0;
        return check_warn(
            c, &c->p->rules[index], "not-decided", NULL,
            "not decided, of this rule and those behind it, whether they are superfluous: to prove it "
            "takes too long");
    }
    return r || !proved ? r : check_warn(c, &c->p->rules[index], s.code, s.hint, "%s", s.text);
}

int check_classes(struct check *c) {
    struct survey s = {.p = c->p};
    const struct policy *list[] = {c->p};
    s.rules = calloc(c->p->nrules + 1, sizeof *s.rules);
    if (!s.rules)
        return ERR_NOMEM;
    struct classes classes = {
        .policies = list, .npolicies = 1, .found = look, .unsure = look_unsure, .arg = &s};
    uint64_t effort = CLASSES_EFFORT(2 * c->p->nrules);
    int r = classes_walk(&classes);
    for (size_t i = 0; r == 0 && i < c->p->nrules; i++)
        if (check_speaks_of(c, &c->p->rules[i]))
            r = tell_rule(c, s.rules, (uint32_t)i, &effort);
    free(s.rules);
    return r;
}
