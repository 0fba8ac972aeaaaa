/* policy: which requests a rule's host, port, scheme, method and path take, both ways. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/policy_support.h"

struct row {
    const char *rule, *method, *url;
    enum verdict_reason reason; /* REASON_ALLOWED or why not */
};

static void run_rows(const struct row *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        struct policy *p = load_text(rows[i].rule);
        struct verdict v = ask_http(p, rows[i].method, rows[i].url);
        if (v.reason != rows[i].reason)
            fail_msg("%s on %s %s: %s, not %s", rows[i].rule, rows[i].method, rows[i].url,
                     verdict_reason_code(v.reason), verdict_reason_code(rows[i].reason));
        assert_int_equal(v.action, v.reason == REASON_ALLOWED ? VERDICT_ALLOW : VERDICT_DENY);
        policy_free(p);
    }
}
#define RUN(rows) run_rows(rows, sizeof(rows) / sizeof *(rows))

static void test_hosts(void **state) {
    static const struct row rows[] = {
        {"allow GET https://a.test", "GET", "https://a.test/", REASON_ALLOWED},
        {"allow GET https://a.test", "GET", "https://A.Test./x", REASON_ALLOWED},
        {"allow GET https://A.TEST./", "GET", "https://a.test/", REASON_ALLOWED},
        {"allow GET https://a.test", "GET", "https://x.a.test/", REASON_HOST},
        {"allow GET https://a.test", "GET", "https://xa.test/", REASON_HOST},
        {"allow GET https://a.test", "GET", "https://a.test.b.test/", REASON_HOST},
        /* one label or more, never the apex, never a suffix of another name */
        {"allow GET https://*.a.test", "GET", "https://x.a.test/", REASON_ALLOWED},
        {"allow GET https://*.a.test", "GET", "https://x.y.a.test/", REASON_ALLOWED},
        {"allow GET https://*.a.test", "GET", "https://X.A.TEST/", REASON_ALLOWED},
        {"allow GET https://*.a.test", "GET", "https://a.test/", REASON_HOST},
        {"allow GET https://*.a.test", "GET", "https://xa.test/", REASON_HOST},
        {"allow GET https://*.a.test", "GET", "https://a.test.b.test/", REASON_HOST},
        {"allow GET https://*.test", "GET", "https://a.test/", REASON_ALLOWED},
        /* any name, but no address unless it is spelled out */
        {"allow GET https://*", "GET", "https://anything.at.all/", REASON_ALLOWED},
        {"allow GET https://*/x", "GET", "https://a.test/x", REASON_ALLOWED},
        {"allow GET https://*:8443", "GET", "https://a.test:8443/", REASON_ALLOWED},
        {"allow GET https://*", "GET", "https://10.9.0.1/", REASON_ADDRESS},
        {"allow GET https://*", "GET", "https://[::1]/", REASON_ADDRESS},
        {"allow GET https://10.9.0.1", "GET", "https://10.9.0.1/", REASON_ALLOWED},
        {"allow GET https://10.9.0.1", "GET", "https://10.9.0.10/", REASON_HOST},
        {"allow GET https://[2001:DB8::0:1]", "GET", "https://[2001:db8::1]/", REASON_ALLOWED},
        {"deny GET https://*\nallow GET https://10.9.0.1", "GET", "https://10.9.0.1/", REASON_DENIED_BY_RULE},
        {"allow GET https://xn--bcher-kva.test", "GET", "https://XN--BCHER-KVA.test/", REASON_ALLOWED},
        {"", "GET", "https://a.test/", REASON_NO_RULES},
    };
    (void)state;
    RUN(rows);
}

