/*
 * `policy fmt`. The words of a statement stay as they are written; only the blanks between them change. Rules that
 * stand together have verb, action and target in columns, and so have expectations; comments, blank lines (one at a
 * time) and the lines of a statement that is continued are kept.
 */
#include <stdlib.h>

#include "base/lines.h"
#include "policy/diag.h"
#include "policy/tools.h"
#include "policy/tree.h"

#define WORDS_MAX   512
#define BLOCK_MAX   256
#define COLUMN_MAX  72 /* a longer word moves no other line's column */
#define FORMAT_TREE (256u << 20)

enum layout {
    LAYOUT_PLAIN, /* one blank between words */
    LAYOUT_RULE,
    LAYOUT_EXPECT,
};

struct line {
    enum layout layout;
    struct slice *words;
    size_t n;
    struct slice comment;
};

struct formatter {
    struct arena arena;
    struct buf *out;
    struct line block[BLOCK_MAX];
    size_t n;
    bool any;   /* something was written */
    bool blank; /* a blank line is due */
};

/* --- writing ----------------------------------------------------------------------------------------------- */

static void begin_line(struct formatter *f) {
    if (f->blank && f->any)
        buf_putc(f->out, '\n');
    f->blank = false;
    f->any = true;
}

static size_t columns_of(enum layout layout) {
    return layout == LAYOUT_RULE ? 2 : layout == LAYOUT_EXPECT ? 3 : 0;
}

/* Where among a statement's words its lists are. */
struct lists {
    bool conditions; /* elsewhere "in" is a word like others */
    bool list;
    struct slice last;
};

static void lists_word(struct lists *l, struct slice word) {
    l->conditions |= slice_eq(word, SLICE("where"));
    if (slice_eq(word, SLICE("(")))
        l->list |= l->conditions && slice_eq(l->last, SLICE("in"));
    else if (slice_eq(word, SLICE(")")))
        l->list = false;
    l->last = word;
}

/* Within `in (a, b)` parentheses and commas are words of their own, which need no blanks. Elsewhere they do: `x )` is not
 * `x)`. The last word that `l` was told is the one before `after`. */
static bool joined(const struct lists *l, struct slice after) {
    return l->list &&
           (slice_eq(l->last, SLICE("(")) || slice_eq(after, SLICE(")")) || slice_eq(after, SLICE(",")));
}

static void put_line(struct formatter *f, const struct line *l, const size_t *widths) {
    struct lists lists = {0};
    for (size_t i = 0; i < l->n; i++) {
        buf_put(f->out, l->words[i]);
        lists_word(&lists, l->words[i]);
        if (i + 1 == l->n)
            break;
        size_t width = lines_characters(l->words[i].p, l->words[i].p + l->words[i].n);
        bool column = l->layout != LAYOUT_PLAIN && i <= columns_of(l->layout);
        for (size_t k = width; column && k < widths[i]; k++)
            buf_putc(f->out, ' ');
        if (!joined(&lists, l->words[i + 1]) && !(l->words[i].n == 0 && widths[i] == 0))
            buf_putc(f->out, ' ');
    }
    if (l->comment.n) {
        buf_puts(f->out, "  ");
        buf_put(f->out, l->comment);
    }
    buf_putc(f->out, '\n');
}

/* Writes the lines that wait for their columns. */
static void flush(struct formatter *f) {
    size_t widths[4] = {0};
    for (size_t i = 0; i < f->n; i++)
        for (size_t k = 0; k <= columns_of(f->block[i].layout) && k + 1 < f->block[i].n; k++) {
            size_t width =
                lines_characters(f->block[i].words[k].p, f->block[i].words[k].p + f->block[i].words[k].n);
            if (width > widths[k] && width <= COLUMN_MAX)
                widths[k] = width;
        }
    for (size_t i = 0; i < f->n; i++) {
        begin_line(f);
        put_line(f, &f->block[i], widths);
    }
    f->n = 0;
}

/* --- reading ----------------------------------------------------------------------------------------------- */

static struct slice trim_end(struct slice s) {
    while (s.n && strchr(" \t\r\n", s.p[s.n - 1]))
        s.n--;
    return s;
}

/* Comments and blank lines between statements. */
static void put_between(struct formatter *f, struct slice text) {
    struct slice line;
    while (text.n) {
        slice_cut(text, '\n', &line, &text);
        line = trim_end(slice_trim(trim_end(line)));
        if (line.n == 0) {
            flush(f);
            f->blank = true;
        } else if (line.p[0] == '#') {
            flush(f);
            begin_line(f);
            buf_put(f->out, line);
            buf_putc(f->out, '\n');
        }
    }
}

static enum layout layout_of(const struct token *words) {
    static const char *const rules[] = {"allow", "deny", "ask", "tunnel"};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (slice_eq(words[0].text, slice_str(rules[i])))
            return LAYOUT_RULE;
    return slice_eq(words[0].text, SLICE("expect")) ? LAYOUT_EXPECT : LAYOUT_PLAIN;
}

