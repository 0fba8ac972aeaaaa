/*
 * The grammar. A line in the first column begins a credential; indented lines belong to it. Each word that
 * can begin an indented line, each source and each form is a row of a table; those that are understood but do
 * not work yet are rows too, so that the error can say so.
 */
#include <stdlib.h>

#include "vault/parse.h"

void *vault_parse_grow(struct parser *p, void *array, size_t *n, size_t size) {
    void *one = vault_grow(array, n, size);
    if (!one)
        p->nomem = true;
    return one;
}

char *vault_parse_keep(struct parser *p, struct slice s) {
    char *copy = slice_dup(s);
    if (!copy)
        p->nomem = true;
    return copy;
}

/* --- small checks --------------------------------------------------------------------------------------- */

bool vault_parse_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || ascii_digit(c) || c == '_' || c == '-' ||
           c == '.';
}

static bool good_name(struct slice s) {
    for (size_t i = 0; i < s.n; i++)
        if (!vault_parse_name_char(s.p[i]))
            return false;
    return s.n > 0 && s.n <= VAULT_NAME_MAX && s.p[0] != '-' && s.p[0] != '.';
}

static bool good_variable(struct slice s) {
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] == '-' || s.p[i] == '.' || !vault_parse_name_char(s.p[i]))
            return false;
    return s.n > 0 && !ascii_digit(s.p[0]);
}

/* --- for ------------------------------------------------------------------------------------------------ */

/* The pattern for the path behind an origin, in canonical form. */
static bool read_path(struct parser *p, const struct word *w, struct slice path, struct scope *out) {
    struct errmsg msg;
    struct buf canonical;
    bool ok = false;
    if (slice_eq(path, SLICE("/"))) {
        vault_diag_at(&p->d, w->place,
                      "an origin without a path for all of the host, or a pattern such as /**", NULL,
                      "'/' alone could be read in two ways");
        return false;
    }
    for (size_t i = 0; i < path.n; i++)
        if (strchr("{}?[]\"", path.p[i])) {
            vault_diag_at(&p->d, w->place, "'*' within a segment, '**' across segments", NULL,
                          "'%c' in the pattern of a path", path.p[i]);
            return false;
        }
    buf_init(&canonical, VAULT_LINE_MAX * 3);
    if (url_path_canonical(path, &canonical, NULL, &msg))
        vault_diag_at(&p->d, w->place, NULL, NULL, "%s", msg.text);
    else if (buf_len(&canonical) > PATTERN_MAX)
        vault_diag_at(&p->d, w->place, NULL, NULL, "a pattern of more than %d bytes", PATTERN_MAX);
    else
        ok = (out->path = vault_parse_keep(p, buf_slice(&canonical))) != NULL;
    buf_release(&canonical);
    return ok;
}

static bool read_scope(struct parser *p, const struct word *w, struct scope *out) {
    static const char *expected = "https://HOST, http://HOST, perhaps with :PORT and a pattern for the path";
    struct url_parts parts;
    struct errmsg msg;
    out->place = w->place;
    if (url_split(w->text, &parts, &msg)) {
        vault_diag_at(&p->d, w->place, expected, NULL, "'%.*s' is no origin", SLICE_ARG(w->text));
        return false;
    }
    if (slice_find(parts.authority, '*') >= 0) {
        vault_diag_at(&p->d, w->place, expected,
                      "name every host; a secret must not go to one that nobody thought of",
                      "a pattern for hosts in a credential");
        return false;
    }
    if (parts.has_query) {
        vault_diag_at(&p->d, w->place, expected, NULL, "a query in an origin");
        return false;
    }
    out->scheme = parts.scheme;
    if (url_authority_parse(parts.authority, url_default_port(parts.scheme), &out->host, &out->port, &msg)) {
        vault_diag_at(&p->d, w->place, NULL, NULL, "%s", msg.text);
        return false;
    }
    /* url_split gives "/" for an origin without a path as well */
    size_t bare = (size_t)(parts.authority.p - w->text.p) + parts.authority.n;
    return bare == w->text.n || read_path(p, w, parts.path, out);
}

static bool same_origin(const struct scope *a, const struct scope *b) {
    return a->scheme == b->scheme && a->port == b->port &&
           slice_eq(url_host_slice(&a->host), url_host_slice(&b->host));
}

