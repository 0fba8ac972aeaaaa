/* A parser by recursive descent, a line at a time. After an error in a line the next line is tried. */
#include "policy/parse.h"

#include "policy/diag.h"
#include "policy/facts.h"
#include "policy/words.h"

static const char *const verb_names[] = {
    [TREE_ALLOW] = "allow", [TREE_DENY] = "deny", [TREE_ASK] = "ask", [TREE_TUNNEL] = "tunnel"};
#define VERBS (sizeof verb_names / sizeof *verb_names)

static const char *const op_names[] = {"create", "update", "delete", "force"};
#define OPS (sizeof op_names / sizeof *op_names)

/* "create" -> TREE_CREATE; 0 if it is none. */
static unsigned tree_op(struct slice word) {
    for (size_t i = 0; i < OPS; i++)
        if (slice_eq(word, slice_str(op_names[i])))
            return 1u << i;
    return 0;
}

void parse_next(struct parser *p) {
    p->before = p->t.raw.p + p->t.raw.n;
    lex_next(&p->lx, &p->t);
}

bool parse_expected(struct parser *p, const char *expected, const char *hint) {
    if (p->lx.bad)
        return false;
    p->lx.bad = true;
    if (p->t.kind == TOKEN_END)
        diag_token(p->diags, &p->t, expected, hint, "the line ends too early");
    else
        diag_token(p->diags, &p->t, expected, hint, "'%.*s' can't stand here", SLICE_ARG(p->t.raw));
    return false;
}

/* Lists grow by doubling in the arena; what is left behind is small and goes with it. */
bool parse_words_add(struct parser *p, struct tree_words *words, const struct token *t) {
    if ((words->n & (words->n - 1)) == 0) {
        size_t room = words->n ? words->n * 2 : 1;
        struct token *list = arena_alloc(p->arena, room * sizeof *list);
        if (!list)
            return false;
        if (words->n)
            memcpy(list, words->list, words->n * sizeof *list);
        words->list = list;
    }
    words->list[words->n++] = *t;
    return true;
}

static bool is_word(const struct token *t, const char *word) {
    return t->kind == TOKEN_WORD && slice_eq(t->text, slice_str(word));
}

static bool is_git(struct slice word) {
    return slice_eq(word, SLICE("fetch")) || slice_eq(word, SLICE("push")) || slice_eq(word, SLICE("lfs"));
}

/* The caret stands under the one of the list that is none. */
static bool no_method(struct parser *p, const struct token *t, struct slice word) {
    char hint[WORDS_HINT];
    bool alone = word.n == t->text.n;
    p->lx.bad = true;
    if (word.n == 0)
        diag_token(p->diags, t, "a list like GET,HEAD, without blanks", NULL,
                   "a method is missing beside ','");
    else if (!alone && is_git(word))
        diag_at(p->diags, t->source, word.p, word.n, "a method", "write a rule of its own for git",
                "'%.*s' stands among methods", SLICE_ARG(word));
    else
        diag_at(p->diags, t->source, word.p, word.n, "a method (GET,POST), '*', fetch, push or lfs",
                policy_action_hint(word, hint), "unknown action '%.*s'", SLICE_ARG(word));
    return false;
}

/* GET or GET,HEAD. The word is kept whole; here only its form is checked. */
static bool check_methods(struct parser *p, const struct token *t) {
    struct slice rest = t->text, method;
    bool more = true;
    while (more) {
        more = slice_cut(rest, ',', &method, &rest);
        if (!facts_method(method))
            return no_method(p, t, method);
    }
    return true;
}

static bool parse_action(struct parser *p, struct tree_rule *rule) {
    static const struct {
        const char *word;
        enum tree_action action;
    } git[] = {{"fetch", TREE_FETCH}, {"push", TREE_PUSH}, {"lfs", TREE_LFS}, {"tunnel", TREE_CONNECT}};
    if (p->t.kind != TOKEN_WORD)
        return parse_expected(p, "an action: a method (GET,POST), '*', fetch, push or lfs", NULL);
    rule->action_word = p->t;
    rule->action = TREE_HTTP;
    for (size_t i = 0; i < sizeof git / sizeof *git; i++) {
        if (is_word(&p->t, git[i].word)) {
            rule->action = git[i].action;
            parse_next(p);
            return true;
        }
    }
    if (slice_find(p->t.text, ':') >= 0)
        return parse_expected(p, "an action before the target: a method (GET,POST), '*', fetch, push or lfs",
                              NULL);
    if (!is_word(&p->t, "*") && !check_methods(p, &p->t))
        return false;
    parse_next(p);
    return true;
}

