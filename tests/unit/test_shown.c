/* proxy/flow/shown: what one worker of a sandbox has shown, another one permits; and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <unistd.h>

#include "proxy/flow/shown.h"

#define ID "0123456789abcdef0123456789abcdef01234567"

static void two_of_one(struct shown *two[2]) {
    struct errmsg msg;
    assert_int_equal(shown_new(&two[0], &msg), 0);
    assert_int_equal(shown_attach(dup(shown_fd(two[0])), &two[1], &msg), 0);
}

static struct shown_repo repo_of(const struct shown *s, const char *host, uint16_t port, const char *path) {
    struct shown_repo r;
    shown_repo(s, URL_HTTPS, slice_str(host), port, slice_str(path), &r);
    return r;
}

static void test_shared(void **state) {
    struct shown *two[2], *other;
    (void)state;
    two_of_one(two);
    struct shown_repo a = repo_of(two[0], "g.test", 443, "/acme/app"),
                      b = repo_of(two[1], "g.test", 443, "/acme/app");
    assert_false(shown_has(two[1], &b, SHOWN_OBJECT, SLICE(ID)));
    shown_begin(two[0]);
    shown_add(two[0], &a, SHOWN_OBJECT, SLICE(ID));
    assert_true(shown_has(two[0], &a, SHOWN_OBJECT, SLICE(ID)));
    assert_true(shown_has(two[1], &b, SHOWN_OBJECT, SLICE(ID)));
    /* for this repository, as what it is, in this sandbox */
    assert_false(shown_has(two[0], &a, SHOWN_BORDER, SLICE(ID)));
    assert_false(shown_has(two[0], &a, SHOWN_OBJECT, SLICE("1123456789abcdef0123456789abcdef01234567")));
    assert_false(shown_has(two[0], &a, SHOWN_OBJECT, SLICE_NONE));
    static const struct {
        const char *host, *path;
        uint16_t port;
    } others[] = {{"g.test", "/acme/ap", 443},
                  {"g.tes", "t/acme/app", 443},
                  {"h.test", "/acme/app", 443},
                  {"g.test", "/acme/app", 444}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct shown_repo r = repo_of(two[0], others[i].host, others[i].port, others[i].path);
        assert_false(shown_has(two[0], &r, SHOWN_OBJECT, SLICE(ID)));
    }
    assert_int_equal(shown_new(&other, NULL), 0);
    struct shown_repo r = repo_of(other, "g.test", 443, "/acme/app");
    assert_false(shown_has(other, &r, SHOWN_OBJECT, SLICE(ID)));
    shown_add(NULL, &a, SHOWN_OBJECT, SLICE(ID));
    assert_false(shown_has(NULL, &a, SHOWN_OBJECT, SLICE(ID)));
    shown_free(other);
    shown_free(two[0]);
    shown_free(two[1]);
}

static struct slice number(char text[41], size_t i) {
    snprintf(text, 41, "%040zx", i);
    return slice_make(text, 40);
}

/* Many are kept; when there are too many, the latest list is whole, and what was listed again stays. */
static void test_many(void **state) {
    struct shown *s;
    char text[41];
    (void)state;
    assert_int_equal(shown_new(&s, NULL), 0);
    struct shown_repo r = repo_of(s, "g.test", 443, "/acme/app");
    shown_begin(s);
    for (size_t i = 0; i < 100000; i++)
        shown_add(s, &r, SHOWN_OBJECT, number(text, i));
    for (size_t i = 0; i < 100000; i++)
        assert_true(shown_has(s, &r, SHOWN_OBJECT, number(text, i)));
    for (size_t list = 1; list < 20; list++) {
        shown_begin(s);
        for (size_t i = 0; i < 50000; i++)
            shown_add(s, &r, SHOWN_OBJECT, number(text, i < 10 ? i : list * 1000000 + i));
        for (size_t i = 0; i < 50000; i++)
            assert_true(shown_has(s, &r, SHOWN_OBJECT, number(text, i < 10 ? i : list * 1000000 + i)));
    }
    size_t left = 0;
    for (size_t i = 10; i < 100000; i++)
        left += shown_has(s, &r, SHOWN_OBJECT, number(text, i));
    assert_true(left < 1000);
    shown_free(s);
}

static void test_not_ours(void **state) {
    struct shown *s;
    struct errmsg msg;
    int fds[2];
    (void)state;
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(shown_attach(fds[0], &s, &msg), ERR_PEER);
    close(fds[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_not_ours),
    };
    return cmocka_run_group_tests_name("shown", tests, NULL, NULL);
}
