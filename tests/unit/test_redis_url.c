/* --redis: what is understood, what is refused, and that no message shows user or password. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proxy/record/sink_redis.h"

struct good {
    const char *text, *host, *path;
    unsigned port, db;
    uint64_t maxlen;
    const char *user, *password;
};

static void understood(void **state) {
    (void)state;
    static const struct good table[] = {
        {"redis://127.0.0.1:7000", "127.0.0.1", "", 7000, 0, SINK_REDIS_MAXLEN, "", ""},
        {"redis://localhost", "localhost", "", 6379, 0, SINK_REDIS_MAXLEN, "", ""},
        {"redis://localhost/", "localhost", "", 6379, 0, SINK_REDIS_MAXLEN, "", ""},
        {"redis://localhost/3", "localhost", "", 6379, 3, SINK_REDIS_MAXLEN, "", ""},
        {"redis://h:1/3?maxlen=77", "h", "", 1, 3, 77, "", ""},
        {"redis://h?maxlen=0", "h", "", 6379, 0, 0, "", ""},
        {"redis://[::1]:7", "::1", "", 7, 0, SINK_REDIS_MAXLEN, "", ""},
        {"redis://[2001:db8::1]", "2001:db8::1", "", 6379, 0, SINK_REDIS_MAXLEN, "", ""},
        {"redis://:SECRET-P@h", "h", "", 6379, 0, SINK_REDIS_MAXLEN, "", "SECRET-P"},
        {"redis://joe:SECRET%40%2fP@h:5/1", "h", "", 5, 1, SINK_REDIS_MAXLEN, "joe", "SECRET@/P"},
        {"redis://joe:a@b@h", "h", "", 6379, 0, SINK_REDIS_MAXLEN, "joe", "a@b"},
        {"unix:/run/r.sock", "", "/run/r.sock", 0, 0, SINK_REDIS_MAXLEN, "", ""},
        {"unix:///run/r.sock?db=2&maxlen=5", "", "/run/r.sock", 0, 2, 5, "", ""},
        {"unix:/r?user=u&password=SECRET-P", "", "/r", 0, 0, SINK_REDIS_MAXLEN, "u", "SECRET-P"},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct good *g = &table[i];
        struct redis_url u;
        struct errmsg msg = {""};
        if (redis_url_parse(slice_str(g->text), &u, &msg))
            fail_msg("%s: %s", g->text, msg.text);
        assert_string_equal(u.host, g->host);
        assert_string_equal(u.path, g->path);
        assert_int_equal(u.port, g->port);
        assert_int_equal(u.db, g->db);
        assert_int_equal(u.maxlen, g->maxlen);
        assert_true(slice_eq(secret_slice(&u.user), slice_str(g->user)));
        assert_true(slice_eq(secret_slice(&u.password), slice_str(g->password)));
        redis_url_release(&u);
    }
}

static const char *const bad_urls[] = {
    "",
    "redis:",
    "redis://",
    "redis:///1",
    "localhost:6379",
    "http://h",
    "rediss://h",
    "REDIS//h",
    "redis://h:0",
    "redis://h:65536",
    "redis://h:",
    "redis://h:12x",
    "redis://h:-1",
    "redis://h/x",
    "redis://h/65536",
    "redis://h/1/2",
    "redis://h?",
    "redis://h?maxlen=",
    "redis://h?maxlen=x",
    "redis://h?max=1",
    "redis://h?maxlen=1&",
    "redis://h?db=1",
    "redis://[::1",
    "redis://[::1]x",
    "redis://[]",
    "redis://[1.2.3.4]",
    "redis://::1",
    "redis://h x",
    "redis://h\n",
    "redis://a/b@h",
    "redis://SECRET-P@h",
    "redis://joe:@h",
    "redis://:@h",
    "redis://:SECRET-P%4@h",
    "redis://:SECRET-P%zz@h",
    "unix:",
    "unix:r.sock",
    "unix://h/r",
    "unix:/r?x=1",
    "unix:/r?user=SECRET-P",
    "redis://h;h2",
    "redis://h#x",
};

static void refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad_urls / sizeof bad_urls[0]; i++) {
        struct redis_url u;
        struct errmsg msg = {""};
        if (redis_url_parse(slice_str(bad_urls[i]), &u, &msg) != ERR_USAGE)
            fail_msg("'%s' was accepted", bad_urls[i]);
        assert_true(strncmp(msg.text, "--redis: ", 9) == 0);
        assert_null(strstr(msg.text, "SECRET"));
        assert_null(u.password.bytes);
        redis_url_release(&u);
    }
    char long_path[256] = "unix:/";
    struct redis_url u;
    memset(long_path + 6, 'x', 200);
    assert_int_equal(redis_url_parse(slice_make(long_path, 206), &u, NULL), ERR_USAGE);
    assert_int_equal(redis_url_parse(slice_make("redis://h\0x", 11), &u, NULL), ERR_USAGE);
}

static void resolved(void **state) {
    (void)state;
    struct redis_url u;
    struct errmsg msg;
    char text[ADDR_TEXT_MAX];
    assert_int_equal(redis_url_parse(SLICE("redis://[::1]:7"), &u, &msg), 0);
    assert_int_equal(sink_redis_resolve(&u, &msg), 0);
    assert_int_equal(u.naddrs, 1);
    assert_string_equal(addr_text(&u.addrs[0], true, text), "[::1]:7");
    redis_url_release(&u);
    assert_int_equal(redis_url_parse(SLICE("redis://localhost:9"), &u, &msg), 0);
    assert_int_equal(sink_redis_resolve(&u, &msg), 0);
    assert_true(u.naddrs >= 1 && addr_kind(&u.addrs[0]) == ADDR_LOOPBACK && addr_port(&u.addrs[0]) == 9);
    redis_url_release(&u);
    assert_int_equal(redis_url_parse(SLICE("redis://no-such-name.invalid"), &u, &msg), 0);
    assert_int_equal(sink_redis_resolve(&u, &msg), ERR_NOTFOUND);
    redis_url_release(&u);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(understood),
        cmocka_unit_test(refused),
        cmocka_unit_test(resolved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
