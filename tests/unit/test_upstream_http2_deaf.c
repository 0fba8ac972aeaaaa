/* Connections of HTTP/2 to upstreams that can't be written to any more: what has come is heard. */
#include "tests/unit/upstream_http2_support.h"

#include <netinet/tcp.h>
#include <poll.h>

/* Answers one request, and is gone when more has come, which it does not read. */
static void serve_one(struct server *s, SSL *ssl) {
    struct pollfd more = {.fd = SSL_get_fd(ssl), .events = POLLIN};
    nghttp2_session_callbacks *callbacks;
    nghttp2_session *session;
    uint8_t bytes[16384];
    const uint8_t *p;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_server_frame);
    if (nghttp2_session_server_new(&session, callbacks, s))
        _exit(1);
    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, NULL, 0);
    while (s->count->requests == 0) {
        int n = SSL_read(ssl, bytes, sizeof bytes);
        if (n <= 0 || nghttp2_session_mem_recv(session, bytes, (size_t)n) != n)
            _exit(1);
    }
    int one = 1;
    setsockopt(SSL_get_fd(ssl), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* it is out before the end is */
    for (ssize_t n; (n = nghttp2_session_mem_send(session, &p)) > 0;)
        SSL_write(ssl, p, (int)n);
    poll(&more, 1, LOOP_PATIENCE);
    _exit(0); /* the kernel says RST */
}

/* A server that answers before it has all, and goes: its answer lies there when no more can be written. */
static void an_answer_that_is_there_is_heard(void **state) {
    struct answer answer;
    struct server s;
    struct rig g;
    (void)state;
    open_with(&g, &s, serve_one);
    struct upstream_link *link = get_http2(&g);
    struct pollfd end = {.fd = dup(up_of(link)->io->fd), .events = 0};
    begin(link, &answer, true, SLICE("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\n"));
    up2_flush(link);
    do {
        assert_int_equal(up2_data(link, SLICE("x")), 0);
        up2_flush(link);
    } while (poll(&end, 1, 20) == 0); /* until the connection is gone; nothing is read meanwhile */
    close(end.fd);
    assert_int_equal(up2_data(link, SLICE("x")), 0);
    up2_flush(link);
    assert_true(up_of(link)->io->write_failed);
    assert_true(loop_until(g.base, is_over, &answer, LOOP_PATIENCE));
    assert_true(answer.heads == 1 && answer.ended); /* that the rest of the request is lost may follow */
    upstream_release(link, false, 0);
    close_both(&g, &s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_answer_that_is_there_is_heard)};
    return cmocka_run_group_tests(tests, make_roots, free_roots);
}
