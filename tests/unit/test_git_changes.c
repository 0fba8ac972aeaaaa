/* proxy/codec/git_changes, git_tree: histories made by git, and what an update from one commit to another changes; with
 * all of them known, and with what a push sends and the rest asked for bit by bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>
#include <cmocka.h>

#include "proxy/codec/git_changes_internal.h"
#include "proxy/codec/git_objects_internal.h"
#include "proxy/codec/pack.h"
#include "tests/unit/git_support.h"
#include "tests/unit/mutate.h"

/*
 * Writes a line for each case: NAME OLD NEW TRUSTED,… and the paths that are expected, sorted; '@' behind one that is a
 * link. Where more is expected without merge bases, it stands behind '+'.
 */
static const char script[] =
    "set -e; cd \"$1\"; export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null HOME=\"$1\"\n"
    "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x\n"
    "export GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000'\n"
    "git init -q --object-format=$2 -b main r; cd r; git config advice.detachedHead false; : > ../cases\n"
    "z=$(git hash-object --stdin </dev/null | tr '0-9a-f' 0)\n"
    "put() { mkdir -p \"$(dirname $1)\"; echo \"$2\" > $1; }\n"
    "ci() { git add -A; git commit -q --allow-empty -m \"$1\"; }\n"
    "is() { n=$1 o=$2 t=$3; shift 3; echo \"$n $(git rev-parse $o) $(git rev-parse HEAD) $(git rev-parse $t) "
    "$*\" "
    ">> ../cases; git branch -q case-$n; }\n"
    /* main: base - v2 - v3; fix: base - f1 */
    "put a 1; put dir/b 1; put dir/e/f 1; put .ci/x v1; put .ci/y v1; put both 1; ci base; git tag base\n"
    "put .ci/x v2; put src/m 1; ci v2; git tag v2; put .ci/x v3; put src/m 2; ci v3; git tag v3\n"
    "git checkout -q -b fix base; put mine 1; put dir/e/f 2; ci f1; git tag f1\n"
    "at() { git checkout -q --detach $1; }\n"
    "at f1; put n/x 1; ci add; is add f1 v3 n/x\n"
    "put dir/b 2; ci change; is several f1 v3 dir/b n/x\n"
    "at f1; put a 1; ci same; is nothing f1 v3\n"
    "at f1; git rm -q a; ci delete; is delete f1 v3 a\n"
    "at f1; git mv a zz; ci rename; is rename f1 v3 a zz\n"
    "at f1; git mv dir moved; ci move; is move f1 v3 dir/b dir/e/f moved/b moved/e/f\n"
    "at f1; chmod +x a; ci mode; is mode f1 v3 a\n"
    "at f1; ln -s /etc/x l; ci link; is link f1 v3 l@\n"
    "at f1; git update-index --add --cacheinfo 160000,$(git rev-parse base),sub; git commit -q -m sub; is "
    "sub f1 v3 "
    "sub@\n"
    "at f1; rm a; put a/q 1; ci filedir; is filedir f1 v3 a a/q\n"
    "at f1; rm -r .ci; ln -s src .ci; ci dirlink; is dirlink f1 v3 .ci@ .ci/x .ci/y\n"
    "at f1; put n/x 1; ci on; git rm -q n/x; ci off; is come-and-gone f1 v3 n/x\n"
    "at v3; git checkout -q base -- .ci; ci back; is back v3 v3 .ci/x\n"
    "at v3; put .ci/x v2; ci backfile; is backfile v3 v3 .ci/x\n"
    /* merges */
    "at f1; git merge -q -m m v3; is merge f1 v3 + .ci/x src/m dir/e/f mine\n"
    "git tag merged; put mine 2; ci on; is on-merge f1 v3 mine + .ci/x src/m dir/e/f\n"
    "at v3; put .ci/x v4; ci v4; git tag v4; at merged; git merge -q -m m2 v4; is merge-again merged v4 + "
    ".ci/x "
    "dir/e/f mine\n"
    "is merge-both f1 v4 + .ci/x dir/e/f mine src/m\n"
    "at f1; git merge -q -s ours -m m v3; is ours f1 v3 .ci/x src/m + dir/e/f mine\n"
    "at f1; git merge -q --no-commit v3; put .ci/evil 1; ci evil; is evil f1 v3 .ci/evil + .ci/x src/m "
    "dir/e/f mine\n"
    "at f1; git merge -q --no-commit v3; put .ci/x v2; ci evil2; is evil-old f1 v3 .ci/x + src/m dir/e/f "
    "mine\n"
    "at f1; git merge -q --no-commit v3; git checkout -q base -- dir; ci drop; is drop-mine f1 v3 dir/e/f + "
    ".ci/x src/m "
    "mine\n"
    "at v4; git merge -q -s ours -m x f1; git read-tree -u --reset v2; git commit -q --amend --no-edit; "
    "is take-old v4 v4 .ci/x dir/e/f mine src/m\n"
    "at f1; put both 2; ci b; git tag b2; at v3; put both 3; ci b3; git tag b3; at b2; git merge -q b3 "
    ">/dev/null || "
    "put both 23; ci conflict; is conflict b2 b3 both + .ci/x src/m dir/e/f mine\n"
    "at f1; put p 1; ci p; git tag p1; at f1; put q 1; ci q; git tag q1; at f1; put r 1; ci r; git merge -q "
    "-m o p1 q1; "
    "is octopus f1 v3 p q r\n"
    "at f1; git merge -q --no-ff -m noff p1; is noff f1 v3 p\n"
    "at f1; git merge -q --no-ff -m known p1; is noff-known f1 p1 + p\n"
    "git checkout -q --orphan other; git rm -rfq .; put o/1 1; ci o; git tag o1; is root f1 v3 o/1 a .ci/x "
    ".ci/y both dir/b mine "
    "dir/e/f\n"
    "at f1; git merge -q --allow-unrelated-histories -m u o1; is unrelated f1 v3 o/1 + a .ci/x .ci/y both "
    "dir/b dir/e/f "
    "mine\n"
    /* what is no fast-forward */
    "at f1; is rollback p1 v3 p\n"
    "at base; is reset f1 v3 dir/e/f mine\n"
    "at v3; is reset-to-main f1 v3 dir/e/f mine + .ci/x src/m\n"
    "at v3; put mine 1; put dir/e/f 2; ci rebased; is rebased f1 v3 dir/e/f mine + .ci/x src/m\n"
    "at f1; git commit -q --amend -m reworded; is reworded f1 v3 dir/e/f mine\n"
    /* someone else's, at the same server */
    "at base; put .ci/x theirs; ci theirs; git tag theirs; put t 1; ci t; is upon-theirs base v3 .ci/x t\n"
    "at f1; git merge -q -m m theirs; is merge-theirs f1 v3 .ci/x + dir/e/f mine\n"
    "at f1; git tag -a -m t tagged; git checkout -q tagged; put n 1; ci n; is after-tag f1 v3 n\n"
    "git rev-list --objects --no-object-names --filter=blob:none --all | git pack-objects -q --stdout > "
    "../all.pack\n"
    "k=0; while read n o t tr rest; do printf \"$t\\n^$o\\n$(echo $tr | sed 's/^/^/')\\n\" | "
    "git pack-objects -q --stdout --revs --thin > ../$n.pack; done < ../cases\n";

