/*
 * Command line options as rows: one row says how an option is written, what it is for, and who takes its value. Parsing and `--help` are
 * made from the same table, so that neither can know an option that the other does not.
 */
#ifndef PROXY_COMMAND_OPTIONS_H
#define PROXY_COMMAND_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"

struct option_row {
    int letter;        /* 0: no short form */
    const char *name;  /* without dashes */
    const char *value; /* the value's name in the help ("FILE"); NULL: takes none */
    /* `value` is NULL for an option without one, else the argument itself (may be changed in place). 0, or ERR_USAGE with a message that
     * says what is expected. */
    int (*take)(void *target, char *value, struct errmsg *msg);
    const char *help; /* may have several lines; NULL: not listed, since `take` refuses it, in better words */
};

#define OPTIONS_MAX 32

/* Parses up to the first argument that is no option, or past "--". 0 and its index in *first; ERR_USAGE and a message that names the
 * option. `target` goes to the rows. */
int options_parse(const struct option_row *rows, size_t n, int argc, char **argv, void *target, int *first,
                  struct errmsg *msg);

void options_print(const struct option_row *rows, size_t n, FILE *out);

/* Has all that was printed to standard output come out? If not, that is told: the disk may be full. */
bool options_printed(void);

#endif
