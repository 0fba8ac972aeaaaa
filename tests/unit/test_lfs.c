/* codec: what a batch of Git LFS says, and its answer without the secrets in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "proxy/codec/lfs.h"

static void requests(void **state) {
    static const struct {
        const char *body, *operation;
        uint64_t objects, bytes;
    } rows[] = {
        {"{\"operation\":\"upload\",\"objects\":[{\"oid\":\"a\",\"size\":3},{\"oid\":\"b\",\"size\":4}]}",
         "upload", 2, 7},
        {"{\"operation\":\"download\",\"objects\":[]}", "download", 0, 0},
        {"{\"operation\":\"other\"}", "", 0, 0},
        {"{\"objects\":[1,{\"size\":-5},{\"size\":\"x\"},{\"size\":9223372036854775807},{\"size\":"
         "9223372036854775807},"
         "{\"size\":9223372036854775807}]}",
         "", 6, 18446744073709551614u},
    };
    static const char *const bad[] = {"", "[]", "{", "{\"a\":1,\"a\":2}", "{\"a\":\"\xff\"}"};
    struct lfs_batch b;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_true(lfs_read(slice_str(rows[i].body), &b));
        assert_true(slice_eq(b.operation, slice_str(rows[i].operation)));
        assert_int_equal(b.objects, rows[i].objects);
        assert_true(b.bytes == rows[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(lfs_read(slice_str(bad[i]), &b));
}

static void which_is_a_batch(void **state) {
    static const struct {
        const char *method, *path, *accept;
        bool batch;
    } rows[] = {
        {"POST", "/a/b.git/info/lfs/objects/batch", "", true},
        {"POST", "/lfs/objects/batch", "application/vnd.git-lfs+json; charset=utf-8", true},
        {"POST", "/lfs/objects/batch", "application/json", false},
        {"GET", "/a/b.git/info/lfs/objects/batch", "", false},
        {"POST", "/a/b.git/info/lfs/objects/batch/", "", false},
        {"POST", "/a/b.git/info/lfs/locks", "application/vnd.git-lfs+json", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(
            lfs_is_batch(slice_str(rows[i].method), slice_str(rows[i].path), slice_str(rows[i].accept)),
            rows[i].batch);
}

static void times(void **state) {
    static const struct {
        const char *text;
        int64_t seconds;
    } good[] = {{"1970-01-01T00:00:00Z", 0},
                {"2016-11-10T15:29:07Z", 1478791747},
                {"2016-11-10T15:29:07.123456789+01:30", 1478786347},
                {"2000-02-29t23:59:60z", 951868800},
                {"2024-03-01T00:00:00-00:00", 1709251200},
                {"9999-12-31T23:59:59Z", 253402300799}};
    static const char *const bad[] = {"",
                                      "2016-11-10",
                                      "2016-11-10 15:29:07Z",
                                      "2016-13-10T15:29:07Z",
                                      "2016-11-10T15:29:07",
                                      "2016-11-10T15:29:07+0100",
                                      "2016-11-10T15:29:07Zx",
                                      "1969-11-10T15:29:07Z",
                                      "2016-11-10T24:29:07Z",
                                      "2016-11-+1T15:29:07Z"};
    int64_t at;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(lfs_time(slice_str(good[i].text), &at));
        assert_int_equal(at, good[i].seconds);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (lfs_time(slice_str(bad[i]), &at))
            fail_msg("%s", bad[i]);
}

/* Writes down what it is asked, and refuses what lies at no.test. */
static bool note(void *arg, const struct lfs_action *a, char *why) {
    struct buf *log = arg;
    buf_printf(log, "%.*s %.*s", SLICE_ARG(a->method), SLICE_ARG(a->href));
    for (size_t i = 0; i < a->nfields; i++)
        buf_printf(log, " %.*s=%.*s", SLICE_ARG(a->fields[i].name), SLICE_ARG(a->fields[i].value));
    if (a->expires)
        buf_printf(log, " %lld %lld", (long long)a->expires_in, (long long)a->expires_at);
    buf_putc(log, '\n');
    if (slice_starts(a->href, SLICE("https://no.test/")))
        return snprintf(why, LFS_WHY_MAX, "not there") < 0;
    return true;
}

static void rewrites(const char *body, const char *wanted, const char *asked, size_t refused) {
    struct buf out, log;
    struct errmsg msg = {""};
    size_t n;
    buf_init(&out, LFS_ANSWER_MAX);
    buf_init(&log, 65536);
    if (lfs_rewrite(slice_str(body), note, &log, &out, &n, &msg))
        fail_msg("%s: %s", body, msg.text);
    buf_putc(&log, 0);
    buf_putc(&out, 0);
    assert_string_equal(buf_slice(&log).p, asked);
    assert_string_equal(buf_slice(&out).p, wanted);
    assert_int_equal(n, refused);
    buf_release(&out);
    buf_release(&log);
}

