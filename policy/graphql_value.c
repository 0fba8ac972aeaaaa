/* The arguments of a GraphQL field, as JSON. */
#include "policy/condition.h"

#include <jansson.h>

#include "policy/graphql_lex.h"

#define DEPTH_MAX 32
#define NAME_ROOM 256

static json_t *value(struct gql *r, const json_t *variables, unsigned depth);

/* What can't be told. */
static json_t *opaque(void) {
    return json_real(0);
}

/* A name, with a NUL behind it. */
static bool key_of(struct gql *r, char key[NAME_ROOM]) {
    struct slice name;
    if (!gql_name(r, &name) || name.n >= NAME_ROOM)
        return false;
    memcpy(key, name.p, name.n);
    key[name.n] = 0;
    return true;
}

/* Behind the '$'. */
static json_t *variable(struct gql *r, const json_t *variables) {
    char key[NAME_ROOM];
    if (!key_of(r, key))
        return NULL;
    json_t *given = json_object_get(variables, key);
    return given ? json_incref(given) : opaque(); /* its default, or the server's error */
}

/* A string: written plainly it is JSON's, but for a tab. */
static json_t *text(struct slice s) {
    if (slice_starts(s, SLICE("\"\"\"")))
        return opaque();
    json_t *v = json_loadb(s.p, s.n, JSON_DECODE_ANY, NULL);
    return v ? v : opaque();
}

static json_t *word(struct slice s) {
    if (slice_eq(s, SLICE("true")))
        return json_true();
    if (slice_eq(s, SLICE("false")))
        return json_false();
    return slice_eq(s, SLICE("null")) ? json_null() : opaque();
}

/* From '[' behind ']'. */
static json_t *list(struct gql *r, const json_t *variables, unsigned depth) {
    json_t *all = json_array();
    gql_next(r);
    while (all && !gql_is(r, ']')) {
        if (json_array_append_new(all, value(r, variables, depth + 1))) {
            json_decref(all);
            return NULL;
        }
    }
    gql_next(r);
    return all;
}

/* "name: value …" from the opening bracket behind the one that closes it. */
static json_t *fields(struct gql *r, const json_t *variables, unsigned depth, char close) {
    json_t *all = json_object();
    gql_next(r);
    while (all && !gql_is(r, close)) {
        char key[NAME_ROOM];
        bool good = key_of(r, key) && gql_is(r, ':') && !json_object_get(all, key);
        if (good)
            gql_next(r);
        if (!good || json_object_set_new(all, key, value(r, variables, depth + 1))) {
            json_decref(all);
            return NULL;
        }
    }
    gql_next(r);
    return all;
}

static json_t *value(struct gql *r, const json_t *variables, unsigned depth) {
    struct slice s = r->text;
    if (depth > DEPTH_MAX)
        return NULL;
    if (gql_is(r, '['))
        return list(r, variables, depth);
    if (gql_is(r, '{'))
        return fields(r, variables, depth, '}');
    if (gql_is(r, '$')) {
        gql_next(r);
        return variable(r, variables);
    }
    if (r->kind != GQL_NAME && r->kind != GQL_VALUE)
        return NULL;
    bool name = r->kind == GQL_NAME;
    gql_next(r);
    return name ? word(s) : s.p[0] == '"' ? text(s) : opaque();
}

void *graphql_arguments(struct slice arguments, const void *variables) {
    struct gql r = {.s = arguments};
    if (arguments.n == 0)
        return json_object();
    gql_next(&r);
    return gql_is(&r, '(') ? fields(&r, variables, 0, ')') : NULL;
}
