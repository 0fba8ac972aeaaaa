/* policy: variables. A value is never a pattern and moves no border of a URL; what has none is an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/policy_support.h"

static void test_filled_in(void **state) {
    static const struct {
        const char *text, *value, *url;
        enum verdict_action action;
    } rows[] = {
        {"allow GET https://a.test/$v", "x/y", "https://a.test/x/y", VERDICT_ALLOW},
        {"allow GET https://a.test/${v}z", "x", "https://a.test/xz", VERDICT_ALLOW},
        {"allow GET https://a.test/$v.git", "x", "https://a.test/x.git", VERDICT_ALLOW},
        {"allow GET https://$v/", "a.test", "https://a.test/", VERDICT_ALLOW},
        {"allow GET https://$v.test/", "a", "https://a.test/", VERDICT_ALLOW},
        {"allow GET https://*.$v/", "a.test", "https://x.a.test/", VERDICT_ALLOW},
        {"allow GET https://[$v]/", "::1", "https://[::1]/", VERDICT_ALLOW},
        {"allow GET https://$v/", "[::1]", "https://[::1]/", VERDICT_ALLOW},
        {"allow GET https://$v:8443/", "[::1]", "https://[::1]:8443/", VERDICT_ALLOW},
        {"allow GET https://a.test:$v/", "8443", "https://a.test:8443/", VERDICT_ALLOW},
        {"let w = p/$v/q\nallow GET https://a.test/$w", "x", "https://a.test/p/x/q", VERDICT_ALLOW},
        {"allow GET https://a.test/$w\nlet w = \"p$v\"", "x", "https://a.test/px", VERDICT_ALLOW},
        {"let v = default\nallow GET https://a.test/$v", "x", "https://a.test/x", VERDICT_ALLOW},
        {"let v = default\nallow GET https://a.test/$v", "x", "https://a.test/default", VERDICT_DENY},
        {"let v\nallow GET https://a.test/$v", "x", "https://a.test/x", VERDICT_ALLOW},
        /* pattern characters in a value stand for themselves */
        {"allow GET https://a.test/$v", "*", "https://a.test/x", VERDICT_DENY},
        {"allow GET https://a.test/$v", "*", "https://a.test/*", VERDICT_ALLOW},
        {"allow GET https://a.test/$v", "**", "https://a.test/x/y", VERDICT_DENY},
        {"allow GET https://a.test/$v", "{a,b}", "https://a.test/a", VERDICT_DENY},
        {"allow GET https://a.test/$v", "{a,b}", "https://a.test/%7Ba,b%7D", VERDICT_ALLOW},
        {"allow GET https://a.test/$v", "$v", "https://a.test/$v", VERDICT_ALLOW},
        {"allow GET https://a.test/x$v", "~.*", "https://a.test/xyz", VERDICT_DENY},
        {"allow GET https://a.test/$v*", "*", "https://a.test/*x", VERDICT_ALLOW},
        {"allow GET https://a.test/$v*", "*", "https://a.test/x", VERDICT_DENY},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct policy *p = load_set(rows[i].text, "v", rows[i].value);
        if (ask_http(p, "GET", rows[i].url).action != rows[i].action)
            fail_msg("%s with %s on %s", rows[i].text, rows[i].value, rows[i].url);
        policy_free(p);
    }
}

static void test_refs_and_repositories(void **state) {
    static const struct {
        const char *value, *url, *ref;
        enum verdict_action action;
    } rows[] = {
        {"fix/42", "https://g.test/fix/42", "refs/heads/fix/42", VERDICT_ALLOW},
        {"fix/42", "https://g.test/fix/42.git", "refs/heads/fix/43", VERDICT_DENY},
        {"*", "https://g.test/x", "refs/heads/x", VERDICT_DENY},
        {"**", "https://g.test/x", "refs/heads/x", VERDICT_DENY},
        {"{x,y}", "https://g.test/x", "refs/heads/x", VERDICT_DENY},
        {"?", "https://g.test/%3f", "refs/heads/x", VERDICT_DENY},
        {"[x]", "https://g.test/[x]", "refs/heads/x", VERDICT_DENY},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct policy *p = strcmp(rows[i].value, "?") == 0
                               ? load_set("allow push https://g.test/** refs/heads/$v", "v", rows[i].value)
                               : load_set("allow push https://g.test/$v refs/heads/$v", "v", rows[i].value);
        if (ask_push(p, rows[i].url, rows[i].ref, FACTS_CREATE).action != rows[i].action)
            fail_msg("%s on %s %s", rows[i].value, rows[i].url, rows[i].ref);
        policy_free(p);
    }
}

/* A file that needs a value takes it from whichever has one, whatever the order. */
static void test_needs(void **state) {
    (void)state;
    static const char *const texts[] = {"let v\nlet v = x\nlet v\nallow GET https://a.test/$v",
                                        "let v = x\nlet v\nallow GET https://a.test/$v",
                                        "let v\nlet v\nallow GET https://a.test/$v"};
    for (size_t i = 0; i < 3; i++) {
        struct policy *p = i < 2 ? load_text(texts[i]) : load_set(texts[i], "v", "x");
        assert_int_equal(ask_http(p, "GET", "https://a.test/x").action, VERDICT_ALLOW);
        policy_free(p);
    }
}

