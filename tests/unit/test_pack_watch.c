/* proxy/codec/pack with a watch: secrets in packs that git made, in files short and long, in deltas, commits, tags and trees,
 * in any cut; with what is kept and without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>
#include <cmocka.h>

#include "proxy/codec/pack.h"
#include "tests/unit/git_support.h"

static const char script[] =
    "set -e; cd \"$1\"; export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null HOME=\"$1\"\n"
    "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x\n"
    "git init -q --object-format=$2 -b main r; cd r\n"
    "s=SECRET-0-of-the-vault\n"
    "seq 1 500 > plain; echo $s-in-a-file > short; git add -A; git commit -q -m \"$s-in-a-message\"\n"
    "sed -i \"250s/$/ $s-in-a-delta/\" plain; git add -A; git commit -q -m 2\n"
    "{ seq 1 60000; printf $s-in-a-long-file; seq 1 60000; } > long; echo > $s-in-a-name\n"
    "git add -A; git commit -q -m 3; git tag -a -m \"$s-in-a-tag\" t\n"
    "git rev-parse HEAD~2:short HEAD~2 HEAD: t > ../named; wc -c < long > ../length; wc -c < plain >> "
    "../length\n"
    "git pack-objects -q --stdout --all --delta-base-offset </dev/null > ../ofs.pack\n"
    "git pack-objects -q --stdout --all </dev/null > ../ref.pack\n"
    "printf 'HEAD~1\\n^HEAD~2\\n' | git pack-objects -q --stdout --revs --thin > ../thin.pack\n";

static int make_repositories(void **state) {
    (void)state;
    return repositories_make(script);
}

enum { A_FILE, A_MESSAGE, A_DELTA, A_LONG_FILE, A_NAME, A_TAG, NOWHERE, SECRETS };
static const char *const secrets[] = {
    "SECRET-0-of-the-vault-in-a-file",      "SECRET-0-of-the-vault-in-a-message",
    "SECRET-0-of-the-vault-in-a-delta",     "SECRET-0-of-the-vault-in-a-long-file",
    "SECRET-0-of-the-vault-in-a-name",      "SECRET-0-of-the-vault-in-a-tag",
    "SECRET-0-of-the-vault-that-is-nowhere"};

static struct watch_table *make_table(struct watch_key *key) {
    struct watchmark marks[SECRETS];
    struct watch_table *table;
    assert_int_equal(watch_key_make(key), 0);
    for (size_t i = 0; i < SECRETS; i++)
        marks[i] = (struct watchmark){watch_print(watch_product(key->factor, secrets[i] + 7)),
                                      (uint32_t)strlen(secrets[i]) - 15, (uint32_t)strlen(secrets[i]), false};
    assert_int_equal(watch_table_new(key, marks, SECRETS, &table), 0);
    return table;
}

static const struct watch_hit *hit(const struct watch *w, const struct watch_key *key, uint32_t secret) {
    uint8_t digest[WATCH_DIGEST_SIZE];
    assert_int_equal(watch_digest(key, slice_str(secrets[secret]), digest), 0);
    for (size_t i = 0; i < w->nhits; i++)
        if (w->hits[i].mark == secret && memcmp(w->hits[i].digest, digest, sizeof digest) == 0)
            return &w->hits[i];
    return NULL;
}

static void look(unsigned which, const char *name, size_t piece, int keep, struct watch *w,
                 const struct watch_table *table) {
    struct git_memory memory = {.limit = 64u << 20};
    struct git_objects o;
    struct git_objects_limits objects;
    struct pack_limits limits;
    struct pack p;
    size_t used;
    int r = ERR_INCOMPLETE;
    git_objects_limits_default(&objects);
    pack_limits_default(&limits);
    assert_int_equal(watch_init(w, table, NULL), 0);
    assert_int_equal(git_objects_init(&o, which ? 32 : 20, keep == 2, &objects, &memory), 0);
    assert_int_equal(pack_init(&p, &o, true, &limits), 0);
    p.watch = w;
    p.nothing_kept = keep == 0;
    struct slice in = load(which, name);
    for (size_t at = 0; at < in.n && r == ERR_INCOMPLETE; at += used)
        r = pack_feed(&p, slice_sub(in, at, piece), &used);
    assert_int_equal(r, 0);
    assert_true(keep ? o.ids.n > 1 : o.ids.n <= 1 && o.waiting == 0);
    unload(in);
    pack_release(&p);
    git_objects_release(&o);
}

static void check_id(const struct watch_hit *h, unsigned which, enum git_type type, struct slice *named) {
    struct slice hex;
    uint8_t id[GIT_ID_MAX];
    assert_true(slice_cut(*named, '\n', &hex, named));
    assert_true(git_id_from_hex(hex, which ? 32 : 20, id));
    assert_int_equal(h->place.type, type);
    assert_int_equal(h->place.id_size, which ? 32 : 20);
    assert_memory_equal(h->place.id, id, which ? 32 : 20);
}

static void test_places(void **state) {
    (void)state;
    struct watch_key key;
    struct watch_table *table = make_table(&key);
    static const char *const packs[] = {"ofs.pack", "ref.pack"};
    for (unsigned n = 0; n < 2 * 2 * 3 * 4; n++) {
        static const size_t pieces[] = {1, 7, 4096, SIZE_MAX};
        unsigned which = n & 1;
        struct watch w;
        look(which, packs[n >> 1 & 1], pieces[n / 12], (int)(n >> 2) % 3, &w, table);
        for (uint32_t i = 0; i < SECRETS; i++)
            assert_true((hit(&w, &key, i) != NULL) == (i != NOWHERE));
        struct slice named = load(which, "named"), length = load(which, "length"), rest = named;
        check_id(hit(&w, &key, A_FILE), which, GIT_TYPE_BLOB, &rest);
        check_id(hit(&w, &key, A_MESSAGE), which, GIT_TYPE_COMMIT, &rest);
        check_id(hit(&w, &key, A_NAME), which, GIT_TYPE_TREE, &rest);
        check_id(hit(&w, &key, A_TAG), which, GIT_TYPE_TAG, &rest);
        assert_int_equal(hit(&w, &key, A_LONG_FILE)->place.size, strtoull(length.p, NULL, 10));
        assert_int_equal(hit(&w, &key, A_LONG_FILE)->place.id_size, 0);
        unload(named);
        unload(length);
        watch_release(&w);
    }
    watch_table_free(table);
}

/* What the server has is not in the pack: of a file that is changed the change alone is. */
static void test_delta(void **state) {
    (void)state;
    struct watch_key key;
    struct watch_table *table = make_table(&key);
    for (unsigned n = 0; n < 2 * 3; n++) {
        unsigned which = n & 1;
        struct watch w;
        look(which, "thin.pack", 3, (int)n / 2, &w, table);
        const struct watch_hit *h = hit(&w, &key, A_DELTA);
        assert_non_null(h);
        assert_true(h->place.type == 0 && h->place.id_size == 0);
        struct slice length = load(which, "length");
        struct slice second =
            slice_from(length, (size_t)((char *)memchr(length.p, '\n', length.n) - length.p));
        assert_int_equal(h->place.size, strtoull(second.p, NULL, 10));
        unload(length);
        watch_release(&w);
    }
    watch_table_free(table);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_places), cmocka_unit_test(test_delta)};
    return cmocka_run_group_tests(tests, make_repositories, repositories_remove);
}
