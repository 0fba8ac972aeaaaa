/*
 * Lines to words, by the rules of the policy language (base/lines.h): words are apart by blanks; one that begins
 * with '"' is a string, in which \" and \\ stand for the character.
 */
#include "base/lines.h"
#include "vault/internal.h"

struct lexer {
    struct diags *d;
    struct line *line;
    const char *at, *end;
};

static struct slice rest(const struct lexer *lx) {
    return slice_make(lx->at, (size_t)(lx->end - lx->at));
}

static int peek(const struct lexer *lx, size_t ahead) {
    return lines_peek(rest(lx), ahead);
}

static size_t break_at(const struct lexer *lx, size_t ahead) {
    return lines_break(rest(lx), ahead);
}

/* One error a line: what follows it may be its consequence. */
static void error_at(struct lexer *lx, const char *at, size_t n, const char *hint, const char *what) {
    if (!lx->line->bad)
        vault_diag_at(lx->d, (struct place){at, n}, NULL, hint, "%s", what);
    lx->line->bad = true;
}

static void skip_blanks(struct lexer *lx) {
    struct lines_skip s = lines_skip_blanks(rest(lx));
    if (s.bad)
        error_at(lx, s.bad, 1, "remove the blanks behind '\\'", "'\\' is not the last character of its line");
    lx->at += s.n;
}

static void lex_word(struct lexer *lx, struct word *out) {
    const char *from = lx->at;
    for (int c; (c = peek(lx, 0)) >= 0 && !lines_blank(c) && !break_at(lx, 0); lx->at++) {
        if (c == '\\' && break_at(lx, 1))
            break;
        if (c < 0x20 || c == 0x7f)
            error_at(lx, lx->at, 1, NULL, "control character in a word");
    }
    *out = (struct word){.text = slice_make(from, (size_t)(lx->at - from))};
    out->place = (struct place){from, out->text.n};
}

/* One character of a string, without its escape. */
static void put_scratch(struct lexer *lx, char c) {
    if (lx->line->scratch_n < sizeof lx->line->scratch)
        lx->line->scratch[lx->line->scratch_n++] = c;
    else
        error_at(lx, lx->at, 1, NULL, "line is too long");
}

static void lex_string(struct lexer *lx, struct word *out) {
    const char *from = lx->at++;
    size_t begin = lx->line->scratch_n;
    for (int c; (c = peek(lx, 0)) != '"'; lx->at++) {
        if (c < 0 || break_at(lx, 0)) {
            error_at(lx, from, (size_t)(lx->at - from), NULL, "string is not closed on its line");
            lx->at--; /* so that the closing quote that is not there is not passed over */
            break;
        }
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            error_at(lx, lx->at, 1, NULL, "control character in a string");
        if (c == '\\') {
            int next = peek(lx, 1);
            if (next != '"' && next != '\\') {
                error_at(lx, lx->at, 2, "\\\" and \\\\ are the only ones", "unknown escape in a string");
                continue;
            }
            lx->at++;
            c = next;
        }
        put_scratch(lx, (char)c);
    }
    lx->at++;
    *out = (struct word){.quoted = true, .place = {from, (size_t)(lx->at - from)}};
    out->text = slice_make(lx->line->scratch + begin, lx->line->scratch_n - begin);
    int next = peek(lx, 0);
    if (next >= 0 && !lines_blank(next) && !break_at(lx, 0) && !(next == '\\' && break_at(lx, 1)))
        error_at(lx, lx->at, 1, NULL, "a blank is missing behind a string");
}

bool vault_lex_line(struct diags *d, size_t *at, struct line *out) {
    struct lexer lx = {
        .d = d, .line = out, .at = d->vault->text + *at, .end = d->vault->text + d->vault->text_n};
    const char *begin;
    out->n = out->scratch_n = 0;
    out->bad = false;
    if (*at == 0 && slice_starts(slice_make(lx.at, d->vault->text_n), SLICE("\xef\xbb\xbf")))
        lx.at += 3; /* a byte order mark, as some editors leave it */
    for (;;) {
        begin = lx.at;
        skip_blanks(&lx);
        size_t n = break_at(&lx, 0);
        if (n == 0)
            break;
        lx.at += n;
    }
    out->indented = lx.at > begin && lines_blank((unsigned char)*begin);
    while (peek(&lx, 0) >= 0 && !break_at(&lx, 0)) {
        struct word w;
        if (peek(&lx, 0) == '"')
            lex_string(&lx, &w);
        else
            lex_word(&lx, &w);
        out->end = (struct place){w.place.at + w.place.n, 0};
        if (out->n < WORDS_MAX)
            out->words[out->n++] = w;
        else
            error_at(&lx, w.place.at, w.place.n, NULL, "too many words in one line");
        if (lx.at - begin > VAULT_LINE_MAX)
            error_at(&lx, w.place.at, w.place.n, NULL, "line is too long");
        skip_blanks(&lx);
    }
    *at = (size_t)(lx.at - d->vault->text);
    return out->n > 0;
}
