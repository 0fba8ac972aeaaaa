/*
 * Theory of operation. One request of every class that the two policies tell apart (classes.h) is judged by both.
 * Those judged differently are put together by the rules that decided, and each group is shown with what the rule is
 * about, an example, and the patterns on which another rule keeps the verdict as it was.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "policy/classes.h"
#include "policy/condition.h"
#include "policy/overlap.h"
#include "policy/plain.h"
#include "policy/print.h"

#define GROUPS_MAX  2000
#define METHODS_MAX 16
#define UNSURE_MAX  32
#define EXAMPLE_MAX 2048

enum change {
    CHANGE_GAIN,
    CHANGE_LOSS,
    CHANGE_OTHER, /* permitted by both, but differently: another credential */
};

struct group {
    enum change change;
    struct verdict before, after;
    enum facts_kind kind;
    enum facts_extra extra;
    unsigned ops;
    char methods[METHODS_MAX][40];
    size_t nmethods;
    char *example;           /* the request */
    char *was;               /* why the other policy denies it; for CHANGE_OTHER empty */
    struct rule const *rule; /* the allow that makes the difference */
};

struct diff {
    const struct policy *p[2];
    const struct policy_print *print;
    struct group *groups;
    size_t n;
    char *unsure[UNSURE_MAX];
    size_t nunsure;
};

/* --- collecting -------------------------------------------------------------------------------------------- */

static enum change change_of(const struct verdict *a, const struct verdict *b) {
    if (a->action == VERDICT_DENY)
        return CHANGE_GAIN;
    return b->action == VERDICT_DENY ? CHANGE_LOSS : CHANGE_OTHER;
}

