/* `policy explain`: all about one request. */
#include <arpa/inet.h>
#include <stdlib.h>

#include "policy/hint.h"
#include "policy/print.h"
#include "policy/push.h"

#define NEAR_MAX    8
#define BROUGHT_MAX 200 /* bytes of a path or an identity */

struct near {
    uint32_t rule;
    enum stage stage;
    struct judge_part part;
};

/* … one that is about what the push brings. */
static void put_brought(const struct rule *r, const struct facts *f, enum stage stage, struct buf *out) {
    struct push_finding finding;
    push_stage(f, &f->refs[0], r, false, &finding);
    buf_printf(out, "%s: ", push_word(stage));
    if (finding.unknown)
        buf_puts(out, "it is not told what the push brings");
    else if (finding.text && push_how(stage))
        buf_printf(out, "the push %s %.*s", push_how(stage),
                   SLICE_ARG(slice_sub(finding.text->text, 0, BROUGHT_MAX)));
    else
        buf_puts(out, stage == STAGE_SIZE      ? "the pack is larger"
                      : stage == STAGE_BLOB    ? "a file is larger"
                      : stage == STAGE_COMMITS ? "there are more"
                                               : "a commit has no signature");
}

/* The part of a rule that failed, in words. */
static void put_failed(const struct rule *r, const struct facts *f, const struct near *near,
                       struct buf *out) {
    const struct target *t = &r->target;
    switch (near->stage) {
    case STAGE_ADDRESS: buf_puts(out, "host: a wildcard takes no address"); break;
    case STAGE_SCHEME: buf_printf(out, "scheme: it is about %s", url_scheme_name(t->scheme)); break;
    case STAGE_PORT: buf_printf(out, "port: it is about %u, not %u", t->port, f->port); break;
    case STAGE_ACTION:
        buf_printf(out, "%s: it is about %.*s",
                   r->action == TREE_HTTP && f->kind == FACTS_HTTP ? "method" : "action",
                   SLICE_ARG(r->methods));
        break;
    case STAGE_PATH:
        buf_printf(out, "%s: its pattern does not take %.*s", f->kind == FACTS_HTTP ? "path" : "repository",
                   SLICE_ARG((f->kind == FACTS_HTTP ? f->path : facts_repository(f->path))));
        break;
    case STAGE_SLASH: buf_puts(out, "path: its encoded slash, %2F, has to be spelled out"); break;
    case STAGE_REF:
        buf_printf(out, "ref: %.*s is not in %.*s", SLICE_ARG((f->nrefs ? f->refs[0].name : SLICE("(none)"))),
                   SLICE_ARG(r->refs_text));
        break;
    case STAGE_EXTRA: buf_printf(out, "also: it does not permit %s", facts_extra_name(f->extra)); break;
    case STAGE_OP:
        if (f->kind == FACTS_HTTP) {
            const char *lfs = facts_lfs_name(facts_lfs_operation(f));
            buf_printf(out, "operation: it does not allow %s", lfs ? lfs : "what can't be told for certain");
            break;
        }
        buf_printf(out, "operation: it does not allow %s%s", f->nrefs ? facts_op_name(f->refs[0].op) : "this",
                   f->nrefs && f->refs[0].unproved ? ", for which an unproved update counts" : "");
        break;
    case STAGE_TUNNEL: buf_puts(out, "it passes TLS through unread, and this request was read"); break;
    case STAGE_OPTIONS: buf_puts(out, "options: the push has an option that it does not name"); break;
    case STAGE_CHANGES:
    case STAGE_SIZE:
    case STAGE_BLOB:
    case STAGE_COMMITS:
    case STAGE_AUTHOR:
    case STAGE_COMMITTER:
    case STAGE_SIGNED: put_brought(r, f, near->stage, out); break;
    case STAGE_CONDITION:
        buf_printf(out, "condition: %.*s: %s", SLICE_ARG(near->part.text),
                   near->part.why ? near->part.why : "it does not hold");
        break;
    default: buf_puts(out, "another part of it does not hold"); break;
    }
}

