/* Diagnostics: file:line:col, the line, a caret. The same format as the policy's. */
#include <stdarg.h>
#include <stdio.h>

#include "base/lines.h"
#include "vault/internal.h"

#define MESSAGE_MAX 1024
#define SHOWN_MAX   400 /* of a longer line only this much is shown */

/* Text of a file goes to a terminal: no control character passes. */
static void put_clean(struct buf *out, struct slice s) {
    for (size_t i = 0; i < s.n; i++)
        buf_putc(out, ((unsigned char)s.p[i] < 0x20 && s.p[i] != '\t') || s.p[i] == 0x7f ? '?' : s.p[i]);
}

/* The line that `place` is on, and a caret with a tail as long as the place. */
static void put_line(struct buf *out, const char *line, const char *stop, struct place place) {
    if ((size_t)(stop - line) > SHOWN_MAX)
        stop = line + SHOWN_MAX;
    buf_puts(out, "  ");
    put_clean(out, slice_make(line, (size_t)(stop - line)));
    if (place.at > stop) {
        buf_putc(out, '\n');
        return;
    }
    buf_puts(out, "\n  ");
    for (const char *p = line; p < place.at; p++)
        if (((unsigned char)*p & 0xc0) != 0x80)
            buf_putc(out, *p == '\t' ? '\t' : ' ');
    const char *last = place.n < (size_t)(stop - place.at) ? place.at + place.n : stop;
    buf_putc(out, '^');
    for (unsigned i = 1; i < lines_characters(place.at, last); i++)
        buf_putc(out, '~');
    buf_putc(out, '\n');
}

void vault_diag_at(struct diags *d, struct place place, const char *expected, const char *hint,
                   const char *format, ...) {
    char text[MESSAGE_MAX];
    va_list ap;
    if (++d->n > VAULT_DIAGS_MAX)
        return;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);

    const char *begin = d->vault->text, *end = begin + d->vault->text_n;
    const char *line = place.at, *stop = place.at;
    unsigned number = 1;
    while (line > begin && line[-1] != '\n')
        line--;
    while (stop < end && *stop != '\n' && *stop != '\r')
        stop++;
    for (const char *p = begin; p < line; p++)
        number += *p == '\n';
    put_clean(d->out, slice_str(d->vault->file));
    buf_printf(d->out, ":%u:%u: error: ", number, lines_characters(line, place.at) + 1);
    put_clean(d->out, slice_str(text));
    buf_putc(d->out, '\n');
    put_line(d->out, line, stop, place);
    if (expected)
        buf_printf(d->out, "  expected: %s\n", expected);
    if (hint)
        buf_printf(d->out, "  hint: %s\n", hint);
}

bool vault_diag_end(struct diags *d) {
    if (d->n > VAULT_DIAGS_MAX)
        buf_printf(d->out, "%s: too many errors: %zu more\n", d->vault->file, d->n - VAULT_DIAGS_MAX);
    return d->n > 0;
}
