/*
 * Conditions on JSON bodies. Read by jansson, which refuses duplicate keys, text that is not UTF-8, and NUL; before
 * that a scan bounds depth and number of values, so that a small body can't become a large tree.
 */
#include "policy/condition.h"

#include <jansson.h>
#include <sys/random.h>

#include "base/json.h"

void condition_prepare(void) {
    size_t seed = 0;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed || seed == 0)
        seed = (size_t)&seed; /* where the stack lies is random, too */
    json_object_seed(seed);
}

/* --- may the body be read as JSON? ------------------------------------------------------------------------- */

/* application/json or …+json, in UTF-8. */
static bool json_media(struct slice type) {
    struct slice media, rest, one, name, value;
    bool more = slice_cut(type, ';', &media, &rest);
    media = slice_trim(media);
    bool plus = media.n > 5 && slice_caseeq(slice_from(media, media.n - 5), SLICE("+json"));
    if (!plus && !slice_caseeq(media, SLICE("application/json")))
        return false;
    while (more) {
        more = slice_cut(rest, ';', &one, &rest);
        slice_cut(slice_trim(one), '=', &name, &value);
        if (slice_caseeq(slice_trim(name), SLICE("charset")) && !slice_caseeq(value, SLICE("utf-8")) &&
            !slice_caseeq(value, SLICE("\"utf-8\"")) && !slice_caseeq(value, SLICE("utf8")))
            return false;
    }
    return true;
}

static const char *form_fault(const struct facts *f) {
    struct slice value = SLICE_NONE;
    enum tri encoding = condition_header(f, SLICE("content-encoding"), &value);
    if (encoding == TRI_UNKNOWN || (encoding == TRI_YES && !slice_caseeq(value, SLICE("identity"))))
        return "the body is compressed";
    if (condition_header(f, SLICE("content-type"), &value) != TRI_YES || !json_media(value))
        return "the body's type is not JSON in UTF-8";
    if (f->body_state == FACTS_BODY_OVER)
        return "the body is too long to be held";
    if (f->body_state == FACTS_BODY_UNREAD)
        return "the body is not known";
    return NULL;
}

void condition_json_read(const struct facts *f, struct body_view *view) {
    json_error_t error;
    if (view->read)
        return;
    view->read = true;
    view->why = form_fault(f);
    if (!view->why && !json_bounded(f->body, CONDITION_JSON_DEEP, CONDITION_JSON_MAX))
        view->why = "the body is nested too deep or has too many values";
    if (view->why)
        return;
    view->json = json_loadb(f->body.n ? f->body.p : "", f->body.n, JSON_REJECT_DUPLICATES, &error);
    if (!view->json)
        view->why = json_error_code(&error) == json_error_duplicate_key ? "the body has a key twice"
                                                                        : "the body is not JSON";
}

void body_view_release(struct body_view *view) {
    if (view->json)
        json_decref(view->json);
    graphql_free(view->graphql);
    *view = (struct body_view){.read = false};
}

/* --- looking at it ----------------------------------------------------------------------------------------- */

struct look {
    const struct condition *c;
    bool loose;
    const char **why;
};

/* YES, NO, or UNKNOWN if the types differ. */
static enum tri equal(const struct operand *o, const json_t *v) {
    if (o->kind == OPERAND_NULL || json_is_null(v))
        return o->kind == OPERAND_NULL && json_is_null(v) ? TRI_YES : TRI_NO;
    switch (o->kind) {
    case OPERAND_TEXT:
        if (!json_is_string(v))
            return TRI_UNKNOWN;
        return slice_eq(o->text, slice_make(json_string_value(v), json_string_length(v))) ? TRI_YES : TRI_NO;
    case OPERAND_NUMBER:
        if (!json_is_integer(v))
            return TRI_UNKNOWN;
        return json_integer_value(v) == o->number ? TRI_YES : TRI_NO;
    case OPERAND_TRUE:
    case OPERAND_FALSE:
        if (!json_is_boolean(v))
            return TRI_UNKNOWN;
        return json_is_true(v) == (o->kind == OPERAND_TRUE) ? TRI_YES : TRI_NO;
    case OPERAND_NULL: break;
    }
    return TRI_UNKNOWN;
}

static enum tri leaf(struct look *l, const json_t *v) {
    const struct condition *c = l->c;
    enum tri best = TRI_UNKNOWN;
    if (c->test == TREE_MATCHES && json_is_string(v))
        return regex_match(c->regex, slice_make(json_string_value(v), json_string_length(v)));
    for (size_t i = 0; i < c->noperands && best != TRI_YES; i++) {
        enum tri one = equal(&c->operands[i], v);
        if (one != TRI_UNKNOWN)
            best = one;
    }
    if (json_is_null(v) && best != TRI_YES)
        return condition_absent(c);
    if (best == TRI_UNKNOWN)
        *l->why = "the value is of another type";
    if (c->test == TREE_UNEQUAL && best != TRI_UNKNOWN)
        return best == TRI_YES ? TRI_NO : TRI_YES;
    return best;
}

