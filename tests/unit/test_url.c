/* base/url: what one canonical form lets pass, and what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/url.h"

#define HOSTILE(s)                                                                                           \
    { (s), sizeof(s) - 1 }

static void test_host_accepts(void **state) {
    static const struct {
        const char *raw, *canonical;
        enum url_host_kind kind;
    } rows[] = {
        {"example.com", "example.com", URL_HOST_NAME},
        {"B.TEST", "b.test", URL_HOST_NAME},
        {"b.test.", "b.test", URL_HOST_NAME},
        {"metadata.google.internal.", "metadata.google.internal", URL_HOST_NAME},
        {"localhost", "localhost", URL_HOST_NAME},
        {"my_bucket.s3.test", "my_bucket.s3.test", URL_HOST_NAME},
        {"xn--bcher-kva.test", "xn--bcher-kva.test", URL_HOST_NAME},
        {"1.2.3.4.test", "1.2.3.4.test", URL_HOST_NAME},
        {"3com.test", "3com.test", URL_HOST_NAME},
        {"0x1g.test", "0x1g.test", URL_HOST_NAME},
        {"192.0.2.7", "192.0.2.7", URL_HOST_IPV4},
        {"0.0.0.0", "0.0.0.0", URL_HOST_IPV4},
        {"[::1]", "[::1]", URL_HOST_IPV6},
        {"[2001:DB8:0:0::1]", "[2001:db8::1]", URL_HOST_IPV6},
        {"[::ffff:127.0.0.1]", "[::ffff:127.0.0.1]", URL_HOST_IPV6},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct url_host h;
        struct errmsg msg = {""};
        if (url_host_parse(slice_str(rows[i].raw), &h, &msg))
            fail_msg("%s: %s", rows[i].raw, msg.text);
        assert_string_equal(h.text, rows[i].canonical);
        assert_int_equal(h.n, strlen(rows[i].canonical));
        assert_int_equal(h.kind, rows[i].kind);
    }
}

static void test_host_refuses(void **state) {
    static const struct slice rows[] = {
        HOSTILE(""),
        HOSTILE("."),
        HOSTILE(".."),
        HOSTILE("a.test.."),
        HOSTILE(".a.test"),
        HOSTILE("a..test"),
        HOSTILE("a test"),
        HOSTILE("a.test\0.b.test"),
        HOSTILE("a.test%2eb"),
        HOSTILE("b\303\274cher.test"),
        HOSTILE("a@b.test"),
        HOSTILE("a/b"),
        HOSTILE("*.a.test"),
        HOSTILE("a.test:80"),
        HOSTILE("::1"),
        /* every way to write 169.254.169.254, 127.0.0.1 and 0.0.0.0 that a resolver takes */
        HOSTILE("2852039166"),
        HOSTILE("0xA9FEA9FE"),
        HOSTILE("025177524776"),
        HOSTILE("0251.0376.0251.0376"),
        HOSTILE("0xA9.0xFE.0xA9.0xFE"),
        HOSTILE("169.254.43518"),
        HOSTILE("169.254.169.254."),
        HOSTILE("127.1"),
        HOSTILE("0"),
        HOSTILE("0x"),
        HOSTILE("127.0.0.01"),
        HOSTILE("1.2.3.4.5"),
        HOSTILE("256.1.1.1"),
        HOSTILE("a.0x7f"),
        HOSTILE("a.test.1"),
        HOSTILE("[::1"),
        HOSTILE("[]"),
        HOSTILE("[::1]x"),
        HOSTILE("[fe80::1%25eth0]"),
        HOSTILE("[fe80::1%eth0]"),
        HOSTILE("[1.2.3.4]"),
        HOSTILE("[v1.a]"),
        HOSTILE("[::\0001]"),
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct url_host h = {.n = 77};
        struct errmsg msg = {""};
        if (!url_host_parse(rows[i], &h, &msg))
            fail_msg("'%.*s' was taken as %s", SLICE_ARG(rows[i]), h.text);
        assert_int_equal(h.n, 77);
        assert_true(msg.text[0]);
    }
}

static void test_host_lengths(void **state) {
    char raw[400];
    struct url_host h;
    (void)state;
    memset(raw, 'a', sizeof raw);
    assert_int_equal(url_host_parse(slice_make(raw, 63), &h, NULL), 0);
    assert_int_equal(url_host_parse(slice_make(raw, 64), &h, NULL), ERR_PARSE);
    for (size_t i = 50; i < sizeof raw; i += 51)
        raw[i] = '.';
    assert_int_equal(url_host_parse(slice_make(raw, 253), &h, NULL), 0);
    assert_int_equal(url_host_parse(slice_make(raw, 254), &h, NULL), ERR_PARSE);
    raw[253] = '.';
    assert_int_equal(url_host_parse(slice_make(raw, 254), &h, NULL), 0);
    assert_int_equal(h.n, 253);
}

