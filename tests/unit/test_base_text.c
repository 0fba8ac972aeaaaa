/* Slices, buffers, errors, JSON, ids and times: what every module leans on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/block.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/lines.h"
#include "base/ulid.h"

static void slice_parts(void **state) {
    (void)state;
    struct slice head, tail;
    assert_true(slice_cut(SLICE("a=b=c"), '=', &head, &tail));
    assert_true(slice_eq(head, SLICE("a")) && slice_eq(tail, SLICE("b=c")));
    assert_false(slice_cut(SLICE("abc"), '=', &head, &tail));
    assert_true(slice_eq(head, SLICE("abc")) && tail.n == 0);
    assert_true(slice_eq(slice_trim(SLICE(" \t x y\t ")), SLICE("x y")));
    assert_int_equal(slice_trim(SLICE(" \t ")).n, 0);
    assert_true(slice_eq(slice_sub(SLICE("abc"), 1, 99), SLICE("bc")));
    assert_int_equal(slice_sub(SLICE("abc"), 9, 1).n, 0);
    assert_true(slice_caseeq(SLICE("HoSt"), SLICE("hOsT")));
    assert_false(slice_caseeq(SLICE("host"), SLICE("hos")));
    assert_true(slice_cmp(SLICE("a"), SLICE("ab")) < 0 && slice_cmp(SLICE("b"), SLICE("ab")) > 0);
    assert_true(slice_starts(SLICE("abc"), SLICE("ab")) && !slice_starts(SLICE("a"), SLICE("ab")));
    assert_true(slice_ends(SLICE("abc"), SLICE("bc")) && !slice_ends(SLICE("c"), SLICE("bc")));
    assert_null(slice_dup(SLICE("a\0b")));
}

static void slice_numbers(void **state) {
    (void)state;
    uint64_t v = 7;
    const char *bad[] = {
        "", "-1", "+1", " 1", "1 ", "0x1", "65536", "18446744073709551616", "99999999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(slice_u64(slice_str(bad[i]), 65535, &v));
        assert_int_equal(v, 7);
    }
    assert_true(slice_u64(SLICE("65535"), 65535, &v) && v == 65535);
    assert_true(slice_u64(SLICE("18446744073709551615"), UINT64_MAX, &v) && v == UINT64_MAX);
    assert_false(slice_u64(SLICE("18446744073709551616"), UINT64_MAX, &v));
    assert_true(slice_u64(SLICE("007"), 7, &v) && v == 7);
}

static void buf_limits(void **state) {
    (void)state;
    struct buf b;
    buf_init(&b, 10);
    assert_int_equal(buf_puts(&b, "0123456789"), 0);
    assert_int_equal(buf_putc(&b, 'x'), ERR_LIMIT);
    assert_true(b.failed);
    assert_true(slice_eq(buf_slice(&b), SLICE("0123456789")));
    buf_consume(&b, 4);
    assert_int_equal(buf_puts(&b, "abcd"), 0);
    assert_string_equal(buf_cstr(&b), "456789abcd");
    assert_int_equal(buf_printf(&b, "%d", 1), ERR_LIMIT);
    buf_clear(&b);
    assert_false(b.failed);
    assert_int_equal(buf_printf(&b, "%s-%d", "abc", 12345), 0);
    assert_string_equal(buf_cstr(&b), "abc-12345");
    buf_consume(&b, buf_len(&b));
    buf_trim(&b);
    assert_null(b.data);
    buf_release(&b);
}

/* Random writes and reads against a plain array. */
static void buf_against_model(void **state) {
    (void)state;
    struct buf b;
    buf_init(&b, 4096);
    char model[8192];
    size_t from = 0, to = 0;
    unsigned seed = 1;
    for (int i = 0; i < 20000; i++) {
        seed = seed * 1103515245u + 12345u;
        size_t n = (seed >> 16) % 97;
        if (seed >> 31 && to - from + n <= 4096) {
            char chunk[97] = {0};
            for (size_t k = 0; k < n; k++)
                chunk[k] = (char)(seed >> (k % 24));
            if (to + n > sizeof model) {
                memmove(model, model + from, to - from);
                to -= from;
                from = 0;
            }
            memcpy(model + to, chunk, n);
            to += n;
            assert_int_equal(buf_put(&b, slice_make(chunk, n)), 0);
        } else {
            if (n > to - from)
                n = to - from;
            from += n;
            buf_consume(&b, n);
        }
        assert_true(slice_eq(buf_slice(&b), slice_make(model + from, to - from)));
    }
    buf_release(&b);
}

