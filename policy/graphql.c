/*
 * GraphQL: which operations a request holds, and which root fields they have.
 *
 * A reader of its own, without recursion: of a document it needs the definitions and what stands at their roots; what
 * is nested deeper is passed over by its brackets, which are counted exactly since the tokens are. Whatever is not in
 * the grammar of October 2021, or was read differently by earlier ones (block strings that hold a quote, comments
 * beyond ASCII, fragment variables), makes the document unreadable, and so counts as a mutation of anything.
 */
#include "policy/condition.h"

#include <jansson.h>
#include <stdlib.h>

#include "policy/graphql_lex.h"

#define OPERATIONS_MAX 16
#define FRAGMENTS_MAX  64
#define FIELDS_MAX     512
#define DEPTH_MAX      128
#define DOCUMENTS_MAX  16
#define QUERY_MAX      65536 /* of a GET, decoded */

/* A definition: an operation, or a fragment. */
struct definition {
    bool fragment;
    struct slice kind; /* query, mutation, subscription */
    struct slice name;
};

/* What stands at a definition's root. */
struct root {
    unsigned owner;  /* definition */
    bool spread;     /* the name is a fragment's … */
    size_t fragment; /* … which is this definition */
    struct slice name;
    struct slice arguments; /* from the '(' behind it to the document's end; empty: it has none */
};

struct document {
    struct definition definitions[OPERATIONS_MAX + FRAGMENTS_MAX];
    size_t ndefinitions, noperations;
    struct root roots[FIELDS_MAX];
    size_t nroots;
};

struct graphql {
    struct document *documents[DOCUMENTS_MAX];
    const json_t *variables[DOCUMENTS_MAX]; /* the body's; NULL: none */
    size_t n;
    char *text; /* of a GET */
};

/* --- the grammar ------------------------------------------------------------------------------------------- */

/* From an opening bracket behind the one that closes it. */
static bool balanced(struct gql *r) {
    char open[DEPTH_MAX];
    size_t depth = 0;
    do {
        if (r->kind == GQL_BAD || r->kind == GQL_END)
            return false;
        if (gql_is(r, '(') || gql_is(r, '[') || gql_is(r, '{')) {
            if (depth == DEPTH_MAX)
                return false;
            open[depth++] = r->punctuator;
        } else if (gql_is(r, ')') || gql_is(r, ']') || gql_is(r, '}')) {
            char wanted = r->punctuator == ')' ? '(' : r->punctuator == ']' ? '[' : '{';
            if (open[--depth] != wanted)
                return false;
        }
        gql_next(r);
    } while (depth);
    return true;
}

static bool arguments(struct gql *r) {
    return !gql_is(r, '(') || balanced(r);
}

static bool directives(struct gql *r) {
    struct slice name;
    while (gql_is(r, '@')) {
        gql_next(r);
        if (!gql_name(r, &name) || !arguments(r))
            return false;
    }
    return true;
}

static bool add_root(struct gql *r, struct slice name, bool spread) {
    struct document *d = r->d;
    if (d->nroots == FIELDS_MAX)
        return false;
    d->roots[d->nroots++] =
        (struct root){.owner = (unsigned)d->ndefinitions - 1, .spread = spread, .name = name};
    return true;
}

/* Behind "...": a spread, or an inline fragment, of which the '{' is next then. */
static bool spread(struct gql *r, bool *opens) {
    struct slice name;
    *opens = true;
    if (gql_word(r, "on")) {
        gql_next(r);
        return gql_name(r, &name) && directives(r) && gql_is(r, '{');
    }
    if (r->kind == GQL_NAME) {
        *opens = false;
        return gql_name(r, &name) && directives(r) && add_root(r, name, true);
    }
    return directives(r) && gql_is(r, '{');
}

static bool root_field(struct gql *r) {
    struct slice name;
    if (!gql_name(r, &name))
        return false;
    if (gql_is(r, ':')) {
        gql_next(r);
        if (!gql_name(r, &name))
            return false;
    }
    struct slice given = gql_is(r, '(') ? slice_from(r->s, r->at - 1) : SLICE_NONE;
    if (!add_root(r, name, false))
        return false;
    r->d->roots[r->d->nroots - 1].arguments = given;
    return arguments(r) && directives(r) && (!gql_is(r, '{') || balanced(r));
}