static void test_authority(void **state) {
    struct url_host h;
    uint16_t port = 0;
    (void)state;
    assert_int_equal(url_authority_parse(SLICE("A.test:8443"), 443, &h, &port, NULL), 0);
    assert_string_equal(h.text, "a.test");
    assert_int_equal(port, 8443);
    assert_int_equal(url_authority_parse(SLICE("a.test.:443"), 80, &h, &port, NULL), 0);
    assert_string_equal(h.text, "a.test");
    assert_int_equal(url_authority_parse(SLICE("[::1]"), 443, &h, &port, NULL), 0);
    assert_int_equal(port, 443);
    assert_int_equal(url_authority_parse(SLICE("[::1]:80"), 443, &h, &port, NULL), 0);
    assert_int_equal(port, 80);
    assert_true(slice_eq(url_host_bare(&h), SLICE("::1")));

    static const char *const bad[] = {
        "user@a.test", "user:pw@a.test", "a.test:",       "a.test:0",   "a.test:65536",
        "a.test:+80",  "a.test:80:80",   "a.test:80x",    ":80",        "::1",
        "[::1]80",     "[::1]:",         "a.test@b.test", "a.test: 80", "a.test:000080"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        port = 7;
        if (!url_authority_parse(slice_str(bad[i]), 443, &h, &port, NULL))
            fail_msg("'%s' was taken", bad[i]);
        assert_int_equal(port, 7);
    }
}

static void test_path_accepts(void **state) {
    static const struct {
        const char *raw, *canonical;
        unsigned flags;
    } rows[] = {
        {"/", "/", 0},
        {"/ok/x", "/ok/x", 0},
        {"/%6fk/", "/ok/", 0},
        {"/%7Euser/%2d%5f", "/~user/-_", 0},
        {"/@scope%2fname", "/@scope%2Fname", 0},
        {"/@scope/name", "/@scope/name", 0},
        {"/!azure/x/@v/list", "/!azure/x/@v/list", 0},
        {"/pool/main/g/g++/g++_4:12.2.0-3~deb12_amd64.deb", "/pool/main/g/g++/g++_4:12.2.0-3~deb12_amd64.deb",
         0},
        {"/x%2b%3a", "/x%2B%3A", 0},
        {"/f_1%253a2.deb", "/f_1%253a2.deb", 0},
        {"/a//b", "/a//b", URL_PATH_EMPTY_SEGMENT},
        {"/a/", "/a/", 0},
        {"/...", "/...", 0},
        {"/.hidden/..x/x../.git", "/.hidden/..x/x../.git", 0},
        {"/matrix;v=1/x;", "/matrix;v=1/x;", 0},
        {"/a%20b", "/a%20b", 0},
        {"/caf\303\251", "/caf%C3%A9", 0},
        {"/caf%c3%a9", "/caf%C3%A9", 0},
        {"/a|b{c}", "/a%7Cb%7Bc%7D", 0},
        {"/100%25", "/100%25", 0},
        {"/100%25%20", "/100%25%20", 0},
        {"/a%2F%2Fb", "/a%2F%2Fb", 0},
        {"/x:*(!')&=,$", "/x:*(!')&=,$", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf out;
        struct errmsg msg = {""};
        unsigned flags = 99;
        buf_init(&out, 4096);
        buf_puts(&out, "kept");
        if (url_path_canonical(slice_str(rows[i].raw), &out, &flags, &msg))
            fail_msg("%s: %s", rows[i].raw, msg.text);
        buf_consume(&out, 4);
        assert_string_equal(buf_cstr(&out), rows[i].canonical);
        assert_int_equal(flags, rows[i].flags);
        /* the canonical form of a canonical form is itself */
        struct buf again;
        buf_init(&again, 4096);
        assert_int_equal(url_path_canonical(buf_slice(&out), &again, &flags, NULL), 0);
        assert_true(slice_eq(buf_slice(&again), buf_slice(&out)));
        assert_int_equal(flags, rows[i].flags);
        buf_release(&again);
        buf_release(&out);
    }
}

static const struct slice refused_paths[] = {
    HOSTILE(""),
    HOSTILE("*"),
    HOSTILE("ok"),
    HOSTILE("#frag"),
    HOSTILE("/ok#frag"),
    HOSTILE("/ok?x"),
    HOSTILE("//b.test/ok"),
    HOSTILE("/ok/../admin"),
    HOSTILE("/ok/%2e%2e/admin"),
    HOSTILE("/ok/.%2E/admin"),
    HOSTILE("/ok/%252e%252e/admin"),
    HOSTILE("/ok//..//admin"),
    HOSTILE("/ok/..;/admin"),
    HOSTILE("/ok/..;x=1/admin"),
    HOSTILE("/ok/..%3b/admin"),
    HOSTILE("/ok/.;/x"),
    HOSTILE("/ok\\..\\admin"),
    HOSTILE("/ok%5c..%5cadmin"),
    HOSTILE("/ok/%2e"),
    HOSTILE("/ok/."),
    HOSTILE("/ok/.."),
    HOSTILE("/."),
    HOSTILE("/.."),
    HOSTILE("/ok%00"),
    HOSTILE("/ok\0"),
    HOSTILE("/ok%0d%0aX:y"),
    HOSTILE("/ok%7f"),
    HOSTILE("/ok x"),
    HOSTILE("/ok\tx"),
    HOSTILE("/%"),
    HOSTILE("/%4"),
    HOSTILE("/%zz"),
    HOSTILE("/%u002e"),
    HOSTILE("/a%2f..%2fb"),
    HOSTILE("/a%2f.."),
    HOSTILE("/..%2fb"),
    HOSTILE("/a%2f./b"),
    HOSTILE("/a%252fb"),
    HOSTILE("/%2561dmin"),
    HOSTILE("/a%25255cb"),
    HOSTILE("/a%255cb"),
    HOSTILE("/a%2500"),
    HOSTILE("/%c0%ae%c0%ae/x"),
    HOSTILE("/%c0%af"),
    HOSTILE("/%e0%80%af"),
    HOSTILE("/%f0%80%80%af"),
    HOSTILE("/\300\257"),
    HOSTILE("/%c1%9c"),
    HOSTILE("/a%253b"),
    HOSTILE("/%25%338"),
    HOSTILE("/%25%32%65"),
    HOSTILE("/%252%65"),
    HOSTILE("/%2525"),
};

static void test_path_refuses(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refused_paths / sizeof *refused_paths; i++) {
        struct buf out;
        struct errmsg msg = {""};
        unsigned flags = 99;
        buf_init(&out, 4096);
        buf_puts(&out, "kept");
        if (!url_path_canonical(refused_paths[i], &out, &flags, &msg))
            fail_msg("'%.*s' was taken", SLICE_ARG(refused_paths[i]));
        assert_string_equal(buf_cstr(&out), "kept");
        assert_int_equal(flags, 99);
        assert_true(msg.text[0]);
        buf_release(&out);
    }
}

