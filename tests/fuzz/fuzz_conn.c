/*
 * A whole connection: what a sandbox sends in the clear, judged, passed on to an origin on loopback, and its answer.
 *
 * Input: the client's bytes, a line "----", the origin's bytes (both may be anything). Beyond not crashing, this must
 * hold: the origin gets a byte only after a verdict that allows; what it gets begins with a permitted method and names
 * its host once; no outcome comes without its verdict.
 */
#include <errno.h>

#include "proxy/io/io.h"
#include "tests/fuzz/rig.h"

#define ORIGIN_IN 65536

static const char policy_text[] = "allow GET,HEAD,POST http://a.test/ok**\n"
                                  "allow fetch http://a.test/acme/app\n"
                                  "allow push http://a.test/acme/app refs/heads/fix/*\n";

static int origin;
static struct sockaddr_in front_at;
static struct slice answer;
static char origin_in[ORIGIN_IN];
static size_t origin_n;

/* ---- the world ---- */

static void on_origin_bytes(evutil_socket_t fd, short what, void *arg) {
    struct event *event = *(struct event **)arg;
    char bytes[4096];
    (void)what;
    ssize_t n = recv(fd, bytes, sizeof bytes, 0);
    if (n <= 0) {
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        event_free(event);
        free(arg);
        close(fd);
        return;
    }
    rig_records();
    must(allowed > 0, "bytes at the origin without a verdict that allows");
    bool first = origin_n == 0;
    size_t room = ORIGIN_IN - origin_n, take = (size_t)n < room ? (size_t)n : room;
    memcpy(origin_in + origin_n, bytes, take);
    origin_n += take;
    progress++;
    if (first && answer.n && send(fd, answer.p, answer.n, MSG_NOSIGNAL) < 0)
        shutdown(fd, SHUT_RDWR);
    if (first)
        shutdown(fd, SHUT_WR);
}

static void on_origin(evutil_socket_t listener, short what, void *arg) {
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    (void)what;
    (void)arg;
    if (fd < 0)
        return;
    struct event **slot = malloc(sizeof *slot);
    *slot = event_new(base, fd, EV_READ | EV_PERSIST, on_origin_bytes, slot);
    event_add(*slot, NULL);
    progress++;
}

static void make_world(void) {
    struct sockaddr_in origin_at;
    char pin[64];
    base = event_base_new();
    origin = rig_listen(&origin_at);
    int front = rig_listen(&front_at);
    snprintf(pin, sizeof pin, "a.test:80:127.0.0.1:%u", ntohs(origin_at.sin_port));
    rig_new(policy_text, front, pin);
    event_add(event_new(base, origin, EV_READ | EV_PERSIST, on_origin, NULL), NULL);
}

/* ---- one input ---- */

/* One request at least went up: is it one that the policy permits? */
static void check_origin(void) {
    struct slice got = slice_make(origin_in, origin_n);
    bool method = slice_starts(got, SLICE("GET /")) || slice_starts(got, SLICE("HEAD /")) ||
                  slice_starts(got, SLICE("POST /"));
    must(origin_n < 6 || method, "a method that no rule allows");
    char *end = memmem(got.p, got.n, "\r\n\r\n", 4);
    if (!end)
        return;
    size_t hosts = 0;
    for (const char *p = got.p; p < end; p++)
        hosts += end - p > 7 && strncasecmp(p, "\r\nHost:", 7) == 0;
    must(hosts == 1, "a head with more or less than one Host");
    must(memmem(got.p, (size_t)(end - got.p), "\r\nHost: a.test", 14), "another Host");
}

static void talk(struct slice client) {
    struct linger now = {.l_onoff = 1};
    char bytes[4096];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(connect(fd, (struct sockaddr *)&front_at, sizeof front_at) == 0, "to connect");
    evutil_make_socket_nonblocking(fd);
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    size_t sent = 0, quiet = 0;
    bool over = false;
    for (int i = 0; i < RIG_TURNS && quiet < RIG_QUIET; i++) {
        uint64_t before = progress;
        ssize_t n = sent < client.n ? send(fd, client.p + sent, client.n - sent, MSG_NOSIGNAL) : 0;
        if (n > 0) {
            sent += (size_t)n;
            progress++;
        }
        event_base_loop(base, EVLOOP_NONBLOCK);
        rig_records();
        while (!over && (n = recv(fd, bytes, sizeof bytes, 0)) >= 0) {
            over = n == 0;
            progress++;
        }
        quiet = progress == before ? quiet + 1 : 0;
    }
    close(fd);
    for (int i = 0; i < 4; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
    rig_records();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char mark[] = "\n----\n";
    if (!base)
        make_world();
    if (size > 65536)
        return 0;
    struct slice all = slice_make(data, size), client = all;
    char *cut = size ? memmem(data, size, mark, sizeof mark - 1) : NULL;
    answer = SLICE_NONE;
    if (cut) {
        client = slice_sub(all, 0, (size_t)(cut - all.p));
        answer = slice_from(all, client.n + sizeof mark - 1);
    }
    allowed = verdicts = outcomes = 0;
    origin_n = 0;
    talk(client);
    if (origin_n)
        check_origin();
    return 0;
}
