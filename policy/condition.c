/* Conditions: from the tree, on headers and on query parameters. */
#include "policy/condition.h"

#include "policy/diag.h"

#define NAME_MAX_BYTES 128 /* of a query parameter that a condition names */

/* --- from the tree ----------------------------------------------------------------------------------------- */

static bool whole_number(struct slice s, int64_t *out) {
    bool minus = s.n > 1 && s.p[0] == '-';
    uint64_t n;
    struct slice digits = slice_from(s, minus);
    if (digits.n == 0 || (digits.n > 1 && digits.p[0] == '0') || !slice_u64(digits, INT64_MAX, &n))
        return false;
    *out = minus ? -(int64_t)n : (int64_t)n;
    return true;
}

static bool compile_operand(struct compiler *c, const struct condition *cond, const struct token *t,
                            struct operand *out) {
    struct expanded *e = &c->word;
    static const struct {
        const char *word;
        enum operand_kind kind;
    } words[] = {{"true", OPERAND_TRUE}, {"false", OPERAND_FALSE}, {"null", OPERAND_NULL}};
    if (!expand(c, t, e))
        return false;
    *out = (struct operand){.kind = OPERAND_TEXT, .text = expanded_text(c, e->c, e->n)};
    if (!out->text.p || cond->subject != TREE_JSON || t->kind != TOKEN_WORD || slice_find(t->text, '$') >= 0)
        return out->text.p != NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (slice_eq(t->text, slice_str(words[i].word)))
            out->kind = words[i].kind;
    if (whole_number(t->text, &out->number))
        out->kind = OPERAND_NUMBER;
    else if (ascii_digit(t->text.p[0]) && slice_find(t->text, '.') >= 0) {
        diag_token(c->diags, t, "a whole number, or a text in quotes", NULL,
                   "fractions are not compared: they are written in more than one way");
        return false;
    }
    return true;
}

static bool compile_operands(struct compiler *c, const struct tree_condition *tree, struct condition *out) {
    static const char *const operations[] = {"query", "mutation", "subscription"};
    if (tree->test == TREE_MATCHES) {
        struct expanded *e = &c->word;
        return expand(c, &tree->values.list[0], e) && regex_compile(c, e, 0, e->n, false, &out->regex);
    }
    out->noperands = tree->values.n;
    out->operands = arena_alloc(&c->p->arena, (tree->values.n + 1) * sizeof *out->operands);
    for (size_t i = 0; i < tree->values.n; i++) {
        struct operand *o = &out->operands[i];
        if (!out->operands || !compile_operand(c, out, &tree->values.list[i], o))
            return false;
        bool known = out->subject != TREE_GRAPHQL || out->field;
        for (size_t k = 0; k < 3; k++)
            known |= slice_eq(o->text, slice_str(operations[k]));
        if (!known) {
            diag_token(c->diags, &tree->values.list[i], "query, mutation or subscription", NULL,
                       "GraphQL has no such operation");
            return false;
        }
    }
    return true;
}

static bool bad_path(struct compiler *c, const struct token *t, const char *what) {
    diag_token(c->diags, t, "a path like base, head.ref, labels[*].name, items[0]",
               "a key with other characters stands in quotes, alone", "%s", what);
    return false;
}

/* "[3]" or "[*]" at s. */
static bool index_step(struct slice *s, struct step *out) {
    ptrdiff_t end = slice_find(*s, ']');
    uint64_t n;
    if (end < 2)
        return false;
    struct slice inner = slice_sub(*s, 1, (size_t)end - 1);
    *s = slice_from(*s, (size_t)end + 1);
    out->all = slice_eq(inner, SLICE("*"));
    if (!out->all && !slice_u64(inner, 1000000, &n))
        return false;
    out->index = out->all ? 0 : (uint32_t)n;
    return true;
}

static bool compile_steps(struct compiler *c, const struct token *t, struct condition *out) {
    struct slice s = t->text;
    out->steps = arena_alloc(&c->p->arena, CONDITION_STEPS_MAX * sizeof *out->steps);
    if (!out->steps)
        return false;
    if (t->kind == TOKEN_STRING) {
        out->nsteps = 1;
        out->steps[0].key = arena_copy(&c->p->arena, s);
        return s.n ? out->steps[0].key.p != NULL : bad_path(c, t, "an empty key");
    }
    for (bool first = true; s.n; first = false) {
        struct step *step = &out->steps[out->nsteps];
        if (out->nsteps++ == CONDITION_STEPS_MAX - 1)
            return bad_path(c, t, "the path is too long");
        if (s.p[0] == '[') {
            if (!index_step(&s, step))
                return bad_path(c, t, "not a path into JSON");
            continue;
        }
        if (!first && s.p[0] == '.')
            s = slice_from(s, 1);
        else if (!first)
            return bad_path(c, t, "not a path into JSON");
        size_t n = 0;
        while (n < s.n && !strchr(".[]*{}$\"", s.p[n]))
            n++;
        if (n == 0)
            return bad_path(c, t, "not a path into JSON");
        step->key = arena_copy(&c->p->arena, slice_sub(s, 0, n));
        if (!step->key.p)
            return false;
        s = slice_from(s, n);
    }
    return true;
}

