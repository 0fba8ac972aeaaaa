/* netns/dns: what is answered, byte by byte, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "netns/dns.h"
#include "netns/names.h"

#define HEAD      "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
#define HEAD_EDNS "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01"
#define EXAMPLE   "\7example\3com\0"
#define A_IN      "\0\1\0\1"
#define AAAA_IN   "\0\x1c\0\1"
#define OPT       "\0\0\x29\x04\xd0\0\0\0\0\0\0"
#define BYTES(s)                                                                                             \
    { (s), sizeof(s) - 1 }

static struct names *names;

static int set_up(void **state) {
    (void)state;
    return names_new(&names, NULL);
}

static int tear_down(void **state) {
    (void)state;
    names_free(names);
    return 0;
}

struct answer {
    uint8_t bytes[DNS_ANSWER_MAX];
    size_t n;
    struct dns_result result;
};

static int ask(struct slice query, bool ipv6, struct answer *a) {
    memset(a, 0, sizeof *a);
    /* beyond what it says, nothing is written: a sanitizer sees the stack's end */
    return dns_answer(query, names, ipv6, a->bytes, &a->n, &a->result);
}

static unsigned u16(const struct answer *a, size_t at) {
    assert_true(at + 2 <= a->n);
    return (unsigned)a->bytes[at] << 8 | a->bytes[at + 1];
}

/* A query by a name in text; labels may hold any byte but a dot. */
static struct slice query_for(const char *name, unsigned type, char out[512]) {
    size_t n = sizeof HEAD - 1;
    memcpy(out, HEAD, n);
    while (*name) {
        size_t label = strcspn(name, ".");
        out[n++] = (char)label;
        memcpy(out + n, name, label);
        n += label;
        name += label + (name[label] == '.');
    }
    out[n++] = 0;
    out[n++] = (char)(type >> 8);
    out[n++] = (char)type;
    out[n++] = 0;
    out[n++] = 1;
    return slice_make(out, n);
}

static void test_address(void **state) {
    struct answer a;
    (void)state;
    assert_int_equal(ask((struct slice)BYTES(HEAD EXAMPLE A_IN), true, &a), 0);
    assert_int_equal(u16(&a, 0), 0x1234);
    assert_int_equal(u16(&a, 2), 0x8180);
    assert_int_equal(u16(&a, 4), 1);
    assert_int_equal(u16(&a, 6), 1);
    assert_int_equal(u16(&a, 8), 0);
    assert_int_equal(u16(&a, 10), 0);
    assert_memory_equal(a.bytes + 12, EXAMPLE A_IN, 17);
    assert_memory_equal(a.bytes + 29, "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc6\x13", 14);
    assert_int_equal(a.n, 45);
    assert_string_equal(a.result.query.name, "example.com");
    assert_true(a.result.answered);
    uint32_t index;
    assert_int_equal(names_find(names, SLICE("example.com"), &index), 0);
    struct addr v4 = names_addr4(names, index);
    assert_memory_equal(a.bytes + 41, &v4.in.sin_addr, 4);
}

static void test_address6(void **state) {
    struct answer a;
    uint32_t index;
    (void)state;
    assert_int_equal(ask((struct slice)BYTES(HEAD EXAMPLE AAAA_IN), true, &a), 0);
    assert_int_equal(names_find(names, SLICE("example.com"), &index), 0);
    struct addr v6 = names_addr6(names, index);
    assert_int_equal(a.n, 29 + 28);
    assert_memory_equal(a.bytes + 41, &v6.in6.sin6_addr, 16);
    /* without IPv6: there is such a name, and no such address */
    assert_int_equal(ask((struct slice)BYTES(HEAD EXAMPLE AAAA_IN), false, &a), 0);
    assert_int_equal(a.n, 29);
    assert_int_equal(u16(&a, 2) & 15, DNS_NOERROR);
    assert_int_equal(u16(&a, 6), 0);
}

static void test_case_is_echoed_and_means_nothing(void **state) {
    struct answer a, b;
    (void)state;
    assert_int_equal(ask((struct slice)BYTES(HEAD "\7eXaMpLe\3CoM\0" A_IN), true, &a), 0);
    assert_memory_equal(a.bytes + 12, "\7eXaMpLe\3CoM\0", 13);
    assert_int_equal(ask((struct slice)BYTES(HEAD EXAMPLE A_IN), true, &b), 0);
    assert_memory_equal(a.bytes + 41, b.bytes + 41, 4);
}

