/*
 * The vault: the credentials file, its grammar, its secrets. The language is described in
 * exeat-credentials(5):
 *
 *     credential github
 *         for     https://github.com  https://api.github.com
 *         from    env GITHUB_TOKEN
 *         inject  basic x-access-token  for https://github.com
 *         inject  bearer                for https://api.github.com
 *
 * Life cycle: vault_parse (no secret is touched: the supervisor stops here and asks for names, variables and
 * files) - vault_resolve (the keeper, before confinement: variables and files are read, helpers run) - the
 * keeper's answers (vault/keeper.h) - vault_free, which wipes.
 *
 * A secret is in `struct secret` from its first byte on. No diagnostic holds one, nor what a helper wrote.
 */
#ifndef VAULT_VAULT_H
#define VAULT_VAULT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "base/url.h"

#define VAULT_FILE_MAX        (1u << 20) /* bytes of the file */
#define VAULT_LINE_MAX        8192       /* bytes of one line, continuation lines together */
#define VAULT_CREDENTIALS_MAX 4096
#define VAULT_NAME_MAX        64    /* bytes of a credential's name */
#define VAULT_VALUE_MAX       16384 /* bytes of a secret: no server takes a longer header */
#define VAULT_DIAGS_MAX       50    /* then: "too many errors" */
#define VAULT_EXEC_MS         30000 /* time for one helper */

struct vault;

/* --- reading -------------------------------------------------------------------------------------------- */

/*
 * Appends the text of the file at `path`. Refused (ERR_DENIED): a file that somebody other than its owner can
 * write to, or whose owner is neither this user nor root, since who writes it names programs to run. Returns
 * 0, ERR_DENIED, ERR_IO or ERR_LIMIT.
 */
int vault_read(const char *path, struct buf *text, struct errmsg *msg) MUST_CHECK;

/*
 * Parses `text`. `name` is the file's name as the user gave it, for diagnostics; relative paths in the file
 * are relative to `folder` (make it absolute; NULL: the folder part of `name`). Returns 0 and a vault that
 * the caller frees; or ERR_PARSE, *out NULL, and in `diags` one text with every error, in the format of
 * policy_diags_format (file:line:col, the line, a caret, what was expected); or ERR_LIMIT, ERR_NOMEM. An empty text is
 * an empty vault.
 */
int vault_parse(const char *name, const char *folder, struct slice text, struct vault **out,
                struct buf *diags) MUST_CHECK;
void vault_free(struct vault *v);

/*
 * Reads every secret. `env` is looked up in this process's environment; helpers run without a shell, in the
 * vault file's folder, with their error output thrown away (it might hold the secret), and have `exec_ms`
 * (VAULT_EXEC_MS) before they are killed. Of a file's or helper's output one final line break is taken off. A
 * secret that is empty, too long, or holds a line break or another control character is an error, as is one
 * that a chosen form can't carry. Returns 0; or ERR_DENIED with every error in `diags`, and the vault holds
 * no secret.
 */
int vault_resolve(struct vault *v, unsigned exec_ms, struct buf *diags) MUST_CHECK;

/* Overwrites in this process's environment block the values of the variables that the vault reads, and unsets
 * them. */
void vault_wipe_env(const struct vault *v);

/* --- what is in it: no secrets -------------------------------------------------------------------------- */

size_t vault_count(const struct vault *v);
const char *vault_name(const struct vault *v, size_t i);
bool vault_has(const struct vault *v, struct slice name);

enum vault_source_kind {
    VAULT_FROM_ENV,            /* `name` is the variable: to be taken out of the sandbox's environment */
    VAULT_FROM_FILE,           /* `name` is the file's path (below `folder`): to be covered in the sandbox */
    VAULT_FROM_EXEC,           /* `name` is the program */
    VAULT_FROM_GIT_CREDENTIAL, /* … a helper that speaks git's credential protocol */
};

struct vault_source {
    enum vault_source_kind kind;
    const char *name; /* borrowed */
};

/* The source of credential `i`. */
struct vault_source vault_source(const struct vault *v, size_t i);

/* Whether the secret of credential `i` can be recognised where it should not be (vault/marks.h): from vault_resolve on. */
bool vault_watched(const struct vault *v, size_t i);

/* --- binding -------------------------------------------------------------------------------------------- */

struct vault_origin {
    enum url_scheme scheme;
    struct slice host; /* canonical: url_host_slice() */
    uint16_t port;
};

#endif