/* What no part of a rule could be changed for: git's requests are permitted by rules about git alone. */
static bool foreign(const struct rule *r, const struct facts *f) {
    return r->action == TREE_HTTP && (f->kind == FACTS_GIT_FETCH || f->kind == FACTS_GIT_PUSH);
}

/* The allows that came furthest, the furthest first; then in reading order. */
static size_t find_near(const struct policy *p, const struct facts *f, struct near list[NEAR_MAX]) {
    size_t n = 0;
    for (uint32_t i = 0; i < p->nrules; i++) {
        struct judge_part part = {.why = NULL};
        const struct rule *r = &p->rules[i];
        if (r->deny || foreign(r, f))
            continue;
        enum stage s = judge_rule(p, f, f->nrefs ? &f->refs[0] : NULL, i, &part);
        if (s == STAGE_NONE || s == STAGE_MATCH)
            continue;
        size_t at = n;
        while (at > 0 && list[at - 1].stage < s)
            at--;
        if (at == NEAR_MAX)
            continue;
        if (n < NEAR_MAX)
            n++;
        memmove(&list[at + 1], &list[at], (n - at - 1) * sizeof *list);
        list[at] = (struct near){i, s, part};
    }
    return n;
}

struct shown {
    const struct policy *p;
    const struct facts *f;
    struct verdict v, left; /* left: with all rules that could help */
    bool depends;           /* on what the push brings, of which not all is told */
    struct near near[NEAR_MAX];
    size_t nnear;
    struct buf why, hint;
    struct buf failed; /* for one text at a time */
};

/* --- what is not told -------------------------------------------------------------------------------------- */

/* Whether what is not known of a push makes a difference. */
static bool depends(const struct policy *p, const struct facts *f, const struct verdict *v) {
    struct facts best = *f;
    struct verdict w;
    if (f->kind != FACTS_GIT_PUSH || f->nrefs == 0)
        return false;
    best.hopeful = true;
    policy_judge(p, &best, &w);
    return w.action != v->action || (w.action != VERDICT_DENY && w.rule.index != v->rule.index);
}

/* The rules on which it depends: calls `each` with one and its parts that are about what is not known. */
static void each_open(const struct shown *s,
                      void (*each)(void *arg, const struct rule *r, const enum stage *stages, size_t n),
                      void *arg) {
    struct facts best = *s->f;
    best.hopeful = true;
    for (uint32_t i = 0; s->depends && i < s->p->nrules; i++) {
        enum stage stages[PUSH_PARTS];
        const struct rule *r = &s->p->rules[i];
        size_t n = r->action == TREE_PUSH ? push_unknown(s->f, &s->f->refs[0], r, stages) : 0;
        if (n && judge_rule(s->p, s->f, &s->f->refs[0], i, NULL) !=
                     judge_rule(s->p, &best, &best.refs[0], i, NULL))
            each(arg, r, stages, n);
    }
}

struct words {
    struct buf *out;
    struct json *j;
    unsigned said; /* 1 << stage */
};

static void add_parts(void *arg, const struct rule *r, const enum stage *stages, size_t n) {
    struct words *w = arg;
    (void)r;
    for (size_t i = 0; i < n; i++) {
        if (!(w->said & 1u << stages[i]))
            buf_printf(w->out, "%s%s", w->said ? ", " : "", push_word(stages[i]));
        w->said |= 1u << stages[i];
    }
}

static void open_text(void *arg, const struct rule *r, const enum stage *stages, size_t n) {
    struct words *w = arg, parts = {.out = w->out};
    buf_puts(w->out, w->said++ ? "    " : "  rules that it hangs on:\n    ");
    print_rule(w->out, r);
    buf_puts(w->out, "\n      not told: ");
    add_parts(&parts, r, stages, n);
    buf_putc(w->out, '\n');
}

static void open_json(void *arg, const struct rule *r, const enum stage *stages, size_t n) {
    struct words *w = arg;
    json_open_object(w->j);
    print_rule_json(w->j, "rule", r);
    json_key(w->j, "parts");
    json_open_array(w->j);
    for (size_t i = 0; i < n; i++)
        json_cstring(w->j, push_word(stages[i]));
    json_close(w->j);
    json_close(w->j);
}

