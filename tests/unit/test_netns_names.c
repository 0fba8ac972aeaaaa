/* netns/names: a name keeps its address, no address is given out twice, also when several insert at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "netns/names.h"

static void test_round_trip(void **state) {
    struct names *names;
    struct slice found;
    uint32_t a, b, c;
    (void)state;
    assert_int_equal(names_new(&names, NULL), 0);
    assert_int_equal(names_insert(names, SLICE("a.test"), &a), 0);
    assert_int_equal(names_insert(names, SLICE("b.test"), &b), 0);
    assert_int_equal(names_insert(names, SLICE("a.test"), &c), 0);
    assert_int_equal(a, c);
    assert_int_not_equal(a, b);
    assert_int_equal(names_count(names), 2);
    assert_int_equal(names_find(names, SLICE("b.test"), &c), 0);
    assert_int_equal(b, c);
    assert_int_equal(names_find(names, SLICE("c.test"), &c), ERR_NOTFOUND);
    for (int v6 = 0; v6 < 2; v6++) {
        struct addr x = v6 ? names_addr6(names, b) : names_addr4(names, b);
        addr_set_port(&x, 443);
        assert_true(names_lookup(names, &x, &found));
        assert_true(slice_eq(found, SLICE("b.test")));
        assert_true(names_in_range(names, &x));
        assert_int_equal(addr_kind(&x), ADDR_PRIVATE);
        /* the next index is nobody's */
        struct addr next = v6 ? names_addr6(names, 2) : names_addr4(names, 2);
        assert_false(names_lookup(names, &next, &found));
        assert_true(names_in_range(names, &next));
    }
    assert_int_equal(names_insert(names, SLICE_NONE, &a), ERR_USAGE);
    char longest[254];
    memset(longest, 'x', sizeof longest);
    assert_int_equal(names_insert(names, slice_make(longest, 254), &a), ERR_USAGE);
    assert_int_equal(names_insert(names, slice_make(longest, 253), &a), 0);
    names_free(names);
    names_free(NULL);
}

static void test_other_addresses_mean_nothing(void **state) {
    static const char *const rows[] = {"198.18.0.1", "198.20.0.0", "198.17.255.255", "127.0.0.1",
                                       "10.0.0.1",   "::1",        "fd00::1",        "2001:db8::1"};
    struct names *names;
    struct slice found;
    uint32_t a;
    (void)state;
    assert_int_equal(names_new(&names, NULL), 0);
    assert_int_equal(names_insert(names, SLICE("a.test"), &a), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct addr x;
        assert_true(addr_parse(slice_str(rows[i]), 80, &x));
        assert_false(names_lookup(names, &x, &found));
    }
    /* within the prefix, with bits that no index has */
    struct addr x = names_addr6(names, a);
    x.in6.sin6_addr.s6_addr[8] = 1;
    assert_false(names_lookup(names, &x, &found));
    x = names_addr6(names, a);
    x.in6.sin6_addr.s6_addr[15] = 0;
    assert_false(names_lookup(names, &x, &found));
    x.len = 0;
    assert_false(names_lookup(names, &x, &found));
    names_free(names);
}

static void test_full(void **state) {
    struct names *names;
    char name[32];
    uint32_t index;
    (void)state;
    assert_int_equal(names_new(&names, NULL), 0);
    for (unsigned i = 0; i < NAMES_MAX; i++) {
        snprintf(name, sizeof name, "n%u.test", i);
        assert_int_equal(names_insert(names, slice_str(name), &index), 0);
        assert_int_equal(index, i);
    }
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "m%u.test", i);
        assert_int_equal(names_insert(names, slice_str(name), &index), ERR_LIMIT);
    }
    assert_int_equal(names_count(names), NAMES_MAX);
    struct slice found;
    struct addr last = names_addr4(names, NAMES_MAX - 1);
    assert_true(names_lookup(names, &last, &found));
    assert_true(slice_eq(found, SLICE("n65535.test")));
    assert_int_equal(names_insert(names, SLICE("n17.test"), &index), 0);
    assert_int_equal(index, 17);
    names_free(names);
}

/* Each of several users inserts all names, in its own order. */
#define USERS 4
#define EACH  5000
struct user {
    struct names *names;
    unsigned seed;
    uint32_t index[EACH];
    int failed;
};

static void *insert_all(void *arg) {
    struct user *u = arg;
    for (unsigned i = 0; i < EACH; i++) {
        char name[32];
        unsigned k = (i * 7919u + u->seed * 1237u) % EACH;
        snprintf(name, sizeof name, "host%u.test", k);
        if (names_insert(u->names, slice_str(name), &u->index[k]))
            u->failed++;
    }
    return NULL;
}

