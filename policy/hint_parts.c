/* Conditions, and what a push brings: parts of the rule that came closest, turned so that they take what is asked for. */
#include "policy/condition.h"
#include "policy/hint.h"
#include "policy/print.h"

#define VALUES_MAX 16
#define TEXTS_MAX  8

/* --- conditions -------------------------------------------------------------------------------------------- */

struct names {
    struct slice list[VALUES_MAX];
    size_t n;
    bool failed;
};

static void add_name(struct names *names, struct slice name) {
    for (size_t i = 0; i < names->n; i++)
        if (slice_eq(names->list[i], name))
            return;
    names->failed |= names->n == VALUES_MAX;
    if (!names->failed)
        names->list[names->n++] = name;
}

struct roots {
    struct names operations, fields;
};

static bool add_root(void *arg, struct slice operation, struct slice field) {
    struct roots *roots = arg;
    add_name(&roots->operations, operation);
    add_name(&roots->fields, field);
    return true;
}

static void put_names(struct buf *out, const char *place, const struct names *names) {
    buf_printf(out, "%s %s", place, names->n == 1 ? "== " : "in (");
    for (size_t i = 0; i < names->n; i++)
        buf_printf(out, "%s%.*s", i ? ", " : "", SLICE_ARG(names->list[i]));
    buf_puts(out, names->n == 1 ? "" : ")");
}

/* What the request's operations are, and their fields. */
static bool put_graphql(const struct facts *f, struct body_view *view, struct buf *out) {
    struct roots roots = {.operations = {.n = 0}};
    if (!graphql_roots(f, view, add_root, &roots) || roots.operations.n == 0 || roots.fields.n == 0 ||
        roots.operations.failed || roots.fields.failed)
        return false;
    put_names(out, "graphql operation", &roots.operations);
    put_names(out, " and graphql field", &roots.fields);
    return true;
}

/* "json base.ref" of "json base.ref == main"; empty: it can't be said again. */
static struct slice place_of(const struct condition *c) {
    struct slice kind, rest, name;
    slice_cut(c->text, ' ', &kind, &rest);
    rest = slice_trim(rest);
    slice_cut(rest, ' ', &name, &(struct slice){0});
    struct slice place = slice_make(c->text.p, (size_t)(name.p + name.n - c->text.p));
    return slice_find(place, '$') < 0 && slice_find(place, '"') < 0 ? place : SLICE_NONE;
}

static bool put_operand(struct buf *out, const struct operand *o) {
    switch (o->kind) {
    case OPERAND_TRUE: buf_puts(out, "true"); return true;
    case OPERAND_FALSE: buf_puts(out, "false"); return true;
    case OPERAND_NULL: buf_puts(out, "null"); return true;
    case OPERAND_NUMBER: buf_printf(out, "%lld", (long long)o->number); return true;
    case OPERAND_TEXT: break;
    }
    for (size_t i = 0; i < o->text.n; i++)
        if ((unsigned char)o->text.p[i] < 0x20 || o->text.p[i] == 0x7f)
            return false;
    print_quoted(out, o->text);
    return true;
}

/* The same place with the value that the request has there. */
static bool put_value(const struct condition *c, const struct facts *f, struct body_view *view,
                      struct buf *out) {
    char text[CONDITION_TEXT_MAX];
    struct operand values[VALUES_MAX] = {{.kind = OPERAND_TEXT}};
    struct slice place = place_of(c);
    size_t n = 0;
    if (c->subject == TREE_HEADER)
        n = condition_header(f, c->name, &values[0].text) == TRI_YES;
    else if (c->subject == TREE_QUERY)
        n = condition_query(f, c->name, text, sizeof text, &values[0].text) == TRI_YES;
    else if (c->subject == TREE_JSON)
        n = condition_json_values(c, f, view, values, VALUES_MAX);
    if (n == 0 || place.n == 0)
        return false;
    buf_put(out, place);
    buf_puts(out, n == 1 ? " == " : " in (");
    for (size_t i = 0; i < n; i++) {
        buf_puts(out, i ? ", " : "");
        if (!put_operand(out, &values[i]))
            return false;
    }
    buf_puts(out, n == 1 ? "" : ")");
    return true;
}