static int make_repositories(void **state) {
    (void)state;
    return repositories_make(script);
}

static void feed(struct git_objects *o, struct slice in, bool pushed) {
    struct pack_limits limits;
    struct pack p;
    size_t used;
    pack_limits_default(&limits);
    assert_int_equal(pack_init(&p, o, pushed, &limits), 0);
    int r = pack_feed(&p, in, &used);
    if (r)
        print_error("%s\n", p.error.text);
    assert_int_equal(r, 0);
    pack_release(&p);
}

/* ---- one case ---- */

struct scene {
    char name[64], expected[512], more[512];
    uint8_t old[GIT_ID_MAX], young[GIT_ID_MAX], trusted[GIT_ID_MAX];
};

static void read_scene(struct slice line, unsigned id_size, struct scene *s) {
    struct slice word, rest, expected, more;
    slice_cut(line, ' ', &word, &rest);
    snprintf(s->name, sizeof s->name, "%.*s", SLICE_ARG(word));
    slice_cut(rest, ' ', &word, &rest);
    assert_true(git_id_from_hex(word, id_size, s->old));
    slice_cut(rest, ' ', &word, &rest);
    assert_true(git_id_from_hex(word, id_size, s->young));
    slice_cut(rest, ' ', &word, &rest);
    assert_true(git_id_from_hex(word, id_size, s->trusted));
    slice_cut(rest, '+', &expected, &more);
    expected = slice_trim(expected);
    more = slice_trim(more);
    snprintf(s->expected, sizeof s->expected, "%.*s", SLICE_ARG(expected));
    snprintf(s->more, sizeof s->more, "%.*s", SLICE_ARG(more));
}

