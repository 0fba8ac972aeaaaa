/* Shared by parse.c (statements, actions, targets) and parse_option.c (what stands behind them). Internal. */
#ifndef POLICY_PARSE_H
#define POLICY_PARSE_H

#include "policy/tree.h"

struct parser {
    struct lexer lx;
    struct arena *arena;
    struct policy_diags *diags;
    struct token t;     /* the word to be read next */
    const char *before; /* the end of the one before it */
};

void parse_next(struct parser *p);

/* Reports that `expected` should have stood where p->t stands, unless the lexer has reported this line. False, so
 * that callers can return it. */
bool parse_expected(struct parser *p, const char *expected, const char *hint);

bool parse_words_add(struct parser *p, struct tree_words *words, const struct token *t);

/* Whether a word begins an option. */
bool parse_is_option(struct slice word);

/* Those that may stand behind an action, into `words`, which has room for TREE_OPTIONS. Their number. */
size_t parse_option_words(enum tree_action action, const char **words);

/* The options of a rule up to the end of the line. */
bool parse_options(struct parser *p, struct tree_rule *rule);

#endif
