/* policy check and diff on rules with conditions: what covers what, and what changes, worked out on values. */
#include "tests/unit/chance.h"
#include "tests/unit/policy_support.h"

#include "policy/tools.h"

static char *run_check(const char *text) {
    struct policy *p = load_text(text);
    struct buf out;
    size_t n = 0;
    buf_init(&out, 1 << 20);
    struct policy_print print = {.format = POLICY_TEXT, .out = &out};
    assert_int_equal(policy_check(p, NULL, NULL, &print, &n), 0);
    char *s = strdup(buf_cstr(&out));
    buf_release(&out);
    policy_free(p);
    return s;
}

static char *run_diff(const char *from, const char *to, size_t *n, size_t *unsure) {
    struct policy *p = load_text(from), *q = load_text(to);
    struct buf out;
    buf_init(&out, 1 << 20);
    struct policy_print print = {.format = POLICY_TEXT, .out = &out};
    assert_int_equal(policy_diff(p, q, &print, n, unsure), 0);
    char *s = strdup(buf_cstr(&out));
    buf_release(&out);
    policy_free(p);
    policy_free(q);
    return s;
}

#define X "https://a.test/x"

/* Each with all that is to be said; NULL: nothing. */
static const char *const covers[][2] = {
    {"allow POST " X " where json a == m\nallow POST " X " where json a in (m, d)\n", "t.policy:2 covers"},
    {"allow POST " X " where json a == m\nallow POST " X " where json a in (n, d)\n", NULL},
    {"allow POST " X " where json a == m\nallow POST " X " where json a == m and json b == m\n",
     "t.policy:1 covers"},
    {"allow POST " X " where json a == m\nallow POST " X "\n", "t.policy:2 covers"},
    {"allow POST " X " where json a == m with c\nallow POST " X "\n", NULL},
    {"allow POST " X " where json a == m and json a == n\n", "can never match"},
    {"allow POST " X " where json a[*] == m and json a[*] == n\n", "can never match"},
    {"deny POST " X " where json a[*] == m and json a[*] == n\nallow POST " X "\n", NULL},
    {"allow POST " X " where json a != m and json a == n\nallow POST " X " where json a == n\n", "covers"},
    /* m, n and all else together are all, but not what has no such value */
    {"allow POST " X " where json a == m\nallow POST " X " where json a != m\nallow POST " X
     " where json b == c\n",
     NULL},
    {"allow POST " X " where json a == m\nallow POST " X " where json a == n\nallow POST " X
     " where json a in (m, n)\n",
     "t.policy:3 covers"},
    {"allow POST " X " where json a == m with c\nallow POST " X " where json a == n with c\nallow POST " X
     " where json a in (n, m, o) with c\n",
     "t.policy:3 covers"},
    {"allow POST " X " where json a == m\ndeny POST " X "\n", "all that this allows is denied"},
    {"allow POST " X " where json a == m\ndeny POST " X " where json b == m\n", NULL},
    {"allow POST " X " where json a == m\ndeny POST " X " where json a == n\n", "takes nothing away"},
    {"allow GET " X " where query q == 1 and header H == v\nallow GET " X " where query q == 1\n",
     "t.policy:2 covers"},
    {"allow GET " X " where header h == v\nallow GET " X " where header H in (v, w)\n", "covers"},
    /* a deny is read generously: what is there twice counts */
    {"allow GET " X " where query q == 1\ndeny GET " X " where query q == 2\n", "takes nothing away"},
    {"allow GET " X "\ndeny GET " X " where query q == 2\n", NULL},
    {"allow POST " X " where graphql operation == query\nallow POST " X
     " where graphql operation in (query, mutation)\n",
     "t.policy:2 covers"},
    {"allow POST " X " where graphql field == a and graphql operation == query\nallow POST " X
     " where graphql operation == query\n",
     "t.policy:2 covers"},
    {"allow POST " X " where graphql field == a\ndeny POST " X " where graphql field in (b, c)\n",
     "takes nothing away"},
    {"allow POST " X " where json l[*].n == a\nallow POST " X " where json l[*].n in (a, b)\n", "covers"},
    {"allow POST " X " where json l[0].n == a\nallow POST " X " where json l[1].n in (a, b)\n", NULL},
    {"allow POST " X " where json a == 1\nallow POST " X " where json a in (1, true, null, x)\n", "covers"},
    /* the same, but one reads longer bodies */
    {"allow POST " X " where json a == 1 max-body 1KiB\nallow POST " X " where json a == 1 max-body 2KiB\n",
     NULL},
    {"allow POST " X " where json a == 1 max-body 2KiB\nallow POST " X " where json a == 1 max-body 1KiB\n",
     "t.policy:1 decides all that this permits"},
    /* what can't be followed is not spoken of */
    {"allow POST " X " where json a ~ m\nallow POST " X " where json a ~ m|n\n", NULL},
    {"allow POST " X " where json a == m\nallow POST " X " where json a.b == n\n", NULL},
};

