/*
 * Theory of operation. One request of every class that the two policies tell apart (classes.h) is judged by both.
 * Those judged differently are put together by the rules that decided, and each group is shown with what the rule is
 * about, an example, and the patterns on which another rule keeps the verdict as it was.
 */
#include <stdio.h>
#include <stdlib.h>

#include "policy/condition.h"
#include "policy/diff.h"
#include "policy/doors.h"
#include "policy/overlap.h"
#include "policy/plain.h"
#include "policy/print.h"

/* --- collecting -------------------------------------------------------------------------------------------- */

static enum change change_of(const struct verdict *a, const struct verdict *b) {
    if (a->action == VERDICT_DENY)
        return CHANGE_GAIN;
    return b->action == VERDICT_DENY ? CHANGE_LOSS : CHANGE_OTHER;
}

static bool differ(const struct verdict *a, const struct verdict *b) {
    return a->action != b->action || (a->action != VERDICT_DENY && !plain_terms(a, b));
}

/* Both permit it with the same limit. Whether they count it with the same other requests: what one rule counts in one
 * policy is counted by one rule in the other. */
static bool counted_alike(struct diff *d, const struct verdict *a, const struct verdict *b) {
    uint32_t *there = &d->twin[0][a->limit_id], *back = &d->twin[1][b->limit_id];
    if (a->action == VERDICT_DENY || a->limit == 0)
        return true;
    if (*there == 0 && *back == 0) {
        *there = b->limit_id;
        *back = a->limit_id;
    }
    return *there == b->limit_id && *back == a->limit_id;
}

static struct group *group_of(struct diff *d, const struct facts *f, const struct verdict *a,
                              const struct verdict *b) {
    for (size_t i = 0; i < d->n; i++) {
        struct group *g = &d->groups[i];
        if (g->change == change_of(a, b) && g->kind == f->kind && g->extra == f->extra &&
            g->before.rule.index == a->rule.index && g->after.rule.index == b->rule.index)
            return g;
    }
    return NULL;
}

static void note_method(struct group *g, const struct facts *f) {
    if (f->kind == FACTS_GIT_PUSH && f->nrefs)
        g->ops |= 1u << f->refs[0].op;
    if (g->rule->action == TREE_LFS)
        g->ops |= 1u << facts_lfs_operation(f);
    if (f->kind != FACTS_HTTP || g->nmethods == METHODS_MAX)
        return;
    for (size_t i = 0; i < g->nmethods; i++)
        if (slice_eq(slice_str(g->methods[i]), f->method))
            return;
    snprintf(g->methods[g->nmethods++], sizeof g->methods[0], "%.*s", SLICE_ARG(f->method));
}

/* A pattern with something in each wildcard's place. */
static void fill(struct buf *out, const struct glob *g) {
    for (size_t i = 0; i < g->n; i++) {
        if (g->units[i] >= GLOB_STAR)
            buf_puts(out, g->units[i] == GLOB_STAR ? "x" : "x/y");
        else
            overlap_put_glob(out, &(struct glob){.units = g->units + i, .n = 1});
    }
}

/* Whether a request can have this path, in just this spelling. */
static bool proper(struct slice path) {
    struct buf canonical;
    buf_init(&canonical, 1 << 16);
    bool good =
        url_path_canonical(path, &canonical, NULL, NULL) == 0 && slice_eq(buf_slice(&canonical), path);
    buf_release(&canonical);
    return good;
}

/* The example, told by the rule's own pattern if what that gives is judged as the class is: "/a/x" reads better than
 * "/a/". */
static void put_example(struct diff *d, const struct group *g, const struct facts *f, struct buf *out) {
    struct buf path, ref;
    struct facts nice = *f;
    struct facts_ref nice_ref = f->nrefs ? f->refs[0] : (struct facts_ref){.op = FACTS_CREATE};
    struct verdict a, b;
    buf_init(&path, 1 << 16);
    buf_init(&ref, 1 << 16);
    if (g->rule->target.npaths) {
        fill(&path, &g->rule->target.paths[0]);
        if (g->rule->action == TREE_LFS)
            buf_printf(&path, ".git/info/lfs/objects/%s", slice_eq(f->method, SLICE("PUT")) ? "x" : "batch");
        else if (f->kind != FACTS_HTTP)
            buf_put(&path, slice_from(f->path, facts_repository(f->path).n));
        nice.path = buf_slice(&path);
    }
    if (f->nrefs && g->rule->nrefs) {
        fill(&ref, &g->rule->refs[0]);
        nice_ref.name = buf_slice(&ref);
        nice.refs = &nice_ref;
    }
    policy_judge(d->p[0], &nice, &a);
    policy_judge(d->p[1], &nice, &b);
    bool good = differ(&a, &b) && change_of(&a, &b) == g->change && a.rule.index == g->before.rule.index &&
                b.rule.index == g->after.rule.index && !path.failed && !ref.failed && proper(nice.path);
    print_request_whole(out, good ? &nice : f);
    buf_release(&path);
    buf_release(&ref);
}