/* Where a line has a verb that is its action too, an empty word keeps the column. */
static size_t verb_alone(const struct token *words, size_t n, enum layout layout) {
    size_t verb = layout == LAYOUT_EXPECT;
    return layout != LAYOUT_PLAIN && verb < n && slice_eq(words[verb].text, SLICE("tunnel")) ? verb + 1 : n;
}

static void put_continued(struct formatter *f, const struct token *words, size_t n, struct slice comment) {
    struct lists lists = {0};
    flush(f);
    begin_line(f);
    for (size_t i = 0; i < n; i++) {
        if (i && words[i].line != words[i - 1].line)
            buf_puts(f->out, " \\\n    ");
        else if (i && !joined(&lists, words[i].raw))
            buf_putc(f->out, ' ');
        buf_put(f->out, words[i].raw);
        lists_word(&lists, words[i].raw);
    }
    if (comment.n) {
        buf_puts(f->out, "  ");
        buf_put(f->out, comment);
    }
    buf_putc(f->out, '\n');
}

static bool add_line(struct formatter *f, const struct token *words, size_t n, struct slice comment) {
    struct line l = {.layout = layout_of(words), .comment = comment};
    size_t gap = verb_alone(words, n, l.layout);
    if (f->n == BLOCK_MAX || (f->n && f->block[f->n - 1].layout != l.layout))
        flush(f);
    l.words = arena_alloc(&f->arena, (n + 1) * sizeof *l.words);
    if (!l.words)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (i == gap)
            l.words[l.n++] = SLICE_NONE;
        l.words[l.n++] = words[i].raw;
    }
    f->block[f->n++] = l;
    return true;
}

static bool opens_list(const struct lexer *lx) {
    size_t at = lx->at;
    while (at < lx->source->text.n && (lx->source->text.p[at] == ' ' || lx->source->text.p[at] == '\t'))
        at++;
    return at < lx->source->text.n && lx->source->text.p[at] == '(';
}

/* One statement. False when it has too many words, or memory is short. */
static bool statement(struct formatter *f, struct lexer *lx, struct token *words) {
    size_t n = 0;
    bool conditions = false; /* elsewhere "in" is a word like others */
    for (;;) {
        if (n == WORDS_MAX)
            return false;
        lex_next(lx, &words[n]);
        if (words[n].kind == TOKEN_END)
            break;
        conditions |= slice_eq(words[n].raw, SLICE("where"));
        if (conditions && slice_eq(words[n].raw, SLICE("in")))
            lx->list = opens_list(lx);
        else if (slice_eq(words[n].raw, SLICE(")")))
            lx->list = false;
        n++;
    }
    struct slice tail = slice_sub(lx->source->text, lx->end, lx->at - lx->end);
    ptrdiff_t hash = slice_find(tail, '#');
    struct slice comment = hash < 0 ? SLICE_NONE : trim_end(slice_from(tail, (size_t)hash));
    if (n && words[0].line != words[n - 1].line)
        put_continued(f, words, n, comment);
    else if (n)
        return add_line(f, words, n, comment);
    return true;
}

static int format(struct formatter *f, const struct source *source, struct policy_diags *diags) {
    struct lexer lx;
    struct token *words = malloc((WORDS_MAX + 1) * sizeof *words);
    int r = words ? 0 : ERR_NOMEM;
    lex_init(&lx, source, &f->arena, diags);
    while (r == 0) {
        size_t before = lx.at;
        bool more = lex_line(&lx);
        put_between(f, slice_sub(source->text, before, (more ? lx.begin : source->text.n) - before));
        if (!more)
            break;
        if (!statement(f, &lx, words))
            r = f->arena.failed ? ERR_NOMEM : ERR_LIMIT;
        /* over the line break, so that it is no blank line */
        while (lx.at < source->text.n && (source->text.p[lx.at] == '\r' || source->text.p[lx.at] == '\n')) {
            lx.line += source->text.p[lx.at] == '\n';
            if (source->text.p[lx.at++] == '\n')
                break;
        }
    }
    flush(f);
    free(words);
    return r;
}

int policy_format_text(const char *name, struct slice text, struct buf *out, struct policy_diags *diags) {
    struct formatter *f = calloc(1, sizeof *f);
    if (!f)
        return ERR_NOMEM;
    arena_init(&f->arena, FORMAT_TREE);
    f->out = out;
    struct source source = {.name = name, .text = text};
    size_t before = diag_count(diags);
    int r = ERR_PARSE;
    tree_parse(&source, &f->arena, diags);
    if (slice_ends(text, SLICE("\\")))
        diag_at(diags, &source, text.p + text.n - 1, 1, NULL, "remove it",
                "'\\' at the end of the file continues nothing");
    if (diag_count(diags) == before)
        r = format(f, &source, diags);
    if (f->arena.failed)
        r = ERR_NOMEM;
    arena_release(&f->arena);
    free(f);
    return r == 0 && out->failed ? ERR_LIMIT : r;
}