static void test_schemes_and_ports(void **state) {
    static const struct row rows[] = {
        {"allow GET https://a.test", "GET", "http://a.test/", REASON_SCHEME},
        {"allow GET http://a.test", "GET", "https://a.test/", REASON_SCHEME},
        {"allow GET http://a.test", "GET", "http://a.test/", REASON_ALLOWED},
        {"allow GET http://a.test:443", "GET", "https://a.test/", REASON_SCHEME},
        {"allow GET https://a.test", "GET", "https://a.test:443/", REASON_ALLOWED},
        {"allow GET https://a.test:443", "GET", "https://a.test/", REASON_ALLOWED},
        {"allow GET https://a.test", "GET", "https://a.test:8443/", REASON_PORT},
        {"allow GET https://a.test:8443", "GET", "https://a.test:8443/", REASON_ALLOWED},
        {"allow GET https://a.test:8443", "GET", "https://a.test/", REASON_PORT},
        {"allow GET https://a.test:*", "GET", "https://a.test:8443/", REASON_ALLOWED},
        {"allow GET https://a.test:*/x", "GET", "https://a.test/x", REASON_ALLOWED},
        {"allow GET https://*.a.test:*", "GET", "https://b.a.test:1/x", REASON_ALLOWED},
        {"allow GET https://*:*", "GET", "https://b.a.test:1/x", REASON_ALLOWED},
        {"allow GET https://[::1]:*", "GET", "https://[::1]:99/", REASON_ALLOWED},
        {"allow GET http://a.test:*", "GET", "https://a.test/", REASON_SCHEME},
    };
    (void)state;
    RUN(rows);
}

static void test_methods(void **state) {
    static const struct row rows[] = {
        {"allow GET https://a.test", "HEAD", "https://a.test/", REASON_METHOD},
        {"allow GET,HEAD https://a.test", "HEAD", "https://a.test/", REASON_ALLOWED},
        {"allow GET,HEAD https://a.test", "GETS", "https://a.test/", REASON_METHOD},
        {"allow GET https://a.test", "get", "https://a.test/", REASON_METHOD},
        {"allow GET https://a.test/x", "POST", "https://a.test/x", REASON_METHOD},
        {"allow * https://a.test", "DELETE", "https://a.test/", REASON_ALLOWED},
        {"allow PROPFIND https://a.test", "PROPFIND", "https://a.test/", REASON_ALLOWED},
        {"allow * https://a.test\ndeny DELETE https://a.test", "DELETE", "https://a.test/",
         REASON_DENIED_BY_RULE},
        {"allow * https://a.test\ndeny DELETE https://a.test", "delete", "https://a.test/",
         REASON_DENIED_BY_RULE},
        {"allow * https://a.test\ndeny DELETE https://a.test", "PUT", "https://a.test/", REASON_ALLOWED},
        {"allow push https://a.test", "GET", "https://a.test/", REASON_METHOD},
        {"allow fetch https://a.test", "GET", "https://a.test/", REASON_METHOD},
    };
    (void)state;
    RUN(rows);
}

