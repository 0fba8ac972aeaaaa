/* The answer to a push. Those of the first test are receive-pack's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "proxy/codec/git_status.h"

#define ID "fe5079a50f11350264064e9f8fa3f2009cd11f04"
#define Z  "0000000000000000000000000000000000000000"

static const char *const end_names[] = {"open", "whole", "fatal", "bad"};

static void take(void *arg, const struct git_status_ref *ref) {
    struct buf *out = arg;
    buf_printf(out, "%.*s:%s%.*s", SLICE_ARG(ref->ref), ref->ok ? "ok" : "ng ", SLICE_ARG(ref->reason));
    if (ref->to.n)
        buf_printf(out, " to %.*s", SLICE_ARG(ref->to));
    if (ref->old_id.n)
        buf_printf(out, " old %.4s", ref->old_id.p);
    if (ref->new_id.n)
        buf_printf(out, " new %.4s", ref->new_id.p);
    buf_puts(out, ref->forced ? " forced;" : ";");
}

static void run(struct slice in, bool side_band, size_t piece, struct buf *out) {
    struct git_status s;
    buf_init(out, 65536);
    git_status_init(&s, side_band, take, out);
    for (size_t at = 0; at < in.n; at += piece)
        git_status_feed(&s, slice_sub(in, at, piece));
    buf_printf(out, "%s", end_names[s.end]);
    if (buf_len(&s.text))
        buf_printf(out, " (%.*s)", SLICE_ARG(buf_slice(&s.text)));
    git_status_release(&s);
}

static void check(struct slice in, bool side_band, const char *want) {
    const size_t pieces[] = {in.n, 1, 3, 7};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct buf got;
        run(in, side_band, pieces[i], &got);
        assert_string_equal(buf_cstr(&got), want);
        buf_release(&got);
    }
}

static void what_git_says(void **state) {
    (void)state;
    check(SLICE("000eunpack ok\n0014ok refs/heads/x\n0000"), false, "refs/heads/x:ok;whole");
    check(
        SLICE(
            "005d\2error: cannot lock ref 'refs/heads/none': unable to resolve reference 'refs/heads/none'\n"
            "0057\1"
            "000eunpack ok\n0014ok refs/heads/y\n002cng refs/heads/none failed to update ref\n"
            "00000000"),
        true, "refs/heads/y:ok;refs/heads/none:ng failed to update ref;whole");
    check(SLICE("0016\2fatal: early EOF\n0054\1"
                "0028unpack unpack-objects abnormal exit\n0023ng refs/heads/q unpacker error\n00000000"),
          true, "refs/heads/q:ng unpacker error;whole (unpack-objects abnormal exit)");
    check(SLICE("0017\2a review was made\n015d\1"
                "000eunpack ok\n001bok refs/for/main/topic\n"
                "0027option refname refs/changes/01/1/1\n003coption new-oid " ID "\n"
                "0019option forced-update\n001bok refs/for/main/topic\n"
                "0027option refname refs/changes/02/2/1\n003coption old-oid " Z "\n"
                "0014ok refs/heads/a\n001dng refs/for/no not today\n00000000"),
          true,
          "refs/for/main/topic:ok to refs/changes/01/1/1 new fe50 forced;"
          "refs/for/main/topic:ok to refs/changes/02/2/1 old 0000;refs/heads/a:ok;refs/for/no:ng not "
          "today;whole");
}

/* One inner line behind "unpack ok" and one ref. */
static void after_a_ref(const char *line, const char *want) {
    struct buf in;
    buf_init(&in, 65536);
    pkt_printf(&in, "unpack ok");
    pkt_printf(&in, "ok refs/heads/x");
    pkt_put(&in, slice_str(line));
    pkt_flush(&in);
    check(buf_slice(&in), false, want);
    buf_release(&in);
}

static void lines_odd_and_bad(void **state) {
    (void)state;
    after_a_ref("ng refs/heads/y", "refs/heads/x:ok;refs/heads/y:ng ;whole");
    after_a_ref("ng refs/heads/y a  b", "refs/heads/x:ok;refs/heads/y:ng a  b;whole");
    after_a_ref("option new-thing of later", "refs/heads/x:ok;whole");
    after_a_ref("option forced-update", "refs/heads/x:ok forced;whole");
    after_a_ref("option", "refs/heads/x:ok;whole");
    after_a_ref("option new-oid 12", "bad");
    after_a_ref("option refname ", "bad");
    after_a_ref("ok ", "refs/heads/x:ok;bad");
    after_a_ref("ng", "refs/heads/x:ok;bad");
    after_a_ref("OK refs/heads/y", "bad");
    after_a_ref("", "bad");
    check(SLICE("000eunpack ok\n0014ok refs/heads/x\n001eoption refname refs/heads/a\n"
                "001eoption refname refs/heads/b\n0000"),
          false, "bad");
    check(SLICE("000eunpack ok\n0018ng refs/heads/x why\n0019option forced-update\n0000"), false, "bad");
    check(SLICE("0014ok refs/heads/x\n0000"), false, "bad");
    check(SLICE("0000"), false, "bad");
    check(SLICE("000eunpack ok\n0001"), false, "bad");
    check(SLICE("000eunpack ok\n0000 and what is behind"), false, "whole");
    check(SLICE("<html>"), false, "bad");
    check(SLICE("000fERR go away\n"), false, "fatal (go away)");
}

static void bands(void **state) {
    (void)state;
    check(SLICE("0005\1"
                "0013\1"
                "000eunpack ok\n0019\1"
                "0014ok refs/heads/x\n0009\1"
                "0000"
                "0000"),
          true, "refs/heads/x:ok;whole");
    check(SLICE("0013\1"
                "000eunpack ok\n0000"),
          true, "bad");
    check(SLICE("0012\3no more disk\n"), true, "fatal (no more disk)");
    check(SLICE("000fERR go away\n"), true, "fatal (go away)");
    check(SLICE("0006\4x"), true, "bad");
    check(SLICE("0004"), true, "bad");
    check(SLICE("000eunpack ok\n"), true, "bad");
    check(SLICE("0013\1"
                "000eunpack ok\n"),
          true, "open");
    check(SLICE(""), true, "open");
}

static void long_words(void **state) {
    (void)state;
    char ref[GIT_REF_MAX + 2], why[2000], want[8192];
    memset(ref, 'r', sizeof ref);
    memset(why, 'w', sizeof why);
    for (int over = 0; over < 2; over++) {
        struct buf in;
        buf_init(&in, 65536);
        pkt_printf(&in, "unpack ok");
        pkt_printf(&in, "ng %.*s %.*s", GIT_REF_MAX + over, ref, 800, why);
        pkt_flush(&in);
        snprintf(want, sizeof want, "%.*s:ng %.*s;whole", GIT_REF_MAX, ref, GIT_STATUS_TEXT_MAX, why);
        check(buf_slice(&in), false, over ? "bad" : want);
        buf_release(&in);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_git_says),
        cmocka_unit_test(lines_odd_and_bad),
        cmocka_unit_test(bands),
        cmocka_unit_test(long_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
