#include "policy/compile.h"

#include <stdio.h>
#include <stdlib.h>

#include "policy/diag.h"
#include "policy/regex.h"

struct glob *keep_globs(struct compiler *c, const struct globs *globs) {
    struct glob *list = arena_alloc(&c->p->arena, globs->n * sizeof *list);
    if (list)
        memcpy(list, globs->list, globs->n * sizeof *list);
    return list;
}

/* A deny is read generously, and forges make no difference between letter cases. */
static bool compile_regex(struct compiler *c, const struct expanded *e, size_t from, bool caseless,
                          struct target *out) {
    if (!regex_compile(c, e, from, e->n, caseless, &out->regex))
        return false;
    struct slice text = expanded_text(c, e->c + from, e->n - from);
    for (size_t i = 0; i + 3 <= text.n; i++)
        out->regex_slash |= slice_caseeq(slice_sub(text, i, 3), SLICE("%2F"));
    return text.p != NULL;
}

static bool compile_path(struct compiler *c, const struct expanded *e, size_t path,
                         const struct tree_rule *tree, struct target *out) {
    bool git = tree->action != TREE_HTTP;
    if (path == e->n)
        return true;
    if (e->c[path].code == '~')
        return compile_regex(c, e, path + 1, git || tree->verb == TREE_DENY, out);
    struct globs globs = {.n = 0};
    if (e->c[path].code != '/') {
        diag_marks(c, e, path, e->n - path, "a path",
                   "a condition on the query is written: where query NAME == VALUE",
                   "a query or fragment is not part of a target");
        return false;
    }
    if (!pattern_compile(c, e, path, e->n, git ? PATTERN_REPOSITORY : PATTERN_PATH, &globs))
        return false;
    out->paths = keep_globs(c, &globs);
    out->npaths = globs.n;
    return out->paths != NULL;
}

/* A target without braces in its host. */
static bool compile_target(struct compiler *c, const struct tree_rule *tree, const struct expanded *e,
                           struct target *out) {
    size_t path;
    if (!target_origin(c, e, true, out, &path))
        return false;
    if (tree->action == TREE_CONNECT && (path < e->n || out->scheme != URL_HTTPS)) {
        diag_marks(c, e, path < e->n ? path : 0, path < e->n ? e->n - path : 8, "https://host", NULL,
                   "a tunnel is a TLS connection to a host, of which nothing else is seen");
        return false;
    }
    if (tree->verb == TREE_TUNNEL && out->host_is_address) {
        diag_marks(c, e, 0, path, "https://host", NULL,
                   "a tunnel goes by the name that the client asks for, and an address is none");
        return false;
    }
    if (!compile_path(c, e, path, tree, out))
        return false;
    struct slice host = out->host, rest = expanded_text(c, e->c + path, e->n - path);
    char port[8] = "";
    if (out->any_port)
        snprintf(port, sizeof port, ":*");
    else if (out->port != url_default_port(out->scheme))
        snprintf(port, sizeof port, ":%u", out->port);
    char *text = arena_alloc(&c->p->arena, host.n + rest.n + 32);
    if (!text || !rest.p)
        return false;
    bool v6 = out->host_is_address && slice_find(host, ':') >= 0 && host.p[0] != '[';
    int n = snprintf(text, host.n + rest.n + 32, "%s://%s%s%.*s%s%s%.*s", url_scheme_name(out->scheme),
                     out->host_kind == RULE_HOST_SUFFIX ? "*." : "", v6 ? "[" : "", SLICE_ARG(host),
                     v6 ? "]" : "", port, SLICE_ARG(rest));
    out->text = slice_make(text, (size_t)n);
    return true;
}

static bool compile_refs(struct compiler *c, const struct tree_rule *tree, struct rule *r) {
    struct globs globs = {.n = 0};
    struct buf text;
    bool good = true;
    buf_init(&text, 1 << 20);
    for (size_t i = 0; i < tree->refs.n; i++) {
        struct expanded *e = &c->word;
        if (!expand(c, &tree->refs.list[i], e) || !pattern_compile(c, e, 0, e->n, PATTERN_REF, &globs)) {
            good = false;
            continue;
        }
        if (i)
            buf_putc(&text, ' ');
        buf_put(&text, expanded_text(c, e->c, e->n));
    }
    if (good && globs.n && tree->action == TREE_FETCH && tree->verb == TREE_ASK) {
        diag_token(c->diags, &tree->refs.list[0], "the end of the rule", "name refs in `allow` and `deny`",
                   "a person is asked about a fetch as a whole");
        good = false;
    }
    if (good && globs.n) {
        r->refs = keep_globs(c, &globs);
        r->nrefs = globs.n;
        r->refs_text = arena_copy(&c->p->arena, buf_slice(&text));
        good = r->refs && r->refs_text.p;
    }
    buf_release(&text);
    return good;
}

unsigned compile_ops(const struct tree_rule *tree) {
    unsigned named = tree->ops, bits = 0;
    if (tree->action == TREE_LFS)
        return named ? named : 1u << FACTS_LFS_UNKNOWN | TREE_LFS_WORDS;
    if (!named)
        named = tree->verb == TREE_DENY ? TREE_CREATE | TREE_UPDATE | TREE_DELETE | TREE_FORCE
                                        : TREE_CREATE | TREE_UPDATE;
    static const unsigned words[] = {[FACTS_CREATE] = TREE_CREATE,
                                     [FACTS_UPDATE] = TREE_UPDATE,
                                     [FACTS_DELETE] = TREE_DELETE,
                                     [FACTS_FORCE] = TREE_FORCE};
    for (unsigned op = FACTS_CREATE; op <= FACTS_FORCE; op++)
        if (named & words[op])
            bits |= 1u << op;
    return bits;
}

