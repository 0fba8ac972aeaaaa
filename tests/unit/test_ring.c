/* The ring between a worker and the scribe: order and wrapping, fullness, sleep, and an end that lies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/record/ring.h"

static uint8_t memory[MSG_MAX];

static void open_both(struct ring **writer, struct ring **reader) {
    assert_int_equal(ring_new(writer, NULL), 0);
    assert_int_equal(ring_attach(dup(ring_fd(*writer)), reader, NULL), 0);
}

/* Message `i`: its length and bytes follow from the number. */
static struct slice message(uint8_t *room, unsigned i) {
    size_t n = i % 97 == 0 ? MSG_MAX : 1 + (i * 2654435761u >> 7) % 3000;
    for (size_t k = 0; k < n; k++)
        room[k] = (uint8_t)(i + k * 7);
    return slice_make(room, n);
}

static void all_come_in_order_through_many_laps(void **state) {
    static uint8_t room[MSG_MAX], want[MSG_MAX];
    struct ring *w, *r;
    unsigned put = 0, taken = 0;
    struct slice got;
    (void)state;
    open_both(&w, &r);
    while (taken < 5000) {
        while (put < 5000 && ring_put(w, message(room, put)) == 0)
            put++;
        for (unsigned some = 1 + taken % 40; some && ring_take(r, memory, sizeof memory, &got) == 0; some--)
            assert_true(slice_eq(got, message(want, taken++)));
        ring_done(r);
    }
    assert_int_equal(ring_take(r, memory, sizeof memory, &got), ERR_AGAIN);
    ring_free(w);
    ring_free(r);
}

static void a_full_ring_takes_no_more(void **state) {
    struct ring *w, *r;
    struct slice got, big = slice_make(calloc(1, 1000), 1000);
    size_t n = 0;
    (void)state;
    open_both(&w, &r);
    for (; n < RING_EARLY / 1004; n++) {
        assert_int_equal(ring_put(w, big), 0);
        assert_false(ring_wants_wake(w));
    }
    assert_int_equal(ring_put(w, big), 0);
    assert_true(ring_wants_wake(w)); /* before his time */
    while (ring_put(w, big) == 0)
        n++;
    assert_int_equal(n + 1, RING_BYTES / 1004);
    assert_false(ring_wants_wake(w));
    assert_int_equal(ring_take(r, memory, sizeof memory, &got), 0);
    assert_int_equal(ring_put(w, big), ERR_AGAIN); /* he is not through with it */
    ring_done(r);
    assert_int_equal(ring_put(w, big), 0);
    assert_int_equal(ring_put(w, big), ERR_AGAIN);
    assert_true(ring_wants_wake(w)); /* he came, and there is as much again */
    assert_int_equal(ring_take(r, memory, 999, &got), ERR_PEER);
    free((void *)(uintptr_t)big.p);
    ring_free(w);
    ring_free(r);
}

static void sleep_and_wake(void **state) {
    struct ring *w, *r;
    struct slice got;
    (void)state;
    open_both(&w, &r);
    assert_int_equal(ring_put(w, SLICE("one")), 0);
    assert_false(ring_wants_wake(w));
    assert_false(ring_rest(r));
    assert_false(ring_wants_wake(w)); /* he does not sleep */
    assert_int_equal(ring_take(r, memory, sizeof memory, &got), 0);
    assert_true(ring_rest(r));
    assert_int_equal(ring_put(w, SLICE("two")), 0);
    assert_true(ring_wants_wake(w));
    assert_false(ring_wants_wake(w));
    ring_free(w);
    ring_free(r);
}

