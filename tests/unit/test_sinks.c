/* The sinks: a file whose disk is full, and a Redis that is good, gone, silent, half dead or grumbling. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/record/sink_file.h"
#include "proxy/record/sinks.h"
#include "tests/unit/loop.h"
#include "tests/unit/record_support.h"

/* --- a Redis from a script ---------------------------------------------------------------------------- */

enum mood {
    GOOD,
    SILENT,  /* reads, never answers */
    DEAF,    /* does not even read */
    GRUMBLE, /* answers XADD with an error */
    RESET,   /* answers half and resets */
    TRICKLE, /* a byte of the answer each 100 ms */
};

struct peer;

struct fake {
    struct event_base *base;
    int listener, port;
    struct event *accepting;
    enum mood mood;
    const char *error;
    unsigned connections, closed;
    LIST_HEAD(, peer) peers;
    uint64_t commands, acknowledged, xadds; /* xadds: acknowledged ones */
    uint64_t gaps;                          /* XADDs that are a gap */
    char last[4096];                        /* the last command's words, spaces between */
};

struct peer {
    LIST_ENTRY(peer) link;
    struct fake *fake;
    int fd;
    struct event *event, *trickle;
    struct buf in;
};

static void peer_free(struct peer *p, bool reset) {
    struct linger now = {.l_onoff = 1};
    if (reset)
        setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    LIST_REMOVE(p, link);
    event_free(p->event);
    event_free(p->trickle);
    close(p->fd);
    buf_release(&p->in);
    p->fake->closed++;
    free(p);
}

static struct slice line_of(struct slice *rest) {
    const char *end = memmem(rest->p, rest->n, "\r\n", 2);
    if (!end)
        return SLICE_NONE;
    struct slice line = slice_sub(*rest, 0, (size_t)(end - rest->p));
    *rest = slice_from(*rest, line.n + 2);
    return line;
}

/* One command in RESP: bytes used, 0 if it is not all there. */
static size_t take_command(struct fake *f, struct slice all) {
    struct slice rest = all, line = line_of(&rest);
    uint64_t words, n;
    size_t at = 0;
    if (!line.n)
        return 0;
    assert_true(line.p[0] == '*' && slice_u64(slice_from(line, 1), 1000, &words));
    for (uint64_t i = 0; i < words; i++) {
        line = line_of(&rest);
        if (!line.n)
            return 0;
        assert_true(line.p[0] == '$' && slice_u64(slice_from(line, 1), 1 << 20, &n));
        if (rest.n < n + 2)
            return 0;
        at += (size_t)snprintf(f->last + at, sizeof f->last - at, "%s%.*s", i ? " " : "", (int)n, rest.p);
        if (at >= sizeof f->last)
            at = sizeof f->last - 1;
        assert_true(rest.p[n] == '\r' && rest.p[n + 1] == '\n');
        rest = slice_from(rest, n + 2);
    }
    return all.n - rest.n;
}

static void on_trickle(evutil_socket_t fd, short what, void *arg) {
    struct peer *p = arg;
    const struct timeval wait = {.tv_usec = 100000};
    (void)fd;
    (void)what;
    if (send(p->fd, "$", 1, MSG_NOSIGNAL) == 1)
        event_add(p->trickle, &wait);
}

/* False: the peer is gone. */
static bool reply(struct peer *p) {
    struct fake *f = p->fake;
    const char *text = "+OK\r\n";
    bool xadd = strncmp(f->last, "XADD ", 5) == 0;
    f->commands++;
    switch (f->mood) {
    case SILENT:
    case DEAF: return true;
    case TRICKLE:
        if (!evtimer_pending(p->trickle, NULL))
            on_trickle(-1, 0, p);
        return true;
    case RESET:
        (void)!send(p->fd, "$1", 2, MSG_NOSIGNAL);
        peer_free(p, true);
        return false;
    case GRUMBLE:
        if (xadd || !f->error[0])
            text = f->error;
        break;
    case GOOD: break;
    }
    if (text[0] == '+' && xadd) {
        f->xadds++;
        f->gaps += strstr(f->last, " event gap ") != NULL;
    }
    f->acknowledged++;
    (void)!send(p->fd, text, strlen(text), MSG_NOSIGNAL);
    return true;
}

