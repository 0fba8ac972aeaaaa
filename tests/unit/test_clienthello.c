/* codec: the name in a ClientHello, however it is cut, and what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "proxy/codec/clienthello.h"

/* A ClientHello with these extensions, as a handshake message. */
static void message(struct buf *out, const char *ext, size_t n) {
    size_t body = 2 + 32 + 1 + 2 + 2 + 2 + 2 + n;
    buf_clear(out);
    buf_putc(out, 1);
    buf_putc(out, (char)(body >> 16));
    buf_putc(out, (char)(body >> 8));
    buf_putc(out, (char)body);
    buf_puts(out, "\x03\x03................................");
    buf_put(out, slice_make("\0\0\2\x13\x01\1\0", 7)); /* no session, one suite, no compression */
    buf_putc(out, (char)(n >> 8));
    buf_putc(out, (char)n);
    buf_put(out, slice_make(ext, n));
}

/* In records of `step` bytes. */
static void wrap(struct buf *out, struct slice m, size_t step) {
    buf_clear(out);
    for (size_t at = 0; at < m.n; at += step) {
        struct slice piece = slice_sub(m, at, step);
        buf_put(out, slice_make("\x16\x03\x01", 3));
        buf_putc(out, (char)(piece.n >> 8));
        buf_putc(out, (char)piece.n);
        buf_put(out, piece);
    }
}

static int feed(struct clienthello *c, struct slice wire, size_t step) {
    int r = ERR_INCOMPLETE;
    clienthello_init(c);
    for (size_t at = 0; at < wire.n && r == ERR_INCOMPLETE; at += step)
        r = clienthello_feed(c, slice_sub(wire, at, step));
    return r;
}

/* Reads a hello with these extensions, cut in many ways. */
static int reads(const char *ext, size_t n, struct clienthello *c) {
    static const size_t steps[] = {1, 2, 3, 5, 7, 41, 100, 16384};
    struct buf m, wire;
    int r = ERR_INCOMPLETE;
    buf_init(&m, CLIENTHELLO_MAX + 100);
    buf_init(&wire, 8 * CLIENTHELLO_MAX);
    message(&m, ext, n);
    for (size_t records = 0; records < 8; records++)
        for (size_t segments = 0; segments < 8; segments++) {
            struct clienthello one;
            wrap(&wire, buf_slice(&m), steps[records]);
            int other = feed(&one, buf_slice(&wire), steps[segments]);
            if (records + segments)
                assert_true(other == r && one.kind == c->kind && one.ech == c->ech &&
                            slice_eq(url_host_slice(&one.name), url_host_slice(&c->name)));
            r = other;
            clienthello_release(&one);
            *c = one;
        }
    buf_release(&m);
    buf_release(&wire);
    return r;
}

#define EXT(text) text, sizeof(text) - 1

