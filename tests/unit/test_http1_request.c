/* proxy/codec/http1: request heads, good and bad; what was judged is what is written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "proxy/codec/http1_write.h"
#include "tests/unit/mutate.h"

#define ROWS(rows) (sizeof(rows) / sizeof((rows)[0]))
#define TEXT(s)                                                                                              \
    { (s), sizeof(s) - 1 }

/* Scan and parse as the engine does. Returns the refusal. */
static enum http_refusal read_request(struct http1_request *req, struct slice data, int *r) {
    struct http1_scan scan;
    struct slice head;
    http1_scan_init(&scan, false);
    memset(req, 0, sizeof(*req));
    *r = http1_scan(&scan, data, &head);
    if (*r)
        return scan.refusal;
    *r = http1_request_parse(req, head);
    return req->refusal;
}

/* ---- good ones: head, what is written for it ---- */

static const struct {
    struct slice in;
    const char *out;
} good[] = {
    {TEXT("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"), "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"},
    {TEXT("\r\nGET / HTTP/1.1\r\nHost: a.test\r\n\r\n"), "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"},
    {TEXT("GET /@scope%2fname?q=%2F&x HTTP/1.1\r\nhost:a.test:8443 \r\nX-E:\r\nX: a  b\t\r\n\r\n"),
     "GET /@scope%2fname?q=%2F&x HTTP/1.1\r\nHost: a.test:8443\r\nX-E: \r\nX: a  b\r\n\r\n"},
    {TEXT("GET / HTTP/1.0\r\nHost: a.test\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\n"),
     "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"},
    {TEXT("POST http://A.test/p?q HTTP/1.1\r\nHost: a.test:80\r\nContent-Length: 5\r\n\r\n"),
     "POST /p?q HTTP/1.1\r\nHost: a.test:80\r\nContent-Length: 5\r\n\r\n"},
    {TEXT("GET http://a.test HTTP/1.1\r\nHost: a.test.\r\n\r\n"), "GET / HTTP/1.1\r\nHost: a.test.\r\n\r\n"},
    {TEXT("GET http://[2001:db8::1]:80/ HTTP/1.1\r\nHost: [2001:DB8::1]\r\n\r\n"),
     "GET / HTTP/1.1\r\nHost: [2001:DB8::1]\r\n\r\n"},
    {TEXT("OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n"), "OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n"},
    {TEXT("OPTIONS http://a.test HTTP/1.1\r\nHost: a.test\r\n\r\n"),
     "OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n"},
    {TEXT("M-SEARCH / HTTP/1.1\r\nHost: a.test\r\n\r\n"), "M-SEARCH / HTTP/1.1\r\nHost: a.test\r\n\r\n"},
    {TEXT("QUERY / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n"),
     "QUERY / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n"},
    {TEXT("PUT /u HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: Chunked\r\nTrailer: X-Sum\r\nTE: trailers, "
          "gzip\r\n"
          "Connection: TE\r\nExpect: 100-Continue\r\n\r\n"),
     "PUT /u HTTP/1.1\r\nHost: a.test\r\nTrailer: X-Sum\r\nTE: trailers\r\nExpect: 100-continue\r\n"
     "Transfer-Encoding: chunked\r\nConnection: TE\r\n\r\n"},
    {TEXT("GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
          "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nProxy-Connection: keep-alive\r\n"
          "Proxy-Authorization: Basic eDp5\r\n\r\n"),
     "GET /ws HTTP/1.1\r\nHost: a.test\r\n\r\n"},
    {TEXT("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close, X-Mine\r\nX-Mine: 1\r\nx-mine: 2\r\nX-Other: "
          "3\r\n\r\n"),
     "GET / HTTP/1.1\r\nHost: a.test\r\nX-Other: 3\r\n\r\n"},
    {TEXT("GET / HTTP/1.1\r\nHost: a.test\r\nForwarded: host=b.test\r\nX-Forwarded-Host: b.test\r\nX: "
          "\xc3\xbc\xff\r\n\r\n"),
     "GET / HTTP/1.1\r\nHost: a.test\r\nX: \xc3\xbc\xff\r\n\r\n"},
    {TEXT("GET /a|b{c}^`\"<>[]\\ HTTP/1.1\r\nHost: a.test\r\nCookie: a=1\r\nCookie: b=2\r\n\r\n"),
     "GET /a|b{c}^`\"<>[]\\ HTTP/1.1\r\nHost: a.test\r\nCookie: a=1\r\nCookie: b=2\r\n\r\n"},
    {TEXT("POST / HTTP/1.1\r\nHost: a_b.test\r\nContent-Length: 9223372036854775807\r\n\r\n"),
     "POST / HTTP/1.1\r\nHost: a_b.test\r\nContent-Length: 9223372036854775807\r\n\r\n"},
};

