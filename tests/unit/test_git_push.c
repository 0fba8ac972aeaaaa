/* proxy/codec/git: the command section of a push, and how a refusal is said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "proxy/codec/git.h"
#include "tests/unit/mutate.h"

#define ROWS(rows) (sizeof(rows) / sizeof((rows)[0]))

#define Z    "0000000000000000000000000000000000000000"
#define A    "a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0"
#define B    "b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0"
#define Z64  Z "000000000000000000000000"
#define A64  A "a0a0a0a0a0a0a0a0a0a0a0a0"
#define MAIN "refs/heads/main"
#define CAPS "\1 report-status-v2 side-band-64k object-format=sha1 agent=git/2.39.5"

/* Lines of a section, one after another: "~" is a flush, "|" a delimiter, "=" the end of the lines, what follows it
 * is raw. \1 stands for NUL. */
static void build(struct buf *out, const char *const *lines) {
    for (; *lines && strcmp(*lines, "=") != 0; lines++) {
        char text[2048];
        size_t n = strlen(*lines);
        if (strcmp(*lines, "~") == 0) {
            pkt_flush(out);
            continue;
        }
        if (strcmp(*lines, "|") == 0) {
            buf_puts(out, "0001");
            continue;
        }
        assert_true(n < sizeof(text));
        for (size_t i = 0; i < n; i++)
            text[i] = (*lines)[i] == 1 ? 0 : (*lines)[i];
        assert_int_equal(pkt_put(out, slice_make(text, n)), 0);
    }
    if (*lines)
        buf_puts(out, lines[1]);
}

/* What a push says, in one line. */
static int describe(struct slice in, size_t piece, struct buf *text) {
    static const char *const ops[] = {
        [GIT_CREATE] = "create", [GIT_UPDATE] = "update", [GIT_DELETE] = "delete"};
    struct git_push push;
    int r = ERR_INCOMPLETE;
    size_t at = 0;
    git_push_init(&push);
    while (r == ERR_INCOMPLETE && at < in.n) {
        size_t used;
        struct slice part = slice_sub(in, at, piece);
        r = git_push_feed(&push, part, &used);
        at += used;
        if (r == ERR_INCOMPLETE)
            assert_int_equal(used, part.n);
    }
    if (r == 0) {
        size_t used;
        assert_int_equal(git_push_feed(&push, SLICE("more"), &used), 0);
        assert_int_equal(used, 0);
        assert_int_equal(at, push.consumed);
        for (size_t i = 0; i < push.ncommands; i++) {
            struct git_command c = git_push_command(&push, i);
            buf_printf(text, "%s %.*s %.2s>%.2s;", ops[c.op], SLICE_ARG(c.ref), c.old_id.p, c.new_id.p);
        }
        const struct git_caps *caps = &push.caps;
        buf_printf(text, "%s%s%s%s%s%d", caps->report_status || caps->report_status_v2 ? "r" : "",
                   caps->side_band_64k ? "b" : "", caps->atomic ? "a" : "", push.is_signed ? "s" : "",
                   push.pack_follows ? "p" : "", caps->id_digits);
        if (push.noptions || push.nshallow)
            buf_printf(text, " o%zu h%zu", push.noptions, push.nshallow);
        buf_printf(text, " +%zu", in.n - at);
    } else if (r != ERR_INCOMPLETE) {
        buf_puts(text, push.error.text);
        assert_true(push.error.text[0] != 0);
    }
    git_push_release(&push);
    return r;
}

#define CERT                                                                                                 \
    "push-cert" CAPS, "certificate version 0.1\n", "pusher t@example.com 1 +0000\n", "nonce 1-2\n", "\n"
#define SIG "-----BEGIN SSH SIGNATURE-----\n", "U1NI\n", "-----END SSH SIGNATURE-----\n", "push-cert-end\n"

