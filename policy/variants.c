#include <stdio.h>
#include <stdlib.h>

#include "policy/variant.h"

/* --- what conditions are about ----------------------------------------------------------------------------- */

static void add_value(struct variable *x, struct value v) {
    for (size_t i = 0; i < x->nvalues; i++) {
        const struct value *have = &x->values[i];
        if (have->kind == v.kind && have->number == v.number && slice_eq(have->text, v.text))
            return;
    }
    if (x->nvalues < VALUES_MAX)
        x->values[x->nvalues] = v;
    x->nvalues++; /* beyond VALUES_MAX: too many */
}

static bool names(const struct variant *s, const struct variable *x, const struct value *v) {
    for (size_t i = 0; i < s->nlist; i++)
        for (size_t k = 0; condition_same_place(s->list[i], x->c) && k < s->list[i]->noperands; k++) {
            const struct operand *o = &s->list[i]->operands[k];
            if (v->kind == VALUE_NUMBER ? o->kind == OPERAND_NUMBER && o->number == v->number
                                        : o->kind == OPERAND_TEXT && slice_caseeq(o->text, v->text))
                return true;
        }
    return false;
}

static struct value fresh_text(const struct variant *s, struct variable *x) {
    struct value v = {.kind = VALUE_TEXT, .text = SLICE("other")};
    for (unsigned i = 1; names(s, x, &v); i++) {
        snprintf(x->fresh, sizeof x->fresh, "other%u", i);
        v.text = slice_str(x->fresh);
    }
    return v;
}

static struct value fresh_number(const struct variant *s, const struct variable *x) {
    struct value v = {.kind = VALUE_NUMBER};
    while (names(s, x, &v))
        v.number++;
    return v;
}

static void add_operands(const struct variant *s, struct variable *x) {
    static const enum value_kind kinds[] = {[OPERAND_TEXT] = VALUE_TEXT,
                                            [OPERAND_NUMBER] = VALUE_NUMBER,
                                            [OPERAND_TRUE] = VALUE_TRUE,
                                            [OPERAND_FALSE] = VALUE_FALSE,
                                            [OPERAND_NULL] = VALUE_NULL};
    for (size_t i = 0; i < s->nlist; i++)
        for (size_t k = 0; condition_same_place(s->list[i], x->c) && k < s->list[i]->noperands; k++) {
            const struct operand *o = &s->list[i]->operands[k];
            struct value v = {.kind = kinds[o->kind]};
            if (v.kind == VALUE_NUMBER)
                v.number = o->number;
            else if (v.kind == VALUE_TEXT)
                v.text = o->text;
            add_value(x, v);
        }
}

/* Each of the three operations with each field that is named, and one that is not. */
static void add_graphql(const struct variant *s, struct variable *x) {
    struct value other = fresh_text(s, x);
    x->list = true;
    for (int64_t operation = 0; operation < 3; operation++) {
        for (size_t i = 0; i < s->nlist; i++)
            for (size_t k = 0;
                 s->list[i]->subject == TREE_GRAPHQL && s->list[i]->field && k < s->list[i]->noperands; k++)
                add_value(x, (struct value){.text = s->list[i]->operands[k].text, .number = operation});
        add_value(x, (struct value){.text = other.text, .number = operation});
    }
}

static bool has_kind(const struct variable *x, enum value_kind kind) {
    for (size_t i = 0; i < x->nvalues && i < VALUES_MAX; i++)
        if (x->values[i].kind == kind)
            return true;
    return false;
}

/* Of a value in JSON: others of the types that are compared with, another type, and none. Where null is named it is
 * not the same as none, and another type is just not equal to it. */
static void add_types(const struct variant *s, struct variable *x) {
    if (has_kind(x, VALUE_NUMBER))
        add_value(x, fresh_number(s, x));
    if (has_kind(x, VALUE_TRUE) || has_kind(x, VALUE_FALSE)) {
        add_value(x, (struct value){.kind = VALUE_TRUE});
        add_value(x, (struct value){.kind = VALUE_FALSE});
    }
    bool member = !x->list || !x->c->steps[x->c->nsteps - 1].all;
    if (has_kind(x, VALUE_NULL) && member)
        add_value(x, (struct value){.kind = VALUE_TWICE});
    if (member)
        add_value(x, (struct value){.kind = VALUE_ABSENT});
    add_value(x, (struct value){.kind = VALUE_OBJECT});
}

