/* What can be said of a rule by looking at it alone, or at what the other rules say of the same repository. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "policy/check.h"
#include "policy/words.h"

#define MESSAGE_MAX 1024

bool check_speaks_of(const struct check *c, const struct rule *r) {
    return c->p->tops[r->source->index];
}

int check_warn(struct check *c, const struct rule *r, const char *code, const char *hint, const char *format,
               ...) {
    char message[MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    c->findings++;
    if (c->json) {
        json_open_object(c->json);
        print_text_json(c->json, "severity", SLICE("warning"));
        print_text_json(c->json, "code", slice_str(code));
        print_rule_json(c->json, "rule", r);
        print_text_json(c->json, "message", slice_str(message));
        if (hint)
            print_text_json(c->json, "hint", slice_str(hint));
        json_close(c->json);
        return 0;
    }
    struct buf *out = c->print->out;
    char place[MESSAGE_MAX];
    snprintf(place, sizeof place, "%s:%u:", r->where.file, r->where.line);
    print_painted(c->print, PAINT_BOLD, place);
    buf_putc(out, ' ');
    print_painted(c->print, PAINT_YELLOW, "warning:");
    buf_printf(out, " %s\n  %.*s\n", message, SLICE_ARG(r->where.text));
    if (hint)
        buf_printf(out, "  hint: %s\n", hint);
    return 0;
}

/* --- methods ----------------------------------------------------------------------------------------------- */

static void check_method(struct check *c, const struct rule *r, struct slice m) {
    char hint[80];
    const char *meant = words_method(m);
    if (meant && slice_eq(m, slice_str(meant)))
        return;
    snprintf(hint, sizeof hint, "did you mean %s?", meant ? meant : "");
    check_warn(c, r, "unknown-method", meant ? hint : NULL, "no common method is called %.*s", SLICE_ARG(m));
}

static void check_methods(struct check *c, const struct rule *r) {
    struct slice rest = r->methods, one;
    for (bool more = r->action == TREE_HTTP && !r->any_method; more;) {
        more = slice_cut(rest, ',', &one, &rest);
        check_method(c, r, one);
    }
}

/* --- credentials ------------------------------------------------------------------------------------------- */

static void check_credential(struct check *c, const struct rule *r) {
    if (r->deny || r->credential.n == 0)
        return;
    if (r->target.host_kind != RULE_HOST_EXACT)
        check_warn(c, r, "credential-wildcard-host", "write a rule for each host that is to see it",
                   "lends credential '%.*s' to every host that the wildcard takes", SLICE_ARG(r->credential));
    if (r->target.scheme == URL_HTTP)
        check_warn(c, r, "credential-cleartext", "write https://",
                   "lends credential '%.*s' over plain HTTP, for all on the way to read",
                   SLICE_ARG(r->credential));
    if (c->has_credential && !c->has_credential(c->arg, r->credential))
        check_warn(c, r, "credential-undefined", NULL, "the vault defines no credential '%.*s'",
                   SLICE_ARG(r->credential));
    if (!r->proved)
        check_warn(c, r, "no-expect",
                   "add `expect allow` lines for what it must permit, `expect deny` for what not",
                   "no `expect` proves this rule, which lends a credential");
}

int policy_check(const struct policy *p, bool (*has_credential)(void *arg, struct slice name), void *arg,
                 const struct policy_print *print, size_t *findings) {
    struct json j;
    struct check c = {.p = p, .has_credential = has_credential, .arg = arg, .print = print};
    if (print->format == POLICY_JSON) {
        json_init(&j, print->out);
        json_open_array(&j);
        c.json = &j;
    }
    for (size_t i = 0; i < p->nrules; i++) {
        if (!check_speaks_of(&c, &p->rules[i]))
            continue;
        check_methods(&c, &p->rules[i]);
        check_credential(&c, &p->rules[i]);
        check_writes(&c, &p->rules[i]);
    }
    int r = check_classes(&c);
    if (c.json)
        json_close(&j);
    *findings = c.findings;
    return r == 0 && print->out->failed ? ERR_LIMIT : r;
}
