/* proxy/codec/pack, proxy/codec/git_objects: packs made by git itself, cut anywhere, damaged anywhere, and such as git
 * would never make; what becomes known by them, in whatever order they come. */
#include <setjmp.h>
#include <stdarg.h>
#include <zlib.h>
#include <cmocka.h>

#include "base/buf.h"
#include "proxy/codec/git_ancestry.h"
#include "proxy/codec/pack.h"
#include "tests/unit/git_support.h"
#include "tests/unit/mutate.h"

/* A branch, another that leaves it, a merge, one more root; messages alike enough for commits to become deltas. */
static const char script[] =
    "set -e; cd \"$1\"; export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null HOME=\"$1\"\n"
    "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x\n"
    "git init -q --object-format=$2 -b main r; cd r\n"
    "long=$(seq 1 150 | tr '\\n' ' ')\n"
    "c() { export GIT_AUTHOR_DATE=\"$((1700000000+$1)) +0000\" GIT_COMMITTER_DATE=\"$((1700000000+$1)) "
    "+0000\"\n"
    "  seq 1 $((500+$1)) > f$2; "
    "if ! [ -d d ]; then mkdir d; for k in $(seq 40); do echo $k > d/$k; done; fi; echo $1 > d/f$2; git add "
    "-A; git commit -q -m \"change $1 "
    "$long\"; }\n"
    "for i in $(seq 1 12); do c $i a; done; git checkout -q -b side; for i in $(seq 13 20); do c $i b; done\n"
    "git checkout -q main; for i in $(seq 21 30); do c $i a; done\n"
    "git merge -q -m \"merge $long\" side; for i in 31 32 33 34 35; do c $i c; done\n"
    "git checkout -q --orphan other; for i in 36 37 38; do c $i d; done; git tag -a -m t t\n"
    "pack() { out=$1; shift; git pack-objects -q --window=50 --stdout --revs \"$@\" > ../$out.pack; }\n"
    "pack all --all --delta-base-offset </dev/null; pack refs --all </dev/null\n"
    "printf 'main\\n^main~6\\n' | pack thin --thin --delta-base-offset\n"
    "printf 'main\\n^main\\n' | pack none\n"
    "printf 'main\\n^main~6\\n' | pack thinrefs --thin\n"
    "objects() { git rev-list --objects --no-object-names --filter=blob:none $1; }\n"
    "objects main~6 | git pack-objects -q --stdout > ../server.pack\n"
    "objects main > ../known; git rev-list main~6..main > ../pushed; git rev-list --boundary main~6..main | "
    "sed -n s/^-//p > ../boundary\n"
    "git rev-list --all --topo-order > ../ids\n"
    "for i in $(cat ../ids); do git rev-list $i | tr '\\n' ' '; echo; done > ../history\n"
    "git rev-parse main main~6 main~4 other > ../named\n";

static int make_repositories(void **state) {
    (void)state;
    return repositories_make(script);
}

static unsigned id_size(unsigned which) {
    return which ? 32 : 20;
}

struct limits {
    struct git_objects_limits objects;
    struct pack_limits pack;
    size_t memory;
};

static struct limits standard(void) {
    struct limits limits = {.memory = 256u << 20};
    git_objects_limits_default(&limits.objects);
    pack_limits_default(&limits.pack);
    return limits;
}

struct both {
    struct git_memory memory;
    struct git_objects o;
    struct pack p;
};

static void begin_with(struct both *b, unsigned size, bool trees, const struct limits *limits) {
    b->memory = (struct git_memory){.limit = limits->memory};
    assert_int_equal(git_objects_init(&b->o, size, trees, &limits->objects, &b->memory), 0);
    assert_int_equal(pack_init(&b->p, &b->o, true, &limits->pack), 0);
}

static void release(struct both *b) {
    pack_release(&b->p);
    git_objects_release(&b->o);
    assert_int_equal(b->memory.used, 0);
}