static void check_agreement(struct names *names, const struct user *users) {
    unsigned char *seen = calloc(NAMES_MAX, 1);
    assert_non_null(seen);
    for (unsigned k = 0; k < EACH; k++) {
        char name[32];
        struct slice found;
        struct addr a = names_addr4(names, users[0].index[k]);
        snprintf(name, sizeof name, "host%u.test", k);
        for (unsigned u = 0; u < USERS; u++)
            assert_int_equal(users[u].index[k], users[0].index[k]);
        assert_false(seen[users[0].index[k]]);
        seen[users[0].index[k]] = 1;
        assert_true(names_lookup(names, &a, &found));
        assert_true(slice_eq(found, slice_str(name)));
    }
    assert_int_equal(names_count(names), EACH);
    free(seen);
}

static void test_threads(void **state) {
    static struct user users[USERS];
    pthread_t threads[USERS];
    struct names *names;
    (void)state;
    assert_int_equal(names_new(&names, NULL), 0);
    for (unsigned i = 0; i < USERS; i++) {
        users[i] = (struct user){.names = names, .seed = i};
        assert_int_equal(pthread_create(&threads[i], NULL, insert_all, &users[i]), 0);
    }
    for (unsigned i = 0; i < USERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(users[i].failed, 0);
    }
    check_agreement(names, users);
    names_free(names);
}

static void test_processes(void **state) {
    struct names *names;
    (void)state;
    struct user *users =
        mmap(NULL, sizeof *users * USERS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(users != MAP_FAILED);
    assert_int_equal(names_new(&names, NULL), 0);
    for (unsigned i = 0; i < USERS; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            /* as a worker gets it: by descriptor */
            struct names *mine;
            if (names_attach(dup(names_fd(names)), &mine, NULL))
                _exit(1);
            users[i].names = mine;
            users[i].seed = i;
            insert_all(&users[i]);
            names_free(mine);
            _exit(users[i].failed ? 1 : 0);
        }
    }
    for (unsigned i = 0; i < USERS; i++) {
        int status;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    check_agreement(names, users);
    names_free(names);
    munmap(users, sizeof *users * USERS);
}

static void test_a_killed_user_blocks_nobody(void **state) {
    struct names *names;
    uint32_t index;
    (void)state;
    assert_int_equal(names_new(&names, NULL), 0);
    for (unsigned round = 0; round < 20; round++) {
        pid_t pid = fork();
        if (pid == 0) {
            for (unsigned i = 0;; i++) {
                char name[32];
                snprintf(name, sizeof name, "r%u-%u.test", round, i % 3000);
                names_insert(names, slice_str(name), &index);
            }
        }
        usleep(200 * round);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        char name[32];
        snprintf(name, sizeof name, "after%u.test", round);
        struct slice found;
        assert_int_equal(names_insert(names, slice_str(name), &index), 0);
        struct addr a = names_addr4(names, index);
        assert_true(names_lookup(names, &a, &found));
        assert_true(slice_eq(found, slice_str(name)));
    }
    names_free(names);
}

static void test_attach_refuses_others(void **state) {
    struct names *names;
    struct errmsg msg;
    (void)state;
    int fd = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(names_attach(dup(fd), &names, &msg), ERR_PEER);
    assert_int_equal(names_new(&names, NULL), 0);
    off_t size = lseek(names_fd(names), 0, SEEK_END);
    assert_int_equal(ftruncate(names_fd(names), size - 4096), -1);
    assert_int_equal(ftruncate(fd, size), 0);
    struct names *other;
    /* of the right size, and it could still be cut */
    assert_int_equal(names_attach(dup(fd), &other, &msg), ERR_PEER);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    /* … and not sealed as ours are */
    assert_int_equal(names_attach(dup(fd), &other, &msg), ERR_PEER);
    names_free(names);
    close(fd);
}

static void test_prefixes_differ(void **state) {
    struct names *a, *b;
    (void)state;
    assert_int_equal(names_new(&a, NULL), 0);
    assert_int_equal(names_new(&b, NULL), 0);
    assert_int_equal(names_prefix(a)[0], 0xfd);
    assert_memory_not_equal(names_prefix(a), names_prefix(b), 8);
    names_free(a);
    names_free(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_other_addresses_mean_nothing),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_a_killed_user_blocks_nobody),
        cmocka_unit_test(test_attach_refuses_others),
        cmocka_unit_test(test_prefixes_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
