/* What may stand behind a rule's target: a table of options, and the conditions of `where`. */
#include "policy/parse.h"

#include "policy/diag.h"
#include "policy/words.h"

static bool parse_with(struct parser *p, struct tree_rule *rule);
static bool parse_where(struct parser *p, struct tree_rule *rule);
static bool parse_limit(struct parser *p, struct tree_rule *rule);
static bool parse_max_body(struct parser *p, struct tree_rule *rule);
static bool parse_paths(struct parser *p, struct tree_rule *rule);
static bool parse_max_size(struct parser *p, struct tree_rule *rule);
static bool parse_max_blob(struct parser *p, struct tree_rule *rule);
static bool parse_max_commits(struct parser *p, struct tree_rule *rule);
static bool parse_author(struct parser *p, struct tree_rule *rule);
static bool parse_committer(struct parser *p, struct tree_rule *rule);
static bool parse_signed(struct parser *p, struct tree_rule *rule);
static bool parse_note(struct parser *p, struct tree_rule *rule);
static bool parse_to(struct parser *p, struct tree_rule *rule);
static bool parse_also(struct parser *p, struct tree_rule *rule);
static bool parse_header(struct parser *p, struct tree_rule *rule);
static bool parse_body(struct parser *p, struct tree_rule *rule);
static bool parse_push_options(struct parser *p, struct tree_rule *rule);

/* Bits of enum tree_action. */
#define ON_HTTP  (1u << TREE_HTTP)
#define ON_PUSH  (1u << TREE_PUSH)
#define ON_FETCH (1u << TREE_FETCH)
#define ON_READ  (ON_HTTP | 1u << TREE_LFS) /* whose bodies are no git's own */
#define ON_ANY   0xffu
#define ON_SENT  (ON_ANY & ~(1u << TREE_CONNECT)) /* where there is a request to put a header into */

static const struct {
    const char *word;
    unsigned actions; /* the actions that it may stand behind */
    const char *only;
    bool (*parse)(struct parser *p, struct tree_rule *rule);
} options[] = {
    [TREE_WITH] = {"with", ON_SENT, "a tunnel can't carry a credential", parse_with},
    [TREE_WHERE] = {"where", ON_READ, "`where` belongs to rules about HTTP methods and lfs", parse_where},
    [TREE_LIMIT] = {"limit", ON_ANY, NULL, parse_limit},
    [TREE_MAX_BODY] = {"max-body", ON_READ, "`max-body` belongs to rules about HTTP methods and lfs",
                       parse_max_body},
    [TREE_PATHS] = {"paths", ON_PUSH, "`paths` belongs to push rules", parse_paths},
    [TREE_MAX_SIZE] = {"max-size", ON_PUSH, "`max-size` belongs to push rules", parse_max_size},
    [TREE_MAX_BLOB] = {"max-blob", ON_PUSH, "`max-blob` belongs to push rules", parse_max_blob},
    [TREE_MAX_COMMITS] = {"max-commits", ON_PUSH, "`max-commits` belongs to push rules", parse_max_commits},
    [TREE_AUTHOR] = {"author", ON_PUSH, "`author` belongs to push rules", parse_author},
    [TREE_COMMITTER] = {"committer", ON_PUSH, "`committer` belongs to push rules", parse_committer},
    [TREE_SIGNED] = {"signed", ON_PUSH, "`signed` belongs to push rules", parse_signed},
    [TREE_NOTE] = {"note", ON_ANY, NULL, parse_note},
    [TREE_TO] = {"to", ON_ANY, NULL, parse_to},
    [TREE_ALSO] = {"also", ON_FETCH, "`also` belongs to fetch rules", parse_also},
    [TREE_SEND] = {"header", ON_READ, "`header` belongs to expectations about HTTP methods and lfs",
                   parse_header},
    [TREE_SEND_BODY] = {"body", ON_READ, "`body` belongs to expectations about HTTP methods and lfs",
                        parse_body},
    [TREE_PUSH_OPTIONS] = {"options", ON_PUSH, "`options` belongs to push rules", parse_push_options},
};
_Static_assert(sizeof options / sizeof *options == TREE_OPTIONS, "each option has its row");

static int option_of(struct slice word) {
    for (int i = 0; i < TREE_OPTIONS; i++)
        if (slice_eq(word, slice_str(options[i].word)))
            return i;
    return -1;
}

bool parse_is_option(struct slice word) {
    return option_of(word) >= 0;
}

