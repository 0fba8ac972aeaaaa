/* proxy/codec/http2: lists of fields become heads of HTTP/1.1, or are refused. proxy/io/http2_guard: budgets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "proxy/codec/http2.h"
#include "proxy/io/http2_guard.h"
#include "tests/unit/mutate.h"

#define ROWS(rows) (sizeof(rows) / sizeof((rows)[0]))
#define KEY        "dGhlIHNhbXBsZSBub25jZQ=="
#define REQUEST    ":method GET|:scheme https|:authority a.test|:path /x|"
#define POST       ":method POST|:scheme https|:authority a.test|:path /x|"

/* A list written as "name value|name value|". */
static void fill(struct http2_list *list, struct slice text) {
    struct slice field, name, value;
    http2_list_init(list);
    while (text.n) {
        slice_cut(text, '|', &field, &text);
        slice_cut(field, ' ', &name, &value);
        assert_int_equal(http2_list_add(list, name, value, false), 0);
    }
}

static enum http_refusal request(struct slice text, bool ended, struct buf *out,
                                 struct http2_request *about) {
    struct http2_list list;
    fill(&list, text);
    buf_init(out, HTTP1_HEAD_MAX);
    enum http_refusal refusal = http2_request_head(&list, ended, KEY, out, about);
    about->method = SLICE_NONE; /* it lay in the list */
    http2_list_clear(&list);
    return refusal;
}

/* Names that begin with '!' are never to be indexed; those that are so in the end, of the head that the list means. */
static const struct {
    const char *in, *marked; /* with their places behind Host */
} marked[] = {
    {"a 1|b 2|", ""},
    {"a 1|!b 2|c 3|", "2:b=2|"},
    {"a 1|!a 1|a 1|", "2:a=1|"},
    {"!host a.test|!b 2|", "0:host=a.test|1:b=2|"},
    {"cookie x=1|!a 1|!cookie y=2|b 2|", "1:a=1|3:cookie=x=1; y=2|"},
    {"!cookie x=1|cookie y=2|b 2|", "2:cookie=x=1; y=2|"},
};

static void fill_marked(struct http2_list *list, struct slice text) {
    struct slice field, name, value;
    while (text.n) {
        slice_cut(text, '|', &field, &text);
        slice_cut(field, ' ', &name, &value);
        bool never = slice_starts(name, SLICE("!"));
        assert_int_equal(http2_list_add(list, slice_from(name, never), value, never), 0);
    }
}

/* RFC 7541 6.2.3. */
static void test_never_indexed(void **state) {
    static const char *const pseudos[] = {REQUEST, ":method GET|:scheme https|:authority a.test|!:path /x|"};
    static struct http1_request req;
    (void)state;
    for (size_t i = 0; i < 2 * ROWS(marked); i++) {
        struct http2_list list;
        struct http2_request about;
        struct buf out, seen;
        http2_list_init(&list);
        buf_init(&out, HTTP1_HEAD_MAX);
        buf_init(&seen, HTTP1_HEAD_MAX);
        fill_marked(&list, slice_str(pseudos[i % 2]));
        fill_marked(&list, slice_str(marked[i / 2].in));
        assert_int_equal(http2_request_head(&list, true, KEY, &out, &about), HTTP_REFUSED_NOT);
        assert_int_equal(http1_request_parse(&req, buf_slice(&out)), 0);
        bool pseudo = http2_list_marks(&list, req.fields, req.nfields);
        assert_int_equal(pseudo, i % 2 || req.fields[0].never);
        for (size_t k = 0; k < req.nfields; k++)
            if (req.fields[k].never)
                buf_printf(&seen, "%zu:%.*s=%.*s|", k, SLICE_ARG(req.fields[k].name),
                           SLICE_ARG(req.fields[k].value));
        assert_true(slice_eq(buf_slice(&seen), slice_str(marked[i / 2].marked)));
        buf_release(&seen);
        buf_release(&out);
        http2_list_clear(&list);
    }
}