static void why_open(struct shown *s) {
    struct words w = {.out = &s->why};
    buf_clear(&s->why);
    buf_puts(&s->why, "it depends on what the push brings: ");
    each_open(s, add_parts, &w);
}

/* --- showing ----------------------------------------------------------------------------------------------- */

/* "600/h" */
static void put_limit(const struct verdict *v, struct buf *out) {
    char unit = v->limit_seconds == 1      ? 's'
                : v->limit_seconds == 60   ? 'm'
                : v->limit_seconds == 3600 ? 'h'
                                           : 'd';
    buf_printf(out, "%u/%c", v->limit, unit);
}

/* A network of private addresses that the name may lead to. */
static void put_net(const struct verdict_net *net, struct buf *out) {
    char text[INET6_ADDRSTRLEN];
    if (inet_ntop(net->v6 ? AF_INET6 : AF_INET, net->address, text, sizeof text))
        buf_printf(out, "%s/%u", text, net->bits);
}

/* How the request is permitted. */
static void show_terms(const struct shown *s, struct buf *out) {
    const struct verdict *v = &s->v;
    if (v->credential.n)
        buf_printf(out, "  credential: %.*s\n", SLICE_ARG(v->credential));
    if (v->limit) {
        buf_puts(out, "  limit: ");
        put_limit(v, out);
        buf_putc(out, '\n');
    }
    if (v->max_body)
        buf_printf(out, "  max-body: %llu bytes\n", (unsigned long long)v->max_body);
    if (v->to_private || v->nnets) {
        buf_puts(out, "  to:");
        for (size_t i = 0; i < v->nnets; i++) {
            buf_putc(out, ' ');
            put_net(&v->nets[i], out);
        }
        buf_puts(out, v->to_private ? " private\n" : "\n");
    }
}

static const char *verdict_name(const struct shown *s) {
    return s->depends ? "depends" : verdict_action_name(s->v.action);
}

/* Which rule stands in the way whatever is added. */
static const struct rule *obstacle(const struct shown *s) {
    bool stands =
        s->left.rule.index && (s->left.action == VERDICT_ASK || s->left.reason == REASON_DENIED_BY_RULE);
    return stands && s->v.action == VERDICT_DENY && !s->depends ? &s->p->rules[s->left.rule.index - 1] : NULL;
}

static void put_hopeless(const struct shown *s, struct buf *out) {
    const struct rule *r = obstacle(s);
    if (s->left.reason == REASON_WRITE_UNREADABLE) {
        buf_puts(out, "  only rules that permit every push to the host would permit it\n");
        return;
    }
    buf_puts(out, "  no rule that is added would permit it");
    if (r) {
        buf_printf(out, ", for this one %s:\n    ", r->deny ? "denies it" : "asks a person");
        print_rule(out, r);
    }
    buf_putc(out, '\n');
}

static void show_text(struct shown *s, const struct policy_print *print) {
    struct buf *out = print->out;
    bool denied = s->v.action == VERDICT_DENY && !s->depends;
    print_painted(print, s->depends ? PAINT_YELLOW : denied ? PAINT_RED : PAINT_GREEN, verdict_name(s));
    buf_putc(out, ' ');
    print_request(out, s->f);
    buf_printf(out, "\n  why: %.*s\n", SLICE_ARG(buf_slice(&s->why)));
    if (s->depends) {
        each_open(s, open_text, &(struct words){.out = out});
        return;
    }
    if (s->v.rule.index) {
        buf_puts(out, "  rule: ");
        print_rule(out, &s->p->rules[s->v.rule.index - 1]);
        buf_putc(out, '\n');
    }
    show_terms(s, out);
    for (size_t i = 0; denied && i < s->nnear; i++) {
        const struct rule *r = &s->p->rules[s->near[i].rule];
        buf_puts(out, i == 0 ? "  rules that came close:\n    " : "    ");
        print_rule(out, r);
        buf_puts(out, "\n      ");
        put_failed(r, s->f, &s->near[i], out);
        buf_putc(out, '\n');
    }
    struct slice rest = buf_slice(&s->hint), line;
    if (rest.n)
        buf_puts(out, memchr(rest.p, '\n', rest.n) ? "  the smallest rules that would permit it, together:\n"
                                                   : "  the smallest rule that would permit it:\n");
    else if (denied)
        put_hopeless(s, out);
    for (bool more = rest.n > 0; more;) {
        more = slice_cut(rest, '\n', &line, &rest);
        buf_printf(out, "    %.*s\n", SLICE_ARG(line));
    }
}

