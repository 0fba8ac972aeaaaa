/* Requests out of values: queries and bodies. */
#include "policy/variant.h"

#include <jansson.h>
#include <stdio.h>

static void put_encoded(struct buf *out, struct slice text) {
    static const char plain[] = "-._~";
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i], low = ascii_lower(c);
        if ((low >= 'a' && low <= 'z') || ascii_digit(c) || (c && strchr(plain, c)))
            buf_putc(out, c);
        else
            buf_printf(out, "%%%02X", (unsigned char)c);
    }
}

void variant_put_parameter(struct buf *out, struct slice name, struct slice value) {
    if (buf_len(out))
        buf_putc(out, '&');
    put_encoded(out, name);
    buf_putc(out, '=');
    put_encoded(out, value);
}

const struct value *variant_value(const struct variable *x) {
    uint32_t set = x->chosen[x->at];
    return set ? &x->values[__builtin_ctz(set)] : NULL;
}

static json_t *leaf(const struct value *v) {
    switch (v->kind) {
    case VALUE_TEXT: return json_stringn(v->text.p ? v->text.p : "", v->text.n);
    case VALUE_NUMBER: return json_integer(v->number);
    case VALUE_TRUE: return json_true();
    case VALUE_FALSE: return json_false();
    case VALUE_NULL: return json_null();
    default: return json_object();
    }
}

/* Puts a value at a place of a document. False: something else is there, or memory is short. */
static bool put(json_t **at, const struct variable *x, size_t step, const struct value *v);

static bool put_key(json_t **at, const struct variable *x, size_t step, const struct value *v) {
    const struct step *t = &x->c->steps[step];
    char other[128];
    if (!*at)
        *at = json_object();
    if (!json_is_object(*at))
        return false;
    json_t *child = json_object_get(*at, t->key.p);
    json_incref(child);
    bool good = put(&child, x, step + 1, v);
    good &= json_object_set_new(*at, t->key.p, child) == 0;
    bool last = true;
    for (size_t i = step + 1; i < x->c->nsteps; i++)
        last &= x->c->steps[i].key.p == NULL;
    if (!good || !last || v->kind != VALUE_TWICE || t->key.n >= sizeof other)
        return good;
    /* in another spelling too */
    memcpy(other, t->key.p, t->key.n + 1);
    for (size_t i = 0; i < t->key.n; i++)
        if (ascii_lower(other[i]) != other[i] || (other[i] >= 'a' && other[i] <= 'z'))
            other[i] = (char)(other[i] ^ 0x20);
    return json_object_set(*at, other, child) == 0;
}

static bool put_index(json_t **at, const struct variable *x, size_t step, const struct value *v) {
    size_t index = x->c->steps[step].index;
    if (!*at)
        *at = json_array();
    if (!json_is_array(*at) || index > 1000)
        return false;
    while (json_array_size(*at) <= index)
        if (json_array_append_new(*at, json_null()) < 0)
            return false;
    json_t *child = json_array_get(*at, index);
    child = json_is_null(child) ? NULL : json_incref(child);
    bool good = put(&child, x, step + 1, v);
    return json_array_set_new(*at, index, child) == 0 && good;
}

/* Each value of the set is an element of its own. */
static bool put_list(json_t **at, const struct variable *x, size_t step) {
    if (*at)
        return false;
    *at = json_array();
    for (size_t i = 0; i < x->nvalues; i++) {
        json_t *child = NULL;
        if (!(x->chosen[x->at] >> i & 1))
            continue;
        bool good = true;
        if (x->values[i].kind == VALUE_ABSENT)
            child = json_object();
        else
            good = put(&child, x, step + 1, &x->values[i]);
        if (json_array_append_new(*at, child) < 0 || !good)
            return false;
    }
    return true;
}

static bool put(json_t **at, const struct variable *x, size_t step, const struct value *v) {
    if (step == x->c->nsteps) {
        bool taken = *at != NULL;
        if (!taken)
            *at = leaf(v);
        return !taken;
    }
    const struct step *t = &x->c->steps[step];
    return t->key.p ? put_key(at, x, step, v) : t->all ? put_list(at, x, step) : put_index(at, x, step, v);
}

static const struct variable *graphql_of(const struct variant *s) {
    for (size_t i = 0; i < s->nvariables; i++)
        if (s->variables[i].c->subject == TREE_GRAPHQL)
            return &s->variables[i];
    return NULL;
}

/* "query A { viewer } mutation B { other }" */
static void put_graphql(struct buf *out, const struct variable *x) {
    static const char *const operations[] = {"query", "mutation", "subscription"};
    bool several = __builtin_popcount(x->chosen[x->at]) > 1, first = true;
    for (size_t i = 0; i < x->nvalues; i++) {
        const struct value *v = &x->values[i];
        if (!(x->chosen[x->at] >> i & 1))
            continue;
        buf_printf(out, "%s%s", first ? "" : " ", operations[v->number]);
        if (several)
            buf_printf(out, " %s%zu", first ? "A" : "B", i);
        buf_printf(out, " { %.*s }", SLICE_ARG(v->text));
        first = false;
    }
}

static size_t first_member(const struct variable *x) {
    return (size_t)__builtin_ctz(x->chosen[x->at]);
}

/* The GraphQL of a request: in the query of a GET, else in the body. */
static bool set_graphql(struct variant *s, const struct variable *x, json_t **root) {
    char name[24];
    struct buf text;
    bool several = __builtin_popcount(x->chosen[x->at]) > 1;
    buf_init(&text, 1 << 16);
    put_graphql(&text, x);
    snprintf(name, sizeof name, "A%zu", first_member(x));
    bool good = true;
    if (slice_eq(s->f.method, SLICE("GET")) || slice_eq(s->f.method, SLICE("HEAD"))) {
        variant_put_parameter(&s->query, SLICE("query"), buf_slice(&text));
        if (several)
            variant_put_parameter(&s->query, SLICE("operationName"), slice_str(name));
    } else {
        *root = json_object();
        good = json_object_set_new(*root, "query", json_stringn(buf_slice(&text).p, buf_len(&text))) == 0;
        if (several)
            good &= json_object_set_new(*root, "operationName", json_string(name)) == 0;
    }
    buf_release(&text);
    return good;
}

static bool set_json(const struct variable *x, json_t **root) {
    static const struct value list = {.kind = VALUE_OBJECT};
    const struct value *v = x->list ? &list : variant_value(x); /* put_list takes its own */
    return v->kind == VALUE_ABSENT || put(root, x, 0, v);
}

static int dump(const char *text, size_t n, void *arg) {
    return buf_put(arg, slice_make(text, n));
}

bool variant_body(struct variant *s) {
    json_t *root = NULL;
    bool good = true, some = false;
    for (size_t i = 0; good && i < s->nvariables; i++) {
        const struct variable *x = &s->variables[i];
        if (x->c->subject == TREE_GRAPHQL)
            good = !root && set_graphql(s, x, &root);
        else if (x->c->subject == TREE_JSON)
            good = !graphql_of(s) && set_json(x, &root);
        some |= x->c->subject == TREE_JSON;
    }
    if (good && !root && some)
        root = json_object();
    if (good && root)
        good = json_dump_callback(root, dump, &s->body, JSON_COMPACT | JSON_ENSURE_ASCII) == 0;
    json_decref(root);
    return good;
}
