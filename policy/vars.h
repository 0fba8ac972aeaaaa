/*
 * Variables, and words with their variables filled in. Internal to policy/.
 *
 * A value is never a pattern: every character that came out of a variable is marked, and the functions that look for
 * pattern characters and for the structure of a URL look at unmarked ones only.
 */
#ifndef POLICY_VARS_H
#define POLICY_VARS_H

#include "policy/rule.h"

struct var {
    struct slice name, value;
    bool defined; /* by a `let` with a value */
    bool has_value;
    bool from_set;         /* --set gave the value; a `let` gives way to it */
    bool used;             /* something refers to it, or a `let` names it */
    bool resolving;        /* its own value is being filled in: to meet it again is a cycle */
    bool resolved;         /* `value` is final */
    bool reported;         /* its lack of a value has been reported */
    struct token where;    /* the name in `let`; source NULL for --set alone */
    struct token value_at; /* the value in `let` */
};

struct vars {
    struct var list[POLICY_VARS_MAX];
    size_t n;
};

#define MARK_LITERAL 0x100u

/* A character of an expanded word: the byte, MARK_LITERAL if it is none of the language's own, and the offset in the
 * word that it came from. */
struct mark {
    uint16_t code;
    uint16_t at;
};

struct expanded {
    const struct token *token;
    size_t n;
    struct mark c[POLICY_LINE_MAX];
};

/* What compiling needs. */
struct compiler {
    struct policy *p;
    struct policy_diags *diags;
    struct vars *vars;
    /* trees, and words on their way: goes when all is compiled, and is more than what stays */
    struct arena scratch;
    struct expanded word, one; /* of a rule, and of the host that is its turn */
};

/* Takes the values of --set. Errors are added to the diagnostics. */
void vars_set(struct compiler *c, const struct policy_set *sets, size_t n);

/* A `let`. */
void vars_let(struct compiler *c, const struct tree_statement *let);

/* Notes the variables that a word refers to, so that the first error about one without a value can list them all. */
void vars_mention(struct compiler *c, const struct token *t);

/* After all lets: fills in the values that refer to other variables. */
void vars_resolve(struct compiler *c);

/* After all rules: values of --set that nothing uses, if that is to be told. */
void vars_unused(struct compiler *c, const struct policy_set *sets, size_t n, bool tell);

/* Fills the variables of a word in. False after an error that has been reported. */
bool expand(struct compiler *c, const struct token *t, struct expanded *out);

/* The bytes of part of an expanded word, in the arena. */
struct slice expanded_text(struct compiler *c, const struct mark *from, size_t n);

/* Points a diagnostic at part of an expanded word. */
#define diag_marks(c, e, from, width, expected, hint, ...)                                                   \
    diag_at((c)->diags, (e)->token->source, expanded_at((e), (from)), expanded_width((e), (from), (width)),  \
            (expected), (hint), __VA_ARGS__)
const char *expanded_at(const struct expanded *e, size_t i);
size_t expanded_width(const struct expanded *e, size_t from, size_t n);

#endif