static bool compile_name(struct compiler *c, const struct tree_condition *tree, struct condition *out) {
    out->name = arena_copy(&c->p->arena, tree->name.text);
    if (out->subject == TREE_GRAPHQL)
        out->field = slice_eq(out->name, SLICE("field"));
    if (out->subject == TREE_JSON)
        return compile_steps(c, &tree->name, out);
    if (out->name.n > NAME_MAX_BYTES) {
        diag_token(c->diags, &tree->name, NULL, NULL, "the name is too long");
        return false;
    }
    if (out->subject != TREE_HEADER)
        return true;
    for (size_t i = 0; i < out->name.n; i++) {
        char ch = ascii_lower(out->name.p[i]);
        if ((ch >= 'a' && ch <= 'z') || ascii_digit(ch) || (ch && strchr("-_.!#$%&'*+^`|~", ch)))
            continue;
        diag_token(c->diags, &tree->name, "a header's name like Accept", NULL, "no header has such a name");
        return false;
    }
    return true;
}

bool condition_compile(struct compiler *c, const struct tree_rule *tree, const struct condition **out,
                       bool *body) {
    bool good = true;
    for (const struct tree_condition *t = tree->where; t; t = t->next) {
        struct condition *one = arena_alloc(&c->p->arena, sizeof *one);
        if (!one)
            return false;
        one->subject = t->subject;
        one->test = t->test;
        one->text = t->text;
        good &= compile_name(c, t, one) && compile_operands(c, t, one);
        *body |= condition_on_body(one);
        *out = one;
        out = &one->next;
    }
    return good;
}

bool condition_on_body(const struct condition *c) {
    return c->subject == TREE_JSON || c->subject == TREE_GRAPHQL;
}

bool condition_same_place(const struct condition *a, const struct condition *b) {
    if (a->subject != b->subject)
        return false;
    switch (a->subject) {
    case TREE_HEADER: return slice_caseeq(a->name, b->name);
    case TREE_QUERY: return slice_eq(a->name, b->name);
    case TREE_GRAPHQL: return true;
    case TREE_JSON: break;
    }
    if (a->nsteps != b->nsteps)
        return false;
    for (size_t i = 0; i < a->nsteps; i++) {
        const struct step *x = &a->steps[i], *y = &b->steps[i];
        if ((x->key.p != NULL) != (y->key.p != NULL) || !slice_eq(x->key, y->key) || x->all != y->all ||
            x->index != y->index)
            return false;
    }
    return true;
}

static bool same_operand(const struct operand *x, const struct operand *y) {
    return x->kind == y->kind && x->number == y->number && slice_eq(x->text, y->text);
}

bool condition_same(const struct condition *a, const struct condition *b) {
    bool same = condition_same_place(a, b) && a->test == b->test && a->field == b->field &&
                a->noperands == b->noperands && regex_same(a->regex, b->regex);
    for (size_t i = 0; same && i < a->noperands; i++)
        same = same_operand(&a->operands[i], &b->operands[i]);
    return same;
}

static bool operands_meet(const struct condition *a, const struct condition *b) {
    for (size_t i = 0; i < a->noperands; i++)
        for (size_t k = 0; k < b->noperands; k++)
            if (same_operand(&a->operands[i], &b->operands[k]))
                return true;
    return false;
}

static bool says_what_it_is(const struct condition *c) {
    for (size_t i = 0; i < c->nsteps; i++)
        if (c->steps[i].all)
            return false;
    return c->subject != TREE_GRAPHQL && (c->test == TREE_EQUAL || c->test == TREE_IN);
}

bool condition_meet(const struct condition *a, const struct condition *b) {
    for (; a; a = a->next)
        for (const struct condition *other = b; other; other = other->next)
            if (says_what_it_is(a) && says_what_it_is(other) && condition_same_place(a, other) &&
                !operands_meet(a, other))
                return false;
    return true;
}

/* --- headers and queries ----------------------------------------------------------------------------------- */

enum tri condition_text(const struct condition *c, struct slice text) {
    if (c->test == TREE_MATCHES)
        return regex_match(c->regex, text);
    bool found = false;
    for (size_t i = 0; i < c->noperands; i++)
        found |= c->operands[i].kind == OPERAND_TEXT && slice_eq(c->operands[i].text, text);
    return found == (c->test != TREE_UNEQUAL) ? TRI_YES : TRI_NO;
}