/* list, does it end the stream, the head that it means */
static const struct {
    const char *in;
    bool ended;
    const char *out;
} good[] = {
    {REQUEST, true, "GET /x HTTP/1.1\r\nhost: a.test\r\n\r\n"},
    {":path /x|:authority a.test:443|:method GET|:scheme HTTPS|", true,
     "GET /x HTTP/1.1\r\nhost: a.test:443\r\n\r\n"},
    {REQUEST, false, "GET /x HTTP/1.1\r\nhost: a.test\r\ntransfer-encoding: chunked\r\n\r\n"},
    {REQUEST "content-length 5|", false, "GET /x HTTP/1.1\r\nhost: a.test\r\ncontent-length: 5\r\n\r\n"},
    {POST, true, "POST /x HTTP/1.1\r\nhost: a.test\r\ncontent-length: 0\r\n\r\n"},
    {POST "content-length 0|", true, "POST /x HTTP/1.1\r\nhost: a.test\r\ncontent-length: 0\r\n\r\n"},
    {":method GET|:scheme https|:path /x|host a.test|", true, "GET /x HTTP/1.1\r\nhost: a.test\r\n\r\n"},
    {REQUEST "host A.test:443|x 1|", true, "GET /x HTTP/1.1\r\nhost: a.test\r\nx: 1\r\n\r\n"},
    {REQUEST "cookie a=1|x 1|cookie b=2|cookie c=3|", true,
     "GET /x HTTP/1.1\r\nhost: a.test\r\nx: 1\r\ncookie: a=1; b=2; c=3\r\n\r\n"},
    {REQUEST "te trailers|x |", true, "GET /x HTTP/1.1\r\nhost: a.test\r\nte: trailers\r\nx: \r\n\r\n"},
    {":method OPTIONS|:scheme https|:authority a.test|:path *|", true,
     "OPTIONS * HTTP/1.1\r\nhost: a.test\r\n\r\n"},
    {":method CONNECT|:authority a.test:443|", false,
     "CONNECT a.test:443 HTTP/1.1\r\nhost: a.test:443\r\n\r\n"},
    {":method CONNECT|:protocol websocket|:scheme https|:authority a.test|:path /ws|"
     "sec-websocket-version 13|sec-websocket-key other|",
     false,
     "GET /ws HTTP/1.1\r\nhost: a.test\r\nsec-websocket-version: 13\r\nsec-websocket-key: " KEY
     "\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"},
};

static void test_requests(void **state) {
    (void)state;
    for (size_t i = 0; i < ROWS(good); i++) {
        static struct http1_request req;
        struct http2_request about;
        struct buf out;
        assert_int_equal(request(slice_str(good[i].in), good[i].ended, &out, &about), HTTP_REFUSED_NOT);
        assert_string_equal(buf_cstr(&out), good[i].out);
        assert_int_equal(http1_request_parse(&req, buf_slice(&out)), 0);
        assert_int_equal(about.websocket, strstr(good[i].in, ":protocol") != NULL);
        buf_release(&out);
    }
}

