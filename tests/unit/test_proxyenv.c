/* The environment's proxy: which variable counts, what is refused, and who goes past it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/upstream/proxyenv.h"

static const char *const *environment; /* name, value, name, value, NULL */

static const char *get(const char *name) {
    for (const char *const *e = environment; *e; e += 2)
        if (strcmp(e[0], name) == 0)
            return e[1];
    return NULL;
}

static struct proxyenv env;

static int load(const char *const *variables, struct errmsg *msg) {
    environment = variables;
    proxyenv_release(&env); /* of the load before */
    return proxyenv_load(&env, get, msg);
}

/* "host:port" of the proxy for a URL's host, "-" for none. */
static const char *way(enum url_scheme scheme, const char *name) {
    static char text[300];
    struct url_host host;
    assert_int_equal(url_host_parse(slice_str(name), &host, NULL), 0);
    const struct proxy_server *p = proxyenv_for(&env, scheme, &host);
    if (!p)
        return "-";
    snprintf(text, sizeof text, "%s:%u", p->host.text, p->port);
    return text;
}

#define ENV(...) ((const char *const[]){__VA_ARGS__, NULL})

static void which_variable(void **state) {
    (void)state;
    assert_int_equal(load(ENV("X", "y"), NULL), 0);
    assert_string_equal(way(URL_HTTPS, "a.test"), "-");
    assert_int_equal(load(ENV("HTTPS_PROXY", "http://P.Test:3128/"), NULL), 0);
    assert_string_equal(way(URL_HTTPS, "a.test"), "p.test:3128");
    assert_string_equal(way(URL_HTTP, "a.test"), "-");
    assert_int_equal(load(ENV("HTTPS_PROXY", "upper:1", "https_proxy", "lower:2"), NULL), 0);
    assert_string_equal(way(URL_HTTPS, "a.test"), "lower:2");
    assert_int_equal(load(ENV("HTTPS_PROXY", "upper:1", "https_proxy", ""), NULL), 0);
    assert_string_equal(way(URL_HTTPS, "a.test"), "-");
    assert_int_equal(load(ENV("HTTP_PROXY", "h:1", "ALL_PROXY", "all:2"), NULL), 0);
    assert_string_equal(way(URL_HTTP, "a.test"), "h:1");
    assert_string_equal(way(URL_HTTPS, "a.test"), "all:2");
    assert_int_equal(load(ENV("HTTP_PROXY", "h:1", "REQUEST_METHOD", "GET"), NULL), 0);
    assert_string_equal(way(URL_HTTP, "a.test"), "-");
    assert_int_equal(load(ENV("http_proxy", "h", "all_proxy", "[::1]:8"), NULL), 0);
    assert_string_equal(way(URL_HTTP, "a.test"), "h:1080");
    assert_string_equal(way(URL_HTTPS, "a.test"), "[::1]:8");
    proxyenv_release(&env);
    assert_string_equal(way(URL_HTTP, "a.test"), "-");
}

static void authorization(void **state) {
    (void)state;
    assert_int_equal(load(ENV("https_proxy", "http://Aladdin:open%20sesame@p:1"), NULL), 0);
    assert_true(
        slice_eq(secret_slice(&env.https.authorization), SLICE("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")));
    proxyenv_release(&env);
    assert_null(env.https.authorization.bytes);
    assert_int_equal(load(ENV("https_proxy", "joe@p:1"), NULL), 0);
    assert_true(slice_eq(secret_slice(&env.https.authorization), SLICE("Basic am9lOg==")));
    proxyenv_release(&env);
    assert_int_equal(load(ENV("https_proxy", "u:a@b@p:1"), NULL), 0);
    assert_true(slice_eq(secret_slice(&env.https.authorization), SLICE("Basic dTphQGI=")));
    proxyenv_release(&env);
}

static void refused(void **state) {
    static const char *const bad[] = {
        "socks5://p:1",
        "https://joe:SECRET-P@p:1",
        "ftp://p",
        "http://",
        "p:0",
        "p:x",
        "http://p/SECRET-P",
        "joe:SECRET-P%zz@p",
        "joe:SECRET-P%0a@p",
        "joe:SECRET-P@",
        "joe:SECRET-P@p q",
        "[::1",
        "p:99999",
        "joe:SECRET-P@0x7f.1",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct errmsg msg = {""};
        if (load(ENV("HTTPS_PROXY", bad[i]), &msg) >= 0)
            fail_msg("'%s' was accepted", bad[i]);
        assert_true(strncmp(msg.text, "HTTPS_PROXY: ", 13) == 0);
        assert_null(strstr(msg.text, "SECRET"));
        assert_false(env.https.set);
        assert_null(env.https.authorization.bytes);
    }
}

static void no_proxy(void **state) {
    (void)state;
    assert_int_equal(
        load(ENV("all_proxy", "p:1", "no_proxy",
                 "corp.test, .dot.test,10.0.0.0/8 192.0.2.7,2001:db8::/32,bad..name,1.2.3.4/99,,[::1]"),
             NULL),
        0);
    static const char *const past[] = {"corp.test",  "a.corp.test", "dot.test",           "b.a.dot.test",
                                       "10.255.0.1", "192.0.2.7",   "[2001:db8:ffff::1]", "[::1]"};
    static const char *const through[] = {"corp.test.example", "xcorp.test",       "a.test",
                                          "11.0.0.1",          "192.0.2.8",        "1.2.3.4",
                                          "[2001:db9::1]",     "10.0.0.1.example", "test"};
    for (size_t i = 0; i < sizeof past / sizeof past[0]; i++)
        assert_string_equal(way(URL_HTTPS, past[i]), "-");
    for (size_t i = 0; i < sizeof through / sizeof through[0]; i++)
        assert_string_equal(way(URL_HTTPS, through[i]), "p:1");
    assert_int_equal(load(ENV("all_proxy", "p:1", "NO_PROXY", " * "), NULL), 0);
    assert_string_equal(way(URL_HTTPS, "a.test"), "-");
    assert_int_equal(load(ENV("all_proxy", "p:1", "NO_PROXY", "0.0.0.0/0"), NULL), 0);
    assert_string_equal(way(URL_HTTPS, "1.2.3.4"), "-");
    assert_string_equal(way(URL_HTTPS, "[::1]"), "p:1");
    assert_int_equal(load(ENV("all_proxy", "p:1", "NO_PROXY", "192.0.2.128/25"), NULL), 0);
    assert_string_equal(way(URL_HTTPS, "192.0.2.128"), "-");
    assert_string_equal(way(URL_HTTPS, "192.0.2.127"), "p:1");
    proxyenv_release(&env);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(which_variable),
        cmocka_unit_test(authorization),
        cmocka_unit_test(refused),
        cmocka_unit_test(no_proxy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