static bool same_scope(const struct scope *a, const struct scope *b) {
    return same_origin(a, b) && (a->path ? b->path && strcmp(a->path, b->path) == 0 : !b->path);
}

/* The words from `first` on, as origins. */
void vault_parse_scopes(struct parser *p, size_t first, struct scope **list, size_t *n) {
    if (first == p->line.n)
        vault_diag_at(&p->d, p->line.end, "one origin or more, such as https://api.example.com", NULL,
                      "nothing stands behind 'for'");
    for (size_t i = first; i < p->line.n; i++) {
        struct scope one = {0};
        if (!read_scope(p, &p->line.words[i], &one))
            continue;
        bool again = false;
        for (size_t j = 0; j < *n; j++)
            again = again || same_scope(&(*list)[j], &one);
        struct scope *place = NULL;
        if (again)
            vault_diag_at(&p->d, one.place, NULL, NULL, "the same origin again");
        else if (*n == SCOPES_MAX)
            vault_diag_at(&p->d, one.place, NULL, NULL, "more than %d origins", SCOPES_MAX);
        else
            place = vault_parse_grow(p, list, n, sizeof one);
        if (place)
            *place = one;
        else
            free(one.path);
    }
}

static void line_for(struct parser *p) {
    vault_parse_scopes(p, 1, &p->current->scopes, &p->current->nscopes);
}

/* --- from ----------------------------------------------------------------------------------------------- */

static const struct source_row {
    const char *word;
    bool works;
    enum vault_source_kind kind;
    size_t min, max; /* words behind it */
    const char *expected;
} source_rows[] = {
    {"env", true, VAULT_FROM_ENV, 1, 1, "the name of a variable"},
    {"file", true, VAULT_FROM_FILE, 1, 1, "the path of a file"},
    {"exec", true, VAULT_FROM_EXEC, 1, WORDS_MAX, "a program and its arguments"},
    {"git-credential", true, VAULT_FROM_GIT_CREDENTIAL, 1, WORDS_MAX,
     "a program and its arguments ('get' is added)"},
    {"encrypted", false, 0, 0, 0, NULL},
    {"github-app", false, 0, 0, 0, NULL},
    {"oauth2", false, 0, 0, 0, NULL},
    {"aws", false, 0, 0, 0, NULL},
    {"google", false, 0, 0, 0, NULL},
    {"vault", false, 0, 0, 0, NULL},
};

#define SOURCES_EXPECTED "env VARIABLE, file PATH, exec PROGRAM ARG..., or git-credential PROGRAM ARG..."

static const struct source_row *find_source(struct parser *p) {
    if (p->line.n < 2) {
        vault_diag_at(&p->d, p->line.end, SOURCES_EXPECTED, NULL, "nothing stands behind 'from'");
        return NULL;
    }
    const struct word *w = &p->line.words[1];
    for (size_t i = 0; i < sizeof source_rows / sizeof *source_rows; i++) {
        if (!word_is(w, source_rows[i].word))
            continue;
        if (source_rows[i].works)
            return &source_rows[i];
        vault_diag_at(&p->d, w->place, SOURCES_EXPECTED, NULL,
                      "the source '%s' does not work yet in this version", source_rows[i].word);
        return NULL;
    }
    vault_diag_at(&p->d, w->place, SOURCES_EXPECTED, NULL, "unknown source '%.*s'", SLICE_ARG(w->text));
    return NULL;
}

/* A path of the file's, made relative to its folder. */
static char *joined(struct parser *p, struct slice path) {
    if (path.p[0] == '/' || p->v->folder[0] == '\0')
        return vault_parse_keep(p, path);
    char *out = NULL;
    struct buf b;
    buf_init(&b, 1 << 20);
    buf_printf(&b, "%s/%.*s", p->v->folder, SLICE_ARG(path));
    if (b.failed)
        p->nomem = true;
    else
        out = vault_parse_keep(p, buf_slice(&b));
    buf_release(&b);
    return out;
}

