/* proxy/codec/http1_body: where bodies end, whole and in pieces; chunked coding to the letter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "proxy/codec/http1_body.h"
#include "tests/unit/mutate.h"

#define ROWS(rows) (sizeof(rows) / sizeof((rows)[0]))
#define TEXT(s)                                                                                              \
    { (s), sizeof(s) - 1 }

struct outcome {
    enum http1_step last;
    enum http_refusal refusal;
    size_t used;
    struct buf content, trailer;
};

/* Feeds `in` in pieces of `piece` bytes until the body ends, fails or the input is used up. */
static struct outcome run(enum http_framing framing, uint64_t length, struct slice in, size_t piece) {
    struct outcome o = {.last = HTTP1_STEP_MORE};
    struct http1_body body;
    http1_body_init(&body, framing, length);
    buf_init(&o.content, 1 << 24);
    buf_init(&o.trailer, 1 << 16);
    for (;;) {
        struct slice part = slice_sub(in, o.used, piece), data;
        size_t used;
        o.last = http1_body_next(&body, part, &used, &data);
        assert_true(used <= part.n);
        assert_true(data.n == 0 || (data.p >= part.p && data.p + data.n <= part.p + part.n));
        assert_int_equal(data.n > 0, o.last == HTTP1_STEP_DATA);
        buf_put(&o.content, data);
        o.used += used;
        if (o.last == HTTP1_STEP_DONE || o.last == HTTP1_STEP_BAD)
            break;
        if (o.last == HTTP1_STEP_MORE) {
            assert_int_equal(used, part.n);
            if (o.used == in.n)
                break;
        }
    }
    assert_int_equal(body.received, buf_len(&o.content));
    o.refusal = body.refusal;
    struct http_field fields[HTTP1_TRAILER_FIELDS];
    size_t n = http1_body_trailers(&body, fields, HTTP1_TRAILER_FIELDS);
    for (size_t i = 0; i < n; i++)
        buf_printf(&o.trailer, "%.*s=%.*s%s;", SLICE_ARG(fields[i].name), SLICE_ARG(fields[i].value),
                   fields[i].hop ? "!" : "");
    http1_body_release(&body);
    return o;
}

static void outcome_release(struct outcome *o) {
    buf_release(&o->content);
    buf_release(&o->trailer);
}

static const struct {
    struct slice in;
    const char *content, *trailer;
    size_t rest; /* bytes that belong to the next message */
} good[] = {
    {TEXT("0\r\n\r\n"), "", "", 0},
    {TEXT("000\r\n\r\nGET"), "", "", 3},
    {TEXT("5\r\nhello\r\n0\r\n\r\n"), "hello", "", 0},
    {TEXT("5\r\nhel\r\n\r\n00000000000001\r\n!\r\n0\r\n\r\n0\r\n\r\n"), "hel\r\n!", "", 5},
    {TEXT("a\r\n0123456789\r\nB\r\n0123456789a\r\n0\r\n\r\n"), "01234567890123456789a", "", 0},
    {TEXT("1;a\r\nx\r\n1;a=b;c=\"d; \\\"\t\";e\r\ny\r\n0;z=1\r\n\r\n"), "xy", "", 0},
    {TEXT("1\r\nx\r\n0\r\nX-Sum: 1\r\nGrpc-Status:0\r\n\r\nG"), "x", "X-Sum=1;Grpc-Status=0;", 1},
    {TEXT("0\r\nHost: b.test\r\nAuthorization: x\r\nX-HTTP-Method-Override: y\r\nX-Ok: 1\r\ncontent_length: "
          "3\r\n"
          "Transfer-Encoding: chunked\r\nCookie: c\r\nX-Api-Key: k\r\n\r\n"),
     "",
     "Host=b.test!;Authorization=x!;X-HTTP-Method-Override=y!;X-Ok=1;content_length=3!;Transfer-Encoding="
     "chunked!;"
     "Cookie=c!;X-Api-Key=k!;",
     0},
};