/* Of headers that tell whether a body can be read: those that no condition names, and with which it can. */
static void add_readable(struct variable *x) {
    static const char *const types[] = {"application/json", "application/x+json", "application/y+json"};
    static const char *const codings[] = {"identity", "Identity", "IDENTITY"};
    bool type = slice_caseeq(x->c->name, SLICE("content-type"));
    if (!type && !slice_caseeq(x->c->name, SLICE("content-encoding")))
        return;
    for (size_t i = 0; i < 3; i++)
        add_value(x, (struct value){.kind = VALUE_TEXT, .text = slice_str(type ? types[i] : codings[i])});
}

static void add_values(const struct variant *s, struct variable *x) {
    const struct condition *c = x->c;
    if (c->subject == TREE_GRAPHQL) {
        add_graphql(s, x);
        return;
    }
    add_operands(s, x);
    add_value(x, fresh_text(s, x));
    for (size_t i = 0; c->subject == TREE_JSON && i < c->nsteps; i++)
        x->list |= c->steps[i].all;
    if (c->subject == TREE_JSON) {
        add_types(s, x);
        return;
    }
    if (c->subject == TREE_HEADER)
        add_readable(x);
    add_value(x, (struct value){.kind = VALUE_ABSENT});
    add_value(x, (struct value){.kind = VALUE_TWICE});
}

/* --- the sets of values that are tried --------------------------------------------------------------------- */

static bool choose(struct variable *x, uint32_t set) {
    if (x->nchosen == VARIANTS_MAX)
        return false;
    if (x->nchosen % 64 == 0) {
        uint32_t *chosen = realloc(x->chosen, (x->nchosen + 64) * sizeof *chosen);
        if (!chosen)
            return false;
        x->chosen = chosen;
    }
    x->chosen[x->nchosen++] = set;
    return true;
}

/* Of a list a condition sees the least and the greatest of what holds for its members: two of them for each. */
static bool choose_all(struct variable *x) {
    size_t most = x->list ? 2 * x->nconditions : 1;
    if (x->nvalues > VALUES_MAX)
        return false;
    for (size_t size = 1; size <= most && size <= x->nvalues; size++)
        for (uint32_t set = 1; set < UINT32_C(1) << x->nvalues; set++)
            if ((size_t)__builtin_popcount(set) == size && !choose(x, set))
                return false;
    return !x->list || x->c->subject == TREE_GRAPHQL || choose(x, 0);
}

static bool add_variable(struct variant *s, const struct condition *c) {
    for (size_t i = 0; i < s->nvariables; i++)
        if (condition_same_place(s->variables[i].c, c)) {
            s->variables[i].nconditions++;
            return true;
        }
    if (s->nvariables == VARIABLES_MAX)
        return false;
    s->variables[s->nvariables++] = (struct variable){.c = c, .nconditions = 1};
    return true;
}

static bool known(const struct variant *s, const struct condition *c) {
    for (size_t i = 0; i < s->nlist; i++)
        if (condition_same(s->list[i], c))
            return true;
    return false;
}

static void add_conditions(struct variant *s, const struct condition *c) {
    for (; c; c = c->next) {
        if (known(s, c))
            continue;
        if (s->nlist == CONDITIONS_MAX || !add_variable(s, c)) {
            s->full = true;
            return;
        }
        s->list[s->nlist++] = c;
    }
}

/* What an `lfs` rule asks of the body of a batch. */
static const struct condition *batch_condition(void) {
    static struct operand words[] = {{.text = {"download", 8}}, {.text = {"upload", 6}}};
    static struct step step = {.key = {"operation", 9}};
    static const struct condition operation = {.subject = TREE_JSON,
                                               .test = TREE_IN,
                                               .steps = &step,
                                               .nsteps = 1,
                                               .operands = words,
                                               .noperands = 2,
                                               .text = {"operation", 9}};
    return &operation;
}