static bool parse_target(struct parser *p, struct tree_rule *rule) {
    if (p->t.kind != TOKEN_WORD || parse_is_option(p->t.text))
        return parse_expected(p, "a target like https://example.com/path", NULL);
    rule->target = p->t;
    parse_next(p);
    return true;
}

/* A word that is no ref may be a misspelt operation or option. What else is wrong with it shows when it is compiled. */
static bool check_ref(struct parser *p, const struct tree_rule *rule) {
    const char *known[TREE_OPTIONS + OPS];
    char hint[WORDS_HINT];
    bool push = rule->action == TREE_PUSH;
    size_t n = parse_option_words(rule->action, known);
    for (size_t i = 0; push && i < OPS; i++)
        known[n++] = op_names[i];
    const char *said = words_hint(push ? WORDS_PUSHED : WORDS_FETCHED, p->t.text, known, n, hint);
    return !said || parse_expected(p,
                                   push ? "a ref like refs/heads/main, create, update, delete, force, an "
                                          "option or the end of the line"
                                        : "a ref like refs/heads/main, an option or the end of the line",
                                   said);
}

/* Refs and operations, in any order, up to the first option. */
static bool parse_refs(struct parser *p, struct tree_rule *rule) {
    while (p->t.kind == TOKEN_WORD && !parse_is_option(p->t.text)) {
        unsigned op = tree_op(p->t.text);
        if (op && rule->action == TREE_FETCH)
            return parse_expected(p, "a ref like refs/heads/main, an option or the end of the line",
                                  "operations belong to push rules");
        if (op && !rule->ops)
            rule->first_op = p->t;
        if (op)
            rule->ops |= op;
        else if (!check_ref(p, rule) || !parse_words_add(p, &rule->refs, &p->t))
            return false;
        parse_next(p);
    }
    return true;
}

/* download, upload, lock: what of LFS a rule is about. */
static void parse_lfs_words(struct parser *p, struct tree_rule *rule) {
    while (p->t.kind == TOKEN_WORD) {
        enum facts_lfs op;
        if (!facts_lfs_of(p->t.text, &op))
            return;
        if (!rule->ops)
            rule->first_op = p->t;
        rule->ops |= 1u << op;
        parse_next(p);
    }
}

