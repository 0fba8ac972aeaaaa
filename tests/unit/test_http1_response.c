/* proxy/codec/http1: heads of answers, how their bodies end, how they are passed on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "proxy/codec/http1_internal.h"
#include "proxy/codec/http1_write.h"
#include "tests/unit/mutate.h"

#define ROWS(rows) (sizeof(rows) / sizeof((rows)[0]))
#define TEXT(s)                                                                                              \
    { (s), sizeof(s) - 1 }
#define OK "HTTP/1.1 200 OK\r\n"

static enum http_refusal read_response(struct http1_response *resp, struct slice data, struct slice method,
                                       int *r) {
    struct http1_scan scan;
    struct slice head;
    http1_scan_init(&scan, true);
    memset(resp, 0, sizeof(*resp));
    *r = http1_scan(&scan, data, &head);
    if (*r)
        return scan.refusal;
    *r = http1_response_parse(resp, head, method, false);
    return resp->refusal;
}

/* in, method, client's minor version: framing in, framing out, what is written */
static const struct {
    struct slice in;
    const char *method;
    int minor;
    enum http_framing in_framing, out_framing;
    const char *out;
} good[] = {
    {TEXT(OK "Content-Length: 5\r\nETag: \"x\"\r\n\r\n"), "GET", 1, HTTP_BODY_LENGTH, HTTP_BODY_LENGTH,
     OK "ETag: \"x\"\r\nContent-Length: 5\r\n\r\n"},
    {TEXT(OK "Content-Length: 5\r\nContent-Type: a\r\nContent-Type: b\r\n\r\n"), "GET", 1, HTTP_BODY_LENGTH,
     HTTP_BODY_LENGTH, OK "Content-Type: a\r\nContent-Type: b\r\nContent-Length: 5\r\n\r\n"},
    {TEXT(OK "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"), "GET", 1, HTTP_BODY_CHUNKED,
     HTTP_BODY_CHUNKED, OK "Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n"},
    {TEXT(OK "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"), "GET", 0, HTTP_BODY_CHUNKED,
     HTTP_BODY_CLOSE, OK "Connection: close\r\n\r\n"},
    {TEXT("HTTP/1.0 200 OK\r\n\r\n"), "GET", 1, HTTP_BODY_CLOSE, HTTP_BODY_CHUNKED,
     OK "Transfer-Encoding: chunked\r\n\r\n"},
    {TEXT("HTTP/1.1 200\r\n\r\n"), "POST", 0, HTTP_BODY_CLOSE, HTTP_BODY_CLOSE,
     "HTTP/1.1 200 \r\nConnection: close\r\n\r\n"},
    {TEXT(OK "Content-Length: 99\r\nTE: x\r\n\r\n"), "HEAD", 1, HTTP_BODY_NONE, HTTP_BODY_NONE,
     OK "Content-Length: 99\r\n\r\n"},
    {TEXT(OK "Transfer-Encoding: chunked\r\n\r\n"), "HEAD", 1, HTTP_BODY_NONE, HTTP_BODY_NONE,
     OK "Transfer-Encoding: chunked\r\n\r\n"},
    {TEXT("HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n"), "GET", 1, HTTP_BODY_NONE,
     HTTP_BODY_NONE, "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n"},
    {TEXT(OK "Upgrade: h2,h2c\r\nConnection: Upgrade, Keep-Alive\r\nKeep-Alive: timeout=5\r\nContent-Length: "
             "1\r\n\r\n"),
     "GET", 1, HTTP_BODY_LENGTH, HTTP_BODY_LENGTH, OK "Content-Length: 1\r\n\r\n"},
    {TEXT(OK "Transfer-Encoding: chunked\r\n\r\n"), "HEAD", 0, HTTP_BODY_NONE, HTTP_BODY_NONE,
     OK "Connection: keep-alive\r\n\r\n"},
    {TEXT("HTTP/1.1 204 No Content\r\nContent-Length: 99\r\n\r\n"), "GET", 1, HTTP_BODY_NONE, HTTP_BODY_NONE,
     "HTTP/1.1 204 No Content\r\n\r\n"},
    {TEXT("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n"), "GET", 1, HTTP_BODY_NONE,
     HTTP_BODY_NONE, "HTTP/1.1 204 No Content\r\n\r\n"},
    {TEXT("HTTP/1.1 100 Continue\r\nX: y\r\n\r\n"), "PUT", 1, HTTP_BODY_NONE, HTTP_BODY_NONE,
     "HTTP/1.1 100 Continue\r\nX: y\r\n\r\n"},
    {TEXT("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"), "GET", 1, HTTP_BODY_NONE, HTTP_BODY_NONE,
     "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"},
    {TEXT("HTTP/1.1 404 Nicht \xff da\r\nConnection: close, X-H\r\nX-H: 1\r\nKeep-Alive: 3\r\nAlt-Svc: "
          "h3=\":443\"\r\n"
          "Proxy-Authenticate: Basic\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 0\r\n\r\n"),
     "GET", 1, HTTP_BODY_LENGTH, HTTP_BODY_LENGTH,
     "HTTP/1.1 404 Nicht \xff da\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 0\r\n\r\n"},
    {TEXT(OK "Content-Length: 5\r\nConnection: Set-Cookie\r\nSet-Cookie: a\r\nContent_Type: z\r\n\r\n"),
     "GET", 0, HTTP_BODY_LENGTH, HTTP_BODY_LENGTH,
     OK "Set-Cookie: a\r\nContent_Type: z\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n"},
};

