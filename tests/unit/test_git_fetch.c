/* What exeat asks a git server, and what it makes of the answer. The answers are those of git's own upload-pack. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "proxy/codec/git_fetch.h"

#define CAPABILITIES                                                                                         \
    "000eversion 2\n0015agent=git/2.39.5\n0013ls-refs=unborn\n0027fetch=shallow wait-for-done filter\n"      \
    "0012server-option\n0017object-format=sha1\n0010object-info\n0000"

/* ---- what the server offers ---- */

static int advert_in(struct git_advert *a, struct slice in, size_t piece) {
    int r = ERR_INCOMPLETE;
    git_advert_init(a);
    for (size_t at = 0; at < in.n && r == ERR_INCOMPLETE; at += piece)
        r = git_advert_feed(a, slice_sub(in, at, piece));
    if (r != ERR_INCOMPLETE)
        assert_int_equal(git_advert_feed(a, SLICE("0004")), r); /* it stays */
    git_advert_release(a);
    return r;
}

static struct git_advert advert(const char *text, int want) {
    struct git_advert a, b;
    struct slice in = slice_str(text);
    int r = advert_in(&a, in, in.n ? in.n : 1);
    if (r != want)
        fail_msg("%s: %d, %s", text, r, a.error.text);
    assert_int_equal(advert_in(&b, in, 1), want);
    assert_true(a.fetch == b.fetch && a.filter == b.filter && a.id_digits == b.id_digits);
    if (r && r != ERR_INCOMPLETE)
        assert_true(a.error.text[0] && strcmp(a.error.text, b.error.text) == 0);
    return a;
}

static void offers(void **state) {
    (void)state;
    struct git_advert a = advert(CAPABILITIES, 0);
    assert_true(a.fetch && a.filter && a.shallow && a.ls_refs && a.id_digits == 40);
    a = advert("001e# service=git-upload-pack\n0000" CAPABILITIES "bytes behind it", 0);
    assert_true(a.fetch && a.filter);
    a = advert("000eversion 2\n0020fetch=shallow wait-for-done\n0019object-format=sha256\n0000", 0);
    assert_true(a.fetch && !a.filter && a.shallow && !a.ls_refs && a.id_digits == 64);
    a = advert("000eversion 2\n000afetch\n0012fetch=nofilter0000", 0);
    assert_true(a.fetch && !a.filter);
    a = advert("000dversion 20013ls-refs=unborn\n0000", 0);
    assert_false(a.fetch);
    for (size_t i = 0; i < sizeof CAPABILITIES - 2; i += 7) {
        char cut[sizeof CAPABILITIES];
        snprintf(cut, i + 1, "%s", CAPABILITIES);
        advert(cut, ERR_INCOMPLETE);
    }
}

static void offers_nothing(void **state) {
    char many[GIT_ADVERT_MAX + 64];
    (void)state;
    advert("000eversion 1\n0000", ERR_UNSUPPORTED);
    advert("001e# service=git-upload-pack\n000000b4abababababababababababababababababababababab HEAD",
           ERR_INCOMPLETE);
    advert("001e# service=git-upload-pack\n00000031abababababababababababababababababababab HEAD",
           ERR_UNSUPPORTED);
    advert("000eversion 2\n0016object-format=md5\n0000", ERR_UNSUPPORTED);
    struct git_advert a = advert("0020ERR no such \x1b[31mthing\nhere\n", ERR_DENIED);
    assert_string_equal(a.error.text, "the server says: no such  [31mthing here");
    advert("0000", ERR_PARSE);
    advert("000eversion 2\n0001", ERR_PARSE);
    advert("001e# service=git-upload-pack\n001e# service=git-upload-pack\n", ERR_PARSE);
    advert("<!doctype html>", ERR_PARSE);
    int n = snprintf(many, sizeof many, "000eversion 2\n");
    while (n < GIT_ADVERT_MAX + 10)
        n += snprintf(many + n, sizeof many - (size_t)n, "000aagent\n");
    advert(many, ERR_LIMIT);
}

/* ---- requests ---- */