static const struct {
    const char *lines[24];
    const char *text;
} good[] = {
    {{"~"}, "0 +0"},
    {{"~", "=", "PACK"}, "0 +4"},
    {{Z " " A " " MAIN CAPS, "~", "=", "PACK1234"}, "create refs/heads/main 00>a0;rbp40 +8"},
    {{Z " " A " " MAIN CAPS "\n", "~"}, "create refs/heads/main 00>a0;rbp40 +0"},
    {{A " " Z " " MAIN CAPS, "~"}, "delete refs/heads/main a0>00;rb40 +0"},
    {{A " " Z " refs/stale" CAPS, "~"}, "delete refs/stale a0>00;rb40 +0"},
    {{A " " B " " MAIN, "~"}, "update refs/heads/main a0>b0;p40 +0"},
    {{A " " Z " refs/heads/b2\1report-status atomic", Z " " A " refs/heads/JDK-PACK\n",
      Z " " A " refs/for/main", "~", "=", "PACK"},
     "delete refs/heads/b2 a0>00;create refs/heads/JDK-PACK 00>a0;create refs/for/main 00>a0;rap40 +4"},
    {{"shallow " A "\n", "shallow " B, "~"}, "40 o0 h2 +0"},
    {{"shallow " A "\n", Z " " A " " MAIN CAPS, "~"}, "create refs/heads/main 00>a0;rbp40 o0 h1 +0"},
    {{Z " " A " " MAIN "\1 push-options", "~", "ci.skip", "topic=a b\n", "~", "=", "PACK"},
     "create refs/heads/main 00>a0;p40 o2 h0 +4"},
    {{Z " " A " " MAIN "\1 push-options=1", "~", "~", "=", "PACK"}, "create refs/heads/main 00>a0;p40 +4"},
    {{Z64 " " A64 " " MAIN "\1object-format=sha256", A64 " " Z64 " refs/heads/b", "~"},
     "create refs/heads/main 00>a0;delete refs/heads/b a0>00;p64 +0"},
    {{Z64 " " A64 " " MAIN, "~"}, "create refs/heads/main 00>a0;p64 +0"},
    {{CERT, Z " " A " " MAIN "\n", A " " Z " refs/heads/b\n", SIG, "~", "=", "PACK"},
     "create refs/heads/main 00>a0;delete refs/heads/b a0>00;rbsp40 +4"},
    {{"shallow " A, CERT, Z " " A " " MAIN "\n", SIG, "~"}, "create refs/heads/main 00>a0;rbsp40 o0 h1 +0"},
};

static void test_good(void **state) {
    (void)state;
    for (size_t i = 0; i < ROWS(good); i++) {
        struct buf in;
        buf_init(&in, 1 << 20);
        build(&in, good[i].lines);
        for (size_t piece = 1; piece <= buf_len(&in); piece++) {
            struct buf text;
            buf_init(&text, 1 << 16);
            int r = describe(buf_slice(&in), piece, &text);
            if (r || strcmp(buf_cstr(&text), good[i].text))
                fail_msg("row %zu, pieces of %zu: %d %s", i, piece, r, buf_cstr(&text));
            buf_release(&text);
        }
        buf_release(&in);
    }
}

