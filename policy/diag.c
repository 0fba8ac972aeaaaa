#include "policy/diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/lines.h"

#define MESSAGE_MAX  1024
#define SOURCE_SHOWN 400 /* of a longer line only this much is kept */

void policy_diags_init(struct policy_diags *d) {
    *d = (struct policy_diags){0};
}

void policy_diags_release(struct policy_diags *d) {
    for (size_t i = 0; i < d->n; i++) {
        struct policy_diag *e = &d->list[i];
        free(e->file);
        free(e->source);
        free(e->message);
        free(e->expected);
        free(e->hint);
    }
    free(d->list);
    *d = (struct policy_diags){0};
}

size_t diag_count(const struct policy_diags *d) {
    return d->n + d->dropped;
}

/* Room for one more; NULL counts the error all the same, so that no error is ever lost as a success. */
static struct policy_diag *diag_new(struct policy_diags *d) {
    size_t most = d->most ? d->most : POLICY_DIAGS_MAX;
    struct policy_diag *list = d->n < most ? array_room(d->list, d->n, &d->room, sizeof *list) : NULL;
    if (!list) {
        d->dropped++;
        return NULL;
    }
    d->list = list;
    d->list[d->n] = (struct policy_diag){0};
    return &d->list[d->n++];
}

static char *copy(const char *s) {
    return s ? slice_dup(slice_str(s)) : NULL;
}

static void place(struct policy_diag *e, const struct source *source, const char *at, size_t width) {
    const char *text = source->text.p, *end = text + source->text.n;
    const char *line = at;
    while (line > text && line[-1] != '\n')
        line--;
    const char *stop = at;
    while (stop < end && *stop != '\n' && *stop != '\r')
        stop++;
    e->line = 1;
    for (const char *p = text; p < line; p++)
        e->line += *p == '\n';
    e->col = lines_characters(line, at) + 1;
    const char *last = width < (size_t)(stop - at) ? at + width : stop;
    e->width = lines_characters(at, last);
    if (e->width == 0)
        e->width = 1;
    size_t shown = (size_t)(stop - line);
    if (shown > SOURCE_SHOWN)
        shown = SOURCE_SHOWN;
    /* a NUL, or another control character, can't be shown: a blank stands in its place */
    e->source = malloc(shown + 1);
    if (!e->source)
        return;
    for (size_t i = 0; i < shown; i++)
        e->source[i] = ((unsigned char)line[i] < 0x20 && line[i] != '\t') || line[i] == 0x7f ? ' ' : line[i];
    e->source[shown] = 0;
}

static void say(struct policy_diag *e, const char *file, const char *hint, const char *format, va_list ap) {
    char text[MESSAGE_MAX];
    vsnprintf(text, sizeof text, format, ap);
    e->file = copy(file);
    e->message = copy(text);
    e->hint = copy(hint);
}

void diag_at(struct policy_diags *d, const struct source *source, const char *at, size_t width,
             const char *expected, const char *hint, const char *format, ...) {
    struct policy_diag *e = diag_new(d);
    if (!e)
        return;
    va_list ap;
    va_start(ap, format);
    say(e, source->name, hint, format, ap);
    va_end(ap);
    e->expected = copy(expected);
    place(e, source, at, width);
}

void diag_file(struct policy_diags *d, const char *file, const char *hint, const char *format, ...) {
    struct policy_diag *e = diag_new(d);
    if (!e)
        return;
    va_list ap;
    va_start(ap, format);
    say(e, file, hint, format, ap);
    va_end(ap);
}

static size_t file_order(const struct policy_diag *e, struct source *const *files, size_t nfiles) {
    size_t i = 0;
    while (i < nfiles && !(e->file && strcmp(files[i]->name, e->file) == 0))
        i++;
    return i;
}

static bool comes_before(const struct policy_diag *a, const struct policy_diag *b,
                         struct source *const *files, size_t nfiles) {
    size_t x = file_order(a, files, nfiles), y = file_order(b, files, nfiles);
    if (x != y)
        return x < y;
    return a->line != b->line ? a->line < b->line : a->col < b->col;
}

void diag_sort(struct policy_diags *d, struct source *const *files, size_t nfiles) {
    for (size_t i = 1; i < d->n; i++) {
        struct policy_diag e = d->list[i];
        size_t k = i;
        for (; k > 0 && comes_before(&e, &d->list[k - 1], files, nfiles); k--)
            d->list[k] = d->list[k - 1];
        d->list[k] = e;
    }
}

/* Text from a file or a command line goes to a terminal: no control character of it passes. */
static void put_clean(struct buf *out, const char *s) {
    for (; s && *s; s++)
        buf_putc(out, ((unsigned char)*s < 0x20 && *s != '\t' && *s != '\n') || *s == 0x7f ? '?' : *s);
}

#define PAINT_PLACE "1"
#define PAINT_ERROR "1;31"
#define PAINT_CARET "1;32"

static void begin_paint(struct buf *out, bool colour, const char *paint) {
    if (colour)
        buf_printf(out, "\033[%sm", paint);
}

static void end_paint(struct buf *out, bool colour) {
    if (colour)
        buf_puts(out, "\033[0m");
}

/* A tab in the source is a tab before the caret, so that it stands right whatever a tab's width. */
static void put_caret(struct buf *out, bool colour, const struct policy_diag *e) {
    buf_puts(out, "  ");
    const char *p = e->source;
    for (unsigned col = 1; col < e->col; col++) {
        buf_putc(out, *p == '\t' ? '\t' : ' ');
        if (*p)
            p++;
        while (((unsigned char)*p & 0xc0) == 0x80)
            p++;
    }
    begin_paint(out, colour, PAINT_CARET);
    buf_putc(out, '^');
    for (unsigned i = 1; i < e->width && i < SOURCE_SHOWN; i++)
        buf_putc(out, '~');
    end_paint(out, colour);
    buf_putc(out, '\n');
}

/* "my.policy:3:14: error: " */
static void put_place(struct buf *out, bool colour, const struct policy_diag *e) {
    bool file = e->file && *e->file;
    if (file || e->line) {
        begin_paint(out, colour, PAINT_PLACE);
        put_clean(out, e->file);
        if (file)
            buf_putc(out, ':');
        if (e->line)
            buf_printf(out, "%u:%u:", e->line, e->col);
        end_paint(out, colour);
        buf_putc(out, ' ');
    }
    begin_paint(out, colour, PAINT_ERROR);
    buf_puts(out, "error:");
    end_paint(out, colour);
    buf_putc(out, ' ');
}

int policy_diags_format(const struct policy_diags *d, bool colour, struct buf *out) {
    for (size_t i = 0; i < d->n; i++) {
        const struct policy_diag *e = &d->list[i];
        put_place(out, colour, e);
        put_clean(out, e->message);
        buf_putc(out, '\n');
        if (e->source) {
            buf_puts(out, "  ");
            put_clean(out, e->source);
            buf_putc(out, '\n');
            if (e->col <= SOURCE_SHOWN)
                put_caret(out, colour, e);
        }
        if (e->expected) {
            buf_puts(out, "  expected: ");
            put_clean(out, e->expected);
            buf_putc(out, '\n');
        }
        if (e->hint) {
            buf_puts(out, "  hint: ");
            put_clean(out, e->hint);
            buf_putc(out, '\n');
        }
    }
    if (d->dropped)
        buf_printf(out, "too many errors: %zu more are not shown\n", d->dropped);
    return out->failed ? ERR_LIMIT : 0;
}
