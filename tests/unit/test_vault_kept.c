/* vault: what is kept for the requests it belongs to: found again, ended, replaced, bounded, wiped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/unit/keeper_support.h"
#include "vault/kept.h"

static struct slice a_key(unsigned n) {
    static char text[4][KEPT_KEY_SIZE + 1];
    static unsigned turn;
    char *one = text[turn++ % 4];
    snprintf(one, sizeof text[0], "%032u", n);
    return slice_make(one, KEPT_KEY_SIZE);
}

static void found_and_ended(void **state) {
    struct kept k = {.first = NULL};
    (void)state;
    assert_null(kept_find(&k, a_key(1), 0).p);
    assert_int_equal(kept_put(&k, a_key(1), SLICE("SECRET-1"), 10, 1000), 0);
    assert_int_equal(kept_put(&k, a_key(2), SLICE("SECRET-2"), 20, 1000), 0);
    assert_true(slice_eq(kept_find(&k, a_key(1), 1000), SLICE("SECRET-1")));
    assert_true(slice_eq(kept_find(&k, a_key(1), 10999), SLICE("SECRET-1")));
    assert_null(kept_find(&k, a_key(1), 11000).p);
    assert_null(kept_find(&k, a_key(3), 1000).p);
    assert_null(kept_find(&k, SLICE("1"), 1000).p);
    /* the next one that comes takes away what has ended */
    assert_int_equal(kept_put(&k, a_key(3), SLICE("SECRET-3"), UINT32_MAX, 11000), 0);
    assert_int_equal(k.n, 2);
    assert_non_null(kept_find(&k, a_key(3), 11000 + 86399999).p);
    assert_null(kept_find(&k, a_key(3), 11000 + 86400000).p);
    kept_release(&k);
    assert_int_equal(k.n + k.bytes, 0);
    kept_release(&k);
}

static void replaced(void **state) {
    struct kept k = {.first = NULL};
    (void)state;
    for (int round = 0; round < 3; round++)
        for (unsigned i = 0; i < 3; i++) {
            char text[32];
            snprintf(text, sizeof text, "SECRET-%d-%u", round, i);
            assert_int_equal(kept_put(&k, a_key(i), slice_str(text), 10, 0), 0);
            assert_true(slice_eq(kept_find(&k, a_key(i), 0), slice_str(text)));
            assert_int_equal(k.n, round ? 3 : i + 1);
        }
    assert_int_equal(k.bytes, 3 * strlen("SECRET-0-0"));
    kept_release(&k);
}

static void bounded(void **state) {
    static char large[KEPT_VALUE_MAX + 1];
    struct kept k = {.first = NULL};
    (void)state;
    for (unsigned i = 0; i < KEPT_MAX + 10; i++)
        assert_int_equal(kept_put(&k, a_key(i), SLICE("x"), 10, 0), 0);
    assert_int_equal(k.n, KEPT_MAX);
    assert_null(kept_find(&k, a_key(9), 0).p);
    assert_non_null(kept_find(&k, a_key(10), 0).p);
    assert_non_null(kept_find(&k, a_key(KEPT_MAX + 9), 0).p);
    memset(large, 'x', sizeof large);
    assert_int_equal(kept_put(&k, a_key(1), slice_make(large, sizeof large), 10, 0), ERR_LIMIT);
    assert_int_equal(kept_put(&k, SLICE("short"), SLICE("x"), 10, 0), ERR_USAGE);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(kept_put(&k, a_key(i), slice_make(large, KEPT_VALUE_MAX), 10, 0), 0);
        assert_true(k.bytes <= KEPT_BYTES);
    }
    assert_int_equal(k.n, KEPT_BYTES / KEPT_VALUE_MAX);
    kept_release(&k);
}

