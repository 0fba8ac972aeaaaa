/* Proofs: each `expect` is judged as the request, or the few requests, that it describes. */
#include "policy/compile.h"

#include "policy/diag.h"

#define TEXT_MAX 4096

/* One expectation on its way. */
struct proof {
    struct compiler *c;
    const struct tree_rule *tree;
    const bool *reach;
    struct facts f;
    struct slice shown; /* the target, variables filled in */
    bool reported;      /* one failure of an expectation is enough */
};

static void put_what(const struct proof *t, struct buf *out) {
    if (t->f.kind == FACTS_HTTP)
        buf_printf(out, "%.*s ", SLICE_ARG(t->f.method));
    else
        buf_puts(out, t->f.kind == FACTS_GIT_PUSH ? "push " : "fetch ");
    buf_put(out, t->shown);
    if (t->f.nrefs)
        buf_printf(out, " %.*s %s", SLICE_ARG(t->f.refs[0].name), facts_op_name(t->f.refs[0].op));
}

static void report(struct proof *t, const struct verdict *v) {
    struct buf text, hint;
    buf_init(&text, TEXT_MAX);
    buf_init(&hint, TEXT_MAX);
    put_what(t, &text);
    if (v->action == VERDICT_ALLOW) {
        if (t->tree->verb == TREE_ALLOW)
            buf_printf(&text, " is allowed with %s%.*s%s, not with '%.*s'",
                       v->credential.n ? "credential '" : "no credential", SLICE_ARG(v->credential),
                       v->credential.n ? "'" : "", SLICE_ARG(t->tree->with.text));
        else
            buf_puts(&text, " is allowed");
        buf_printf(&hint, "%s:%u decides: %.*s", v->rule.file, v->rule.line, SLICE_ARG(v->rule.text));
    } else {
        buf_puts(&text, " is denied: ");
        explain(t->c->p, &t->f, t->reach, v, 1, &text);
        struct buf rule;
        buf_init(&rule, TEXT_MAX);
        policy_hint(t->c->p, &t->f, v, &rule);
        if (buf_len(&rule))
            buf_printf(&hint, "the smallest rule that permits it: %.*s", SLICE_ARG(buf_slice(&rule)));
        buf_release(&rule);
    }
    const char *words = buf_cstr(&text), *advice = buf_len(&hint) ? buf_cstr(&hint) : NULL;
    diag_token(t->c->diags, &t->tree->keyword, NULL, advice, "expectation fails: %s", words ? words : "");
    buf_release(&text);
    buf_release(&hint);
    t->reported = true;
    t->c->diags->failed++;
}

static void prove_one(struct proof *t) {
    struct verdict v;
    if (t->reported)
        return;
    judge(t->c->p, &t->f, t->reach, &v);
    if (v.rule.index)
        t->c->p->rules[v.rule.index - 1].proved = true;
    bool allowed = v.action == VERDICT_ALLOW;
    bool wanted = t->tree->verb == TREE_ALLOW;
    bool credential =
        !(t->tree->options & 1u << TREE_WITH) || !allowed || slice_eq(v.credential, t->tree->with.text);
    if (allowed != wanted || (wanted && !credential))
        report(t, &v);
}

static void prove_http(struct proof *t) {
    struct slice rest = t->tree->action_word.text;
    bool more = true;
    t->f.kind = FACTS_HTTP;
    while (more) {
        more = slice_cut(rest, ',', &t->f.method, &rest);
        prove_one(t);
    }
}

/* Sets the path of one of git's endpoints of the repository. */
static bool endpoint(struct proof *t, struct slice repository, const char *tail, const char *method,
                     const char *query) {
    struct arena *arena = &t->c->p->arena;
    size_t n = strlen(tail);
    char *path = arena_alloc(arena, repository.n + n + 1);
    if (!path)
        return false;
    memcpy(path, repository.p, repository.n);
    memcpy(path + repository.n, tail, n);
    t->f.path = slice_make(path, repository.n + n);
    t->f.method = slice_str(method);
    t->f.query = slice_str(query);
    return true;
}

static void prove_fetch(struct proof *t, struct slice repository) {
    t->f.kind = FACTS_GIT_FETCH;
    if (endpoint(t, repository, ".git/info/refs", "GET", "service=git-upload-pack"))
        prove_one(t);
    if (endpoint(t, repository, ".git/git-upload-pack", "POST", ""))
        prove_one(t);
}