static void test_edns(void **state) {
    struct answer a;
    (void)state;
    assert_int_equal(ask((struct slice)BYTES(HEAD_EDNS EXAMPLE A_IN OPT), true, &a), 0);
    assert_int_equal(u16(&a, 10), 1);
    assert_int_equal(a.n, 45 + 11);
    assert_memory_equal(a.bytes + 45, "\0\0\x29\x04\xd0\0\0\0\0\0\0", 11);
    /* with a cookie */
    assert_int_equal(
        ask((struct slice)BYTES(HEAD_EDNS EXAMPLE A_IN "\0\0\x29\x04\xd0\0\0\x80\0\0\x0c\0\x0a\0\x08"
                                                       "12345678"),
            true, &a),
        0);
    assert_int_equal(a.result.rcode, DNS_NOERROR);
    /* version 1: BADVERS, whose upper bits are in OPT */
    assert_int_equal(
        ask((struct slice)BYTES(HEAD_EDNS EXAMPLE A_IN "\0\0\x29\x04\xd0\0\1\0\0\0\0"), true, &a), 0);
    assert_int_equal(a.result.rcode, DNS_BADVERS);
    assert_int_equal(u16(&a, 2) & 15, 0);
    assert_int_equal(u16(&a, 6), 0);
    assert_int_equal(a.bytes[a.n - 6], 1);
}

static void test_names(void **state) {
    static const struct {
        const char *name;
        unsigned type;
        enum dns_rcode rcode;
        bool answered;
    } rows[] = {
        {"example.com", DNS_A, DNS_NOERROR, true},
        {"single", DNS_A, DNS_NOERROR, true},
        {"exeat.internal", DNS_A, DNS_NOERROR, true},
        {"my_bucket.s3.test", DNS_AAAA, DNS_NOERROR, true},
        {"xn--bcher-kva.test", DNS_A, DNS_NOERROR, true},
        {"3com.test", DNS_A, DNS_NOERROR, true},
        {"_http._tcp.deb.test", DNS_SRV, DNS_NOERROR, false},
        {"example.com", DNS_HTTPS, DNS_NOERROR, false},
        {"example.com", DNS_TXT, DNS_NOERROR, false},
        {"example.com", 255, DNS_NOERROR, false},
        {"", DNS_NS, DNS_NOERROR, false},
        {"", DNS_A, DNS_REFUSED, false},
        {"a b.test", DNS_A, DNS_REFUSED, false},
        {"caf\303\251.test", DNS_A, DNS_REFUSED, false},
        {"a/b.test", DNS_A, DNS_REFUSED, false},
        {"a@b.test", DNS_AAAA, DNS_REFUSED, false},
        {"*.test", DNS_A, DNS_REFUSED, false},
        {"192.0.2.1", DNS_A, DNS_REFUSED, false},
        {"10.1", DNS_A, DNS_REFUSED, false},
        {"nothing.invalid", DNS_A, DNS_NXDOMAIN, false},
        {"invalid", DNS_A, DNS_NXDOMAIN, false},
        {"notinvalid", DNS_A, DNS_NOERROR, true},
        {"use-application-dns.net", DNS_A, DNS_NXDOMAIN, false},
        {"1.2.0.192.in-addr.arpa", DNS_PTR, DNS_NXDOMAIN, false},
        {"0.19.198.in-addr.arpa", DNS_PTR, DNS_NXDOMAIN, false},
        {"999.0.19.198.in-addr.arpa", DNS_PTR, DNS_NXDOMAIN, false},
        {"1.0.0.127.in-addr.arpa", DNS_PTR, DNS_NOERROR, true},
        {"in-addr.arpa", DNS_PTR, DNS_NXDOMAIN, false},
        {"ip6.arpa", DNS_PTR, DNS_NXDOMAIN, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char query[512];
        struct answer a;
        if (ask(query_for(rows[i].name, rows[i].type, query), true, &a) || a.result.rcode != rows[i].rcode ||
            a.result.answered != rows[i].answered)
            fail_msg("%s %u: rcode %d, answered %d", rows[i].name, rows[i].type, a.result.rcode,
                     a.result.answered);
        assert_int_equal(u16(&a, 2) & 15, rows[i].rcode);
        assert_int_equal(u16(&a, 6), rows[i].answered);
        assert_true(a.n <= 512);
    }
}

static void test_localhost_stays(void **state) {
    char query[512];
    struct answer a;
    (void)state;
    size_t before = names_count(names);
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "db.localhost" : "LOCALHOST";
        assert_int_equal(ask(query_for(name, DNS_A, query), true, &a), 0);
        assert_memory_equal(a.bytes + a.n - 4, "\x7f\0\0\1", 4);
        assert_int_equal(ask(query_for(name, DNS_AAAA, query), true, &a), 0);
        assert_memory_equal(a.bytes + a.n - 16, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 16);
    }
    assert_int_equal(ask(query_for("notlocalhost", DNS_A, query), true, &a), 0);
    assert_int_equal(a.bytes[a.n - 4], 198);
    assert_int_equal(names_count(names), before + 1);
}

