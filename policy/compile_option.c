/* What stands behind a rule's target, from tree to rule. */

#include "base/addr.h"
#include "policy/condition.h"
#include "policy/diag.h"

static bool has(const struct tree_rule *tree, enum tree_option option) {
    return tree->options & 1u << option;
}

static bool fault(struct compiler *c, const struct tree_rule *tree, enum tree_option option, const char *hint,
                  const char *what) {
    diag_token(c->diags, &tree->option_words[option], NULL, hint, "%s", what);
    return false;
}

static bool compile_conditions(struct compiler *c, const struct tree_rule *tree, struct rule *r) {
    bool body = false, good = condition_compile(c, tree, &r->conditions, &body);
    uint64_t size = POLICY_BODY_DEFAULT;
    if (has(tree, TREE_MAX_BODY))
        policy_size_parse(tree->max_body.text, &size);
    if (body && size > POLICY_BODY_MOST) {
        diag_token(c->diags, &tree->max_body, "at most 16MiB", NULL,
                   "a body that a condition reads is held in memory");
        return false;
    }
    r->body = body ? (size_t)size : 0;
    if (!has(tree, TREE_MAX_BODY))
        return good;
    if (tree->verb != TREE_DENY)
        r->max_body = size;
    else if (!body)
        return fault(c, tree, TREE_MAX_BODY, NULL,
                     "`max-body` belongs to rules that permit, or read the body");
    return good;
}

static bool compile_limit(struct compiler *c, const struct tree_rule *tree, struct rule *r) {
    struct slice number, unit;
    uint64_t value = 0;
    if (!has(tree, TREE_LIMIT))
        return true;
    if (tree->verb == TREE_DENY)
        return fault(c, tree, TREE_LIMIT, "leave it out", "`limit` counts what is permitted");
    slice_cut(tree->limit.text, '/', &number, &unit);
    slice_u64(number, UINT32_MAX, &value);
    r->limit = (uint32_t)value;
    r->limit_seconds = unit.p[0] == 's' ? 1 : unit.p[0] == 'm' ? 60 : unit.p[0] == 'h' ? 3600 : 86400;
    return true;
}

static bool compile_patterns(struct compiler *c, const struct tree_words *words, enum pattern_kind kind,
                             struct glob **list, size_t *n) {
    struct globs globs = {.n = 0};
    bool good = true;
    for (size_t i = 0; i < words->n; i++) {
        struct expanded *e = &c->word;
        good &= expand(c, &words->list[i], e) && pattern_compile(c, e, 0, e->n, kind, &globs);
    }
    if (!good || globs.n == 0)
        return good;
    *list = keep_globs(c, &globs);
    *n = globs.n;
    return *list != NULL;
}

/* What is about what a push brings. */
static bool compile_brought(struct compiler *c, const struct tree_rule *tree, struct rule *r) {
    static const struct {
        enum tree_option option;
        const char *fault;
    } permit[] = {
        {TREE_MAX_SIZE, "`max-size` belongs to rules that permit"},
        {TREE_MAX_BLOB, "`max-blob` belongs to rules that permit"},
        {TREE_MAX_COMMITS, "`max-commits` belongs to rules that permit"},
        {TREE_SIGNED, "`signed` belongs to rules that permit"},
    };
    bool good = compile_patterns(c, &tree->paths, PATTERN_FILE, &r->changes, &r->nchanges);
    good &= compile_patterns(c, &tree->push_options, PATTERN_FILE, &r->push_options, &r->npush_options);
    good &= compile_patterns(c, &tree->authors, PATTERN_NAME, &r->authors, &r->nauthors);
    good &= compile_patterns(c, &tree->committers, PATTERN_NAME, &r->committers, &r->ncommitters);
    if (has(tree, TREE_MAX_SIZE))
        policy_size_parse(tree->max_size.text, &r->max_size);
    if (has(tree, TREE_MAX_BLOB))
        policy_size_parse(tree->max_blob.text, &r->max_blob);
    if (has(tree, TREE_MAX_COMMITS))
        slice_u64(tree->max_commits.text, UINT32_MAX, &r->max_commits);
    r->wants_signed = has(tree, TREE_SIGNED);
    for (size_t i = 0; i < sizeof permit / sizeof *permit; i++)
        if (tree->verb == TREE_DENY && has(tree, permit[i].option))
            good = fault(c, tree, permit[i].option, NULL, permit[i].fault);
    r->brings = r->nchanges || r->nauthors || r->ncommitters || r->max_size || r->max_blob ||
                r->max_commits || r->wants_signed;
    return good;
}

