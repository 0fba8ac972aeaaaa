/* proxy/codec/target: one authority for connection, Host and target, or none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "proxy/codec/target.h"

#define ROWS(rows) (sizeof(rows) / sizeof((rows)[0]))

/* connection | request line and Host | expected URL, or the refusal's code */
static const struct {
    bool tls, proxied;
    const char *sni, *dialed;
    uint16_t port;
    const char *line, *host;
    const char *url;
} rows[] = {
    {true, false, "a.test", "a.test", 443, "GET /p?q=%2f", "a.test", "https://a.test:443/p ? q=%2f"},
    {true, false, "A.TEST", "a.test.", 443, "GET /", "a.Test.", "https://a.test:443/ ?"},
    {true, false, "a.test", "", 443, "GET /", "a.test:443", "https://a.test:443/ ?"},
    {true, false, "a.test", "", 8443, "GET /", "a.test", "https://a.test:8443/ ?"},
    {true, false, "a.test", "", 8443, "GET /", "a.test:8443", "https://a.test:8443/ ?"},
    {true, false, "", "a.test", 443, "GET /", "a.test", "https://a.test:443/ ?"},
    {true, false, "", "192.0.2.1", 443, "GET /", "192.0.2.1", "https://192.0.2.1:443/ ?"},
    {true, false, "", "2001:db8::1", 443, "GET /", "[2001:DB8::1]", "https://[2001:db8::1]:443/ ?"},
    {true, false, "a.test", "a.test", 443, "GET https://a.test/%6fk", "a.test", "https://a.test:443/ok ?"},
    {false, false, "", "a.test", 80, "GET /@s%2fn", "a.test", "http://a.test:80/@s%2Fn ?"},
    {false, false, "", "", 80, "GET /", "a.test", "http://a.test:80/ ?"},
    {false, false, "", "a.test", 8080, "GET http://a.test:8080/", "a.test:8080", "http://a.test:8080/ ?"},
    {false, true, "", "", 0, "GET http://a.test/x", "a.test", "http://a.test:80/x ?"},
    {false, true, "", "", 3128, "GET http://a.test:81/x", "a.test:81", "http://a.test:81/x ?"},
    {false, true, "", "", 3128, "CONNECT a.test:443", "a.test", "connect a.test:443"},
    {false, false, "", "a.test", 80, "OPTIONS *", "a.test", "http://a.test:80* ?"},
    /* disagreement */
    {true, false, "a.test", "a.test", 443, "GET /", "b.test", "sni-differs"},
    {true, false, "a.test", "b.test", 443, "GET /", "a.test", "address-differs"},
    {true, false, "b.test", "a.test", 443, "GET /", "a.test", "sni-differs"},
    {true, false, "a.test", "a.test", 443, "GET /", "a.test:8443", "port-differs"},
    {true, false, "a.test", "a.test", 8443, "GET /", "a.test:443", "port-differs"},
    {true, false, "a.test", "a.test", 443, "GET /", "x.a.test", "sni-differs"},
    {false, false, "", "b.test", 80, "GET /", "a.test", "address-differs"},
    {false, false, "", "192.0.2.1", 80, "GET /", "a.test", "address-differs"},
    {true, false, "", "", 443, "GET /", "a.test", "no-name"},
    {true, false, "a.test", "", 443, "GET http://a.test/", "a.test", "scheme-differs"},
    {false, false, "", "a.test", 80, "GET https://a.test/", "a.test", "scheme-differs"},
    {true, false, "a.test", "", 443, "CONNECT a.test:443", "a.test", "target-form"},
    /* hosts */
    {false, false, "", "", 80, "GET /", "a.test..", "host-malformed"},
    {false, false, "", "", 80, "GET /", ".a.test", "host-malformed"},
    {false, false, "", "", 80, "GET /", "2852039166", "host-malformed"},
    {false, false, "", "", 80, "GET /", "0xA9.0xFE.0xA9.0xFE", "host-malformed"},
    {false, false, "", "", 80, "GET /", "127.1", "host-malformed"},
    {true, false, "a..test", "", 443, "GET /", "a.test", "host-malformed"},
    /* paths */
    {true, false, "a.test", "", 443, "GET /ok/../admin", "a.test", "path-ambiguous"},
    {true, false, "a.test", "", 443, "GET /ok/%2e%2e/admin", "a.test", "path-ambiguous"},
    {true, false, "a.test", "", 443, "GET /ok/%252e%252e/admin", "a.test", "path-ambiguous"},
    {true, false, "a.test", "", 443, "GET /ok/..;/admin", "a.test", "path-ambiguous"},
    {true, false, "a.test", "", 443, "GET /ok\\..\\admin", "a.test", "path-ambiguous"},
    {true, false, "a.test", "", 443, "GET /ok/%2e", "a.test", "path-ambiguous"},
    {true, false, "a.test", "", 443, "GET /ok%00", "a.test", "path-ambiguous"},
    {true, false, "a.test", "", 443, "GET //b.test/ok", "a.test", "path-ambiguous"},
    {true, false, "a.test", "", 443, "GET /ok/.", "a.test", "path-ambiguous"},
    {true, false, "a.test", "", 443, "GET /ok?x/../..", "a.test", "https://a.test:443/ok ? x/../.."},
};

