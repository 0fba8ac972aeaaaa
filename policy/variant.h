/*
 * Between the two halves of variants.h: the values at hand, and the request that is made of them. Internal to these.
 */
#ifndef POLICY_VARIANT_H
#define POLICY_VARIANT_H

#include "policy/condition.h"
#include "policy/variants.h"

#define VARIABLES_MAX  12
#define VALUES_MAX     24
#define CONDITIONS_MAX 64
#define RULES_MAX      64
#define HEADERS_MAX    (2 * VARIABLES_MAX + 1)
#define LIMITS_MAX     3
#define BODY_MAX       (POLICY_BODY_MOST + 65536)

enum value_kind {
    VALUE_TEXT,
    VALUE_NUMBER,
    VALUE_TRUE,
    VALUE_FALSE,
    VALUE_ABSENT,
    VALUE_NULL,
    VALUE_OBJECT,
    VALUE_TWICE, /* there twice, or in two spellings */
};

struct value {
    enum value_kind kind;
    struct slice text; /* of graphql: a field */
    int64_t number;    /* … and the operation that it is in */
};

/* What some conditions are about: a header, a parameter, a place in a JSON body, the GraphQL of a request. */
struct variable {
    const struct condition *c; /* the first that is about it */
    size_t nconditions;
    struct value values[VALUES_MAX];
    size_t nvalues;
    bool list;        /* takes several values at once */
    uint32_t *chosen; /* sets of values, as bits; all that are tried */
    size_t nchosen, at;
    char fresh[24]; /* a text that no condition names */
};

struct header {
    struct slice name, value;
};

struct variant {
    struct variants *v;
    const struct facts *base;
    struct facts f;
    const struct rule *rules[RULES_MAX]; /* that are about the request and have conditions */
    size_t nrules;
    bool batch; /* of LFS, and its body tells what it is for */
    bool full;  /* there are more rules, or conditions */
    const struct condition *list[CONDITIONS_MAX];
    size_t nlist;
    struct variable variables[VARIABLES_MAX];
    size_t nvariables;
    size_t pads[LIMITS_MAX]; /* lengths of bodies that one rule reads and another does not */
    size_t npads;
    struct header headers[HEADERS_MAX];
    size_t nheaders;
    struct buf query, body;
};

/* The (first) value at hand; NULL for a list without any. */
const struct value *variant_value(const struct variable *x);

/* "name=value", encoded, behind what is there. */
void variant_put_parameter(struct buf *out, struct slice name, struct slice value);

/* Makes the body (or the GraphQL of a GET) of the values at hand. False if they can't stand beside each other. */
bool variant_body(struct variant *s);

#endif
