/* proxy/codec/pack: packs made by git itself, cut anywhere, damaged anywhere, and such as git would never make. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>
#include <zlib.h>
#include <cmocka.h>

#include "base/buf.h"
#include "proxy/codec/pack.h"
#include "proxy/codec/pack_internal.h"
#include "tests/unit/mutate.h"

/* A branch, another that leaves it, a merge, one more root; messages alike enough for commits to become deltas. */
static const char script[] =
    "set -e; cd \"$1\"; export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null HOME=\"$1\"\n"
    "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x\n"
    "git init -q --object-format=$2 -b main r; cd r\n"
    "long=$(seq 1 150 | tr '\\n' ' ')\n"
    "c() { export GIT_AUTHOR_DATE=\"$((1700000000+$1)) +0000\" GIT_COMMITTER_DATE=\"$((1700000000+$1)) "
    "+0000\"\n"
    "  seq 1 $((500+$1)) > f$2; git add -A; git commit -q -m \"change $1 $long\"; }\n"
    "for i in $(seq 1 12); do c $i a; done; git checkout -q -b side; for i in $(seq 13 20); do c $i b; done\n"
    "git checkout -q main; for i in $(seq 21 30); do c $i a; done\n"
    "git merge -q -m \"merge $long\" side; for i in 31 32 33 34 35; do c $i c; done\n"
    "git checkout -q --orphan other; for i in 36 37 38; do c $i d; done; git tag -a -m t t\n"
    "pack() { out=$1; shift; git pack-objects -q --window=50 --stdout --revs \"$@\" > ../$out.pack; }\n"
    "pack all --all --delta-base-offset </dev/null; pack refs --all </dev/null\n"
    "printf 'main\\n^main~6\\n' | pack thin --thin --delta-base-offset\n"
    "printf 'main\\n^main\\n' | pack none\n"
    "git rev-list --all --topo-order > ../ids\n"
    "for i in $(cat ../ids); do git rev-list $i | tr '\\n' ' '; echo; done > ../history\n"
    "git rev-parse main main~6 main~4 other > ../named\n";

static char dir[2][64];

static struct slice load(unsigned which, const char *name) {
    char path[128];
    struct buf b;
    snprintf(path, sizeof path, "%s/%s", dir[which], name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    buf_init(&b, 16 << 20);
    char piece[4096];
    for (size_t n; (n = fread(piece, 1, sizeof piece, f)) > 0;)
        assert_int_equal(buf_put(&b, slice_make(piece, n)), 0);
    fclose(f);
    assert_non_null(buf_cstr(&b));
    return buf_slice(&b); /* the caller frees .p */
}

static void unload(struct slice s) {
    free((void *)(uintptr_t)s.p);
}

static int make_repositories(void **state) {
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        char command[sizeof script + 256];
        snprintf(dir[i], sizeof dir[i], "/tmp/exeat-test-pack-XXXXXX");
        if (!mkdtemp(dir[i]))
            return -1;
        setenv("TEST_PACK_SCRIPT", script, 1);
        snprintf(command, sizeof command, "sh -c \"$TEST_PACK_SCRIPT\" sh %s %s >&2", dir[i],
                 i ? "sha256" : "sha1");
        if (system(command) != 0)
            return -1;
    }
    return 0;
}

static int remove_repositories(void **state) {
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        char command[128];
        snprintf(command, sizeof command, "rm -rf %s", dir[i]);
        if (system(command) != 0)
            return -1;
    }
    return 0;
}

static unsigned id_size(unsigned which) {
    return which ? 32 : 20;
}

static int feed(struct pack *p, unsigned size, struct slice in, size_t piece,
                const struct pack_limits *limits) {
    struct pack_limits standard;
    pack_limits_default(&standard);
    assert_int_equal(pack_init(p, size, limits ? limits : &standard), 0);
    int r = ERR_INCOMPLETE;
    for (size_t at = 0, used; at < in.n && r == ERR_INCOMPLETE; at += used) {
        struct slice part = slice_sub(in, at, piece);
        r = pack_feed(p, part, &used);
        assert_true(used <= part.n);
        if (r == ERR_INCOMPLETE)
            assert_int_equal(used, part.n);
    }
    return r;
}