static void describe(struct buf *out, const struct target *t, int r) {
    if (r) {
        assert_true(t->error.text[0] != 0);
        assert_true(target_refusal_status(t->refusal) >= 400);
        buf_puts(out, target_refusal_code(t->refusal));
    } else if (t->connect) {
        buf_printf(out, "connect %s:%u", t->host.text, t->port);
    } else {
        buf_printf(out, "%s://%s:%u%.*s ?%s%.*s", url_scheme_name(t->scheme), t->host.text, t->port,
                   SLICE_ARG(t->path), t->has_query ? " " : "", SLICE_ARG(t->query));
    }
}

static void test_rows(void **state) {
    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        static struct http1_request req;
        static struct target target;
        struct target_identity id = {.tls = rows[i].tls,
                                     .proxied = rows[i].proxied,
                                     .sni = slice_str(rows[i].sni),
                                     .dialed = slice_str(rows[i].dialed),
                                     .port = rows[i].port};
        struct buf head, path, text;
        buf_init(&head, 4096);
        buf_init(&path, 4 * HTTP1_TARGET_MAX);
        buf_init(&text, 4096);
        buf_printf(&head, "%s HTTP/1.1\r\nHost: %s\r\n\r\n", rows[i].line, rows[i].host);
        if (http1_request_parse(&req, buf_slice(&head)))
            fail_msg("row %zu: %s", i, http_refusal_text(req.refusal));
        describe(&text, &target, target_resolve(&target, &id, &req, &path));
        if (strcmp(buf_cstr(&text), rows[i].url))
            fail_msg("row %zu: %s, expected %s", i, buf_cstr(&text), rows[i].url);
        buf_release(&head);
        buf_release(&path);
        buf_release(&text);
    }
}

/* HTTP/1.0 without Host: the connection names it, or nothing does. */
static void test_no_host(void **state) {
    static struct http1_request req;
    static struct target target;
    struct target_identity tls = {.tls = true, .sni = SLICE("a.test"), .port = 443};
    struct target_identity clear = {.port = 80};
    struct buf path;
    (void)state;
    buf_init(&path, 4 * HTTP1_TARGET_MAX);
    assert_int_equal(http1_request_parse(&req, SLICE("GET /x HTTP/1.0\r\n\r\n")), 0);
    assert_int_equal(target_resolve(&target, &tls, &req, &path), 0);
    assert_string_equal(target.host.text, "a.test");
    assert_int_equal(target_resolve(&target, &clear, &req, &path), ERR_AMBIGUOUS);
    assert_int_equal(target.refusal, TARGET_REFUSED_NO_NAME);
    buf_release(&path);
}

static void test_host_field(void **state) {
    struct target t = {.scheme = URL_HTTPS, .port = 443};
    struct buf out;
    (void)state;
    buf_init(&out, 64);
    assert_int_equal(url_host_parse(SLICE("A.test."), &t.host, NULL), 0);
    assert_int_equal(target_host_field(&out, &t), 0);
    assert_string_equal(buf_cstr(&out), "a.test");
    buf_clear(&out);
    t.port = 80;
    assert_int_equal(target_host_field(&out, &t), 0);
    assert_string_equal(buf_cstr(&out), "a.test:80");
    buf_release(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_no_host),
        cmocka_unit_test(test_host_field),
    };
    return cmocka_run_group_tests_name("target", tests, NULL, NULL);
}