static void on_peer(evutil_socket_t fd, short what, void *arg) {
    struct peer *p = arg;
    char *room;
    (void)what;
    if (p->fake->mood == DEAF) {
        event_del(p->event);
        return;
    }
    assert_int_equal(buf_reserve(&p->in, 65536, &room), 0);
    ssize_t n = recv(fd, room, 65536, MSG_DONTWAIT);
    if (n <= 0) {
        peer_free(p, false);
        return;
    }
    buf_commit(&p->in, (size_t)n);
    for (size_t used; (used = take_command(p->fake, buf_slice(&p->in)));) {
        buf_consume(&p->in, used);
        if (!reply(p))
            return;
    }
}

static void on_accept(evutil_socket_t fd, short what, void *arg) {
    struct fake *f = arg;
    (void)what;
    int got = accept4((int)fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (got < 0)
        return;
    struct peer *p = calloc(1, sizeof *p);
    f->connections++;
    LIST_INSERT_HEAD(&f->peers, p, link);
    p->fake = f;
    p->fd = got;
    buf_init(&p->in, 4 << 20);
    p->event = event_new(f->base, got, EV_READ | EV_PERSIST, on_peer, p);
    p->trickle = evtimer_new(f->base, on_trickle, p);
    event_add(p->event, NULL);
}

static void fake_listen(struct fake *f) {
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)f->port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    int one = 1;
    f->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(f->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    assert_int_equal(bind(f->listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(f->listener, 16), 0);
    getsockname(f->listener, (struct sockaddr *)&a, &n);
    f->port = ntohs(a.sin_port);
    f->accepting = event_new(f->base, f->listener, EV_READ | EV_PERSIST, on_accept, f);
    event_add(f->accepting, NULL);
}

static void fake_close(struct fake *f) {
    event_free(f->accepting);
    close(f->listener);
}

/* The peers that never saw the other side's end, too. */
static void fake_end(struct fake *f) {
    for (struct peer *p; (p = LIST_FIRST(&f->peers));)
        peer_free(p, false);
    fake_close(f);
}

/* --- the parts of a test ------------------------------------------------------------------------------ */

struct rig {
    struct event_base *base;
    struct fake fake;
    struct sink_redis *redis;
    struct record record;
};

static void rig_open(struct rig *g, enum mood mood, const char *userinfo, const char *behind) {
    char text[256];
    struct redis_url url;
    struct errmsg msg;
    *g = (struct rig){.base = event_base_new()};
    g->fake = (struct fake){.base = g->base, .mood = mood, .error = "-OOM command not allowed\r\n"};
    fake_listen(&g->fake);
    snprintf(text, sizeof text, "redis://%s127.0.0.1:%d%s", userinfo, g->fake.port, behind);
    assert_int_equal(redis_url_parse(slice_str(text), &url, &msg), 0);
    assert_int_equal(sink_redis_resolve(&url, &msg), 0);
    g->redis = sink_redis_new(g->base, &url);
    assert_non_null(g->redis);
    assert_null(url.password.bytes);
    g->record = (struct record){.event = RECORD_VERDICT,
                                .id = ulid_new(),
                                .time_ms = clock_wall_ms(),
                                .denied = true,
                                .method = SLICE("GET"),
                                .url = SLICE("https://a.test/")};
}

static void rig_close(struct rig *g) {
    sink_redis_free(g->redis);
    fake_close(&g->fake);
    loop_for(g->base, 50); /* the fake sees the end of its peers */
    assert_int_equal(g->fake.connections, g->fake.closed);
    event_base_free(g->base);
}

static bool is_empty(void *arg) {
    return sink_redis_empty(((struct rig *)arg)->redis);
}

static struct sink_redis_stats stats(struct rig *g) {
    struct sink_redis_stats s;
    sink_redis_stats(g->redis, &s);
    return s;
}

static void write_many(struct rig *g, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        sink_redis_write(g->redis, &g->record);
}

/* --- Redis -------------------------------------------------------------------------------------------- */

static void a_good_redis(void **state) {
    struct rig g;
    (void)state;
    rig_open(&g, GOOD, "joe:SECRET-P@", "/3?maxlen=500");
    write_many(&g, 1000);
    assert_true(loop_until(g.base, is_empty, &g, LOOP_PATIENCE));
    assert_int_equal(g.fake.xadds, 1000);
    assert_int_equal(g.fake.commands, 1002); /* AUTH, SELECT */
    assert_int_equal(stats(&g).delivered, 1000);
    assert_true(strncmp(g.fake.last, "XADD exeat:decisions MAXLEN ~ 500 * event verdict id ", 53) == 0);
    assert_non_null(strstr(g.fake.last, " verdict deny method GET url https://a.test/"));
    rig_close(&g);
}

static void no_limit_of_length(void **state) {
    struct rig g;
    (void)state;
    rig_open(&g, GOOD, "", "?maxlen=0");
    write_many(&g, 1);
    assert_true(loop_until(g.base, is_empty, &g, LOOP_PATIENCE));
    assert_true(strncmp(g.fake.last, "XADD exeat:decisions * event verdict ", 37) == 0);
    assert_int_equal(g.fake.commands, 1);
    rig_close(&g);
}

/* Refused connections, then it is there. */
static void redis_comes_late(void **state) {
    struct rig g;
    (void)state;
    rig_open(&g, GOOD, "", "");
    fake_close(&g.fake);
    write_many(&g, 10);
    loop_for(g.base, 400);
    assert_int_equal(stats(&g).queued, 10);
    assert_true(stats(&g).errors >= 2 && stats(&g).errors <= 4); /* it backs off */
    fake_listen(&g.fake);
    assert_true(loop_until(g.base, is_empty, &g, LOOP_PATIENCE));
    assert_int_equal(g.fake.xadds, 10);
    rig_close(&g);
}

static bool came_again(void *arg) {
    return stats(arg).connects >= 2;
}

/* A command that is not answered in time ends the connection; the next one gets everything. */
static void half_open(enum mood mood) {
    struct rig g;
    rig_open(&g, mood, "", "");
    write_many(&g, 2000);
    assert_true(loop_until(g.base, came_again, &g, LOOP_PATIENCE));
    assert_true(stats(&g).delivered == 0 && stats(&g).queued == 2000);
    g.fake.mood = GOOD;
    assert_true(loop_until(g.base, is_empty, &g, 2 * SINK_REDIS_COMMAND_MS));
    assert_int_equal(g.fake.xadds, 2000);
    assert_int_equal(stats(&g).dropped, 0);
    sink_redis_free(g.redis);
    fake_end(&g.fake);
    event_base_free(g.base);
}

static void a_silent_redis(void **state) {
    (void)state;
    half_open(SILENT);
}

static void a_deaf_redis(void **state) {
    (void)state;
    half_open(DEAF);
}

static void a_trickling_redis(void **state) {
    (void)state;
    half_open(TRICKLE);
}

static void a_redis_that_resets(void **state) {
    struct rig g;
    (void)state;
    rig_open(&g, RESET, "", "");
    write_many(&g, 300);
    loop_for(g.base, 800);
    assert_true(g.fake.connections >= 2 && g.fake.connections <= 5);
    assert_int_equal(stats(&g).queued, 300);
    g.fake.mood = GOOD;
    assert_true(loop_until(g.base, is_empty, &g, LOOP_PATIENCE));
    assert_int_equal(g.fake.xadds, 300);
    rig_close(&g);
}

static void errors_keep_the_record(void **state) {
    static const char *const errors[] = {"-OOM command not allowed\r\n",
                                         "-READONLY You can't write\r\n",
                                         "-NOAUTH required\r\n",
                                         "-LOADING dataset\r\n",
                                         "-MOVED 1 h:1\r\n",
                                         "-NOPERM no\r\n"};
    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        struct rig g;
        rig_open(&g, GRUMBLE, "", "");
        g.fake.error = errors[i];
        write_many(&g, 50);
        loop_for(g.base, 250);
        assert_int_equal(stats(&g).queued, 50);
        assert_true(g.fake.connections >= 2);
        g.fake.mood = GOOD;
        assert_true(loop_until(g.base, is_empty, &g, LOOP_PATIENCE));
        assert_int_equal(g.fake.xadds, 50);
        rig_close(&g);
    }
}

/* Full: newcomers are dropped and counted, memory does not grow, and the stream says how many are missing. */
static void a_full_queue(void **state) {
    struct rig g;
    struct rusage before, after;
    struct record gap;
    const uint64_t many = 300000;
    (void)state;
    rig_open(&g, SILENT, "", "");
    write_many(&g, SINK_REDIS_RECORDS + 1000);
    getrusage(RUSAGE_SELF, &before);
    write_many(&g, many - SINK_REDIS_RECORDS - 1000);
    getrusage(RUSAGE_SELF, &after);
#ifndef __SANITIZE_ADDRESS__ /* it keeps freed memory for a while */
    assert_true(after.ru_maxrss - before.ru_maxrss < 2048);
#endif
    uint64_t dropped = stats(&g).dropped;
    assert_true(dropped >= many - SINK_REDIS_RECORDS);
    assert_false(sink_redis_take_gap(g.redis, false, &gap));
    g.fake.mood = GOOD;
    assert_true(loop_until(g.base, is_empty, &g, LOOP_PATIENCE));
    assert_int_equal(g.fake.gaps, 1);
    assert_int_equal(g.fake.xadds - 1, many - dropped);
    assert_int_equal(stats(&g).delivered, many - dropped);
    assert_true(sink_redis_take_gap(g.redis, false, &gap));
    assert_int_equal(gap.count, dropped);
    assert_true(slice_eq(gap.sink, SLICE("redis")) && gap.from_ms == g.record.time_ms &&
                gap.to_ms == g.record.time_ms);
    assert_false(sink_redis_take_gap(g.redis, true, &gap));
    rig_close(&g);
}

/* --- the file ----------------------------------------------------------------------------------------- */

static void a_full_disk(void **state) {
    struct rlimit limit, old;
    struct record gap;
    int fd = memfd_create("log", MFD_CLOEXEC);
    (void)state;
    struct sink_file *s = sink_file_new(dup(fd));
    assert_int_equal(sink_file_write(s, SLICE("{\"a\":1}\n"), 1000, 1000), 0);
    assert_false(sink_file_take_gap(s, true, &gap));
    /* a limit stands in for a disk: half of the second line fits, nothing of the third */
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    limit = (struct rlimit){12, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    assert_int_equal(sink_file_write(s, SLICE("{\"b\":2}\n"), 2000, 2000), ERR_IO);
    assert_int_equal(sink_file_write(s, SLICE("{\"c\":3}\n"), 3000, 3000), ERR_IO);
    assert_false(sink_file_take_gap(s, false, &gap));
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(sink_file_write(s, SLICE("{\"d\":4}\n"), 4000, 4000), 0);
    assert_true(sink_file_take_gap(s, false, &gap));
    assert_int_equal(gap.count, 2);
    assert_int_equal(gap.from_ms, 2000);
    assert_int_equal(gap.to_ms, 3000);
    assert_false(sink_file_take_gap(s, true, &gap));
    char text[64] = "";
    assert_true(pread(fd, text, sizeof text - 1, 0) > 0);
    assert_string_equal(text, "{\"a\":1}\n{\"b\"\n{\"d\":4}\n");
    sink_file_free(s);
    close(fd);
}

/* --- all together ------------------------------------------------------------------------------------- */

static void set_flag(void *arg) {
    *(bool *)arg = true;
}

static bool get_flag(void *arg) {
    return *(bool *)arg;
}

static void read_file(int fd, char *text, size_t cap) {
    ssize_t n = pread(fd, text, cap - 1, 0);
    text[n > 0 ? n : 0] = 0;
}

/* The end: what Redis does not take within the time is a gap in the file. */
static void the_end_is_bounded(void **state) {
    struct rig g;
    bool done = false;
    char text[65536];
    int fd = memfd_create("log", MFD_CLOEXEC), lines[2];
    (void)state;
    assert_int_equal(pipe2(lines, O_CLOEXEC), 0);
    rig_open(&g, SILENT, "", "");
    sink_redis_free(g.redis);
    struct redis_url url;
    snprintf(text, sizeof text, "redis://127.0.0.1:%d", g.fake.port);
    assert_int_equal(redis_url_parse(slice_str(text), &url, NULL), 0);
    assert_int_equal(sink_redis_resolve(&url, NULL), 0);
    struct sinks_config config = {
        .base = g.base, .log_fd = dup(fd), .redis = &url, .line_fd = lines[1], .loudness = 1};
    struct sinks *s = sinks_new(&config);
    assert_non_null(s);
    for (int i = 0; i < 3; i++)
        sinks_write(s, &g.record);
    uint64_t start = clock_monotonic_ms();
    sinks_stop(s, set_flag, &done);
    assert_true(loop_until(g.base, get_flag, &done, LOOP_PATIENCE));
    assert_in_range(clock_monotonic_ms() - start, SINKS_STOP_MS - 100, SINKS_STOP_MS + LOOP_PATIENCE);
    sinks_free(s);
    read_file(fd, text, sizeof text);
    assert_non_null(strstr(text, "{\"event\":\"gap\""));
    assert_non_null(strstr(text, "\"count\":3,"));
    assert_non_null(strstr(text, "\"sink\":\"redis\"}\n"));
    ssize_t n = read(lines[0], text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    assert_true(strncmp(text, "exeat: denied GET https://a.test/ [", 35) == 0);
    assert_non_null(strstr(text, "exeat: 3 records are missing in Redis, "));
    close(lines[0]);
    close(lines[1]);
    close(fd);
    fake_end(&g.fake);
    event_base_free(g.base);
}

/* Standard error that nobody reads: the scribe goes on. */
static void nobody_reads_the_lines(void **state) {
    int lines[2];
    (void)state;
    struct event_base *base = event_base_new();
    assert_int_equal(pipe2(lines, O_CLOEXEC), 0); /* blocking, as a terminal is */
    struct sinks_config config = {.base = base, .log_fd = -1, .line_fd = lines[1], .loudness = 2};
    struct sinks *s = sinks_new(&config);
    struct record r = {
        .event = RECORD_VERDICT, .denied = true, .method = SLICE("GET"), .url = SLICE("https://a.test/")};
    for (int i = 0; i < 20000; i++) /* none of which waits, or this never ends */
        sinks_write(s, &r);
    bool done = false;
    sinks_stop(s, set_flag, &done);
    assert_false(done);
    assert_true(loop_until(base, get_flag, &done, LOOP_PATIENCE));
    sinks_free(s);
    close(lines[0]);
    close(lines[1]);
    event_base_free(base);
}

/* From a worker's recorder to the file, and what is no record. */
static void from_recorder_to_file(void **state) {
    struct event_base *base = event_base_new();
    int fd = memfd_create("log", MFD_CLOEXEC);
    uint8_t memory[64];
    char text[65536], want[64];
    struct recording g;
    struct msg_in in;
    (void)state;
    recording_open(&g, base, NULL, NULL);
    struct sinks_config config = {.base = base, .log_fd = dup(fd), .line_fd = -1};
    struct sinks *s = sinks_new(&config);
    for (uint64_t i = 1; i <= 10; i++) {
        struct record r = {.event = i % 3 == 1 ? RECORD_OUTCOME : RECORD_VERDICT,
                           .denied = i % 3 == 0,
                           .has = RECORD_HAS_SENT,
                           .sent = i};
        recorder_send(g.recorder, &r);
    }
    for (unsigned i = 0; i < 10; i++) {
        assert_true(recording_take(&g, &in));
        assert_int_equal(sinks_receive(s, &in), 0);
    }
    assert_false(recording_take(&g, &in));
    event_base_loop(base, EVLOOP_NONBLOCK);
    read_file(fd, text, sizeof text);
    const char *at = text;
    for (unsigned i = 1; i <= 10; i++) {
        snprintf(want, sizeof want, "\"sent\":%u}\n", i);
        at = strstr(at, want);
        assert_non_null(at);
    }
    assert_int_equal(at[strlen(want)], 0);
    struct msg_out out;
    msg_begin(&out, memory, sizeof memory, RECORD_WAKE);
    assert_int_equal(msg_parse(&in, out.p, out.n), 0);
    assert_int_equal(sinks_receive(s, &in), ERR_PEER);
    recording_close(&g);
    sinks_free(s);
    close(fd);
    event_base_free(base);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_redis),          cmocka_unit_test(no_limit_of_length),
        cmocka_unit_test(redis_comes_late),      cmocka_unit_test(a_silent_redis),
        cmocka_unit_test(a_deaf_redis),          cmocka_unit_test(a_trickling_redis),
        cmocka_unit_test(a_redis_that_resets),   cmocka_unit_test(errors_keep_the_record),
        cmocka_unit_test(a_full_queue),          cmocka_unit_test(a_full_disk),
        cmocka_unit_test(the_end_is_bounded),    cmocka_unit_test(nobody_reads_the_lines),
        cmocka_unit_test(from_recorder_to_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