const json_t *condition_json_member(const json_t *object, struct slice name, bool *doubtful) {
    const json_t *found = NULL;
    json_t *map = (json_t *)object; /* iterating does not change it */
    for (void *it = json_object_iter(map); it; it = json_object_iter_next(map, it)) {
        struct slice key = slice_str(json_object_iter_key(it));
        if (slice_eq(key, name))
            found = json_object_iter_value(it);
        else
            *doubtful |= slice_caseeq(key, name);
    }
    return found;
}

static enum tri walk(struct look *l, const json_t *v, size_t at);

static enum tri walk_all(struct look *l, const json_t *list, size_t at) {
    enum tri all = l->loose ? TRI_NO : TRI_YES;
    size_t n = json_array_size(list);
    if (n == 0)
        return condition_absent(l->c);
    for (size_t i = 0; i < n; i++)
        all = tri_join(all, walk(l, json_array_get(list, i), at + 1), l->loose);
    return all;
}

static enum tri walk(struct look *l, const json_t *v, size_t at) {
    if (at == l->c->nsteps)
        return leaf(l, v);
    const struct step *step = &l->c->steps[at];
    if (json_is_null(v))
        return condition_absent(l->c);
    if (step->key.p) {
        bool doubtful = false;
        if (!json_is_object(v)) {
            *l->why = "the value is of another type";
            return TRI_UNKNOWN;
        }
        v = condition_json_member(v, step->key, &doubtful);
        if (doubtful) {
            *l->why = "the body has a key in more than one spelling";
            return TRI_UNKNOWN;
        }
        return v ? walk(l, v, at + 1) : condition_absent(l->c);
    }
    if (!json_is_array(v)) {
        *l->why = "the value is of another type";
        return TRI_UNKNOWN;
    }
    if (step->all)
        return walk_all(l, v, at);
    v = json_array_get(v, step->index);
    return v ? walk(l, v, at + 1) : condition_absent(l->c);
}

enum tri condition_json(const struct condition *c, const struct facts *f, struct body_view *view,
                        size_t limit, bool loose, const char **why) {
    struct look l = {.c = c, .loose = loose, .why = why};
    if (f->body_state == FACTS_BODY_WHOLE && f->body.n > limit) {
        *why = "the body is longer than the rule looks at";
        return TRI_UNKNOWN;
    }
    condition_json_read(f, view);
    if (!view->json) {
        *why = view->why;
        return TRI_UNKNOWN;
    }
    return walk(&l, view->json, 0);
}

/* --- taking its values ------------------------------------------------------------------------------------- */

struct values {
    const struct condition *c;
    struct operand *out;
    size_t n, max;
};

static bool take_leaf(struct values *t, const json_t *v) {
    struct operand o = {.kind = OPERAND_TEXT};
    if (json_is_string(v))
        o.text = slice_make(json_string_value(v), json_string_length(v));
    else if (json_is_integer(v))
        o = (struct operand){.kind = OPERAND_NUMBER, .number = json_integer_value(v)};
    else if (json_is_boolean(v))
        o.kind = json_is_true(v) ? OPERAND_TRUE : OPERAND_FALSE;
    else if (json_is_null(v))
        o.kind = OPERAND_NULL;
    else
        return false;
    if (t->n == t->max)
        return false;
    t->out[t->n++] = o;
    return true;
}

static bool take_values(struct values *t, const json_t *v, size_t at) {
    if (at == t->c->nsteps)
        return take_leaf(t, v);
    const struct step *step = &t->c->steps[at];
    if (step->key.p) {
        bool doubtful = false;
        const json_t *one = condition_json_member(v, step->key, &doubtful);
        return one && !doubtful && take_values(t, one, at + 1);
    }
    if (!json_is_array(v))
        return false;
    size_t from = step->all ? 0 : step->index, to = step->all ? json_array_size(v) : from + 1;
    for (size_t i = from; i < to; i++) {
        const json_t *one = json_array_get(v, i);
        if (!one || !take_values(t, one, at + 1))
            return false;
    }
    return true;
}

size_t condition_json_values(const struct condition *c, const struct facts *f, struct body_view *view,
                             struct operand *out, size_t max) {
    struct values t = {.c = c, .out = out, .max = max};
    condition_json_read(f, view);
    return view->json && take_values(&t, view->json, 0) ? t.n : 0;
}
