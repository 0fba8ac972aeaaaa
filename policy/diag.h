/*
 * Making diagnostics. Internal to policy/; what users of the folder see is in policy.h.
 */
#ifndef POLICY_DIAG_H
#define POLICY_DIAG_H

#include "policy/lex.h"

/* Adds an error about the characters `from`…`from + width` of a source (`at` points into its text). The message is
 * formatted; `expected` and `hint` may be NULL. */
void diag_at(struct policy_diags *d, const struct source *source, const char *at, size_t width,
             const char *expected, const char *hint, const char *format, ...)
    __attribute__((format(printf, 7, 8)));

/* The same about a whole token. */
#define diag_token(d, t, expected, hint, ...)                                                                \
    diag_at((d), (t)->source, (t)->raw.p, (t)->raw.n, (expected), (hint), __VA_ARGS__)

/* An error about a file as a whole, or about the command line ("--set"). */
void diag_file(struct policy_diags *d, const char *file, const char *hint, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Puts them into reading order: by place in `files` (others last), then by line and column. */
void diag_sort(struct policy_diags *d, struct source *const *files, size_t nfiles);

/* How many there are, those beyond the limit too. */
size_t diag_count(const struct policy_diags *d);

#endif