static int unsure(void *arg, struct slice host, const char *why) {
    struct diff *d = arg;
    char text[EXAMPLE_MAX];
    snprintf(text, sizeof text, "%.*s: %s", SLICE_ARG(host), why);
    for (size_t i = 0; i < d->nunsure; i++)
        if (strcmp(d->unsure[i], text) == 0)
            return 0;
    if (d->nunsure == UNSURE_MAX)
        return 0;
    d->unsure[d->nunsure] = slice_dup(slice_str(text));
    return d->unsure[d->nunsure++] ? 0 : ERR_NOMEM;
}

static int add_group(struct diff *d, const struct facts *f, const struct verdict *a,
                     const struct verdict *b) {
    struct group *g = &d->groups[d->n];
    if (d->n == GROUPS_MAX)
        return ERR_LIMIT;
    d->n++;
    *g = (struct group){
        .change = change_of(a, b), .before = *a, .after = *b, .kind = f->kind, .extra = f->extra};
    bool after = g->change != CHANGE_LOSS;
    g->rule = &d->p[after]->rules[(after ? b : a)->rule.index - 1];
    note_method(g, f);
    struct buf text;
    buf_init(&text, 1 << 16);
    put_example(d, g, f, &text);
    g->example = slice_dup(buf_slice(&text));
    buf_clear(&text);
    if (g->change != CHANGE_OTHER)
        policy_explain(d->p[!after], f, after ? a : b, 1, &text);
    g->was = slice_dup(buf_slice(&text));
    buf_release(&text);
    return g->example && g->was ? 0 : ERR_NOMEM;
}

/* Of a push of several refs the first of the rules that permit them gives the terms. Both policies permit this one alike:
 * were two of one repository permitted by rules that stand the other way round? */
static int note_order(struct diff *d, const struct facts *f, const struct verdict *a,
                      const struct verdict *b) {
    int result = 0;
    if (f->nrefs == 0 || a->action == VERDICT_DENY)
        return 0;
    if (!slice_eq(f->path, buf_slice(&d->path))) {
        buf_clear(&d->path);
        buf_put(&d->path, f->path);
        d->norder = 0;
    }
    for (size_t i = 0; result == 0 && i < d->norder; i++) {
        const struct verdict *x = &d->order[i][0], *y = &d->order[i][1];
        if (x->action == a->action && slice_eq(x->credential, a->credential) && !plain_terms(x, a) &&
            (x->rule.index < a->rule.index) != (y->rule.index < b->rule.index))
            result = unsure(
                d, f->host,
                "which of its rules gives the limits for a push of several refs, for their order changes");
    }
    for (size_t i = 0; i < d->norder; i++)
        if (d->order[i][0].rule.index == a->rule.index && d->order[i][1].rule.index == b->rule.index)
            return result;
    if (d->norder == ORDER_MAX)
        return result ? result : unsure(d, f->host, "too many rules permit pushes to one repository");
    d->order[d->norder][0] = *a;
    d->order[d->norder++][1] = *b;
    return result;
}

/* Judges it by both policies, and notes how they differ. */
static int compare(struct diff *d, const struct facts *f, bool *differs) {
    struct verdict a, b;
    policy_judge(d->p[0], f, &a);
    policy_judge(d->p[1], f, &b);
    bool terms = differ(&a, &b), counts = !terms && !counted_alike(d, &a, &b);
    *differs = terms || counts;
    if (!*differs)
        return note_order(d, f, &a, &b);
    struct group *g = group_of(d, f, &a, &b);
    if (g)
        note_method(g, f);
    int r = g ? 0 : add_group(d, f, &a, &b);
    if (r == 0 && !g)
        d->groups[d->n - 1].counts = counts;
    return r;
}

/* The rules differ on the class, the verdicts on this request do not, for what it writes is refused (or can't be told) by
 * both. Others of the class may write nothing: one as the rule spells it is tried, then those of classes_doors.h. */
static int note_hidden(struct diff *d, const struct facts *f) {
    struct verdict a, b;
    struct body_view view = {.read = false};
    judge_rules(d->p[0], f, NULL, &view, &a);
    judge_rules(d->p[1], f, NULL, &view, &b);
    body_view_release(&view);
    if (!differ(&a, &b))
        return 0;
    d->hides = true;
    bool after = change_of(&a, &b) != CHANGE_LOSS, differs = false;
    const struct rule *r = &d->p[after]->rules[(after ? b : a).rule.index - 1];
    struct facts nice = *f;
    struct buf path;
    int result = 0;
    buf_init(&path, 1 << 16);
    for (size_t i = 0; result == 0 && !differs && i < r->target.npaths; i++) {
        buf_clear(&path);
        fill(&path, &r->target.paths[i]);
        nice.path = buf_slice(&path);
        if (!path.failed && proper(nice.path))
            result = compare(d, &nice, &differs);
    }
    buf_release(&path);
    for (size_t i = 0; i < d->nhidden; i++)
        if (d->hidden[i].rule == r && d->hidden[i].change == change_of(&a, &b))
            return result;
    if (result || differs)
        return result;
    if (d->nhidden == HIDDEN_MAX)
        return ERR_LIMIT;
    d->hidden[d->nhidden++] = (struct hidden){r, change_of(&a, &b)};
    return 0;
}

