/* Token buckets: as many as the limit at once, then evenly, a wait that is told right, and one bucket for all workers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proxy/flow/limits.h"

#define COUNT 3

static struct limits *make(void) {
    struct limits *l;
    assert_int_equal(limits_new(COUNT, &l, NULL), 0);
    return l;
}

static bool take(struct limits *l, unsigned id, uint64_t now, unsigned *wait) {
    return limits_take(l, id, 600, 3600, now, wait);
}

static void as_many_at_once_then_evenly(void **state) {
    struct limits *l = make();
    unsigned wait = 0;
    (void)state;
    for (int i = 0; i < 600; i++)
        assert_true(take(l, 1, 5000, &wait));
    assert_false(take(l, 1, 5000, &wait));
    assert_int_equal(wait, 6);
    assert_false(take(l, 1, 10999, &wait));
    assert_int_equal(wait, 1);
    assert_true(take(l, 1, 11000, &wait));
    assert_false(take(l, 1, 11000, &wait));
    /* another rule has a bucket of its own */
    assert_true(take(l, 3, 11000, &wait));
    /* a clock that goes back gives nothing */
    assert_false(take(l, 1, 0, &wait));
    /* after an hour it is full, and no fuller than that after a year */
    for (int i = 0; i < 600; i++)
        assert_true(take(l, 1, UINT64_C(31536000000), &wait));
    assert_false(take(l, 1, UINT64_C(31536000000), &wait));
    limits_free(l);
}

static void errands(void **state) {
    struct limits *l = make();
    unsigned wait;
    (void)state;
    for (int i = 0; i < LIMITS_ERRANDS; i++)
        assert_true(limits_take_errand(l, 5000) && limits_take_errand(NULL, 5000));
    assert_false(limits_take_errand(l, 5000));
    assert_false(limits_take_errand(l, 5099));
    assert_true(limits_take_errand(l, 5100));
    assert_false(limits_take_errand(l, 5100));
    /* rules have buckets of their own */
    assert_true(take(l, 1, 5100, &wait));
    limits_free(l);
}

static void edges(void **state) {
    struct limits *l = make();
    unsigned wait;
    (void)state;
    assert_false(limits_take(l, 0, 1, 1, 0, &wait));
    assert_false(limits_take(l, COUNT + 1, 1, 1, 0, &wait));
    assert_false(limits_take(l, 1, 0, 1, 0, &wait));
    assert_false(limits_take(NULL, 1, 1, 1, 0, &wait));
    /* the largest that the language has does not overflow, a century after the host was started */
    for (int i = 0; i < 1000; i++)
        assert_true(limits_take(l, 1, 1000000000, 86400, UINT64_C(3155760000000), &wait));
    assert_true(limits_take(l, 2, 1, 86400, 0, &wait));
    assert_false(limits_take(l, 2, 1, 86400, 1, &wait));
    assert_int_equal(wait, 86400);
    assert_true(limits_take(l, 2, 1, 86400, 86400001, &wait));
    /* what does not divide evenly is never more: seven a second are not eight */
    for (int i = 0; i < 7; i++)
        assert_true(limits_take(l, 3, 7, 1, 1000, &wait));
    assert_false(limits_take(l, 3, 7, 1, 1142, &wait));
    assert_true(limits_take(l, 3, 7, 1, 1143, &wait));
    limits_free(l);
}

static uint64_t take_all(struct limits *l) {
    unsigned wait;
    uint64_t taken = 0;
    for (int i = 0; i < 200000; i++)
        taken += limits_take(l, 2, 100000, 86400, 5000, &wait);
    return taken;
}

/* What one process takes is gone for the other, however they race: together they have the limit, to the request. */
static void workers_share_one_bucket(void **state) {
    struct limits *l = make();
    int pipes[2], status;
    uint64_t others = 0;
    (void)state;
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct limits *other;
        if (limits_attach(dup(limits_fd(l)), COUNT, &other, NULL))
            _exit(1);
        others = take_all(other);
        _exit(write(pipes[1], &others, sizeof others) != sizeof others);
    }
    uint64_t ours = take_all(l);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(read(pipes[0], &others, sizeof others), sizeof others);
    assert_int_equal(ours + others, 100000);
    close(pipes[0]);
    close(pipes[1]);
    limits_free(l);
}

/* Whatever another process has written there: an answer, and a wait that is no longer than the limit's time. */
static void a_spoilt_memory_does_no_harm(void **state) {
    static const uint64_t words[] = {1, UINT64_MAX, UINT64_MAX / 2, UINT64_C(1) << 63, 5000000000};
    struct limits *l = make(), *other = NULL;
    unsigned wait;
    (void)state;
    _Atomic uint64_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, limits_fd(l), 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        shared[1] = words[i];
        if (!take(l, 1, 5000, &wait))
            assert_in_range(wait, 1, 3600);
    }
    munmap((void *)shared, 4096);
    assert_int_equal(limits_attach(dup(limits_fd(l)), COUNT + 1, &other, NULL), ERR_PEER);
    assert_int_equal(limits_attach(memfd_create("other", MFD_CLOEXEC), COUNT, &other, NULL), ERR_PEER);
    assert_null(other);
    limits_free(l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_at_once_then_evenly),
        cmocka_unit_test(edges),
        cmocka_unit_test(errands),
        cmocka_unit_test(workers_share_one_bucket),
        cmocka_unit_test(a_spoilt_memory_does_no_harm),
    };
    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