/* 10.0.0.0/8 or an address. */
static bool compile_net(struct compiler *c, const struct token *t, struct verdict_net *out) {
    struct expanded *e = &c->word;
    struct slice text, bits;
    struct addr addr;
    if (!expand(c, t, e))
        return false;
    text = expanded_text(c, e->c, e->n);
    bool prefix = slice_cut(text, '/', &text, &bits);
    uint64_t n = 0;
    if (!text.p || !addr_parse(text, 0, &addr)) {
        diag_token(c->diags, t, "private, an address, or a network like 10.0.0.0/8", NULL, "not a network");
        return false;
    }
    out->v6 = addr.sa.sa_family == AF_INET6;
    size_t most = out->v6 ? 128 : 32;
    if (out->v6)
        memcpy(out->address, &addr.in6.sin6_addr, 16);
    else
        memcpy(out->address, &addr.in.sin_addr, 4);
    if (prefix && !slice_u64(bits, most, &n)) {
        diag_token(c->diags, t, NULL, NULL, "a prefix has at most %zu bits", most);
        return false;
    }
    out->bits = (uint8_t)(prefix ? n : most);
    for (size_t i = out->bits; i < most; i++) {
        if (out->address[i / 8] >> (7 - i % 8) & 1) {
            diag_token(c->diags, t, NULL, NULL, "the address has bits behind its prefix");
            return false;
        }
    }
    return true;
}

static bool compile_nets(struct compiler *c, const struct tree_rule *tree, struct rule *r) {
    bool good = true;
    if (!has(tree, TREE_TO))
        return true;
    if (tree->verb == TREE_DENY)
        return fault(c, tree, TREE_TO, NULL, "`to` permits private addresses, and a deny permits nothing");
    r->nets = arena_alloc(&c->p->arena, tree->to.n * sizeof *r->nets);
    for (size_t i = 0; r->nets && i < tree->to.n; i++) {
        if (slice_eq(tree->to.list[i].text, SLICE("private")))
            r->to_private = true;
        else
            good &= compile_net(c, &tree->to.list[i], &r->nets[r->nnets++]);
    }
    return r->nets && good;
}

static bool compile_also(struct compiler *c, const struct tree_rule *tree) {
    if (!has(tree, TREE_ALSO))
        return true;
    if (tree->verb == TREE_DENY)
        return fault(c, tree, TREE_ALSO, "leave it out: nothing of it is permitted by itself",
                     "`also` permits more, and a deny permits nothing");
    if (tree->refs.n && (tree->also & 1u << FACTS_ARCHIVE))
        return fault(c, tree, TREE_ALSO, "permit archives in a rule without refs",
                     "an archive is made on the server, of whatever ref: it can't be limited to some");
    return true;
}

static void put_words(struct buf *out, const char *option, const struct tree_words *words) {
    for (size_t i = 0; i < words->n; i++)
        buf_printf(out, "%s%.*s", i ? " " : option, SLICE_ARG(words->list[i].raw));
}

/* The options as written, but for what is said elsewhere. */
static struct slice options_text(struct compiler *c, const struct tree_rule *tree) {
    struct buf text;
    buf_init(&text, 2 * POLICY_LINE_MAX);
    for (const struct tree_condition *w = tree->where; w; w = w->next)
        buf_printf(&text, " %s %.*s", w == tree->where ? "where" : "and", SLICE_ARG(w->text));
    put_words(&text, " paths ", &tree->paths);
    put_words(&text, " author ", &tree->authors);
    put_words(&text, " committer ", &tree->committers);
    put_words(&text, " options ", &tree->push_options);
    for (size_t i = 0; i < tree->to.n; i++)
        buf_printf(&text, "%s%.*s", i ? " " : " to ", SLICE_ARG(tree->to.list[i].text));
    if (tree->also)
        buf_puts(&text, " also");
    for (unsigned extra = FACTS_PLAIN + 1; extra < FACTS_EXTRAS; extra++)
        if (tree->also & 1u << extra)
            buf_printf(&text, " %s", facts_extra_name((enum facts_extra)extra));
    if (has(tree, TREE_LIMIT))
        buf_printf(&text, " limit %.*s", SLICE_ARG(tree->limit.text));
    if (has(tree, TREE_MAX_BODY))
        buf_printf(&text, " max-body %.*s", SLICE_ARG(tree->max_body.text));
    if (has(tree, TREE_MAX_SIZE))
        buf_printf(&text, " max-size %.*s", SLICE_ARG(tree->max_size.text));
    if (has(tree, TREE_MAX_BLOB))
        buf_printf(&text, " max-blob %.*s", SLICE_ARG(tree->max_blob.text));
    if (has(tree, TREE_MAX_COMMITS))
        buf_printf(&text, " max-commits %.*s", SLICE_ARG(tree->max_commits.text));
    if (has(tree, TREE_SIGNED))
        buf_puts(&text, " signed");
    struct slice out = arena_copy(&c->p->arena, buf_slice(&text));
    buf_release(&text);
    return out;
}

bool compile_options(struct compiler *c, const struct tree_rule *tree, struct rule *r) {
    bool good = compile_conditions(c, tree, r);
    good &= compile_limit(c, tree, r);
    good &= compile_brought(c, tree, r);
    good &= compile_nets(c, tree, r);
    good &= compile_also(c, tree);
    if (has(tree, TREE_SEND))
        good = fault(c, tree, TREE_SEND, "where header NAME == VALUE", "`header` belongs to expectations");
    if (has(tree, TREE_SEND_BODY))
        good = fault(c, tree, TREE_SEND_BODY, "where json PATH == VALUE", "`body` belongs to expectations");
    if (tree->options & ~(1u << TREE_NOTE | 1u << TREE_WITH))
        r->options_text = options_text(c, tree);
    return good;
}