/* The rules that are about the request but for what is beside it. */
static void collect_rules(struct variant *s, const struct policy *p) {
    const struct index_slot *lists[INDEX_LISTS_MAX];
    size_t n = index_find(&p->index, s->base->host, s->base->host_is_address, lists);
    bool batch = facts_lfs_batch(s->base) && s->base->lfs == FACTS_LFS_UNKNOWN;
    for (size_t l = 0; l < n; l++)
        for (uint32_t k = 0; k < lists[l]->n; k++) {
            const struct rule *r = &p->rules[lists[l]->rules[k]];
            bool operation = batch && r->action == TREE_LFS && r->ops_named;
            if ((!r->conditions && !operation) ||
                !judge_reaches(p, s->base, s->base->refs, lists[l]->rules[k]))
                continue;
            s->batch |= operation;
            if (s->nrules == RULES_MAX)
                s->full = true;
            else
                s->rules[s->nrules++] = r;
        }
}

/* Whether the query of a log leaves open what the parameter is. */
static bool query_open(const struct variant *s, struct slice wanted) {
    struct slice rest = s->base->query, pair, name, value;
    for (bool more = rest.n > 0; more;) {
        more = slice_cut(rest, '&', &pair, &rest);
        if (slice_eq(pair, SLICE("*")))
            return true; /* a name, or a value */
        if (slice_cut(pair, '=', &name, &value) && slice_eq(value, SLICE("*")) && slice_caseeq(name, wanted))
            return true;
    }
    return false;
}

static bool collect(struct variant *s) {
    for (size_t i = 0; i < s->v->npolicies; i++)
        collect_rules(s, s->v->policies[i]);
    for (size_t i = 0; i < s->nrules; i++)
        add_conditions(s, s->rules[i]->conditions);
    if (s->batch)
        add_conditions(s, batch_condition());
    size_t product = 1;
    for (size_t i = 0; i < s->nvariables && !s->full; i++) {
        struct variable *x = &s->variables[i];
        if (s->v->logged && x->c->subject == TREE_QUERY && !query_open(s, x->c->name))
            add_value(x, (struct value){.kind = VALUE_ABSENT}); /* beside what the log tells */
        else
            add_values(s, x);
        if (!choose_all(x))
            return false;
        product *= x->nchosen;
        if (product > VARIANTS_MAX)
            return false;
    }
    return !s->full;
}

/* Bodies that are too long for some of the rules alone. */
static bool collect_pads(struct variant *s) {
    size_t most = s->batch ? POLICY_BODY_DEFAULT : 0;
    for (size_t i = 0; i < s->nrules; i++)
        most = s->rules[i]->body > most ? s->rules[i]->body : most;
    for (size_t i = 0; i < s->nrules; i++) {
        size_t limit = s->rules[i]->body, k = 0;
        if (limit == 0 || limit == most)
            continue;
        while (k < s->npads && s->pads[k] != limit + 1)
            k++;
        if (k == LIMITS_MAX)
            return false;
        if (k == s->npads)
            s->pads[s->npads++] = limit + 1;
    }
    return true;
}

/* --- queries and headers ----------------------------------------------------------------------------------- */

static void set_query(struct variant *s, const struct variable *x) {
    const struct value *v = variant_value(x);
    if (v->kind == VALUE_ABSENT)
        return;
    variant_put_parameter(&s->query, x->c->name, v->text);
    if (v->kind == VALUE_TWICE)
        variant_put_parameter(&s->query, x->c->name, v->text);
}

static void add_header(struct variant *s, struct slice name, struct slice value) {
    s->headers[s->nheaders++] = (struct header){name, value};
}

static void set_header(struct variant *s, const struct variable *x) {
    const struct value *v = variant_value(x);
    if (v->kind != VALUE_ABSENT)
        add_header(s, x->c->name, v->text);
    if (v->kind == VALUE_TWICE)
        add_header(s, x->c->name, v->text);
}

static bool field(const void *arg, size_t i, struct slice *name, struct slice *value) {
    const struct variant *s = arg;
    if (i >= s->nheaders)
        return false;
    *name = s->headers[i].name;
    *value = s->headers[i].value;
    return true;
}

