/* The length of a ClientHello, told from its first bytes, however it is cut into records. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "proxy/flow/conn.h"

/* Wraps `n` bytes of a handshake message of length `length` into records of `step` bytes. */
static size_t wrap(unsigned char *out, size_t n, size_t length, size_t step) {
    unsigned char message[64] = {1, (unsigned char)(length >> 16), (unsigned char)(length >> 8),
                                 (unsigned char)length};
    size_t at = 0;
    for (size_t i = 0; i < n; i += step) {
        size_t piece = n - i < step ? n - i : step;
        const unsigned char head[5] = {22, 3, 1, (unsigned char)(piece >> 8), (unsigned char)piece};
        memcpy(out + at, head, 5);
        memcpy(out + at + 5, message + i, piece);
        at += 5 + piece;
    }
    return at;
}

static void test_every_cut(void **state) {
    (void)state;
    for (size_t step = 1; step <= 40; step++) {
        unsigned char wire[512];
        size_t n = wrap(wire, 40, 70000, step);
        size_t known = 0;
        for (size_t have = 0; have <= n; have++) {
            size_t r = conn_hello_length(slice_make(wire, have));
            if (known)
                assert_int_equal(r, known);
            else if (r)
                known = r;
        }
        assert_int_equal(known, 70004);
    }
}

static void test_strange(void **state) {
    static const unsigned char alert[] = {22, 3, 1, 0, 1, 1, 21, 3, 1, 0, 2, 1, 0, 0, 0};
    static const unsigned char empty[] = {22, 3, 1, 0, 0, 22, 3, 1, 0, 4, 1, 0, 0, 9};
    (void)state;
    assert_int_equal(conn_hello_length(SLICE_NONE), 0);
    assert_true(conn_hello_length(slice_make(alert, sizeof alert)) == CONN_HELLO_BROKEN);
    assert_true(conn_hello_length(slice_make(empty, sizeof empty)) == CONN_HELLO_BROKEN);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_cut), cmocka_unit_test(test_strange)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
