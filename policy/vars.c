#include "policy/vars.h"

#include <stdio.h>

#include "policy/diag.h"

static struct var *find(struct vars *vars, struct slice name) {
    for (size_t i = 0; i < vars->n; i++)
        if (slice_eq(vars->list[i].name, name))
            return &vars->list[i];
    return NULL;
}

static struct var *add(struct vars *vars, struct slice name) {
    struct var *v = find(vars, name);
    if (v || vars->n == POLICY_VARS_MAX)
        return v;
    v = &vars->list[vars->n++];
    *v = (struct var){.name = name};
    return v;
}

/* What is wrong with a value, or NULL. */
static const char *value_fault(struct slice value) {
    if (value.n == 0)
        return "is empty";
    if (value.n > POLICY_VALUE_MAX)
        return "is too long";
    for (size_t i = 0; i < value.n; i++)
        if ((unsigned char)value.p[i] < 0x20 || value.p[i] == 0x7f)
            return "has a control character";
    return NULL;
}

void vars_set(struct compiler *c, const struct policy_set *sets, size_t n) {
    for (size_t i = 0; i < n; i++) {
        struct slice name = arena_copy(&c->p->arena, slice_str(sets[i].name));
        struct slice value = arena_copy(&c->p->arena, slice_str(sets[i].value));
        struct var *v = name.p && value.p ? add(c->vars, name) : NULL;
        const char *fault = value_fault(value);
        if (!v)
            diag_file(c->diags, "--set", NULL, "too many variables");
        else if (v->from_set)
            diag_file(c->diags, "--set", NULL, "variable '%s' is given twice", sets[i].name);
        else if (fault)
            diag_file(c->diags, "--set", NULL, "the value of '%s' %s", sets[i].name, fault);
        if (v) {
            v->value = value;
            v->has_value = v->from_set = v->resolved = true;
            v->reported = fault != NULL;
        }
    }
}

void vars_let(struct compiler *c, const struct tree_statement *let) {
    struct var *v = add(c->vars, let->name.text);
    if (!v) {
        diag_token(c->diags, &let->name, NULL, NULL, "too many variables");
        return;
    }
    bool value = let->value.kind != TOKEN_END;
    if (v->defined && value) {
        diag_token(c->diags, &let->name, NULL, NULL, "variable '%.*s' is defined twice, first at %s:%u",
                   SLICE_ARG(v->name), v->where.source->name, v->where.line);
        return;
    }
    /* who only needs a value takes it from whatever file, or --set, has one */
    if (!v->where.source || value)
        v->where = let->name;
    v->used = true;
    v->defined |= value;
    if (v->from_set || !value)
        return;
    v->value_at = let->value;
    v->has_value = true;
}

/* A hint that lists every variable that --set would have to give. */
static const char *needs(struct compiler *c, char *text, size_t size) {
    size_t n = (size_t)snprintf(text, size, "give");
    for (size_t i = 0; i < c->vars->n && n < size; i++) {
        const struct var *v = &c->vars->list[i];
        if (!v->has_value)
            n += (size_t)snprintf(text + n, size - n, " --set %.*s=VALUE", SLICE_ARG(v->name));
    }
    return text;
}

static bool resolve(struct compiler *c, struct var *v, const struct token *t, size_t at, size_t width);

struct filler {
    struct compiler *c;
    const struct token *t;
    struct expanded *out;
};

static bool put(struct filler *f, unsigned code, size_t at) {
    if (f->out->n == POLICY_LINE_MAX) {
        diag_token(f->c->diags, f->t, NULL, NULL, "too long with its variables filled in");
        return false;
    }
    f->out->c[f->out->n++] = (struct mark){(uint16_t)code, (uint16_t)at};
    return true;
}

static bool put_value(struct filler *f, struct slice name, size_t at, size_t width) {
    struct var *v = find(f->c->vars, name);
    if (!v) {
        v = add(f->c->vars, arena_copy(&f->c->p->arena, name));
        if (!v) {
            diag_token(f->c->diags, f->t, NULL, NULL, "too many variables");
            return false;
        }
    }
    v->used = true;
    if (!resolve(f->c, v, f->t, at, width))
        return false;
    for (size_t i = 0; i < v->value.n; i++)
        if (!put(f, MARK_LITERAL | (unsigned char)v->value.p[i], at))
            return false;
    return true;
}

static bool name_char(char ch, bool first) {
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '_' || (!first && ascii_digit(ch));
}

