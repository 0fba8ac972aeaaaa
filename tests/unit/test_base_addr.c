/* What kind of place an address is, in every spelling. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/addr.h"

static const struct {
    const char *text;
    enum addr_kind kind;
} table[] = {
    {"192.0.2.1", ADDR_PUBLIC},
    {"8.8.8.8", ADDR_PUBLIC},
    {"126.255.255.255", ADDR_PUBLIC},
    {"172.15.255.255", ADDR_PUBLIC},
    {"172.32.0.0", ADDR_PUBLIC},
    {"0.0.0.0", ADDR_UNSPECIFIED},
    {"0.1.2.3", ADDR_UNSPECIFIED},
    {"127.0.0.1", ADDR_LOOPBACK},
    {"127.255.255.255", ADDR_LOOPBACK},
    {"10.0.0.1", ADDR_PRIVATE},
    {"172.16.0.1", ADDR_PRIVATE},
    {"172.31.255.255", ADDR_PRIVATE},
    {"192.168.1.1", ADDR_PRIVATE},
    {"100.64.0.1", ADDR_PRIVATE},
    {"100.127.255.255", ADDR_PRIVATE},
    {"198.18.0.1", ADDR_PRIVATE},
    {"198.19.255.255", ADDR_PRIVATE},
    {"169.254.169.254", ADDR_LINK_LOCAL},
    {"100.100.100.200", ADDR_METADATA},
    {"168.63.129.16", ADDR_METADATA},
    {"192.0.0.192", ADDR_METADATA},
    {"224.0.0.1", ADDR_MULTICAST},
    {"239.255.255.255", ADDR_MULTICAST},
    {"255.255.255.255", ADDR_RESERVED},
    {"240.0.0.1", ADDR_RESERVED},
    {"::", ADDR_UNSPECIFIED},
    {"::1", ADDR_LOOPBACK},
    {"::ffff:127.0.0.1", ADDR_LOOPBACK},
    {"::ffff:a9fe:a9fe", ADDR_LINK_LOCAL},
    {"::ffff:8.8.8.8", ADDR_PUBLIC},
    {"::ffff:0:10.0.0.1", ADDR_PRIVATE},
    {"::127.0.0.1", ADDR_LOOPBACK},
    {"::8.8.8.8", ADDR_RESERVED},
    {"64:ff9b::169.254.169.254", ADDR_LINK_LOCAL},
    {"64:ff9b::8.8.8.8", ADDR_PUBLIC},
    {"64:ff9b:1::8.8.8.8", ADDR_PRIVATE},
    {"2002:7f00:1::", ADDR_LOOPBACK},
    {"2002:a9fe:a9fe::1", ADDR_LINK_LOCAL},
    {"2001:0:808:808:0:0:80ff:fffe", ADDR_LOOPBACK}, /* Teredo client 127.0.0.1 */
    {"fe80::1", ADDR_LINK_LOCAL},
    {"febf::1", ADDR_LINK_LOCAL},
    {"fec0::1", ADDR_PRIVATE},
    {"fc00::1", ADDR_PRIVATE},
    {"fdff::1", ADDR_PRIVATE},
    {"fd00:ec2::254", ADDR_METADATA},
    {"ff02::1", ADDR_MULTICAST},
    {"100::1", ADDR_RESERVED},
    {"2606:4700::1111", ADDR_PUBLIC},
};

static void kinds(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct addr a;
        if (!addr_parse(slice_str(table[i].text), 443, &a))
            fail_msg("%s is not taken as an address", table[i].text);
        if (addr_kind(&a) != table[i].kind)
            fail_msg("%s is %s", table[i].text, addr_kind_text(addr_kind(&a)));
    }
}

/* Spellings that a resolver would take and a reader would not: never an address here. */
static void odd_spellings(void **state) {
    (void)state;
    const char *bad[] = {
        "",           "2852039166",  "0xA9FEA9FE", "025177524776", "0251.0376.0251.0376", "169.254.43518",
        "127.1",      "0",           "127.0.0.1.", "127.0.0.01",   " 127.0.0.1",          "127.0.0.1 ",
        "fe80::1%lo", "[127.0.0.1]", "[::1",       "::1]",         "1.2.3.4.5",           "256.0.0.1",
        "::g",        "1::2::3"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct addr a = {.len = 99};
        if (addr_parse(slice_str(bad[i]), 1, &a))
            fail_msg("'%s' is taken as an address", bad[i]);
        assert_int_equal(a.len, 99);
    }
    struct addr a;
    assert_false(addr_parse(slice_make("127.0.0.1\0", 10), 1, &a));
}

static void text_and_ports(void **state) {
    (void)state;
    struct addr a, b;
    char text[ADDR_TEXT_MAX];
    assert_true(addr_parse(SLICE("[2001:db8::1]"), 443, &a));
    assert_string_equal(addr_text(&a, true, text), "[2001:db8::1]:443");
    assert_string_equal(addr_text(&a, false, text), "2001:db8::1");
    assert_true(addr_parse(SLICE("192.0.2.7"), 80, &b));
    assert_string_equal(addr_text(&b, true, text), "192.0.2.7:80");
    assert_false(addr_eq(&a, &b));
    struct addr c = addr_from(&b.sa, b.len);
    assert_true(addr_eq(&b, &c));
    addr_set_port(&c, 81);
    assert_int_equal(addr_port(&c), 81);
    assert_false(addr_eq(&b, &c));
    struct addr none = addr_from(&b.sa, 3);
    assert_int_equal(none.len, 0);
    assert_string_equal(addr_text(&none, false, text), "-");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds),
        cmocka_unit_test(odd_spellings),
        cmocka_unit_test(text_and_ports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
