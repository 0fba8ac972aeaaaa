/* The last decisions, as several processes remember and ask for them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/msg.h"
#include "proxy/record/why.h"
#include "tests/unit/chance.h"

static struct why *two[2]; /* one memory, as two workers have it */

static int set_up(void **state) {
    (void)state;
    struct errmsg msg;
    return why_new(&two[0], &msg) || why_attach(dup(why_fd(two[0])), &two[1], &msg);
}

static int tear_down(void **state) {
    (void)state;
    why_free(two[0]);
    why_free(two[1]);
    return 0;
}

static struct ulid remember(struct why *why, const char *url, const char *hint) {
    struct record r = {.event = RECORD_VERDICT, .id = ulid_new(), .url = slice_str(url), .denied = true};
    why_verdict(why, &r, SLICE_NONE, slice_str(hint), false);
    return r.id;
}

static void outcome(struct why *why, const struct ulid *id, unsigned status) {
    struct record r = {.event = RECORD_OUTCOME, .id = *id, .status = status, .has = RECORD_HAS_STATUS};
    why_outcome(why, &r, SLICE_NONE);
}

static void expect_record(const struct buf *bytes, struct record *r) {
    static struct record_ref refs[RECORD_REFS_MAX];
    struct msg_in m;
    assert_int_equal(msg_parse(&m, bytes->data + bytes->start, buf_len(bytes)), 0);
    assert_int_equal(record_decode(&m, r, refs), 0);
}

static void one_asks_what_another_has_decided(void **state) {
    (void)state;
    struct why_entry e;
    struct record r;
    struct ulid a = remember(two[0], "https://a.test/1", "allow GET https://a.test/1"),
                b = remember(two[1], "https://a.test/2", "");
    assert_true(why_find(two[1], &a, &e));
    expect_record(&e.record, &r);
    assert_true(slice_eq(r.url, SLICE("https://a.test/1")) && r.denied);
    assert_true(slice_eq(buf_slice(&e.hint), SLICE("allow GET https://a.test/1")));
    assert_int_equal(buf_len(&e.outcome), 0);
    why_entry_release(&e);
    outcome(two[0], &a, 403);
    assert_true(why_find(two[1], &a, &e));
    expect_record(&e.outcome, &r);
    assert_int_equal(r.status, 403);
    why_entry_release(&e);
    assert_true(why_find(two[0], &b, &e));
    assert_int_equal(buf_len(&e.hint), 0);
    why_entry_release(&e);
    struct ulid none = ulid_new();
    assert_false(why_find(two[0], &none, &e));
    assert_false(why_find(NULL, &a, &e));
}

static void what_was_asked_for_it(void **state) {
    (void)state;
    struct why_entry e;
    struct record r = {.event = RECORD_ERRAND, .id = ulid_new(), .reason = SLICE("to see")}, got;
    for (size_t i = 0; i < WHY_ERRANDS + 3; i++) {
        why_errand(two[0], &r, SLICE_NONE, i == 0);
        assert_false(why_find(two[1], &r.id, &e)); /* no verdict yet */
    }
    (void)remember(two[1], "https://a.test/other", "");
    r = (struct record){.event = RECORD_VERDICT, .id = r.id, .denied = true};
    why_verdict(two[0], &r, SLICE_NONE, SLICE_NONE, true);
    outcome(two[0], &r.id, 200);
    assert_true(why_find(two[1], &r.id, &e));
    assert_true(e.nerrands == WHY_ERRANDS && e.errands_omitted == 3 && buf_len(&e.outcome));
    for (size_t i = 0; i < e.nerrands; i++) {
        expect_record(&e.errands[i], &got);
        assert_true(got.event == RECORD_ERRAND && slice_eq(got.reason, SLICE("to see")));
    }
    expect_record(&e.record, &got);
    assert_true(got.denied);
    why_entry_release(&e);
    struct ulid next = remember(two[0], "https://a.test/1", "");
    assert_true(why_find(two[1], &next, &e) && e.nerrands == 0);
    why_entry_release(&e);
    why_errand(NULL, &r, SLICE_NONE, true);
}

static void the_oldest_are_forgotten_and_none_is_mixed_up(void **state) {
    (void)state;
    static char url[RECORD_URL_MAX];
    struct ulid ids[3 * WHY_RECENT];
    /* short ones use up the lines, long ones the bytes */
    for (size_t len = 20; len < sizeof url; len += sizeof url - 21) {
        for (size_t i = 0; i < 3 * WHY_RECENT; i++) {
            memset(url, (int)('a' + i % 26), len);
            url[len] = 0;
            ids[i] = remember(two[i % 2], url, "x");
            outcome(two[i % 2], &ids[i], (unsigned)(100 + i));
        }
        size_t found = 0;
        for (size_t i = 0; i < 3 * WHY_RECENT; i++) {
            struct why_entry e;
            struct record r;
            if (!why_find(two[0], &ids[i], &e))
                continue;
            found++;
            expect_record(&e.record, &r);
            assert_int_equal(r.url.n, len);
            assert_true(r.url.p[0] == (char)('a' + i % 26) && r.url.p[len - 1] == r.url.p[0]);
            expect_record(&e.outcome, &r);
            assert_int_equal(r.status, 100 + i);
            why_entry_release(&e);
            assert_true(i >= 2 * WHY_RECENT);
        }
        assert_true(len == 20 ? found == WHY_RECENT : found > 32 && found < WHY_RECENT);
    }
}

/* Whatever another process has put there: no read goes beyond it. */
static void a_spoilt_memory_does_no_harm(void **state) {
    (void)state;
    struct errmsg msg;
    off_t size = lseek(why_fd(two[0]), 0, SEEK_END);
    assert_true(size > 0);
    uint64_t *words = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, why_fd(two[0]), 0);
    assert_ptr_not_equal(words, MAP_FAILED);
    for (int round = 0; round < 200; round++) {
        struct ulid id = remember(two[0], "https://a.test/", "hint");
        for (int i = 0; i < 400; i++)
            words[chance(2200)] ^= (uint64_t)chance(UINT32_MAX) << chance(33);
        struct why_entry e;
        if (why_find(two[1], &id, &e))
            why_entry_release(&e);
        outcome(two[0], &id, 200);
    }
    munmap(words, (size_t)size);
    struct why *other = NULL;
    assert_int_equal(why_attach(memfd_create("other", MFD_CLOEXEC), &other, &msg), ERR_PEER);
    assert_null(other);
}

/* A worker has one of these, and three of their like, for each of its sandboxes. */
static void what_another_made_takes_no_descriptor(void **state) {
    (void)state;
    struct errmsg msg;
    struct why *other;
    int fd = dup(why_fd(two[0]));
    assert_int_equal(why_attach(fd, &other, &msg), 0);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(why_fd(other), -1);
    why_free(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_asks_what_another_has_decided, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_asked_for_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_oldest_are_forgotten_and_none_is_mixed_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_spoilt_memory_does_no_harm, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_another_made_takes_no_descriptor, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
