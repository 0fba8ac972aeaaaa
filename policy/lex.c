#include "policy/lex.h"

#include <assert.h>

#include "base/lines.h"
#include "policy/diag.h"

void lex_init(struct lexer *lx, const struct source *source, struct arena *arena,
              struct policy_diags *diags) {
    *lx = (struct lexer){.source = source, .arena = arena, .diags = diags, .line = 1, .end_line = 1};
    if (slice_starts(source->text, SLICE("\xef\xbb\xbf")))
        lx->at = 3; /* a byte order mark, as some editors leave it */
}

static struct slice rest(const struct lexer *lx) {
    return slice_from(lx->source->text, lx->at);
}

static int peek(const struct lexer *lx, size_t ahead) {
    return lines_peek(rest(lx), ahead);
}

static size_t break_at(const struct lexer *lx, size_t ahead) {
    return lines_break(rest(lx), ahead);
}

static void error_at(struct lexer *lx, const char *at, size_t width, const char *hint, const char *what) {
    if (!lx->bad)
        diag_at(lx->diags, lx->source, at, width, NULL, hint, "%s", what);
    lx->bad = true;
}

static void error_here(struct lexer *lx, size_t width, const char *hint, const char *what) {
    error_at(lx, lx->source->text.p + lx->at, width, hint, what);
}

static void skip_blanks(struct lexer *lx) {
    struct lines_skip s = lines_skip_blanks(rest(lx));
    if (s.bad)
        error_at(lx, s.bad, 1, "remove the blanks behind '\\'", "'\\' is not the last character of its line");
    lx->at += s.n;
    lx->line += s.joined;
}

bool lex_line(struct lexer *lx) {
    lx->bad = false;
    lx->list = false;
    for (;;) {
        lx->begin = lx->at;
        skip_blanks(lx);
        size_t n = break_at(lx, 0);
        if (n == 0)
            break;
        lx->at += n;
        lx->line++;
    }
    lx->end = lx->at;
    lx->end_line = lx->line;
    return peek(lx, 0) >= 0;
}

static bool list_char(int c) {
    return c == '(' || c == ')' || c == ',';
}

static void lex_word(struct lexer *lx, struct token *out) {
    const char *p = lx->source->text.p + lx->at;
    size_t n = 0;
    out->kind = TOKEN_WORD;
    if (lx->list && list_char(peek(lx, 0))) {
        n = 1;
    } else {
        for (int c;
             (c = peek(lx, n)) >= 0 && !lines_blank(c) && !break_at(lx, n) && !(lx->list && list_char(c));
             n++) {
            if (c == '\\' && break_at(lx, n + 1))
                break;
            if (c < 0x20 || c == 0x7f) {
                lx->at += n;
                error_here(lx, 1, NULL, "control character in a word");
                lx->at -= n;
            }
        }
    }
    out->text = out->raw = slice_make(p, n);
    lx->at += n;
}

/* Takes \" and \\ out of a string. A string without them is a view of the source. */
static struct slice unescape(struct lexer *lx, struct slice s) {
    if (slice_find(s, '\\') < 0)
        return s;
    char *p = arena_alloc(lx->arena, s.n + 1);
    size_t n = 0;
    for (size_t i = 0; p && i < s.n; i++) {
        if (s.p[i] == '\\') {
            i++;
            if (s.p[i] != '"' && s.p[i] != '\\' && !lx->bad) {
                diag_at(lx->diags, lx->source, s.p + i - 1, 2, "\\\" or \\\\", NULL,
                        "unknown escape in a string");
                lx->bad = true;
            }
        }
        p[n++] = s.p[i];
    }
    return slice_make(p, p ? n : 0);
}

static void lex_string(struct lexer *lx, struct token *out) {
    const char *p = lx->source->text.p + lx->at;
    size_t n = 1;
    out->kind = TOKEN_STRING;
    for (int c; (c = peek(lx, n)) != '"'; n++) {
        if (c < 0 || break_at(lx, n)) {
            error_here(lx, n, NULL, "string is not closed on its line");
            break;
        }
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            error_here(lx, n + 1, NULL, "control character in a string");
        }
        if (c == '\\' && peek(lx, n + 1) >= 0 && !break_at(lx, n + 1))
            n++;
    }
    struct slice inner = slice_make(p + 1, n - 1);
    if (peek(lx, n) == '"')
        n++;
    out->raw = slice_make(p, n);
    out->text = lx->bad ? inner : unescape(lx, inner);
    lx->at += n;
    int next = peek(lx, 0);
    if (next >= 0 && !lines_blank(next) && !break_at(lx, 0) && !(lx->list && list_char(next)) && next != '\\')
        error_here(lx, 1, NULL, "a blank is missing behind a string");
}

void lex_next(struct lexer *lx, struct token *out) {
    *out = (struct token){.source = lx->source};
    skip_blanks(lx);
    int c = peek(lx, 0);
    if (c < 0 || break_at(lx, 0)) {
        out->kind = TOKEN_END;
        out->raw = slice_make(lx->source->text.p + lx->end, 0);
        out->line = lx->end_line;
        return;
    }
    out->line = lx->line;
    if (c == '"')
        lex_string(lx, out);
    else
        lex_word(lx, out);
    lx->end = lx->at;
    lx->end_line = lx->line;
    static_assert(POLICY_LINE_MAX == 8192, "the hint says so");
    if (lx->at - lx->begin > POLICY_LINE_MAX)
        error_here(lx, 0, "8192 bytes at most, with its continuation lines", "rule is too long");
}

void lex_skip(struct lexer *lx) {
    struct token t;
    do
        lex_next(lx, &t);
    while (t.kind != TOKEN_END);
}
