/* What a sandbox's clients have sent, and nobody has taken, counts in its one sum, whatever it waits for (io_memory.h); how many
 * streams they have; and which secrets of a server's stay behind in the block that is read into. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <linux/tcp.h> /* tcpi_data_segs_in, which netinet/tcp.h lacks */
#include <nghttp2/nghttp2.h>

#include "policy/policy.h"
#include "proxy/flow/conn_http2.h"
#include "proxy/flow/state.h"
#include "proxy/flow/xchg.h"
#include "tests/unit/policy_support.h"
#include "tests/unit/record_support.h"
#include "tests/unit/upstream_rig.h"

#define BODY 60000

static char much[BODY];

/* ---- a client, exeat, and a server that says nothing by itself ---- */

struct world {
    struct rig rig;
    struct recording records;
    struct engine engine;
    struct box box;
    struct conn *conn;
    int client, listener;
};

static void world_open(struct world *w, unsigned port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    int ends[2];
    char pin[64];
    const char *pins[] = {pin, NULL};
    memset(w, 0, sizeof *w);
    w->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(w->listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(w->listener, 16), 0);
    getsockname(w->listener, (struct sockaddr *)&a, &n);
    snprintf(pin, sizeof pin, "a.test:%u:127.0.0.1:%u", port, ntohs(a.sin_port));
    rig_open(&w->rig, "", pins, NULL);
    recording_open(&w->records, w->rig.base, NULL, NULL);
    w->engine.config = (struct engine_config){.base = w->rig.base, .recorder = w->records.recorder};
    engine_limits_default(&w->engine.config.limits);
    buf_init(&w->engine.text, 65536);
    buf_init(&w->engine.text2, 65536);
    w->box = (struct box){.engine = &w->engine, .name = "sandbox", .pool = w->rig.pool};
    w->box.memory = io_memory_new(128u << 20);
    w->box.policy = load_set("allow POST,PUT https://a.test/ok\nallow PUT http://a.test/ok\n"
                             "allow POST https://a.test/kept where json a == \"b\"\n"
                             "allow POST http://a.test/app.git/info/lfs/objects/batch\n",
                             NULL, NULL);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    w->client = ends[0];
    w->conn = conn_new(&w->box, ends[1]);
    w->conn->direct = false;
    w->conn->dialed = SLICE("a.test");
    w->conn->port = (uint16_t)port;
}

static size_t held(const struct world *w) {
    return w->box.memory->held;
}

/* Nothing is held any more when the client has gone. */
static void world_close(struct world *w) {
    conn_close(w->conn);
    assert_int_equal(held(w), 0);
    engine_reap(&w->engine);
    assert_int_equal(w->box.memory->users, 1);
    for (struct xchg *x; (x = w->engine.spare_xchgs); free(x))
        w->engine.spare_xchgs = x->next;
    io_memory_drop(w->box.memory);
    policy_free((struct policy *)(uintptr_t)w->box.policy);
    buf_release(&w->engine.text);
    buf_release(&w->engine.text2);
    recording_close(&w->records);
    rig_close(&w->rig);
    close(w->client);
    close(w->listener);
}

static void say(struct world *w, struct slice bytes) {
    for (size_t sent = 0; sent < bytes.n;) {
        ssize_t r = write(w->client, bytes.p + sent, bytes.n - sent);
        assert_true(r > 0 || errno == EAGAIN);
        sent += r > 0 ? (size_t)r : 0;
        event_base_loop(w->rig.base, EVLOOP_NONBLOCK);
    }
    for (int i = 0; i < 200; i++)
        event_base_loop(w->rig.base, EVLOOP_NONBLOCK);
}

/* ---- the tests ---- */

static void heads_in_pieces_and_requests_before_their_turn(void **state) {
    struct world w;
    (void)state;
    world_open(&w, 80);
    say(&w, SLICE("PUT /ok HTTP/1.1\r\nHost: a.test\r\nX: "));
    say(&w, slice_make(memset(much, 'x', BODY), 20000));
    assert_true(held(&w) > 20000);
    say(&w, SLICE("\r\nContent-Length: 0\r\n\r\n")); /* which is on its way now */
    assert_true(w.conn->phase == H1_WAIT && held(&w) == 0);
    w.box.memory->limit = 0;
    say(&w, SLICE("PUT /ok HTTP/1.1\r\nHost: a.test\r\nContent-Length: 60000\r\n\r\n"));
    say(&w, slice_make(much, BODY));
    assert_true(held(&w) > 0 && held(&w) <= 4096); /* one step */
    world_close(&w);

    world_open(&w, 80);
    say(&w, SLICE("PUT /ok HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n"));
    say(&w, SLICE("PUT /ok HTTP/1.1\r\nHost: a.test\r\nContent-Length: 60000\r\n\r\n"));
    say(&w, slice_make(much, BODY));
    assert_true(held(&w) >= 16384);
    world_close(&w);
}