static const struct {
    const char *lines[24];
    const char *error; /* part of the message */
} bad[] = {
    {{"=", "PACK"}, "packet length"},
    {{"=", "0003"}, "packet length"},
    {{"|"}, "delimiter"},
    {{Z " " A " " MAIN CAPS, "|"}, "delimiter"},
    {{""}, "malformed command"},
    {{"x"}, "malformed command"},
    {{Z " " A CAPS, "~"}, "malformed command"},
    {{Z " " A "  " MAIN CAPS}, "name of a ref"},
    {{" " Z " " A " " MAIN}, "object id"},
    {{Z " " A " " MAIN "\nx"}, "name of a ref"},
    {{Z " " A " " MAIN "\n\n"}, "name of a ref"},
    {{Z " " A " HEAD" CAPS}, "name of a ref"},
    {{Z " " A " refs/x" CAPS}, "name of a ref"},
    {{Z " " A " refs/heads/a..b" CAPS}, "name of a ref"},
    {{Z " " A " refs/heads/../x" CAPS}, "name of a ref"},
    {{Z " A0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0 " MAIN}, "object id"},
    {{Z " " A "a " MAIN}, "object id"},
    {{Z " g0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0 " MAIN}, "object id"},
    {{Z " " Z " " MAIN CAPS}, "neither"},
    /* capabilities */
    {{Z " " A " " MAIN CAPS, Z " " A " refs/heads/b" CAPS, "~"}, "capabilities behind"},
    {{Z " " A " " MAIN, Z " " A " refs/heads/b\1push-options", "~"}, "capabilities behind"},
    {{Z " " A " " MAIN "\1a\1push-options", "~"}, "control character"},
    {{Z " " A " " MAIN "\1a\tpush-options", "~"}, "control character"},
    {{Z " " A " " MAIN "\1object-format=sha1 object-format=sha256", "~"}, "twice"},
    {{Z " " A " " MAIN "\1object-format=md5", "~"}, "object format"},
    {{Z " " A " " MAIN "\1object-format", "~"}, "object format"},
    /* formats */
    {{Z64 " " A64 " " MAIN CAPS, "~"}, "another length"},
    {{Z " " A " " MAIN "\1object-format=sha256", "~"}, "another length"},
    {{Z64 " " A64 " " MAIN "\1report-status", "~"}, "another length"},
    {{Z " " A64 " " MAIN, "~"}, "another length"},
    {{Z " " A " " MAIN CAPS, Z64 " " A64 " refs/heads/b", "~"}, "another length"},
    {{"shallow " A64, Z " " A " " MAIN CAPS, "~"}, "another length"},
    /* shallow */
    {{"shallow x", "~"}, "object id"},
    {{"shallow", "~"}, "malformed command"},
    {{Z " " A " " MAIN CAPS, "shallow " A, "~"}, "shallow line behind"},
    /* the same ref twice */
    {{Z " " A " " MAIN CAPS, Z " " A " refs/heads/b", A " " Z " " MAIN, "~"}, "same ref twice"},
    /* options */
    {{Z " " A " " MAIN "\1push-options", "~", "a\nb\n", "~"}, "push option"},
    {{Z " " A " " MAIN "\1push-options", "~", "a", "|"}, "delimiter"},
    {{Z " " A " " MAIN "\1push-options", "~", "=", "PACK"}, "packet length"},
    /* certificates */
    {{Z " " A " " MAIN CAPS, "push-cert", "~"}, "beside commands"},
    {{CERT, Z " " A " " MAIN "\n", SIG, Z " " A " refs/heads/b", "~"}, "malformed line"},
    {{CERT, Z " " A " " MAIN "\n", SIG, Z " " A " refs/heads/b\n", "~"}, "behind a push certificate"},
    {{CERT, Z " " A " " MAIN "\n", SIG, "push-cert\n", "~"}, "behind a push certificate"},
    {{CERT, Z " " A " " MAIN "\n", "~"}, "without an end"},
    {{CERT, Z " " A " " MAIN "\n", "push-cert-end\n", "~"}, "without a signature"},
    {{CERT, SIG, "~"}, "without commands"},
    {{"push-cert" CAPS, "certificate version 0.1\n", "push-cert-end\n", "~"}, "without commands"},
    {{"push-cert" CAPS, "certificate version 0.2\n"}, "unknown version"},
    {{"push-cert" CAPS, "\n"}, "unknown version"},
    {{CERT, Z " " A " " MAIN}, "malformed line"},
    {{CERT, Z " " A " " MAIN "\n" Z " " A " refs/heads/b\n"}, "malformed line"},
    {{CERT, Z " " A " " MAIN "\1x\n"}, "malformed line"},
    {{CERT, "\n"}, "malformed command"},
    {{CERT, "-----BEGIN X-----\n"}, "malformed command"},
    {{CERT, Z " " A " " MAIN "\n", "-----BEGIN SSH SIGNATURE-----\n", Z " " A " refs/heads/b\n",
      "-----BEGIN PGP SIGNATURE-----\n"},
     "two signatures"},
    {{CERT, Z " " A " " MAIN "\n", Z " " B " " MAIN "\n", SIG, "~"}, "same ref twice"},
};

static void test_bad(void **state) {
    (void)state;
    for (size_t i = 0; i < ROWS(bad); i++) {
        struct buf in;
        buf_init(&in, 1 << 20);
        build(&in, bad[i].lines);
        for (size_t piece = buf_len(&in); piece > 0; piece = piece > 1 ? 1 : 0) {
            struct buf text;
            buf_init(&text, 1 << 16);
            int r = describe(buf_slice(&in), piece, &text);
            if (r >= 0 || r == ERR_INCOMPLETE || !strstr(buf_cstr(&text), bad[i].error))
                fail_msg("row %zu, pieces of %zu: %d %s", i, piece, r, buf_cstr(&text));
            buf_release(&text);
        }
        buf_release(&in);
    }
}

