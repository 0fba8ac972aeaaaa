/* base/watchmark, vault/marks, proxy/codec/watch: what is found is what memmem finds, however the bytes are cut, in files,
 * in deltas and in base64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include <openssl/evp.h>

#include "base/buf.h"
#include "proxy/codec/watch.h"
#include "tests/unit/chance.h"

#define SECRETS_MAX 8

/* Marks as the vault makes them, but of the plain secrets alone, and with fingerprints at a chosen place. */
struct rig {
    struct watch_key key;
    struct watchmark marks[SECRETS_MAX];
    uint8_t digests[SECRETS_MAX][WATCH_DIGEST_SIZE];
    size_t n;
    struct watch_table *table;
    struct watch watch;
};

static void add(struct rig *r, struct slice secret, size_t gram, bool part) {
    struct watchmark *m = &r->marks[r->n];
    assert_true(r->n < SECRETS_MAX && gram + WATCH_GRAM <= secret.n);
    *m = (struct watchmark){watch_print(watch_product(r->key.factor, secret.p + gram)),
                            (uint32_t)(secret.n - gram - WATCH_GRAM), (uint32_t)secret.n, part};
    assert_int_equal(watch_digest(&r->key, secret, r->digests[r->n++]), 0);
}

static void begin(struct rig *r) {
    assert_int_equal(watch_table_new(&r->key, r->marks, r->n, &r->table), 0);
    assert_int_equal(watch_init(&r->watch, r->table, NULL), 0);
}

static struct rig *rig(void) {
    struct rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    assert_int_equal(watch_key_make(&r->key), 0);
    return r;
}

static void end(struct rig *r) {
    watch_release(&r->watch);
    watch_table_free(r->table);
    free(r);
}

/* Has the secret been found? */
static bool found(const struct rig *r, size_t secret) {
    for (size_t i = 0; i < r->watch.nhits; i++)
        if (r->watch.hits[i].mark == secret &&
            memcmp(r->watch.hits[i].digest, r->digests[secret], WATCH_DIGEST_SIZE) == 0)
            return true;
    return false;
}

static void feed(struct rig *r, struct slice bytes, size_t piece) {
    for (size_t at = 0; at < bytes.n; at += piece)
        assert_int_equal(watch_feed(&r->watch, slice_sub(bytes, at, piece)), 0);
    assert_int_equal(watch_end(&r->watch), 0);
}

/* ---- runs ---- */

static void test_cuts(void **state) {
    (void)state;
    char text[200];
    memset(text, '.', sizeof text);
    struct slice secret = SLICE("SECRET-0123456789-abcdefghij");
    for (size_t at = 0; at + secret.n <= sizeof text; at += at < 10 || at > 160 ? 1 : 37) {
        memset(text, '.', sizeof text);
        memcpy(text + at, secret.p, secret.n);
        for (size_t gram = 0; gram + WATCH_GRAM <= secret.n; gram += 5) {
            for (size_t piece = 1; piece <= sizeof text; piece += piece < 40 ? 1 : 53) {
                struct rig *r = rig();
                add(r, secret, gram, false);
                begin(r);
                feed(r, slice_make(text, sizeof text), piece);
                assert_true(found(r, 0));
                assert_int_equal(r->watch.nhits, 1);
                end(r);
            }
            struct rig *r = rig();
            add(r, secret, gram, false);
            begin(r);
            assert_int_equal(watch_whole(&r->watch, slice_make(text, sizeof text)), 0);
            assert_true(found(r, 0));
            end(r);
        }
    }
}

/* The end of a run separates; a byte less, or another one anywhere, is something else. */
static void test_not_found(void **state) {
    (void)state;
    char text[64];
    struct slice secret = SLICE("SECRET-0123456789-abcdefghij");
    struct rig *r = rig();
    add(r, secret, 9, false);
    begin(r);
    for (size_t i = 1; i < secret.n; i++) {
        feed(r, slice_sub(secret, 0, i), i);
        feed(r, slice_from(secret, i), i);
        memcpy(text, secret.p, secret.n);
        text[i] ^= 1;
        feed(r, slice_make(text, secret.n), 7);
    }
    for (size_t i = 0; i < r->watch.nhits; i++)
        assert_false(found(r, 0));
    feed(r, secret, 3);
    assert_true(found(r, 0));
    end(r);
}

