#include "policy/print.h"

#define BODY_SHOWN 2048 /* bytes of a body */

void print_painted(const struct policy_print *print, const char *colour, const char *word) {
    if (print->colour)
        buf_printf(print->out, "\033[%sm%s\033[0m", colour, word);
    else
        buf_puts(print->out, word);
}

static void put_clean(struct buf *out, struct slice s) {
    for (size_t i = 0; i < s.n; i++)
        buf_putc(out, (unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f ? '?' : s.p[i]);
}

void print_request(struct buf *out, const struct facts *f) {
    if (f->kind == FACTS_HTTP)
        put_clean(out, f->method);
    else
        buf_puts(out, f->kind == FACTS_TUNNEL ? "tunnel" : f->kind == FACTS_GIT_PUSH ? "push" : "fetch");
    buf_putc(out, ' ');
    url_put_origin(out, f->scheme, f->host, f->port);
    struct slice path = f->kind == FACTS_HTTP ? f->path : facts_repository(f->path);
    if (f->kind != FACTS_TUNNEL)
        put_clean(out, path.n ? path : SLICE("/"));
    if (f->kind == FACTS_HTTP && f->query.n) {
        buf_putc(out, '?');
        put_clean(out, f->query);
    }
    if (f->body.n == 0 && facts_lfs_batch(f) && facts_lfs_operation(f))
        buf_printf(out, " body {\"operation\":\"%s\"}", facts_lfs_name(facts_lfs_operation(f)));
    if (f->nrefs) {
        buf_putc(out, ' ');
        put_clean(out, f->refs[0].name);
        if (f->kind == FACTS_GIT_PUSH)
            buf_printf(out, " %s", facts_op_name(f->refs[0].op));
    }
    if (f->extra != FACTS_PLAIN)
        buf_printf(out, " also %s", facts_extra_name(f->extra));
}

void print_quoted(struct buf *out, struct slice s) {
    buf_putc(out, '"');
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '"' || s.p[i] == '\\')
            buf_putc(out, '\\');
        if (s.p[i] == '$')
            buf_putc(out, '$');
        put_clean(out, slice_sub(s, i, 1));
    }
    buf_putc(out, '"');
}

/* As a word of a policy, in quotes where it has to be. */
static void put_word(struct buf *out, struct slice s) {
    bool quoted = s.n == 0 || s.p[0] == '"' || s.p[0] == '#';
    for (size_t i = 0; i < s.n; i++)
        quoted |= s.p[i] == ' ' || s.p[i] == '\t' || s.p[i] == '\\';
    if (quoted) {
        print_quoted(out, s);
        return;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '$')
            buf_putc(out, '$');
        put_clean(out, slice_sub(s, i, 1));
    }
}

void print_request_whole(struct buf *out, const struct facts *f) {
    struct slice name, value;
    print_request(out, f);
    for (size_t i = 0; f->field && f->field(f->field_arg, i, &name, &value); i++) {
        /* what a body is if nothing is said of it */
        if (slice_caseeq(name, SLICE("content-type")) && slice_eq(value, SLICE("application/json")))
            continue;
        buf_printf(out, " header %.*s ", SLICE_ARG(name));
        put_word(out, value);
    }
    struct slice body = f->body;
    while (f->body.n > BODY_SHOWN && body.n && body.p[body.n - 1] == ' ')
        body.n--;
    if (body.n) {
        buf_puts(out, " body ");
        put_word(out, slice_sub(body, 0, BODY_SHOWN));
    }
    if (f->body.n > BODY_SHOWN)
        buf_printf(out, " (%s%zu bytes)", body.n > BODY_SHOWN ? "the beginning of " : "with blanks ",
                   f->body.n);
}

void print_rule(struct buf *out, const struct rule *r) {
    buf_printf(out, "%s:%u: %.*s", r->where.file, r->where.line, SLICE_ARG(r->where.text));
}

void print_text_json(struct json *j, const char *key, struct slice s) {
    json_key(j, key);
    json_put_string(j, s);
}

void print_rule_json(struct json *j, const char *key, const struct rule *r) {
    json_key(j, key);
    json_open_object(j);
    print_text_json(j, "file", slice_str(r->where.file));
    json_key(j, "line");
    json_u64(j, r->where.line);
    print_text_json(j, "text", r->where.text);
    json_close(j);
}