static void test_good(void **state) {
    (void)state;
    for (size_t i = 0; i < ROWS(good); i++) {
        for (size_t piece = 1; piece <= good[i].in.n; piece++) {
            struct outcome o = run(HTTP_BODY_CHUNKED, 0, good[i].in, piece);
            if (o.last != HTTP1_STEP_DONE)
                fail_msg("row %zu, pieces of %zu: %s", i, piece, http_refusal_code(o.refusal));
            assert_int_equal(o.used, good[i].in.n - good[i].rest);
            assert_string_equal(buf_cstr(&o.content), good[i].content);
            assert_string_equal(buf_cstr(&o.trailer), good[i].trailer);
            outcome_release(&o);
        }
    }
}

static const struct {
    struct slice in;
    enum http_refusal refusal;
} bad[] = {
    {TEXT("\r\n"), HTTP_REFUSED_CHUNK},
    {TEXT("g\r\n"), HTTP_REFUSED_CHUNK},
    {TEXT("-1\r\n"), HTTP_REFUSED_CHUNK},
    {TEXT("+1\r\n"), HTTP_REFUSED_CHUNK},
    {TEXT("0x1\r\n"), HTTP_REFUSED_CHUNK},
    {TEXT(" 1\r\n"), HTTP_REFUSED_CHUNK},
    {TEXT("1 \r\n"), HTTP_REFUSED_CHUNK},
    {TEXT("1\n"), HTTP_REFUSED_CHUNK},
    {TEXT("1\r\r\n"), HTTP_REFUSED_CHUNK},
    {TEXT("1\rx"), HTTP_REFUSED_CHUNK},
    {TEXT("1\r\nab"), HTTP_REFUSED_CHUNK},
    {TEXT("1\r\na\n"), HTTP_REFUSED_CHUNK},
    {TEXT("1\r\na\r\r"), HTTP_REFUSED_CHUNK},
    {TEXT("8000000000000000\r\n"), HTTP_REFUSED_CHUNK},
    {TEXT("ffffffffffffffff\r\n"), HTTP_REFUSED_CHUNK},
    {TEXT("10000000000000000\r\n"), HTTP_REFUSED_CHUNK},
    {TEXT("00000000000000001\r\n"), HTTP_REFUSED_CHUNK},
    {TEXT("1;\r\n"), HTTP_REFUSED_CHUNK_EXTENSION},
    {TEXT("1;a\n"), HTTP_REFUSED_CHUNK_EXTENSION},
    {TEXT("1; a\r\n"), HTTP_REFUSED_CHUNK_EXTENSION},
    {TEXT("1;a b\r\n"), HTTP_REFUSED_CHUNK_EXTENSION},
    {TEXT("1;a=\r\n"), HTTP_REFUSED_CHUNK_EXTENSION},
    {TEXT("1;=b\r\n"), HTTP_REFUSED_CHUNK_EXTENSION},
    {TEXT("1;a=b;\r\n"), HTTP_REFUSED_CHUNK_EXTENSION},
    {TEXT("1;a=\"b\r\n"), HTTP_REFUSED_CHUNK_EXTENSION},
    {TEXT("1;a=\"b\n\"\r\n"), HTTP_REFUSED_CHUNK_EXTENSION},
    {TEXT("1;a=\"b\\\n\"\r\n"), HTTP_REFUSED_CHUNK_EXTENSION},
    {TEXT("1;a=\"b\"c\r\n"), HTTP_REFUSED_CHUNK_EXTENSION},
    {TEXT("1;a=\"\0\"\r\n"), HTTP_REFUSED_CHUNK_EXTENSION},
    {TEXT("1;a\rx\r\n"), HTTP_REFUSED_CHUNK},
    {TEXT("0\r\n\rx"), HTTP_REFUSED_CHUNK},
    {TEXT("0\r\n\n"), HTTP_REFUSED_TRAILER},
    {TEXT("0\r\nX: a\n\r\n"), HTTP_REFUSED_TRAILER},
    {TEXT("0\r\nX: a\rb\r\n\r\n"), HTTP_REFUSED_TRAILER},
    {TEXT("0\r\nX: a\r\n b\r\n\r\n"), HTTP_REFUSED_TRAILER},
    {TEXT("0\r\nX : a\r\n\r\n"), HTTP_REFUSED_TRAILER},
    {TEXT("0\r\nX: \0\r\n\r\n"), HTTP_REFUSED_TRAILER},
    {TEXT("0\r\nX: \001\r\n\r\n"), HTTP_REFUSED_TRAILER},
    {TEXT("0\r\nGET / HTTP/1.1\r\n\r\n"), HTTP_REFUSED_TRAILER},
};

