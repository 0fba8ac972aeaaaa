/* The parser's state, for the two files that it is in. Internal to vault/. */
#ifndef VAULT_PARSE_H
#define VAULT_PARSE_H

#include "vault/internal.h"

#define SCOPES_MAX  256
#define FORMS_MAX   64
#define PATTERN_MAX 1000 /* bytes of a pattern in canonical form; vault_glob has room for as many */

struct parser {
    struct diags d;
    struct vault *v;
    struct line line;
    struct credential *current; /* the open block; NULL before the first, and where its first line is wrong */
    bool in_block;
    bool unread;   /* a line of the block could not be cut into words */
    size_t errors; /* how many there were when the block began */
    bool nomem;
};

/* Both note it when memory is short, and return NULL. */
void *vault_parse_grow(struct parser *p, void *array, size_t *n, size_t size);
char *vault_parse_keep(struct parser *p, struct slice s);

static inline bool word_is(const struct word *w, const char *text) {
    return !w->quoted && slice_eq(w->text, slice_str(text));
}

/* A character of names and of most fields. */
bool vault_parse_name_char(char c);

/* The words from `first` on, as origins. */
void vault_parse_scopes(struct parser *p, size_t first, struct scope **list, size_t *n);

/* vault/forms.c: the lines "inject" and "remove". */
void vault_parse_inject(struct parser *p);
void vault_parse_remove(struct parser *p);

#endif