/* The answer for each pair of commits is git's own. */
static void check_history(const struct pack *p, unsigned which) {
    struct slice ids = load(which, "ids"), history = load(which, "history");
    struct slice rest = ids, young, lines = history, line;
    size_t pairs = 0;
    while (slice_cut(rest, '\n', &young, &rest)) {
        assert_true(slice_cut(lines, '\n', &line, &lines));
        struct slice all = ids, old;
        while (slice_cut(all, '\n', &old, &all)) {
            enum pack_answer answer = PACK_UNKNOWN;
            bool is = memmem(line.p, line.n, old.p, old.n) != NULL;
            assert_int_equal(pack_is_ancestor(p, old, young, &answer), 0);
            assert_int_equal(answer, is ? PACK_YES : PACK_NO);
            pairs++;
        }
    }
    assert_true(pairs > 30 * 30);
    unload(ids);
    unload(history);
}

static void test_history(void **state) {
    (void)state;
    for (unsigned which = 0; which < 2; which++) {
        static const char *const names[] = {"all.pack", "refs.pack"};
        for (size_t i = 0; i < 2; i++) {
            struct slice in = load(which, names[i]);
            for (size_t piece = 1; piece <= in.n; piece = piece * 9 + 1) {
                struct pack p;
                size_t used, deep = 0;
                assert_int_equal(feed(&p, id_size(which), in, piece, NULL), 0);
                assert_int_equal(p.consumed, in.n);
                assert_int_equal(pack_feed(&p, SLICE("more"), &used), 0);
                assert_int_equal(used, 0);
                assert_int_equal(p.objects_seen, p.objects);
                for (size_t c = 0; c < p.ncommits; c++)
                    deep += p.commits[c].depth > 0;
                assert_true(deep > 0); /* else deltas of commits are not tried at all */
                assert_true(p.deltas_open > 0);
                if (piece == 1)
                    check_history(&p, which);
                pack_release(&p);
            }
            unload(in);
        }
    }
}

static enum pack_answer ask(const struct pack *p, struct slice named, unsigned old, unsigned young) {
    struct slice line[4], rest = named;
    enum pack_answer answer = PACK_NO;
    for (size_t i = 0; i < 4; i++)
        slice_cut(rest, '\n', &line[i], &rest);
    assert_int_equal(pack_is_ancestor(p, line[old], line[young], &answer), 0);
    return answer;
}

/* What an ordinary push sends: the new commits only. Their parents outside of it are known by name alone. */
static void test_thin(void **state) {
    (void)state;
    for (unsigned which = 0; which < 2; which++) {
        struct slice thin = load(which, "thin.pack"), none = load(which, "none.pack"),
                     named = load(which, "named");
        struct pack p;
        assert_int_equal(feed(&p, id_size(which), thin, 1000, NULL), 0);
        assert_int_equal(ask(&p, named, 1, 0), PACK_YES);     /* main~6 .. main */
        assert_int_equal(ask(&p, named, 2, 0), PACK_YES);     /* main~4 .. main */
        assert_int_equal(ask(&p, named, 1, 2), PACK_YES);     /* main~6 .. main~4 */
        assert_int_equal(ask(&p, named, 0, 2), PACK_UNKNOWN); /* back */
        assert_int_equal(ask(&p, named, 3, 0), PACK_UNKNOWN);
        assert_int_equal(ask(&p, named, 0, 3), PACK_UNKNOWN);
        assert_int_equal(ask(&p, named, 3, 3), PACK_YES); /* nothing changes */
        pack_release(&p);
        assert_int_equal(feed(&p, id_size(which), none, 1000, NULL), 0);
        assert_int_equal(p.objects, 0);
        assert_int_equal(ask(&p, named, 1, 0), PACK_UNKNOWN);
        enum pack_answer answer;
        assert_int_equal(pack_is_ancestor(&p, SLICE("abc"), SLICE("abc"), &answer), ERR_USAGE);
        pack_release(&p);
        unload(thin);
        unload(none);
        unload(named);
    }
}