static void test_good(void **state) {
    (void)state;
    for (size_t i = 0; i < ROWS(good); i++) {
        static struct http1_response resp;
        struct slice method = slice_str(good[i].method);
        struct http1_write opt = {.client_minor = good[i].minor, .client_keep_alive = true};
        struct buf out;
        int r;
        enum http_refusal refusal = read_response(&resp, good[i].in, method, &r);
        if (r)
            fail_msg("row %zu: %s", i, http_refusal_text(refusal));
        assert_int_equal(resp.framing, good[i].in_framing);
        buf_init(&out, 1 << 20);
        assert_int_equal(http1_write_response(&out, &resp, slice_eq(method, SLICE("HEAD")), &opt), 0);
        assert_string_equal(buf_cstr(&out), good[i].out);
        assert_int_equal(opt.framing_out, good[i].out_framing);
        assert_int_equal(opt.closing, strstr(good[i].out, "Connection: close") != NULL);
        buf_release(&out);
    }
}

static const struct {
    struct slice in;
    enum http_refusal refusal;
} bad[] = {
    {TEXT("\r\n" OK "\r\n"), HTTP_REFUSED_STATUS_LINE},
    {TEXT("HTTP/2 200\r\n\r\n"), HTTP_REFUSED_STATUS_LINE},
    {TEXT("HTTP/1.2 200 OK\r\n\r\n"), HTTP_REFUSED_VERSION},
    {TEXT("HTTP/1.1 20 OK\r\n\r\n"), HTTP_REFUSED_STATUS_LINE},
    {TEXT("HTTP/1.1 2000 OK\r\n\r\n"), HTTP_REFUSED_STATUS_LINE},
    {TEXT("HTTP/1.1 099 OK\r\n\r\n"), HTTP_REFUSED_STATUS_LINE},
    {TEXT("HTTP/1.1  200 OK\r\n\r\n"), HTTP_REFUSED_STATUS_LINE},
    {TEXT("HTTP/1.1 200\tOK\r\n\r\n"), HTTP_REFUSED_STATUS_LINE},
    {TEXT("HTTP/1.1 200 O\001K\r\n\r\n"), HTTP_REFUSED_CONTROL},
    {TEXT("HTTP/1.1 200 OK\n\r\n"), HTTP_REFUSED_LINE_END},
    {TEXT(OK "X: a\rY: b\r\n\r\n"), HTTP_REFUSED_LINE_END},
    {TEXT(OK "X: a\r\n b\r\n\r\n"), HTTP_REFUSED_FOLD},
    {TEXT(OK "X : a\r\n\r\n"), HTTP_REFUSED_NAME_SPACE},
    {TEXT(OK "Content-Length: 5\r\nContent-Length: 6\r\n\r\n"), HTTP_REFUSED_LENGTH_REPEATED},
    {TEXT(OK "Content-Length: 5\r\nContent-Length: 5\r\n\r\n"), HTTP_REFUSED_LENGTH_REPEATED},
    {TEXT(OK "Content-Length: 5, 5\r\n\r\n"), HTTP_REFUSED_LENGTH_BAD},
    {TEXT(OK "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"), HTTP_REFUSED_LENGTH_AND_CODING},
    {TEXT(OK "Transfer-Encoding: gzip, chunked\r\n\r\n"), HTTP_REFUSED_CODING},
    {TEXT(OK "Transfer-Encoding: identity\r\n\r\n"), HTTP_REFUSED_CODING},
    {TEXT(OK "Transfer_Encoding: chunked\r\n\r\n"), HTTP_REFUSED_NAME_ALIKE},
    {TEXT("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), HTTP_REFUSED_CODING_1_0},
    {TEXT("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
     HTTP_REFUSED_UPGRADED},
};

static void test_bad(void **state) {
    (void)state;
    for (size_t i = 0; i < ROWS(bad); i++) {
        static struct http1_response resp;
        int r;
        enum http_refusal refusal = read_response(&resp, bad[i].in, SLICE("GET"), &r);
        if (refusal != bad[i].refusal || r >= 0 || r == ERR_INCOMPLETE)
            fail_msg("row %zu: %s (%d), expected %s", i, http_refusal_code(refusal), r,
                     http_refusal_code(bad[i].refusal));
    }
}

static void test_meaning(void **state) {
    static struct http1_response resp;
    int r;
    (void)state;
    read_response(&resp, SLICE("HTTP/1.1 100 Continue\r\n\r\n"), SLICE("PUT"), &r);
    assert_true(resp.interim && resp.keep_alive);
    struct http1_write old = {.client_minor = 0};
    struct buf out;
    buf_init(&out, 1 << 16);
    assert_int_equal(http1_write_response(&out, &resp, false, &old), 0);
    assert_int_equal(buf_len(&out), 0); /* HTTP/1.0 knows no 100 */
    buf_release(&out);
    read_response(&resp, SLICE("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n"), SLICE("GET"), &r);
    assert_false(resp.keep_alive);
    struct slice kept = SLICE("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n");
    read_response(&resp, kept, SLICE("GET"), &r);
    assert_true(resp.keep_alive);
    struct slice both =
        SLICE("HTTP/1.0 200 OK\r\nConnection: keep-alive, close\r\nContent-Length: 1\r\n\r\n");
    read_response(&resp, both, SLICE("GET"), &r);
    assert_false(resp.keep_alive);
    read_response(&resp, SLICE(OK "\r\n"), SLICE("GET"), &r);
    assert_false(resp.keep_alive);
    read_response(&resp, SLICE(OK "\r\n"), SLICE("CONNECT"), &r);
    assert_int_equal(resp.framing, HTTP_BODY_NONE);
    struct slice up = SLICE("HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_int_equal(http1_response_parse(&resp, up, SLICE("GET"), true), 0);
    assert_true(slice_eq(resp.upgrade, SLICE("websocket")));
    assert_false(resp.interim);
}

static void any(struct slice input, void *arg) {
    static struct http1_response resp;
    int r;
    read_response(&resp, input, *(struct slice *)arg, &r);
    struct http1_write opt = {.client_minor = 1};
    struct buf out;
    buf_init(&out, 1 << 20);
    if (r == 0)
        assert_int_equal(http1_write_response(&out, &resp, false, &opt), 0);
    buf_release(&out);
}

static void test_mutations(void **state) {
    (void)state;
    for (size_t i = 0; i < ROWS(good); i++) {
        struct slice method = slice_str(good[i].method);
        mutate_truncate(good[i].in, any, &method);
        mutate_flip(good[i].in, any, &method);
    }
}

/* llhttp's reading counts: an opinion that differs from it in anything is not confirmed. */
static void test_second_opinion(void **state) {
    struct slice head = SLICE("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    struct http_field fields[2] = {{.name = slice_sub(head, 18, 4), .value = slice_sub(head, 24, 1)},
                                   {.name = slice_sub(head, 27, 14), .value = slice_sub(head, 43, 1)}};
    const struct http1_opinion ours = {.head = head,
                                       .method = slice_sub(head, 0, 4),
                                       .target = slice_sub(head, 5, 2),
                                       .minor = 1,
                                       .fields = fields,
                                       .nfields = 2,
                                       .has_length = true,
                                       .length = 5};
    struct http1_opinion other = ours;
    (void)state;
    assert_true(http1_second_opinion(&other));
    other.nfields = 1;
    assert_false(http1_second_opinion(&other));
    other = ours;
    other.length = 6;
    assert_false(http1_second_opinion(&other));
    other = ours;
    other.chunked = true;
    assert_false(http1_second_opinion(&other));
    other = ours;
    other.minor = 0;
    assert_false(http1_second_opinion(&other));
    other = ours;
    other.target = slice_sub(head, 5, 1);
    assert_false(http1_second_opinion(&other));
    fields[0].value = slice_sub(head, 23, 2);
    other = ours;
    assert_false(http1_second_opinion(&other));
    fields[0].value = slice_sub(head, 24, 1);
    fields[1].name = slice_sub(head, 27, 13);
    assert_false(http1_second_opinion(&other));
    other.head = slice_sub(head, 0, head.n - 2);
    fields[1].name = slice_sub(head, 27, 14);
    assert_false(http1_second_opinion(&other));
}

/* ---- writing ---- */

static void test_write_refuses(void **state) {
    static struct http1_request req;
    static struct http1_response resp;
    static const struct http_field injected[] = {
        {.name = TEXT("Authorization"), .value = TEXT("Bearer SECRET-A\n")},
        {.name = TEXT("Authorization"), .value = TEXT("Bearer SECRET-A\r\nX: y")},
        {.name = TEXT("Authorization"), .value = TEXT("Bearer \0")},
        {.name = TEXT("Authori zation"), .value = TEXT("x")},
        {.name = TEXT(""), .value = TEXT("x")},
    };
    struct buf out;
    int r;
    (void)state;
    assert_int_equal(http1_request_parse(&req, SLICE("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")), 0);
    read_response(&resp, SLICE(OK "\r\n"), SLICE("GET"), &r);
    buf_init(&out, 1 << 16);
    buf_puts(&out, "before");
    for (size_t i = 0; i < ROWS(injected); i++) {
        struct http1_write opt = {.add = &injected[i], .nadd = 1, .client_minor = 1};
        assert_int_equal(http1_write_request(&out, &req, &opt), ERR_PARSE);
        assert_int_equal(http1_write_response(&out, &resp, false, &opt), ERR_PARSE);
        assert_int_equal(http1_write_own(&out, 403, SLICE("text/plain"), 0, &injected[i], 1, true),
                         ERR_PARSE);
    }
    struct http1_write host = {.host = SLICE("a.test\r\nX: y")};
    assert_int_equal(http1_write_request(&out, &req, &host), ERR_PARSE);
    struct http1_write target = {.retarget = true, .target = SLICE("/a b")};
    assert_int_equal(http1_write_request(&out, &req, &target), ERR_PARSE);
    assert_string_equal(buf_cstr(&out), "before");
    buf_release(&out);
}

/* A full buffer is an error and leaves nothing half-written. */
static void test_write_limit(void **state) {
    static struct http1_request req;
    struct http1_write opt = {0};
    struct buf out;
    (void)state;
    assert_int_equal(http1_request_parse(&req, SLICE("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")), 0);
    buf_init(&out, 200);
    assert_int_equal(http1_write_request(&out, &req, &opt), ERR_LIMIT);
    assert_int_equal(buf_len(&out), 0);
    buf_release(&out);
    buf_init(&out, 1024);
    assert_int_equal(http1_write_request(&out, &req, &opt), 0);
    buf_release(&out);
}

/* Whatever the client sent in a credential's name, in any spelling, is gone; the injected one is there once, last. */
static void test_write_inject(void **state) {
    static struct http1_request req;
    static const struct slice drop[] = {TEXT("authorization"), TEXT("x-api-key")};
    static const struct http_field add = {.name = TEXT("Authorization"), .value = TEXT("Basic U0VDUkVULUE=")};
    struct http1_write opt = {
        .drop = drop, .ndrop = 2, .add = &add, .nadd = 1, .host = SLICE("a.test"), .close = true};
    struct buf out;
    (void)state;
    assert_int_equal(
        http1_request_parse(&req,
                            SLICE("GET /p HTTP/1.1\r\nHost: A.test:443\r\nAuthorization: Bearer X\r\n"
                                  "AUTHORIZATION: y\r\nauthorization: z\r\nX_Api_Key: k\r\nX-API-KEY: l\r\n"
                                  "Accept: */*\r\n\r\n")),
        0);
    buf_init(&out, 1 << 16);
    assert_int_equal(http1_write_request(&out, &req, &opt), 0);
    assert_string_equal(buf_cstr(&out),
                        "GET /p HTTP/1.1\r\nHost: a.test\r\nAccept: */*\r\nConnection: close\r\n"
                        "Authorization: Basic U0VDUkVULUE=\r\n\r\n");
    buf_clear(&out);
    struct http1_write proxy = {.absolute = true, .host = SLICE("a.test:8080"), .drop = drop, .ndrop = 2};
    assert_int_equal(http1_write_request(&out, &req, &proxy), 0);
    assert_string_equal(buf_cstr(&out),
                        "GET http://a.test:8080/p HTTP/1.1\r\nHost: a.test:8080\r\nAccept: */*\r\n\r\n");
    buf_clear(&out);
    assert_int_equal(http1_write_own(&out, 403, SLICE("text/plain"), 12, NULL, 0, true), 0);
    assert_string_equal(buf_cstr(&out),
                        "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: 12\r\n"
                        "Connection: close\r\n\r\n");
    buf_release(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),           cmocka_unit_test(test_bad),
        cmocka_unit_test(test_meaning),        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_second_opinion), cmocka_unit_test(test_write_refuses),
        cmocka_unit_test(test_write_limit),    cmocka_unit_test(test_write_inject),
    };
    return cmocka_run_group_tests_name("http1_response", tests, NULL, NULL);
}