static int feed_in(struct pack *p, struct slice in, size_t piece) {
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

static int feed(struct both *b, unsigned size, struct slice in, size_t piece, const struct limits *limits) {
    struct limits usual = standard();
    begin_with(b, size, false, limits ? limits : &usual);
    return feed_in(&b->p, in, piece);
}

static int is_ancestor(const struct git_objects *o, struct slice old, struct slice young,
                       enum git_answer *answer) {
    uint8_t from[GIT_ID_MAX], to[GIT_ID_MAX];
    assert_true(git_id_from_hex(old, o->id_size, from));
    assert_true(git_id_from_hex(young, o->id_size, to));
    return git_objects_is_ancestor(o, from, to, answer);
}

/* The answer for each pair of commits is git's own, for one alone and for all at once. */
static void check_history(const struct git_objects *o, unsigned which) {
    struct slice ids = load(which, "ids"), history = load(which, "history");
    struct slice rest = ids, young, lines = history, line;
    size_t pairs = 0, room = ids.n / o->id_size;
    struct git_update *all_at_once = calloc(room * room, sizeof *all_at_once);
    bool *want = calloc(room * room, sizeof *want);
    assert_non_null(all_at_once);
    assert_non_null(want);
    while (slice_cut(rest, '\n', &young, &rest)) {
        assert_true(slice_cut(lines, '\n', &line, &lines));
        struct slice all = ids, old;
        while (slice_cut(all, '\n', &old, &all)) {
            enum git_answer answer = GIT_UNKNOWN;
            bool is = memmem(line.p, line.n, old.p, old.n) != NULL;
            assert_int_equal(is_ancestor(o, old, young, &answer), 0);
            assert_int_equal(answer, is ? GIT_YES : GIT_NO);
            git_id_from_hex(old, o->id_size, all_at_once[pairs].old);
            git_id_from_hex(young, o->id_size, all_at_once[pairs].young);
            want[pairs++] = is;
        }
    }
    assert_true(pairs > 30 * 30);
    assert_int_equal(git_ancestry(o, NULL, all_at_once, pairs), 0);
    for (size_t i = 0; i < pairs; i++)
        assert_int_equal(all_at_once[i].answer, want[i] ? GIT_YES : GIT_NO);
    free(all_at_once);
    free(want);
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
                struct both b;
                size_t used, deep = 0;
                assert_int_equal(feed(&b, id_size(which), in, piece, NULL), 0);
                assert_int_equal(b.p.consumed, in.n);
                assert_int_equal(pack_feed(&b.p, SLICE("more"), &used), 0);
                assert_int_equal(used, 0);
                assert_int_equal(b.p.objects_seen, b.p.objects);
                for (size_t c = 0; c < b.o.ids.n; c++)
                    deep += b.o.list[c].depth > 0;
                assert_true(deep > 0); /* else deltas of commits are not tried at all */
                assert_true(b.p.deltas_lost + b.o.waiting > 0);
                if (piece == 1)
                    check_history(&b.o, which);
                release(&b);
            }
            unload(in);
        }
    }
}

static enum git_answer ask(const struct git_objects *o, struct slice named, unsigned old, unsigned young) {
    struct slice line[4], rest = named;
    enum git_answer answer = GIT_NO;
    for (size_t i = 0; i < 4; i++)
        slice_cut(rest, '\n', &line[i], &rest);
    assert_int_equal(is_ancestor(o, line[old], line[young], &answer), 0);
    return answer;
}

/* What an ordinary push sends: the new commits only. Their parents outside of it are known by name alone. */
static void test_thin(void **state) {
    (void)state;
    for (unsigned which = 0; which < 2; which++) {
        struct slice thin = load(which, "thin.pack"), none = load(which, "none.pack"),
                     named = load(which, "named");
        struct both b;
        assert_int_equal(feed(&b, id_size(which), thin, 1000, NULL), 0);
        assert_int_equal(ask(&b.o, named, 1, 0), GIT_YES);     /* main~6 .. main */
        assert_int_equal(ask(&b.o, named, 2, 0), GIT_YES);     /* main~4 .. main */
        assert_int_equal(ask(&b.o, named, 1, 2), GIT_YES);     /* main~6 .. main~4 */
        assert_int_equal(ask(&b.o, named, 0, 2), GIT_UNKNOWN); /* back */
        assert_int_equal(ask(&b.o, named, 3, 0), GIT_UNKNOWN);
        assert_int_equal(ask(&b.o, named, 0, 3), GIT_UNKNOWN);
        assert_int_equal(ask(&b.o, named, 3, 3), GIT_YES); /* nothing changes */
        release(&b);
        assert_int_equal(feed(&b, id_size(which), none, 1000, NULL), 0);
        assert_int_equal(b.p.objects, 0);
        assert_int_equal(ask(&b.o, named, 1, 0), GIT_UNKNOWN);
        release(&b);
        unload(thin);
        unload(none);
        unload(named);
    }
}

static void cut_one(struct slice in, void *arg) {
    struct both b;
    assert_int_equal(feed(&b, id_size(*(unsigned *)arg), in, in.n + 1, NULL), ERR_INCOMPLETE);
    release(&b);
}