/* More of each size than there are, so that malloc's are among them: each is whole, keeps its bytes when it grows and when
 * others go, and what is given back can be had again. */
static void blocks_hold_their_bytes(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 1024, 1025, 4096, 8192, 8193, 16384, 17408, 17409, 70000};
    enum { SIZES = sizeof sizes / sizeof *sizes, EACH = 64 };
    static unsigned char *held[SIZES * EACH];
    for (unsigned round = 0; round < 3; round++) {
        for (size_t i = 0; i < SIZES * EACH; i++) {
            held[i] = block_take(sizes[i % SIZES]);
            assert_non_null(held[i]);
            memset(held[i], (int)(i % 251), sizes[i % SIZES]);
        }
        for (size_t i = 0; i < SIZES * EACH; i += 2) {
            held[i] = block_resize(held[i], 2 * sizes[i % SIZES]);
            assert_non_null(held[i]);
            memset(held[i] + sizes[i % SIZES], (int)(i % 251), sizes[i % SIZES]);
        }
        for (size_t i = 0; i < SIZES * EACH; i++) {
            for (size_t n = 0; n < sizes[i % SIZES] * (i % 2 ? 1 : 2); n++)
                assert_int_equal(held[i][n], i % 251);
            block_give(held[i]);
        }
    }
    block_give(NULL);
    unsigned char *fresh = block_resize(NULL, 10);
    assert_non_null(fresh);
    block_give(fresh);
}

static void errors_have_texts(void **state) {
    (void)state;
    for (int e = 0; e >= ERR_PEER; e--)
        assert_string_not_equal(err_text(e), "unknown error");
    assert_string_equal(err_text(ERR_PEER - 1), "unknown error");
    struct errmsg m;
    assert_int_equal(errmsg_set(&m, ERR_PARSE, "line %d", 3), ERR_PARSE);
    errmsg_prefix(&m, "%s", "file");
    assert_string_equal(m.text, "file: line 3");
    errno = ENOENT;
    assert_int_equal(errmsg_errno(&m, ERR_IO, "open"), ERR_IO);
    assert_string_equal(m.text, "open: No such file or directory");
    errno = EMFILE;
    errmsg_errno(&m, ERR_IO, "open");
    assert_string_equal(m.text, "open: Too many open files (limit: ulimit -n)");
    errno = EFBIG;
    errmsg_errno(&m, ERR_IO, "write");
    assert_string_equal(m.text, "write: File too large (limit: ulimit -f)");
    char big[ERRMSG_MAX * 2];
    memset(big, 'x', sizeof big);
    big[sizeof big - 1] = 0;
    errmsg_set(&m, ERR_IO, "%s", big);
    errmsg_prefix(&m, "%s", "prefix");
    assert_int_equal(strlen(m.text), ERRMSG_MAX - 1);
}

static void json_text(void **state) {
    (void)state;
    struct buf b;
    struct json j;
    buf_init(&b, 4096);
    json_init(&j, &b);
    json_open_object(&j);
    json_key(&j, "a.b");
    json_put_string(&j, SLICE("\x01\n\t\\\"\x7f\0z"));
    json_key(&j, "list");
    json_open_array(&j);
    json_u64(&j, UINT64_MAX);
    json_bool(&j, true);
    json_put_null(&j);
    json_open_object(&j);
    json_close(&j);
    json_close(&j);
    json_key(&j, "utf8");
    json_put_string(&j, SLICE("\xc3\xa9\xf0\x9f\x98\x80\xff\xc0\x80\xed\xa0\x80\xe2\x82"));
    json_close(&j);
    assert_false(b.failed);
    assert_string_equal(buf_cstr(&b),
                        "{\"a.b\":\"\\u0001\\n\\u0009\\\\\\\"\\u007f\\u0000z\","
                        "\"list\":[18446744073709551615,true,null,{}],"
                        "\"utf8\":\"\xc3\xa9\xf0\x9f\x98\x80"
                        "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                        "\xef\xbf\xbd\xef\xbf\xbd\"}");
    buf_release(&b);
}

/* A text of n spaces, the least that goes as it is, but for `c` at `at`. */
static void expect_byte(struct buf *b, unsigned c, size_t at, size_t n) {
    char in[17], want[64], one[8];
    struct json j;
    memset(in, ' ', sizeof in);
    in[at] = (char)c;
    const char *as = c == '"' ? "\\\"" : c == '\\' ? "\\\\" : c == '\n' ? "\\n" : one;
    snprintf(one, sizeof one, c < 0x20 || c == 0x7f ? "\\u%04x" : "%c", c);
    snprintf(want, sizeof want, "\"%*s%s%*s\"", (int)at, "", as, (int)(n - 1 - at), "");
    buf_clear(b);
    json_init(&j, b);
    json_put_string(&j, slice_make(in, n));
    assert_string_equal(buf_cstr(b), want);
}