static void names(void **state) {
    static const struct {
        const char *ext;
        size_t n;
        enum clienthello_name kind;
        const char *name;
        bool ech;
    } rows[] = {
        {EXT(""), CLIENTHELLO_NO_NAME, "", false},
        {EXT("\0\x0a\0\2\0\0"), CLIENTHELLO_NO_NAME, "", false},
        {EXT("\0\0\0\x0b\0\x09\0\0\6a.test"), CLIENTHELLO_NAME, "a.test", false},
        {EXT("\0\x0a\0\0\0\0\0\x0b\0\x09\0\0\6A.Test\0\x10\0\1x"), CLIENTHELLO_NAME, "a.test", false},
        {EXT("\xfe\x0d\0\1x\0\0\0\x0b\0\x09\0\0\6a.test"), CLIENTHELLO_NAME, "a.test", true},
        {EXT("\xfe\x0d\0\0"), CLIENTHELLO_NO_NAME, "", true},
        {EXT("\0\0\0\x0d\0\x0b\0\0\x08"
             "10.0.0.1"),
         CLIENTHELLO_ADDRESS, "10.0.0.1", false},
        /* a final dot, an address in another spelling, no name, none in the list, two, another type, rests */
        {EXT("\0\0\0\x0c\0\x0a\0\0\7a.test."), CLIENTHELLO_BAD_NAME, "", false},
        {EXT("\0\0\0\x0a\0\x08\0\0\5"
             "127.1"),
         CLIENTHELLO_BAD_NAME, "", false},
        {EXT("\0\0\0\x08\0\6\0\0\3::1"), CLIENTHELLO_BAD_NAME, "", false},
        {EXT("\0\0\0\5\0\3\0\0\0"), CLIENTHELLO_BAD_NAME, "", false},
        {EXT("\0\0\0\2\0\0"), CLIENTHELLO_BAD_NAME, "", false},
        {EXT("\0\0\0\0"), CLIENTHELLO_BAD_NAME, "", false},
        {EXT("\0\0\0\x0a\0\x08\0\0\1a\0\0\1b"), CLIENTHELLO_BAD_NAME, "", false},
        {EXT("\0\0\0\x0b\0\x09\1\0\6a.test"), CLIENTHELLO_BAD_NAME, "", false},
        {EXT("\0\0\0\x0c\0\x09\0\0\6a.testx"), CLIENTHELLO_BAD_NAME, "", false},
        {EXT("\0\0\0\x0b\0\x0a\0\0\6a.test"), CLIENTHELLO_BAD_NAME, "", false},
        {EXT("\0\0\0\x0b\0\x09\0\0\7a.test"), CLIENTHELLO_BAD_NAME, "", false},
        /* NUL, a blank, beyond ASCII, empty labels, a wildcard */
        {EXT("\0\0\0\x0b\0\x09\0\0\6a.te\0t"), CLIENTHELLO_BAD_NAME, "", false},
        {EXT("\0\0\0\x0b\0\x09\0\0\6a.te t"), CLIENTHELLO_BAD_NAME, "", false},
        {EXT("\0\0\0\x0b\0\x09\0\0\6\xc3\xa9.tst"), CLIENTHELLO_BAD_NAME, "", false},
        {EXT("\0\0\0\x0b\0\x09\0\0\6a..tst"), CLIENTHELLO_BAD_NAME, "", false},
        {EXT("\0\0\0\x0b\0\x09\0\0\6*.test"), CLIENTHELLO_BAD_NAME, "", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct clienthello c;
        int r = reads(rows[i].ext, rows[i].n, &c);
        if (r || c.kind != rows[i].kind || c.ech != rows[i].ech)
            fail_msg("row %zu: %d, kind %d", i, r, c.kind);
        if (*rows[i].name)
            assert_string_equal(c.name.text, rows[i].name);
    }
}

static void malformed_extensions(void **state) {
    static const struct {
        const char *ext;
        size_t n;
    } rows[] = {
        {EXT("\0")},
        {EXT("\0\x0a\0")},
        {EXT("\0\x0a\0\2x")},
        {EXT("\0\x0a\0\0\0\x0a\0\0")},
        {EXT("\0\0\0\x0b\0\x09\0\0\6a.test\0\0\0\x0b\0\x09\0\0\6b.test")},
        {EXT("\xff\xff\0\0\xff\xff\0\0")},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct clienthello c;
        assert_int_equal(reads(rows[i].ext, rows[i].n, &c), ERR_PARSE);
        assert_non_null(c.why);
    }
}

static int wire_is(const char *text, size_t n) {
    struct clienthello c;
    int r = feed(&c, slice_make(text, n), n);
    assert_true(r == 0 || r == ERR_INCOMPLETE || c.why);
    clienthello_release(&c);
    return r;
}

static void strange_wires(void **state) {
    struct buf m, wire;
    struct clienthello c;
    (void)state;
    assert_int_equal(wire_is(EXT("")), ERR_INCOMPLETE);
    assert_int_equal(wire_is(EXT("\x16\3\1\0\4\1\0\0")), ERR_INCOMPLETE);
    assert_int_equal(wire_is(EXT("\x15\3\1\0\2\1\0")), ERR_PARSE);             /* an alert */
    assert_int_equal(wire_is(EXT("\x16\3\1\0\1\1\x15\3\1\0\1\1")), ERR_PARSE); /* … in the middle */
    assert_int_equal(wire_is(EXT("\x16\3\1\0\0")), ERR_PARSE);
    assert_int_equal(wire_is(EXT("\x16\3\1\x40\1")), ERR_PARSE); /* 16385 bytes */
    assert_int_equal(wire_is(EXT("\x16\2\1\0\1\1")), ERR_PARSE);
    assert_int_equal(wire_is(EXT("\x16\3\5\0\1\1")), ERR_PARSE);
    assert_int_equal(wire_is(EXT("\x16\3\1\0\4\2\0\0\0")), ERR_PARSE); /* a ServerHello */
    assert_int_equal(wire_is(EXT("\x16\3\1\0\4\1\1\0\1")), ERR_LIMIT); /* 65537 bytes */
    assert_int_equal(wire_is(EXT("\x16\3\1\0\4\1\0\0\0")), ERR_PARSE); /* an empty one */
    /* something behind the hello: in its record, and in the next */
    buf_init(&m, CLIENTHELLO_MAX + 100);
    buf_init(&wire, 8 * CLIENTHELLO_MAX);
    message(&m, EXT("\0\x0a\0\2\0\0"));
    wrap(&wire, buf_slice(&m), 16384);
    buf_put(&wire, SLICE("anything"));
    assert_int_equal(feed(&c, buf_slice(&wire), 10000), 0);
    clienthello_release(&c);
    buf_putc(&m, 0);
    wrap(&wire, buf_slice(&m), 16384);
    assert_int_equal(feed(&c, buf_slice(&wire), 10000), ERR_PARSE);
    clienthello_release(&c);
    /* without extensions */
    m.end -= 1 + 8;
    ((char *)m.data)[3] = (char)(buf_len(&m) - 4);
    wrap(&wire, buf_slice(&m), 16384);
    assert_int_equal(feed(&c, buf_slice(&wire), 10000), 0);
    assert_int_equal(c.kind, CLIENTHELLO_NO_NAME);
    clienthello_release(&c);
    buf_release(&m);
    buf_release(&wire);
}

/* The largest that is read, and the bound on what its records add. */
static void sizes(void **state) {
    struct buf ext, m, wire;
    struct clienthello c;
    (void)state;
    buf_init(&ext, CLIENTHELLO_MAX + 100);
    buf_init(&m, CLIENTHELLO_MAX + 100);
    buf_init(&wire, 8 * CLIENTHELLO_MAX);
    size_t room = CLIENTHELLO_MAX - 43 - 15 - 4;
    buf_put(&ext, slice_make("\0\x0a", 2));
    buf_putc(&ext, (char)(room >> 8));
    buf_putc(&ext, (char)room);
    for (size_t i = 0; i < room; i++)
        buf_putc(&ext, 'x');
    buf_put(&ext, slice_make("\0\0\0\x0b\0\x09\0\0\6a.test", 15));
    message(&m, buf_slice(&ext).p, buf_len(&ext));
    assert_int_equal(buf_len(&m), CLIENTHELLO_MAX + 4);
    wrap(&wire, buf_slice(&m), 16384);
    assert_int_equal(feed(&c, buf_slice(&wire), 1000), 0);
    assert_string_equal(c.name.text, "a.test");
    clienthello_release(&c);
    wrap(&wire, buf_slice(&m), 4);
    assert_int_equal(feed(&c, buf_slice(&wire), 1000), ERR_LIMIT);
    clienthello_release(&c);
    buf_release(&ext);
    buf_release(&m);
    buf_release(&wire);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(malformed_extensions),
        cmocka_unit_test(strange_wires),
        cmocka_unit_test(sizes),
    };
    return cmocka_run_group_tests_name("clienthello", tests, NULL, NULL);
}