static void asks(void **state) {
    struct buf b;
    (void)state;
    buf_init(&b, 4096);
    git_fetch_begin(&b, 40, "tree:0");
    git_fetch_want(&b, SLICE("1111111111111111111111111111111111111111"));
    git_fetch_have(&b, SLICE("2222222222222222222222222222222222222222"));
    git_fetch_end(&b);
    assert_string_equal(buf_cstr(&b),
                        "0012command=fetch\n0017object-format=sha1\n00010010no-progress\n000eofs-delta\n"
                        "0012filter tree:0\n0032want 1111111111111111111111111111111111111111\n"
                        "0032have 2222222222222222222222222222222222222222\n0009done\n0000");
    buf_clear(&b);
    git_fetch_begin(&b, 64, NULL);
    git_fetch_end(&b);
    assert_string_equal(buf_cstr(&b), "0012command=fetch\n0019object-format=sha256\n00010010no-progress\n"
                                      "000eofs-delta\n0009done\n0000");
    buf_clear(&b);
    git_fetch_begin(&b, 40, NULL);
    git_fetch_alone(&b);
    assert_non_null(strstr(buf_cstr(&b), "ofs-delta\n000ddeepen 1\n"));
    buf_clear(&b);
    git_refs_ask(&b, 40, SLICE("refs/heads/"));
    assert_string_equal(buf_cstr(&b),
                        "0014command=ls-refs\n0017object-format=sha1\n0001001bref-prefix refs/heads/\n0000");
    buf_release(&b);
    buf_init(&b, 100);
    git_fetch_begin(&b, 40, "tree:0");
    for (int i = 0; i < 10; i++)
        git_fetch_want(&b, SLICE("1111111111111111111111111111111111111111"));
    assert_true(b.failed);
    buf_release(&b);
}

/* ---- answers ---- */

/* The pack's bytes go to `pack`, what was left of the input to *left. */
static enum git_fetch_step take(struct slice in, size_t piece, struct buf *pack, size_t *left,
                                struct errmsg *why) {
    enum git_fetch_step step = GIT_FETCH_MORE;
    struct git_fetch f;
    git_fetch_init(&f);
    buf_clear(pack);
    while (in.n && (step == GIT_FETCH_MORE || step == GIT_FETCH_DATA)) {
        size_t used;
        struct slice data;
        step = git_fetch_next(&f, slice_sub(in, 0, piece), &used, &data);
        assert_true(step != GIT_FETCH_MORE || used == (piece < in.n ? piece : in.n));
        in = slice_from(in, used);
        buf_put(pack, data);
    }
    *left = in.n;
    *why = f.error;
    git_fetch_release(&f);
    return step;
}

static void answer(struct slice in, enum git_fetch_step want, const char *pack, const char *why) {
    struct buf got;
    struct errmsg error = {""};
    size_t left, left1;
    buf_init(&got, 1 << 20);
    enum git_fetch_step step = take(in, in.n, &got, &left, &error);
    if (step != want || strcmp(error.text, why) != 0 || !slice_eq(buf_slice(&got), slice_str(pack)))
        fail_msg("%.*s: %d, %s, %s", SLICE_ARG(in), (int)step, error.text, buf_cstr(&got));
    assert_int_equal(take(in, 1, &got, &left1, &error), want);
    assert_true(slice_eq(buf_slice(&got), slice_str(pack)) && left == left1 && strcmp(error.text, why) == 0);
    buf_release(&got);
}

static void packs(void **state) {
    (void)state;
    answer(SLICE("000dpackfile\n0012\x01PACK of bytes000e\x01 and on\x0a\x0a"
                 "000a\x02"
                 "50%\x0a\x0a"
                 "0005\x01"
                 "0007\x01!!"
                 "0000"),
           GIT_FETCH_DONE, "PACK of bytes and on\n\n!!", "");
    answer(SLICE("0011shallow-info\n0035shallow 1111111111111111111111111111111111111111\n0001"
                 "000dpackfile\n"
                 "0009\x01PACK0000behind"),
           GIT_FETCH_DONE, "PACK", "");
    answer(SLICE("0014acknowledgments\n0008NAK\n0000"), GIT_FETCH_BAD, "", "the server's answer has no pack");
    answer(SLICE("000dpackfile\n0009\x01PACK"), GIT_FETCH_DATA, "PACK", "");
    answer(SLICE("000dpackfile\n0009\x01PA"), GIT_FETCH_MORE, "", "");
}

