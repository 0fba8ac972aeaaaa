/* proxy/codec/websocket: which requests ask for one, which answers grant it, and how both are passed on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "proxy/codec/http1_write.h"
#include "proxy/codec/websocket.h"

#define KEY      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define THIRTEEN "Sec-WebSocket-Version: 13\r\n"
#define ASKS     "Connection: Upgrade\r\nUpgrade: websocket\r\n"
#define ACCEPT   "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"

static bool asked(const char *start, const char *fields, struct slice *key) {
    static struct http1_request req;
    static struct buf head;
    buf_init(&head, 4096);
    assert_int_equal(buf_put(&head, slice_str(start)), 0);
    assert_int_equal(buf_put(&head, SLICE(" HTTP/1.1\r\nHost: a.test\r\n")), 0);
    assert_int_equal(buf_put(&head, slice_str(fields)), 0);
    assert_int_equal(buf_put(&head, SLICE("\r\n")), 0);
    assert_int_equal(http1_request_parse(&req, buf_slice(&head)), 0);
    bool is = websocket_asked(&req, key);
    if (is)
        assert_true(slice_eq(*key, SLICE("dGhlIHNhbXBsZSBub25jZQ==")));
    buf_release(&head);
    return is;
}

static void test_asked(void **state) {
    static const char *const good[] = {
        ASKS KEY THIRTEEN,
        "connection: keep-alive, UPGRADE\r\nUPGRADE: WebSocket\r\n" KEY THIRTEEN "Origin: https://a.test\r\n",
        "Connection: keep-alive\r\nConnection: upgrade\r\nUpgrade: websocket\r\n" KEY THIRTEEN,
        ASKS KEY THIRTEEN "Content-Length: 0\r\n",
    };
    static const char *const bad[] = {
        "Upgrade: websocket\r\n" KEY THIRTEEN,
        "Connection: Upgrade\r\n" KEY THIRTEEN,
        ASKS KEY,
        ASKS THIRTEEN,
        ASKS KEY "Sec-WebSocket-Version: 8\r\n",
        ASKS KEY "Sec-WebSocket-Version: 13, 8\r\n",
        ASKS KEY KEY THIRTEEN,
        ASKS KEY THIRTEEN THIRTEEN,
        ASKS "Upgrade: h2c\r\n" KEY THIRTEEN,
        "Connection: Upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket\r\n" KEY THIRTEEN,
        "Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n" KEY THIRTEEN,
        "Connection: Upgrade\r\nUpgrade: websocket/13\r\n" KEY THIRTEEN,
        "Connection: Upgrade\r\nUpgrade: h2c\r\n" KEY THIRTEEN,
        "Connection: Upgrade\r\nUpgrade: TLS/1.2\r\n" KEY THIRTEEN,
        "Connection: Upgrade, Sec-WebSocket-Key\r\nUpgrade: websocket\r\n" KEY THIRTEEN,
        ASKS KEY THIRTEEN "Content-Length: 1\r\n",
        ASKS KEY THIRTEEN "Transfer-Encoding: chunked\r\n",
        ASKS "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ\r\n" THIRTEEN,
        ASKS "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZR==\r\n" THIRTEEN,
        ASKS "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j-g==\r\n" THIRTEEN,
        ASKS "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQAA\r\n" THIRTEEN,
        ASKS "Sec-WebSocket-Key:\r\n" THIRTEEN,
    };
    struct slice key;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!asked("GET /ws", good[i], &key))
            fail_msg("not taken for a handshake: %s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (asked("GET /ws", bad[i], &key))
            fail_msg("taken for a handshake: %s", bad[i]);
    assert_false(asked("POST /ws", good[0], &key));
    assert_false(asked("HEAD /ws", good[0], &key));
}

static void test_not_in_1_0(void **state) {
    static struct http1_request req;
    struct slice key;
    (void)state;
    assert_int_equal(
        http1_request_parse(&req, SLICE("GET / HTTP/1.0\r\nHost: a.test\r\n" ASKS KEY THIRTEEN "\r\n")), 0);
    assert_false(websocket_asked(&req, &key));
}

static void test_granted(void **state) {
    static const char start[] = "HTTP/1.1 101 Switching Protocols\r\n";
    static const struct {
        const char *start, *fields;
        bool good;
    } rows[] = {
        {start, ASKS ACCEPT, true},
        {start, "connection: keep-alive, upgrade\r\nupgrade: WEBSOCKET\r\n" ACCEPT, true},
        {start, ASKS, false},
        {start, ASKS "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOO=\r\n", false},
        {start, ASKS "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo\r\n", false},
        {start, ASKS "Sec-WebSocket-Accept: S3PPLMBITXAQ9KYGZZHZRBK+XOO=\r\n", false},
        {start, ASKS ACCEPT ACCEPT, false},
        {start, ASKS "Upgrade: h2c\r\n" ACCEPT, false},
        {start, "Connection: Upgrade\r\nUpgrade: h2c\r\n" ACCEPT, false},
        {start, "Upgrade: websocket\r\n" ACCEPT, false},
        {"HTTP/1.0 101 Switching Protocols\r\n", ASKS ACCEPT, false},
        {"HTTP/1.1 200 OK\r\n", ASKS ACCEPT, false},
    };
    static struct http1_response resp;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct buf head;
        buf_init(&head, 4096);
        assert_int_equal(buf_put(&head, slice_str(rows[i].start)), 0);
        assert_int_equal(buf_put(&head, slice_str(rows[i].fields)), 0);
        assert_int_equal(buf_put(&head, SLICE("\r\n")), 0);
        assert_int_equal(http1_response_parse(&resp, buf_slice(&head), SLICE("GET"), true), 0);
        if (websocket_granted(&resp, SLICE("dGhlIHNhbXBsZSBub25jZQ==")) != rows[i].good)
            fail_msg("row %zu: %s", i, rows[i].fields);
        assert_false(websocket_granted(&resp, SLICE("dGhlIHNhbXBsZSBub25jZg==")));
        assert_false(websocket_granted(&resp, SLICE_NONE));
        buf_release(&head);
    }
}

/* What the upgrade hangs on is of our making, the rest is passed on. */
static void test_written(void **state) {
    static struct http1_request req;
    static struct http1_response resp;
    struct buf out;
    (void)state;
    buf_init(&out, 4096);
    assert_int_equal(
        http1_request_parse(&req, SLICE("GET /ws?a HTTP/1.1\r\nHost: a.test\r\n"
                                        "Connection: TE, keep-alive, UpGrade, x-hop\r\nX-Hop: 1\r\n"
                                        "TE: trailers\r\nUPGRADE: WebSocket\r\n" KEY THIRTEEN
                                        "Sec-WebSocket-Protocol: chat\r\n\r\n")),
        0);
    struct http1_write opt = {.upgrade = WEBSOCKET_NAME};
    assert_int_equal(http1_write_request(&out, &req, &opt), 0);
    assert_string_equal(buf_cstr(&out), "GET /ws?a HTTP/1.1\r\nHost: a.test\r\n" KEY THIRTEEN
                                        "Sec-WebSocket-Protocol: chat\r\n"
                                        "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    buf_clear(&out);
    struct http1_write not_asked = {0};
    assert_int_equal(http1_write_request(&out, &req, &not_asked), 0);
    assert_null(strstr(buf_cstr(&out), "pgrade"));
    buf_clear(&out);
    assert_int_equal(
        http1_response_parse(&resp,
                             SLICE("HTTP/1.1 101 Switching Protocols\r\nUPGRADE: WebSocket\r\n"
                                   "Connection: upgrade, x-hop\r\nX-Hop: 1\r\nContent-Length: 5\r\n" ACCEPT
                                   "\r\n"),
                             SLICE("GET"), true),
        0);
    struct http1_write answer = {.client_minor = 1, .client_keep_alive = true, .upgrade = WEBSOCKET_NAME};
    assert_int_equal(http1_write_response(&out, &resp, false, &answer), 0);
    assert_false(answer.closing);
    assert_string_equal(buf_cstr(&out), "HTTP/1.1 101 Switching Protocols\r\n" ACCEPT
                                        "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    buf_release(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_asked),
        cmocka_unit_test(test_not_in_1_0),
        cmocka_unit_test(test_granted),
        cmocka_unit_test(test_written),
    };
    return cmocka_run_group_tests_name("websocket", tests, NULL, NULL);
}