static void what_covers_what(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof covers / sizeof *covers; i++) {
        char *out = run_check(covers[i][0]);
        size_t warnings = 0;
        for (const char *at = out; (at = strstr(at, "warning: ")); at++)
            warnings += strncmp(at, "warning: no `expect`", 20) != 0;
        if (covers[i][1] ? !strstr(out, covers[i][1]) : warnings != 0)
            fail_msg("%zu: not '%s':\n%s\n%s", i, covers[i][1] ? covers[i][1] : "nothing", covers[i][0], out);
        free(out);
    }
}

/* --- examples ---------------------------------------------------------------------------------------------- */

static bool expects(const char *policy, const char *verb, const char *example) {
    static char text[65536];
    struct policy *p;
    struct policy_diags diags;
    snprintf(text, sizeof text, "%s\nexpect %s %s\n", policy, verb, example);
    const char *const files[] = {"t.policy", text, NULL};
    int r = load_files(files, "t.policy", NULL, &p, &diags);
    policy_diags_release(&diags);
    policy_free(p);
    return r == 0;
}

static bool judged(const char *policy, bool permitted, const char *example) {
    if (!permitted)
        return expects(policy, "deny", example);
    return expects(policy, "allow", example) || expects(policy, "ask", example);
}

/* Every example, as an expectation of both policies. */
static size_t prove_examples(const char *from, const char *to, const char *text) {
    static const char *const sections[] = {"becomes permitted:", "ceases to be", "is permitted otherwise"};
    static const bool before[] = {false, true, true}, after[] = {true, false, true};
    size_t section = 0, n = 0;
    struct slice rest = slice_str(text), line;
    while (rest.n) {
        char example[4096];
        slice_cut(rest, '\n', &line, &rest);
        for (size_t i = 0; i < 3; i++)
            if (slice_starts(line, slice_str(sections[i])))
                section = i;
        if (!slice_starts(slice_trim(line), SLICE("for example: ")))
            continue;
        n++;
        line = slice_from(slice_trim(line), strlen("for example: "));
        snprintf(example, sizeof example, "%.*s", SLICE_ARG(line));
        if (example[0] >= 'a' && example[0] <= 'z')
            continue; /* a method in small letters: no expectation can have it */
        if (!judged(from, before[section], example) || !judged(to, after[section], example))
            fail_msg("'%s' is no example of\n%s--- from\n%s--- to\n%s", example, text, from, to);
    }
    return n;
}

