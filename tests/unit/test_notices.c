/* Which outcomes are told to the operator, and how often. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "proxy/record/notices.h"

static enum notice noticed(struct notices *n, struct slice code, struct slice reason) {
    struct record r = {.event = RECORD_OUTCOME, .code = code, .reason = reason};
    return notices_take(n, &r);
}

static void what_the_operator_can_mend_is_told_once(void **state) {
    (void)state;
    static const char *const mendable[] = {"upstream-certificate", "upstream-name-unknown",
                                           "upstream-name-failed", "upstream-address", "upstream-proxy"};
    static const char *const others[] = {"upstream-closed", "upstream-timeout", "client-gone",
                                         "upstream-unreachable", ""};
    struct notices n = {0};
    for (size_t i = 0; i < sizeof mendable / sizeof *mendable; i++) {
        assert_int_equal(noticed(&n, slice_str(mendable[i]), SLICE("of a.test")), NOTICE_TELL);
        assert_int_equal(noticed(&n, slice_str(mendable[i]), SLICE("of a.test")), NOTICE_NONE);
        assert_int_equal(noticed(&n, slice_str(mendable[i]), SLICE("of b.test")), NOTICE_TELL);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(noticed(&n, slice_str(others[i]), SLICE("of c.test")), NOTICE_NONE);
    struct record verdict = {
        .event = RECORD_VERDICT, .code = SLICE("upstream-address"), .reason = SLICE("of d.test")};
    assert_int_equal(notices_take(&n, &verdict), NOTICE_NONE);
}

static void names_without_end_are_no_flood(void **state) {
    (void)state;
    struct notices n = {0};
    size_t told = 0, more = 0;
    for (int i = 0; i < 1000; i++) {
        char reason[32];
        snprintf(reason, sizeof reason, "of n%d.test", i % 500);
        enum notice now = noticed(&n, SLICE("upstream-name-unknown"), slice_str(reason));
        told += now == NOTICE_TELL;
        more += now == NOTICE_MORE;
    }
    assert_int_equal(told, NOTICES_MAX);
    assert_int_equal(more, 1);
}

static void a_notice_can_not_draw(void **state) {
    (void)state;
    struct buf out;
    struct ulid id;
    assert_true(ulid_parse(SLICE("01ARZ3NDEKTSV4RRFFQ69G5FAV"), &id));
    struct record r = {.event = RECORD_OUTCOME, .id = id, .reason = SLICE("of \x1b[2J\n")};
    buf_init(&out, 4096);
    assert_int_equal(record_notice(&r, &out), 0);
    assert_string_equal(buf_cstr(&out), "exeat: no answer: of \\x1b[2J\\x0a [01ARZ3NDEKTSV4RRFFQ69G5FAV]\n");
    buf_release(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_operator_can_mend_is_told_once),
        cmocka_unit_test(names_without_end_are_no_flood),
        cmocka_unit_test(a_notice_can_not_draw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
