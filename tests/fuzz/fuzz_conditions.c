/*
 * Conditions on queries, headers, JSON and GraphQL. An input is a line "METHOD PATH?QUERY", header lines, an empty
 * line and a body. The verdict is the same twice, and with the rules the other way round; what is permitted without
 * its body is permitted whatever the body says.
 */
#include "policy/policy.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const rules[] = {
    "allow POST https://a.test/json where json base == \"main\" and json draft != true",
    "allow POST https://a.test/json where json list[*].n in (1, 2, x, null)",
    "allow POST https://a.test/json where json deep.er.key ~ (a+)+b",
    "deny POST https://a.test/json where json role == admin",
    "ask POST https://a.test/json where json list[0] == x",
    "allow GET,POST https://a.test/graphql where graphql operation == query",
    "allow POST https://a.test/graphql where graphql field in (addComment, viewer)",
    "deny POST,GET https://a.test/graphql where graphql field == deleteRef",
    "allow GET https://a.test/q where query ref == main and header accept ~ (text|image)/.*",
    "deny * https://a.test/q where query admin != 0",
    "ask GET https://a.test~/(x+x+)+y",
    "deny * https://a.test~/admin(/.*)*",
    "allow GET https://a.test/**",
};
#define RULES (sizeof rules / sizeof *rules)

static int read_rules(void *arg, const char *from, const char *name, struct buf *resolved, struct buf *text,
                      struct errmsg *msg) {
    bool back = *(bool *)arg;
    (void)from;
    (void)msg;
    for (size_t i = 0; i < RULES; i++)
        buf_printf(text, "%s\n", rules[back ? RULES - 1 - i : i]);
    return buf_puts(resolved, name);
}

static void must(bool good, const char *what) {
    if (!good) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static struct policy *load(bool back) {
    static const char *const name = "fuzz";
    struct policy_input in = {.files = &name, .nfiles = 1, .read = read_rules, .arg = &back};
    struct policy_diags diags;
    struct policy *p;
    policy_diags_init(&diags);
    must(policy_load(&in, &p, &diags) == 0, "the rules are no policy");
    policy_diags_release(&diags);
    return p;
}

struct fields {
    struct slice lines[16];
    size_t n;
};

static bool field(const void *arg, size_t i, struct slice *name, struct slice *value) {
    const struct fields *f = arg;
    return i < f->n && (slice_cut(f->lines[i], ':', name, value), true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct policy *p, *back;
    if (!p) {
        p = load(false);
        back = load(true);
    }
    struct slice rest = slice_make(data, size), line, target, raw;
    struct fields fields = {.n = 0};
    struct facts f = {.kind = FACTS_HTTP, .scheme = URL_HTTPS, .host = SLICE("a.test"), .port = 443};
    bool has_query;
    slice_cut(rest, '\n', &line, &rest);
    slice_cut(line, ' ', &f.method, &target);
    url_target_split(target, &raw, &f.query, &has_query);
    while (slice_cut(rest, '\n', &line, &rest) && line.n)
        if (fields.n < 16)
            fields.lines[fields.n++] = line;
    struct buf path;
    buf_init(&path, 1 << 16);
    if (!url_path_canonical(raw, &path, NULL, NULL)) {
        struct verdict unread, a, b, again;
        f.path = buf_slice(&path);
        f.field = field;
        f.field_arg = &fields;
        policy_judge(p, &f, &unread);
        must(policy_needs_body(p, &f) == policy_needs_body(back, &f), "order matters to what is held");
        bool needs = policy_needs_body(p, &f) > 0;
        f.body_state = FACTS_BODY_WHOLE;
        f.body = rest;
        policy_judge(p, &f, &a);
        policy_judge(p, &f, &again);
        policy_judge(back, &f, &b);
        must(a.action == b.action, "order matters");
        must(a.action == again.action && a.rule.index == again.rule.index, "not the same twice");
        must(unread.action != VERDICT_ALLOW || a.action == VERDICT_ALLOW, "a body takes a permission away");
        must(needs || a.action == unread.action, "the body was not asked for, and matters");
        struct buf text;
        buf_init(&text, 1 << 16);
        policy_explain(p, &f, &a, 0, &text);
        policy_hint(p, &f, &a, &text);
        buf_release(&text);
    }
    buf_release(&path);
    return 0;
}
