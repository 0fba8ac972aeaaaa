/* Proofs: each `expect` is judged as the request, or the few requests, that it describes. */
#include "policy/compile.h"

#include "policy/condition.h"
#include "policy/diag.h"
#include "policy/hint.h"

#define TEXT_MAX   4096
#define FIELDS_MAX 32

/* One expectation on its way. */
struct proof {
    struct compiler *c;
    const struct tree_rule *tree;
    const bool *reach;
    struct facts f;
    struct slice shown;                  /* the target, variables filled in */
    struct slice fields[2 * FIELDS_MAX]; /* name and value in turn */
    size_t nfields;
    struct slice push_options[FIELDS_MAX];
    struct facts_text changes[FIELDS_MAX], authors[FIELDS_MAX], committers[FIELDS_MAX];
    struct facts_brought brought;
    bool reported; /* one failure of an expectation is enough */
};

static void put_what(const struct proof *t, struct buf *out) {
    if (t->f.kind == FACTS_TUNNEL)
        buf_puts(out, "tunnel ");
    else if (t->tree->action == TREE_LFS)
        buf_puts(out, "lfs ");
    else if (t->f.kind == FACTS_HTTP)
        buf_printf(out, "%.*s ", SLICE_ARG(t->f.method));
    else
        buf_puts(out, t->f.kind == FACTS_GIT_PUSH ? "push " : "fetch ");
    buf_put(out, t->shown);
    if (t->f.nrefs)
        buf_printf(out, " %.*s", SLICE_ARG(t->f.refs[0].name));
    if (t->f.nrefs && t->f.kind == FACTS_GIT_PUSH)
        buf_printf(out, " %s", facts_op_name(t->f.refs[0].op));
    if (t->f.extra != FACTS_PLAIN)
        buf_printf(out, " also %s", facts_extra_name(t->f.extra));
    if (t->tree->action == TREE_LFS && t->tree->ops)
        buf_printf(out, " %s", facts_lfs_name(facts_lfs_operation(&t->f)));
}

static enum verdict_action wanted_action(enum tree_verb verb) {
    static const enum verdict_action actions[] = {[TREE_ALLOW] = VERDICT_ALLOW,
                                                  [TREE_DENY] = VERDICT_DENY,
                                                  [TREE_ASK] = VERDICT_ASK,
                                                  [TREE_TUNNEL] = VERDICT_TUNNEL};
    return actions[verb];
}

/* The rule of policy_hint, with the verb and the credential that are expected. */
static void put_smallest(const struct proof *t, struct slice rule, struct buf *out) {
    bool ask = t->tree->verb == TREE_ASK && slice_starts(rule, SLICE("allow"));
    buf_printf(out, "the smallest rule that %s: %s%.*s", ask ? "asks a person" : "permits it",
               ask ? "ask" : "", SLICE_ARG((ask ? slice_from(rule, strlen("allow")) : rule)));
    if (t->tree->with.text.n)
        buf_printf(out, " with %.*s", SLICE_ARG(t->tree->with.text));
}

static void report(struct proof *t, const struct verdict *v) {
    struct buf text, advice;
    buf_init(&text, TEXT_MAX);
    buf_init(&advice, TEXT_MAX);
    put_what(t, &text);
    if (v->action != VERDICT_DENY) {
        if (v->action == wanted_action(t->tree->verb))
            buf_printf(&text, " is %s with %s%.*s%s, not with '%.*s'",
                       v->action == VERDICT_ASK ? "asked of a person" : "allowed",
                       v->credential.n ? "credential '" : "no credential", SLICE_ARG(v->credential),
                       v->credential.n ? "'" : "", SLICE_ARG(t->tree->with.text));
        else
            buf_puts(&text, v->action == VERDICT_ALLOW ? " is allowed"
                            : v->action == VERDICT_ASK ? " is asked of a person"
                                                       : " is passed through");
        buf_printf(&advice, "%s:%u decides: %.*s", v->rule.file, v->rule.line, SLICE_ARG(v->rule.text));
    } else {
        buf_puts(&text, " is denied: ");
        explain(t->c->p, &t->f, t->reach, v, 1, &text);
        struct buf rule;
        buf_init(&rule, TEXT_MAX);
        hint(t->c->p, &t->f, t->reach, v, &rule, NULL);
        if (buf_len(&rule))
            put_smallest(t, buf_slice(&rule), &advice);
        buf_release(&rule);
    }
    const char *words = buf_cstr(&text);
    diag_token(t->c->diags, &t->tree->keyword, NULL, buf_len(&advice) ? buf_cstr(&advice) : NULL,
               "expectation fails: %s", words ? words : "");
    buf_release(&text);
    buf_release(&advice);
    t->reported = true;
    t->c->diags->failed++;
}