/* The line from the rule's keyword on, without a comment: what refusals quote. */
static struct slice rule_text(const struct parser *p, const struct token *first) {
    const char *text = p->lx.source->text.p;
    const char *end = text + p->lx.end;
    const char *stop = first->raw.p;
    while (stop < end && *stop != '\n' && *stop != '\r')
        stop++;
    struct slice s = slice_make(first->raw.p, (size_t)(stop - first->raw.p));
    while (s.n && (s.p[s.n - 1] == '\\' || s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
        s.n--;
    return s;
}

/* p->t is behind the verb. */
static bool parse_rule(struct parser *p, struct tree_rule *rule) {
    rule->action = TREE_CONNECT;
    if (rule->verb != TREE_TUNNEL && !parse_action(p, rule))
        return false;
    if (!parse_target(p, rule))
        return false;
    if ((rule->action == TREE_PUSH || rule->action == TREE_FETCH) && !parse_refs(p, rule))
        return false;
    if (rule->action == TREE_LFS)
        parse_lfs_words(p, rule);
    if (!parse_options(p, rule))
        return false;
    rule->text = rule_text(p, &rule->keyword);
    return !p->lx.bad;
}

static bool verb_of(const struct token *t, enum tree_verb *verb) {
    for (size_t i = 0; i < VERBS; i++) {
        if (is_word(t, verb_names[i])) {
            *verb = (enum tree_verb)i;
            return true;
        }
    }
    return false;
}

static bool parse_expect(struct parser *p, struct tree_statement *s) {
    s->kind = TREE_EXPECT;
    char hint[WORDS_HINT];
    if (!verb_of(&p->t, &s->rule.verb))
        return parse_expected(p, "allow, deny, ask or tunnel",
                              words_hint(WORDS_STATEMENT, p->t.text, verb_names, VERBS, hint));
    s->rule.keyword = p->t;
    parse_next(p);
    return parse_rule(p, &s->rule);
}

static bool parse_include(struct parser *p, struct tree_statement *s) {
    s->kind = TREE_INCLUDE;
    if (p->t.kind != TOKEN_STRING)
        return parse_expected(p, "a file's name in quotes: include \"npm.policy\"", NULL);
    s->name = p->t;
    if (p->t.text.n == 0 || p->t.text.n > POLICY_NAME_MAX)
        return parse_expected(p, "a file's name", NULL);
    parse_next(p);
    return p->t.kind == TOKEN_END || parse_expected(p, "the end of the line", NULL);
}

static bool name_char(char c, bool first) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (!first && ascii_digit(c));
}

static bool parse_let(struct parser *p, struct tree_statement *s) {
    s->kind = TREE_LET;
    bool good = p->t.kind == TOKEN_WORD;
    for (size_t i = 0; good && i < p->t.text.n; i++)
        good = name_char(p->t.text.p[i], i == 0);
    if (!good)
        return parse_expected(p, "a variable's name, of letters, digits and '_'", "write: let name = value");
    s->name = p->t;
    parse_next(p);
    s->value = p->t;
    if (p->t.kind == TOKEN_END)
        return true;
    if (!is_word(&p->t, "="))
        return parse_expected(p, "'=' and a value, or the end of the line", "write: let name = value");
    parse_next(p);
    if (p->t.kind == TOKEN_END)
        return parse_expected(p, "a value", NULL);
    s->value = p->t;
    parse_next(p);
    return p->t.kind == TOKEN_END ||
           parse_expected(p, "the end of the line", "a value with blanks stands in quotes");
}

static bool no_statement(struct parser *p) {
    static const char *const known[] = {"allow", "deny", "ask", "tunnel", "include", "let", "expect"};
    char hint[WORDS_HINT];
    return parse_expected(p, "allow, deny, ask, tunnel, include, let or expect",
                          words_hint(WORDS_STATEMENT, p->t.text, known, sizeof known / sizeof *known, hint));
}

static bool parse_statement(struct parser *p, struct tree_statement *s) {
    struct token first = p->t;
    if (verb_of(&first, &s->rule.verb)) {
        s->kind = TREE_RULE;
        s->rule.keyword = first;
        parse_next(p);
        return parse_rule(p, &s->rule);
    }
    if (is_word(&first, "expect")) {
        parse_next(p);
        return parse_expect(p, s);
    }
    if (is_word(&first, "include")) {
        parse_next(p);
        return parse_include(p, s);
    }
    if (is_word(&first, "let")) {
        parse_next(p);
        return parse_let(p, s);
    }
    if (is_word(&first, "group")) {
        p->lx.bad = true;
        diag_token(p->diags, &first, NULL,
                   "write the hosts in braces, {api,www}.example.com, or a rule for each",
                   "there are no groups");
        return false;
    }
    return no_statement(p);
}

struct tree_statement *tree_parse(const struct source *source, struct arena *arena,
                                  struct policy_diags *diags) {
    struct parser p = {.arena = arena, .diags = diags};
    struct tree_statement *first = NULL, **last = &first;
    lex_init(&p.lx, source, arena, diags);
    while (lex_line(&p.lx)) {
        struct tree_statement *s = arena_alloc(arena, sizeof *s);
        if (!s)
            return first;
        parse_next(&p);
        bool good = parse_statement(&p, s);
        lex_skip(&p.lx);
        if (!good || p.lx.bad)
            continue;
        *last = s;
        last = &s->next;
    }
    return first;
}
