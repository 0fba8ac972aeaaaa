/*
 * Tokens of a GraphQL document, one at a time. Internal to policy/: graphql.c reads the grammar from them,
 * graphql_value.c the arguments of a field.
 *
 *     struct gql r = {.s = text};
 *     gql_next(&r);                  the first token; then one call each
 *
 * A token that is not in the grammar of October 2021, or that earlier ones read differently, is GQL_BAD; what follows it
 * means nothing.
 */
#ifndef POLICY_GRAPHQL_LEX_H
#define POLICY_GRAPHQL_LEX_H

#include "base/slice.h"

struct document;

enum gql_kind {
    GQL_END,
    GQL_BAD,
    GQL_NAME,
    GQL_PUNCTUATOR,
    GQL_SPREAD,
    GQL_VALUE, /* a string or a number */
};

struct gql {
    struct slice s;
    size_t at; /* behind the token */
    enum gql_kind kind;
    struct slice text; /* of the token, as written */
    char punctuator;
    struct document *d; /* graphql.c's: what it makes of them */
};

void gql_next(struct gql *r);

/* Is the token that punctuator, that word? */
bool gql_is(const struct gql *r, char c);
bool gql_word(const struct gql *r, const char *word);

/* Takes a name and goes on; false, and nothing is taken, if it is none. */
bool gql_name(struct gql *r, struct slice *out);

#endif