bool hint_conditions(const struct rule *r, const struct facts *f, struct buf *out) {
    struct body_view view = {.read = false};
    bool some = false, graphql = !r->conditions, good = true;
    for (const struct condition *c = r->conditions; c && good; c = c->next) {
        const char *why;
        if (c->subject == TREE_GRAPHQL) {
            graphql = true;
            continue;
        }
        buf_puts(out, some ? " and " : " where ");
        some = true;
        if (slice_find(c->text, '$') < 0 && condition_holds(c, f, &view, r->body, false, &why) == TRI_YES)
            buf_put(out, c->text);
        else
            good = put_value(c, f, &view, out);
    }
    if (good && graphql) {
        buf_puts(out, some ? " and " : " where ");
        some = good = put_graphql(f, &view, out);
    }
    if (r->max_body)
        buf_printf(out, " max-body %llu", (unsigned long long)r->max_body);
    body_view_release(&view);
    return good && some;
}

/* --- what a push brings ------------------------------------------------------------------------------------ */

/* As policy_size_parse reads it; what it can't say exactly is a little more. */
static void put_size(struct buf *out, const char *word, uint64_t n) {
    static const char *const units[] = {"", "KiB", "MiB", "GiB"};
    unsigned unit = 0;
    n += n == 0;
    for (; unit < 3 && (n % 1024 == 0 || n > 1u << 30); unit++)
        n = n / 1024 + (n % 1024 != 0);
    buf_printf(out, " %s %llu%s", word, (unsigned long long)n, units[unit]);
}

/* Not one character that patterns are made of. */
static bool plain(struct slice s) {
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f || strchr("*{}?[]\\~$\"#", s.p[i]))
            return false;
    return s.n > 0;
}

/* Each text by itself, or if they are many the folders that they are in. */
static bool put_texts(struct buf *out, const char *word, const struct facts_text *list, size_t n,
                      bool folders) {
    struct names names = {.n = 0};
    for (size_t i = 0; i < n; i++) {
        struct slice text = list[i].text;
        long slash = folders && n > TEXTS_MAX ? slice_find(text, '/') : -1;
        if (!plain(text))
            return false;
        add_name(&names, slash > 0 ? slice_sub(text, 0, (size_t)slash + 1) : text);
    }
    if (names.failed || names.n == 0)
        return false;
    buf_printf(out, " %s", word);
    for (size_t i = 0; i < names.n; i++) {
        struct slice name = names.list[i];
        bool blank = slice_find(name, ' ') >= 0;
        buf_printf(out, " %s%.*s%s%s", blank ? "\"" : "", SLICE_ARG(name),
                   folders && slice_ends(name, SLICE("/")) ? "**" : "", blank ? "\"" : "");
    }
    return true;
}

bool hint_brought(const struct rule *r, const struct facts *f, const struct facts_ref *ref, struct buf *out) {
    static const struct facts_brought unknown = {.paths_known = false};
    const struct facts_brought *b = ref->brought ? ref->brought : &unknown;
    size_t before = buf_len(out);
    bool whole = !f->unknown && !f->unread; /* … else the sizes are what has come until it was refused */
    if (ref->op == FACTS_DELETE)
        return false;
    if (r->nchanges && b->paths_known)
        put_texts(out, "paths", b->paths, b->npaths, true);
    if (r->max_size && whole && f->size_known)
        put_size(out, "max-size", f->size > r->max_size ? f->size : r->max_size);
    if (r->max_blob && whole && f->blob_known)
        put_size(out, "max-blob", f->blob > r->max_blob ? f->blob : r->max_blob);
    if (r->max_commits && b->commits_known)
        buf_printf(out, " max-commits %llu",
                   (unsigned long long)(b->ncommits > r->max_commits ? b->ncommits : r->max_commits));
    if (r->nauthors && b->authors_known)
        put_texts(out, "author", b->authors, b->nauthors, false);
    if (r->ncommitters && b->committers_known)
        put_texts(out, "committer", b->committers, b->ncommitters, false);
    if (r->wants_signed && b->signed_known && b->nsigned == b->ncommits)
        buf_puts(out, " signed");
    return buf_len(out) > before;
}