static void terms_json(struct shown *s, struct json *j) {
    const struct verdict *v = &s->v;
    if (v->credential.n)
        print_text_json(j, "credential", v->credential);
    if (v->limit) {
        buf_clear(&s->failed);
        put_limit(v, &s->failed);
        print_buf_json(j, "limit", &s->failed);
    }
    if (v->max_body) {
        json_key(j, "max_body");
        json_u64(j, v->max_body);
    }
    if (v->to_private || v->nnets) {
        json_key(j, "to");
        json_open_array(j);
        for (size_t i = 0; i < v->nnets; i++) {
            buf_clear(&s->failed);
            put_net(&v->nets[i], &s->failed);
            json_put_string(j, buf_slice(&s->failed));
        }
        if (v->to_private)
            json_cstring(j, "private");
        json_close(j);
    }
    if (v->note.n)
        print_text_json(j, "note", v->note);
}

static void show_json(struct shown *s, const struct policy_print *print) {
    struct json j;
    struct buf request;
    buf_init(&request, 1 << 16);
    print_request(&request, s->f);
    json_init(&j, print->out);
    json_open_object(&j);
    print_text_json(&j, "verdict", slice_str(verdict_name(s)));
    print_buf_json(&j, "request", &request);
    print_text_json(&j, "reason", slice_str(verdict_reason_code(s->v.reason)));
    print_buf_json(&j, "why", &s->why);
    if (s->v.rule.index)
        print_rule_json(&j, "rule", &s->p->rules[s->v.rule.index - 1]);
    terms_json(s, &j);
    json_key(&j, "hangs_on");
    json_open_array(&j);
    each_open(s, open_json, &(struct words){.j = &j});
    json_close(&j);
    if (obstacle(s))
        print_rule_json(&j, "in_the_way", obstacle(s));
    json_key(&j, "near");
    json_open_array(&j);
    for (size_t i = 0; s->v.action == VERDICT_DENY && i < s->nnear; i++) {
        const struct rule *r = &s->p->rules[s->near[i].rule];
        buf_clear(&s->failed);
        put_failed(r, s->f, &s->near[i], &s->failed);
        json_open_object(&j);
        print_rule_json(&j, "rule", r);
        print_buf_json(&j, "failed", &s->failed);
        json_close(&j);
    }
    json_close(&j);
    json_key(&j, "smallest");
    json_open_array(&j);
    struct slice rest = buf_slice(&s->hint), line;
    for (bool more = rest.n > 0; more;) {
        more = slice_cut(rest, '\n', &line, &rest);
        json_put_string(&j, line);
    }
    json_close(&j);
    json_close(&j);
    buf_putc(print->out, '\n');
    buf_release(&request);
}

int policy_show(const struct policy *p, const struct facts *f, const struct policy_print *print,
                bool *permitted) {
    struct shown s = {.p = p, .f = f};
    buf_init(&s.why, 1 << 16);
    buf_init(&s.hint, 1 << 16);
    buf_init(&s.failed, 1 << 16);
    policy_judge(p, f, &s.v);
    s.depends = depends(p, f, &s.v);
    s.nnear = find_near(p, f, s.near);
    policy_explain(p, f, &s.v, 0, &s.why);
    if (s.depends)
        why_open(&s);
    else
        hint(p, f, NULL, &s.v, &s.hint, &s.left);
    if (print->format == POLICY_JSON)
        show_json(&s, print);
    else
        show_text(&s, print);
    *permitted = s.v.action != VERDICT_DENY && !s.depends;
    buf_release(&s.why);
    buf_release(&s.hint);
    buf_release(&s.failed);
    return print->out->failed ? ERR_LIMIT : 0;
}