static void prove_ref(struct proof *t, struct slice repository, const struct token *word) {
    struct expanded *e = &t->c->word;
    if (!expand(t->c, word, e))
        return;
    struct facts_ref ref = {.name = expanded_text(t->c, e->c, e->n)};
    if (!slice_starts(ref.name, SLICE("refs/"))) {
        diag_token(t->c->diags, word, "refs/heads/NAME", NULL, "a ref's name begins with refs/");
        return;
    }
    unsigned ops = compile_ops(t->tree);
    for (unsigned op = FACTS_CREATE; op <= FACTS_FORCE; op++) {
        if (!(ops & 1u << op))
            continue;
        ref.op = (enum facts_op)op;
        t->f.refs = NULL;
        t->f.nrefs = 0;
        if (t->tree->verb == TREE_ALLOW &&
            endpoint(t, repository, ".git/info/refs", "GET", "service=git-receive-pack"))
            prove_one(t);
        t->f.refs = &ref;
        t->f.nrefs = 1;
        if (endpoint(t, repository, ".git/git-receive-pack", "POST", ""))
            prove_one(t);
    }
    t->f.refs = NULL;
    t->f.nrefs = 0;
}

static void prove_push(struct proof *t, struct slice repository) {
    t->f.kind = FACTS_GIT_PUSH;
    if (t->tree->refs.n == 0) {
        if (endpoint(t, repository, ".git/info/refs", "GET", "service=git-receive-pack"))
            prove_one(t);
    }
    for (size_t i = 0; i < t->tree->refs.n; i++)
        prove_ref(t, repository, &t->tree->refs.list[i]);
}

/* Reads the target as a request's URL. *refused: no request with such a URL gets as far as a verdict. */
static bool read_url(struct proof *t, struct buf *path, bool *refused) {
    struct expanded *e = &t->c->word;
    struct target target = {.paths = NULL};
    struct errmsg msg;
    size_t at;
    if (!expand(t->c, &t->tree->target, e) || !target_origin(t->c, e, false, &target, &at))
        return false;
    struct slice rest = expanded_text(t->c, e->c + at, e->n - at), raw;
    bool has_query;
    t->shown = expanded_text(t->c, e->c, e->n);
    url_target_split(rest, &raw, &t->f.query, &has_query);
    if (raw.n == 0)
        raw = SLICE("/");
    *refused = url_path_canonical(raw, path, NULL, &msg) || url_query_check(t->f.query, &msg);
    if (*refused && t->tree->verb == TREE_ALLOW) {
        diag_marks(t->c, e, at, e->n - at, NULL, NULL, "expectation fails: such a request is refused: %s",
                   msg.text);
        t->c->diags->failed++;
        return false;
    }
    t->f.scheme = target.scheme;
    t->f.host = target.host;
    t->f.host_is_address = target.host_is_address;
    t->f.port = target.port;
    return true;
}

bool expect_check(struct compiler *c, const struct tree_rule *tree) {
    bool good = compile_supported(c, tree);
    if (tree->options & 1u << TREE_NOTE) {
        diag_token(c->diags, &tree->option_words[TREE_NOTE], NULL, NULL, "`note` belongs to rules");
        good = false;
    }
    if (tree->action == TREE_HTTP && slice_eq(tree->action_word.text, SLICE("*"))) {
        diag_token(c->diags, &tree->action_word, "a method (GET,POST), fetch or push", NULL,
                   "an expectation is about requests, and no request has the method '*'");
        good = false;
    }
    if (tree->ops && tree->refs.n == 0) {
        diag_token(c->diags, &tree->first_op, "a ref before it", NULL, "an operation on no ref");
        good = false;
    }
    return good;
}

void expect_prove(struct compiler *c, const struct tree_rule *tree, const bool *reach) {
    struct proof t = {.c = c, .tree = tree, .reach = reach};
    struct buf path;
    bool refused = false;
    c->diags->proofs++;
    buf_init(&path, 3 * POLICY_LINE_MAX);
    if (read_url(&t, &path, &refused) && !refused) {
        t.f.path = buf_slice(&path);
        struct slice repository = facts_repository(t.f.path);
        if (tree->action == TREE_HTTP)
            prove_http(&t);
        else if (tree->action == TREE_FETCH)
            prove_fetch(&t, repository);
        else
            prove_push(&t, repository);
    }
    buf_release(&path);
}
