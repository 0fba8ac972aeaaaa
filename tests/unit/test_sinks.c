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
#include "tests/unit/redis_fake.h"

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

static bool was_dropped(void *arg) {
    return ((struct rig *)arg)->fake.closed > 0;
}

/* What hiredis would end the process for ends the connection, and everything goes to the next. */
static void a_hostile_redis(void **state) {
    static const struct {
        const char *says;
        bool early, taken; /* `taken`: the first of it is an answer */
    } cases[] = {
        {"+OK\r\n", true, false},       {":1\r\n", true, false},
        {"$2\r\nhi\r\n", true, false},  {"$-1\r\n", true, false},
        {"*-1\r\n", true, false},       {"-ERR full\r\n", true, false},
        {"+A\r\n+B\r\n", false, true},  {"+A\r\n:1\r\n", false, true},
        {"*1\r\n+A\r\n", false, false}, {"*1\r\n*1\r\n:1\r\n", false, false},
        {"*0\r\n", false, false},       {"!", false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rig g;
        rig_open(&g, HOSTILE, "", "");
        g.fake.error = cases[i].says;
        g.fake.early = cases[i].early;
        write_many(&g, cases[i].early ? 0 : 1);
        assert_true(loop_until(g.base, was_dropped, &g, LOOP_PATIENCE));
        assert_int_equal(stats(&g).delivered, cases[i].taken ? 1 : 0);
        assert_true(stats(&g).errors > 0);
        g.fake.mood = GOOD;
        write_many(&g, 5);
        assert_true(loop_until(g.base, is_empty, &g, LOOP_PATIENCE));
        assert_int_equal(g.fake.xadds, cases[i].early ? 5 : 6);
        rig_close(&g);
    }
}

/* … nor as much as a server likes to say. */
static void an_endless_answer(void **state) {
    struct rig g;
    (void)state;
    rig_open(&g, POUR, "", "");
    write_many(&g, 1);
    assert_true(loop_until(g.base, was_dropped, &g, LOOP_PATIENCE));
    assert_true(g.fake.poured < POURED);
    g.fake.mood = GOOD;
    assert_true(loop_until(g.base, is_empty, &g, LOOP_PATIENCE));
    assert_int_equal(g.fake.xadds, 1);
    rig_close(&g);
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
        cmocka_unit_test(a_hostile_redis),       cmocka_unit_test(an_endless_answer),
        cmocka_unit_test(a_full_queue),          cmocka_unit_test(a_full_disk),
        cmocka_unit_test(the_end_is_bounded),    cmocka_unit_test(nobody_reads_the_lines),
        cmocka_unit_test(from_recorder_to_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