static bool is_sent(void *arg) {
    return ((struct world *)arg)->conn->x->send_phase == SEND_ALL;
}

static bool is_held(void *arg) {
    return ((struct world *)arg)->conn->x->answer_phase == ANSWER_HELD;
}

static bool is_answered(void *arg) {
    return ((struct world *)arg)->conn->x->answer_phase == ANSWER_PASSED;
}

/* Until the answer begins. */
static void what_a_second_try_needs(void **state) {
    struct world w;
    (void)state;
    world_open(&w, 80);
    say(&w, SLICE("PUT /ok HTTP/1.1\r\nHost: a.test\r\nContent-Length: 30000\r\n\r\n"));
    say(&w, slice_make(much, 30000));
    assert_true(loop_until(w.rig.base, is_sent, &w, LOOP_PATIENCE));
    assert_true(held(&w) >= 30000);
    int server = accept(w.listener, NULL, NULL);
    assert_int_equal(write(server, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nha", 40), 40);
    assert_true(loop_until(w.rig.base, is_answered, &w, LOOP_PATIENCE));
    assert_int_equal(held(&w), 0);
    close(server);
    world_close(&w);
}

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *p, size_t n, uint32_t *flags,
                         nghttp2_data_source *source, void *arg) {
    (void)session;
    (void)id;
    (void)flags;
    (void)source;
    (void)arg;
    memset(p, 'x', n);
    return (ssize_t)n;
}

#define NV(name, value)                                                                                      \
    { (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), sizeof(name) - 1, sizeof(value) - 1, 0 }

static void bodies_of_http2(void **state) {
    static const nghttp2_nv nv[] = {NV(":method", "POST"), NV(":scheme", "https"), NV(":authority", "a.test"),
                                    NV(":path", "/ok")};
    struct nghttp2_session_callbacks *callbacks;
    nghttp2_session *session;
    nghttp2_data_provider endless = {.read_callback = read_body};
    const uint8_t *bytes;
    struct world w;
    (void)state;
    world_open(&w, 443);
    w.conn->tls = true;
    assert_int_equal(url_host_parse(SLICE("a.test"), &w.conn->sni, NULL), 0);
    conn_http2_begin(w.conn);
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_client_new(&session, callbacks, NULL);
    nghttp2_submit_settings(session, 0, NULL, 0);
    nghttp2_submit_request(session, NULL, nv, 4, &endless, NULL);
    for (ssize_t n; (n = nghttp2_session_mem_send(session, &bytes)) > 0;)
        say(&w, slice_make(bytes, (size_t)n));
    assert_true(held(&w) >= 65535); /* all of its window: no server is there yet */
    nghttp2_submit_rst_stream(session, 0, 1, NGHTTP2_CANCEL);
    for (ssize_t n; (n = nghttp2_session_mem_send(session, &bytes)) > 0;)
        say(&w, slice_make(bytes, (size_t)n));
    assert_int_equal(held(&w), 0);
    nghttp2_session_del(session);
    nghttp2_session_callbacks_del(callbacks);
    world_close(&w);
}

/* Not of memory, but of work: a thousand chunks of a byte, which come together, go together. */
static void crumbs(void **state) {
    struct world w;
    struct tcp_info info;
    socklen_t n = sizeof info;
    char chunks[6000], got[16384];
    (void)state;
    world_open(&w, 80);
    say(&w, SLICE("PUT /ok HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"));
    int server = accept(w.listener, NULL, NULL);
    size_t come = 0;
    for (ssize_t r = 1; r > 0 && !memmem(got, come, "\r\n\r\n1\r\nx\r\n", 10);
         come += r > 0 ? (size_t)r : 0) {
        event_base_loop(w.rig.base, EVLOOP_NONBLOCK);
        r = recv(server, got + come, sizeof got - come, 0);
    }
    assert_int_equal(getsockopt(server, IPPROTO_TCP, TCP_INFO, &info, &n), 0);
    unsigned before = info.tcpi_data_segs_in;
    for (size_t i = 0; i < sizeof chunks; i++)
        chunks[i] = "1\r\nx\r\n"[i % 6];
    say(&w, slice_make(chunks, sizeof chunks));
    for (come = 0; come < sizeof chunks;) {
        ssize_t r = recv(server, got, sizeof got, 0);
        assert_true(r > 0);
        come += (size_t)r;
    }
    assert_int_equal(getsockopt(server, IPPROTO_TCP, TCP_INFO, &info, &n), 0);
    assert_in_range(info.tcpi_data_segs_in - before, 1, 20);
    close(server);
    world_close(&w);
}

/* What a client has to say of a body goes over, 100 KB more of it; returns the widest that its window was. */
static size_t left;

static ssize_t read_some(nghttp2_session *session, int32_t id, uint8_t *p, size_t n, uint32_t *flags,
                         nghttp2_data_source *source, void *arg) {
    n = n < left ? n : left;
    left -= n;
    return n ? read_body(session, id, p, n, flags, source, arg) : NGHTTP2_ERR_DEFERRED;
}

static int32_t talk(struct world *w, nghttp2_session *session) {
    static uint8_t bytes[65536];
    const uint8_t *out;
    int32_t widest = 0;
    left = 100000;
    nghttp2_session_resume_data(session, 1);
    for (int i = 0; i < 100; i++) {
        for (ssize_t n; (n = nghttp2_session_mem_send(session, &out)) > 0;)
            say(w, slice_make(out, (size_t)n));
        say(w, SLICE_NONE);
        for (ssize_t n; (n = recv(w->client, bytes, sizeof bytes, MSG_DONTWAIT)) > 0;)
            assert_int_equal(nghttp2_session_mem_recv(session, bytes, (size_t)n), n);
        int32_t window = nghttp2_session_get_stream_remote_window_size(session, 1);
        if (window > widest)
            widest = window;
    }
    return widest;
}

/* What is granted anew under pressure is less. The body is one that is kept until it is judged, which is taken as it comes. */
static void windows_under_pressure(void **state) {
    static const nghttp2_nv nv[] = {NV(":method", "POST"), NV(":scheme", "https"), NV(":authority", "a.test"),
                                    NV(":path", "/kept")};
    struct nghttp2_session_callbacks *callbacks;
    nghttp2_session *session;
    nghttp2_data_provider body = {.read_callback = read_some};
    struct io_share other;
    struct world w;
    (void)state;
    world_open(&w, 443);
    io_share_begin(&other, w.box.memory);
    io_share_set(&other, 1);
    w.conn->tls = true;
    assert_int_equal(url_host_parse(SLICE("a.test"), &w.conn->sni, NULL), 0);
    conn_http2_begin(w.conn);
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_client_new(&session, callbacks, NULL);
    nghttp2_submit_settings(session, 0, NULL, 0);
    (void)talk(&w, session); /* the settings */
    nghttp2_submit_request(session, NULL, nv, 4, &body, NULL);
    w.box.memory->limit = 0;
    (void)talk(&w, session); /* the first window is what it is */
    assert_in_range(talk(&w, session), 1, H2_NARROW);
    assert_int_equal(left, 0);
    w.box.memory->limit = SIZE_MAX;
    (void)talk(&w, session);
    assert_in_range(talk(&w, session), H2_NARROW + 1, HTTP2_WINDOW);
    assert_int_equal(left, 0);
    w.box.memory->limit = 0;
    (void)talk(&w, session);
    assert_in_range(talk(&w, session), 1, H2_NARROW);
    assert_int_equal(left, 0);
    nghttp2_session_del(session);
    nghttp2_session_callbacks_del(callbacks);
    io_share_end(&other);
    world_close(&w);
}

/* Both sides say what they have to say. */
static void pass(struct world *w, nghttp2_session *session) {
    static uint8_t bytes[65536];
    const uint8_t *out;
    for (ssize_t n; (n = nghttp2_session_mem_send(session, &out)) > 0;)
        say(w, slice_make(out, (size_t)n));
    say(w, SLICE_NONE);
    for (ssize_t n; (n = recv(w->client, bytes, sizeof bytes, MSG_DONTWAIT)) > 0;)
        assert_int_equal(nghttp2_session_mem_recv(session, bytes, (size_t)n), n);
}

struct closed {
    unsigned n;
    int32_t id;
    uint32_t code;
};

static int on_closed(nghttp2_session *session, int32_t id, uint32_t code, void *arg) {
    struct closed *closed = arg;
    (void)session;
    *closed = (struct closed){.n = closed->n + 1, .id = id, .code = code};
    return 0;
}

/* As many as are permitted, and not one more; when one has gone there is room for one. */
static void streams_of_http2(void **state) {
    static const nghttp2_nv nv[] = {NV(":method", "POST"), NV(":scheme", "https"), NV(":authority", "a.test"),
                                    NV(":path", "/kept")};
    struct nghttp2_session_callbacks *callbacks;
    nghttp2_session *session;
    nghttp2_data_provider waits = {.read_callback = read_some};
    struct closed closed = {0};
    struct world w;
    (void)state;
    left = 0;
    world_open(&w, 443);
    w.engine.config.limits.sandbox_streams = 3;
    w.conn->tls = true;
    assert_int_equal(url_host_parse(SLICE("a.test"), &w.conn->sni, NULL), 0);
    conn_http2_begin(w.conn);
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_closed);
    nghttp2_session_client_new(&session, callbacks, &closed);
    nghttp2_submit_settings(session, 0, NULL, 0);
    pass(&w, session);
    for (size_t i = 1; i <= 3; i++) {
        nghttp2_submit_request(session, NULL, nv, 4, &waits, NULL);
        pass(&w, session);
        assert_int_equal(w.box.nstreams, i);
    }
    assert_int_equal(closed.n, 0);
    nghttp2_submit_request(session, NULL, nv, 4, &waits, NULL);
    pass(&w, session);
    assert_int_equal(w.box.nstreams, 3);
    assert_int_equal(closed.n, 1);
    assert_int_equal(closed.id, 7);
    assert_int_equal(closed.code, NGHTTP2_REFUSED_STREAM);
    nghttp2_submit_rst_stream(session, 0, 1, NGHTTP2_CANCEL);
    pass(&w, session);
    assert_int_equal(w.box.nstreams, 2);
    nghttp2_submit_request(session, NULL, nv, 4, &waits, NULL);
    pass(&w, session);
    assert_int_equal(w.box.nstreams, 3);
    assert_int_equal(closed.n, 2); /* the one that was given up */
    nghttp2_session_del(session);
    nghttp2_session_callbacks_del(callbacks);
    world_close(&w);
}