static bool differ(const struct verdict *a, const struct verdict *b) {
    return a->action != b->action || (a->action != VERDICT_DENY && !plain_terms(a, b));
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

/* By the rules: what a request of the class does at a forge's API hangs on its body, and the rules about pushes are
 * compared for themselves. */
static void judge_class(const struct policy *p, const struct facts *f, struct verdict *v) {
    struct body_view view = {.read = false};
    judge_rules(p, f, NULL, &view, v);
    body_view_release(&view);
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
    judge_class(d->p[0], &nice, &a);
    judge_class(d->p[1], &nice, &b);
    bool good = differ(&a, &b) && change_of(&a, &b) == g->change && a.rule.index == g->before.rule.index &&
                b.rule.index == g->after.rule.index && !path.failed && !ref.failed && proper(nice.path);
    print_request_whole(out, good ? &nice : f);
    buf_release(&path);
    buf_release(&ref);
}

static int found(void *arg, const struct facts *f) {
    struct diff *d = arg;
    struct verdict a, b;
    judge_class(d->p[0], f, &a);
    judge_class(d->p[1], f, &b);
    if (!differ(&a, &b))
        return 0;
    struct group *g = group_of(d, f, &a, &b);
    if (g) {
        note_method(g, f);
        return 0;
    }
    if (d->n == GROUPS_MAX)
        return ERR_LIMIT;
    g = &d->groups[d->n++];
    *g = (struct group){
        .change = change_of(&a, &b), .before = a, .after = b, .kind = f->kind, .extra = f->extra};
    bool after = g->change != CHANGE_LOSS;
    g->rule = &d->p[after]->rules[(after ? b : a).rule.index - 1];
    note_method(g, f);
    struct buf text;
    buf_init(&text, 1 << 16);
    put_example(d, g, f, &text);
    g->example = slice_dup(buf_slice(&text));
    buf_clear(&text);
    if (g->change != CHANGE_OTHER)
        policy_explain(d->p[!after], f, after ? &a : &b, 1, &text);
    g->was = slice_dup(buf_slice(&text));
    buf_release(&text);
    return g->example && g->was ? 0 : ERR_NOMEM;
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

static int undecided(void *arg, const struct rule *r) {
    char why[EXAMPLE_MAX];
    snprintf(why, sizeof why, "%s:%u: what this takes beside its patterns can't be compared: %.*s",
             r->where.file, r->where.line, SLICE_ARG(r->where.text));
    return unsure(arg, r->target.host, why);
}

/* --- telling ----------------------------------------------------------------------------------------------- */

static const char *const titles[] = {"becomes permitted", "ceases to be permitted", "is permitted otherwise"};
static const char *const codes[] = {"gain", "loss", "otherwise"};
static const char *const paints[] = {PAINT_GREEN, PAINT_RED, PAINT_YELLOW};
static const char *const signs[] = {"+", "-", "~"};

static void put_what(struct buf *out, const struct group *g) {
    bool lfs = g->rule->action == TREE_LFS;
    if (lfs)
        buf_puts(out, "lfs");
    else if (g->kind == FACTS_HTTP && g->rule->any_method)
        buf_putc(out, '*');
    else if (g->kind == FACTS_HTTP)
        for (size_t i = 0; i < g->nmethods; i++)
            buf_printf(out, "%s%s", i ? "," : "", g->methods[i]);
    else
        buf_puts(out, g->kind == FACTS_TUNNEL ? "tunnel" : g->kind == FACTS_GIT_PUSH ? "push" : "fetch");
    buf_printf(out, " %.*s", SLICE_ARG(g->rule->target.text));
    if (g->rule->nrefs)
        buf_printf(out, " %.*s", SLICE_ARG(g->rule->refs_text));
    for (unsigned op = FACTS_CREATE; !lfs && op <= FACTS_FORCE; op++)
        if (g->ops & 1u << op)
            buf_printf(out, " %s", facts_op_name((enum facts_op)op));
    /* what has no word is permitted by rules that name none */
    for (unsigned op = FACTS_LFS_DOWNLOAD; lfs && !(g->ops & 1u << FACTS_LFS_UNKNOWN) && op < FACTS_LFS_COUNT;
         op++)
        if (g->ops & 1u << op)
            buf_printf(out, " %s", facts_lfs_name((enum facts_lfs)op));
    if (g->extra != FACTS_PLAIN)
        buf_printf(out, " also %s", facts_extra_name(g->extra));
}

/* The rules of policy k that keep part of what g->rule is about as it was. */
static void each_exception(struct diff *d, const struct group *g, bool after, bool deny,
                           void (*put)(void *arg, const struct rule *r, struct slice paths, bool more),
                           void *arg) {
    const struct policy *p = d->p[after];
    for (size_t i = 0; i < p->nrules; i++) {
        const struct rule *r = &p->rules[i];
        if (r->deny != deny || r == g->rule || r->target.regex || !overlap_possible(g->rule, r))
            continue;
        struct overlap o;
        overlap_init(&o);
        overlap_paths(&o, g->rule, r);
        if (o.n)
            put(arg, r, buf_slice(&o.text), o.truncated);
        overlap_release(&o);
    }
}

struct telling {
    struct diff *d;
    const struct group *g;
    const char *label;
    struct json *json;
};

/* ", refs refs/heads/a": what two push rules have in common beside the repository. */
static void put_ref_overlap(struct buf *out, const struct rule *a, const struct rule *b) {
    struct overlap o;
    struct slice rest, one;
    if (a->nrefs == 0 || b->nrefs == 0)
        return;
    overlap_init(&o);
    for (size_t i = 0; i < a->nrefs; i++)
        for (size_t k = 0; k < b->nrefs; k++)
            overlap_globs(&o, &a->refs[i], &b->refs[k], a->deny || b->deny);
    rest = buf_slice(&o.text);
    for (bool first = true; rest.n && slice_cut(rest, 0, &one, &rest); first = false)
        buf_printf(out, "%s %.*s", first ? ", refs" : ",", SLICE_ARG(one));
    overlap_release(&o);
}

/* ", where json base == main": what a rule asks beside its patterns. */
static void put_conditions(struct buf *out, const struct rule *r) {
    for (const struct condition *c = r->conditions; c; c = c->next)
        buf_printf(out, "%s %.*s", c == r->conditions ? ", where" : " and", SLICE_ARG(c->text));
    if (r->brings || r->npush_options)
        buf_puts(out, ", by what the push brings");
}

static void put_exception(void *arg, const struct rule *r, struct slice paths, bool more) {
    struct telling *t = arg;
    struct buf *out = t->d->print->out;
    struct slice one;
    if (t->json) {
        json_open_object(t->json);
        print_text_json(t->json, "why", slice_str(t->label));
        print_rule_json(t->json, "rule", r);
        json_key(t->json, "paths");
        json_open_array(t->json);
        while (paths.n && slice_cut(paths, 0, &one, &paths))
            json_put_string(t->json, one.n ? one : SLICE("/**"));
        json_close(t->json);
        json_key(t->json, "all_paths_listed");
        json_bool(t->json, !more);
        struct buf where;
        buf_init(&where, 1 << 16);
        put_conditions(&where, r);
        if (buf_len(&where))
            print_text_json(t->json, "where", slice_from(buf_slice(&where), strlen(", where ")));
        buf_release(&where);
        json_close(t->json);
        return;
    }
    buf_printf(out, "    but %s by %s:%u on", t->label, r->where.file, r->where.line);
    for (bool first = true; paths.n && slice_cut(paths, 0, &one, &paths); first = false)
        buf_printf(out, "%s %.*s", first ? "" : ",", SLICE_ARG((one.n ? one : SLICE("every path"))));
    if (more)
        buf_puts(out, ", and more");
    put_ref_overlap(out, t->g->rule, r);
    put_conditions(out, r);
    buf_putc(out, '\n');
}

static void put_exceptions(struct diff *d, const struct group *g, struct json *json) {
    struct telling t = {d, g, NULL, json};
    bool after = g->change != CHANGE_LOSS;
    const struct verdict *denial = after ? &g->before : &g->after;
    if (g->change == CHANGE_OTHER)
        return;
    t.label = after ? "permitted already" : "still permitted";
    /* what a deny takes away is nothing that another rule permits */
    if (denial->reason != REASON_DENIED_BY_RULE)
        each_exception(d, g, !after, false, put_exception, &t);
    t.label = after ? "denied" : "denied before";
    each_exception(d, g, after, true, put_exception, &t);
}

static void put_net(struct buf *out, const struct verdict_net *net) {
    char text[INET6_ADDRSTRLEN];
    if (inet_ntop(net->v6 ? AF_INET6 : AF_INET, net->address, text, sizeof text))
        buf_printf(out, " %s/%u", text, net->bits);
}

/* How a verdict permits. */
static void put_how(struct buf *out, const struct verdict *v) {
    buf_printf(out, "%s, %s%.*s", verdict_action_name(v->action),
               v->credential.n ? "credential " : "no credential", SLICE_ARG(v->credential));
    if (v->limit)
        buf_printf(out, ", at most %u in %u s", v->limit, v->limit_seconds);
    if (v->max_body)
        buf_printf(out, ", at most %llu bytes", (unsigned long long)v->max_body);
    if (v->to_private || v->nnets)
        buf_puts(out, ", to");
    for (size_t i = 0; i < v->nnets; i++)
        put_net(out, &v->nets[i]);
    if (v->to_private)
        buf_puts(out, " private networks");
}

static void group_text(struct diff *d, const struct group *g) {
    struct buf *out = d->print->out;
    print_painted(d->print, paints[g->change], signs[g->change]);
    buf_putc(out, ' ');
    put_what(out, g);
    buf_puts(out, "\n    by ");
    print_rule(out, g->rule);
    if (g->change == CHANGE_OTHER) {
        buf_puts(out, "\n    before: ");
        put_how(out, &g->before);
        buf_puts(out, "\n    after: ");
        put_how(out, &g->after);
    } else
        buf_printf(out, "\n    %s: %s", g->change == CHANGE_GAIN ? "before" : "after", g->was);
    buf_putc(out, '\n');
    put_exceptions(d, g, NULL);
    buf_printf(out, "    for example: %s\n", g->example);
}

static void diff_text(struct diff *d) {
    struct buf *out = d->print->out;
    bool some = false;
    for (enum change change = CHANGE_GAIN; change <= CHANGE_OTHER; change++) {
        bool title = false;
        for (size_t i = 0; i < d->n; i++) {
            if (d->groups[i].change != change)
                continue;
            if (!title)
                buf_printf(out, "%s%s:\n", some ? "\n" : "", titles[change]);
            some = title = true;
            group_text(d, &d->groups[i]);
        }
    }
    for (size_t i = 0; i < d->nunsure; i++)
        buf_printf(out, "%snot decided: %s\n", i == 0 && some ? "\n" : "", d->unsure[i]);
    if (!some && !d->nunsure)
        buf_puts(out, "no difference: both permit and deny the same\n");
}

static void group_json(struct diff *d, const struct group *g, struct json *j) {
    struct buf what;
    buf_init(&what, 1 << 16);
    put_what(&what, g);
    json_open_object(j);
    print_text_json(j, "change", slice_str(codes[g->change]));
    print_buf_json(j, "what", &what);
    print_rule_json(j, "rule", g->rule);
    if (g->change == CHANGE_OTHER) {
        print_text_json(j, "credential_before", g->before.credential);
        print_text_json(j, "credential_after", g->after.credential);
    } else {
        print_text_json(j, "denied_because", slice_str(g->was));
    }
    print_text_json(j, "example", slice_str(g->example));
    json_key(j, "but");
    json_open_array(j);
    put_exceptions(d, g, j);
    json_close(j);
    json_close(j);
    buf_release(&what);
}

static void diff_json(struct diff *d) {
    struct json j;
    json_init(&j, d->print->out);
    json_open_object(&j);
    json_key(&j, "differences");
    json_open_array(&j);
    for (size_t i = 0; i < d->n; i++)
        group_json(d, &d->groups[i], &j);
    json_close(&j);
    json_key(&j, "not_decided");
    json_open_array(&j);
    for (size_t i = 0; i < d->nunsure; i++)
        json_cstring(&j, d->unsure[i]);
    json_close(&j);
    json_close(&j);
    buf_putc(d->print->out, '\n');
}

int policy_diff(const struct policy *from, const struct policy *to, const struct policy_print *print,
                size_t *findings, size_t *nunsure) {
    struct diff d = {.p = {from, to}, .print = print};
    d.groups = calloc(GROUPS_MAX, sizeof *d.groups);
    if (!d.groups)
        return ERR_NOMEM;
    struct classes c = {.policies = d.p, .npolicies = 2, .found = found, .unsure = unsure, .arg = &d};
    int r = classes_walk(&c);
    if (r == 0)
        r = plain_undecided(d.p, undecided, &d);
    if (r == ERR_LIMIT)
        r = unsure(&d, SLICE("all"), "there are too many differences to list");
    if (r == 0 && print->format == POLICY_JSON)
        diff_json(&d);
    else if (r == 0)
        diff_text(&d);
    *findings = d.n;
    *nunsure = d.nunsure;
    for (size_t i = 0; i < d.n; i++) {
        free(d.groups[i].example);
        free(d.groups[i].was);
    }
    for (size_t i = 0; i < d.nunsure; i++)
        free(d.unsure[i]);
    free(d.groups);
    return r == 0 && print->out->failed ? ERR_LIMIT : r;
}