static void flip_one(struct slice in, void *arg) {
    struct both b;
    int r = feed(&b, id_size(*(unsigned *)arg), in, in.n, NULL);
    assert_true(r == ERR_PARSE || r == ERR_INCOMPLETE || r == ERR_LIMIT);
    assert_true(r == ERR_INCOMPLETE || b.p.error.text[0]);
    release(&b);
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
    struct both b;
    size_t used;
    assert_int_equal(feed(&b, 20, slice_sub(in, 0, in.n - 21), 1000, NULL), ERR_INCOMPLETE);
    assert_false(pack_at_trailer(&b.p));
    assert_int_equal(pack_feed(&b.p, slice_sub(in, in.n - 21, 1), &used), ERR_INCOMPLETE);
    assert_true(pack_at_trailer(&b.p));
    assert_int_equal(pack_feed(&b.p, slice_from(in, in.n - 20), &used), 0);
    release(&b);
    unload(in);
}

/* ---- what comes in several packs ---- */

static void must_know(const struct git_objects *o, unsigned which, const char *name, bool pushed) {
    struct slice ids = load(which, name), rest = ids, line;
    uint8_t id[GIT_ID_MAX];
    size_t n = 0;
    for (; slice_cut(rest, '\n', &line, &rest); n++) {
        assert_true(git_id_from_hex(line, o->id_size, id));
        const struct git_object *object = git_objects_find(o, id);
        assert_non_null(object);
        assert_false(object->bad);
        if (pushed)
            assert_true(object->pushed);
    }
    assert_true(n > 5);
    unload(ids);
}

static int missing_of(const struct git_objects *o, const uint8_t *tip, struct git_ids *out) {
    struct git_ids tips;
    git_ids_init(&tips, o->id_size);
    git_ids_add(&tips, tip);
    int r = git_objects_missing(o, &tips, out);
    git_ids_release(&tips);
    return r;
}

/* What is missing is where the pushed commits meet history, by git's own word. */
static void check_missing(struct git_objects *o, unsigned which, bool complete) {
    struct slice named = load(which, "named"), boundary = load(which, "boundary"), tip, rest, line;
    struct git_ids out;
    uint8_t id[GIT_ID_MAX], at[GIT_ID_MAX];
    size_t n = 0;
    git_ids_init(&out, o->id_size);
    slice_cut(named, '\n', &tip, &rest);
    assert_true(git_id_from_hex(tip, o->id_size, id));
    assert_int_equal(missing_of(o, id, &out), 0);
    for (rest = boundary; slice_cut(rest, '\n', &line, &rest); n++) {
        assert_true(git_id_from_hex(line, o->id_size, at));
        assert_int_equal(git_ids_find(&out, at) != GIT_IDS_NONE, !complete);
        assert_true(git_ids_find(&o->settled, at) == GIT_IDS_NONE);
        assert_int_equal(git_objects_settle(o, at), 0);
        assert_true(git_ids_find(&o->settled, at) != GIT_IDS_NONE);
    }
    assert_int_equal(n, 2);
    assert_int_equal(out.n, complete ? 0 : n);
    git_ids_release(&out);
    assert_int_equal(missing_of(o, id, &out), 0);
    assert_int_equal(out.n, 0); /* what it builds on is the server's */
    git_ids_release(&out);
    unload(named);
    unload(boundary);
}

/* How many objects of up to `size` bytes deltas wait for; none of them is there. */
static size_t bases_of(const struct git_objects *o, uint64_t size) {
    struct git_ids out;
    git_ids_init(&out, o->id_size);
    assert_int_equal(git_objects_bases(o, size, &out), 0);
    size_t n = out.n;
    for (size_t i = 0; i < n; i++)
        assert_null(git_objects_find(o, git_ids_at(&out, i)));
    git_ids_release(&out);
    return n;
}

/* A thin pack and the trees that it builds on, in either order: all commits and trees are known in the end. */
static void test_two_packs(void **state) {
    (void)state;
    static const char *const thin[] = {"thin.pack", "thinrefs.pack"};
    for (unsigned i = 0; i < 8; i++) {
        unsigned which = i & 1, pushed_first = i & 2;
        struct slice mine = load(which, thin[i >> 2]), server = load(which, "server.pack");
        struct limits limits = standard();
        struct both b;
        struct pack other;
        begin_with(&b, id_size(which), true, &limits);
        if (pushed_first) {
            assert_int_equal(feed_in(&b.p, mine, 100), 0);
            assert_true(b.o.waiting > 0); /* else nothing is tried */
            assert_true(bases_of(&b.o, SIZE_MAX) > 0 && bases_of(&b.o, 0) == 0);
            must_know(&b.o, which, "pushed", true);
            check_missing(&b.o, which, false);
        }
        assert_int_equal(pack_init(&other, &b.o, false, &limits.pack), 0);
        assert_int_equal(feed_in(&other, server, 1000), 0);
        if (!pushed_first)
            assert_int_equal(feed_in(&b.p, mine, 100), 0);
        must_know(&b.o, which, "known", false);
        must_know(&b.o, which, "pushed", true);
        assert_true(bases_of(&b.o, SIZE_MAX) <= b.o.waiting); /* of blobs */
        if (!pushed_first)
            check_missing(&b.o, which, true);
        pack_release(&other);
        size_t kept = b.o.kept;
        pack_release(&b.p);
        assert_true(b.o.kept <= kept);
        release(&b);
        unload(mine);
        unload(server);
    }
}