static bool has_answer(void *arg) {
    char byte;
    return recv(((struct world *)arg)->client, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

/* Where other answers will be read into, nothing is left of the tokens in one of Git LFS, however it comes. */
static void tokens_of_lfs(void **state) {
    static const char body[] =
        "{\"objects\":[{\"oid\":\"a\",\"size\":1,\"actions\":{\"download\":{\"href\":\"http://b.test/a\","
        "\"header\":{\"Authorization\":\"SECRET-OBJECT\"}}}}]}";
    struct slice secret = SLICE("SECRET-OBJECT");
    char text[1024];
    (void)state;
    for (int apart = 0; apart < 2; apart++) {
        struct world w;
        world_open(&w, 80);
        say(&w, SLICE("POST /app.git/info/lfs/objects/batch HTTP/1.1\r\nHost: a.test\r\n"
                      "Accept: application/vnd.git-lfs+json\r\nContent-Type: application/vnd.git-lfs+json\r\n"
                      "Content-Length: 37\r\n\r\n{\"operation\":\"download\",\"objects\":[]}"));
        assert_true(loop_until(w.rig.base, is_sent, &w, LOOP_PATIENCE));
        int server = accept(w.listener, NULL, NULL);
        int head = snprintf(text, sizeof text,
                            "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.git-lfs+json\r\n"
                            "Content-Length: %zu\r\n\r\n",
                            sizeof body - 1);
        int n = head + snprintf(text + head, sizeof text - (size_t)head, "%s", body);
        int first = apart ? n - 5 : n; /* all but the end of it, and then that */
        memset(io_scratch(), 0, IO_SCRATCH);
        assert_int_equal(write(server, text, (size_t)first), first);
        if (apart) {
            assert_true(loop_until(w.rig.base, is_held, &w, LOOP_PATIENCE));
            assert_null(memmem(io_scratch(), IO_SCRATCH, secret.p, secret.n));
            assert_int_equal(write(server, text + first, (size_t)(n - first)), n - first);
        }
        assert_true(loop_until(w.rig.base, has_answer, &w, LOOP_PATIENCE));
        assert_null(memmem(io_scratch(), IO_SCRATCH, secret.p, secret.n));
        ssize_t got = recv(w.client, text, sizeof text, 0); /* it was looked at, and is as it should be */
        assert_non_null(memmem(text, (size_t)got, "HTTP/1.1 200", 12));
        assert_non_null(memmem(text, (size_t)got, "http://b.test/a", 15));
        assert_null(memmem(text, (size_t)got, secret.p, secret.n));
        close(server);
        world_close(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_in_pieces_and_requests_before_their_turn),
        cmocka_unit_test(what_a_second_try_needs),
        cmocka_unit_test(bodies_of_http2),
        cmocka_unit_test(crumbs),
        cmocka_unit_test(windows_under_pressure),
        cmocka_unit_test(streams_of_http2),
        cmocka_unit_test(tokens_of_lfs),
    };
    return cmocka_run_group_tests(tests, make_roots, free_roots);
}
