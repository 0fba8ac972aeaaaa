/* policy: files and includes, expectations and whom they are about, limits, bundles, descriptions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/policy_support.h"

/* Loads files[0] and says what became of it: "" or the diagnostics. The caller frees. */
static char *outcome(const char *const *files, struct policy **out) {
    struct policy_diags diags;
    struct buf text;
    int r = load_files(files, files[0], NULL, out, &diags);
    buf_init(&text, 1 << 20);
    assert_int_equal(policy_diags_format(&diags, false, &text), 0);
    assert_int_equal(r, buf_len(&text) ? ERR_PARSE : 0);
    assert_true((*out != NULL) == (r == 0));
    char *s = strdup(buf_cstr(&text));
    buf_release(&text);
    policy_diags_release(&diags);
    return s;
}

static void check(const char *const *files, const char *wanted) {
    struct policy *p;
    char *s = outcome(files, &p);
    if (wanted ? !strstr(s, wanted) : *s)
        fail_msg("wanted %s, got:\n%s", wanted ? wanted : "no error", s);
    free(s);
    policy_free(p);
}

static void test_includes(void **state) {
    (void)state;
    /* what is included stands where the include stands; a file reached twice counts once */
    const char *const diamond[] = {
        "a", "allow GET https://a.test\ninclude \"b\"\ninclude \"c\"\nallow GET https://d.test",
        "b", "include \"c\"\nallow GET https://b.test with b",
        "c", "let v = x\nallow GET https://b.test with $$c",
        NULL};
    check(diamond, "c:2:31: error: '$$c' can't stand here");
    const char *const good[] = {
        "a", "allow GET https://a.test\ninclude \"b\"\ninclude \"c\"\nallow GET https://$host",
        "b", "include \"c\"\nallow GET https://b.test with b",
        "c", "let host = d.test\nallow GET https://b.test with c",
        NULL};
    struct policy *p;
    char *s = outcome(good, &p);
    assert_string_equal(s, "");
    free(s);
    assert_int_equal(policy_rule_count(p), 4);
    struct verdict v = ask_http(p, "GET", "https://b.test/");
    assert_true(slice_eq(v.credential, SLICE("c")));
    assert_int_equal(v.rule.index, 2);
    assert_string_equal(v.rule.file, "c");
    assert_int_equal(ask_http(p, "GET", "https://d.test/").rule.line, 4);
    policy_free(p);

    const char *const cycle[] = {"a", "include \"b\"", "b", "\ninclude \"c\"", "c", "include \"a\"", NULL};
    check(cycle, "c:1:9: error: \"a\" includes itself");
    const char *const self[] = {"a", "include \"a\"", NULL};
    check(self, "a:1:9: error: \"a\" includes itself");
    const char *const missing[] = {"a", "include \"b\"\nallow get https://a.test", NULL};
    check(missing, "a:1:9: error: can't include \"b\": no such file\n  include \"b\"\n          ^~~\n");
    check(missing, "a:2:7: error: unknown action 'get'");
    const char *const bare[] = {"a", "include b", "b", "", NULL};
    check(bare, "expected: a file's name in quotes");
}

static void test_depth(void **state) {
    static char names[20][4], texts[20][32];
    const char *files[41];
    (void)state;
    for (int i = 0; i < 20; i++) {
        snprintf(names[i], sizeof names[i], "f%d", i);
        snprintf(texts[i], sizeof texts[i], i < 19 ? "include \"f%d\"" : "# %d", i + 1);
        files[2 * i] = names[i];
        files[2 * i + 1] = texts[i];
    }
    files[40] = NULL;
    check(files, "f16:1:9: error: includes are nested too deep");
    snprintf(texts[16], sizeof texts[16], "# end");
    check(files, NULL);
}

/* An included file proves itself; a file that the user names proves the whole. */
static void test_expectations(void **state) {
    const char *const preset = "allow GET https://r.test/**\nexpect deny PUT https://r.test/x\n"
                               "expect allow GET https://r.test/x\n";
    (void)state;
    const char *const added[] = {"a", "include \"r\"\nallow PUT https://r.test/x", "r", preset, NULL};
    check(added, NULL);
    const char *const denied[] = {"a", "include \"r\"\ndeny GET https://r.test/x", "r", preset, NULL};
    check(denied, NULL);
    const char *const whole[] = {
        "a", "include \"r\"\nallow PUT https://r.test/x\nexpect deny PUT https://r.test/x", "r", preset,
        NULL};
    check(whole, "a:3:8: error: expectation fails: PUT https://r.test/x is allowed\n"
                 "  expect deny PUT https://r.test/x\n         ^~~~\n"
                 "  hint: a:2 decides: allow PUT https://r.test/x\n");
    const char *const broken[] = {"a", "include \"r\"", "r",
                                  "allow GET https://r.test/\nexpect allow GET https://r.test/x", NULL};
    check(broken,
          "r:2:8: error: expectation fails: GET https://r.test/x is denied: no rule allows GET on this path");
    /* what a preset includes, and what that includes, counts for it */
    const char *const deep[] = {"a", "include \"b\"", "b", "include \"c\"\nexpect allow GET https://r.test/x",
                                "c", "include \"r\"", "r", preset,
                                NULL};
    check(deep, NULL);
}