static void test_good(void **state) {
    (void)state;
    for (size_t i = 0; i < ROWS(good); i++) {
        static struct http1_request req;
        struct http1_write opt = {0};
        struct buf out;
        int r;
        enum http_refusal refusal = read_request(&req, good[i].in, &r);
        if (r)
            fail_msg("row %zu: %s", i, http_refusal_text(refusal));
        buf_init(&out, 1 << 20);
        assert_int_equal(http1_write_request(&out, &req, &opt), 0);
        assert_string_equal(buf_cstr(&out), good[i].out);
        buf_release(&out);
    }
}

/* What is written is read again, with the same meaning: a second pass changes nothing. */
static void test_written_is_stable(void **state) {
    (void)state;
    for (size_t i = 0; i < ROWS(good); i++) {
        static struct http1_request req;
        struct http1_write opt = {0};
        struct buf out;
        int r;
        assert_int_equal(read_request(&req, slice_str(good[i].out), &r), HTTP_REFUSED_NOT);
        assert_int_equal(r, 0);
        buf_init(&out, 1 << 20);
        assert_int_equal(http1_write_request(&out, &req, &opt), 0);
        assert_string_equal(buf_cstr(&out), good[i].out);
        buf_release(&out);
    }
}

/* ---- bad ones ---- */

#define R "GET / HTTP/1.1\r\n"
#define P "POST / HTTP/1.1\r\nHost: a.test\r\n"
#define H "Host: a.test\r\n"