static int compare(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The paths, sorted, with '@' behind links. */
static void join(const struct git_texts *texts, char *out, size_t room) {
    char *list[64] = {NULL};
    size_t at = 0;
    assert_true(texts->n < 64);
    for (size_t i = 0; i < texts->n; i++) {
        struct slice path = git_text(texts, i);
        assert_true(asprintf(&list[i], "%.*s%s", SLICE_ARG(path), texts->list[i].link ? "@" : "") > 0);
    }
    qsort(list, texts->n, sizeof *list, compare);
    *out = 0;
    for (size_t i = 0; i < texts->n; i++) {
        at += (size_t)snprintf(out + at, room - at, "%s%s", i ? " " : "", list[i]);
        assert_true(at < room);
        free(list[i]);
    }
}

static int compare_words(const void *a, const void *b) {
    return slice_cmp(*(const struct slice *)a, *(const struct slice *)b);
}

/* Words of `a` and `b`, sorted, as join gives them. */
static void sum(const char *a, const char *b, char *out, size_t room) {
    char copy[1200];
    struct slice list[64] = {0}, word, rest;
    size_t n = 0, at = 0;
    snprintf(copy, sizeof copy, "%s %s", a, b);
    rest = slice_str(copy);
    for (bool more = true; more;) {
        more = slice_cut(rest, ' ', &word, &rest);
        if (word.n)
            list[n++] = word;
    }
    qsort(list, n, sizeof *list, compare_words);
    *out = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || !slice_eq(list[i], list[i - 1]))
            at += (size_t)snprintf(out + at, room - at, "%s%.*s", at ? " " : "", SLICE_ARG(list[i]));
}

static void settle(struct git_objects *o, const struct scene *s) {
    assert_int_equal(git_objects_settle(o, s->old), 0);
    assert_int_equal(git_objects_settle(o, s->trusted), 0);
}

static void run(struct git_changes *c, const struct git_objects *o, const struct scene *s, bool excuse,
                size_t budget) {
    int r;
    assert_int_equal(git_changes_init(c, o, s->old, s->young, excuse ? GIT_CHANGES_EXCUSE : 0), 0);
    while ((r = git_changes_run(c, budget)) == ERR_INCOMPLETE)
        ;
    if (r)
        print_error("%s: %s\n", s->name, c->error.text);
    assert_int_equal(r, 0);
}

static void must_be(const struct scene *s, const struct git_changes *c, bool excuse) {
    char got[1200], want[1200];
    join(&c->paths, got, sizeof got);
    sum(s->expected, excuse ? "" : s->more, want, sizeof want);
    if (strcmp(got, want) != 0)
        print_error("%s%s: %s, and not %s\n", s->name, excuse ? "" : " without bases", got, want);
    assert_string_equal(got, want);
}