/* Two with the same beginning, one within the other, and one that overlaps with its like. */
static void test_overlapping(void **state) {
    (void)state;
    struct rig *r = rig();
    add(r, SLICE("SECRET-same-beginning-A"), 2, false);
    add(r, SLICE("SECRET-same-beginning-B"), 2, false);
    add(r, SLICE("SECRET-same-beginning-AND-MORE"), 2, false);
    add(r, SLICE("abcabcabcabcabcabcabcabcabc"), 0, false);
    add(r, SLICE("same-beginning"), 1, false);
    begin(r);
    feed(r, SLICE("SECRET-same-beginning-AND-LESS"), 5);
    assert_true(found(r, 0) && !found(r, 1) && !found(r, 2) && found(r, 4));
    feed(r, SLICE("SECRET-SECRET-same-beginning-BSECRET-same-beginning-AND-MORE"), 11);
    assert_true(found(r, 1) && found(r, 2));
    assert_false(found(r, 3));
    feed(r, SLICE("abcabcabcabcabcabcabcabcabcabcabcabc"), 1);
    assert_true(found(r, 3));
    end(r);
}

/* A secret of the greatest length, across the window's borders. */
static void test_long(void **state) {
    (void)state;
    static char text[400000], secret[21848];
    for (size_t i = 0; i < sizeof secret; i++)
        secret[i] = (char)('a' + (i * i / 97 + i) % 23);
    /* and at every place about which the window is moved on for the first time */
    for (size_t at = 0; at + sizeof secret <= sizeof text; at += at < 65510 || at > 65560 ? 6551 : 1) {
        for (size_t gram = 0; gram < sizeof secret; gram += sizeof secret - WATCH_GRAM) {
            struct rig *r = rig();
            memset(text, '.', sizeof text);
            memcpy(text + at, secret, sizeof secret);
            add(r, slice_make(secret, sizeof secret), gram, false);
            begin(r);
            feed(r, slice_make(text, sizeof text), 32768);
            assert_true(found(r, 0));
            end(r);
        }
    }
}

/* Random texts of few letters, in which random parts of them come again and again: memmem is right. */
static void test_agrees_with_memmem(void **state) {
    (void)state;
    size_t yes = 0, no = 0;
    for (unsigned round = 0; round < 300; round++) {
        char text[3000] = {0}, secrets[SECRETS_MAX][64];
        size_t lengths[SECRETS_MAX];
        struct rig *r = rig();
        for (size_t i = 0; i < sizeof text; i++)
            text[i] = i >= 40 && chance(4) ? text[i - 30] : (char)('a' + chance(3));
        for (size_t s = 0; s < SECRETS_MAX; s++) {
            size_t n = lengths[s] = WATCH_LEAST + chance(50);
            memcpy(secrets[s], text + chance((uint32_t)(sizeof text - n)), n);
            if (chance(2))
                secrets[s][chance((uint32_t)n)] = (char)('a' + chance(4));
            add(r, slice_make(secrets[s], n), chance((uint32_t)(n - WATCH_GRAM + 1)), false);
        }
        begin(r);
        int err = 0;
        for (size_t at = 0, piece; at < sizeof text && err == 0; at += piece) {
            piece = 1 + chance(400);
            err = watch_feed(&r->watch, slice_sub(slice_make(text, sizeof text), at, piece));
        }
        err = err ? err : watch_end(&r->watch);
        assert_int_equal(err, r->watch.nhits == WATCH_HITS_MAX ? err : 0);
        for (size_t s = 0; err == 0 && s < SECRETS_MAX; s++) {
            bool is = memmem(text, sizeof text, secrets[s], lengths[s]) != NULL;
            assert_int_equal(found(r, s), is);
            yes += is;
            no += !is;
        }
        end(r);
    }
    assert_true(yes > 100 && no > 100);
}

/* ---- deltas ---- */

static void put_delta(struct buf *out, const char *copies, struct slice added) {
    buf_put(out, slice_make("\x90\x01\xa0\x01", 4)); /* two sizes */
    for (const char *c = copies; *c; c++) {
        if (*c == 'c') {
            buf_put(out, slice_make("\x91\x07\x05", 3)); /* five bytes from the seventh on */
            continue;
        }
        size_t n = (size_t)(*c - '0') * 10;
        n = n < added.n ? n : added.n;
        char head = (char)n;
        buf_put(out, slice_make(&head, 1));
        buf_put(out, slice_sub(added, 0, n));
        added = slice_from(added, n);
    }
}

static int delta(struct rig *r, struct slice bytes, size_t piece) {
    int err = 0;
    for (size_t at = 0; err == 0 && at < bytes.n; at += piece)
        err = watch_delta(&r->watch, slice_sub(bytes, at, piece));
    int ended = watch_delta_end(&r->watch);
    return err ? err : ended;
}