static void line_from(struct parser *p) {
    struct credential *c = p->current;
    const struct source_row *row = find_source(p);
    size_t words = p->line.n - 2;
    if (!row) {
        if (!c->from.at)
            c->from = p->line.words[0].place; /* so that its absence is not an error as well */
        return;
    }
    if (c->from.at) {
        vault_diag_at(&p->d, p->line.words[0].place, NULL, NULL, "a second 'from' in credential '%s'",
                      c->name);
        return;
    }
    c->from = p->line.words[1].place;
    c->kind = row->kind;
    if (words < row->min || words > row->max) {
        struct place at = words < row->min ? p->line.end : p->line.words[2 + row->max].place;
        vault_diag_at(&p->d, at, row->expected, NULL,
                      words < row->min ? "nothing stands behind '%s'" : "too much behind '%s'", row->word);
        return;
    }
    const struct word *first = &p->line.words[2];
    if (first->text.n == 0) {
        vault_diag_at(&p->d, first->place, row->expected, NULL, "an empty string");
        return;
    }
    if (row->kind == VAULT_FROM_ENV && !good_variable(first->text)) {
        vault_diag_at(&p->d, first->place, "letters, digits and '_', not beginning with a digit", NULL,
                      "no name of a variable");
        return;
    }
    if (row->kind == VAULT_FROM_FILE && first->text.p[0] == '~') {
        vault_diag_at(&p->d, first->place, "an absolute path, or one relative to this file", NULL,
                      "'~' is not expanded here");
        return;
    }
    for (size_t i = 2; i < p->line.n; i++) {
        char **arg = vault_parse_grow(p, &c->argv, &c->nargv, sizeof *arg);
        if (arg)
            *arg = row->kind == VAULT_FROM_FILE ? joined(p, p->line.words[i].text)
                                                : vault_parse_keep(p, p->line.words[i].text);
    }
}

/* --- blocks --------------------------------------------------------------------------------------------- */

/* Each part of what a form is for must be bound, and each origin that is bound must have a form. */
static void check_forms(struct parser *p, const struct credential *c) {
    for (size_t i = 0; i < c->nforms; i++)
        for (size_t j = 0; j < c->forms[i].nscopes; j++) {
            bool bound = c->nscopes == 0;
            for (size_t k = 0; k < c->nscopes; k++)
                bound = bound || same_origin(&c->scopes[k], &c->forms[i].scopes[j]);
            if (!bound)
                vault_diag_at(&p->d, c->forms[i].scopes[j].place, NULL,
                              "add it to the line 'for' of this credential",
                              "credential '%s' is not for this origin", c->name);
        }
    for (size_t i = 0; i < c->nforms; i++)
        for (size_t j = i + 1; c->forms[i].nscopes == 0 && j < c->nforms; j++)
            vault_diag_at(&p->d, c->forms[j].place, NULL, "put the form without 'for' last",
                          "never used: an earlier form is for everything");
    for (size_t k = 0; c->nforms && k < c->nscopes; k++) {
        bool found = false;
        for (size_t i = 0; i < c->nforms; i++) {
            found = found || c->forms[i].nscopes == 0;
            for (size_t j = 0; j < c->forms[i].nscopes; j++)
                found = found || same_origin(&c->scopes[k], &c->forms[i].scopes[j]);
        }
        if (!found)
            vault_diag_at(&p->d, c->scopes[k].place, NULL, "add an 'inject' for it, or one without 'for'",
                          "no form for this origin");
    }
}

static void close_block(struct parser *p) {
    struct credential *c = p->current;
    if (!c)
        return;
    p->current = NULL;
    if (p->unread)
        return;
    if (c->nscopes == 0)
        vault_diag_at(&p->d, c->place, "a line 'for ORIGIN...'", NULL, "credential '%s' is for no origin",
                      c->name);
    if (!c->from.at)
        vault_diag_at(&p->d, c->place, "a line 'from SOURCE'", NULL, "credential '%s' comes from nowhere",
                      c->name);
    if (c->nforms == 0)
        vault_diag_at(&p->d, c->place, "a line 'inject FORM'", NULL, "credential '%s' has no form", c->name);
    /* a line that could not be read explains what would look like a lack of one */
    if (p->d.n == p->errors)
        check_forms(p, c);
}