static void answers(void **state) {
    (void)state;
    rewrites("{\"objects\":[]}", "{\"objects\":[]}\n", "", 0);
    rewrites("{\"transfer\":\"basic\",\"objects\":[{\"oid\":\"a\",\"size\":1,\"authenticated\":true,"
             "\"actions\":{\"download\":"
             "{\"href\":\"https://s.test/a\",\"header\":{\"Authorization\":\"RemoteAuth "
             "SECRET-T\"},\"expires_in\":60,"
             "\"expires_at\":\"2016-11-10T15:29:07Z\"}}}],\"hash_algo\":\"sha256\"}",
             "{\"transfer\":\"basic\",\"hash_algo\":\"sha256\",\"objects\":[{\"oid\":\"a\",\"size\":1,"
             "\"authenticated\":true,"
             "\"actions\":{\"download\":{\"expires_in\":60,\"expires_at\":\"2016-11-10T15:29:07Z\",\"href\":"
             "\"https://s.test/a\",\"header\":{\"Authorization\":\"kept-by-exeat\"}}}}]}\n",
             "GET https://s.test/a Authorization=RemoteAuth SECRET-T 60 1478791747\n", 0);
    rewrites(
        "{\"objects\":[{\"oid\":\"a\",\"actions\":{\"upload\":{\"href\":\"https://s.test/"
        "a\"},\"verify\":{\"href\":"
        "\"https://no.test/v\"}}},{\"oid\":\"b\",\"error\":{\"code\":404,\"message\":\"no\",\"x\":1}},{}]}",
        "{\"objects\":[{\"oid\":\"a\",\"error\":{\"code\":403,\"message\":\"not "
        "there\"}},{\"oid\":\"b\",\"error\":"
        "{\"code\":404,\"message\":\"no\"}},{}]}\n",
        "PUT https://s.test/a\nPOST https://no.test/v\n", 1);
    rewrites("{\"objects\":[{\"actions\":{\"upload\":{\"href\":\"https://s.test/"
             "a\"},\"verify\":{\"href\":\"https://"
             "s.test/v\"}}}]}",
             "{\"objects\":[{\"actions\":{\"upload\":{\"href\":\"https://s.test/"
             "a\",\"header\":{\"X-Exeat-Upload\":\"kept-"
             "by-exeat\"}},\"verify\":{\"href\":\"https://s.test/v\"}}}]}\n",
             "PUT https://s.test/a\nPOST https://s.test/v\n", 0);
    /* what is not a string, not a field, or frames the message */
    rewrites("{\"objects\":[{\"actions\":{\"upload\":{\"href\":\"https://s.test/a\",\"header\":{\"a\":1,\"b "
             "c\":\"x\",\"d\":"
             "\"x\\ny\",\"Host\":\"h\",\"transfer-encoding\":\"chunked\",\"TE\":\"x\",\"e\":\" y "
             "\"}}},\"more\":{}}],\"m\":1}",
             "{\"objects\":[{\"actions\":{\"upload\":{\"href\":\"https://s.test/"
             "a\",\"header\":{\"transfer-encoding\":"
             "\"chunked\",\"e\":\"kept-by-exeat\"}}}}]}\n",
             "PUT https://s.test/a e=y\n", 0);
    rewrites(
        "{\"objects\":[{\"actions\":{\"upload\":{\"href\":1}}}]}",
        "{\"objects\":[{\"error\":{\"code\":403,\"message\":\"the server does not say where it lies\"}}]}\n",
        "", 1);
    rewrites("{\"objects\":[{\"actions\":{\"upload\":{\"href\":\"https://s.test/"
             "\",\"header\":{\"X_A\":\"1\",\"x-a\":\"2\"}}}}]}",
             "{\"objects\":[{\"error\":{\"code\":403,\"message\":\"the server's header fields for it are too "
             "many, or one "
             "is there twice\"}}]}\n",
             "", 1);
}

static void no_answers(void **state) {
    static const char *const bad[] = {"",
                                      "[]",
                                      "{}",
                                      "{\"objects\":{}}",
                                      "{\"objects\":[],\"objects\":[]}",
                                      "{\"objects\":[],\"transfer\":\"tus\"}",
                                      "{\"objects\":[{\"oid\":\"\xc3\x28\"}]}",
                                      "{\"objects\":[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]}"};
    struct buf out, log;
    struct errmsg msg;
    size_t n;
    (void)state;
    buf_init(&out, LFS_ANSWER_MAX);
    buf_init(&log, 65536);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        msg.text[0] = 0;
        assert_int_equal(lfs_rewrite(slice_str(bad[i]), note, &log, &out, &n, &msg), ERR_PARSE);
        assert_true(msg.text[0]);
    }
    assert_int_equal(buf_len(&log), 0);
    buf_release(&out);
    buf_init(&out, 20);
    assert_int_equal(
        lfs_rewrite(SLICE("{\"objects\":[{\"oid\":\"0123456789\"}]}"), note, &log, &out, &n, &msg),
        ERR_LIMIT);
    buf_release(&out);
    buf_release(&log);
}

/* More fields than an action may have. */
static void many_fields(void **state) {
    struct buf body;
    (void)state;
    for (int n = LFS_FIELDS_MAX; n <= LFS_FIELDS_MAX + 1; n++) {
        struct buf out, log;
        size_t refused;
        buf_init(&body, 65536);
        buf_init(&out, LFS_ANSWER_MAX);
        buf_init(&log, 65536);
        buf_puts(&body,
                 "{\"objects\":[{\"actions\":{\"download\":{\"href\":\"https://s.test/\",\"header\":{");
        for (int i = 0; i < n; i++)
            buf_printf(&body, "%s\"x%d\":\"SECRET-%d\"", i ? "," : "", i, i);
        buf_puts(&body, "}}}}]}");
        assert_int_equal(lfs_rewrite(buf_slice(&body), note, &log, &out, &refused, NULL), 0);
        assert_int_equal(refused, n > LFS_FIELDS_MAX);
        assert_null(memmem(out.data, out.end, "SECRET", 6));
        buf_release(&body);
        buf_release(&out);
        buf_release(&log);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests), cmocka_unit_test(which_is_a_batch), cmocka_unit_test(times),
        cmocka_unit_test(answers),  cmocka_unit_test(no_answers),       cmocka_unit_test(many_fields),
    };
    lfs_prepare();
    return cmocka_run_group_tests_name("lfs", tests, NULL, NULL);
}
