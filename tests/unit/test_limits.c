/* Token buckets: as many as the limit at once, then evenly, and a wait that is told right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "proxy/flow/limits.h"

static bool take(struct limits *l, unsigned id, uint64_t now, unsigned *wait) {
    return limits_take(l, 3, id, 600, 3600, now, wait);
}

static void test_bucket(void **state) {
    struct limits l = {.n = 0};
    unsigned wait = 0;
    (void)state;
    for (int i = 0; i < 600; i++)
        assert_true(take(&l, 1, 5000, &wait));
    assert_false(take(&l, 1, 5000, &wait));
    assert_int_equal(wait, 6);
    assert_false(take(&l, 1, 10999, &wait));
    assert_int_equal(wait, 1);
    assert_true(take(&l, 1, 11000, &wait));
    assert_false(take(&l, 1, 11000, &wait));
    /* another rule has a bucket of its own */
    assert_true(take(&l, 3, 11000, &wait));
    /* a clock that goes back gives nothing */
    assert_false(take(&l, 1, 0, &wait));
    /* after an hour it is full, and no fuller than that after a year */
    for (int i = 0; i < 600; i++)
        assert_true(take(&l, 1, UINT64_C(31536000000), &wait));
    assert_false(take(&l, 1, UINT64_C(31536000000), &wait));
    limits_release(&l);
}

static void test_edges(void **state) {
    struct limits l = {.n = 0};
    unsigned wait;
    (void)state;
    assert_false(limits_take(&l, 3, 0, 1, 1, 0, &wait));
    assert_false(limits_take(&l, 3, 4, 1, 1, 0, &wait));
    assert_false(limits_take(&l, 3, 1, 0, 1, 0, &wait));
    /* the largest that the language has does not overflow */
    for (int i = 0; i < 1000; i++)
        assert_true(limits_take(&l, 3, 1, 1000000000, 86400, UINT64_MAX - 1, &wait));
    assert_true(limits_take(&l, 3, 2, 1, 86400, 0, &wait));
    assert_false(limits_take(&l, 3, 2, 1, 86400, 1, &wait));
    assert_int_equal(wait, 86400);
    assert_true(limits_take(&l, 3, 2, 1, 86400, 86400001, &wait));
    limits_release(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bucket),
        cmocka_unit_test(test_edges),
    };
    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
