/* proxy/codec/pktline, gunzip and sniff: small readers, whole and in pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <zlib.h>

#include "proxy/codec/gunzip.h"
#include "proxy/codec/pktline.h"
#include "proxy/codec/sniff.h"
#include "tests/unit/mutate.h"

#define ROWS(rows) (sizeof(rows) / sizeof((rows)[0]))
#define TEXT(s)                                                                                              \
    { (s), sizeof(s) - 1 }

/* Prints every packet into `out`; returns the last result. */
static int read_all(struct slice in, size_t piece, struct buf *out, size_t *used) {
    struct pkt_reader r;
    int err = ERR_INCOMPLETE;
    pkt_reader_init(&r);
    *used = 0;
    while (*used < in.n) {
        struct pkt pkt;
        size_t took;
        struct slice part = slice_sub(in, *used, piece);
        err = pkt_next(&r, part, &took, &pkt);
        *used += took;
        assert_true(took <= part.n);
        if (err == ERR_INCOMPLETE) {
            assert_int_equal(took, part.n);
            continue;
        }
        if (err) {
            assert_int_equal(pkt_next(&r, SLICE("0000"), &took, &pkt), ERR_PARSE);
            break;
        }
        static const char *const names[] = {"data", "flush", "delim", "end"};
        buf_printf(out, "%s(%.*s)", names[pkt.kind], SLICE_ARG(pkt.payload));
        assert_false(pkt_reader_midway(&r));
    }
    pkt_reader_release(&r);
    return err;
}

static void test_pkt(void **state) {
    static const struct {
        struct slice in;
        const char *out;
        int err;
    } rows[] = {
        {TEXT("0000"), "flush()", 0},
        {TEXT("00010002"), "delim()end()", 0},
        {TEXT("0004"), "data()", 0},
        {TEXT("0005a0006bc0000"), "data(a)data(bc)flush()", 0},
        {TEXT("000bci.skip"), "data(ci.skip)", 0},
        {TEXT("0006a"), "", ERR_INCOMPLETE},
        {TEXT("000"), "", ERR_INCOMPLETE},
        {TEXT("0003"), "", ERR_PARSE},
        {TEXT("0005a000G"), "data(a)", ERR_PARSE},
        {TEXT("000A123456"), "", ERR_PARSE},
        {TEXT("fff1x"), "", ERR_PARSE},
        {TEXT("ffffx"), "", ERR_PARSE},
        {TEXT("-001"), "", ERR_PARSE},
        {TEXT("0x05a"), "", ERR_PARSE},
        {TEXT(" 005a"), "", ERR_PARSE},
        {TEXT("PACK"), "", ERR_PARSE},
    };
    (void)state;
    for (size_t i = 0; i < ROWS(rows); i++)
        for (size_t piece = 1; piece <= rows[i].in.n; piece++) {
            struct buf out;
            size_t used;
            buf_init(&out, 4096);
            assert_int_equal(read_all(rows[i].in, piece, &out, &used), rows[i].err);
            assert_string_equal(buf_cstr(&out), rows[i].out);
            buf_release(&out);
        }
}

static void test_pkt_write(void **state) {
    struct buf out, in;
    size_t used;
    (void)state;
    buf_init(&out, 1 << 20);
    buf_init(&in, 1 << 20);
    char *room;
    assert_int_equal(buf_reserve(&in, 200000, &room), 0);
    memset(room, 'x', 200000);
    buf_commit(&in, 200000);
    assert_int_equal(pkt_put(&out, slice_sub(buf_slice(&in), 0, PKT_PAYLOAD)), 0);
    assert_true(slice_starts(buf_slice(&out), SLICE("fff0xxx")));
    assert_int_equal(buf_len(&out), PKT_MAX);
    assert_int_equal(pkt_put(&out, slice_sub(buf_slice(&in), 0, PKT_PAYLOAD + 1)), ERR_LIMIT);
    assert_int_equal(buf_len(&out), PKT_MAX);
    buf_clear(&out);
    assert_int_equal(pkt_band(&out, 2, buf_slice(&in)), 0);
    assert_int_equal(buf_len(&out), 200000 + 5 * 4);
    struct buf text;
    buf_init(&text, 1 << 20);
    assert_int_equal(read_all(buf_slice(&out), 1000, &text, &used), 0);
    buf_release(&text);
    buf_clear(&out);
    assert_int_equal(pkt_printf(&out, "ng %s %s\n", "refs/heads/a", "no"), 0);
    pkt_flush(&out);
    assert_string_equal(buf_cstr(&out), "0017ng refs/heads/a no\n0000");
    buf_release(&in);
    buf_release(&out);
}