/* At a '$': $name, ${name} or $$. Moves *at behind it. */
static bool put_variable(struct filler *f, size_t *at) {
    struct slice s = f->t->text;
    size_t start = *at, n = start + 1;
    if (n < s.n && s.p[n] == '$') {
        *at = n + 1;
        return put(f, MARK_LITERAL | '$', start);
    }
    bool braces = n < s.n && s.p[n] == '{';
    size_t from = n + braces, to = from;
    while (to < s.n && name_char(s.p[to], to == from))
        to++;
    if (to == from || (braces && (to == s.n || s.p[to] != '}'))) {
        const char *where = f->t->kind == TOKEN_WORD ? f->t->raw.p + start : f->t->raw.p;
        diag_at(f->c->diags, f->t->source, where, 1, NULL, "write $$ for a dollar sign",
                "'$' is not followed by a variable's name");
        return false;
    }
    *at = to + braces;
    return put_value(f, slice_sub(s, from, to - from), start, *at - start);
}

void vars_mention(struct compiler *c, const struct token *t) {
    struct slice s = t->text;
    for (size_t i = 0; i + 1 < s.n; i++) {
        if (s.p[i] != '$')
            continue;
        size_t from = i + 1 + (s.p[i + 1] == '{'), to = from;
        while (to < s.n && name_char(s.p[to], to == from))
            to++;
        if (to > from)
            add(c->vars, arena_copy(&c->p->arena, slice_sub(s, from, to - from)));
        if (s.p[i + 1] == '$')
            i++;
    }
}

bool expand(struct compiler *c, const struct token *t, struct expanded *out) {
    struct filler f = {c, t, out};
    out->token = t;
    out->n = 0;
    for (size_t i = 0; i < t->text.n;) {
        if (t->text.p[i] == '$') {
            if (!put_variable(&f, &i))
                return false;
        } else if (!put(&f, (unsigned char)t->text.p[i], i)) {
            return false;
        } else {
            i++;
        }
    }
    return true;
}

struct slice expanded_text(struct compiler *c, const struct mark *from, size_t n) {
    char *p = arena_alloc(&c->p->arena, n + 1);
    if (!p)
        return SLICE_NONE;
    for (size_t i = 0; i < n; i++)
        p[i] = (char)from[i].code;
    return slice_make(p, n);
}

const char *expanded_at(const struct expanded *e, size_t i) {
    const struct token *t = e->token;
    if (t->kind != TOKEN_WORD || e->n == 0)
        return t->raw.p;
    return i < e->n ? t->raw.p + e->c[i].at : t->raw.p + t->raw.n;
}

size_t expanded_width(const struct expanded *e, size_t from, size_t n) {
    const struct token *t = e->token;
    if (t->kind != TOKEN_WORD || from >= e->n)
        return t->kind == TOKEN_WORD ? 1 : t->raw.n;
    size_t end = from + n < e->n ? e->c[from + n].at : t->raw.n;
    /* within a variable, all of it */
    if (end <= e->c[from].at)
        end = e->c[from].at + 1u;
    return end - e->c[from].at;
}

/* Fills in v's own value; the word at t[at] is what asked for it. */
static bool resolve(struct compiler *c, struct var *v, const struct token *t, size_t at, size_t width) {
    char hint[1024];
    const char *where = t->kind == TOKEN_WORD ? t->raw.p + at : t->raw.p;
    if (v->resolved)
        return !v->reported;
    if (v->resolving) {
        diag_at(c->diags, t->source, where, width, NULL, NULL, "variable '%.*s' is defined by itself",
                SLICE_ARG(v->name));
        return false;
    }
    if (!v->has_value) {
        if (!v->reported)
            diag_at(c->diags, t->source, where, width, NULL, needs(c, hint, sizeof hint),
                    v->where.source ? "variable '%.*s' has no value" : "there is no variable '%.*s'",
                    SLICE_ARG(v->name));
        v->reported = true;
        return false;
    }
    struct expanded *e = arena_alloc(&c->scratch, sizeof *e);
    v->resolving = true;
    bool good = e && expand(c, &v->value_at, e);
    v->resolving = false;
    v->resolved = true;
    if (good)
        v->value = expanded_text(c, e->c, e->n);
    const char *fault = good ? value_fault(v->value) : NULL;
    if (fault)
        diag_token(c->diags, &v->value_at, NULL, NULL, "the value of '%.*s' %s", SLICE_ARG(v->name), fault);
    v->reported = !good || fault;
    return !v->reported;
}

void vars_resolve(struct compiler *c) {
    for (size_t i = 0; i < c->vars->n; i++) {
        struct var *v = &c->vars->list[i];
        if (v->where.source)
            resolve(c, v, &v->where, 0, v->where.raw.n);
    }
}

void vars_unused(struct compiler *c, const struct policy_set *sets, size_t n, bool tell) {
    for (size_t i = 0; i < n; i++) {
        const struct var *v = find(c->vars, slice_str(sets[i].name));
        if (v && v->used && sets[i].used)
            *sets[i].used = true;
        else if (tell && v && !v->used && !sets[i].used)
            diag_file(c->diags, "--set", "is the name spelled as in the policy?",
                      "no policy uses a variable '%s'", sets[i].name);
    }
}