static void test_path_limit(void **state) {
    struct buf out;
    (void)state;
    buf_init(&out, 4);
    assert_int_equal(url_path_canonical(SLICE("/12345"), &out, NULL, NULL), ERR_LIMIT);
    assert_int_equal(buf_len(&out), 0);
    assert_false(out.failed);
    assert_int_equal(url_path_canonical(SLICE("/123"), &out, NULL, NULL), 0);
    buf_release(&out);
}

static void test_split(void **state) {
    struct url_parts p;
    (void)state;
    assert_int_equal(url_split(SLICE("HTTPS://a.test:1/p/q?x=/../&y=%2F"), &p, NULL), 0);
    assert_int_equal(p.scheme, URL_HTTPS);
    assert_true(slice_eq(p.authority, SLICE("a.test:1")));
    assert_true(slice_eq(p.path, SLICE("/p/q")));
    assert_true(slice_eq(p.query, SLICE("x=/../&y=%2F")));
    assert_true(p.has_query);
    assert_int_equal(url_split(SLICE("http://a.test"), &p, NULL), 0);
    assert_int_equal(p.scheme, URL_HTTP);
    assert_true(slice_eq(p.path, SLICE("/")));
    assert_false(p.has_query);
    assert_int_equal(url_split(SLICE("http://a.test?x"), &p, NULL), 0);
    assert_true(slice_eq(p.path, SLICE("/")));
    assert_true(slice_eq(p.query, SLICE("x")));
    /* a '#' stays with the path, which refuses it */
    assert_int_equal(url_split(SLICE("http://a.test#x"), &p, NULL), 0);
    assert_true(slice_eq(p.path, SLICE("#x")));
    assert_int_equal(url_split(SLICE("http:///x"), &p, NULL), ERR_PARSE);
    assert_int_equal(url_split(SLICE("ftp://a.test/"), &p, NULL), ERR_PARSE);
    assert_int_equal(url_split(SLICE("/x"), &p, NULL), ERR_PARSE);
    assert_int_equal(url_query_check(SLICE("X-Amz-Signature=a%2Fb/../\\&%00"), NULL), 0);
    assert_int_equal(url_query_check(SLICE("a b"), NULL), ERR_PARSE);
    assert_int_equal(url_query_check(SLICE("a#b"), NULL), ERR_PARSE);
}

static void test_put_origin(void **state) {
    struct buf out;
    (void)state;
    buf_init(&out, 256);
    url_put_origin(&out, URL_HTTPS, SLICE("a.test"), 443);
    buf_putc(&out, ' ');
    url_put_origin(&out, URL_HTTP, SLICE("[::1]"), 443);
    assert_string_equal(buf_cstr(&out), "https://a.test http://[::1]:443");
    buf_release(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_accepts), cmocka_unit_test(test_host_refuses),
        cmocka_unit_test(test_host_lengths), cmocka_unit_test(test_authority),
        cmocka_unit_test(test_path_accepts), cmocka_unit_test(test_path_refuses),
        cmocka_unit_test(test_path_limit),   cmocka_unit_test(test_split),
        cmocka_unit_test(test_put_origin),
    };
    return cmocka_run_group_tests_name("url", tests, NULL, NULL);
}