size_t parse_option_words(enum tree_action action, const char **words) {
    size_t n = 0;
    for (size_t i = 0; i < TREE_OPTIONS; i++)
        if (options[i].actions & 1u << action)
            words[n++] = options[i].word;
    return n;
}

static const char *const subjects[] = {
    [TREE_JSON] = "json", [TREE_HEADER] = "header", [TREE_QUERY] = "query", [TREE_GRAPHQL] = "graphql"};
#define SUBJECTS (sizeof subjects / sizeof *subjects)

/* What somebody may have meant by a word that is no option. */
static const char *meant(const struct parser *p, const struct tree_rule *rule, char hint[WORDS_HINT]) {
    const char *known[TREE_OPTIONS + FACTS_LFS_COUNT];
    for (size_t i = 0; i < SUBJECTS; i++)
        if (slice_eq(p->t.text, slice_str(subjects[i])))
            return rule->where ? "conditions are joined by `and`" : "conditions stand behind `where`";
    if (slice_eq(p->t.text, SLICE("or")))
        return "write a rule for each; several values of one thing are: in (a, b)";
    size_t n = parse_option_words(rule->action, known);
    for (unsigned op = FACTS_LFS_DOWNLOAD; rule->action == TREE_LFS && op < FACTS_LFS_COUNT; op++)
        known[n++] = facts_lfs_name((enum facts_lfs)op);
    const char *said = words_hint(rule->action == TREE_PUSH    ? WORDS_PUSHED
                                  : rule->action == TREE_FETCH ? WORDS_FETCHED
                                                               : WORDS_OPTION,
                                  p->t.text, known, n, hint);
    if (said)
        return said;
    return rule->action == TREE_PUSH    ? "refs and operations stand before the options"
           : rule->action == TREE_FETCH ? "refs stand before the options"
           : rule->action == TREE_LFS   ? "download, upload and lock stand before the options"
                                        : NULL;
}

bool parse_options(struct parser *p, struct tree_rule *rule) {
    char hint[WORDS_HINT];
    while (p->t.kind != TOKEN_END) {
        int i = p->t.kind == TOKEN_WORD ? option_of(p->t.text) : -1;
        if (i < 0 || (i == TREE_SEND && rule->where))
            return parse_expected(
                p,
                "an option (with, where, limit, max-body, paths, max-size, max-blob, max-commits, author, "
                "committer, signed, options, to, also, note) "
                "or the end of the line",
                meant(p, rule, hint));
        if (!(options[i].actions & (1u << rule->action))) {
            p->lx.bad = true;
            diag_token(p->diags, &p->t, NULL, NULL, "%s", options[i].only);
            return false;
        }
        if ((rule->options & (1u << i)) && i != TREE_WHERE && i != TREE_SEND) {
            p->lx.bad = true;
            diag_token(p->diags, &p->t, NULL, NULL, "`%s` stands here twice", options[i].word);
            return false;
        }
        rule->options |= 1u << i;
        rule->option_words[i] = p->t;
        parse_next(p);
        if (!options[i].parse(p, rule))
            return false;
    }
    return true;
}

static bool credential_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || ascii_digit(c) || c == '_' || c == '-' ||
           c == '.';
}

static bool parse_with(struct parser *p, struct tree_rule *rule) {
    bool good = p->t.kind == TOKEN_WORD && p->t.text.n <= 64;
    for (size_t i = 0; good && i < p->t.text.n; i++)
        good = credential_char(p->t.text.p[i]);
    if (!good)
        return parse_expected(p, "a credential's name, of letters, digits, '-', '_' and '.'",
                              "a policy names a credential; the vault's file defines it");
    rule->with = p->t;
    parse_next(p);
    return true;
}

static bool parse_values(struct parser *p, struct tree_condition *c) {
    bool in = c->test == TREE_IN;
    p->lx.list = in;
    parse_next(p);
    if (in) {
        if (p->t.kind != TOKEN_WORD || !slice_eq(p->t.text, SLICE("(")))
            return parse_expected(p, "'(' and a list of values", NULL);
        parse_next(p);
    }
    for (;;) {
        if (p->t.kind == TOKEN_END)
            return parse_expected(p, "a value", NULL);
        if (!parse_words_add(p, &c->values, &p->t))
            return false;
        p->lx.list = in;
        parse_next(p);
        if (!in)
            return true;
        if (p->t.kind == TOKEN_WORD && slice_eq(p->t.text, SLICE(")")))
            break;
        if (p->t.kind != TOKEN_WORD || !slice_eq(p->t.text, SLICE(",")))
            return parse_expected(p, "',' or ')'", NULL);
        parse_next(p);
    }
    p->lx.list = false;
    parse_next(p);
    return true;
}