/* What is kept for one sandbox is that sandbox's, whatever it is granted meanwhile, until it ends. */
static void test_keeping(void **state) {
    struct state *s = *state;
    static const char *const names[] = {"github"};
    struct vault_keep list[2] = {{.key = "key-1", .seconds = 60}, {.key = "key-2", .seconds = 0}};
    struct asked a = {.r = {.done = on_done}};
    size_t taken;
    assert_int_equal(secret_set(&list[0].value, SLICE("SECRET-K1")), 0);
    assert_int_equal(secret_set(&list[1].value, SLICE("SECRET-K2")), 0);
    for (int round = 0; round < 5; round++) {
        static const uint64_t sandboxes[] = {7, 7, 8, 7, 7};
        a = (struct asked){.r = {.done = on_done}};
        if (round == 1)
            grant(s, 7, names, 1);
        if (round == 4) {
            char memory[64];
            struct msg_out m, out;
            vault_put_revoke(&m, memory, sizeof memory, 7);
            assert_int_equal(handle(s, KEEPER_SUPERVISOR, m.p, m.n, &out, NULL), 0);
        }
        if (round < 2) {
            assert_int_equal(vault_ask_keep(s->client, &a.r, 7, list, 2, &taken), 0);
            assert_int_equal(taken, 2);
            assert_int_equal(deliver(s), 0);
            assert_int_equal(a.err, round ? 0 : ERR_DENIED);
            continue;
        }
        if (round == 3)
            grant(s, 7, NULL, 0);
        struct slice key = slice_make(list[0].key, sizeof list[0].key);
        assert_int_equal(vault_ask_recall(s->client, &a.r, sandboxes[round], key), 0);
        assert_int_equal(deliver(s), 0);
        assert_int_equal(a.told, 1);
        assert_int_equal(a.err, round == 3 ? 0 : ERR_DENIED);
        assert_true(round == 3 ? slice_eq(secret_slice(&a.value), SLICE("SECRET-K1")) : a.value.n == 0);
        if (round == 3)
            assert_null(memmem(s->answer, sizeof s->answer, "SECRET-K1", 9)); /* wiped */
        secret_release(&a.value);
    }
    grant(s, 7, NULL, 0);
    a = (struct asked){.r = {.done = on_done}};
    assert_int_equal(vault_ask_recall(s->client, &a.r, 7, slice_make(list[1].key, sizeof list[1].key)), 0);
    assert_int_equal(deliver(s), 0);
    assert_int_equal(a.err, ERR_NOTFOUND);
    secret_release(&list[0].value);
    secret_release(&list[1].value);
}

/* An empty value is one, too. */
static void test_keeping_nothing(void **state) {
    struct state *s = *state;
    struct vault_keep one = {.key = "key-1", .seconds = 60};
    struct asked a = {.r = {.done = on_done}};
    size_t taken;
    grant(s, 7, NULL, 0);
    assert_int_equal(vault_ask_keep(s->client, &a.r, 7, &one, 1, &taken), 0);
    assert_int_equal(deliver(s), 0);
    assert_int_equal(a.err, 0);
    assert_int_equal(vault_ask_recall(s->client, &a.r, 7, slice_make(one.key, sizeof one.key)), 0);
    assert_int_equal(deliver(s), 0);
    assert_int_equal(a.told, 2);
    assert_int_equal(a.err, 0);
    assert_int_equal(a.value.n, 0);
    secret_release(&a.value);
}

/* As many as fit one message are taken; one that fits none is an error. */
static void test_keeping_much(void **state) {
    struct state *s = *state;
    static char large[60000];
    struct vault_keep list[5] = {
        {.seconds = 60}, {.seconds = 60}, {.seconds = 60}, {.seconds = 60}, {.seconds = 60}};
    struct asked a = {.r = {.done = on_done}};
    size_t taken;
    grant(s, 7, NULL, 0);
    memset(large, 'x', sizeof large);
    for (char i = 0; i < 5; i++) {
        list[(int)i].key[0] = i;
        assert_int_equal(secret_set(&list[(int)i].value, slice_make(large, 16000)), 0);
    }
    assert_int_equal(vault_ask_keep(s->client, &a.r, 7, list, 5, &taken), 0);
    assert_int_equal(taken, 4);
    assert_int_equal(deliver(s), 0);
    assert_int_equal(a.err, 0);
    a = (struct asked){.r = {.done = on_done}};
    assert_int_equal(secret_set(&list[0].value, slice_make(large, 20000)), 0);
    assert_int_equal(vault_ask_keep(s->client, &a.r, 7, list, 1, &taken), 0);
    assert_int_equal(deliver(s), 0);
    assert_int_equal(a.err, ERR_LIMIT);
    struct secret whole = {0};
    char all[65500];
    memset(all, 'x', sizeof all);
    assert_int_equal(secret_set(&whole, slice_make(all, sizeof all)), 0);
    struct vault_keep one = {.seconds = 1, .value = whole};
    assert_int_equal(vault_ask_keep(s->client, &a.r, 7, &one, 1, &taken), ERR_LIMIT);
    secret_release(&whole);
    for (int i = 0; i < 5; i++)
        secret_release(&list[i].value);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found_and_ended), cmocka_unit_test(replaced),
        cmocka_unit_test(bounded),         TEST(test_keeping),
        TEST(test_keeping_nothing),        TEST(test_keeping_much),
    };
    return cmocka_run_group_tests_name("vault_kept", tests, NULL, NULL);
}