static void test_paths(void **state) {
    static const struct row rows[] = {
        {"allow GET https://a.test", "GET", "https://a.test/any/where", REASON_ALLOWED},
        {"allow GET https://a.test/", "GET", "https://a.test/any", REASON_PATH},
        {"allow GET https://a.test/", "GET", "https://a.test/", REASON_ALLOWED},
        {"allow GET https://a.test/x", "GET", "https://a.test/x/", REASON_PATH},
        {"allow GET https://a.test/x", "GET", "https://a.test/x/y", REASON_PATH},
        {"allow GET https://a.test/x", "GET", "https://a.test/X", REASON_PATH},
        {"allow GET https://a.test/x", "GET", "https://a.test/x?y=/../z", REASON_ALLOWED},
        {"allow GET https://a.test/%78", "GET", "https://a.test/x", REASON_ALLOWED},
        {"allow GET https://a.test/x", "GET", "https://a.test/%78", REASON_ALLOWED},
        {"allow GET https://a.test/a%3ab", "GET", "https://a.test/a%3Ab", REASON_ALLOWED},
        {"allow GET https://a.test/a:b", "GET", "https://a.test/a%3Ab", REASON_PATH},
        {"allow GET https://a.test/caf\303\251", "GET", "https://a.test/caf%c3%a9", REASON_ALLOWED},
        {"allow GET https://a.test/*/x", "GET", "https://a.test/q/x", REASON_ALLOWED},
        {"allow GET https://a.test/*/x", "GET", "https://a.test/q/r/x", REASON_PATH},
        {"allow GET https://a.test/v*/x", "GET", "https://a.test/v/x", REASON_ALLOWED},
        {"allow GET https://a.test/**", "GET", "https://a.test/q/r/x", REASON_ALLOWED},
        {"allow GET https://a.test/q/**", "GET", "https://a.test/q", REASON_PATH},
        {"allow GET https://a.test/q/**", "GET", "https://a.test/q/", REASON_ALLOWED},
        {"allow GET https://a.test/q/**", "GET", "https://a.test/qq/x", REASON_PATH},
        {"allow GET https://a.test/**/z", "GET", "https://a.test/a/b/z", REASON_ALLOWED},
        {"allow GET https://a.test/**/z", "GET", "https://a.test/a/b/zz", REASON_PATH},
        {"allow GET https://a.test/*.tar.{gz,xz}", "GET", "https://a.test/x.tar.xz", REASON_ALLOWED},
        {"allow GET https://a.test/*.tar.{gz,xz}", "GET", "https://a.test/x.tar.bz", REASON_PATH},
        {"allow GET https://a.test/a{,/{b,c}}", "GET", "https://a.test/a", REASON_ALLOWED},
        {"allow GET https://a.test/a{,/{b,c}}", "GET", "https://a.test/a/c", REASON_ALLOWED},
        {"allow GET https://a.test/a{,/{b,c}}", "GET", "https://a.test/a/", REASON_PATH},
        {"allow GET https://a.test/$$metadata", "GET", "https://a.test/$metadata", REASON_ALLOWED},
        {"allow GET https://a.test/!azure/x/@v/list", "GET", "https://a.test/!azure/x/@v/list",
         REASON_ALLOWED},
        {"allow GET https://a.test/p/*", "GET", "https://a.test/p/g++_1~b.deb", REASON_ALLOWED},
    };
    (void)state;
    RUN(rows);
}

static void test_encoded_slash(void **state) {
    static const struct row rows[] = {
        {"allow GET https://a.test/@*%2f*", "GET", "https://a.test/@scope%2fname", REASON_ALLOWED},
        {"allow GET https://a.test/@*%2F*", "GET", "https://a.test/@scope%2Fname", REASON_ALLOWED},
        {"allow GET https://a.test/@*%2f*", "GET", "https://a.test/@scope%2fname%2fmore",
         REASON_ENCODED_SLASH},
        {"allow GET https://a.test/@*%2f*", "GET", "https://a.test/@scope/name", REASON_PATH},
        {"allow GET https://a.test/@*/*", "GET", "https://a.test/@scope%2fname", REASON_ENCODED_SLASH},
        {"allow GET https://a.test/**", "GET", "https://a.test/@scope%2fname", REASON_ENCODED_SLASH},
        {"allow GET https://a.test", "GET", "https://a.test/@scope%2fname", REASON_ENCODED_SLASH},
        {"allow GET https://a.test/x", "GET", "https://a.test/@scope%2fname", REASON_PATH},
    };
    (void)state;
    RUN(rows);
}

/* A row of slashes is judged in both readings: an allow wants both, a deny is content with one. */
static void test_doubled_slash(void **state) {
    static const struct row rows[] = {
        {"allow GET https://a.test/**", "GET", "https://a.test/x//y", REASON_ALLOWED},
        {"allow GET https://a.test/x/y", "GET", "https://a.test/x//y", REASON_PATH},
        {"allow GET https://a.test/x/*/y", "GET", "https://a.test/x//y", REASON_PATH},
        {"allow GET https://a.test/x/**/y", "GET", "https://a.test/x/z//y", REASON_ALLOWED},
        {"allow GET https://a.test/**\ndeny GET https://a.test/x/y", "GET", "https://a.test/x//y",
         REASON_DENIED_BY_RULE},
        {"allow GET https://a.test/**\ndeny GET https://a.test/x/*/y", "GET", "https://a.test/x//y",
         REASON_DENIED_BY_RULE},
    };
    (void)state;
    RUN(rows);
}

