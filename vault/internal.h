/* What the files of vault/ share: the parsed file. */
#ifndef VAULT_INTERNAL_H
#define VAULT_INTERNAL_H

#include "base/secret.h"
#include "vault/marks.h"
#include "vault/vault.h"

/* Where something stands in the text: good as long as the vault, which keeps the text. */
struct place {
    const char *at;
    size_t n;
};

/* What follows `for`: an origin, and perhaps a pattern for the path. */
struct scope {
    enum url_scheme scheme;
    struct url_host host;
    uint16_t port;
    char *path; /* canonical, with '*' and '**'; NULL: any */
    struct place place;
};

enum form_kind { FORM_BEARER, FORM_BASIC, FORM_HEADER };

struct form {
    enum form_kind kind;
    char *header;         /* the field's name, as it is written */
    char *before;         /* what stands before the secret in the value: "Bearer ", a prefix, or "" */
    char *user;           /* FORM_BASIC only */
    struct scope *scopes; /* none: all that the credential is bound to */
    size_t nscopes;
    struct place place;
    struct secret value; /* the whole value, from vault_resolve on */
};

struct credential {
    char *name;
    struct place place;
    struct scope *scopes;
    size_t nscopes;
    enum vault_source_kind kind;
    char **argv;  /* the source's words, NULL at the end: variable, path, or command */
    size_t nargv; /* 0: no `from` yet */
    struct place from;
    struct form *forms;
    size_t nforms;
    char **removes; /* further fields to be taken off */
    size_t nremoves;
    bool unwatched; /* its secret can't be looked for */
};

struct vault {
    char *file;   /* for diagnostics */
    char *folder; /* what relative paths are relative to; "" for the working directory */
    char *text;
    size_t text_n;
    struct credential *list;
    size_t n;
    struct marks *marks; /* of its secrets, from vault_resolve on */
};

/* An array that grows one by one: room for one more, zeroed, or NULL. `array` is the address of the pointer.
 * */
void *vault_grow(void *array, size_t *n, size_t size);

/* NULL when there is none of that name. */
const struct credential *vault_find(const struct vault *v, struct slice name);

/* The form for a request, if the credential is bound to where it goes. `path` is canonical (url_path_canonical), without query.
 * NULL, with a message that names credential and origin, and *err: ERR_NOTFOUND (no such credential); ERR_DENIED (its `for` names
 * no such scheme, host and port, or not this path, or no form does). */
const struct form *vault_form(const struct vault *v, struct slice name, const struct vault_origin *origin,
                              struct slice path, int *err, struct errmsg *msg);

/* Does vault_form answer the same for every path on `origin`? */
bool vault_any_path(const struct vault *v, struct slice name, const struct vault_origin *origin);

/* --- vault/exec.c --------------------------------------------------------------------------------------- */

/* Runs `argv` in `folder` with `input` to read, and takes what it writes, at most `max` bytes. 0; or an error
 * with a message that holds nothing of what it wrote. */
int vault_exec(char *const *argv, const char *folder, struct slice input, unsigned ms, size_t max,
               struct secret *out, struct errmsg *msg);

/* --- vault/diag.c --------------------------------------------------------------------------------------- */

struct diags {
    const struct vault *vault; /* file and text */
    struct buf *out;
    size_t n;
};

/* Appends one error about a place. `expected` and `hint` may be NULL. */
void vault_diag_at(struct diags *d, struct place place, const char *expected, const char *hint,
                   const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Appends what is to be said at the end (errors beyond VAULT_DIAGS_MAX). Whether there was any error. */
bool vault_diag_end(struct diags *d);

/* --- vault/lex.c ---------------------------------------------------------------------------------------- */

#define WORDS_MAX 256

struct word {
    struct slice text; /* what it means */
    struct place place;
    bool quoted;
};

/* One logical line, cut into words. */
struct line {
    struct word words[WORDS_MAX];
    size_t n;
    bool indented;
    bool bad;                     /* an error was reported: the line says nothing */
    struct place end;             /* behind the last word */
    char scratch[VAULT_LINE_MAX]; /* strings without their escapes */
    size_t scratch_n;
};

/* Reads the next line that holds a word; *at is where to go on. False at the end of the text. */
bool vault_lex_line(struct diags *d, size_t *at, struct line *out);

#endif
