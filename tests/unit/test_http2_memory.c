/* proxy/io/http2_memory: a session that slept says what it would have said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "proxy/io/http2_memory.h"

#define PAGE 4096

/* A client and a server of libnghttp2 that speak through memory; the server's memory may sleep. */
struct pair {
    struct http2_memory memory;
    nghttp2_session *client, *server;
    char fields[4096]; /* of the last request, as the server saw them */
    unsigned answers;
};

static int on_server_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                            size_t nname, const uint8_t *value, size_t nvalue, uint8_t flags, void *arg) {
    struct pair *pair = arg;
    (void)session;
    (void)frame;
    (void)flags;
    size_t have = strlen(pair->fields);
    snprintf(pair->fields + have, sizeof pair->fields - have, "%.*s=%.*s ", (int)nname, (const char *)name,
             (int)nvalue, (const char *)value);
    return 0;
}

#define NV(n, v)                                                                                             \
    {                                                                                                        \
        .name = (uint8_t *)(uintptr_t)(n), .value = (uint8_t *)(uintptr_t)(v), .namelen = strlen(n),         \
        .valuelen = strlen(v), .flags = NGHTTP2_NV_FLAG_NONE                                                 \
    }

static int on_server_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg) {
    (void)arg;
    nghttp2_nv answer[] = {NV(":status", "200"), NV("x-answer", "the same each time")};
    if (frame->hd.type == NGHTTP2_HEADERS)
        assert_int_equal(nghttp2_submit_response(session, frame->hd.stream_id, answer, 2, NULL), 0);
    return 0;
}

static int on_client_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg) {
    struct pair *pair = arg;
    (void)session;
    if (frame->hd.type == NGHTTP2_HEADERS)
        pair->answers++;
    assert_int_not_equal(frame->hd.type, NGHTTP2_GOAWAY);
    return 0;
}

static void pass(nghttp2_session *from, nghttp2_session *to) {
    const uint8_t *p;
    for (ssize_t n; (n = nghttp2_session_mem_send(from, &p)) != 0;) {
        assert_true(n > 0);
        assert_int_equal(nghttp2_session_mem_recv(to, p, (size_t)n), n);
    }
}

static void talk(struct pair *pair) {
    for (int i = 0; i < 3; i++) {
        pass(pair->client, pair->server);
        pass(pair->server, pair->client);
    }
}

