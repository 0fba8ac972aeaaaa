/* proxy/flow/shown: what one worker of a sandbox has shown, another one permits; and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
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

/* "a b ": in the order in which they are found. */
static bool found(void *arg, struct slice ref) {
    buf_printf(arg, "%.*s ", SLICE_ARG(ref));
    return buf_len(arg) < 60;
}

static void expect_names(const struct shown *s, const struct shown_repo *repo, const char *id,
                         const char *want) {
    struct buf out;
    buf_init(&out, 1 << 16);
    shown_names(s, repo, slice_str(id), found, &out);
    assert_string_equal(buf_cstr(&out), want);
    buf_release(&out);
}

/* What one worker showed by a name, another one knows by it: all that the last list said of the object. */
static void test_names(void **state) {
    struct shown *two[2];
    char text[41];
    static char longest[SHOWN_NAME_MAX + 1];
    (void)state;
    two_of_one(two);
    struct shown_repo r = repo_of(two[0], "g.test", 443, "/acme/app"),
                      other = repo_of(two[0], "g.test", 443, "/acme/lib");
    expect_names(two[1], &r, ID, "");
    uint32_t first = shown_begin(two[0]), second = shown_begin(two[1]);
    assert_int_not_equal(first, second);
    shown_name(two[0], &r, first, SLICE(ID), SLICE("refs/heads/a"));
    shown_name(two[0], &other, second, SLICE(ID), SLICE("refs/heads/other"));
    shown_name(two[0], &r, first, SLICE(ID), SLICE("refs/heads/b"));
    shown_name(two[0], &r, first, SLICE(ID), SLICE("refs/heads/b"));
    expect_names(two[1], &r, ID, "refs/heads/b refs/heads/a ");
    expect_names(two[1], &other, ID, "refs/heads/other ");
    assert_false(shown_has(two[1], &r, SHOWN_OBJECT, SLICE(ID)));
    shown_name(two[1], &r, second, SLICE(ID), SLICE("refs/heads/c"));
    expect_names(two[0], &r, ID, "refs/heads/c ");
    /* no more than is asked for, nothing that can't be one */
    for (size_t i = 0; i < 50; i++)
        shown_name(two[0], &r, second, SLICE(ID), number(text, i));
    expect_names(two[0], &r, ID,
                 "0000000000000000000000000000000000000031 0000000000000000000000000000000000000030 ");
    memset(longest, 'x', SHOWN_NAME_MAX + 1);
    shown_name(two[0], &r, 9, SLICE(ID), slice_make(longest, SHOWN_NAME_MAX + 1));
    shown_name(two[0], &r, 9, SLICE(ID), SLICE_NONE);
    shown_name(two[0], &r, 9, SLICE_NONE, SLICE("a"));
    shown_name(NULL, &r, 9, SLICE(ID), SLICE("a"));
    expect_names(NULL, &r, ID, "");
    expect_names(two[0], &r, "", "");
    expect_names(two[0], &r, ID,
                 "0000000000000000000000000000000000000031 0000000000000000000000000000000000000030 ");
    shown_name(two[0], &r, 9, SLICE(ID), slice_make(longest, SHOWN_NAME_MAX));
    longest[SHOWN_NAME_MAX] = ' ';
    struct buf out;
    buf_init(&out, 1 << 16);
    shown_names(two[1], &r, SLICE(ID), found, &out);
    assert_true(slice_eq(buf_slice(&out), slice_make(longest, SHOWN_NAME_MAX + 1)));
    buf_release(&out);
    shown_free(two[0]);
    shown_free(two[1]);
}

/* Names beyond what fits push the oldest out, and no name is ever told for another object. */
static void test_many_names(void **state) {
    struct shown *s;
    char id[41], name[41];
    size_t known = 0, lost = 0;
    (void)state;
    assert_int_equal(shown_new(&s, NULL), 0);
    struct shown_repo r = repo_of(s, "g.test", 443, "/acme/app");
    for (size_t i = 0; i < 200000; i++)
        shown_name(s, &r, 1, number(id, i), slice_from(number(name, i), i % 30));
    for (size_t i = 0; i < 200000; i++) {
        struct buf out;
        buf_init(&out, 1 << 16);
        shown_names(s, &r, number(id, i), found, &out);
        struct slice got = slice_trim(buf_slice(&out));
        assert_true(got.n == 0 || slice_eq(got, slice_from(number(name, i), i % 30)));
        known += got.n > 0;
        lost += i >= 190000 && !got.n;
        buf_release(&out);
    }
    assert_in_range(known, 50000, 70000);
    assert_in_range(
        lost, 0, 20); /* of the last ten thousand, where more fell into one set of the table than it holds */
    shown_free(s);
}

/* Another process may write whatever it likes there. */
static void test_spoilt_names(void **state) {
    struct shown *s;
    char id[41];
    struct stat st;
    (void)state;
    assert_int_equal(shown_new(&s, NULL), 0);
    struct shown_repo r = repo_of(s, "g.test", 443, "/acme/app");
    for (size_t i = 0; i < 1000; i++)
        shown_name(s, &r, 1, number(id, i / 4), number(id, i));
    assert_int_equal(fstat(shown_fd(s), &st), 0);
    size_t n = (size_t)st.st_size / 8;
    uint64_t *words = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, shown_fd(s), 0);
    assert_true(words != MAP_FAILED);
    for (unsigned round = 0; round < 64; round++) {
        for (size_t i = 4; i < n; i++) /* behind the key */
            if (words[i])
                words[i] ^= UINT64_C(1) << ((round * 7 + i) % 64);
        for (size_t i = 0; i < 250; i++) {
            struct buf out;
            buf_init(&out, 1 << 16);
            shown_names(s, &r, number(id, i), found, &out);
            assert_true(buf_len(&out) <= 4 * 41);
            buf_release(&out);
            shown_name(s, &r, 1, number(id, i), number(id, i));
        }
    }
    munmap(words, (size_t)st.st_size);
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
        cmocka_unit_test(test_shared),       cmocka_unit_test(test_many),
        cmocka_unit_test(test_names),        cmocka_unit_test(test_many_names),
        cmocka_unit_test(test_spoilt_names), cmocka_unit_test(test_not_ours),
    };
    return cmocka_run_group_tests_name("shown", tests, NULL, NULL);
}