/* A writer that dies leaves what it had written. */
static void it_outlives_its_writer(void **state) {
    struct ring *w, *r;
    struct slice got;
    (void)state;
    open_both(&w, &r);
    pid_t pid = fork();
    if (pid == 0) {
        if (ring_put(w, SLICE("last words")) == 0)
            abort();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(ring_take(r, memory, sizeof memory, &got), 0);
    assert_true(slice_eq(got, SLICE("last words")));
    ring_free(w);
    ring_free(r);
}

/* A reader that dies leaves what it was not through with, in order, and the writer's next words behind it. */
static void it_outlives_its_reader(void **state) {
    static uint8_t room[MSG_MAX], want[MSG_MAX];
    struct ring *w, *r;
    struct slice got;
    (void)state;
    open_both(&w, &r);
    for (unsigned i = 1; i <= 40; i++) {
        assert_int_equal(ring_put(w, message(room, i)), 0);
        assert_int_equal(ring_take(r, memory, sizeof memory, &got), 0);
        if (i == 30)
            ring_done(r);
    }
    ring_free(r);
    assert_int_equal(ring_attach(dup(ring_fd(w)), &r, NULL), 0);
    assert_int_equal(ring_put(w, message(room, 41)), 0);
    for (unsigned i = 31; i <= 41; i++) {
        assert_int_equal(ring_take(r, memory, sizeof memory, &got), 0);
        assert_true(slice_eq(got, message(want, i)));
    }
    assert_int_equal(ring_take(r, memory, sizeof memory, &got), ERR_AGAIN);
    ring_free(w);
    ring_free(r);
}

/* What the other end could write to. */
static uint8_t *map_ring(const struct ring *r, off_t *size) {
    *size = lseek(ring_fd(r), 0, SEEK_END);
    uint8_t *raw = mmap(NULL, (size_t)*size, PROT_READ | PROT_WRITE, MAP_SHARED, ring_fd(r), 0);
    assert_ptr_not_equal(raw, MAP_FAILED);
    return raw;
}

/* Every head, with every length before it: a message that is there, nothing, or ERR_PEER; never a byte from elsewhere. */
static void a_writer_that_lies(void **state) {
    (void)state;
    static const uint64_t heads[] = {
        1, 3, 4, 5, 100, RING_BYTES, RING_BYTES + 1, UINT64_MAX, (uint64_t)1 << 63};
    static const uint32_t lengths[] = {0, 1, 96, 97, MSG_MAX, MSG_MAX + 1, RING_BYTES, UINT32_MAX};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
            struct ring *r;
            struct slice got;
            assert_int_equal(ring_new(&r, NULL), 0);
            off_t size;
            uint8_t *raw = map_ring(r, &size);
            memcpy(raw, &heads[i], sizeof heads[i]);
            memcpy(raw + size - RING_BYTES, &lengths[k], sizeof lengths[k]);
            bool there = heads[i] >= 4 && heads[i] <= RING_BYTES && lengths[k] <= MSG_MAX &&
                         lengths[k] <= heads[i] - 4;
            assert_int_equal(ring_take(r, memory, sizeof memory, &got), there ? 0 : ERR_PEER);
            if (there)
                assert_int_equal(got.n, lengths[k]);
            munmap(raw, (size_t)size);
            ring_free(r);
        }
}

/* A tail that can't be: nothing is written, nothing is written over. */
static void a_reader_that_lies(void **state) {
    (void)state;
    struct ring *w;
    assert_int_equal(ring_new(&w, NULL), 0);
    off_t size;
    uint8_t *raw = map_ring(w, &size);
    uint64_t tail = 1;
    memcpy(raw + 64, &tail, sizeof tail);
    assert_int_equal(ring_put(w, SLICE("x")), ERR_AGAIN);
    (void)ring_wants_wake(w);
    munmap(raw, (size_t)size);
    ring_free(w);
}

static void no_ring(void **state) {
    struct ring *r;
    struct errmsg msg;
    int pair[2];
    (void)state;
    assert_int_equal(ring_attach(-1, &r, &msg), ERR_PEER);
    assert_int_equal(pipe(pair), 0);
    assert_int_equal(ring_attach(pair[0], &r, &msg), ERR_PEER);
    close(pair[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_come_in_order_through_many_laps),
        cmocka_unit_test(a_full_ring_takes_no_more),
        cmocka_unit_test(sleep_and_wake),
        cmocka_unit_test(it_outlives_its_writer),
        cmocka_unit_test(it_outlives_its_reader),
        cmocka_unit_test(a_writer_that_lies),
        cmocka_unit_test(a_reader_that_lies),
        cmocka_unit_test(no_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