/* Who may force may update; whom an update is denied may not force one. */
static unsigned widen_ops(const struct tree_rule *tree, unsigned bits) {
    if (tree->action == TREE_LFS)
        return bits;
    if (tree->verb == TREE_DENY)
        return bits & 1u << FACTS_UPDATE ? bits | 1u << FACTS_FORCE : bits;
    return bits & 1u << FACTS_FORCE ? bits | 1u << FACTS_UPDATE : bits;
}

static bool compile_credential(struct compiler *c, const struct tree_rule *tree, struct rule *r) {
    if (!(tree->options & 1u << TREE_WITH))
        return true;
    if (tree->verb == TREE_DENY) {
        diag_token(c->diags, &tree->option_words[TREE_WITH], NULL, "leave it out",
                   "`with` lends a credential, and a deny sends nothing");
        return false;
    }
    r->credential = arena_copy(&c->p->arena, tree->with.text);
    return r->credential.p != NULL;
}

/* Room for one more rule. What is left behind when the list moves is at most as much again. */
static struct rule *room(struct policy *p) {
    if (p->nrules < p->rules_room)
        return &p->rules[p->nrules];
    size_t more = p->rules_room * 2 + 16;
    struct rule *list = p->nrules < POLICY_RULES_MAX ? arena_alloc(&p->arena, more * sizeof *list) : NULL;
    if (!list)
        return NULL;
    if (p->nrules)
        memcpy(list, p->rules, p->nrules * sizeof *list);
    p->rules = list;
    p->rules_room = more;
    return &p->rules[p->nrules];
}

/* A rule whose host has braces is several. */
struct hosts {
    struct compiler *c;
    const struct tree_rule *tree;
    const struct rule *rule; /* all but its target */
    const struct expanded *whole;
    size_t host_end;
    struct expanded *one;
};

static bool add_rule(void *arg, const struct mark *origin, size_t n) {
    struct hosts *h = arg;
    struct expanded *e = h->one;
    size_t rest = h->whole->n - h->host_end;
    if (n + rest > POLICY_LINE_MAX)
        return false;
    e->token = h->whole->token;
    e->n = n + rest;
    memcpy(e->c, origin, n * sizeof *e->c);
    memcpy(e->c + n, h->whole->c + h->host_end, rest * sizeof *e->c);
    struct rule *r = room(h->c->p);
    if (!r) {
        if (h->c->p->nrules >= POLICY_RULES_MAX)
            diag_token(h->c->diags, &h->tree->keyword, NULL, NULL, "more than %d rules", POLICY_RULES_MAX);
        return false;
    }
    *r = *h->rule;
    if (!compile_target(h->c, h->tree, e, &r->target))
        return false;
    r->where.index = (unsigned)++h->c->p->nrules;
    h->c->p->tunnels |= r->verb == TREE_TUNNEL;
    h->c->p->looks_at_bodies |= r->body > 0 || (r->action == TREE_LFS && r->ops_named);
    h->c->p->limits_fetches |= r->action == TREE_FETCH && r->nrefs > 0;
    return true;
}

static bool add_rules(struct compiler *c, const struct tree_rule *tree, const struct rule *rule) {
    struct expanded *e = &c->word;
    if (!expand(c, &tree->target, e))
        return false;
    size_t end = 0;
    while (end + 2 < e->n && !(e->c[end].code == '/' && e->c[end + 1].code == '/'))
        end++;
    for (end += 2; end < e->n && e->c[end].code != '/' && e->c[end].code != '~'; end++)
        ;
    if (end > e->n)
        end = e->n;
    struct rule counted = *rule;
    counted.limit_id = (uint32_t)c->p->nrules + 1;
    struct hosts h = {.c = c, .tree = tree, .rule = &counted, .whole = e, .host_end = end, .one = &c->one};
    return pattern_each(c, e, end, add_rule, &h);
}

bool compile_rule(struct compiler *c, const struct tree_rule *tree, const struct source *source) {
    struct rule r = {
        .source = source, .deny = tree->verb == TREE_DENY, .verb = tree->verb, .action = tree->action};
    bool good = compile_refs(c, tree, &r);
    if (tree->action == TREE_CONNECT && (tree->verb == TREE_ALLOW || tree->verb == TREE_ASK)) {
        diag_token(c->diags, &tree->action_word, "tunnel https://host", NULL,
                   "`tunnel` is a verb of its own");
        good = false;
    }
    good &= compile_credential(c, tree, &r);
    good &= compile_options(c, tree, &r);
    r.any_method = tree->action == TREE_CONNECT || slice_eq(tree->action_word.text, SLICE("*"));
    r.methods = tree->action_word.text;
    for (struct slice rest = r.methods, one; rest.n;) {
        slice_cut(rest, ',', &one, &rest);
        r.method_bits |= (uint16_t)rule_method_bit(one);
    }
    r.ops = tree->action == TREE_FETCH ? 0 : widen_ops(tree, compile_ops(tree));
    r.also = tree->also;
    r.ops_named = tree->ops != 0;
    if (tree->options & 1u << TREE_NOTE)
        r.note = arena_copy(&c->p->arena, tree->note.text);
    r.where = (struct verdict_rule){.file = source->name, .line = tree->keyword.line, .text = tree->text};
    return add_rules(c, tree, &r) && good;
}