static void each_scene(void (*fn)(unsigned which, const struct scene *s, struct git_objects *all)) {
    for (unsigned which = 0; which < 2; which++) {
        unsigned id_size = which ? 32 : 20;
        struct slice cases = load(which, "cases"), pack = load(which, "all.pack"), rest = cases, line;
        struct git_objects_limits limits;
        struct scene s;
        size_t n = 0;
        git_objects_limits_default(&limits);
        for (; slice_cut(rest, '\n', &line, &rest); n++) {
            struct git_memory memory = {.limit = 256u << 20};
            struct git_objects all;
            assert_int_equal(git_objects_init(&all, id_size, true, &limits, &memory), 0);
            feed(&all, pack, false);
            read_scene(line, id_size, &s);
            settle(&all, &s);
            fn(which, &s, &all);
            git_objects_release(&all);
            assert_int_equal(memory.used, 0);
        }
        assert_true(n > 35);
        unload(cases);
        unload(pack);
    }
}

static void with_all_known(unsigned which, const struct scene *s, struct git_objects *all) {
    struct git_changes c;
    (void)which;
    for (size_t budget = 1; budget < 100000; budget *= 1000) {
        for (unsigned excuse = 0; excuse < 2; excuse++) {
            run(&c, all, s, excuse, budget);
            assert_true(git_changes_complete(&c));
            must_be(s, &c, excuse);
            git_changes_release(&c);
        }
    }
}

static void test_all_known(void **state) {
    (void)state;
    each_scene(with_all_known);
}

/* ---- bit by bit ---- */

static void give(struct git_objects *o, const struct git_objects *from, const uint8_t *id) {
    const struct git_object *object = git_objects_find(from, id);
    uint32_t number;
    assert_non_null(object);
    if (git_objects_find(o, id))
        return;
    char *copy = malloc(object->size + 1);
    memcpy(copy, object->data, object->size);
    assert_int_equal(git_objects_take(o, object->type, copy, object->size, false, &number), 0);
    struct slice tree = slice_make(object->data, object->size);
    struct git_entry e;
    while (object->type == GIT_TYPE_TREE && git_tree_next(&tree, o->id_size, &e) == 0)
        if (git_entry_is_tree(&e))
            give(o, from, e.id);
}

static void give_history(struct git_objects *o, const struct git_objects *from, const uint8_t *id) {
    struct git_ids all;
    git_ids_init(&all, o->id_size);
    git_ids_add(&all, id);
    for (size_t i = 0; i < all.n; i++) {
        const uint8_t *one = git_ids_at(&all, i);
        give(o, from, one);
        assert_int_equal(git_history_names(from, git_objects_find(from, one), &all), 0);
    }
    git_ids_release(&all);
}

/* What a server would send, being asked as the header says. */
static void answer(struct git_objects *o, const struct git_objects *all, const struct git_needs *needs) {
    struct git_ids settled;
    git_ids_init(&settled, o->id_size);
    assert_int_equal(git_history_settled(all, &settled), 0);
    for (size_t i = 0; i < needs->commits.n; i++) {
        const uint8_t *id = git_ids_at(&needs->commits, i);
        if (git_ids_find(&settled, id) != GIT_IDS_NONE)
            assert_int_equal(git_objects_settle(o, id), 0);
        else
            give(o, all, id);
    }
    for (size_t i = 0; i < needs->trees_of.n; i++) {
        const struct git_object *commit = git_objects_find(all, git_ids_at(&needs->trees_of, i));
        uint8_t tree[GIT_ID_MAX];
        size_t at = 0;
        git_commit_next(slice_make(commit->data, commit->size), o->id_size, &at, tree);
        give(o, all, git_ids_at(&needs->trees_of, i));
        give(o, all, tree);
    }
    for (size_t i = 0; i < needs->trees.n; i++)
        give(o, all, git_ids_at(&needs->trees, i));
    for (size_t i = 0; i < needs->history.n; i++)
        give_history(o, all, git_ids_at(&needs->history, i));
    git_ids_release(&settled);
}