static int found(void *arg, const struct facts *f) {
    struct diff *d = arg;
    bool differs;
    int r = compare(d, f, &differs);
    return r == 0 && !differs && doors_concern(f) ? note_hidden(d, f) : r;
}

/* What the rules permit otherwise, and no request was found that shows it. */
static int tell_hidden(struct diff *d) {
    int result = 0;
    for (size_t i = 0; result == 0 && i < d->nhidden; i++) {
        const struct hidden *h = &d->hidden[i];
        bool shown = false;
        for (size_t k = 0; k < d->n; k++)
            shown |= d->groups[k].rule == h->rule && d->groups[k].change == h->change;
        char why[EXAMPLE_MAX];
        snprintf(why, sizeof why,
                 "%s:%u: what this makes of requests to the forge's API hangs on what they write: %.*s",
                 h->rule->where.file, h->rule->where.line, SLICE_ARG(h->rule->where.text));
        if (!shown)
            result = unsure(d, h->rule->target.host, why);
    }
    return result;
}

static int undecided(void *arg, const struct rule *r) {
    char why[EXAMPLE_MAX];
    snprintf(why, sizeof why, "%s:%u: what this takes beside its patterns can't be compared: %.*s",
             r->where.file, r->where.line, SLICE_ARG(r->where.text));
    return unsure(arg, r->target.host, why);
}

/* --- whether there is any ---------------------------------------------------------------------------------- */

struct any {
    const struct policy *p[2];
    bool some;
};

#define ENOUGH 1

static int any_found(void *arg, const struct facts *f) {
    struct any *any = arg;
    struct verdict a, b;
    policy_judge(any->p[0], f, &a);
    policy_judge(any->p[1], f, &b);
    any->some = differ(&a, &b) || (!slice_eq(a.note, b.note) && a.action != VERDICT_DENY) ||
                (a.action != VERDICT_DENY && a.limit && a.limit_id != b.limit_id);
    if (!any->some && doors_concern(f)) {
        struct body_view view = {.read = false};
        judge_rules(any->p[0], f, NULL, &view, &a);
        judge_rules(any->p[1], f, NULL, &view, &b);
        body_view_release(&view);
        any->some = differ(&a, &b);
    }
    return any->some ? ENOUGH : 0;
}

static int any_unsure(void *arg, struct slice host, const char *why) {
    struct any *any = arg;
    (void)host;
    (void)why;
    any->some = true;
    return ENOUGH;
}

int diff_some(const struct policy *a, const struct policy *b, const struct rule *about, uint64_t *effort,
              bool *some) {
    struct any any = {.p = {a, b}};
    struct classes c = {.policies = any.p,
                        .npolicies = 2,
                        .found = any_found,
                        .unsure = any_unsure,
                        .arg = &any,
                        .effort = effort,
                        .about = about,
                        .doors = true};
    int r = classes_walk(&c);
    *some = any.some;
    return r == ENOUGH ? 0 : r;
}

int policy_diff(const struct policy *from, const struct policy *to, const struct policy_print *print,
                size_t *findings, size_t *nunsure) {
    struct diff d = {.p = {from, to}, .print = print};
    d.groups = calloc(GROUPS_MAX, sizeof *d.groups);
    d.twin[0] = calloc(from->nrules + 1, sizeof *d.twin[0]);
    d.twin[1] = calloc(to->nrules + 1, sizeof *d.twin[1]);
    buf_init(&d.path, 1 << 16);
    if (!d.groups || !d.twin[0] || !d.twin[1]) {
        free(d.groups);
        free(d.twin[0]);
        free(d.twin[1]);
        return ERR_NOMEM;
    }
    struct classes c = {.policies = d.p,
                        .npolicies = 2,
                        .found = found,
                        .unsure = unsure,
                        .arg = &d,
                        .doors = true,
                        .hidden = &d.hides};
    int r = classes_walk(&c);
    if (r == 0)
        r = tell_hidden(&d);
    if (r == 0)
        r = plain_undecided(d.p, undecided, &d);
    if (r == ERR_LIMIT)
        r = unsure(&d, SLICE("all"), "there are too many differences to list");
    if (r == 0 && print->format == POLICY_JSON)
        diff_put_json(&d);
    else if (r == 0)
        diff_put_text(&d);
    *findings = d.n;
    *nunsure = d.nunsure;
    for (size_t i = 0; i < d.n; i++) {
        free(d.groups[i].example);
        free(d.groups[i].was);
    }
    for (size_t i = 0; i < d.nunsure; i++)
        free(d.unsure[i]);
    free(d.groups);
    free(d.twin[0]);
    free(d.twin[1]);
    buf_release(&d.path);
    return r == 0 && print->out->failed ? ERR_LIMIT : r;
}