static const struct {
    const char *in;
    enum http_refusal refusal;
} bad[] = {
    {"", HTTP_REFUSED_PSEUDO},
    {":scheme https|:authority a.test|:path /x|", HTTP_REFUSED_PSEUDO},
    {":method GET|:authority a.test|:path /x|", HTTP_REFUSED_PSEUDO},
    {":method GET|:scheme https|:authority a.test|", HTTP_REFUSED_PSEUDO},
    {":method GET|:scheme https|:authority a.test|:path |", HTTP_REFUSED_PSEUDO},
    {REQUEST ":method GET|", HTTP_REFUSED_PSEUDO},
    {REQUEST ":path /y|", HTTP_REFUSED_PSEUDO},
    {REQUEST ":status 200|", HTTP_REFUSED_PSEUDO},
    {REQUEST ":new 1|", HTTP_REFUSED_PSEUDO},
    {REQUEST ": 1|", HTTP_REFUSED_PSEUDO},
    {REQUEST ":protocol websocket|", HTTP_REFUSED_PSEUDO},
    {":method GET|:scheme https|:authority a.test|x 1|:path /x|", HTTP_REFUSED_PSEUDO},
    {":method CONNECT|:authority a.test:443|:path /|", HTTP_REFUSED_PSEUDO},
    {":method CONNECT|", HTTP_REFUSED_PSEUDO},
    {":method CONNECT|:protocol websocket|:scheme https|:authority a.test|:path /ws|", HTTP_REFUSED_PSEUDO},
    {":method CONNECT|:protocol bytes|:scheme https|:authority a.test|:path /ws|", HTTP_REFUSED_PROTOCOL},
    {":method G ET|:scheme https|:authority a.test|:path /x|", HTTP_REFUSED_METHOD},
    {":method GET|:scheme http|:authority a.test|:path /x|", HTTP_REFUSED_SCHEME},
    {":method GET|:scheme ftp|:authority a.test|:path /x|", HTTP_REFUSED_SCHEME},
    {":method GET|:scheme https|:authority a.test|:path x|", HTTP_REFUSED_TARGET},
    {":method GET|:scheme https|:authority a.test|:path /a b|", HTTP_REFUSED_TARGET},
    {":method GET|:scheme https|:authority a.test|:path https://a.test/|", HTTP_REFUSED_TARGET},
    {REQUEST "X 1|", HTTP_REFUSED_NAME_CASE},
    {":Method GET|:scheme https|:authority a.test|:path /x|", HTTP_REFUSED_NAME_CASE},
    {REQUEST "x\r 1|", HTTP_REFUSED_NAME},
    {REQUEST " 1|", HTTP_REFUSED_NAME},
    {REQUEST "x: 1|", HTTP_REFUSED_NAME},
    {REQUEST "x a\rb|", HTTP_REFUSED_LINE_END},
    {REQUEST "x a\nb|", HTTP_REFUSED_LINE_END},
    {":method GET|:scheme https|:authority a.test|:path /x\r\ny: 1|", HTTP_REFUSED_LINE_END},
    {":method GET|:scheme https|:authority a.test\n|:path /x|", HTTP_REFUSED_LINE_END},
    {REQUEST "x a\x01|", HTTP_REFUSED_CONTROL},
    {REQUEST "x  a|", HTTP_REFUSED_VALUE_SPACE},
    {REQUEST "x a\t|", HTTP_REFUSED_VALUE_SPACE},
    {REQUEST "connection close|", HTTP_REFUSED_HOP_FIELD},
    {REQUEST "keep-alive 5|", HTTP_REFUSED_HOP_FIELD},
    {REQUEST "proxy-connection close|", HTTP_REFUSED_HOP_FIELD},
    {REQUEST "transfer-encoding chunked|", HTTP_REFUSED_HOP_FIELD},
    {REQUEST "transfer_encoding chunked|", HTTP_REFUSED_HOP_FIELD},
    {REQUEST "upgrade websocket|", HTTP_REFUSED_HOP_FIELD},
    {REQUEST "http2-settings AA|", HTTP_REFUSED_HOP_FIELD},
    {REQUEST "te gzip|", HTTP_REFUSED_HOP_FIELD},
    {REQUEST "te trailers, gzip|", HTTP_REFUSED_HOP_FIELD},
    {REQUEST "host b.test|", HTTP_REFUSED_HOST_DIFFERS},
    {REQUEST "host a.test:8443|", HTTP_REFUSED_HOST_DIFFERS},
    {REQUEST "host a.test|host a.test|", HTTP_REFUSED_HOST_REPEATED},
    {REQUEST "host a.test/|", HTTP_REFUSED_HOST_BAD},
};

static void test_malformed_requests(void **state) {
    (void)state;
    for (size_t i = 0; i < ROWS(bad); i++) {
        struct http2_request about;
        struct buf out;
        enum http_refusal refusal = request(slice_str(bad[i].in), true, &out, &about);
        if (refusal != bad[i].refusal)
            fail_msg("%s: %s", bad[i].in, http_refusal_code(refusal));
        buf_release(&out);
    }
}

static void test_limits(void **state) {
    (void)state;
    struct http2_list list;
    static char value[HTTP2_LIST_MAX];
    memset(value, 'v', sizeof value);
    fill(&list, SLICE(REQUEST));
    assert_int_equal(
        http2_list_add(&list, SLICE("x"), slice_make(value, sizeof value - list.size - 33), false), 0);
    assert_int_equal(list.refusal, HTTP_REFUSED_NOT);
    assert_int_equal(list.size, HTTP2_LIST_MAX);
    assert_int_equal(http2_list_add(&list, SLICE("y"), SLICE_NONE, false), 0);
    assert_int_equal(list.refusal, HTTP_REFUSED_TOO_LONG);
    http2_list_clear(&list);
    for (unsigned i = 0; i <= HTTP2_LIST_FIELDS; i++) {
        assert_int_equal(list.refusal, HTTP_REFUSED_NOT);
        assert_int_equal(http2_list_add(&list, SLICE("x"), SLICE("1"), false), 0);
    }
    assert_int_equal(list.refusal, HTTP_REFUSED_TOO_MANY);
    http2_list_clear(&list);
}