static bool parse_test(struct parser *p, struct tree_condition *c) {
    static const char *const names[] = {
        [TREE_EQUAL] = "==", [TREE_UNEQUAL] = "!=", [TREE_IN] = "in", [TREE_MATCHES] = "~"};
    for (size_t i = 0; i < 4; i++) {
        if (p->t.kind == TOKEN_WORD && slice_eq(p->t.text, slice_str(names[i]))) {
            c->test = (enum tree_test)i;
            return parse_values(p, c);
        }
    }
    char hint[WORDS_HINT];
    return parse_expected(p, "==, !=, in or ~", words_hint(WORDS_TEST, p->t.text, names, 4, hint));
}

/* From the word at `from` to the one before p->t, on one line. */
static struct slice text_since(const struct parser *p, const char *from) {
    const char *end = p->before;
    const char *stop = from;
    while (stop < end && *stop != '\n' && *stop != '\r')
        stop++;
    return slice_trim(slice_make(from, (size_t)(stop - from)));
}

static bool parse_condition(struct parser *p, struct tree_condition *c) {
    const char *from = p->t.raw.p;
    char hint[WORDS_HINT];
    size_t i = 0;
    while (i < SUBJECTS && !(p->t.kind == TOKEN_WORD && slice_eq(p->t.text, slice_str(subjects[i]))))
        i++;
    if (i == SUBJECTS)
        return parse_expected(p, "json PATH, header NAME, query NAME, graphql operation or graphql field",
                              words_hint(WORDS_OTHER, p->t.text, subjects, SUBJECTS, hint));
    c->subject = (enum tree_subject)i;
    parse_next(p);
    if (p->t.kind == TOKEN_END)
        return parse_expected(p, "a name", NULL);
    if (c->subject == TREE_GRAPHQL && !slice_eq(p->t.text, SLICE("operation")) &&
        !slice_eq(p->t.text, SLICE("field")))
        return parse_expected(p, "operation or field", NULL);
    c->name = p->t;
    parse_next(p);
    bool good = parse_test(p, c);
    c->text = text_since(p, from);
    return good;
}

static bool parse_where(struct parser *p, struct tree_rule *rule) {
    struct tree_condition **last = &rule->where;
    while (*last)
        last = &(*last)->next;
    for (;;) {
        struct tree_condition *c = arena_alloc(p->arena, sizeof *c);
        if (!c || !parse_condition(p, c))
            return false;
        *last = c;
        last = &c->next;
        if (p->t.kind != TOKEN_WORD || !slice_eq(p->t.text, SLICE("and")))
            return true;
        parse_next(p);
    }
}

/* 600/h, 5/s, 1000/d, 20/m */
static bool parse_limit(struct parser *p, struct tree_rule *rule) {
    struct slice number, unit;
    uint64_t value;
    bool good = p->t.kind == TOKEN_WORD && slice_cut(p->t.text, '/', &number, &unit) &&
                slice_u64(number, 1000000000, &value) && value > 0 && unit.n == 1 &&
                strchr("smhd", unit.p[0]);
    if (!good)
        return parse_expected(p, "a number of requests a second, minute, hour or day: 600/h", NULL);
    rule->limit = p->t;
    parse_next(p);
    return true;
}

/* 512, 64KiB, 1MiB, 2GiB */
bool policy_size_parse(struct slice text, uint64_t *out) {
    static const char *const units[] = {"", "KiB", "MiB", "GiB"};
    size_t n = 0;
    while (n < text.n && ascii_digit(text.p[n]))
        n++;
    if (!slice_u64(slice_sub(text, 0, n), 1u << 30, out) || *out == 0)
        return false;
    for (size_t i = 0; i < 4; i++) {
        if (slice_eq(slice_from(text, n), slice_str(units[i]))) {
            *out <<= 10 * i;
            return true;
        }
    }
    return false;
}

static bool parse_size(struct parser *p, struct token *out) {
    uint64_t value;
    if (p->t.kind != TOKEN_WORD || !policy_size_parse(p->t.text, &value))
        return parse_expected(p, "a size: 512, 64KiB, 1MiB, 2GiB", NULL);
    *out = p->t;
    parse_next(p);
    return true;
}