static void cut_one(struct slice in, void *arg) {
    struct pack p;
    assert_int_equal(feed(&p, id_size(*(unsigned *)arg), in, in.n + 1, NULL), ERR_INCOMPLETE);
    pack_release(&p);
}

static void flip_one(struct slice in, void *arg) {
    struct pack p;
    int r = feed(&p, id_size(*(unsigned *)arg), in, in.n, NULL);
    assert_true(r == ERR_PARSE || r == ERR_INCOMPLETE || r == ERR_LIMIT);
    assert_true(r == ERR_INCOMPLETE || p.error.text[0]);
    pack_release(&p);
}

static void test_mutations(void **state) {
    (void)state;
    for (unsigned which = 0; which < 2; which++) {
        struct slice thin = load(which, "thin.pack");
        mutate_truncate(thin, cut_one, &which);
        mutate_flip(thin, flip_one, &which);
        unload(thin);
    }
}

/* The trailer is told before its first byte: that is what a push is held back at. */
static void test_trailer(void **state) {
    (void)state;
    struct slice in = load(0, "all.pack");
    struct pack p;
    size_t used;
    assert_int_equal(feed(&p, 20, slice_sub(in, 0, in.n - 21), 1000, NULL), ERR_INCOMPLETE);
    assert_false(pack_at_trailer(&p));
    assert_int_equal(pack_feed(&p, slice_sub(in, in.n - 21, 1), &used), ERR_INCOMPLETE);
    assert_true(pack_at_trailer(&p));
    assert_int_equal(pack_feed(&p, slice_from(in, in.n - 20), &used), 0);
    pack_release(&p);
    unload(in);
}

/* ---- packs that git would not make ---- */

static void put_object(struct buf *out, unsigned type, uint64_t said, struct slice extra, struct slice data) {
    char z[8192];
    uLongf n = sizeof z;
    uint8_t c = (uint8_t)(type << 4 | (said & 15));
    for (said >>= 4; said; said >>= 7) {
        buf_putc(out, (char)(c | 0x80));
        c = said & 0x7f;
    }
    buf_putc(out, (char)c);
    buf_put(out, extra);
    assert_int_equal(compress((Bytef *)z, &n, (const Bytef *)data.p, data.n), Z_OK);
    buf_put(out, slice_make(z, n));
}

static void begin(struct buf *out, unsigned objects) {
    char head[12] = {'P', 'A', 'C', 'K', 0, 0, 0, 2, 0, 0, 0, (char)objects};
    buf_init(out, 1 << 20);
    buf_put(out, slice_make(head, sizeof head));
}

static void expect(struct buf *in, int want, const char *word, const struct pack_limits *limits) {
    struct pack p;
    assert_int_equal(feed(&p, 20, buf_slice(in), 7, limits), want);
    assert_non_null(strstr(p.error.text, word));
    pack_release(&p);
    assert_int_equal(feed(&p, 20, buf_slice(in), 1 << 20, limits), want);
    pack_release(&p);
    buf_release(in);
}

#define COMMIT "tree aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nauthor a\n"

