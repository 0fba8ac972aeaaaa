#include "policy/compile.h"

#include <stdio.h>
#include <stdlib.h>

#include "policy/diag.h"

/* --- not yet ----------------------------------------------------------------------------------------------- */

static const char *const not_yet_verb[] = {
    [TREE_ASK] = "`ask` is understood, but not in this version: no request can wait for a person yet",
    [TREE_TUNNEL] = "`tunnel` is understood, but not in this version: TLS can't be passed through unread yet",
};

static const char *const not_yet_option[TREE_OPTIONS] = {
    [TREE_WHERE] =
        "`where` is understood, but not in this version: bodies, headers and queries are not judged yet",
    [TREE_LIMIT] = "`limit` is understood, but not in this version: requests are not counted yet",
    [TREE_MAX_BODY] = "`max-body` is understood, but not in this version: bodies are not measured yet",
    [TREE_PATHS] = "`paths` is understood, but not in this version: what a push changes is not looked at yet",
    [TREE_MAX_SIZE] = "`max-size` is understood, but not in this version: packs are not measured yet",
};

bool compile_supported(struct compiler *c, const struct tree_rule *tree) {
    size_t before = diag_count(c->diags);
    if (tree->verb == TREE_ASK || tree->verb == TREE_TUNNEL)
        diag_token(c->diags, &tree->keyword, NULL, NULL, "%s", not_yet_verb[tree->verb]);
    if (tree->action == TREE_LFS)
        diag_token(c->diags, &tree->action_word, NULL, "Git LFS is plain HTTP: rules with methods permit it",
                   "`lfs` is understood, but not in this version");
    for (int i = 0; i < TREE_OPTIONS; i++)
        if ((tree->options & 1u << i) && not_yet_option[i])
            diag_token(c->diags, &tree->option_words[i], NULL, NULL, "%s", not_yet_option[i]);
    return diag_count(c->diags) == before;
}

/* --- rules ------------------------------------------------------------------------------------------------- */

static struct glob *keep_globs(struct compiler *c, const struct globs *globs) {
    struct glob *list = arena_alloc(&c->p->arena, globs->n * sizeof *list);
    if (list)
        memcpy(list, globs->list, globs->n * sizeof *list);
    return list;
}

static bool compile_path(struct compiler *c, const struct expanded *e, size_t path, bool git,
                         struct target *out) {
    if (path == e->n)
        return true;
    if (e->c[path].code == '~') {
        diag_marks(c, e, path, e->n - path, NULL, "use * and **",
                   "`~` is understood, but not in this version");
        return false;
    }
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

static bool compile_target(struct compiler *c, const struct tree_rule *tree, struct target *out) {
    struct expanded *e = &c->word;
    size_t path;
    if (!expand(c, &tree->target, e) || !target_origin(c, e, true, out, &path))
        return false;
    if (!compile_path(c, e, path, tree->action != TREE_HTTP, out))
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
    int n = snprintf(text, host.n + rest.n + 32, "%s://%s%.*s%s%.*s", url_scheme_name(out->scheme),
                     out->host_kind == RULE_HOST_SUFFIX ? "*." : "", SLICE_ARG(host), port, SLICE_ARG(rest));
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

bool compile_rule(struct compiler *c, const struct tree_rule *tree, const struct source *source) {
    struct policy *p = c->p;
    struct rule *r = &p->rules[p->nrules];
    *r = (struct rule){.source = source, .deny = tree->verb == TREE_DENY, .action = tree->action};
    bool good = compile_supported(c, tree);
    good &= compile_target(c, tree, &r->target);
    good &= compile_refs(c, tree, r);
    good &= compile_credential(c, tree, r);
    if (!good)
        return false;
    r->any_method = slice_eq(tree->action_word.text, SLICE("*"));
    r->methods = tree->action_word.text;
    for (struct slice rest = r->methods, one; rest.n;) {
        slice_cut(rest, ',', &one, &rest);
        r->method_bits |= (uint16_t)rule_method_bit(one);
    }
    r->ops = widen_ops(tree, compile_ops(tree));
    r->ops_named = tree->ops != 0;
    if (tree->options & 1u << TREE_NOTE)
        r->note = tree->note.text;
    r->where = (struct verdict_rule){
        .index = (unsigned)++p->nrules, .file = source->name, .line = tree->keyword.line, .text = tree->text};
    return true;
}