enum tri condition_absent(const struct condition *c) {
    return c->test == TREE_UNEQUAL ? TRI_UNKNOWN : TRI_NO;
}

/* CGI and what came after it know no case, nor any signs but one: "X_Kind" is X-Kind to these. */
static char header_fold(char c) {
    c = ascii_lower(c);
    return (c >= 'a' && c <= 'z') || ascii_digit(c) ? c : '-';
}

static bool header_alike(struct slice a, struct slice b) {
    size_t i = 0;
    while (i < a.n && a.n == b.n && header_fold(a.p[i]) == header_fold(b.p[i]))
        i++;
    return i == a.n && a.n == b.n;
}

enum tri condition_header(const struct facts *f, struct slice name, struct slice *out) {
    struct slice field, value;
    enum tri found = TRI_NO;
    if (!f->field)
        return TRI_UNKNOWN;
    for (size_t i = 0; f->field(f->field_arg, i, &field, &value); i++) {
        if (!header_alike(field, name))
            continue;
        if (found != TRI_NO || !slice_caseeq(field, name))
            return TRI_UNKNOWN;
        found = TRI_YES;
        *out = slice_trim(value);
    }
    return found;
}

bool condition_names_header(const struct condition *first, struct slice name) {
    for (const struct condition *c = first; c; c = c->next)
        if (c->subject == TREE_HEADER && header_alike(c->name, name))
            return true;
    return false;
}

/* Undoes '+' and percent encoding. False: it is malformed, has a control character, or is too long. */
static bool decode(struct slice s, char *text, size_t size, struct slice *out) {
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        int c = (unsigned char)s.p[i];
        if (c == '+') {
            c = ' ';
        } else if (c == '%') {
            c = slice_hex_pair(s, i + 1);
            if (c < 0)
                return false;
            i += 2;
        }
        if (n == size || c == 0)
            return false;
        text[n++] = (char)c;
    }
    *out = slice_make(text, n);
    return true;
}

/* Another spelling of the name that some server takes for it: other case, "name[]", "name.x", blanks around it. */
static bool resembles(struct slice name, struct slice wanted) {
    struct slice s = slice_trim(name);
    size_t n = 0;
    while (n < s.n && s.p[n] != '[' && s.p[n] != '.')
        n++;
    return slice_caseeq(s, wanted) || slice_caseeq(slice_sub(s, 0, n), wanted);
}

enum tri condition_query(const struct facts *f, struct slice name, char *text, size_t size,
                         struct slice *out) {
    char memory[3 * NAME_MAX_BYTES];
    struct slice rest = f->query, pair, raw, value, key;
    enum tri found = TRI_NO;
    bool more = rest.n > 0;
    if (slice_find(f->query, ';') >= 0)
        return TRI_UNKNOWN; /* some servers part parameters there */
    while (more) {
        more = slice_cut(rest, '&', &pair, &rest);
        if (!slice_cut(pair, '=', &raw, &value))
            value = SLICE_NONE;
        if (raw.n > sizeof memory)
            continue; /* longer, decoded too, than any name that a condition has */
        if (!decode(raw, memory, sizeof memory, &key))
            return TRI_UNKNOWN;
        if (!slice_eq(key, name) && resembles(key, name))
            return TRI_UNKNOWN;
        if (!slice_eq(key, name))
            continue;
        if (found != TRI_NO || !decode(value, text, size, out))
            return TRI_UNKNOWN;
        found = TRI_YES;
    }
    return found;
}

static enum tri told(const struct condition *c, enum tri found, struct slice value, const char *unknown,
                     const char **why) {
    if (found == TRI_UNKNOWN)
        *why = unknown;
    return found == TRI_YES ? condition_text(c, value) : found == TRI_NO ? condition_absent(c) : TRI_UNKNOWN;
}

enum tri condition_holds(const struct condition *c, const struct facts *f, struct body_view *view,
                         size_t limit, bool loose, const char **why) {
    char text[CONDITION_TEXT_MAX];
    struct slice value = SLICE_NONE;
    enum tri found;
    switch (c->subject) {
    case TREE_HEADER:
        found = condition_header(f, c->name, &value);
        return told(c, found, value, "the header is there more than once", why);
    case TREE_QUERY:
        found = condition_query(f, c->name, text, sizeof text, &value);
        return told(c, found, value, "the query can be read in more than one way", why);
    case TREE_JSON: return condition_json(c, f, view, limit, loose, why);
    case TREE_GRAPHQL: return condition_graphql(c, f, view, limit, loose, why);
    }
    return TRI_UNKNOWN;
}