/* Deltas that wait have half of the memory; those beyond it are forgotten, and the rest of the pack is read on. */
static void test_forgotten(void **state) {
    (void)state;
    struct slice mine = load(0, "thin.pack");
    struct limits limits = standard();
    struct both b;
    limits.objects.object = 24;
    begin_with(&b, 20, true, &limits);
    assert_int_equal(feed_in(&b.p, mine, 100), ERR_LIMIT); /* its commits */
    release(&b);
    limits = standard();
    limits.memory = 64 << 10;
    begin_with(&b, 20, true, &limits);
    b.o.pending_kept = (32 << 10) - 40;
    assert_int_equal(feed_in(&b.p, mine, 100), 0);
    assert_true(b.o.forgotten > 0 && b.o.waiting == 0);
    must_know(&b.o, 0, "pushed", true);
    release(&b);
    unload(mine);
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

static void expect(struct buf *in, int want, const char *word, const struct limits *limits) {
    struct both b;
    assert_int_equal(feed(&b, 20, buf_slice(in), 7, limits), want);
    assert_non_null(strstr(b.p.error.text, word));
    release(&b);
    assert_int_equal(feed(&b, 20, buf_slice(in), 1 << 20, limits), want);
    release(&b);
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
    struct limits few = standard();
    struct buf b;
    char zeros[65536] = {0};
    (void)state;
    few.pack.inflate_free = 32768;
    few.pack.inflate_ratio = 100;
    begin(&b, 1);
    put_object(&b, 3, sizeof zeros, SLICE_NONE, slice_make(zeros, sizeof zeros));
    expect(&b, ERR_LIMIT, "100 times its size", &few);

    few = standard();
    few.pack.objects = 5;
    begin(&b, 6);
    expect(&b, ERR_LIMIT, "5 are the limit", &few);

    /* the size is refused before memory is asked for */
    begin(&b, 1);
    put_object(&b, 1, UINT64_C(1) << 50, SLICE_NONE, SLICE("x"));
    expect(&b, ERR_LIMIT, "a commit or tree takes more than 16 MiB", NULL);

    /* a delta of a few bytes that makes much */
    begin(&b, 2);
    put_object(&b, 1, sizeof COMMIT - 1, SLICE_NONE, SLICE(COMMIT));
    char to[1] = {(char)(buf_len(&b) - 12)};
    put_object(&b, 6, 6, slice_make(to, 1), SLICE("\x37\xff\xff\xff\x7f\1"));
    expect(&b, ERR_LIMIT, "too large", NULL);

    few = standard();
    few.memory = 64 << 10;
    struct slice all = load(0, "all.pack");
    struct both c;
    few.objects.depth = 0;
    assert_int_equal(feed(&c, 20, all, 1000, &few), ERR_LIMIT);
    assert_non_null(strstr(c.p.error.text, "chain of more than 0 deltas"));
    assert_true(c.memory.used <= few.memory);
    release(&c);
    few.objects.depth = 4095;
    few.memory = 12 << 10;
    assert_int_equal(feed(&c, 20, all, 1000, &few), ERR_LIMIT);
    assert_true(c.memory.used <= few.memory && c.o.ids.n > 1);
    release(&c);
    unload(all);
}

static void test_parents(void **state) {
    static const struct {
        const char *commit;
        int results[3];
    } rows[] = {
        {"tree aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nparent "
         "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\nauthor",
         {0, 0, ERR_EOF}},
        {"tree aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nauthor x\nparent "
         "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\n",
         {0, ERR_EOF}}, /* not where git looks */
        {"tree aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nparent bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\n",
         {0, ERR_PARSE}},
        {"tree aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nparent bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\n",
         {0, ERR_PARSE}},
        {"parent bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\n", {ERR_PARSE}},
        {"", {ERR_PARSE}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint8_t id[GIT_ID_MAX];
        size_t at = 0;
        int r = 0;
        for (size_t k = 0; r == 0; k++) {
            r = git_commit_next(slice_str(rows[i].commit), 20, &at, id);
            assert_int_equal(r, rows[i].results[k]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_history), cmocka_unit_test(test_thin),      cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_trailer), cmocka_unit_test(test_malformed), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_parents), cmocka_unit_test(test_two_packs), cmocka_unit_test(test_forgotten),
    };
    return cmocka_run_group_tests_name("pack", tests, make_repositories, repositories_remove);
}