static void bit_by_bit(unsigned which, const struct scene *s, struct git_objects *all) {
    char name[80];
    snprintf(name, sizeof name, "%s.pack", s->name);
    struct slice pack = load(which, name);
    for (unsigned excuse = 0; excuse < 2; excuse++) {
        struct git_memory memory = {.limit = 64u << 20};
        struct git_objects o;
        struct git_changes c;
        unsigned rounds = 0;
        assert_int_equal(git_objects_init(&o, all->id_size, true, &all->limits, &memory), 0);
        settle(&o, s);
        feed(&o, pack, true);
        for (;; rounds++) {
            assert_true(rounds < 12);
            run(&c, &o, s, excuse, 1000);
            if (git_changes_complete(&c))
                break;
            answer(&o, all, &c.needs);
            git_changes_release(&c);
        }
        assert_true(rounds > 0);
        must_be(s, &c, excuse);
        git_changes_release(&c);
        git_objects_release(&o);
        assert_int_equal(memory.used, 0);
    }
    unload(pack);
}

static void test_bit_by_bit(void **state) {
    (void)state;
    each_scene(bit_by_bit);
}

/* ---- memory ---- */

/* With little memory the answer is the same or none, and never is more taken. */
static void with_little_memory(unsigned which, const struct scene *s, struct git_objects *all) {
    struct slice pack = load(which, "all.pack");
    bool answered = false, refused = false;
    for (size_t limit = 1 << 10; limit <= 8 << 20; limit *= 2) {
        struct git_memory whole = {.limit = 2 * limit, .used = limit},
                          memory = {.limit = limit, .of = &whole};
        struct git_objects o;
        struct git_changes c = {.paths = {.n = 0}};
        struct pack p;
        struct pack_limits limits;
        size_t used;
        pack_limits_default(&limits);
        int r = git_objects_init(&o, all->id_size, true, &all->limits, &memory);
        if (r == 0) {
            assert_int_equal(pack_init(&p, &o, true, &limits), 0);
            r = pack_feed(&p, pack, &used);
            pack_release(&p);
        }
        if (r == 0)
            r = git_objects_settle(&o, s->old) || git_objects_settle(&o, s->trusted) ? ERR_NOMEM : 0;
        if (r == 0)
            r = git_changes_init(&c, &o, s->old, s->young, GIT_CHANGES_EXCUSE);
        while (r == 0 && (r = git_changes_run(&c, 1000)) == ERR_INCOMPLETE)
            r = 0;
        assert_true(memory.used <= limit && whole.used == limit + memory.used);
        assert_true(r == 0 ? git_changes_complete(&c) : r == ERR_LIMIT || r == ERR_NOMEM);
        assert_true(r == 0 || memory.full == &memory);
        if (r == 0)
            must_be(s, &c, true);
        answered |= r == 0;
        refused |= r != 0;
        git_changes_release(&c);
        git_objects_release(&o);
        assert_true(memory.used == 0 && whole.used == limit);
    }
    assert_true(answered && refused);
    unload(pack);
}

static void test_memory(void **state) {
    struct git_memory whole = {.limit = 100}, a = {.limit = 80, .of = &whole}, b = a;
    (void)state;
    assert_true(git_memory_keep(&a, 60) && !git_memory_keep(&a, 1) && a.full == &a);
    assert_true(git_memory_take(&a, 20) && !git_memory_take(&a, 1) && a.full == &a);
    assert_true(!git_memory_take(&b, 21) && b.full == &whole && git_memory_room(&b) == 20);
    assert_true(git_memory_take(&b, 20) && b.full == NULL);
    git_memory_give(&a, 80);
    git_memory_give(&b, 20);
    assert_true(a.used == 0 && b.used == 0 && whole.used == 0 && git_memory_room(&a) == 60);
    assert_true(git_memory_take(NULL, SIZE_MAX));
    each_scene(with_little_memory);
}

/* ---- trees ---- */