static void test_reverse(void **state) {
    char name[128], query[512];
    struct answer a;
    uint32_t index;
    (void)state;
    assert_int_equal(names_insert(names, SLICE("back.example.org"), &index), 0);
    struct addr v4 = names_addr4(names, index), v6 = names_addr6(names, index);
    const uint8_t *b = (const uint8_t *)&v4.in.sin_addr;
    snprintf(name, sizeof name, "%u.%u.%u.%u.in-addr.arpa", b[3], b[2], b[1], b[0]);
    assert_int_equal(ask(query_for(name, DNS_PTR, query), true, &a), 0);
    assert_int_equal(a.result.rcode, DNS_NOERROR);
    assert_memory_equal(a.bytes + a.n - 18, "\4back\7example\3org\0", 18);
    size_t n = 0;
    for (int i = 15; i >= 0; i--)
        n += (size_t)snprintf(name + n, sizeof name - n, "%x.%x.", v6.in6.sin6_addr.s6_addr[i] & 15,
                              v6.in6.sin6_addr.s6_addr[i] >> 4);
    snprintf(name + n, sizeof name - n, "ip6.arpa");
    assert_int_equal(ask(query_for(name, DNS_PTR, query), true, &a), 0);
    assert_int_equal(a.result.rcode, DNS_NOERROR);
    assert_memory_equal(a.bytes + a.n - 18, "\4back\7example\3org\0", 18);
}

static void test_malformed(void **state) {
    static const struct {
        struct slice query;
        int rcode; /* -1: nothing is said */
    } rows[] = {
        {BYTES(""), -1},
        {BYTES("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00"), -1},
        {BYTES("\x12\x34\x81\x00\x00\x01\x00\x00\x00\x00\x00\x00" EXAMPLE A_IN), -1}, /* an answer */
        {BYTES("\x12\x34\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"), DNS_FORMERR},     /* no question */
        {BYTES("\x12\x34\x01\x00\x00\x02\x00\x00\x00\x00\x00\x00" EXAMPLE A_IN EXAMPLE A_IN), DNS_FORMERR},
        {BYTES("\x12\x34\x01\x00\x00\x01\x00\x01\x00\x00\x00\x00" EXAMPLE A_IN), DNS_FORMERR},
        {BYTES(HEAD "\7example"), DNS_FORMERR},
        {BYTES(HEAD EXAMPLE "\0\1\0"), DNS_FORMERR},
        {BYTES(HEAD EXAMPLE A_IN "x"), DNS_FORMERR}, /* something behind */
        {BYTES(HEAD "\xc0\x0c" A_IN), DNS_FORMERR},  /* a pointer to itself */
        {BYTES(HEAD "\x40"
                    "a\0" A_IN),
         DNS_FORMERR},                                /* a label of an unknown kind */
        {BYTES(HEAD_EDNS EXAMPLE A_IN), DNS_FORMERR}, /* OPT is missing */
        {BYTES(HEAD_EDNS EXAMPLE A_IN "\1x\0\0\x29\x04\xd0\0\0\0\0\0\0"), DNS_FORMERR}, /* OPT with a name */
        {BYTES("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x02" EXAMPLE A_IN OPT OPT), DNS_FORMERR},
        {BYTES(HEAD_EDNS EXAMPLE A_IN "\0\0\x29\x04\xd0\0\0\0\0\0\xff"), DNS_FORMERR}, /* longer than it is */
        {BYTES("\x12\x34\x29\x00\x00\x01\x00\x00\x00\x00\x00\x00" EXAMPLE A_IN), DNS_NOTIMP}, /* UPDATE */
        {BYTES(HEAD EXAMPLE "\0\1\0\3"), DNS_REFUSED},                                        /* CHAOS */
        {BYTES(HEAD "\3a.b\4test\0" A_IN), DNS_REFUSED},  /* a dot inside of a label */
        {BYTES(HEAD "\3a\0b\4test\0" A_IN), DNS_REFUSED}, /* a NUL */
    };
    (void)state;
    size_t before = names_count(names);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct answer a;
        int r = ask(rows[i].query, true, &a);
        if (rows[i].rcode < 0) {
            assert_int_equal(r, ERR_PARSE);
            continue;
        }
        if (r || (int)(u16(&a, 2) & 15) != rows[i].rcode)
            fail_msg("row %zu: %d, rcode %d", i, r, a.result.rcode);
        assert_int_equal(u16(&a, 6), 0);
    }
    assert_int_equal(names_count(names), before);
}