static const struct {
    struct slice in;
    enum http_refusal refusal;
} bad[] = {
    /* lines */
    {TEXT("GET /x\n" H "Content-Length: 5\r\n\r\nhello"), HTTP_REFUSED_LINE_END},
    {TEXT("GET /x HTTP/1.1\n" H "\r\n"), HTTP_REFUSED_LINE_END},
    {TEXT("GET /x HTTP/1.1\r" H "\r\n"), HTTP_REFUSED_LINE_END},
    {TEXT(R "Host: a.test\n\r\n"), HTTP_REFUSED_LINE_END},
    {TEXT(R H "\n"), HTTP_REFUSED_LINE_END},
    {TEXT(R H "X: a\rb\r\n\r\n"), HTTP_REFUSED_LINE_END},
    {TEXT(P "X-Abc: \rxTransfer-Encoding: chunked\r\n\r\n1\r\nA\r\n0\r\n\r\n"), HTTP_REFUSED_LINE_END},
    {TEXT(P "X: \rTransfer-Encoding: chunked\r\n\r\n"), HTTP_REFUSED_LINE_END},
    {TEXT(R H "X: a\r\r\n\r\n"), HTTP_REFUSED_LINE_END},
    {TEXT(R H "X: a\0b\r\n\r\n"), HTTP_REFUSED_CONTROL},
    {TEXT(R H "X: a\001b\r\n\r\n"), HTTP_REFUSED_CONTROL},
    {TEXT(R H "X: a\177b\r\n\r\n"), HTTP_REFUSED_CONTROL},
    {TEXT(R "Host: a.test\0.b.test\r\n\r\n"), HTTP_REFUSED_CONTROL},
    {TEXT("\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_REQUEST_LINE},
    /* the request line */
    {TEXT("GET /x\r\n" H "\r\n"), HTTP_REFUSED_REQUEST_LINE},
    {TEXT("GET  / HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_REQUEST_LINE},
    {TEXT("GET /  HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_REQUEST_LINE},
    {TEXT("GET / HTTP/1.1 \r\n" H "\r\n"), HTTP_REFUSED_VERSION},
    {TEXT("GET\t/ HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_METHOD},
    {TEXT("GET /a b HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_REQUEST_LINE},
    {TEXT(" GET / HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_METHOD},
    {TEXT("get / HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_METHOD},
    {TEXT("GE:T / HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_METHOD},
    {TEXT("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_METHOD},
    {TEXT("GET / HTTP/2.0\r\n" H "\r\n"), HTTP_REFUSED_VERSION},
    {TEXT("GET / HTTP/0.9\r\n" H "\r\n"), HTTP_REFUSED_VERSION},
    {TEXT("GET / HTTP/1.2\r\n" H "\r\n"), HTTP_REFUSED_VERSION},
    {TEXT("GET / HTTP/1.10\r\n" H "\r\n"), HTTP_REFUSED_VERSION},
    {TEXT("GET / HTTP/01.1\r\n" H "\r\n"), HTTP_REFUSED_VERSION},
    {TEXT("GET / http/1.1\r\n" H "\r\n"), HTTP_REFUSED_REQUEST_LINE},
    {TEXT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), HTTP_REFUSED_VERSION},
    /* targets */
    {TEXT("GET x HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_TARGET},
    {TEXT("GET * HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_TARGET},
    {TEXT("GET a.test:443 HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_TARGET},
    {TEXT("GET http:/a.test/ HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_TARGET},
    {TEXT("GET http://a.test?q HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_TARGET},
    {TEXT("GET /\xc3\xbc HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_TARGET},
    {TEXT("GET /\t HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_CONTROL},
    {TEXT("GET /#frag HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_FRAGMENT},
    {TEXT("GET #frag HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_FRAGMENT},
    {TEXT("GET ftp://a.test/ HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_SCHEME},
    {TEXT("GET http://a.test@b.test/ HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_USERINFO},
    {TEXT("GET http://u:p@a.test/ HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_USERINFO},
    {TEXT("GET http:///p HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_AUTHORITY},
    {TEXT("GET http://a.test:/ HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_AUTHORITY},
    {TEXT("GET http://a.test:0/ HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_AUTHORITY},
    {TEXT("GET http://a.test:65536/ HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_AUTHORITY},
    {TEXT("GET http://a.test:+80/ HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_AUTHORITY},
    {TEXT("GET http://a.test\\b.test/ HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_AUTHORITY},
    {TEXT("GET http://a%2etest/ HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_AUTHORITY},
    {TEXT("CONNECT a.test HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_AUTHORITY},
    {TEXT("CONNECT / HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_AUTHORITY},
    {TEXT("CONNECT http://a.test/ HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_AUTHORITY},
    /* Host */
    {TEXT(R "\r\n"), HTTP_REFUSED_HOST_MISSING},
    {TEXT(R H "Host: b.test\r\n\r\n"), HTTP_REFUSED_HOST_REPEATED},
    {TEXT(R H "hOST: a.test\r\n\r\n"), HTTP_REFUSED_HOST_REPEATED},
    {TEXT(R "Host:\r\n\r\n"), HTTP_REFUSED_HOST_BAD},
    {TEXT(R "Host: a.test:\r\n\r\n"), HTTP_REFUSED_HOST_BAD},
    {TEXT(R "Host: a.test b.test\r\n\r\n"), HTTP_REFUSED_HOST_BAD},
    {TEXT(R "Host: a.test,b.test\r\n\r\n"), HTTP_REFUSED_HOST_BAD},
    {TEXT(R "Host: a.test/\r\n\r\n"), HTTP_REFUSED_HOST_BAD},
    {TEXT(R "Host: u@a.test\r\n\r\n"), HTTP_REFUSED_HOST_BAD},
    {TEXT(R "Host: http://a.test\r\n\r\n"), HTTP_REFUSED_HOST_BAD},
    {TEXT(R "Host: b\xc3\xbc.test\r\n\r\n"), HTTP_REFUSED_HOST_BAD},
    {TEXT(R "Host: [::1\r\n\r\n"), HTTP_REFUSED_HOST_BAD},
    {TEXT(R "Host: [::1]x\r\n\r\n"), HTTP_REFUSED_HOST_BAD},
    {TEXT(R "Host: [fe80::1%25eth0]\r\n\r\n"), HTTP_REFUSED_HOST_BAD},
    {TEXT("GET http://b.test/p HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_HOST_DIFFERS},
    {TEXT("GET http://a.test:81/p HTTP/1.1\r\n" H "\r\n"), HTTP_REFUSED_HOST_DIFFERS},
    {TEXT("GET https://a.test/p HTTP/1.1\r\nHost: a.test:80\r\n\r\n"), HTTP_REFUSED_HOST_DIFFERS},
    {TEXT("CONNECT a.test:443 HTTP/1.1\r\nHost: b.test:443\r\n\r\n"), HTTP_REFUSED_HOST_DIFFERS},
    {TEXT("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:80\r\n\r\n"), HTTP_REFUSED_HOST_DIFFERS},
    /* fields */
    {TEXT(R H " X: folded\r\n\r\n"), HTTP_REFUSED_FOLD},
    {TEXT("GET / HTTP/1.1\r\nHost: a.test\r\nX: a\r\n Content-Length: 3\r\n\r\n"), HTTP_REFUSED_FOLD},
    {TEXT(R "\tX: a\r\n" H "\r\n"), HTTP_REFUSED_FOLD},
    {TEXT(R H "X : a\r\n\r\n"), HTTP_REFUSED_NAME_SPACE},
    {TEXT(P "Transfer-Encoding : chunked\r\n\r\n"), HTTP_REFUSED_NAME_SPACE},
    {TEXT(P "Transfer-Encoding\t: chunked\r\n\r\n"), HTTP_REFUSED_NAME_SPACE},
    {TEXT(R H "X a: b\r\n\r\n"), HTTP_REFUSED_NAME},
    {TEXT(R H ": b\r\n\r\n"), HTTP_REFUSED_NAME},
    {TEXT(R H "no colon\r\n\r\n"), HTTP_REFUSED_NAME},
    {TEXT(R H "X(y): b\r\n\r\n"), HTTP_REFUSED_NAME},
    {TEXT(R H "X\xc3\xbc: b\r\n\r\n"), HTTP_REFUSED_NAME},
    {TEXT(P "Content_Length: 5\r\n\r\n"), HTTP_REFUSED_NAME_ALIKE},
    {TEXT(P "transfer_encoding: chunked\r\n\r\n"), HTTP_REFUSED_NAME_ALIKE},
    {TEXT(P "Content-Type: a/b\r\ncontent-type: c/d\r\n\r\n"), HTTP_REFUSED_REPEATED},
    {TEXT(P "Content-Encoding: gzip\r\nContent-Encoding: identity\r\n\r\n"), HTTP_REFUSED_REPEATED},
    {TEXT(P "X-HTTP-Method-Override: DELETE\r\n\r\n"), HTTP_REFUSED_METHOD_OVERRIDE},
    {TEXT(P "x-method-override: DELETE\r\n\r\n"), HTTP_REFUSED_METHOD_OVERRIDE},
    {TEXT(P "X-Original-URL: /admin\r\n\r\n"), HTTP_REFUSED_TARGET_OVERRIDE},
    {TEXT(P "X-Rewrite-URL: /admin\r\n\r\n"), HTTP_REFUSED_TARGET_OVERRIDE},
    {TEXT(P "Expect: 200-ok\r\n\r\n"), HTTP_REFUSED_EXPECT},
    /* Connection */
    {TEXT(R H "Connection: host\r\n\r\n"), HTTP_REFUSED_CONNECTION},
    {TEXT(R H "Connection: close, Authorization\r\nAuthorization: Bearer x\r\n\r\n"),
     HTTP_REFUSED_CONNECTION},
    {TEXT(R H "Connection: close\r\nConnection: content-length\r\n\r\n"), HTTP_REFUSED_CONNECTION},
    {TEXT(R H "Connection: Content_Type\r\n\r\n"), HTTP_REFUSED_CONNECTION},
    {TEXT(R H "Connection: cookie\r\n\r\n"), HTTP_REFUSED_CONNECTION},
    {TEXT(R H "Connection: a b\r\n\r\n"), HTTP_REFUSED_CONNECTION},
    /* framing */
    {TEXT(P "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"), HTTP_REFUSED_LENGTH_AND_CODING},
    {TEXT(P "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"), HTTP_REFUSED_LENGTH_AND_CODING},
    {TEXT(P "Content-Length: 5\r\nContent-Length: 5\r\n\r\n"), HTTP_REFUSED_LENGTH_REPEATED},
    {TEXT(P "Content-Length: 5\r\nContent-Length: 6\r\n\r\n"), HTTP_REFUSED_LENGTH_REPEATED},
    {TEXT(P "Content-Length: 5, 5\r\n\r\n"), HTTP_REFUSED_LENGTH_BAD},
    {TEXT(P "Content-Length: +5\r\n\r\n"), HTTP_REFUSED_LENGTH_BAD},
    {TEXT(P "Content-Length: -1\r\n\r\n"), HTTP_REFUSED_LENGTH_BAD},
    {TEXT(P "Content-Length: 0x5\r\n\r\n"), HTTP_REFUSED_LENGTH_BAD},
    {TEXT(P "Content-Length: 5 5\r\n\r\n"), HTTP_REFUSED_LENGTH_BAD},
    {TEXT(P "Content-Length:\r\n\r\n"), HTTP_REFUSED_LENGTH_BAD},
    {TEXT(P "Content-Length: 9223372036854775808\r\n\r\n"), HTTP_REFUSED_LENGTH_BAD},
    {TEXT(P "Content-Length: 00000000000000000005\r\n\r\n"), HTTP_REFUSED_LENGTH_BAD},
    {TEXT(P "Transfer-Encoding: chunked,\r\n\r\n"), HTTP_REFUSED_CODING},
    {TEXT(P "Transfer-Encoding: chunked, gzip\r\n\r\n"), HTTP_REFUSED_CODING},
    {TEXT(P "Transfer-Encoding: gzip, chunked\r\n\r\n"), HTTP_REFUSED_CODING},
    {TEXT(P "Transfer-Encoding: xchunked\r\n\r\n"), HTTP_REFUSED_CODING},
    {TEXT(P "Transfer-Encoding: \"chunked\"\r\n\r\n"), HTTP_REFUSED_CODING},
    {TEXT(P "Transfer-Encoding: identity\r\n\r\n"), HTTP_REFUSED_CODING},
    {TEXT(P "Transfer-Encoding:\r\n\r\n"), HTTP_REFUSED_CODING},
    {TEXT(P "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"), HTTP_REFUSED_CODING},
    {TEXT(P "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n"), HTTP_REFUSED_CODING},
    {TEXT("POST / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n\r\n"), HTTP_REFUSED_CODING_1_0},
    {TEXT("TRACE / HTTP/1.1\r\n" H "Content-Length: 1\r\n\r\n"), HTTP_REFUSED_BODY},
    {TEXT("CONNECT a.test:1 HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n"),
     HTTP_REFUSED_BODY},
};

static void test_bad(void **state) {
    (void)state;
    for (size_t i = 0; i < ROWS(bad); i++) {
        static struct http1_request req;
        int r;
        enum http_refusal refusal = read_request(&req, bad[i].in, &r);
        if (refusal != bad[i].refusal || r >= 0 || r == ERR_INCOMPLETE)
            fail_msg("row %zu: %s (%d), expected %s: %.*s", i, http_refusal_code(refusal), r,
                     http_refusal_code(bad[i].refusal), SLICE_ARG(bad[i].in));
        assert_in_range(http_refusal_status(refusal), 400, 505);
    }
}

/* A client that waits for an answer is refused at the first line, not by a time limit. */
static void test_refused_early(void **state) {
    static const struct slice rows[] = {TEXT("GET /x\r\n"), TEXT("GET /x\n"), TEXT("GET / HTTP/3\r\n"),
                                        TEXT("GET\0"), TEXT("GET / HTTP/1.1\r\nHost: a\n")};
    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct http1_scan scan;
        struct slice head;
        http1_scan_init(&scan, false);
        int r = http1_scan(&scan, rows[i], &head);
        assert_true(r < 0 && r != ERR_INCOMPLETE);
    }
}

/* ---- limits ---- */

static void test_limits(void **state) {
    static struct http1_request req;
    struct buf b;
    int r;
    (void)state;
    buf_init(&b, 1 << 20);
    for (int fields = HTTP_FIELDS_MAX - 1; fields <= HTTP_FIELDS_MAX; fields++) {
        buf_clear(&b);
        buf_puts(&b, R H);
        for (int i = 0; i < fields; i++)
            buf_printf(&b, "X-%d: y\r\n", i);
        buf_puts(&b, "\r\n");
        enum http_refusal refusal = read_request(&req, buf_slice(&b), &r);
        assert_int_equal(refusal, fields < HTTP_FIELDS_MAX ? HTTP_REFUSED_NOT : HTTP_REFUSED_TOO_MANY);
    }
    for (size_t n = HTTP1_TARGET_MAX; n <= HTTP1_TARGET_MAX + 1; n++) {
        buf_clear(&b);
        buf_puts(&b, "GET /");
        for (size_t i = 1; i < n; i++)
            buf_putc(&b, 'a');
        buf_puts(&b, " HTTP/1.1\r\n" H "\r\n");
        assert_int_equal(read_request(&req, buf_slice(&b), &r),
                         n == HTTP1_TARGET_MAX ? HTTP_REFUSED_NOT : HTTP_REFUSED_TARGET_LONG);
    }
    for (size_t n = HTTP1_HEAD_MAX; n <= HTTP1_HEAD_MAX + 1; n++) {
        buf_clear(&b);
        buf_puts(&b, R H "X: ");
        while (buf_len(&b) < n - 4)
            buf_putc(&b, 'a');
        buf_puts(&b, "\r\n\r\n");
        assert_int_equal(read_request(&req, buf_slice(&b), &r),
                         n == HTTP1_HEAD_MAX ? HTTP_REFUSED_NOT : HTTP_REFUSED_TOO_LONG);
    }
    buf_release(&b);
}

/* ---- details ---- */

static void test_meaning(void **state) {
    static struct http1_request req;
    int r;
    (void)state;
    read_request(&req, SLICE("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Close\r\n\r\n"), &r);
    assert_false(req.keep_alive);
    read_request(&req, SLICE("GET / HTTP/1.0\r\n\r\n"), &r);
    assert_int_equal(r, 0);
    assert_false(req.keep_alive);
    assert_int_equal(req.host_field.n, 0);
    read_request(&req, SLICE("GET / HTTP/1.0\r\nExpect: 100-continue\r\nConnection: keep-alive\r\n\r\n"), &r);
    assert_true(req.keep_alive);
    assert_false(req.expect_continue);
    read_request(&req, SLICE("CONNECT a.test:8443 HTTP/1.1\r\nHost: a.test\r\n\r\n"), &r);
    assert_int_equal(r, 0);
    assert_int_equal(req.form, HTTP1_FORM_AUTHORITY);
    assert_int_equal(req.authority.port, 8443);
    assert_int_equal(req.origin.n, 0);
    read_request(
        &req, SLICE("GET /c HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"),
        &r);
    assert_true(slice_eq(req.upgrade, SLICE("websocket")));
    read_request(&req, SLICE("GET /c HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\n\r\n"), &r);
    assert_int_equal(req.upgrade.n, 0);
    /* a field that is hop-by-hop is seen by nobody */
    read_request(&req, SLICE(R H "Connection: X-A\r\nX-A: 1\r\nX-B: 2\r\nx_b: 3\r\n\r\n"), &r);
    size_t count;
    assert_null(http_find_name(req.fields, req.nfields, SLICE("x-a"), &count));
    assert_non_null(http_find_name(req.fields, req.nfields, SLICE("X-b"), &count));
    assert_int_equal(count, 2);
    assert_null(http_find(req.fields, req.nfields, HTTP_F_CONNECTION, NULL));
    assert_non_null(http_find(req.fields, req.nfields, HTTP_F_HOST, NULL));
}

static const char *const known_names[] = {"te",
                                          "age",
                                          "date",
                                          "host",
                                          "vary",
                                          "range",
                                          "accept",
                                          "cookie",
                                          "expect",
                                          "pragma",
                                          "x-host",
                                          "alt-svc",
                                          "api-key",
                                          "cookie2",
                                          "expires",
                                          "trailer",
                                          "upgrade",
                                          "if-match",
                                          "if-range",
                                          "location",
                                          "forwarded",
                                          "job-token",
                                          "x-api-key",
                                          "connection",
                                          "keep-alive",
                                          "set-cookie",
                                          "user-agent",
                                          "x-auth-key",
                                          "content-type",
                                          "deploy-token",
                                          "git-protocol",
                                          "max-forwards",
                                          "x-auth-token",
                                          "x-csrf-token",
                                          "authorization",
                                          "cache-control",
                                          "content-range",
                                          "if-none-match",
                                          "private-token",
                                          "x-http-method",
                                          "x-rewrite-url",
                                          "x-vault-token",
                                          "content-length",
                                          "http2-settings",
                                          "x-access-token",
                                          "x-gitlab-token",
                                          "x-goog-api-key",
                                          "x-original-url",
                                          "x-original-host",
                                          "content-encoding",
                                          "content-location",
                                          "proxy-connection",
                                          "www-authenticate",
                                          "x-forwarded-host",
                                          "if-modified-since",
                                          "transfer-encoding",
                                          "x-method-override",
                                          "proxy-authenticate",
                                          "x-forwarded-prefix",
                                          "x-forwarded-server",
                                          "if-unmodified-since",
                                          "proxy-authorization",
                                          "x-amz-security-token",
                                          "x-http-host-override",
                                          "x-http-method-override",
                                          "proxy-authentication-info"};

/* Every name of the table is found, in any case, and spelt with '_' too; a name one byte off is another field. */
static void test_names(void **state) {
    (void)state;
    for (size_t i = 0; i < ROWS(known_names); i++) {
        char text[32];
        bool alike;
        size_t n = strlen(known_names[i]);
        struct slice name = slice_make(text, n);
        memcpy(text, known_names[i], n);
        enum http_field_id id = http_field_lookup(name, &alike);
        if (id == HTTP_F_OTHER || alike)
            fail_msg("%s", known_names[i]);
        for (size_t k = 0; k < n; k++)
            text[k] = text[k] == '-' ? '_' : (char)(text[k] - (text[k] >= 'a' && text[k] <= 'z' ? 32 : 0));
        assert_int_equal(http_field_lookup(name, &alike), id);
        assert_int_equal(alike, strchr(known_names[i], '-') != NULL);
        for (size_t k = 0; k < n; k++) {
            text[k] ^= 1;
            assert_int_equal(http_field_lookup(name, NULL), HTTP_F_OTHER);
            text[k] ^= 1;
        }
    }
}

/* ---- any cut, any bit ---- */

static void never_crash(struct slice input, void *arg) {
    static struct http1_request req;
    int r;
    (void)arg;
    read_request(&req, input, &r);
    if (r)
        return;
    /* what is accepted can be written, and read back with as many fields that go on */
    struct http1_write opt = {.host = SLICE("a.test")};
    struct buf out;
    buf_init(&out, 1 << 20);
    if (req.form != HTTP1_FORM_AUTHORITY) {
        static struct http1_request again;
        assert_int_equal(http1_write_request(&out, &req, &opt), 0);
        assert_int_equal(read_request(&again, buf_slice(&out), &r), HTTP_REFUSED_NOT);
        assert_true(slice_eq(req.method, again.method) && slice_eq(req.origin, again.origin));
        assert_int_equal(req.framing, again.framing);
        assert_int_equal(req.length, again.length);
    }
    buf_release(&out);
}

static void truncated(struct slice input, void *arg) {
    static struct http1_request req;
    int r;
    (void)arg;
    read_request(&req, input, &r);
    assert_int_equal(r, ERR_INCOMPLETE);
}

static void test_mutations(void **state) {
    (void)state;
    for (size_t i = 0; i < ROWS(good); i++) {
        mutate_truncate(good[i].in, truncated, NULL);
        mutate_flip(good[i].in, never_crash, NULL);
    }
    for (size_t i = 0; i < ROWS(bad); i++)
        mutate_truncate(bad[i].in, never_crash, NULL);
}

/* One byte at a time finds the same end, or the same refusal, as all at once; bytes behind the head stay. */
static void test_bytewise(void **state) {
    (void)state;
    for (size_t i = 0; i < ROWS(good) + ROWS(bad); i++) {
        struct slice in = i < ROWS(good) ? good[i].in : bad[i - ROWS(good)].in;
        struct http1_scan whole, bytes;
        struct slice head = SLICE_NONE, head2 = SLICE_NONE;
        http1_scan_init(&whole, false);
        http1_scan_init(&bytes, false);
        int r = http1_scan(&whole, in, &head), r2 = ERR_INCOMPLETE;
        for (size_t n = 1; n <= in.n && r2 == ERR_INCOMPLETE; n++)
            r2 = http1_scan(&bytes, slice_sub(in, 0, n), &head2);
        assert_int_equal(r, r2);
        assert_int_equal(whole.refusal, bytes.refusal);
        assert_ptr_equal(head.p, head2.p);
        assert_int_equal(head.n, head2.n);
    }
    struct http1_scan scan;
    struct slice two = SLICE(R H "\r\nDELETE / HTTP/1.1\r\n"), head;
    http1_scan_init(&scan, false);
    assert_int_equal(http1_scan(&scan, two, &head), 0);
    assert_true(slice_starts(slice_from(two, (size_t)(head.p + head.n - two.p)), SLICE("DELETE")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),     cmocka_unit_test(test_written_is_stable),
        cmocka_unit_test(test_bad),      cmocka_unit_test(test_refused_early),
        cmocka_unit_test(test_limits),   cmocka_unit_test(test_meaning),
        cmocka_unit_test(test_names),    cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_bytewise),
    };
    return cmocka_run_group_tests_name("http1_request", tests, NULL, NULL);
}