static bool has_header(const struct variant *s, struct slice name) {
    for (size_t i = 0; i < s->nvariables; i++)
        if (s->variables[i].c->subject == TREE_HEADER && slice_caseeq(s->variables[i].c->name, name))
            return true;
    return false;
}

/* --- one after the other ----------------------------------------------------------------------------------- */

/* Of the query of a log what is known. */
static void put_base_query(struct variant *s) {
    struct slice rest = s->base->query, pair, name, value;
    for (bool more = rest.n > 0; more;) {
        more = slice_cut(rest, '&', &pair, &rest);
        bool hidden = slice_eq(pair, SLICE("*")) ||
                      (slice_cut(pair, '=', &name, &value) && slice_eq(value, SLICE("*")));
        if (s->v->logged && hidden)
            continue;
        if (buf_len(&s->query))
            buf_putc(&s->query, '&');
        buf_put(&s->query, pair);
    }
}

/* The request of the values at hand; `readable`: else no condition on its body can be told. */
static bool make(struct variant *s, bool readable, size_t pad) {
    buf_clear(&s->query);
    buf_clear(&s->body);
    put_base_query(s);
    s->nheaders = 0;
    bool body = false, good = true;
    for (size_t i = 0; i < s->nvariables; i++) {
        const struct variable *x = &s->variables[i];
        if (x->c->subject == TREE_QUERY)
            set_query(s, x);
        else if (x->c->subject == TREE_HEADER)
            set_header(s, x);
        else
            body = true;
    }
    if (body && !readable)
        buf_puts(&s->body, "no JSON");
    else if (body)
        good = variant_body(s);
    if (buf_len(&s->body) && !has_header(s, SLICE("content-type")))
        add_header(s, SLICE("content-type"), SLICE("application/json"));
    while (buf_len(&s->body) && buf_len(&s->body) < pad)
        buf_putc(&s->body, ' ');
    s->f.query = buf_slice(&s->query);
    s->f.body = buf_slice(&s->body);
    return good && !s->query.failed && !s->body.failed;
}

static int hand_over(struct variant *s, bool readable) {
    int r = 0;
    for (size_t k = 0; r == 0 && k <= (readable ? s->npads : 0); k++) {
        if (!make(s, readable, k ? s->pads[k - 1] : 0)) {
            s->v->unsure = "conditions are about parts of one value";
            return 0;
        }
        r = s->v->found(s->v->arg, &s->f);
    }
    return r;
}

static bool on_body(const struct variable *x) {
    return condition_on_body(x->c);
}

/* To the next combination. False behind the last. */
static bool advance(struct variant *s, bool readable) {
    for (size_t i = 0; i < s->nvariables; i++) {
        struct variable *x = &s->variables[i];
        if (on_body(x) && !readable)
            continue;
        if (++x->at < x->nchosen)
            return true;
        x->at = 0;
    }
    return false;
}

static int each(struct variant *s) {
    int r = 0;
    bool body = false;
    for (size_t i = 0; i < s->nvariables; i++)
        body |= on_body(&s->variables[i]);
    for (int readable = 1; readable >= (body ? 0 : 1); readable--) {
        do
            r = hand_over(s, readable);
        while (r == 0 && !s->v->unsure && advance(s, readable));
        if (r || s->v->unsure)
            break;
    }
    return r;
}

int variants_walk(struct variants *v, const struct facts *base) {
    struct variant *s = calloc(1, sizeof *s);
    int r = s ? 0 : ERR_NOMEM;
    v->unsure = NULL;
    if (!s)
        return r;
    s->v = v;
    s->base = base;
    s->f = *base;
    s->f.field = field;
    s->f.field_arg = s;
    s->f.body_state = FACTS_BODY_WHOLE;
    buf_init(&s->query, 1 << 16);
    buf_init(&s->body, BODY_MAX);
    if (!collect(s) || !collect_pads(s))
        v->unsure = "its conditions are too many to follow them all";
    else if (s->nvariables == 0)
        r = v->found(v->arg, base);
    else
        r = each(s);
    for (size_t i = 0; i < s->nvariables; i++)
        free(s->variables[i].chosen);
    buf_release(&s->query);
    buf_release(&s->body);
    free(s);
    return r;
}