static void test_bad(void **state) {
    (void)state;
    for (size_t i = 0; i < ROWS(bad); i++) {
        size_t used_whole = 0;
        for (size_t piece = bad[i].in.n; piece > 0; piece--) {
            struct outcome o = run(HTTP_BODY_CHUNKED, 0, bad[i].in, piece);
            if (o.last != HTTP1_STEP_BAD || o.refusal != bad[i].refusal)
                fail_msg("row %zu: step %d, %s", i, o.last, http_refusal_code(o.refusal));
            if (piece == bad[i].in.n)
                used_whole = o.used;
            assert_int_equal(o.used, used_whole);
            outcome_release(&o);
        }
    }
}

static void test_limits(void **state) {
    struct buf b;
    (void)state;
    buf_init(&b, 1 << 24);
    buf_puts(&b, "1;");
    for (int i = 0; i < HTTP1_CHUNK_EXTENSION_MAX; i++)
        buf_putc(&b, 'a');
    struct outcome o = run(HTTP_BODY_CHUNKED, 0, buf_slice(&b), 4096);
    assert_int_equal(o.last, HTTP1_STEP_MORE);
    outcome_release(&o);
    buf_putc(&b, 'a');
    o = run(HTTP_BODY_CHUNKED, 0, buf_slice(&b), 4096);
    assert_int_equal(o.refusal, HTTP_REFUSED_CHUNK_EXTENSION);
    outcome_release(&o);

    buf_clear(&b); /* many small extensions: the sum is bounded */
    for (int i = 0; i < 20000; i++)
        buf_puts(&b, "1;abc\r\nx\r\n");
    o = run(HTTP_BODY_CHUNKED, 0, buf_slice(&b), 4096);
    assert_int_equal(o.refusal, HTTP_REFUSED_CHUNK_EXTENSION);
    outcome_release(&o);

    buf_clear(&b);
    buf_puts(&b, "0\r\nX: ");
    for (int i = 0; i < HTTP1_TRAILER_MAX; i++)
        buf_putc(&b, 'a');
    o = run(HTTP_BODY_CHUNKED, 0, buf_slice(&b), 4096);
    assert_int_equal(o.refusal, HTTP_REFUSED_TRAILER);
    outcome_release(&o);

    for (int n = HTTP1_TRAILER_FIELDS; n <= HTTP1_TRAILER_FIELDS + 1; n++) {
        buf_clear(&b);
        buf_puts(&b, "0\r\n");
        for (int i = 0; i < n; i++)
            buf_puts(&b, "X: a\r\n");
        buf_puts(&b, "\r\n");
        o = run(HTTP_BODY_CHUNKED, 0, buf_slice(&b), 4096);
        assert_int_equal(o.last, n == HTTP1_TRAILER_FIELDS ? HTTP1_STEP_DONE : HTTP1_STEP_BAD);
        outcome_release(&o);
    }
    buf_release(&b);
}

static void test_length(void **state) {
    struct slice in = SLICE("helloGET");
    (void)state;
    for (size_t piece = 1; piece <= in.n; piece++) {
        struct outcome o = run(HTTP_BODY_LENGTH, 5, in, piece);
        assert_int_equal(o.last, HTTP1_STEP_DONE);
        assert_int_equal(o.used, 5);
        assert_string_equal(buf_cstr(&o.content), "hello");
        outcome_release(&o);
        o = run(HTTP_BODY_CLOSE, 0, in, piece);
        assert_int_equal(o.last, HTTP1_STEP_MORE);
        assert_string_equal(buf_cstr(&o.content), "helloGET");
        outcome_release(&o);
    }
    struct outcome o = run(HTTP_BODY_NONE, 0, in, 8);
    assert_int_equal(o.last, HTTP1_STEP_DONE);
    assert_int_equal(o.used, 0);
    outcome_release(&o);
    o = run(HTTP_BODY_LENGTH, 0, in, 8);
    assert_int_equal(o.last, HTTP1_STEP_DONE);
    outcome_release(&o);
}