static void test_sniff(void **state) {
    static const struct {
        struct slice in;
        enum sniff kind;
    } rows[] = {
        {TEXT("\x16\x03\x01\x02\x00\x01"), SNIFF_TLS},
        {TEXT("\x16\x03\x03\x00\x01\x01\x00"), SNIFF_TLS}, /* the smallest first record */
        {TEXT("\x16\x03\x01\x02\x00\x02"), SNIFF_OTHER},   /* a ServerHello */
        {TEXT("\x16\x03\x01\x00\x00\x01"), SNIFF_OTHER},
        {TEXT("\x16\x02\x01\x02\x00\x01"), SNIFF_OTHER},
        {TEXT("\x16\x03\x09\x02\x00\x01"), SNIFF_OTHER},
        {TEXT("\x15\x03\x01\x02\x00\x01"), SNIFF_OTHER},
        {TEXT("\x80\x2e\x01\x03\x01"), SNIFF_OTHER}, /* SSLv2 */
        {TEXT("GET / HTTP/1.1"), SNIFF_HTTP},
        {TEXT("M-SEARCH * HTTP/1.1"), SNIFF_HTTP},
        {TEXT("P /"), SNIFF_HTTP},
        {TEXT("PRI *x"), SNIFF_HTTP},
        {TEXT("PRI * HTTP/2.0\r\n"), SNIFF_HTTP2},
        {TEXT("SSH-2.0-OpenSSH_9.2\r\n"), SNIFF_SSH},
        {TEXT("SS /"), SNIFF_HTTP},
        {TEXT("get / HTTP/1.1"), SNIFF_OTHER},
        {TEXT(" GET / HTTP/1.1"), SNIFF_OTHER},
        {TEXT("GET\t/"), SNIFF_OTHER},
        {TEXT("\r\nGET / HTTP/1.1"), SNIFF_OTHER},
        {TEXT("*1\r\n$4\r\nPING\r\n"), SNIFF_OTHER},
        {TEXT("PING\r\n"), SNIFF_OTHER},
        {TEXT("\0\0\0\0"), SNIFF_OTHER},
        {TEXT("ABCDEFGHIJABCDEFGHIJABCDEFGHIJABC "), SNIFF_OTHER},
    };
    (void)state;
    assert_int_equal(sniff_first(SLICE("")), SNIFF_MORE);
    for (size_t i = 0; i < ROWS(rows); i++) {
        enum sniff kind = SNIFF_MORE;
        if (sniff_first(rows[i].in) != rows[i].kind)
            fail_msg("row %zu: %d", i, sniff_first(rows[i].in));
        for (size_t n = 1; n <= rows[i].in.n && kind == SNIFF_MORE; n++)
            kind = sniff_first(slice_sub(rows[i].in, 0, n));
        if (kind != rows[i].kind)
            fail_msg("row %zu, bytewise: %d", i, kind);
    }
    /* it decides within SNIFF_MAX bytes, whatever they are */
    for (int c = 0; c < 256; c++) {
        char text[SNIFF_MAX];
        memset(text, c, sizeof(text));
        assert_int_not_equal(sniff_first(slice_make(text, sizeof(text))), SNIFF_MORE);
    }
}

/* ---- gunzip ---- */

static size_t gzip(struct slice in, char *out, size_t room) {
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)in.p;
    z.avail_in = (uInt)in.n;
    z.next_out = (Bytef *)out;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return room - z.avail_out;
}

static int inflate_all(struct slice in, size_t piece, size_t most, size_t limit, struct buf *out,
                       size_t *used) {
    struct gunzip g;
    int r = 0;
    assert_int_equal(gunzip_init(&g, limit), 0);
    for (*used = 0; r == 0;) {
        size_t took, before = buf_len(out);
        struct slice part = slice_sub(in, *used, piece);
        r = gunzip_feed(&g, part, &took, out, most);
        *used += took;
        assert_true(buf_len(out) - before <= most);
        if (r == 0 && *used == in.n && buf_len(out) - before < most)
            break; /* truncated */
    }
    gunzip_release(&g);
    return r;
}

static void test_gunzip(void **state) {
    char packed[4096];
    struct slice plain = SLICE("0000hello hello hello hello hello hello");
    size_t n = gzip(plain, packed, sizeof(packed)), used;
    struct buf out;
    (void)state;
    memcpy(packed + n, "behind", 6);
    buf_init(&out, 1 << 20);
    for (size_t piece = 1; piece <= n + 6; piece++)
        for (size_t most = 1; most < 50; most += 7) {
            buf_clear(&out);
            assert_int_equal(inflate_all(slice_make(packed, n + 6), piece, most, 1000, &out, &used), ERR_EOF);
            assert_int_equal(used, n);
            assert_true(slice_eq(buf_slice(&out), plain));
        }
    for (size_t cut = 0; cut < n; cut++) {
        buf_clear(&out);
        assert_int_equal(inflate_all(slice_make(packed, cut), 3, 100, 1000, &out, &used), 0);
    }
    buf_clear(&out);
    assert_int_equal(inflate_all(SLICE("not gzip at all"), 3, 100, 1000, &out, &used), ERR_PARSE);
    assert_int_equal(inflate_all(slice_make(packed, n), 3, 100, plain.n, &out, &used), ERR_EOF);
    buf_clear(&out);
    assert_int_equal(inflate_all(slice_make(packed, n), 3, 100, plain.n - 1, &out, &used), ERR_LIMIT);
    buf_release(&out);
}

/* A bomb is met in steps of the caller's size, and stops at the limit. */
static void test_bomb(void **state) {
    size_t size = 8u << 20, used;
    char *zeros = calloc(1, size), *packed = malloc(1 << 16);
    struct buf out;
    (void)state;
    assert_non_null(zeros);
    assert_non_null(packed);
    size_t n = gzip(slice_make(zeros, size), packed, 1 << 16);
    buf_init(&out, 2 << 20);
    assert_int_equal(inflate_all(slice_make(packed, n), n, 8192, 1 << 20, &out, &used), ERR_LIMIT);
    assert_true(buf_len(&out) <= 1 << 20);
    assert_true(used < n);
    buf_release(&out);
    free(zeros);
    free(packed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pkt),    cmocka_unit_test(test_pkt_write), cmocka_unit_test(test_sniff),
        cmocka_unit_test(test_gunzip), cmocka_unit_test(test_bomb),
    };
    return cmocka_run_group_tests_name("pktline", tests, NULL, NULL);
}
