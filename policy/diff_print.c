/* What `policy diff` found, for people and for programs. */
#include <arpa/inet.h>

#include "policy/condition.h"
#include "policy/diff.h"
#include "policy/overlap.h"

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

/* Of two rules that permit, one about an address and one about a wildcard: no request is of both. */
static bool apart(const struct rule *a, const struct rule *b) {
    const struct target *t = &a->target, *u = &b->target;
    return (t->host_is_address && u->host_kind != RULE_HOST_EXACT) ||
           (u->host_is_address && t->host_kind != RULE_HOST_EXACT);
}

/* The rules of policy k that keep part of what g->rule is about as it was. */
static void each_exception(struct diff *d, const struct group *g, bool after, bool deny,
                           void (*put)(void *arg, const struct rule *r, struct slice paths, bool more),
                           void *arg) {
    const struct policy *p = d->p[after];
    for (size_t i = 0; i < p->nrules; i++) {
        const struct rule *r = &p->rules[i];
        if (r->deny != deny || r == g->rule || r->target.regex || !overlap_possible(g->rule, r) ||
            (!deny && apart(g->rule, r)))
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
    /* what a deny takes away is nothing that another rule permits, nor is what the push rules refuse */
    bool written =
        denial->door || denial->reason == REASON_WRITE_UNREADABLE || denial->reason == REASON_WRITE_UNKNOWN;
    if (denial->reason != REASON_DENIED_BY_RULE && !written)
        each_exception(d, g, !after, false, put_exception, &t);
    t.label = after ? "denied" : "denied before";
    each_exception(d, g, after, true, put_exception, &t);
}

static void put_net(struct buf *out, const struct verdict_net *net) {
    char text[INET6_ADDRSTRLEN];
    if (inet_ntop(net->v6 ? AF_INET6 : AF_INET, net->address, text, sizeof text))
        buf_printf(out, " %s/%u", text, net->bits);
}

/* How a verdict permits; `counts`: and whose requests its limit counts. */
static void put_how(struct buf *out, const struct policy *p, const struct verdict *v, bool counts) {
    buf_printf(out, "%s, %s%.*s", verdict_action_name(v->action),
               v->credential.n ? "credential " : "no credential", SLICE_ARG(v->credential));
    if (v->limit)
        buf_printf(out, ", at most %u in %u s", v->limit, v->limit_seconds);
    if (counts)
        buf_printf(out, " of all that %s:%u counts", p->rules[v->limit_id - 1].where.file,
                   p->rules[v->limit_id - 1].where.line);
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
        put_how(out, d->p[0], &g->before, g->counts);
        buf_puts(out, "\n    after: ");
        put_how(out, d->p[1], &g->after, g->counts);
    } else
        buf_printf(out, "\n    %s: %s", g->change == CHANGE_GAIN ? "before" : "after", g->was);
    buf_putc(out, '\n');
    put_exceptions(d, g, NULL);
    buf_printf(out, "    for example: %s\n", g->example);
}

void diff_put_text(struct diff *d) {
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

void diff_put_json(struct diff *d) {
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
