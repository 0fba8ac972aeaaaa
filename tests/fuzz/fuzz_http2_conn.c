/*
 * HTTP/2 on both sides, frame by frame: what a client sends on a connection that chose h2, judged, passed on to an
 * origin, and what that answers. TLS is left out: either side is a pair of sockets.
 *
 * Input: one byte, '1' for an origin of HTTP/1 and any other for one of HTTP/2; the client's bytes behind its preface; a
 * line "----"; the origin's bytes. Beyond not crashing, this must hold: the origin gets a request only after a verdict
 * that allows; each is one that the policy permits, and names its host once; when both sides are gone, every exchange
 * and every connection is, too.
 */
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>

#include "proxy/flow/conn.h"
#include "proxy/io/io.h"
#include "proxy/flow/state.h"
#include "proxy/upstream/upstream_parts.h"
#include "tests/fuzz/rig.h"

#define ORIGIN_IN  (1 << 20)
#define FRAME_HEAD 9
#define GONE_TURNS 200 /* until lingering connections have gone: linger_ms of the rig */

static const char policy_text[] = "allow GET,HEAD,POST https://a.test/ok**\n";

static unsigned char origin_in[ORIGIN_IN];
static size_t origin_n;

/* ---- the world ---- */

static void make_world(void) {
    struct sockaddr_in at;
    base = event_base_new();
    /* nobody listens where the name leads: whatever is not the connection at hand fails */
    rig_new(policy_text, rig_listen(&at), "a.test:443:127.0.0.1:1");
}

static void pair(int fds[2]) {
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0, "a pair of sockets");
}

static void on_ready(void *arg, struct upstream_link *link) {
    struct upstream_link **made = arg;
    *made = link;
}

static void on_failed(void *arg, const struct upstream_failure *failure) {
    (void)arg;
    (void)failure;
}

static const struct io_events no_events;

/* A connection to the origin that the pool has already; returns its other end. */
static int make_origin(struct upstream_pool *pool, bool http2) {
    static const struct upstream_callbacks callbacks = {.ready = on_ready, .failed = on_failed};
    struct upstream_origin origin = {.scheme = URL_HTTPS, .port = 443};
    struct upstream_options options = {.http2 = true};
    struct upstream_link *link = NULL;
    int fds[2];
    pair(fds);
    must(url_host_parse(SLICE("a.test"), &origin.host, NULL) == 0, "a host");
    struct upstream_attempt *a = upstream_acquire(pool, &origin, &options, &callbacks, &link);
    must(a != NULL, "an attempt");
    must(a->made == NULL, "an origin without connections of the input before");
    a->site->speaks_http2 = http2;
    a->site->no_websocket = false;
    if (http2) {
        struct io *io = io_open(base, fds[0], false, &no_events, NULL);
        must(io && up2_new(pool, a->site, io, &a->peer, false), "a connection of HTTP/2");
        a->counted = false;
        upstream_cancel(a);
        return fds[1];
    }
    attempt_made(a, io_open(base, fds[0], false, &no_events, NULL));
    for (int i = 0; i < 10 && !link; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
    must(link != NULL, "a connection of HTTP/1");
    upstream_release(link, true, 0);
    return fds[1];
}

/* The client's connection, as it is when a handshake has chosen h2; returns its other end. */
static int make_client(struct box *box) {
    int fds[2];
    pair(fds);
    struct conn *conn = conn_new(box, fds[0]);
    must(conn && url_host_parse(SLICE("a.test"), &conn->sni, NULL) == 0, "a connection");
    conn->tls = true;
    conn->direct = false;
    conn->port = 443;
    conn_http2_begin(conn);
    return fds[1];
}

/* ---- one input ---- */

/* One side of the talk. */
struct peer {
    int fd;
    struct slice left; /* to be sent */
    bool keeps;        /* what comes is the origin's */
};

static void peer_close(struct peer *p) {
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
}

static void peer_send(struct peer *p) {
    ssize_t n = p->fd >= 0 && p->left.n ? send(p->fd, p->left.p, p->left.n, MSG_NOSIGNAL) : 0;
    if (n <= 0)
        return;
    p->left = slice_from(p->left, (size_t)n);
    progress++;
}

static void peer_read(struct peer *p) {
    unsigned char bytes[16384];
    ssize_t n = 0;
    while (p->fd >= 0 && (n = recv(p->fd, bytes, sizeof bytes, 0)) > 0) {
        progress++;
        if (!p->keeps)
            continue;
        size_t room = ORIGIN_IN - origin_n, take = (size_t)n < room ? (size_t)n : room;
        memcpy(origin_in + origin_n, bytes, take);
        origin_n += take;
    }
    if (n == 0 || (n < 0 && errno != EAGAIN))
        peer_close(p);
}

static void talk(struct peer peers[2]) {
    for (int i = 0, quiet = 0; i < RIG_TURNS && quiet < RIG_QUIET; i++) {
        uint64_t before = progress;
        peer_send(&peers[0]);
        if (allowed || quiet > RIG_QUIET / 2) /* an origin waits for a request, for a while */
            peer_send(&peers[1]);
        event_base_loop(base, EVLOOP_NONBLOCK);
        rig_records();
        peer_read(&peers[0]);
        peer_read(&peers[1]);
        quiet = progress == before ? quiet + 1 : 0;
    }
}

/* ---- what the origin got ---- */

struct seen {
    unsigned methods, paths, hosts;
};

static bool is(const nghttp2_nv *nv, const char *name) {
    return slice_eq(slice_make(nv->name, nv->namelen), slice_str(name));
}

static void see_field(struct seen *seen, const nghttp2_nv *nv) {
    struct slice value = slice_make(nv->value, nv->valuelen);
    if (is(nv, ":method")) {
        seen->methods++;
        must(slice_eq(value, SLICE("GET")) || slice_eq(value, SLICE("HEAD")) ||
                 slice_eq(value, SLICE("POST")),
             "a method that no rule allows");
    } else if (is(nv, ":path")) {
        seen->paths++;
        must(slice_starts(value, SLICE("/")), "a path that is none");
    } else if (is(nv, ":authority") || is(nv, "host")) {
        seen->hosts++;
        must(slice_eq(value, SLICE("a.test")), "another host");
    }
    must(http_is_value(value), "a value that HTTP/1 would break at");
}

/* One block: a request's fields, or its trailers, which have no pseudo-header fields. */
static void see_block(nghttp2_hd_inflater *inflater, const uint8_t *p, size_t n) {
    struct seen seen = {0};
    for (;;) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t used = nghttp2_hd_inflate_hd2(inflater, &nv, &flags, p, n, 1);
        must(used >= 0, "a block that can't be read");
        p += used;
        n -= (size_t)used;
        if (flags & NGHTTP2_HD_INFLATE_EMIT)
            see_field(&seen, &nv);
        if (flags & NGHTTP2_HD_INFLATE_FINAL)
            break;
        must(used > 0 || flags & NGHTTP2_HD_INFLATE_EMIT, "a block without an end");
    }
    nghttp2_hd_inflate_end_headers(inflater);
    bool request = seen.methods == 1 && seen.paths == 1 && seen.hosts == 1;
    bool trailers = !seen.methods && !seen.paths && !seen.hosts;
    must(request || trailers, "a request without, or with more than one, of what makes it one");
}