#define ID            "12345678901234567890"
#define E(mode, name) mode " " name "\0" ID

static void test_trees(void **state) {
    static const struct {
        struct slice tree;
        int result;
    } rows[] = {
        {SLICE(""), 0},
        {SLICE(E("100644", "a")), 0},
        {SLICE(E("40000", "a") E("100755", "b") E("120000", "c") E("160000", "d") E("100664", "e")), 0},
        {SLICE(E("040000", "a") E("0100644", "b")), 0},
        {SLICE(E("100644", "a.b") E("40000", "a") E("100644", "a0")), 0},
        {SLICE(E("40000", "a.b") E("40000", "a")), 0},
        {SLICE(E("100644", "a") E("100644", "a.b") E("100644", "a.c")), 0},
        {SLICE(E("100644", ".git") E("100644", "\n\xff")), ERR_PARSE}, /* the order */
        {SLICE(E("100644", "\n\xff") E("100644", ".git")), 0},
        {SLICE(E("100644", "b") E("100644", "a")), ERR_PARSE},
        {SLICE(E("100644", "a") E("100644", "a")), ERR_PARSE},
        {SLICE(E("100644", "a") E("40000", "a")), ERR_PARSE},
        {SLICE(E("100644", "a") E("100644", "a-b") E("40000", "a")), ERR_PARSE},
        {SLICE(E("100644", "a") E("100644", "a-b") E("40000", "a-c") E("40000", "a")), ERR_PARSE},
        {SLICE(E("40000", "a") E("100644", "a.b")), ERR_PARSE},
        {SLICE(E("100644", "")), ERR_PARSE},
        {SLICE(E("100644", ".")), ERR_PARSE},
        {SLICE(E("40000", "..")), ERR_PARSE},
        {SLICE(E("100644", "a/b")), ERR_PARSE},
        {SLICE(E("100600", "a")), ERR_PARSE},
        {SLICE(E("0", "a")), ERR_PARSE},
        {SLICE(E("", "a")), ERR_PARSE},
        {SLICE(E("108644", "a")), ERR_PARSE},
        {SLICE(E("00100644", "a")), ERR_PARSE},
        {SLICE(E("-100644", "a")), ERR_PARSE},
        {SLICE("100644 a\0"
               "1234567890123456789"),
         ERR_PARSE},
        {SLICE("100644 a"), ERR_PARSE},
        {SLICE("100644"), ERR_PARSE},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int r = git_tree_check(rows[i].tree, 20);
        if (r != rows[i].result)
            print_error("row %zu\n", i);
        assert_int_equal(r, rows[i].result);
    }
}

static void test_heads(void **state) {
    struct slice who;
    (void)state;
    const struct slice commit =
        SLICE("tree x\nparent y\nauthor A <b> C <a@x> 1 +0000\ncommitter B <b@x> 2 +0000\n"
              "gpgsig -----BEGIN\n author E <e>\n \n -----END\n\nauthor M <m@x> 1 +0\ngpgsig y\n");
    assert_true(git_commit_identity(commit, SLICE("author "), &who));
    assert_true(slice_eq(who, SLICE("A <b> C <a@x>")));
    assert_true(git_commit_identity(commit, SLICE("committer "), &who));
    assert_true(slice_eq(who, SLICE("B <b@x>")));
    assert_true(git_commit_signed(commit));
    const struct slice bare = SLICE("tree x\nauthor nobody\n\ncommitter B <b@x> 2 +0000\ngpgsig y\n");
    assert_false(git_commit_identity(bare, SLICE("author "), &who));
    assert_false(git_commit_identity(bare, SLICE("committer "), &who));
    assert_false(git_commit_signed(bare));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_known), cmocka_unit_test(test_bit_by_bit), cmocka_unit_test(test_memory),
        cmocka_unit_test(test_trees),     cmocka_unit_test(test_heads),
    };
    return cmocka_run_group_tests_name("git_changes", tests, make_repositories, repositories_remove);
}