/* A definition's selection set; r is at its '{'. Inline fragments are at the root as well. */
static bool selections(struct gql *r) {
    size_t depth = 0;
    bool empty = true;
    do {
        if (gql_is(r, '{')) {
            if (++depth == DEPTH_MAX)
                return false;
            empty = true;
            gql_next(r);
        } else if (gql_is(r, '}')) {
            depth--;
            if (empty)
                return false;
            empty = false;
            gql_next(r);
        } else if (r->kind == GQL_SPREAD) {
            bool opens;
            gql_next(r);
            if (!spread(r, &opens))
                return false;
            empty = opens;
        } else {
            if (!root_field(r))
                return false;
            empty = false;
        }
        if (depth && gql_is(r, '{') && !empty)
            return false;
    } while (depth);
    return true;
}

static bool definition(struct gql *r) {
    struct document *d = r->d;
    struct definition def = {.kind = SLICE("query")};
    struct slice type;
    if (gql_word(r, "fragment")) {
        def.fragment = true;
        gql_next(r);
        if (gql_word(r, "on") || !gql_name(r, &def.name) || !gql_word(r, "on"))
            return false;
        gql_next(r);
        if (!gql_name(r, &type) || !directives(r))
            return false;
    } else if (!gql_is(r, '{')) {
        if (!gql_word(r, "query") && !gql_word(r, "mutation") && !gql_word(r, "subscription"))
            return false;
        gql_name(r, &def.kind);
        if (r->kind == GQL_NAME)
            gql_name(r, &def.name);
        if (!arguments(r) || !directives(r))
            return false;
    }
    for (size_t i = 0; i < d->ndefinitions; i++)
        if (d->definitions[i].fragment == def.fragment && slice_eq(d->definitions[i].name, def.name))
            return false;
    size_t fragments = d->ndefinitions - d->noperations;
    if (!gql_is(r, '{') || (def.fragment ? fragments == FRAGMENTS_MAX : d->noperations == OPERATIONS_MAX))
        return false;
    d->definitions[d->ndefinitions++] = def;
    d->noperations += !def.fragment;
    return selections(r);
}

static size_t fragment_of(const struct document *d, struct slice name) {
    size_t i = 0;
    while (i < d->ndefinitions && !(d->definitions[i].fragment && slice_eq(d->definitions[i].name, name)))
        i++;
    return i;
}

/* Whether a definition spreads, at its root, one that is not settled. */
static bool spreads_open(const struct document *d, size_t definition, const bool *settled) {
    for (size_t i = 0; i < d->nroots; i++)
        if (d->roots[i].owner == definition && d->roots[i].spread && !settled[d->roots[i].fragment])
            return true;
    return false;
}

/* Fragments that spread one another in a circle are no GraphQL, and stand for no field that could be judged: settled is
 * what spreads only what is settled. */
static bool circles(const struct document *d) {
    bool settled[OPERATIONS_MAX + FRAGMENTS_MAX] = {false};
    size_t left = d->ndefinitions, before;
    do {
        before = left;
        for (size_t i = 0; i < d->ndefinitions; i++) {
            if (settled[i] || spreads_open(d, i, settled))
                continue;
            settled[i] = true;
            left--;
        }
    } while (left && left < before);
    return left > 0;
}

static bool document(struct slice text, struct document *d) {
    struct gql r = {.s = text, .d = d};
    gql_next(&r);
    while (r.kind != GQL_END)
        if (!definition(&r))
            return false;
    for (size_t i = 0; i < d->nroots; i++) {
        struct root *root = &d->roots[i];
        root->fragment = root->spread ? fragment_of(d, root->name) : 0;
        if (root->spread && root->fragment == d->ndefinitions)
            return false;
    }
    return d->noperations > 0 && !circles(d);
}

bool graphql_scan(struct slice text, size_t *operations, size_t *fields) {
    struct document *d = calloc(1, sizeof *d);
    bool good = d && document(text, d);
    *operations = good ? d->noperations : 0;
    *fields = 0;
    for (size_t i = 0; good && i < d->nroots; i++)
        *fields += !d->roots[i].spread;
    free(d);
    return good;
}

/* --- requests ---------------------------------------------------------------------------------------------- */