static void begin(struct pair *pair) {
    nghttp2_session_callbacks *client, *server;
    *pair = (struct pair){.answers = 0};
    http2_memory_init(&pair->memory);
    assert_int_equal(nghttp2_session_callbacks_new(&client), 0);
    assert_int_equal(nghttp2_session_callbacks_new(&server), 0);
    nghttp2_session_callbacks_set_on_header_callback(server, on_server_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(server, on_server_frame);
    nghttp2_session_callbacks_set_on_frame_recv_callback(client, on_client_frame);
    assert_int_equal(nghttp2_session_client_new(&pair->client, client, pair), 0);
    assert_int_equal(
        nghttp2_session_server_new3(&pair->server, server, pair, NULL, http2_memory_for(&pair->memory)), 0);
    http2_memory_made(&pair->memory);
    nghttp2_session_callbacks_del(client);
    nghttp2_session_callbacks_del(server);
    nghttp2_submit_settings(pair->client, NGHTTP2_FLAG_NONE, NULL, 0);
    nghttp2_submit_settings(pair->server, NGHTTP2_FLAG_NONE, NULL, 0);
    talk(pair);
}

static void end(struct pair *pair) {
    nghttp2_session_del(pair->client);
    nghttp2_session_del(pair->server);
    http2_memory_release(&pair->memory);
}

/* Fields that the compression puts into its table at first, and names by number afterwards. */
static void ask(struct pair *pair, const char *path) {
    nghttp2_nv request[] = {NV(":method", "GET"), NV(":scheme", "https"),         NV(":authority", "a.test"),
                            NV(":path", path),    NV("x-same", "each time anew"), NV("x-path", path)};
    char wanted[512];
    unsigned before = pair->answers;
    pair->fields[0] = 0;
    assert_true(nghttp2_submit_request(pair->client, NULL, request, 6, NULL, NULL) > 0);
    talk(pair);
    snprintf(wanted, sizeof wanted,
             ":method=GET :scheme=https :authority=a.test :path=%s x-same=each time anew x-path=%s ", path,
             path);
    assert_string_equal(pair->fields, wanted);
    assert_int_equal(pair->answers, before + 1);
}

/* How many of the pages are there. */
static unsigned resident(const struct http2_memory *m) {
    unsigned char there[8];
    unsigned n = 0;
    assert_int_equal(mincore(m->pages, sizeof there * PAGE, there), 0);
    for (size_t i = 0; i < sizeof there; i++)
        n += there[i] & 1;
    return n;
}

static void a_session_goes_on_where_it_was(void **state) {
    struct pair pair;
    (void)state;
    begin(&pair);
    ask(&pair, "/0");
    for (int i = 1; i < 200; i++) {
        char path[16];
        snprintf(path, sizeof path, "/%d", i % 3 ? i : 0);
        assert_true(http2_memory_sleep(&pair.memory));
        assert_true(http2_memory_sleeps(&pair.memory));
        http2_memory_wake(&pair.memory);
        assert_false(http2_memory_sleeps(&pair.memory));
        ask(&pair, path);
    }
    end(&pair);
}

static void asleep_it_has_no_pages(void **state) {
    struct pair pair;
    (void)state;
    begin(&pair);
    ask(&pair, "/0");
    assert_true(pair.memory.used > 4 * PAGE); /* or it is no longer where the session is made */
    assert_true(resident(&pair.memory) >= 3);
    assert_true(http2_memory_sleep(&pair.memory));
    assert_int_equal(resident(&pair.memory), 0);
    assert_false(http2_memory_sleep(&pair.memory)); /* it does already */
    http2_memory_wake(&pair.memory);
    http2_memory_wake(&pair.memory);
    ask(&pair, "/1");
    end(&pair);
}

static void one_that_has_begun_a_frame_may_sleep_too(void **state) {
    struct pair pair;
    const uint8_t ping[17] = {0, 0, 8, NGHTTP2_PING};
    (void)state;
    begin(&pair);
    for (size_t i = 0; i < sizeof ping; i++) {
        assert_true(http2_memory_sleep(&pair.memory));
        http2_memory_wake(&pair.memory);
        assert_int_equal(nghttp2_session_mem_recv(pair.server, ping + i, 1), 1);
    }
    assert_true(nghttp2_session_want_write(pair.server));
    assert_true(http2_memory_sleep(&pair.memory)); /* the answer waits */
    http2_memory_wake(&pair.memory);
    talk(&pair);
    ask(&pair, "/1");
    end(&pair);
}

static void pages_that_are_full_stay(void **state) {
    struct http2_memory m;
    (void)state;
    http2_memory_init(&m);
    nghttp2_mem *mem = http2_memory_for(&m);
    char *p = mem->malloc(20000, mem->mem_user_data), *q = mem->malloc(20000, mem->mem_user_data);
    memset(p, 'p', 20000);
    memset(q, 'q', 20000);
    http2_memory_made(&m);
    assert_false(http2_memory_sleep(&m));
    assert_false(http2_memory_sleeps(&m));
    p = mem->realloc(p, 30000, mem->mem_user_data);
    q = mem->realloc(q, 30000, mem->mem_user_data);
    for (int i = 0; i < 20000; i++)
        assert_true(p[i] == 'p' && q[i] == 'q');
    mem->free(p, mem->mem_user_data);
    mem->free(q, mem->mem_user_data);
    http2_memory_release(&m);
}

static void what_fills_the_pages_to_the_last_byte_is_kept(void **state) {
    struct http2_memory m;
    (void)state;
    http2_memory_init(&m);
    nghttp2_mem *mem = http2_memory_for(&m);
    const size_t n = sizeof(max_align_t);
    char *p = mem->calloc(1, 8 * PAGE - n, mem->mem_user_data);
    assert_ptr_equal(p, m.pages + n);
    p[8 * PAGE - n - 1] = 'z';
    void *q = mem->malloc(0, mem->mem_user_data);
    mem->free(q, mem->mem_user_data);
    assert_true(http2_memory_sleep(&m));
    http2_memory_wake(&m);
    assert_int_equal(p[8 * PAGE - n - 1], 'z');
    http2_memory_release(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_goes_on_where_it_was),
        cmocka_unit_test(asleep_it_has_no_pages),
        cmocka_unit_test(one_that_has_begun_a_frame_may_sleep_too),
        cmocka_unit_test(pages_that_are_full_stay),
        cmocka_unit_test(what_fills_the_pages_to_the_last_byte_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