static void no_packs(void **state) {
    (void)state;
    answer(SLICE("0049ERR upload-pack: not our ref 1111111111111111111111111111111111111111"), GIT_FETCH_BAD,
           "", "the server says: upload-pack: not our ref 1111111111111111111111111111111111111111");
    answer(SLICE("000dpackfile\n0009\x01PACK0011\x03out of order\n"), GIT_FETCH_BAD, "PACK",
           "the server says: out of order");
    answer(SLICE("000dpackfile\n0009\x04PACK"), GIT_FETCH_BAD, "",
           "the server's answer has an unknown side band");
    answer(SLICE("000dpackfile\n0004"), GIT_FETCH_BAD, "", "the server's pack is not on the side band");
    answer(SLICE("000dpackfile\n0001"), GIT_FETCH_BAD, "", "the server's pack is not on the side band");
    answer(SLICE("0012packfile-uris\n"), GIT_FETCH_BAD, "",
           "the server's answer has a section that was not asked for");
    answer(SLICE("0000"), GIT_FETCH_BAD, "", "the server's answer has no pack");
    answer(SLICE("<html>"), GIT_FETCH_BAD, "", "the server's answer is not git's: it has no pkt-lines");
}

static void long_ones(void **state) {
    struct buf in;
    (void)state;
    buf_init(&in, 64u << 20);
    buf_puts(&in, "0011shallow-info\n");
    for (int i = 0; i < 100000; i++)
        buf_puts(&in, "0035shallow 1111111111111111111111111111111111111111\n");
    answer(buf_slice(&in), GIT_FETCH_BAD, "", "the server's answer is too long before its pack");
    buf_clear(&in);
    buf_puts(&in, "000dpackfile\n");
    for (int i = 0; i < 1000000; i++)
        buf_put(&in, SLICE("0005\x01"));
    answer(buf_slice(&in), GIT_FETCH_BAD, "", "the server's answer is too long before its pack");
    buf_release(&in);
}

/* ---- lists of refs ---- */

#define ONE "1111111111111111111111111111111111111111"
#define TWO "2222222222222222222222222222222222222222"

/* "name id " for each, then how it ended. */
static void listed(const char *text, int id_digits, const char *want) {
    struct slice whole = slice_str(text);
    for (size_t piece = 1; piece <= whole.n; piece += whole.n - 1) {
        enum git_refs_step step = GIT_REFS_MORE;
        struct slice in = whole;
        struct git_refs r;
        struct buf got;
        git_refs_init(&r, id_digits);
        buf_init(&got, 4096);
        while (in.n && (step == GIT_REFS_MORE || step == GIT_REFS_REF)) {
            size_t used;
            struct git_listed_ref ref;
            step = git_refs_next(&r, slice_sub(in, 0, piece), &used, &ref);
            in = slice_from(in, used);
            if (step == GIT_REFS_REF)
                buf_printf(&got, "%.*s %.*s ", SLICE_ARG(ref.name), SLICE_ARG(ref.id));
        }
        buf_puts(&got, step == GIT_REFS_DONE ? "done" : step == GIT_REFS_BAD ? r.error.text : "more");
        assert_string_equal(buf_cstr(&got), want);
        buf_release(&got);
        git_refs_release(&r);
    }
}

static void lists(void **state) {
    (void)state;
    listed("0000", 40, "done");
    listed("003d" ONE " refs/heads/main\n003c" TWO " refs/heads/a b\n0000", 40,
           "refs/heads/main " ONE " refs/heads/a " TWO " done");
    listed("003d" ONE " refs/heads/main\n", 40, "refs/heads/main " ONE " more");
    listed("003d" ONE " refs/heads/main\n0000", 64, "the server's list of refs is malformed");
    listed("0032" ONE " heads", 40, "heads " ONE " more");
    listed("002e" ONE " \n", 40, "the server's list of refs is malformed");
    listed("001aunborn HEAD refs/heads\n0000", 40, "the server's list of refs is malformed");
    listed("0001", 40, "the server's list of refs is malformed");
    listed("000fERR go away", 40, "the server says: go away");
    listed("<html>", 40, "the server's answer is not git's: it has no pkt-lines");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offers), cmocka_unit_test(offers_nothing), cmocka_unit_test(asks),
        cmocka_unit_test(packs),  cmocka_unit_test(no_packs),       cmocka_unit_test(long_ones),
        cmocka_unit_test(lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