/* A deny reads as the most forgiving server would. */
static void test_deny_is_generous(void **state) {
#define BOTH "allow * https://a.test/**\nallow * https://a.test/**%2f**\ndeny * https://a.test/Admin/x:y\n"
    static const struct row rows[] = {
        {BOTH, "GET", "https://a.test/Admin/x:y", REASON_DENIED_BY_RULE},
        {BOTH, "GET", "https://a.test/admin/X:Y", REASON_DENIED_BY_RULE},
        {BOTH, "GET", "https://a.test/Admin/x%3ay", REASON_DENIED_BY_RULE},
        {BOTH, "GET", "https://a.test/Admin%2fx:y", REASON_DENIED_BY_RULE},
        {BOTH, "GET", "https://a.test/Admin/x:y/", REASON_DENIED_BY_RULE},
        {BOTH, "GET", "https://a.test/Admin//x:y//", REASON_DENIED_BY_RULE},
        {BOTH, "GET", "https://a.test/Admin/x:yz", REASON_ALLOWED},
        {BOTH, "GET", "https://a.test/Admin/", REASON_ALLOWED},
        {"allow * https://a.test/**\nallow * https://a.test/**%2f**\ndeny GET https://a.test/s/*", "GET",
         "https://a.test/s/a%2fb", REASON_DENIED_BY_RULE},
        {"allow * https://a.test/**\ndeny GET https://a.test/s/*", "GET", "https://a.test/s/a/b",
         REASON_ALLOWED},
        {"allow * https://a.test/**\ndeny GET https://a.test:8443/", "GET", "https://a.test/",
         REASON_ALLOWED},
        {"allow * http://a.test/**\ndeny GET https://a.test/", "GET", "http://a.test/", REASON_ALLOWED},
        {"allow * https://b.a.test\ndeny GET https://*.a.test/", "GET", "https://b.a.test/",
         REASON_DENIED_BY_RULE},
        {"allow * https://b.a.test\ndeny GET https://*/", "GET", "https://b.a.test/", REASON_DENIED_BY_RULE},
    };
    (void)state;
    RUN(rows);
}

/* A name and the names below it are two things, wherever they come to lie in the table. */
static void test_index(void **state) {
    (void)state;
    for (int round = 0; round < 500; round++) {
        const int n = 1 + round % 8;
        struct buf text;
        buf_init(&text, 1 << 16);
        for (int i = 0; i < n; i++)
            buf_printf(&text,
                       "allow GET https://h%d.r%d.test/exact\nallow GET https://*.h%d.r%d.test/below\n", i,
                       round, i, round);
        struct policy *p = load_text(buf_cstr(&text));
        for (int i = 0; i < n; i++) {
            char url[64];
            snprintf(url, sizeof url, "https://h%d.r%d.test/exact", i, round);
            assert_int_equal(ask_http(p, "GET", url).rule.index, 2 * i + 1);
            snprintf(url, sizeof url, "https://h%d.r%d.test/below", i, round);
            assert_int_equal(ask_http(p, "GET", url).reason, REASON_PATH);
            snprintf(url, sizeof url, "https://x.y.h%d.r%d.test/below", i, round);
            assert_int_equal(ask_http(p, "GET", url).rule.index, 2 * i + 2);
            snprintf(url, sizeof url, "https://x.h%d.r%d.test/exact", i, round);
            assert_int_equal(ask_http(p, "GET", url).reason, REASON_PATH);
        }
        assert_int_equal(ask_http(p, "GET", "https://h.test/exact").reason, REASON_HOST);
        policy_free(p);
        buf_release(&text);
    }
}