static void test_expect_forms(void **state) {
    static const char *const rules = "allow GET,HEAD https://a.test/x with c\nallow fetch https://g.test/r\n"
                                     "allow push https://g.test/r refs/heads/fix/* create update with c\n";
    static const struct {
        const char *line, *wanted;
    } rows[] = {
        {"expect allow GET,HEAD https://a.test/x?q=1", NULL},
        {"expect allow GET https://a.test/x with c", NULL},
        {"expect allow GET https://a.test/x with d", "is allowed with credential 'c', not with 'd'"},
        {"expect allow fetch https://g.test/r with d", "is allowed with no credential, not with 'd'"},
        {"expect deny GET,POST https://a.test/x", "GET https://a.test/x is allowed"},
        {"expect allow GET,POST https://a.test/x", "POST https://a.test/x is denied: no rule allows POST"},
        {"expect deny GET https://a.test/../x", NULL},
        {"expect allow GET https://a.test/../x", "such a request is refused: path has a dot segment"},
        {"expect deny * https://a.test/y", "no request has the method '*'"},
        {"expect allow fetch https://g.test/R.git", NULL},
        {"expect allow push https://g.test/r", NULL},
        {"expect deny push https://g.test/r", "push https://g.test/r is allowed"},
        {"expect allow push https://g.test/r refs/heads/fix/1", NULL},
        {"expect allow push https://g.test/r refs/heads/fix/1 refs/heads/x", "refs/heads/x create is denied"},
        {"expect allow push https://g.test/r refs/heads/fix/1 force", "refs/heads/fix/1 force is denied"},
        {"expect deny push https://g.test/r refs/heads/fix/1 force delete", NULL},
        {"expect deny push https://g.test/r refs/heads/fix/1", "refs/heads/fix/1 create is allowed"},
        {"expect deny push https://g.test/r refs/heads/main", NULL},
        {"expect deny push https://g.test/r main", "a ref's name begins with refs/"},
        {"expect deny push https://g.test/r delete", "an operation on no ref"},
        {"expect ask GET https://a.test/x", "expectation fails: GET https://a.test/x is allowed"},
        {"expect allow GET https://*/x", "host has a character that no host name has"},
        {"expect allow GET a.test/x", "a target without a scheme"},
        {"expect GET https://a.test/x", "expected: allow, deny, ask or tunnel"},
        {"expect deny POST https://g.test/r.git/git-receive-pack", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        snprintf(text, sizeof text, "%s%s\n", rules, rows[i].line);
        const char *const files[] = {"a", text, NULL};
        check(files, rows[i].wanted);
    }
}

static int failing_read(void *arg, const char *from, const char *name, struct buf *resolved, struct buf *text,
                        struct errmsg *msg) {
    (void)from;
    (void)name;
    if (strcmp(arg, "large") == 0) {
        buf_puts(resolved, "x");
        for (size_t i = 0; i <= POLICY_FILE_MAX / 8; i++) {
            int r = buf_puts(text, "# 45678\n");
            if (r)
                return r;
        }
    }
    if (strcmp(arg, "nameless") == 0)
        return 0;
    return errmsg_set(msg, ERR_IO, "permission denied");
}

static void test_reader(void **state) {
    static const char *const rows[][2] = {{"denied", "top: error: can't be read: permission denied\n"},
                                          {"large", "top: error: can't be read: it is larger than 4 MiB\n"},
                                          {"nameless", "top: error: can't be read: it has no proper name\n"}};
    const char *top = "top";
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct policy_input in = {
            .files = &top, .nfiles = 1, .read = failing_read, .arg = (void *)(uintptr_t)rows[i][0]};
        struct policy *p;
        struct policy_diags diags;
        struct buf out;
        policy_diags_init(&diags);
        buf_init(&out, 4096);
        assert_int_equal(policy_load(&in, &p, &diags), ERR_PARSE);
        policy_diags_format(&diags, false, &out);
        assert_string_equal(buf_cstr(&out), rows[i][1]);
        buf_release(&out);
        policy_diags_release(&diags);
    }
}

static void test_no_files(void **state) {
    struct policy_input in = {.nfiles = 0};
    struct policy *p;
    struct policy_diags diags;
    (void)state;
    policy_diags_init(&diags);
    assert_int_equal(policy_load(&in, &p, &diags), 0);
    assert_int_equal(ask_http(p, "GET", "https://a.test/").reason, REASON_NO_RULES);
    assert_int_equal(ask_push(p, "https://a.test/x", "refs/heads/x", FACTS_CREATE).action, VERDICT_DENY);
    policy_free(p);
    policy_free(NULL);
}