static void what_changes(void **state) {
    (void)state;
    static const struct {
        const char *from, *to;
        size_t n;
        const char *part;
    } cases[] = {
        {"allow POST " X " where json a == m\n", "allow POST " X " where json a in (m, d)\n", 1,
         "permitted already by t.policy:1 on /x, where json a == m\n    for example: POST " X
         " body {\"a\":\"d\"}"},
        {"allow POST " X " where json a in (m, d)\n", "allow POST " X " where json a == m\n", 1, "- POST"},
        {"allow POST " X " where json a in (m, d)\n", "allow POST " X " where json a in (d, m)\n", 0,
         "no difference"},
        {"allow POST " X " where json a in (m, d)\n",
         "allow POST " X " where json a == m\nallow POST " X " where json a == d\n", 0, "no difference"},
        {"allow POST " X " where json a == m\n", "allow POST " X " where json a == m and json b == n\n", 1,
         "- POST"},
        {"allow POST " X " where json a == m\n", "allow POST " X "\n", 1, "+ POST"},
        {"allow POST " X " where json a == m\n", "allow POST " X " where json \"a\" == \"m\"\n", 0, ""},
        {"allow POST " X " where json a == 1\n", "allow POST " X " where json a == \"1\"\n", 2, ""},
        {"allow POST " X "\ndeny POST " X " where json a == m\n", "allow POST " X " where json a != m\n", 1,
         "- POST"}, /* what has no such value can't be told */
        {"allow GET " X " where query q == 1\n", "allow GET " X " where header Q == 1\n", 2, X "?q=1"},
        {"allow POST " X " where graphql operation == query\n",
         "allow POST " X " where graphql operation == query\ndeny POST " X " where graphql field == viewer\n",
         1, "denied by t.policy:2"},
        {"allow GET,POST " X " where graphql operation == query\n",
         "allow POST " X " where graphql operation == query\n", 1, X "?query=query%20%7B%20other%20%7D"},
        {"allow POST " X " where json a == m max-body 1KiB\n",
         "allow POST " X " where json a == m max-body 2KiB\n", 2, "at most 2048 bytes"},
        {"ask POST " X " where json a == m\nallow POST " X "\n", "allow POST " X "\n", 1, "after: allow"},
        {"allow lfs https://a.test/r where json ref.name == main\n", "allow lfs https://a.test/r download\n",
         2, "objects/batch"},
        {"allow fetch https://a.test/r\ndeny * https://a.test/** where header X-A == b\n",
         "allow fetch https://a.test/r\n", 2, "+ fetch"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n, unsure;
        char *out = run_diff(cases[i].from, cases[i].to, &n, &unsure);
        if (unsure || (n == 0) != (cases[i].n == 0) || !strstr(out, cases[i].part))
            fail_msg("%zu: %zu differences, %zu not decided:\n%s--- from\n%s--- to\n%s", i, n, unsure, out,
                     cases[i].from, cases[i].to);
        if (!strstr(cases[i].to, "fetch"))
            assert_int_equal(prove_examples(cases[i].from, cases[i].to, out), n);
        free(out);
    }
}

/* --- random ------------------------------------------------------------------------------------------------ */

static const char *const wheres[] = {
    "json a == x",         "json a != x",
    "json a in (x, y)",    "json a == 1",
    "json a in (1, null)", "json b == true",
    "json l[*] == x",      "json l[*] != x",
    "json l[*] in (x, y)", "json o.k == x",
    "json o.m in (x, 2)",  "query q == 1",
    "query q != 1",        "query q in (1, 2)",
    "header H == v",       "header h in (v, w)",
    "header H != w",       "graphql operation == query",
    "graphql field != f",  "graphql field in (f, g)",
};
static const char *const bodies[] = {
    "",
    "{}",
    "no JSON",
    "{\"a\":\"x\"}",
    "{\"a\":\"y\",\"b\":true}",
    "{\"a\":\"z\",\"b\":false}",
    "{\"a\":1,\"l\":[\"x\"]}",
    "{\"a\":2,\"l\":[\"x\",\"y\"]}",
    "{\"a\":null,\"l\":[]}",
    "{\"a\":true,\"l\":[\"z\",\"x\"]}",
    "{\"a\":\"x\",\"A\":\"y\"}",
    "{\"a\":\"x\",\"a\":\"x\"}",
    "{\"a\":\"x\",\"l\":[\"x\",3],\"o\":{\"k\":\"x\",\"m\":2}}",
    "{\"a\":\"y\",\"l\":\"x\",\"o\":{\"k\":\"z\",\"m\":\"x\"}}",
    "{\"o\":{\"k\":\"x\"},\"b\":1}",
    "{\"query\":\"{ f }\"}",
    "{\"query\":\"{ g h }\"}",
    "{\"query\":\"mutation { f }\"}",
    "{\"query\":\"query A { f } mutation B { g }\",\"operationName\":\"A\"}",
    "{\"query\":\"{ h }\",\"id\":1}",
};
static const char *const queries[] = {"", "q=1", "q=2", "q=3", "q=1&q=1", "Q=1", "query=%7Bf%7D", "q=%31"};
static const char *const headers[] = {"", "v", "w", "z", "vv"};

static void random_policy(char *text, size_t size) {
    size_t n = 0;
    bool graphql = chance(3) == 0; /* beside it nothing else of a body can be asked for */
    text[0] = 0;
    for (uint32_t k = 1 + chance(4); k; k--) {
        bool first = true;
        static const char *const verbs[] = {"allow", "allow", "deny", "ask"};
        static const char *const methods[] = {"POST", "GET", "*"};
        n += (size_t)snprintf(text + n, size - n, "%s %s %s%s", PICK(verbs), PICK(methods), X,
                              chance(3) ? "" : "/*");
        for (uint32_t c = 0, all = chance(3); c < all; c++) {
            const char *where = PICK(wheres);
            if (strncmp(where, graphql ? "json" : "graphql", 4) == 0) {
                all++;
                continue;
            }
            n += (size_t)snprintf(text + n, size - n, " %s %s", first ? "where" : "and", where);
            first = false;
        }
        n += (size_t)snprintf(text + n, size - n, "\n");
    }
}

struct probe {
    struct asking a;
    const char *header;
};

static bool probe_field(const void *arg, size_t i, struct slice *name, struct slice *value) {
    const struct probe *q = arg;
    static const char *const values[] = {"application/json", "v", "v"};
    size_t n = *q->header == 0 ? 1 : strcmp(q->header, "vv") == 0 ? 3 : 2;
    if (i >= n)
        return false;
    *name = i ? SLICE("h") : SLICE("content-type");
    *value = slice_str(i && n == 2 ? q->header : values[i]);
    return true;
}

/* Random requests: one that the two judge differently is spoken of. False if not all could be decided. */
static bool compare(const char *from, const char *to) {
    size_t n, unsure;
    char *text = run_diff(from, to, &n, &unsure);
    struct policy *p = load_text(from), *q = load_text(to);
    for (int i = 0; i < 300; i++) {
        struct probe probe = {.header = PICK(headers)};
        struct verdict v, w;
        char url[256], name[64];
        snprintf(url, sizeof url, X "%s?%s", chance(2) ? "" : "/y", PICK(queries));
        asking_init(&probe.a, FACTS_HTTP, chance(2) ? "POST" : "GET", url);
        probe.a.f.body_state = FACTS_BODY_WHOLE;
        probe.a.f.body = slice_str(PICK(bodies));
        probe.a.f.field = probe_field;
        probe.a.f.field_arg = &probe;
        policy_judge(p, &probe.a.f, &v);
        policy_judge(q, &probe.a.f, &w);
        snprintf(name, sizeof name, "by t.policy:%u: ", (w.action == VERDICT_DENY ? v : w).rule.line);
        if (v.action != w.action && !unsure && !strstr(text, name))
            fail_msg("%.*s %s header %s body %.*s: %s then, %s now\n%s--- from\n%s--- to\n%s",
                     SLICE_ARG(probe.a.f.method), url, probe.header, SLICE_ARG(probe.a.f.body),
                     verdict_action_name(v.action), verdict_action_name(w.action), text, from, to);
        buf_release(&probe.a.path);
    }
    assert_int_equal(prove_examples(from, to, text), n);
    policy_free(p);
    policy_free(q);
    free(text);
    return unsure == 0;
}

static void random_pairs(void **state) {
    (void)state;
    char from[2048], to[2048];
    size_t decided = 0;
    for (size_t i = 0; i < 150; i++) {
        seed = i * 7919u + 17u;
        random_policy(from, sizeof from);
        random_policy(to, sizeof to);
        decided += compare(from, to);
    }
    assert_in_range(decided, 120, 150); /* the others combine too much */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_covers_what),
        cmocka_unit_test(what_changes),
        cmocka_unit_test(random_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