/* The asterisk form has no path: only a rule about the whole host takes it. */
static void test_asterisk(void **state) {
    struct policy *p = load_text("allow OPTIONS https://a.test\nallow OPTIONS https://b.test/**");
    struct facts f = {.kind = FACTS_HTTP,
                      .scheme = URL_HTTPS,
                      .host = SLICE("a.test"),
                      .port = 443,
                      .method = SLICE("OPTIONS"),
                      .path = SLICE("*")};
    struct verdict v;
    (void)state;
    policy_judge(p, &f, &v);
    assert_int_equal(v.action, VERDICT_ALLOW);
    f.host = SLICE("b.test");
    policy_judge(p, &f, &v);
    assert_int_equal(v.action, VERDICT_DENY);
    policy_free(p);
}

/* Among the allows that match, the first in reading order lends the credential. */
static void test_credential(void **state) {
    struct policy *p = load_text("allow GET https://*.a.test with wide\n"
                                 "allow GET https://x.a.test/p with narrow\n"
                                 "allow GET https://y.a.test/p with second\n"
                                 "allow GET https://y.a.test/** \n"
                                 "allow GET https://10.0.0.1 with address\n");
    (void)state;
    struct verdict v = ask_http(p, "GET", "https://x.a.test/p");
    assert_true(slice_eq(v.credential, SLICE("wide")));
    assert_int_equal(v.rule.index, 1);
    assert_int_equal(v.rule.line, 1);
    assert_string_equal(v.rule.file, "t.policy");
    assert_true(slice_eq(v.rule.text, SLICE("allow GET https://*.a.test with wide")));
    assert_false(v.names_address);
    v = ask_http(p, "POST", "https://x.a.test/p");
    assert_int_equal(v.credential.n, 0);
    v = ask_http(p, "GET", "https://10.0.0.1/");
    assert_true(v.names_address);
    /* of a continued rule the first line is quoted */
    struct policy *continued = load_text("\n  allow GET  \\\n https://a.test # why\n");
    v = ask_http(continued, "GET", "https://a.test/");
    assert_true(slice_eq(v.rule.text, SLICE("allow GET")));
    assert_int_equal(v.rule.line, 2);
    policy_free(continued);
    assert_int_equal(policy_credential_count(p), 4);
    assert_string_equal(policy_credential(p, 0), "address");
    assert_string_equal(policy_credential(p, 3), "wide");
    assert_null(policy_credential(p, 4));
    policy_free(p);
}

/* What rules there are about an origin, whatever they say of it. */
static void test_about(void **state) {
    struct policy *p =
        load_text("tunnel https://a.test\nallow GET https://both.test/x\ntunnel https://both.test\n"
                  "deny GET https://denied.test/\ntunnel https://denied.test\ntunnel https://*.wide.test:*\n"
                  "ask push https://asked.test/r refs/heads/*\nallow GET http://a.test/\n"
                  "allow GET https://a.test:8443/\n");
    static const struct {
        const char *url;
        bool tunnels, reads;
    } rows[] = {
        {"https://a.test", true, false},      {"http://a.test", false, true},
        {"https://a.test:8443", false, true}, {"https://both.test", true, true},
        {"https://denied.test", true, false}, {"https://x.y.wide.test:99", true, false},
        {"https://wide.test", false, false},  {"https://asked.test", false, true},
        {"https://10.9.0.1", false, false},
    };
    (void)state;
    assert_true(policy_tunnels(p));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct asking a;
        asking_init(&a, FACTS_TUNNEL, "", rows[i].url);
        struct policy_about about = policy_about(p, &a.f);
        if (about.tunnels != rows[i].tunnels || about.reads != rows[i].reads)
            fail_msg("%s: %d %d", rows[i].url, about.tunnels, about.reads);
        buf_release(&a.path);
    }
    policy_free(p);
    p = load_text("allow GET https://a.test/\n");
    assert_false(policy_tunnels(p));
    policy_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_schemes_and_ports),
        cmocka_unit_test(test_methods),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_encoded_slash),
        cmocka_unit_test(test_doubled_slash),
        cmocka_unit_test(test_deny_is_generous),
        cmocka_unit_test(test_asterisk),
        cmocka_unit_test(test_index),
        cmocka_unit_test(test_credential),
        cmocka_unit_test(test_about),
    };
    return cmocka_run_group_tests_name("policy_match", tests, NULL, NULL);
}
