/*
 * Conditions (`where`): what a rule asks of the query, the headers and the body of a request. Internal to policy/.
 *
 * What can't be told for certain is neither true nor false (TRI_UNKNOWN): a query, header or key that is there twice
 * or in other letter case, a value of another type, a body that is too long, compressed, in another encoding or no
 * JSON. An allow takes what is true, a deny what is not false.
 *
 *     absent:   ==, in, ~ are false; != is unknown, for the server may fill something in
 *     a list ([*]): an allow needs all its elements, a deny one of them
 */
#ifndef POLICY_CONDITION_H
#define POLICY_CONDITION_H

#include <jansson.h>

#include "policy/compile.h"
#include "policy/regex.h"

#define CONDITION_STEPS_MAX 16     /* of a JSON path */
#define CONDITION_TEXT_MAX  4096   /* bytes of a query's value, decoded */
#define CONDITION_JSON_MAX  100000 /* values in a JSON body */
#define CONDITION_JSON_DEEP 64

enum operand_kind {
    OPERAND_TEXT,
    OPERAND_NUMBER,
    OPERAND_TRUE,
    OPERAND_FALSE,
    OPERAND_NULL,
};

struct operand {
    enum operand_kind kind;
    struct slice text;
    int64_t number;
};

/* base.ref, labels[*].name, items[0] */
struct step {
    struct slice key; /* NUL behind it; p NULL: an index */
    bool all;         /* [*] */
    uint32_t index;
};

struct condition {
    enum tree_subject subject;
    enum tree_test test;
    bool field;        /* graphql: field, not operation */
    struct slice name; /* of a header or a query parameter */
    struct step *steps;
    size_t nsteps;
    struct operand *operands;
    size_t noperands;
    const struct regex *regex; /* TREE_MATCHES */
    struct slice text;         /* as written */
    const struct condition *next;
};

struct graphql;

/* The body of one request, read when a condition first asks. */
struct body_view {
    bool read;       /* json and why mean something */
    void *json;      /* json_t; NULL: it can't be read */
    const char *why; /* … because */
    bool graphql_read;
    struct graphql *graphql; /* NULL: it can't be read */
    const char *graphql_why;
};

void body_view_release(struct body_view *view);

/* Before the first body is read: seeds jansson's hash tables, for which it would open a file by itself. */
void condition_prepare(void);

/* Makes conditions of a rule's tree. *body: one of them looks at the body. */
bool condition_compile(struct compiler *c, const struct tree_rule *tree, const struct condition **out,
                       bool *body);

bool condition_on_body(const struct condition *c);

/* Whether two are about the same value. */
bool condition_same_place(const struct condition *a, const struct condition *b);

/* Whether two ask the same of it, whatever they are written with. */
bool condition_same(const struct condition *a, const struct condition *b);

/* False if no request can have all conditions of both lists: one value would have to be two. */
bool condition_meet(const struct condition *a, const struct condition *b);

/* `loose`: for a deny. `limit`: bytes of a body that the rule looks at. *why: what stands in the way of telling. */
enum tri condition_holds(const struct condition *c, const struct facts *f, struct body_view *view,
                         size_t limit, bool loose, const char **why);

/* --- shared by condition*.c and graphql.c ------------------------------------------------------------------ */

/* The one value of a header. TRI_NO: there is none; TRI_UNKNOWN: more than one, or headers are not known. */
enum tri condition_header(const struct facts *f, struct slice name, struct slice *out);

/* Is one of a rule's conditions on a header of this name, in whatever spelling? */
bool condition_names_header(const struct condition *first, struct slice name);

/* The one value of a query parameter, decoded into `text` (CONDITION_TEXT_MAX, or more for graphql). */
enum tri condition_query(const struct facts *f, struct slice name, char *text, size_t size,
                         struct slice *out);

/* A text against the operands. */
enum tri condition_text(const struct condition *c, struct slice text);
enum tri condition_absent(const struct condition *c);

/* Combines what is true of the parts of a list: begin with TRI_YES if strict, TRI_NO if loose. */
static inline enum tri tri_join(enum tri a, enum tri b, bool loose) {
    return loose == (a > b) ? a : b;
}

/* condition_json.c */
enum tri condition_json(const struct condition *c, const struct facts *f, struct body_view *view,
                        size_t limit, bool loose, const char **why);
/* The member of that name; NULL: there is none, or `object` is no object. *doubtful is set if there is another that a server
 * might take for it: JSON in Go, and whatever maps names to classes, does not look at letter case. */
const json_t *condition_json_member(const json_t *object, struct slice name, bool *doubtful);

/* Reads view->json. */
void condition_json_read(const struct facts *f, struct body_view *view);

/* The values that a condition on JSON is about, as operands that have to be equal; their texts belong to `view`. Returns
 * how many; 0: there is none, more than `max`, or one that no policy can say. */
size_t condition_json_values(const struct condition *c, const struct facts *f, struct body_view *view,
                             struct operand *out, size_t max);

/* lfs.c: facts_lfs_operation, the body read into `view` */
enum facts_lfs lfs_operation(const struct facts *f, struct body_view *view);

/* graphql.c */
enum tri condition_graphql(const struct condition *c, const struct facts *f, struct body_view *view,
                           size_t limit, bool loose, const char **why);
void graphql_free(struct graphql *g);

/* Hands over each root field of the mutations that a request holds, whichever of them the server runs: its name, and
 * `arguments` and `variables` for graphql_arguments. Stops when `each` returns false. Returns false if the request
 * can't be read for certain: then it may be any mutation, and view->graphql_why says why. */
typedef bool graphql_mutation(void *arg, struct slice field, struct slice arguments, const void *variables);
bool graphql_mutations(const struct facts *f, struct body_view *view, graphql_mutation *each, void *arg);

/* The same for every operation: what it is ("query") and each of its root fields. */
typedef bool graphql_root(void *arg, struct slice operation, struct slice field);
bool graphql_roots(const struct facts *f, struct body_view *view, graphql_root *each, void *arg);

/* graphql_value.c: a field's arguments as a JSON object (json_t, the caller's), variables filled in. What can't be told
 * for certain (a variable that the request does not give, an enum, a block string) becomes a real number, which no
 * argument that anyone looks at is. NULL: the arguments as a whole can't be told, or memory is short. */
void *graphql_arguments(struct slice arguments, const void *variables);

/* For the fuzzer and its tests: how many operations and root fields a document has; false if it can't be read. */
bool graphql_scan(struct slice document, size_t *operations, size_t *fields);

#endif
