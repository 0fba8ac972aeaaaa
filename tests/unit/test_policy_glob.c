/* policy/glob: against a matcher that tries everything, and in bounded time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <time.h>

#include "policy/glob.h"
#include "tests/unit/chance.h"

/* Slow and obvious. */
static bool slow(const uint16_t *p, size_t n, const char *text) {
    if (n == 0)
        return *text == 0;
    if (p[0] >= GLOB_STAR) {
        for (;; text++) {
            if (slow(p + 1, n - 1, text))
                return true;
            if (*text == 0 || (p[0] == GLOB_STAR && *text == '/'))
                return false;
        }
    }
    return *text && (unsigned char)*text == p[0] && slow(p + 1, n - 1, text + 1);
}

static void test_against_slow(void **state) {
    struct arena arena;
    size_t matched = 0;
    (void)state;
    arena_init(&arena, 64u << 20);
    for (int round = 0; round < 60000; round++) {
        static const uint16_t choice[] = {'a', 'b', '/', GLOB_STAR, GLOB_STARSTAR};
        uint16_t units[8];
        char text[12];
        size_t n = chance(8), m = chance(11);
        struct glob g;
        for (size_t i = 0; i < n; i++)
            units[i] = choice[chance(5)];
        for (size_t i = 0; i < m; i++)
            text[i] = "ab/"[chance(3)];
        text[m] = 0;
        assert_true(glob_make(&g, units, n, &arena));
        bool wanted = slow(units, n, text);
        matched += wanted;
        if (glob_match(&g, slice_make(text, m), 0) != wanted ||
            glob_match(&g, slice_make(text, m), GLOB_PATH) != wanted)
            fail_msg("round %d: text %s", round, text);
        /* a deny never sees less than an allow */
        if (wanted)
            assert_true(glob_match(&g, slice_make(text, m), GLOB_LOOSE | GLOB_PATH));
        arena_release(&arena);
    }
    assert_true(matched > 3000 && matched < 57000);
}

/* **a**a**a…, the classic, and many stars in one segment, on texts that almost match. */
static void test_bounded_time(void **state) {
    static char text[8192];
    uint16_t units[GLOB_MAX];
    struct arena arena;
    struct glob g;
    (void)state;
    arena_init(&arena, 1 << 20);
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i + 1 < GLOB_MAX; i += 2) {
        units[i] = i % 4 ? GLOB_STAR : GLOB_STARSTAR;
        units[i + 1] = 'a';
    }
    units[GLOB_MAX - 2] = 'b';
    assert_true(glob_make(&g, units, GLOB_MAX - 1, &arena));
    clock_t begin = clock();
    assert_false(glob_match(&g, slice_make(text, sizeof text), 0));
    assert_false(glob_match(&g, slice_make(text, sizeof text), GLOB_PATH | GLOB_LOOSE | GLOB_COLLAPSE));
    text[sizeof text - 1] = 'b';
    assert_true(glob_match(&g, slice_make(text, sizeof text), 0));
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (seconds > 20)
        fail_msg("%.1f s", seconds);
    assert_false(glob_make(&g, units, GLOB_MAX, &arena));
    arena_release(&arena);
}

static void test_arena(void **state) {
    struct arena a;
    (void)state;
    arena_init(&a, 1000);
    assert_non_null(arena_alloc(&a, 900));
    assert_false(a.failed);
    assert_null(arena_alloc(&a, SIZE_MAX - 8));
    assert_null(arena_alloc(&a, 200));
    assert_true(a.failed);
    arena_release(&a);
    assert_int_equal(a.used, 0);
    struct slice s = arena_copy(&a, SLICE("text"));
    assert_string_equal(s.p, "text");
    arena_release(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_slow),
        cmocka_unit_test(test_bounded_time),
        cmocka_unit_test(test_arena),
    };
    return cmocka_run_group_tests_name("policy_glob", tests, NULL, NULL);
}