static void test_long_names(void **state) {
    char name[300], query[512];
    struct answer a;
    (void)state;
    /* 63.63.63.61: 253 characters, the most there can be */
    memset(name, 'a', sizeof name);
    name[63] = name[127] = name[191] = '.';
    name[253] = 0;
    assert_int_equal(ask(query_for(name, DNS_AAAA, query), true, &a), 0);
    assert_int_equal(a.result.rcode, DNS_NOERROR);
    assert_int_equal(a.result.query.n, 253);
    assert_true(a.n <= 512);
    name[253] = 'a';
    name[254] = 0;
    assert_int_equal(ask(query_for(name, DNS_A, query), true, &a), 0);
    assert_int_equal(a.result.rcode, DNS_FORMERR);
    memset(name, 'b', sizeof name);
    name[64] = 0;
    assert_int_equal(ask(query_for(name, DNS_A, query), true, &a), 0);
    assert_int_equal(a.result.rcode, DNS_FORMERR);
}

static void test_truncations_and_flips(void **state) {
    static const char seed[] = HEAD_EDNS EXAMPLE A_IN OPT;
    (void)state;
    for (size_t n = 0; n < sizeof seed - 1; n++) {
        struct answer a;
        int r = ask(slice_make(seed, n), true, &a);
        assert_true(r == ERR_PARSE || (r == 0 && a.result.rcode == DNS_FORMERR));
    }
    for (size_t bit = 0; bit < 8 * (sizeof seed - 1); bit++) {
        char turned[sizeof seed - 1];
        struct answer a;
        memcpy(turned, seed, sizeof turned);
        turned[bit / 8] ^= (char)(1 << bit % 8);
        if (ask(slice_make(turned, sizeof turned), true, &a) == 0)
            assert_true(a.n >= 12 && a.n <= 512);
    }
}

static void test_full_table(void **state) {
    struct names *mine;
    char name[64], query[512];
    uint8_t out[DNS_ANSWER_MAX];
    struct dns_result result;
    uint32_t index;
    size_t n;
    (void)state;
    assert_int_equal(names_new(&mine, NULL), 0);
    for (unsigned i = 0; i < NAMES_MAX; i++) {
        snprintf(name, sizeof name, "n%u.test", i);
        assert_int_equal(names_insert(mine, slice_str(name), &index), 0);
    }
    assert_int_equal(dns_answer(query_for("one.more.test", DNS_A, query), mine, true, out, &n, &result), 0);
    assert_int_equal(result.rcode, DNS_SERVFAIL);
    assert_int_equal(dns_answer(query_for("n7.test", DNS_A, query), mine, true, out, &n, &result), 0);
    assert_int_equal(result.rcode, DNS_NOERROR);
    names_free(mine);
}

static void test_tcp(void **state) {
    struct slice m;
    size_t used;
    (void)state;
    assert_int_equal(dns_tcp_next(SLICE_NONE, &m, &used), ERR_INCOMPLETE);
    assert_int_equal(dns_tcp_next(SLICE("\0"), &m, &used), ERR_INCOMPLETE);
    assert_int_equal(dns_tcp_next(SLICE("\0\3ab"), &m, &used), ERR_INCOMPLETE);
    assert_int_equal(dns_tcp_next(SLICE("\0\3abcdef"), &m, &used), 0);
    assert_true(slice_eq(m, SLICE("abc")));
    assert_int_equal(used, 5);
    assert_int_equal(dns_tcp_next(SLICE("\0\0x"), &m, &used), 0);
    assert_int_equal(m.n, 0);
    assert_int_equal(dns_tcp_next(SLICE("\xff\xff"), &m, &used), ERR_LIMIT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_address),
        cmocka_unit_test(test_address6),
        cmocka_unit_test(test_case_is_echoed_and_means_nothing),
        cmocka_unit_test(test_edns),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_localhost_stays),
        cmocka_unit_test(test_reverse),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_truncations_and_flips),
        cmocka_unit_test(test_full_table),
        cmocka_unit_test(test_tcp),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