static bool add_document(struct graphql *g, struct slice text, const char *operation) {
    if (g->n == DOCUMENTS_MAX)
        return false;
    struct document *d = g->documents[g->n] = calloc(1, sizeof *d);
    if (!d)
        return false;
    g->n++;
    if (!document(text, d))
        return false;
    if (!operation)
        return d->noperations == 1; /* else a server can't know which one is meant */
    bool named = false;
    for (size_t i = 0; i < d->ndefinitions; i++)
        named |= !d->definitions[i].fragment && slice_eq(d->definitions[i].name, slice_str(operation));
    return named;
}

/* {"query": "…", "operationName": "…", "variables": {…}, "extensions": {…}}. Anything else at this level may be how
 * a server names a stored query. */
static bool add_request(struct graphql *g, json_t *o) {
    const json_t *query = json_object_get(o, "query"), *name = json_object_get(o, "operationName"),
                 *extensions = json_object_get(o, "extensions");
    if (!json_is_string(query) || (name && !json_is_string(name) && !json_is_null(name)))
        return false;
    if (extensions && !json_is_null(extensions) && json_object_size(extensions) > 0)
        return false;
    for (void *it = json_object_iter(o); it; it = json_object_iter_next(o, it)) {
        struct slice key = slice_str(json_object_iter_key(it));
        if (!slice_eq(key, SLICE("query")) && !slice_eq(key, SLICE("operationName")) &&
            !slice_eq(key, SLICE("variables")) && !slice_eq(key, SLICE("extensions")))
            return false;
    }
    size_t at = g->n;
    if (!add_document(g, slice_make(json_string_value(query), json_string_length(query)),
                      json_string_value(name)))
        return false;
    g->variables[at] = json_object_get(o, "variables");
    return true;
}

/* Whether the URL's parameters, as they are written, are all of these. Any other may name a stored query, or be a batch
 * of them (GitLab's "_json[][query]", which it takes before the body). */
static bool no_other(struct slice query, const char *const *names) {
    struct slice pair, name, value;
    for (bool more = query.n > 0, known; more;) {
        more = slice_cut(query, '&', &pair, &query);
        slice_cut(pair, '=', &name, &value);
        known = false;
        for (size_t i = 0; names[i]; i++)
            known |= slice_eq(name, slice_str(names[i]));
        if (!known)
            return false;
    }
    return true;
}

static bool read_body(const struct facts *f, struct body_view *view, struct graphql *g) {
    if (f->query.n)
        return false;
    condition_json_read(f, view);
    if (json_is_object((json_t *)view->json))
        return add_request(g, view->json);
    size_t n = json_array_size(view->json);
    for (size_t i = 0; i < n; i++)
        if (!add_request(g, json_array_get(view->json, i)))
            return false;
    return n > 0;
}

static bool read_query(const struct facts *f, struct graphql *g) {
    static const char *const names[] = {"query", "operationName", "variables", NULL};
    char name[256];
    struct slice text, operation = SLICE_NONE;
    g->text = malloc(QUERY_MAX);
    if (!g->text || condition_query(f, SLICE("query"), g->text, QUERY_MAX, &text) != TRI_YES)
        return false;
    enum tri named = condition_query(f, SLICE("operationName"), name, sizeof name - 1, &operation);
    if (named == TRI_UNKNOWN || !no_other(f->query, names))
        return false;
    if (named == TRI_YES)
        name[operation.n] = 0;
    return add_document(g, text, named == TRI_YES ? name : NULL);
}

void graphql_free(struct graphql *g) {
    if (!g)
        return;
    for (size_t i = 0; i < g->n; i++)
        free(g->documents[i]);
    free(g->text);
    free(g);
}

static void read(const struct facts *f, struct body_view *view) {
    if (view->graphql_read)
        return;
    view->graphql_read = true;
    view->graphql_why = "the GraphQL can't be read for certain, which counts as a mutation of anything";
    struct graphql *g = calloc(1, sizeof *g);
    bool get = slice_eq(f->method, SLICE("GET")) || slice_eq(f->method, SLICE("HEAD"));
    bool bare = f->body_state == FACTS_BODY_WHOLE && f->body.n == 0;
    bool good = g && (get ? bare && read_query(f, g) : read_body(f, view, g));
    if (good) {
        view->graphql = g;
        return;
    }
    if (!get && view->why)
        view->graphql_why = view->why;
    graphql_free(g);
}

/* --- conditions -------------------------------------------------------------------------------------------- */