/* list, does it end the stream, head or NULL, refusal */
static const struct {
    const char *in;
    bool ended;
    const char *out;
    enum http_refusal refusal;
} answers[] = {
    {":status 200|content-type text/plain|", false,
     "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n", HTTP_REFUSED_NOT},
    {":status 200|content-length 5|", false, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n",
     HTTP_REFUSED_NOT},
    {":status 200|grpc-status 0|", true, "HTTP/1.1 200 OK\r\ngrpc-status: 0\r\n\r\n", HTTP_REFUSED_NOT},
    {":status 304|etag x|", true, "HTTP/1.1 304 \r\netag: x\r\n\r\n", HTTP_REFUSED_NOT},
    {":status 204|", false, "HTTP/1.1 204 No Content\r\n\r\n", HTTP_REFUSED_NOT},
    {":status 103|link x|", false, "HTTP/1.1 103 \r\nlink: x\r\n\r\n", HTTP_REFUSED_NOT},
    {":status 101|", false, NULL, HTTP_REFUSED_SWITCHED},
    {":status 99|", false, NULL, HTTP_REFUSED_STATUS_LINE},
    {":status 2000|", false, NULL, HTTP_REFUSED_STATUS_LINE},
    {":status 20x|", false, NULL, HTTP_REFUSED_STATUS_LINE},
    {"x 1|", false, NULL, HTTP_REFUSED_PSEUDO},
    {":status 200|:status 200|", false, NULL, HTTP_REFUSED_PSEUDO},
    {":status 200|:path /|", false, NULL, HTTP_REFUSED_PSEUDO},
    {":status 200|connection close|", false, NULL, HTTP_REFUSED_HOP_FIELD},
    {":status 200|x a\nb|", false, NULL, HTTP_REFUSED_LINE_END},
};

static void test_answers(void **state) {
    (void)state;
    for (size_t i = 0; i < ROWS(answers); i++) {
        struct http2_list list;
        struct buf out;
        fill(&list, slice_str(answers[i].in));
        buf_init(&out, HTTP1_HEAD_MAX);
        assert_int_equal(http2_response_head(&list, answers[i].ended, SLICE_NONE, &out), answers[i].refusal);
        if (answers[i].out)
            assert_string_equal(buf_cstr(&out), answers[i].out);
        buf_release(&out);
        http2_list_clear(&list);
    }
}

/* An answer to an extended CONNECT: it is granted by 2xx on a stream that stays open, and by nothing else. */
static void test_websocket_answers(void **state) {
    static const struct {
        const char *in;
        bool ended;
        const char *out;
    } rows[] = {
        {":status 200|sec-websocket-protocol chat|sec-websocket-accept bad|", false,
         "HTTP/1.1 101 \r\nconnection: upgrade\r\nupgrade: websocket\r\n"
         "sec-websocket-accept: PROOF\r\nsec-websocket-protocol: chat\r\n\r\n"},
        {":status 200|", true, "HTTP/1.1 200 OK\r\n\r\n"},
        {":status 403|", false, "HTTP/1.1 403 Forbidden\r\ntransfer-encoding: chunked\r\n\r\n"},
        {":status 103|", false, "HTTP/1.1 103 \r\n\r\n"},
    };
    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct http2_list list;
        struct buf out;
        fill(&list, slice_str(rows[i].in));
        buf_init(&out, HTTP1_HEAD_MAX);
        assert_int_equal(http2_response_head(&list, rows[i].ended, SLICE("PROOF"), &out), HTTP_REFUSED_NOT);
        assert_string_equal(buf_cstr(&out), rows[i].out);
        buf_release(&out);
        http2_list_clear(&list);
    }
}

static void test_trailers(void **state) {
    (void)state;
    struct http2_list list;
    struct http_field fields[4];
    size_t n;
    fill(&list, SLICE("grpc-status 0|content-length 5|x 1|"));
    assert_int_equal(http2_trailers(&list, fields, 4, &n), HTTP_REFUSED_NOT);
    assert_int_equal(n, 3);
    assert_false(fields[0].hop);
    assert_true(fields[1].hop);
    assert_int_equal(http2_trailers(&list, fields, 2, &n), HTTP_REFUSED_TRAILER);
    http2_list_clear(&list);
    fill(&list, SLICE(":status 200|"));
    assert_int_equal(http2_trailers(&list, fields, 4, &n), HTTP_REFUSED_PSEUDO);
    http2_list_clear(&list);
}