static void any(struct slice input, void *arg) {
    struct buf whole, bytes;
    buf_init(&whole, 1 << 16);
    buf_init(&bytes, 1 << 16);
    int r = describe(input, input.n ? input.n : 1, &whole);
    assert_int_equal(r, describe(input, 1, &bytes));
    assert_true(slice_eq(buf_slice(&whole), buf_slice(&bytes)));
    if (arg)
        assert_int_equal(r, ERR_INCOMPLETE);
    buf_release(&whole);
    buf_release(&bytes);
}

static void test_mutations(void **state) {
    (void)state;
    for (size_t i = 0; i < ROWS(good); i++) {
        struct buf in;
        size_t raw = 0;
        buf_init(&in, 1 << 20);
        build(&in, good[i].lines);
        for (size_t k = 0; good[i].lines[k]; k++)
            if (strcmp(good[i].lines[k], "=") == 0)
                raw = strlen(good[i].lines[k + 1]);
        bool incomplete = true;
        mutate_truncate(slice_sub(buf_slice(&in), 0, buf_len(&in) - raw), any, &incomplete);
        mutate_flip(buf_slice(&in), any, NULL);
        buf_release(&in);
    }
}

/* ---- limits ---- */

static void test_limits(void **state) {
    struct buf in, text;
    (void)state;
    buf_init(&in, 16u << 20);
    buf_init(&text, 16u << 20);
    for (int n = GIT_COMMANDS_MAX; n <= GIT_COMMANDS_MAX + 1; n++) {
        buf_clear(&in);
        buf_clear(&text);
        for (int i = 0; i < n; i++)
            pkt_printf(&in, Z " " A " refs/heads/b%d", i);
        pkt_flush(&in);
        assert_int_equal(describe(buf_slice(&in), 1000, &text), n == GIT_COMMANDS_MAX ? 0 : ERR_LIMIT);
    }
    buf_clear(&in); /* the bytes of the section are bounded: here by a flood of shallow lines */
    while (buf_len(&in) <= GIT_SECTION_MAX)
        pkt_printf(&in, "shallow " A);
    assert_int_equal(describe(buf_slice(&in), 1 << 16, &text), ERR_LIMIT);
    buf_release(&in);
    buf_release(&text);
}

/* ---- the refusal ---- */

static struct slice reason(size_t i, void *arg) {
    (void)arg;
    return i == 0 ? SLICE("exeat: no rule\nallows it\033[2J") : SLICE("exeat: all or nothing");
}

static void check_report(const char *caps, const char *expected) {
    struct git_push push;
    struct buf in, out;
    size_t used;
    git_push_init(&push);
    buf_init(&in, 4096);
    buf_init(&out, 4096);
    char line[256];
    int n = snprintf(line, sizeof(line), Z " " A " " MAIN "%c%s", 0, caps);
    pkt_put(&in, slice_make(line, (size_t)n));
    pkt_put(&in, SLICE(A " " Z " refs/heads/b"));
    pkt_flush(&in);
    assert_int_equal(git_push_feed(&push, buf_slice(&in), &used), 0);
    assert_int_equal(git_report_refusal(&out, &push, reason, NULL, SLICE("exeat: denied\n")), 0);
    assert_string_equal(buf_cstr(&out), expected);
    git_push_release(&push);
    buf_release(&in);
    buf_release(&out);
}

static void test_report(void **state) {
    (void)state;
    check_report("report-status", "000eunpack ok\n0034ng " MAIN " exeat: no rule allows it [2J\n"
                                  "002ang refs/heads/b exeat: all or nothing\n0000");
    check_report("report-status-v2 side-band-64k",
                 "0013\2exeat: denied\n0075\001000eunpack ok\n0034ng " MAIN " exeat: no rule allows it [2J\n"
                 "002ang refs/heads/b exeat: all or nothing\n00000000");
    check_report("side-band-64k", "0013\3exeat: denied\n0000");
    check_report("quiet", "0016ERR exeat: denied\n");
}

