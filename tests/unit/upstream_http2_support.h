/* A server of HTTP/2 and who asks it, for the tests of connections to upstreams. */
#ifndef TESTS_UNIT_UPSTREAM_HTTP2_SUPPORT_H
#define TESTS_UNIT_UPSTREAM_HTTP2_SUPPORT_H

#include "tests/unit/upstream_rig.h"

#include "proxy/upstream/upstream_http2.h"
#include "proxy/upstream/upstream_http2_parts.h"

#define LAST_ID INT32_MAX /* RFC 9113 5.1.1 */

/* --- a server ----------------------------------------------------------------------------------------- */

static inline int on_server_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg) {
    struct server *s = arg;
    char name[] = ":status", value[] = "204";
    nghttp2_nv answer = {(uint8_t *)name, (uint8_t *)value, sizeof name - 1, sizeof value - 1, 0};
    if (frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    s->count->requests++;
    return nghttp2_submit_response(session, frame->hd.stream_id, &answer, 1, NULL);
}

/* … by a head and trailers, and nothing between them. */
static inline int on_server_frame_with_trailers(nghttp2_session *session, const nghttp2_frame *frame,
                                                void *arg) {
    struct server *s = arg;
    char name[] = ":status", value[] = "200", sum[] = "x-sum", seven[] = "7";
    nghttp2_nv head = {(uint8_t *)name, (uint8_t *)value, sizeof name - 1, sizeof value - 1, 0};
    nghttp2_nv trailer = {(uint8_t *)sum, (uint8_t *)seven, sizeof sum - 1, sizeof seven - 1, 0};
    int32_t id = frame->hd.stream_id;
    if (frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    s->count->requests++;
    nghttp2_submit_headers(session, NGHTTP2_FLAG_NONE, id, NULL, &head, 1, NULL);
    nghttp2_submit_headers(session, NGHTTP2_FLAG_END_STREAM, id, NULL, &trailer, 1, NULL);
    return 0;
}

#define SERVED "a SECRET-TOKEN of the server's"

static inline ssize_t read_served(nghttp2_session *session, int32_t id, uint8_t *to, size_t room,
                                  uint32_t *flags, nghttp2_data_source *source, void *arg) {
    (void)session;
    (void)id;
    (void)source;
    (void)arg;
    assert_true(room >= sizeof SERVED - 1);
    memcpy(to, SERVED, sizeof SERVED - 1);
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    return sizeof SERVED - 1;
}

/* … by a body. */
static inline int on_server_frame_with_body(nghttp2_session *session, const nghttp2_frame *frame, void *arg) {
    struct server *s = arg;
    char name[] = ":status", value[] = "200";
    nghttp2_nv head = {(uint8_t *)name, (uint8_t *)value, sizeof name - 1, sizeof value - 1, 0};
    nghttp2_data_provider body = {.read_callback = read_served};
    if (frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    s->count->requests++;
    return nghttp2_submit_response(session, frame->hd.stream_id, &head, 1, &body);
}

/* Answers each request, and keeps the connection until the client ends it. `window`: of each stream, at first. */
static inline void serve_window(struct server *s, SSL *ssl, nghttp2_on_frame_recv_callback on_frame,
                                uint32_t window) {
    const nghttp2_settings_entry setting = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window};
    nghttp2_session_callbacks *callbacks;
    nghttp2_session *session;
    uint8_t bytes[16384];
    const uint8_t *p;
    ssize_t n;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    if (nghttp2_session_server_new(&session, callbacks, s))
        _exit(1);
    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, &setting, 1);
    do {
        while ((n = nghttp2_session_mem_send(session, &p)) > 0)
            if (SSL_write(ssl, p, (int)n) <= 0)
                return;
        n = SSL_read(ssl, bytes, sizeof bytes);
    } while (n > 0 && nghttp2_session_mem_recv(session, bytes, (size_t)n) == n);
}

static inline void serve_frames(struct server *s, SSL *ssl, nghttp2_on_frame_recv_callback on_frame) {
    serve_window(s, ssl, on_frame, NGHTTP2_INITIAL_WINDOW_SIZE);
}

/* Takes nothing of a body. */
static inline void serve_shut(struct server *s, SSL *ssl) {
    serve_window(s, ssl, on_server_frame, 0);
}

static inline void serve_http2(struct server *s, SSL *ssl) {
    serve_frames(s, ssl, on_server_frame);
}

static inline void serve_body(struct server *s, SSL *ssl) {
    serve_frames(s, ssl, on_server_frame_with_body);
}

static inline void serve_trailers(struct server *s, SSL *ssl) {
    serve_frames(s, ssl, on_server_frame_with_trailers);
}

/* … and ends it without GOAWAY, against RFC 9113 6.8, after a second of silence. */
static inline void serve_impatiently(struct server *s, SSL *ssl) {
    const struct timeval second = {.tv_sec = 1};
    setsockopt(SSL_get_fd(ssl), SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
    serve_frames(s, ssl, on_server_frame);
}

static inline int choose_http2(SSL *ssl, const unsigned char **chosen, unsigned char *n,
                               const unsigned char *offer, unsigned noffer, void *arg) {
    static const unsigned char h2[] = {2, 'h', '2'};
    (void)ssl;
    (void)arg;
    int r = SSL_select_next_proto((unsigned char **)chosen, n, h2, sizeof h2, offer, noffer);
    return r == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* --- a client ----------------------------------------------------------------------------------------- */

struct answer {
    unsigned heads;
    bool ended;
    size_t trailers;
    const char *lost;
    char body[64]; /* its beginning, and how much there was */
    size_t nbody;
};

static inline void on_head(void *arg, const struct http2_list *list, bool ended) {
    struct answer *a = arg;
    (void)list;
    a->heads++;
    a->ended = ended;
}

static inline void on_data(void *arg, struct slice bytes) {
    struct answer *a = arg;
    size_t room = a->nbody < sizeof a->body ? sizeof a->body - a->nbody : 0;
    memcpy(a->body + sizeof a->body - room, bytes.p, bytes.n < room ? bytes.n : room);
    a->nbody += bytes.n;
}

static inline void on_end(void *arg, const struct http2_list *trailers) {
    struct answer *a = arg;
    a->ended = true;
    a->trailers = trailers->fields;
}

static inline void on_lost(void *arg, const char *why, bool unseen) {
    struct answer *a = arg;
    (void)unseen;
    a->lost = why;
}

static inline void on_nothing(void *arg) {
    (void)arg;
}

static const struct up2_events events = {.head = on_head,
                                         .data = on_data,
                                         .end = on_end,
                                         .turn = on_nothing,
                                         .lost = on_lost,
                                         .drained = on_nothing,
                                         .late = on_nothing};

static inline void begin(struct upstream_link *link, struct answer *a, bool listening, struct slice head) {
    static struct http1_request request;
    *a = (struct answer){.ended = false};
    assert_int_equal(http1_request_parse(&request, head), 0);
    up2_own(link, &events, a);
    up2_listen(link, listening);
    assert_int_equal(up2_request(link, &request, &(struct http1_write){.host = SLICE("a.test")}), 0);
}

static inline void ask_by(struct upstream_link *link, struct answer *a, bool listening, struct slice head) {
    begin(link, a, listening, head);
    up2_flush(link);
}

#define GET SLICE("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")

static inline void ask_listening(struct upstream_link *link, struct answer *a, bool listening) {
    ask_by(link, a, listening, GET);
}

static inline void ask(struct upstream_link *link, struct answer *a) {
    ask_listening(link, a, true);
}

static inline bool is_over(void *arg) {
    struct answer *a = arg;
    return a->ended || a->lost;
}

static inline void must_be_answered(struct rig *g, struct answer *a) {
    assert_true(loop_until(g->base, is_over, a, LOOP_PATIENCE));
    assert_null(a->lost);
}

static inline struct upstream_link *get_http2(struct rig *g) {
    struct upstream_link *link =
        get_with(g, URL_HTTPS, "a.test", 443, (struct upstream_options){.http2 = true});
    assert_non_null(link->http2);
    return link;
}

static inline struct up2 *up_of(const struct upstream_link *link) {
    return link->http2->up;
}

/* So many more streams may be begun on the link's connection, its own among them. */
static inline void leave_ids(struct upstream_link *link, int n) {
    assert_int_equal(nghttp2_session_set_next_stream_id(up_of(link)->session, LAST_ID - 2 * (n - 1)), 0);
}

static inline bool one_open(void *arg) {
    return upstream_pool_open(((struct rig *)arg)->pool) == 1;
}

/* --- both --------------------------------------------------------------------------------------------- */

static inline void open_with(struct rig *g, struct server *s, void (*serve)(struct server *s, SSL *ssl)) {
    *s = (struct server){.tls = server_context(good_root, "a.test", -60), .serve = serve};
    SSL_CTX_set_alpn_select_cb(s->tls, choose_http2, NULL);
    server_start(s);
    rig_open(g, "", pin_to(s->port, "a.test", NULL), NULL);
}

static inline void open_both(struct rig *g, struct server *s) {
    open_with(g, s, serve_http2);
}

static inline void close_both(struct rig *g, struct server *s) {
    rig_close(g);
    server_stop(s);
    SSL_CTX_free(s->tls);
}

#endif
