#include "proxy/command/options.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "base/log.h"

#define ROW_BASE 256 /* getopt's value of row i is ROW_BASE + i */

struct tables {
    struct option longs[OPTIONS_MAX + 1];
    char shorts[2 * OPTIONS_MAX + 3];
};

static void make_tables(const struct option_row *rows, size_t n, struct tables *t) {
    memset(t, 0, sizeof *t);
    char *s = t->shorts;
    *s++ = '+'; /* stop at the first argument that is no option: the rest is the command's */
    *s++ = ':'; /* tell a missing value from an unknown option, and print nothing */
    for (size_t i = 0; i < n; i++) {
        t->longs[i] = (struct option){rows[i].name, rows[i].value ? required_argument : no_argument, NULL,
                                      ROW_BASE + (int)i};
        if (!rows[i].letter)
            continue;
        *s++ = (char)rows[i].letter;
        if (rows[i].value)
            *s++ = ':';
    }
}

static const struct option_row *row_of(const struct option_row *rows, size_t n, int got) {
    if (got >= ROW_BASE && (size_t)(got - ROW_BASE) < n)
        return &rows[got - ROW_BASE];
    for (size_t i = 0; i < n; i++)
        if (got < ROW_BASE && rows[i].letter == got)
            return &rows[i];
    return NULL;
}

int options_parse(const struct option_row *rows, size_t n, int argc, char **argv, void *target, int *first,
                  struct errmsg *msg) {
    struct tables t;
    if (n > OPTIONS_MAX)
        return errmsg_set(msg, ERR_INTERNAL, "too many rows of options");
    make_tables(rows, n, &t);
    optind = 0; /* glibc: start anew, with the modifiers of `shorts` */
    for (;;) {
        int at = optind ? optind : 1;
        int got = getopt_long(argc, argv, t.shorts, t.longs, NULL);
        if (got == -1)
            break;
        if (got == ':') {
            const struct option_row *row = row_of(rows, n, optopt);
            return errmsg_set(msg, ERR_USAGE, "option %s needs a value: %s", argv[optind - 1],
                              row && row->value ? row->value : "");
        }
        if (got == '?' && optopt >= ROW_BASE)
            return errmsg_set(msg, ERR_USAGE, "option --%s takes no value", rows[optopt - ROW_BASE].name);
        const struct option_row *row = got == '?' ? NULL : row_of(rows, n, got);
        if (!row)
            return errmsg_set(msg, ERR_USAGE, "unknown option %s", argv[at < argc ? at : argc - 1]);
        int r = row->take(target, row->value ? optarg : NULL, msg);
        if (r < 0) {
            errmsg_prefix(msg, "--%s", row->name);
            return r;
        }
    }
    *first = optind;
    return 0;
}

void options_print(const struct option_row *rows, size_t n, FILE *out) {
    for (size_t i = 0; i < n; i++) {
        char left[64];
        if (!rows[i].help)
            continue;
        int len = rows[i].letter ? snprintf(left, sizeof left, "  -%c, --%s", rows[i].letter, rows[i].name)
                                 : snprintf(left, sizeof left, "      --%s", rows[i].name);
        if (rows[i].value && len > 0 && (size_t)len < sizeof left)
            snprintf(left + len, sizeof left - (size_t)len, " %s", rows[i].value);
        fprintf(out, "%s\n", left);
        for (const char *line = rows[i].help; *line;) {
            size_t m = strcspn(line, "\n");
            fprintf(out, "            %.*s\n", (int)m, line);
            line += m + (line[m] == '\n');
        }
    }
}

bool options_printed(void) {
    bool good = fflush(stdout) == 0 && !ferror(stdout);
    if (!good)
        log_error("the result can't be printed: %s", strerror(errno));
    return good;
}
