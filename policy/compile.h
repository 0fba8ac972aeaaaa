/* From tree to rules: compile.c (rules), target.c (targets), pattern.c (patterns), expect.c (proofs). Internal. */
#ifndef POLICY_COMPILE_H
#define POLICY_COMPILE_H

#include "policy/vars.h"

#define ALTERNATIVES_MAX 64 /* patterns that the braces of one word may stand for */

/* Patterns as they are made. */
struct globs {
    struct glob list[ALTERNATIVES_MAX];
    size_t n;
};

enum pattern_kind {
    PATTERN_PATH,
    PATTERN_REPOSITORY, /* a path of which a final slash and ".git" are not part */
    PATTERN_REF,
    PATTERN_FILE, /* of a repository */
    PATTERN_NAME, /* an identity: `*` takes anything */
    PATTERN_HOST, /* pattern_each */
};

/* Compiles e->c[from…to) and adds what comes out, one pattern for each alternative of its braces. */
bool pattern_compile(struct compiler *c, const struct expanded *e, size_t from, size_t to,
                     enum pattern_kind kind, struct globs *out);

/* Calls `each` with every alternative of the braces in the first `to` characters. */
bool pattern_each(struct compiler *c, const struct expanded *e, size_t to,
                  bool (*each)(void *arg, const struct mark *c, size_t n), void *arg);

/* What of a URL in the policy is common to rules and expectations: scheme, host and port, and where its path begins
 * (e->n if it has none). `pattern` admits wildcards in the host and ":*". */
bool target_origin(struct compiler *c, const struct expanded *e, bool pattern, struct target *out,
                   size_t *path);

/* Patterns, copied into the arena. */
struct glob *keep_globs(struct compiler *c, const struct globs *globs);

/* Adds a rule to p->rules; one for each alternative of the braces in its host. */
bool compile_rule(struct compiler *c, const struct tree_rule *tree, const struct source *source);

/* compile_option.c: what stands behind the target. */
bool compile_options(struct compiler *c, const struct tree_rule *tree, struct rule *r);

/* The operations that a rule or expectation is about, as bits 1 << enum facts_op. */
unsigned compile_ops(const struct tree_rule *tree);

/* Whether an expectation can be proved at all. Errors are reported. */
bool expect_check(struct compiler *c, const struct tree_rule *tree);

/* Proves one `expect` on the compiled policy. `reach` is judge()'s. */
void expect_prove(struct compiler *c, const struct tree_rule *tree, const bool *reach);

#endif