/* Whatever is in a list: the head that comes of it has no more lines than the list has fields, and ours. */
static void check_mutated(struct slice text, void *arg) {
    static struct http1_request req;
    struct http2_request about;
    struct buf out;
    size_t fields = 0, lines = 0;
    (void)arg;
    for (size_t i = 0; i < text.n; i++)
        fields += text.p[i] == '|';
    if (request(text, false, &out, &about) == HTTP_REFUSED_NOT) {
        struct slice head = buf_slice(&out);
        for (size_t i = 0; i < head.n; i++)
            lines += head.p[i] == '\n';
        assert_true(lines <= fields + 2);
        if (http1_request_parse(&req, head))
            assert_int_not_equal(req.refusal, HTTP_REFUSED_SECOND_OPINION);
    }
    buf_release(&out);
}

static void test_mutated(void **state) {
    (void)state;
    for (size_t i = 0; i < ROWS(good); i++) {
        mutate_truncate(slice_str(good[i].in), check_mutated, NULL);
        mutate_flip(slice_str(good[i].in), check_mutated, NULL);
    }
}

/* ---- the guard ---- */

static unsigned frames_until_refused(struct http2_guard *guard, uint8_t type, size_t length, uint64_t now) {
    nghttp2_frame_hd head = {.type = type, .length = length};
    unsigned n = 0;
    while (n < 100000 && !http2_guard_frame(guard, &head, now))
        n++;
    return n;
}

static unsigned resets_until_refused(struct http2_guard *guard, uint64_t now) {
    unsigned n = 0;
    while (n < 100000 && !http2_guard_broken(guard, now))
        n++;
    return n;
}

static void test_guard(void **state) {
    (void)state;
    struct http2_guard guard;
    static const uint8_t idle[] = {NGHTTP2_PING, NGHTTP2_SETTINGS, NGHTTP2_PRIORITY,   NGHTTP2_WINDOW_UPDATE,
                                   NGHTTP2_DATA, NGHTTP2_HEADERS,  NGHTTP2_RST_STREAM, 0xfa};
    for (size_t i = 0; i < sizeof idle; i++) {
        http2_guard_init(&guard, 5000);
        assert_int_equal(frames_until_refused(&guard, idle[i], 0, 5000), HTTP2_GUARD_IDLE);
        assert_int_equal(frames_until_refused(&guard, idle[i], 0, 7500), 2 * HTTP2_GUARD_IDLE_SECOND);
        http2_guard_data(&guard, HTTP2_GUARD_PIECE);
        http2_guard_data(&guard, 1);
        assert_int_equal(frames_until_refused(&guard, idle[i], 0, 7900), HTTP2_GUARD_IDLE_DATA);
    }
    http2_guard_init(&guard, 0);
    assert_int_equal(frames_until_refused(&guard, NGHTTP2_DATA, 1, 0), 100000);
    assert_int_equal(resets_until_refused(&guard, 0), HTTP2_GUARD_RESETS);
    http2_guard_whole(&guard);
    assert_int_equal(resets_until_refused(&guard, 999), 1);
    assert_int_equal(resets_until_refused(&guard, 1000000), HTTP2_GUARD_RESETS);
    assert_int_equal(frames_until_refused(&guard, NGHTTP2_CONTINUATION, 1, 0), HTTP2_GUARD_CONTINUATIONS);
}

/* What earns frames back: what was sent, unless only the peer's window made it short; and whole exchanges. */
static void test_guard_earned(void **state) {
    (void)state;
    static const struct {
        size_t n, left;
        unsigned earned;
    } sent[] = {{HTTP2_GUARD_PIECE, 0, HTTP2_GUARD_IDLE_DATA},
                {HTTP2_GUARD_PIECE, 1, HTTP2_GUARD_IDLE_DATA},
                {1, 0, HTTP2_GUARD_IDLE_DATA},
                {1, 1, 0},
                {0, 0, 0}};
    struct http2_guard guard;
    http2_guard_init(&guard, 0);
    assert_int_equal(frames_until_refused(&guard, NGHTTP2_WINDOW_UPDATE, 4, 0), HTTP2_GUARD_IDLE);
    for (size_t i = 0; i < ROWS(sent); i++) {
        http2_guard_sent(&guard, sent[i].n, sent[i].left);
        assert_int_equal(frames_until_refused(&guard, NGHTTP2_WINDOW_UPDATE, 4, 0), sent[i].earned);
    }
    http2_guard_whole(&guard);
    assert_int_equal(frames_until_refused(&guard, NGHTTP2_WINDOW_UPDATE, 4, 0), HTTP2_GUARD_IDLE_WHOLE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_indexed),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_malformed_requests),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_websocket_answers),
        cmocka_unit_test(test_trailers),
        cmocka_unit_test(test_mutated),
        cmocka_unit_test(test_guard),
        cmocka_unit_test(test_guard_earned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