static void open_block(struct parser *p) {
    const struct word *w = &p->line.words[1];
    close_block(p);
    p->in_block = true;
    p->unread = false;
    p->errors = p->d.n;
    if (p->line.n < 2) {
        vault_diag_at(&p->d, p->line.end, "credential NAME", NULL, "the credential's name is missing");
        return;
    }
    if (!good_name(w->text)) {
        vault_diag_at(&p->d, w->place, "letters, digits, '_', '-' and '.', at most 64", NULL,
                      "no name for a credential");
        return;
    }
    if (vault_find(p->v, w->text))
        vault_diag_at(&p->d, w->place, NULL, NULL, "a second credential '%.*s'", SLICE_ARG(w->text));
    if (p->line.n > 2)
        vault_diag_at(&p->d, p->line.words[2].place, "the end of the line", NULL, "unexpected word '%.*s'",
                      SLICE_ARG(p->line.words[2].text));
    if (p->v->n == VAULT_CREDENTIALS_MAX) {
        vault_diag_at(&p->d, w->place, NULL, NULL, "more than %d credentials", VAULT_CREDENTIALS_MAX);
        return;
    }
    struct credential *c = vault_parse_grow(p, &p->v->list, &p->v->n, sizeof *c);
    if (!c)
        return;
    c->name = vault_parse_keep(p, w->text);
    c->place = w->place;
    p->current = c;
}

static const struct line_row {
    const char *word;
    void (*read)(struct parser *p);
} line_rows[] = {
    {"for", line_for},
    {"from", line_from},
    {"inject", vault_parse_inject},
    {"remove", vault_parse_remove},
};

static void read_line(struct parser *p) {
    const struct word *w = &p->line.words[0];
    if (!p->line.indented) {
        if (word_is(w, "credential")) {
            open_block(p);
            return;
        }
        /* what follows belongs to neither the credential before nor one that we know */
        close_block(p);
        vault_diag_at(&p->d, w->place, "credential NAME",
                      p->in_block ? "the lines of a credential are indented" : NULL, "unexpected word '%.*s'",
                      SLICE_ARG(w->text));
        p->in_block = true;
        return;
    }
    if (word_is(w, "credential")) {
        vault_diag_at(&p->d, w->place, NULL, NULL, "'credential' has to stand in the first column");
        p->line.indented = false;
        open_block(p);
        return;
    }
    if (!p->in_block) {
        vault_diag_at(&p->d, w->place, "credential NAME", NULL, "an indented line before any credential");
        return;
    }
    for (size_t i = 0; i < sizeof line_rows / sizeof *line_rows; i++)
        if (word_is(w, line_rows[i].word)) {
            if (p->current)
                line_rows[i].read(p);
            return;
        }
    vault_diag_at(&p->d, w->place, "for, from, inject, or remove", NULL, "unexpected word '%.*s'",
                  SLICE_ARG(w->text));
}

/* A line without words: what it would have said is not missed, and what follows belongs to no other block. */
static void pass_line(struct parser *p) {
    p->unread = true;
    if (p->line.indented)
        return;
    close_block(p);
    p->in_block = true;
}

/* Of a path: what stands before its last part; "/" is before "/credentials". */
static size_t folder_length(const char *name) {
    const char *slash = strrchr(name, '/');
    return !slash ? 0 : slash == name ? 1 : (size_t)(slash - name);
}

int vault_parse(const char *name, const char *folder, struct slice text, struct vault **out,
                struct buf *diags) {
    size_t at = 0;
    *out = NULL;
    struct parser *p = calloc(1, sizeof *p);
    struct vault *v = calloc(1, sizeof *v);
    if (!p || !v || text.n > VAULT_FILE_MAX) {
        free(p);
        free(v);
        return text.n > VAULT_FILE_MAX ? ERR_LIMIT : ERR_NOMEM;
    }
    p->v = v;
    p->d = (struct diags){.vault = v, .out = diags};
    v->file = vault_parse_keep(p, slice_str(name));
    v->folder = vault_parse_keep(p, folder ? slice_str(folder) : slice_make(name, folder_length(name)));
    v->text = malloc(text.n + 1);
    if (v->text && text.n)
        memcpy(v->text, text.p, text.n);
    v->text_n = text.n;
    if (v->text && !p->nomem) {
        while (vault_lex_line(&p->d, &at, &p->line))
            if (!p->line.bad)
                read_line(p);
            else
                pass_line(p);
        close_block(p);
    }
    int r = !v->text || p->nomem ? ERR_NOMEM : vault_diag_end(&p->d) ? ERR_PARSE : 0;
    free(p);
    if (r)
        vault_free(v);
    else
        *out = v;
    return r;
}