static void test_eof(void **state) {
    struct http1_body body;
    struct slice data;
    size_t used;
    (void)state;
    http1_body_init(&body, HTTP_BODY_LENGTH, 2);
    http1_body_next(&body, SLICE("a"), &used, &data);
    assert_int_equal(http1_body_eof(&body), ERR_EOF);
    http1_body_next(&body, SLICE("b"), &used, &data);
    assert_int_equal(http1_body_eof(&body), 0);
    http1_body_init(&body, HTTP_BODY_CHUNKED, 0);
    http1_body_next(&body, SLICE("0\r\n"), &used, &data);
    assert_int_equal(http1_body_eof(&body), ERR_EOF);
    http1_body_init(&body, HTTP_BODY_CLOSE, 0);
    http1_body_next(&body, SLICE("abc"), &used, &data);
    assert_int_equal(http1_body_eof(&body), 0);
    http1_body_init(&body, HTTP_BODY_NONE, 0);
    assert_int_equal(http1_body_eof(&body), 0);
}

static void any(struct slice input, void *arg) {
    (void)arg;
    struct outcome whole = run(HTTP_BODY_CHUNKED, 0, input, input.n ? input.n : 1);
    struct outcome bytes = run(HTTP_BODY_CHUNKED, 0, input, 1);
    assert_int_equal(whole.refusal, bytes.refusal);
    assert_int_equal(whole.used, bytes.used);
    assert_true(slice_eq(buf_slice(&whole.content), buf_slice(&bytes.content)));
    outcome_release(&whole);
    outcome_release(&bytes);
}

static void test_mutations(void **state) {
    (void)state;
    for (size_t i = 0; i < ROWS(good); i++) {
        mutate_truncate(good[i].in, any, NULL);
        mutate_flip(good[i].in, any, NULL);
    }
}

static void test_encoder(void **state) {
    static const struct {
        uint64_t n;
        const char *text;
    } heads[] = {{1, "1\r\n"},
                 {10, "A\r\n"},
                 {16, "10\r\n"},
                 {0x1f40, "1F40\r\n"},
                 {UINT64_MAX, "FFFFFFFFFFFFFFFF\r\n"}};
    (void)state;
    for (size_t i = 0; i < ROWS(heads); i++) {
        char head[HTTP1_CHUNK_HEAD_MAX];
        size_t n = http1_chunk_head(head, heads[i].n);
        assert_true(slice_eq(slice_make(head, n), slice_str(heads[i].text)));
    }
    struct http_field fields[] = {{.name = TEXT("X-Sum"), .value = TEXT("1")},
                                  {.name = TEXT("Authorization"), .value = TEXT("x"), .hop = true},
                                  {.name = TEXT("X-Secret"), .value = TEXT("x")},
                                  {.name = TEXT("X-Bad"), .value = TEXT("a\r\nb")}};
    struct slice drop = SLICE("x_secret");
    struct buf out;
    buf_init(&out, 64);
    assert_int_equal(http1_chunk_end(&out, fields, 4, &drop, 1), 0);
    assert_string_equal(buf_cstr(&out), "0\r\nX-Sum: 1\r\n\r\n");
    buf_clear(&out);
    assert_int_equal(http1_chunk_end(&out, NULL, 0, NULL, 0), 0);
    assert_string_equal(buf_cstr(&out), "0\r\n\r\n");
    buf_release(&out);
    buf_init(&out, 12);
    assert_int_equal(http1_chunk_end(&out, fields, 1, NULL, 0), ERR_LIMIT);
    assert_int_equal(buf_len(&out), 0);
    buf_release(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),    cmocka_unit_test(test_bad), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_length),  cmocka_unit_test(test_eof), cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_encoder),
    };
    return cmocka_run_group_tests_name("http1_body", tests, NULL, NULL);
}