/* Each command of a long push gets its line, and the band its packets. */
static void test_report_long(void **state) {
    struct git_push push;
    struct buf in, out;
    size_t used;
    (void)state;
    git_push_init(&push);
    buf_init(&in, 1 << 20);
    buf_init(&out, 4 << 20);
    char line[256];
    int n = snprintf(line, sizeof(line), Z " " A " " MAIN "%creport-status side-band-64k", 0);
    pkt_put(&in, slice_make(line, (size_t)n));
    for (int i = 0; i < 4999; i++)
        pkt_printf(&in, Z " " A " refs/heads/b%d", i);
    pkt_flush(&in);
    assert_int_equal(git_push_feed(&push, buf_slice(&in), &used), 0);
    assert_int_equal(push.ncommands, 5000);
    assert_int_equal(git_report_refusal(&out, &push, reason, NULL, SLICE("m")), 0);
    size_t lines = 0;
    struct slice rest = buf_slice(&out);
    for (const char *hit; (hit = memmem(rest.p, rest.n, "ng refs/", 8)); lines++)
        rest = slice_from(rest, (size_t)(hit - rest.p) + 8);
    assert_in_range(lines, 4990, 5000); /* a few may lie across two packets */
    git_push_release(&push);
    buf_release(&in);
    buf_release(&out);
}

static void test_encoding(void **state) {
    (void)state;
    assert_int_equal(git_encoding(SLICE("")), GIT_ENCODING_NONE);
    assert_int_equal(git_encoding(SLICE("GZIP")), GIT_ENCODING_GZIP);
    assert_int_equal(git_encoding(SLICE("x-gzip")), GIT_ENCODING_GZIP);
    assert_int_equal(git_encoding(SLICE("deflate")), GIT_ENCODING_UNKNOWN);
    assert_int_equal(git_encoding(SLICE("gzip, gzip")), GIT_ENCODING_UNKNOWN);
    assert_int_equal(git_encoding(SLICE("identity")), GIT_ENCODING_UNKNOWN);
    assert_int_equal(git_encoding(SLICE("br")), GIT_ENCODING_UNKNOWN);
}

static void test_refs(void **state) {
    static const char *const valid[] = {"refs/heads/main",      "refs/heads/JDK-PACK",
                                        "refs/heads/fix/42",    "refs/for/main",
                                        "refs/heads/b\xc3\xbc", "refs/heads/@",
                                        "refs/heads/a.b",       "refs/heads/a@b",
                                        "refs/heads/-x",        "refs/heads/\xf0\x9f\x98\x80"};
    static const char *const invalid[] = {"main",
                                          "heads/main",
                                          "refs/",
                                          "refs",
                                          "refs//heads/x",
                                          "refs/heads/",
                                          "refs/heads/.x",
                                          "refs/heads/x.",
                                          "refs/heads/a..b",
                                          "refs/tags/v1~",
                                          "refs/heads/x.lock",
                                          "refs/x.lock/y",
                                          "refs/heads/a b",
                                          "refs/heads/a\tb",
                                          "refs/heads/a\x7f",
                                          "refs/heads/a:b",
                                          "refs/heads/a?b",
                                          "refs/heads/a*b",
                                          "refs/heads/a[b",
                                          "refs/heads/a\\b",
                                          "refs/heads/a^b",
                                          "refs/heads/a@{b",
                                          "refs/heads//x",
                                          "REFS/heads/x",
                                          "refs/heads/\xff",
                                          "refs/heads/\xc0\xaf",
                                          "refs/heads/\xed\xa0\x80",
                                          "refs/heads/\xf5\x80\x80\x80",
                                          "refs/heads/\xc3",
                                          "refs/one",
                                          ""};
    (void)state;
    for (size_t i = 0; i < ROWS(valid); i++)
        if (!git_ref_valid(slice_str(valid[i]), false))
            fail_msg("%s", valid[i]);
    for (size_t i = 0; i < ROWS(invalid); i++)
        if (git_ref_valid(slice_str(invalid[i]), false))
            fail_msg("%s", invalid[i]);
    assert_true(git_ref_valid(SLICE("refs/one"), true));
    assert_false(git_ref_valid(SLICE("refs/heads/a\0b"), true));
    char longest[GIT_REF_MAX + 1];
    memset(longest, 'a', sizeof(longest));
    memcpy(longest, "refs/heads/", 11);
    assert_true(git_ref_valid(slice_make(longest, GIT_REF_MAX), false));
    assert_false(git_ref_valid(slice_make(longest, GIT_REF_MAX + 1), false));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encoding), cmocka_unit_test(test_refs),        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),      cmocka_unit_test(test_mutations),   cmocka_unit_test(test_limits),
        cmocka_unit_test(test_report),   cmocka_unit_test(test_report_long),
    };
    return cmocka_run_group_tests_name("git_push", tests, NULL, NULL);
}