static void test_many_errors(void **state) {
    struct buf text;
    (void)state;
    buf_init(&text, 1 << 20);
    for (int i = 0; i < 1000; i++)
        buf_puts(&text, "allow get https://a.test\n");
    char *errors = load_errors(buf_cstr(&text), NULL, NULL);
    assert_non_null(strstr(errors, "t.policy:50:7: error"));
    assert_null(strstr(errors, "t.policy:51:7: error"));
    assert_non_null(strstr(errors, "too many errors: 950 more are not shown"));
    free(errors);
    buf_release(&text);
}

static void test_bundle(void **state) {
    const char *const files[] = {
        "d/a", "include \"b\"\nallow GET https://$h/ with c\nexpect deny GET https://x.test/", "b",
        "let h\nallow push https://g.test/r", NULL};
    const struct policy_set set = {"h", "a.test"};
    struct policy *p, *q;
    struct policy_diags diags;
    struct buf bundle;
    (void)state;
    assert_int_equal(load_files(files, "d/a", &set, &p, &diags), 0);
    buf_init(&bundle, 1 << 20);
    assert_int_equal(policy_bundle(p, &bundle), 0);
    struct slice all = buf_slice(&bundle);
    assert_int_equal(policy_load_bundle(all, &q, &diags), 0);
    assert_int_equal(policy_rule_count(q), 2);
    struct verdict v = ask_http(q, "GET", "https://a.test/");
    assert_int_equal(v.action, VERDICT_ALLOW);
    assert_string_equal(v.rule.file, "d/a");
    assert_string_equal(policy_credential(q, 0), "c");
    /* and the bundle of that is the same bundle */
    struct buf again;
    buf_init(&again, 1 << 20);
    assert_int_equal(policy_bundle(q, &again), 0);
    assert_true(slice_eq(all, buf_slice(&again)));
    policy_free(q);
    for (size_t n = 0; n < all.n; n++) {
        policy_diags_release(&diags);
        assert_int_equal(policy_load_bundle(slice_sub(all, 0, n), &q, &diags), ERR_PARSE);
        assert_true(diags.n > 0);
        assert_null(q);
    }
    buf_putc(&bundle, 0);
    assert_int_equal(policy_load_bundle(buf_slice(&bundle), &q, &diags), ERR_PARSE);
    policy_diags_release(&diags);
    buf_release(&bundle);
    buf_release(&again);
    policy_free(p);
}

static void test_describe(void **state) {
    struct policy *p = load_text("let r = acme/app\n"
                                 "allow GET,HEAD https://*.A.test:*/{x,y}/** with c\n"
                                 "deny push https://g.test/$r refs/heads/* refs/tags/\"v update note \"no\"\n"
                                 "allow fetch http://g.test:443/$r\n");
    struct buf out;
    (void)state;
    buf_init(&out, 1 << 16);
    assert_int_equal(policy_describe(p, POLICY_TEXT, &out), 0);
    assert_string_equal(
        buf_cstr(&out),
        "allow GET,HEAD https://*.a.test:*/{x,y}/** with c  # t.policy:2\n"
        "deny push https://g.test/acme/app refs/heads/* refs/tags/\"v update force  # t.policy:3: no\n"
        "allow fetch http://g.test:443/acme/app  # t.policy:4\n");
    buf_clear(&out);
    assert_int_equal(policy_describe(p, POLICY_JSON, &out), 0);
    assert_string_equal(
        buf_cstr(&out),
        "{\"otherwise\":\"deny\",\"rules\":[{\"verdict\":\"allow\",\"methods\":[\"GET\",\"HEAD\"],\"target\":"
        "\"https://*.a.test:*/{x,y}/"
        "**\",\"credential\":\"c\",\"file\":\"t.policy\",\"line\":2},{\"verdict\":\"deny\","
        "\"git\":\"push\",\"target\":\"https://g.test/acme/app\",\"refs\":[\"refs/heads/*\",\"refs/tags/"
        "\\\"v\"],"
        "\"operations\":[\"update\",\"force\"],\"note\":\"no\",\"file\":\"t.policy\",\"line\":3},{"
        "\"verdict\":\"allow\","
        "\"git\":\"fetch\",\"target\":\"http://g.test:443/acme/app\",\"refs\":[\"refs/"
        "**\"],\"file\":\"t.policy\",\"line\":4}]}");
    buf_release(&out);
    policy_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_includes),     cmocka_unit_test(test_depth),
        cmocka_unit_test(test_expectations), cmocka_unit_test(test_expect_forms),
        cmocka_unit_test(test_reader),       cmocka_unit_test(test_no_files),
        cmocka_unit_test(test_many_errors),  cmocka_unit_test(test_bundle),
        cmocka_unit_test(test_describe),
    };
    return cmocka_run_group_tests_name("policy_load", tests, NULL, NULL);
}