static void test_malformed(void **state) {
    struct buf b;
    (void)state;
    begin(&b, 1);
    put_object(&b, 3, 4, SLICE_NONE, SLICE("hello"));
    expect(&b, ERR_PARSE, "more data than its header says", NULL);
    begin(&b, 1);
    put_object(&b, 3, 6, SLICE_NONE, SLICE("hello"));
    expect(&b, ERR_PARSE, "less data than its header says", NULL);
    begin(&b, 1);
    put_object(&b, 5, 5, SLICE_NONE, SLICE("hello"));
    expect(&b, ERR_PARSE, "unknown type", NULL);
    begin(&b, 1);
    put_object(&b, 6, 5, SLICE("\x7f"), SLICE("hello"));
    expect(&b, ERR_PARSE, "outside of the pack", NULL);
    begin(&b, 1);
    put_object(&b, 6, 5, SLICE("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), SLICE("hello"));
    expect(&b, ERR_PARSE, "beyond all measure", NULL);
    begin(&b, 1);
    buf_put(&b, SLICE("\xbf\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"));
    expect(&b, ERR_PARSE, "beyond all measure", NULL);
    buf_init(&b, 64);
    buf_puts(&b, "PACK\0\0\0\2");
    buf_put(&b, SLICE("\0\0\0\5\0\0\0\1"));
    expect(&b, ERR_PARSE, "version 2 or 3", NULL);
    begin(&b, 2);
    put_object(&b, 1, sizeof COMMIT - 1, SLICE_NONE, SLICE(COMMIT));
    size_t back = buf_len(&b) - 12;
    char to[1] = {(char)back};
    put_object(&b, 6, 4, slice_make(to, 1), SLICE("\1\1\1x"));
    expect(&b, ERR_PARSE, "does not fit its base", NULL);
}

static void test_limits(void **state) {
    struct pack_limits few;
    struct buf b;
    char zeros[65536] = {0};
    (void)state;
    pack_limits_default(&few);
    few.inflate_free = 32768;
    few.inflate_ratio = 100;
    begin(&b, 1);
    put_object(&b, 3, sizeof zeros, SLICE_NONE, slice_make(zeros, sizeof zeros));
    expect(&b, ERR_LIMIT, "100 times its size", &few);

    pack_limits_default(&few);
    few.objects = 5;
    begin(&b, 6);
    expect(&b, ERR_LIMIT, "5 are the limit", &few);

    /* the size is refused before memory is asked for */
    begin(&b, 1);
    put_object(&b, 1, UINT64_C(1) << 50, SLICE_NONE, SLICE("x"));
    expect(&b, ERR_LIMIT, "a commit takes more than 16 MiB", NULL);

    /* a delta of a few bytes that makes much */
    begin(&b, 2);
    put_object(&b, 1, sizeof COMMIT - 1, SLICE_NONE, SLICE(COMMIT));
    char to[1] = {(char)(buf_len(&b) - 12)};
    put_object(&b, 6, 6, slice_make(to, 1), SLICE("\x37\xff\xff\xff\x7f\1"));
    expect(&b, ERR_LIMIT, "too large", NULL);

    pack_limits_default(&few);
    few.memory = 64 << 10;
    struct slice all = load(0, "all.pack");
    struct pack p;
    few.depth = 0;
    assert_int_equal(feed(&p, 20, all, 1000, &few), ERR_LIMIT);
    assert_non_null(strstr(p.error.text, "chain of more than 0 deltas"));
    assert_true(p.kept <= few.memory);
    pack_release(&p);
    few.depth = 4095;
    few.memory = 12 << 10;
    assert_int_equal(feed(&p, 20, all, 1000, &few), ERR_LIMIT);
    assert_true(p.kept <= few.memory && p.ncommits > 0);
    pack_release(&p);
    unload(all);
}

static void test_parents(void **state) {
    static const struct {
        const char *commit;
        int results[3];
    } rows[] = {
        {"tree aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nparent "
         "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\nauthor",
         {0, ERR_EOF}},
        {"tree aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nauthor x\nparent "
         "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\n",
         {ERR_EOF}}, /* not where git looks */
        {"tree aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nparent bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\n",
         {ERR_PARSE}},
        {"tree aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nparent bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\n",
         {ERR_PARSE}},
        {"parent bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\n", {ERR_PARSE}},
        {"", {ERR_PARSE}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t id[PACK_ID_MAX];
        size_t at = 0;
        int r = 0;
        for (size_t k = 0; r == 0; k++) {
            r = pack_next_parent(slice_str(rows[i].commit), 20, &at, id);
            assert_int_equal(r, rows[i].results[k]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_history), cmocka_unit_test(test_thin),      cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_trailer), cmocka_unit_test(test_malformed), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_parents),
    };
    return cmocka_run_group_tests_name("pack", tests, make_repositories, remove_repositories);
}