/* Each byte, at each place of a text shorter than a word, or of one or two. */
static void json_bytes_anywhere(void **state) {
    (void)state;
    struct buf b;
    buf_init(&b, 4096);
    for (unsigned c = 0; c < 0x80; c++)
        for (size_t n = 1; n <= 17; n++)
            for (size_t at = 0; at < n; at++)
                expect_byte(&b, c, at, n);
    buf_release(&b);
}

static void json_depth_is_bounded(void **state) {
    (void)state;
    struct buf b;
    struct json j;
    buf_init(&b, 4096);
    json_init(&j, &b);
    for (int i = 0; i < 40; i++)
        json_open_array(&j);
    assert_true(b.failed);
    buf_release(&b);
}

static void ids_rise(void **state) {
    (void)state;
    struct ulid before = ulid_new();
    for (int i = 0; i < 100000; i++) {
        struct ulid id = ulid_new();
        assert_true(strcmp(before.text, id.text) < 0);
        before = id;
    }
    struct ulid parsed;
    assert_true(ulid_parse(slice_str(before.text), &parsed));
    assert_string_equal(parsed.text, before.text);
    assert_true(before.text[0] <= '7');
    assert_false(ulid_parse(SLICE("01ARZ3NDEKTSV4RRFFQ69G5FAU"), &parsed)); /* no U in the alphabet */
    assert_false(ulid_parse(SLICE("01ARZ3NDEKTSV4RRFFQ69G5FA"), &parsed));
    const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZabcdefghjkmnpqrstvwxyz";
    for (int c = 0; c < 256; c++) {
        char text[] = "01ARZ3NDEKTSV4RRFFQ69G5FA?";
        text[ULID_LEN - 1] = (char)c;
        assert_int_equal(ulid_parse(slice_make(text, ULID_LEN), &parsed), c && strchr(alphabet, c));
    }
    assert_true(ulid_parse(SLICE("01arz3ndektsv4rrffq69g5fav"), &parsed));
    assert_string_equal(parsed.text, "01ARZ3NDEKTSV4RRFFQ69G5FAV");
}

static void times(void **state) {
    (void)state;
    char text[CLOCK_RFC3339_SIZE];
    clock_rfc3339(0, text);
    assert_string_equal(text, "1970-01-01T00:00:00.000Z");
    clock_rfc3339(1709251199999, text);
    assert_string_equal(text, "2024-02-29T23:59:59.999Z");
    uint64_t a = clock_monotonic_ms();
    assert_true(clock_monotonic_ms() >= a);
}

static void lines_between_words(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t n;
        unsigned joined;
        ptrdiff_t bad;
    } rows[] = {
        {"", 0, 0, -1},
        {"word", 0, 0, -1},
        {" \t word", 3, 0, -1},
        {" \\\n word", 4, 1, -1},
        {"\\\r\n\\\nword", 5, 2, -1},
        {" \\ \nword", 4, 1, 1},
        {"\\\t\n\\ \nword", 6, 2, 0}, /* the first is told */
        {"\\ word", 0, 0, -1},
        {"\\", 0, 0, -1}, /* the end of the text is no line break */
        {"# to the end \\\nword", 14, 0, -1},
        {" # x\r\nword", 4, 0, -1},
        {"\rword", 0, 0, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct lines_skip s = lines_skip_blanks(slice_str(rows[i].text));
        if (s.n != rows[i].n || s.joined != rows[i].joined ||
            (s.bad ? s.bad - rows[i].text : -1) != rows[i].bad)
            fail_msg("row %zu: %zu bytes, %u joined", i, s.n, s.joined);
    }
    const char text[] = "a\xc3\xa9\xe2\x82\xac";
    assert_int_equal(lines_characters(text, text + sizeof text - 1), 3);
    assert_int_equal(lines_characters(text, text), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slice_parts),
        cmocka_unit_test(lines_between_words),
        cmocka_unit_test(slice_numbers),
        cmocka_unit_test(buf_limits),
        cmocka_unit_test(buf_against_model),
        cmocka_unit_test(blocks_hold_their_bytes),
        cmocka_unit_test(errors_have_texts),
        cmocka_unit_test(json_text),
        cmocka_unit_test(json_depth_is_bounded),
        cmocka_unit_test(json_bytes_anywhere),
        cmocka_unit_test(ids_rise),
        cmocka_unit_test(times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