/* Heads of one frame alone: what is longer is left to the session's own checks. */
static void check_frames(void) {
    static const char preface[] = NGHTTP2_CLIENT_MAGIC;
    size_t at = sizeof preface - 1;
    if (origin_n < at)
        return;
    must(memcmp(origin_in, preface, at) == 0, "another preface");
    nghttp2_hd_inflater *inflater;
    must(nghttp2_hd_inflate_new(&inflater) == 0, "memory");
    while (origin_n - at >= FRAME_HEAD) {
        const uint8_t *p = origin_in + at;
        size_t n = (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];
        if (origin_n - at - FRAME_HEAD < n)
            break;
        at += FRAME_HEAD + n;
        if (p[3] != NGHTTP2_HEADERS)
            continue;
        must(allowed > 0, "a request at the origin without a verdict that allows");
        if (!(p[4] & NGHTTP2_FLAG_END_HEADERS) || p[4] & (NGHTTP2_FLAG_PADDED | NGHTTP2_FLAG_PRIORITY))
            break;
        see_block(inflater, p + FRAME_HEAD, n);
    }
    nghttp2_hd_inflate_del(inflater);
}

static void check_http1(void) {
    struct slice got = slice_make(origin_in, origin_n);
    must(allowed > 0, "bytes at the origin without a verdict that allows");
    bool method = slice_starts(got, SLICE("GET /")) || slice_starts(got, SLICE("HEAD /")) ||
                  slice_starts(got, SLICE("POST /"));
    must(origin_n < 6 || method, "a method that no rule allows");
    const char *end = memmem(got.p, got.n, "\r\n\r\n", 4);
    must(!end || memmem(got.p, (size_t)(end + 2 - got.p), "\r\nHost: a.test\r\n", 16), "another Host");
}

/* Also what the pool keeps: the next input would get it, and find other numbers than it would alone. */
static void check_gone(void) {
    const struct upstream_pool *pool = engine->boxes->pool;
    for (int i = 0; i < GONE_TURNS; i++) {
        event_base_loop(base, EVLOOP_NONBLOCK);
        rig_records();
        if (engine->nconns == 0 && engine->nxchgs == 0 && engine->boxes->nstreams == 0 &&
            upstream_pool_open(pool) == 0)
            break;
    }
    engine_reap(engine);
    rig_records();
    must(engine->nconns == 0, "a connection that stays");
    must(engine->nxchgs == 0, "an exchange that stays");
    must(engine->boxes->nstreams == 0, "a stream that stays");
    must(upstream_pool_open(pool) == 0 && upstream_pool_idle(pool) == 0,
         "a connection to the origin that stays");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char mark[] = "\n----\n", preface[] = NGHTTP2_CLIENT_MAGIC;
    if (!base)
        make_world();
    if (size < 1 || size > 65536)
        return 0;
    bool http2 = data[0] != '1';
    struct slice client = slice_make(data + 1, size - 1), answer = SLICE_NONE;
    const char *cut = client.n ? memmem(client.p, client.n, mark, sizeof mark - 1) : NULL;
    if (cut) {
        answer = slice_from(client, (size_t)(cut - client.p) + sizeof mark - 1);
        client = slice_sub(client, 0, (size_t)(cut - client.p));
    }
    allowed = verdicts = outcomes = 0;
    origin_n = 0;
    struct box *box = engine->boxes;
    struct peer peers[2] = {{.left = client}, {.left = answer, .keeps = true}};
    peers[1].fd = make_origin(box->pool, http2);
    peers[0].fd = make_client(box);
    must(send(peers[0].fd, preface, sizeof preface - 1, MSG_NOSIGNAL) == sizeof preface - 1, "to send");
    talk(peers);
    peer_close(&peers[0]);
    peer_close(&peers[1]);
    check_gone();
    if (origin_n && http2)
        check_frames();
    else if (origin_n)
        check_http1();
    return 0;
}