static bool parse_max_body(struct parser *p, struct tree_rule *rule) {
    return parse_size(p, &rule->max_body);
}

static bool parse_max_size(struct parser *p, struct tree_rule *rule) {
    return parse_size(p, &rule->max_size);
}

static bool parse_max_blob(struct parser *p, struct tree_rule *rule) {
    return parse_size(p, &rule->max_blob);
}

static bool parse_max_commits(struct parser *p, struct tree_rule *rule) {
    uint64_t value;
    if (p->t.kind != TOKEN_WORD || !slice_u64(p->t.text, UINT32_MAX, &value) || value == 0)
        return parse_expected(p, "a number of commits", NULL);
    rule->max_commits = p->t;
    parse_next(p);
    return true;
}

/* Words up to the next option, one at least. */
static bool parse_list(struct parser *p, struct tree_words *words, const char *expected) {
    do {
        if (p->t.kind == TOKEN_END || (p->t.kind == TOKEN_WORD && parse_is_option(p->t.text)))
            return parse_expected(p, expected, NULL);
        if (!parse_words_add(p, words, &p->t))
            return false;
        parse_next(p);
    } while (p->t.kind != TOKEN_END && !(p->t.kind == TOKEN_WORD && parse_is_option(p->t.text)));
    return true;
}

static bool parse_paths(struct parser *p, struct tree_rule *rule) {
    return parse_list(p, &rule->paths, "a path pattern like .github/**");
}

static bool parse_push_options(struct parser *p, struct tree_rule *rule) {
    return parse_list(p, &rule->push_options, "a pattern of push options like merge_request.*");
}

static bool parse_author(struct parser *p, struct tree_rule *rule) {
    return parse_list(p, &rule->authors, "a pattern of identities like *<*@example.com>");
}

static bool parse_committer(struct parser *p, struct tree_rule *rule) {
    return parse_list(p, &rule->committers, "a pattern of identities like *<*@example.com>");
}

static bool parse_signed(struct parser *p, struct tree_rule *rule) {
    (void)p;
    (void)rule;
    return true;
}

static bool parse_note(struct parser *p, struct tree_rule *rule) {
    if (p->t.kind != TOKEN_STRING)
        return parse_expected(p, "a text in quotes", NULL);
    rule->note = p->t;
    parse_next(p);
    return true;
}

/* private, 10.0.0.0/8, 192.168.1.7, fd00::/8 */
static bool parse_to(struct parser *p, struct tree_rule *rule) {
    do {
        if (p->t.kind != TOKEN_WORD || parse_is_option(p->t.text))
            return parse_expected(p, "private, an address, or a network like 10.0.0.0/8", NULL);
        if (!parse_words_add(p, &rule->to, &p->t))
            return false;
        parse_next(p);
    } while (p->t.kind != TOKEN_END && !(p->t.kind == TOKEN_WORD && parse_is_option(p->t.text)));
    return true;
}

static bool no_extra(struct parser *p) {
    const char *known[FACTS_EXTRAS];
    char hint[WORDS_HINT];
    for (size_t i = 0; i < FACTS_EXTRAS; i++)
        known[i] = facts_extra_name((enum facts_extra)i);
    return parse_expected(p, "archive, bundle-uri, packfile-uris or any-object",
                          words_hint(WORDS_OTHER, p->t.text, known, FACTS_EXTRAS, hint));
}

/* archive bundle-uri packfile-uris any-object */
static bool parse_also(struct parser *p, struct tree_rule *rule) {
    do {
        enum facts_extra extra;
        if (p->t.kind != TOKEN_WORD || !facts_extra_of(p->t.text, &extra))
            return no_extra(p);
        rule->also |= 1u << extra;
        parse_next(p);
    } while (p->t.kind != TOKEN_END && !(p->t.kind == TOKEN_WORD && parse_is_option(p->t.text)));
    return true;
}

static bool parse_header(struct parser *p, struct tree_rule *rule) {
    for (int i = 0; i < 2; i++) {
        if (p->t.kind == TOKEN_END)
            return parse_expected(p, i ? "the header's value" : "a header's name", NULL);
        if (!parse_words_add(p, &rule->headers, &p->t))
            return false;
        parse_next(p);
    }
    return true;
}

static bool parse_body(struct parser *p, struct tree_rule *rule) {
    if (p->t.kind == TOKEN_END)
        return parse_expected(p, "the request's body", NULL);
    rule->body = p->t;
    parse_next(p);
    return true;
}