/* It is known, and meant, that the push rules refuse a write which this rule about HTTP permits. */
static void write_is_refused(struct proof *t) {
    struct body_view view = {.read = false};
    struct verdict v;
    judge_rules(t->c->p, &t->f, t->reach, &view, &v);
    body_view_release(&view);
    if (v.action == VERDICT_ALLOW && v.rule.index)
        t->c->p->rules[v.rule.index - 1].refusal_proved = true;
}

static void prove_one(struct proof *t) {
    struct verdict v;
    if (t->reported)
        return;
    judge(t->c->p, &t->f, t->reach, &v);
    if (v.rule.index)
        t->c->p->rules[v.rule.index - 1].proved = true;
    bool right = v.action == wanted_action(t->tree->verb);
    /* asked for the push it proves; the discovery before it is permitted */
    if (t->f.kind == FACTS_GIT_PUSH && t->f.nrefs == 0 && t->tree->verb == TREE_ASK)
        right = v.action == VERDICT_ALLOW;
    bool credential = !(t->tree->options & 1u << TREE_WITH) || v.action == VERDICT_DENY ||
                      slice_eq(v.credential, t->tree->with.text);
    if (!right || !credential)
        report(t, &v);
    else if (v.door && v.action == VERDICT_DENY)
        write_is_refused(t);
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
    struct arena *arena = &t->c->scratch;
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

/* The batch with the body that is given; or for each operation that is named, the request that asks for it. */
static void prove_lfs(struct proof *t, struct slice repository) {
    t->f.kind = FACTS_HTTP;
    if (!t->tree->ops && endpoint(t, repository, ".git/info/lfs/objects/batch", "POST", ""))
        prove_one(t);
    for (unsigned op = FACTS_LFS_DOWNLOAD; op < FACTS_LFS_COUNT; op++) {
        if (!(t->tree->ops & 1u << op))
            continue;
        t->f.lfs = (enum facts_lfs)op;
        if (endpoint(t, repository,
                     op == FACTS_LFS_LOCK ? ".git/info/lfs/locks" : ".git/info/lfs/objects/batch", "POST",
                     ""))
            prove_one(t);
    }
}

static void prove_tunnel(struct proof *t) {
    t->f.kind = FACTS_TUNNEL;
    t->f.path = t->f.method = SLICE_NONE;
    prove_one(t);
}

/* The name of a ref of the expectation. */
static bool read_ref(struct proof *t, const struct token *word, struct facts_ref *ref) {
    struct expanded *e = &t->c->word;
    if (!expand(t->c, word, e))
        return false;
    *ref = (struct facts_ref){.name = expanded_text(t->c, e->c, e->n), .brought = &t->brought};
    if (slice_starts(ref->name, SLICE("refs/")))
        return true;
    diag_token(t->c->diags, word, "refs/heads/NAME", NULL, "a ref's name begins with refs/");
    return false;
}

/* The requests that lead to a fetch. `stopped`: only those that a deny stops. */
static void prove_way(struct proof *t, struct slice repository, bool stopped) {
    static const char *const ways[][3] = {{".git/info/refs", "GET", "service=git-upload-pack"},
                                          {".git/git-upload-pack", "POST", ""}};
    for (size_t i = 0; i < 2; i++) {
        struct verdict v;
        if (!endpoint(t, repository, ways[i][0], ways[i][1], ways[i][2]))
            continue;
        judge(t->c->p, &t->f, t->reach, &v);
        if (!stopped || (v.action == VERDICT_DENY && v.rule.index))
            prove_one(t);
    }
}

/* Without refs and `also` it is about the request as such; a ref is proved with the requests that lead to it. */
static void prove_fetch(struct proof *t, struct slice repository) {
    struct facts_ref ref;
    bool parts = t->tree->refs.n || t->tree->also;
    t->f.kind = FACTS_GIT_FETCH;
    if (t->tree->verb != TREE_DENY)
        prove_way(t, repository, true); /* first: no rule that is added would do */
    for (size_t i = 0; i < t->tree->refs.n; i++) {
        if (!read_ref(t, &t->tree->refs.list[i], &ref) ||
            !endpoint(t, repository, ".git/git-upload-pack", "POST", ""))
            continue;
        t->f.refs = &ref;
        t->f.nrefs = 1;
        prove_one(t);
        t->f.refs = NULL;
        t->f.nrefs = 0;
    }
    for (unsigned extra = FACTS_PLAIN + 1; extra < FACTS_EXTRAS; extra++) {
        const char *tail = extra == FACTS_ARCHIVE ? ".git/git-upload-archive" : ".git/git-upload-pack";
        if (!(t->tree->also & 1u << extra) || !endpoint(t, repository, tail, "POST", ""))
            continue;
        t->f.extra = (enum facts_extra)extra;
        prove_one(t);
    }
    t->f.extra = FACTS_PLAIN;
    /* last: the smallest rule for these alone would be about every ref, and about no `also` */
    if (!parts || t->tree->verb != TREE_DENY)
        prove_way(t, repository, false);
}

static void prove_ref(struct proof *t, struct slice repository, const struct token *word) {
    struct facts_ref ref;
    if (!read_ref(t, word, &ref))
        return;
    unsigned ops = compile_ops(t->tree);
    for (unsigned op = FACTS_CREATE; op <= FACTS_FORCE; op++) {
        if (!(ops & 1u << op))
            continue;
        ref.op = (enum facts_op)op;
        t->f.refs = &ref;
        t->f.nrefs = 1;
        if (endpoint(t, repository, ".git/git-receive-pack", "POST", ""))
            prove_one(t);
    }
    /* last, since what is told of a push that fails is better told of its refs */
    t->f.refs = NULL;
    t->f.nrefs = 0;
    if (t->tree->verb != TREE_DENY &&
        endpoint(t, repository, ".git/info/refs", "GET", "service=git-receive-pack"))
        prove_one(t);
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
    for (size_t i = at; i < e->n && e->c[i].code != '?'; i++) {
        if (e->c[i].code != (MARK_LITERAL | '?'))
            continue;
        diag_marks(t->c, e, i, 1, "%3F", NULL,
                   "the value of a variable has a '?' where a path stands, and would begin a query");
        return false;
    }
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

static bool proof_field(const void *arg, size_t i, struct slice *name, struct slice *value) {
    const struct proof *t = arg;
    if (i >= t->nfields)
        return false;
    *name = t->fields[2 * i];
    *value = t->fields[2 * i + 1];
    return true;
}

static bool word_text(struct proof *t, const struct token *word, struct slice *out) {
    struct expanded *e = &t->c->word;
    if (!expand(t->c, word, e))
        return false;
    *out = expanded_text(t->c, e->c, e->n);
    return out->p != NULL;
}

static bool read_texts(struct proof *t, const struct tree_words *words, struct facts_text *list, size_t *n) {
    for (; *n < words->n && *n < FIELDS_MAX; (*n)++)
        if (!word_text(t, &words->list[*n], &list[*n].text))
            return false;
    return true;
}

/* What a push brings: one commit if it is not said, by nobody that is named, and not signed. */
static bool read_brought(struct proof *t) {
    const struct tree_rule *tree = t->tree;
    struct facts_brought *b = &t->brought;
    uint64_t commits = 1;
    t->f.size_known = t->f.blob_known = b->paths_known = true;
    b->commits_known = b->signed_known = b->authors_known = b->committers_known = true;
    if (tree->options & 1u << TREE_MAX_SIZE)
        policy_size_parse(tree->max_size.text, &t->f.size);
    if (tree->options & 1u << TREE_MAX_BLOB)
        policy_size_parse(tree->max_blob.text, &t->f.blob);
    if (tree->options & 1u << TREE_MAX_COMMITS)
        slice_u64(tree->max_commits.text, UINT32_MAX, &commits);
    b->ncommits = (size_t)commits;
    b->nsigned = tree->options & 1u << TREE_SIGNED ? b->ncommits : 0;
    b->paths = t->changes;
    b->authors = t->authors;
    b->committers = t->committers;
    if (!read_texts(t, &tree->paths, t->changes, &b->npaths) ||
        !read_texts(t, &tree->authors, t->authors, &b->nauthors) ||
        !read_texts(t, &tree->committers, t->committers, &b->ncommitters))
        return false;
    b->nauthors += b->nauthors == 0;
    b->ncommitters += b->ncommitters == 0;
    return true;
}

/* What the expectation says that the request brings: headers, a body (JSON if it does not say), changed files. */
static bool read_request(struct proof *t) {
    const struct tree_rule *tree = t->tree;
    bool typed = false;
    for (size_t i = 0; i < tree->headers.n && i < 2 * FIELDS_MAX - 2; i++) {
        if (!word_text(t, &tree->headers.list[i], &t->fields[i]))
            return false;
        typed |= i % 2 == 0 && slice_caseeq(t->fields[i], SLICE("content-type"));
        t->nfields = (i + 1) / 2;
    }
    t->f.body_state = FACTS_BODY_WHOLE;
    if (tree->options & 1u << TREE_SEND_BODY) {
        if (!word_text(t, &tree->body, &t->f.body))
            return false;
        if (!typed) {
            t->fields[2 * t->nfields] = SLICE("content-type");
            t->fields[2 * t->nfields++ + 1] = SLICE("application/json");
        }
    }
    t->f.field = proof_field;
    t->f.field_arg = t;
    t->f.options = t->push_options;
    for (size_t i = 0; i < tree->push_options.n && i < FIELDS_MAX; i++, t->f.noptions++)
        if (!word_text(t, &tree->push_options.list[i], &t->push_options[i]))
            return false;
    return read_brought(t);
}

bool expect_check(struct compiler *c, const struct tree_rule *tree) {
    static const enum tree_option foreign[] = {TREE_WHERE, TREE_LIMIT, TREE_MAX_BODY, TREE_TO, TREE_NOTE};
    bool good = true;
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        if (!(tree->options & 1u << foreign[i]))
            continue;
        const struct token *word = &tree->option_words[foreign[i]];
        diag_token(c->diags, word, "with, header NAME VALUE, body TEXT, push options, or what a push brings",
                   NULL, "`%.*s` belongs to rules", SLICE_ARG(word->text));
        good = false;
    }
    if (tree->headers.n > 2 * FIELDS_MAX - 2 || tree->paths.n > FIELDS_MAX || tree->authors.n > FIELDS_MAX ||
        tree->committers.n > FIELDS_MAX || tree->push_options.n > FIELDS_MAX) {
        diag_token(c->diags, &tree->keyword, NULL, NULL,
                   "more than %d headers, files, identities or push options", FIELDS_MAX - 1);
        good = false;
    }
    if (tree->action == TREE_HTTP && slice_eq(tree->action_word.text, SLICE("*"))) {
        diag_token(c->diags, &tree->action_word, "a method (GET,POST), fetch or push", NULL,
                   "an expectation is about requests, and no request has the method '*'");
        good = false;
    }
    if (tree->action == TREE_LFS && tree->ops && tree->options & 1u << TREE_SEND_BODY) {
        diag_token(c->diags, &tree->option_words[TREE_SEND_BODY], NULL, "leave one of them out",
                   "what LFS is asked for stands in the body, and here as a word as well");
        good = false;
    }
    if (tree->action == TREE_PUSH && tree->ops && tree->refs.n == 0) {
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
    if (read_url(&t, &path, &refused) && !refused && read_request(&t)) {
        t.f.path = buf_slice(&path);
        struct slice repository = facts_repository(t.f.path);
        if (tree->action == TREE_HTTP)
            prove_http(&t);
        else if (tree->action == TREE_FETCH)
            prove_fetch(&t, repository);
        else if (tree->action == TREE_LFS)
            prove_lfs(&t, repository);
        else if (tree->action == TREE_CONNECT)
            prove_tunnel(&t);
        else
            prove_push(&t, repository);
    }
    buf_release(&path);
}