static void test_deltas(void **state) {
    (void)state;
    static const struct {
        const char *copies;
        bool whole, half;
    } cases[] = {
        {"9", true, true},         /* all of it in one */
        {"c9c", true, true},       /* between copies */
        {"c1111c", true, true},    /* in four that follow one another */
        {"1c9", false, true},      /* its beginning elsewhere */
        {"2c2", false, true},      /* its second half alone */
        {"111c1", false, false},   /* its end elsewhere */
        {"1c1c1c1", false, false}, /* in pieces */
        {"ccc", false, false},
    };
    struct slice secret = SLICE("SECRET-0123456789-abcdefghijklmnopqrstuv"); /* forty */
    struct slice half = slice_from(secret, 20);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf text;
        buf_init(&text, 1000);
        put_delta(&text, cases[i].copies, secret);
        for (size_t piece = 1; piece < 70; piece++) {
            struct rig *r = rig();
            add(r, secret, 3, false);
            add(r, half, 3, true);
            begin(r);
            assert_int_equal(delta(r, buf_slice(&text), piece), 0);
            assert_int_equal(r->watch.makes, 160);
            assert_int_equal(found(r, 0), cases[i].whole);
            assert_int_equal(found(r, 1), cases[i].half);
            /* in a file half of it is something else */
            feed(r, half, piece);
            assert_int_equal(found(r, 1), cases[i].half);
            end(r);
        }
        buf_release(&text);
    }
}

static void test_bad_deltas(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
    } bad[] = {
        {"\x05\x05\x00", 3}, /* an instruction that is none */
        {"\x05", 1},         /* one size */
        {"\x05\x05\x04"
         "abc",
         6},                     /* a literal that ends too early */
        {"\x05\x05\x91\x01", 4}, /* a copy that does */
        {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01\x05\x01"
         "a",
         13}, /* a size beyond all measure */
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rig *r = rig();
        add(r, SLICE("SECRET-0123456789"), 0, false);
        begin(r);
        assert_int_equal(delta(r, slice_make(bad[i].bytes, bad[i].n), 2), ERR_PARSE);
        /* and the next one is read from its beginning */
        assert_int_equal(delta(r, slice_make("\x05\x01\x01x", 4), 1), 0);
        end(r);
    }
}

/* ---- limits ---- */

/* Bytes that look like a secret again and again, each time another one. */
static void test_too_much(void **state) {
    (void)state;
    struct rig *r = rig();
    struct slice secret = SLICE("SECRET-0123456789-abcdefghij");
    char text[64];
    int err = 0;
    size_t n = 0;
    add(r, secret, 0, false);
    begin(r);
    for (; err == 0 && n < 1000; n++) {
        snprintf(text, sizeof text, "SECRET-0%05zu is another one, n", n);
        err = watch_whole(&r->watch, slice_str(text));
    }
    assert_int_equal(err, ERR_LIMIT);
    assert_int_equal(r->watch.nhits, WATCH_HITS_MAX);
    assert_int_equal(watch_whole(&r->watch, SLICE("all is well")), ERR_LIMIT);
    end(r);
    /* … and the same one so often that digesting would take all the time */
    r = rig();
    static char much[1 << 20];
    add(r, secret, 0, false);
    begin(r);
    for (size_t i = 0; i + 8 <= sizeof much; i += 8)
        memcpy(much + i, "SECRET-0", 8);
    for (n = 0, err = 0; err == 0 && n < 1000; n++)
        err = watch_feed(&r->watch, slice_make(much, sizeof much));
    assert_int_equal(err, ERR_LIMIT);
    assert_true(r->watch.nhits == 1 && n < 10);
    end(r);
}

/* What it keeps is counted, and without room for that nothing is looked through, so that nobody is told that it was. */
static void test_memory(void **state) {
    (void)state;
    struct rig *r = rig();
    struct git_memory all = {.limit = 1 << 20}, own = {.limit = 1 << 20, .of = &all};
    add(r, SLICE("SECRET-OF-SOME-LENGTH"), 0, false);
    begin(r);
    struct watch few[32];
    size_t n = 0;
    while (n < 32 && watch_init(&few[n], r->table, &own) == 0)
        n++;
    assert_in_range(n, 10, 16);
    assert_true(own.used > n * 65536 && all.used == own.used && own.used <= own.limit);
    assert_int_equal(watch_feed(&few[n], SLICE("SECRET-OF-SOME-LENGTH")), ERR_LIMIT);
    assert_int_equal(watch_end(&few[n]), ERR_LIMIT);
    for (size_t i = 0; i <= n; i++)
        watch_release(&few[i]);
    assert_int_equal(own.used + all.used, 0);
    end(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_not_found),
        cmocka_unit_test(test_overlapping),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_agrees_with_memmem),
        cmocka_unit_test(test_deltas),
        cmocka_unit_test(test_bad_deltas),
        cmocka_unit_test(test_too_much),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