/* Hands over the root fields of one operation, through fragments, until `each` says no. */
static bool each_root(const struct document *d, size_t operation, bool (*each)(void *, const struct root *),
                      void *arg) {
    bool due[OPERATIONS_MAX + FRAGMENTS_MAX] = {false}, done[OPERATIONS_MAX + FRAGMENTS_MAX] = {false};
    due[operation] = true;
    for (size_t k = 0; k < d->ndefinitions; k++) {
        size_t at = k;
        if (!due[k] || done[k])
            continue;
        done[k] = true;
        for (size_t i = 0; i < d->nroots; i++) {
            if (d->roots[i].owner != at)
                continue;
            if (d->roots[i].spread)
                due[d->roots[i].fragment] = true;
            else if (!each(arg, &d->roots[i]))
                return false;
        }
        k = (size_t)-1; /* from the start: a fragment that stands before may be due now */
    }
    return true;
}

struct holding {
    const struct condition *c;
    bool loose;
    enum tri all;
};

static bool field_holds(void *arg, const struct root *root) {
    struct holding *h = arg;
    h->all = tri_join(h->all, condition_text(h->c, root->name), h->loose);
    return true;
}

static enum tri fields_hold(const struct condition *c, const struct document *d, size_t operation,
                            bool loose) {
    struct holding h = {.c = c, .loose = loose, .all = loose ? TRI_NO : TRI_YES};
    each_root(d, operation, field_holds, &h);
    return h.all;
}

static enum tri document_holds(const struct condition *c, const struct document *d, bool loose) {
    enum tri all = loose ? TRI_NO : TRI_YES;
    for (size_t i = 0; i < d->ndefinitions; i++) {
        if (d->definitions[i].fragment)
            continue;
        all = tri_join(
            all, c->field ? fields_hold(c, d, i, loose) : condition_text(c, d->definitions[i].kind), loose);
    }
    return all;
}

enum tri condition_graphql(const struct condition *c, const struct facts *f, struct body_view *view,
                           size_t limit, bool loose, const char **why) {
    enum tri all = loose ? TRI_NO : TRI_YES;
    if (f->body_state == FACTS_BODY_WHOLE && f->body.n > limit) {
        *why = "the body is longer than the rule looks at";
        return TRI_UNKNOWN;
    }
    read(f, view);
    if (!view->graphql) {
        *why = view->graphql_why;
        return TRI_UNKNOWN;
    }
    for (size_t i = 0; i < view->graphql->n; i++)
        all = tri_join(all, document_holds(c, view->graphql->documents[i], loose), loose);
    return all;
}

/* --- mutations --------------------------------------------------------------------------------------------- */

struct handing {
    graphql_mutation *each;
    void *arg;
    const void *variables;
};

static bool hand_over(void *arg, const struct root *root) {
    const struct handing *h = arg;
    return h->each(h->arg, root->name, root->arguments, h->variables);
}

bool graphql_mutations(const struct facts *f, struct body_view *view, graphql_mutation *each, void *arg) {
    struct handing h = {.each = each, .arg = arg};
    read(f, view);
    for (size_t i = 0; view->graphql && i < view->graphql->n; i++) {
        const struct document *d = view->graphql->documents[i];
        h.variables = view->graphql->variables[i];
        for (size_t k = 0; k < d->ndefinitions; k++)
            if (slice_eq(d->definitions[k].kind, SLICE("mutation")) && !d->definitions[k].fragment &&
                !each_root(d, k, hand_over, &h))
                return true;
    }
    return view->graphql != NULL;
}

struct naming {
    graphql_root *each;
    void *arg;
    struct slice operation;
};

static bool name_root(void *arg, const struct root *root) {
    const struct naming *n = arg;
    return n->each(n->arg, n->operation, root->name);
}

bool graphql_roots(const struct facts *f, struct body_view *view, graphql_root *each, void *arg) {
    struct naming n = {.each = each, .arg = arg};
    read(f, view);
    for (size_t i = 0; view->graphql && i < view->graphql->n; i++) {
        const struct document *d = view->graphql->documents[i];
        for (size_t k = 0; k < d->ndefinitions; k++) {
            n.operation = d->definitions[k].kind;
            if (!d->definitions[k].fragment && !each_root(d, k, name_root, &n))
                return true;
        }
    }
    return view->graphql != NULL;
}