static void test_errors(void **state) {
    static const struct {
        const char *text, *name, *value, *wanted;
    } rows[] = {
        {"allow GET https://a.test/$v", NULL, NULL, "t.policy:1:26: error: there is no variable 'v'"},
        {"allow GET https://a.test/$v", NULL, NULL, "hint: give --set v=VALUE"},
        {"let v\nallow GET https://a.test/", NULL, NULL, "t.policy:1:5: error: variable 'v' has no value"},
        /* all that --set needs is listed at once */
        {"allow GET https://a.test/$a\nallow push https://b.test/$b refs/heads/$c", NULL, NULL,
         "hint: give --set a=VALUE --set b=VALUE --set c=VALUE"},
        {"allow GET https://a.test/$", NULL, NULL,
         "t.policy:1:26: error: '$' is not followed by a variable's name"},
        {"allow GET https://a.test/$9", NULL, NULL, "'$' is not followed"},
        {"allow GET https://a.test/${v", "v", "x", "'$' is not followed"},
        {"let v = a\nlet v = b", NULL, NULL,
         "t.policy:2:5: error: variable 'v' is defined twice, first at t.policy:1"},
        {"let v = $w\nlet w = $v", NULL, NULL, "is defined by itself"},
        {"let v = \"\"", NULL, NULL, "the value of 'v' is empty"},
        {"allow GET https://a.test/$v", "v", "", "--set: error: the value of 'v' is empty"},
        {"allow GET https://a.test/$v", "v", "a\nb",
         "--set: error: the value of 'v' has a control character"},
        {"allow GET https://a.test/", "v", "x", "--set: error: no policy uses a variable 'v'"},
        /* a value moves no border */
        {"allow GET https://$v", "v", "a.test/x", "t.policy:1:19: error: host has a character"},
        {"allow GET https://$v.a.test/x", "v", "evil.test/", "host has a character"},
        {"allow GET https://$v.a.test/x", "v", "evil.test?", "host has a character"},
        {"allow GET https://$v.a.test/x", "v", "evil.test#", "host has a character"},
        {"allow GET https://$v.a.test/x", "v", "user@evil", "user name"},
        {"allow GET https://$v", "v", "*", "host has a character"},
        {"allow GET https://$v.a.test", "v", "*", "host has a character"},
        {"allow GET https://$v/", "v", "a.test:80", "has a ':' where a host stands"},
        {"allow GET https://a.test$v/", "v", ":8443",
         "t.policy:1:25: error: the value of a variable has a ':'"},
        {"allow GET https://$v:8443/", "v", "a.test:80", "has a ':' where a host stands"},
        {"allow GET https://*.$v/", "v", "a.test:80", "has a ':' where a host stands"},
        {"allow GET https://$v/", "v", "[::1]:80", "has a ':' where a host stands"},
        {"tunnel https://$v", "v", "a.test:80", "has a ':' where a host stands"},
        {"let v = \"h:80\"\nallow push https://$v/r refs/heads/x", NULL, NULL,
         "has a ':' where a host stands"},
        {"expect deny GET https://$v/", "v", "a.test:80", "has a ':' where a host stands"},
        {"expect deny GET https://a.test/$v", "v", "x?y", "and would begin a query"},
        {"allow GET $v", "v", "https://a.test/", "a target without a scheme"},
        {"allow GET https://a.test/x/$v", "v", "../y", "path has a dot segment"},
        {"allow GET https://a.test/x/$v", "v", "..", "path has a dot segment"},
        {"allow GET https://a.test/x/.$v", "v", ".", "path has a dot segment"},
        {"allow GET https://a.test/x/$v/y", "v", "%2e%2e", "path has a dot segment"},
        {"allow GET https://a.test/$v", "v", "x?y", "path has a '?'"},
        {"allow GET https://a.test/$v", "v", "/x", "path begins with two slashes"},
        {"allow GET https://a.test/$v", "v", "a b", "space"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *errors = load_errors(rows[i].text, rows[i].name, rows[i].value);
        if (!strstr(errors, rows[i].wanted))
            fail_msg("%s: wanted %s, got:\n%s", rows[i].text, rows[i].wanted, errors);
        free(errors);
    }
}

static void test_set_parse(void **state) {
    struct policy_set set;
    struct errmsg msg;
    (void)state;
    char good[] = "branch_2=fix/42=x";
    assert_int_equal(policy_set_parse(good, &set, &msg), 0);
    assert_string_equal(set.name, "branch_2");
    assert_string_equal(set.value, "fix/42=x");
    static const char *const bad[] = {"", "x", "=x", "2a=x", "a-b=x", "a b=x", "a.b=x", "\303\244=x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char arg[32];
        snprintf(arg, sizeof arg, "%s", bad[i]);
        assert_int_equal(policy_set_parse(arg, &set, &msg), ERR_USAGE);
        assert_string_equal(arg, bad[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filled_in), cmocka_unit_test(test_refs_and_repositories),
        cmocka_unit_test(test_needs),     cmocka_unit_test(test_errors),
        cmocka_unit_test(test_set_parse),
    };
    return cmocka_run_group_tests_name("policy_values", tests, NULL, NULL);
}
