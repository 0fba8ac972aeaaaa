/* netns/hostsockets: each kind of socket that somebody could connect or send to is listed, and none that nobody could. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "netns/hostsockets.h"

#define FOUND_MAX 16
#define NAME_SIZE (sizeof((struct sockaddr_un *)0)->sun_path + 1)

struct scene {
    char dir[32];
    char found[FOUND_MAX][NAME_SIZE]; /* names in `dir` */
    size_t n;
    int stop; /* returned from the first call on */
};

static struct sockaddr_un name_of(const struct scene *s, const char *name) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s/%s", s->dir, name);
    return a;
}

static int bound(const struct scene *s, int type, const char *name, bool listens) {
    struct sockaddr_un a = name_of(s, name);
    int fd = socket(AF_UNIX, type, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    if (listens)
        assert_int_equal(listen(fd, 5), 0);
    return fd;
}

static int on_path(void *arg, const char *path) {
    struct scene *s = arg;
    size_t n = strlen(s->dir);
    if (strncmp(path, s->dir, n) == 0 && s->n < FOUND_MAX)
        snprintf(s->found[s->n++], sizeof s->found[0], "%s", path + n + 1);
    return s->stop;
}

static size_t count(const struct scene *s, const char *name) {
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += strcmp(s->found[i], name) == 0;
    return n;
}

typedef int list_fn(int (*each)(void *arg, const char *path), void *arg, struct errmsg *msg);

static void assert_kinds(list_fn *list) {
    struct scene s = {.dir = "/tmp/exeat-sockets.XXXXXX"};
    static const char *const names[] = {"stream", "packet", "datagram", "later", "sender", "both"};
    assert_non_null(mkdtemp(s.dir));
    int stream = bound(&s, SOCK_STREAM, "stream", true), packet = bound(&s, SOCK_SEQPACKET, "packet", true);
    int datagram = bound(&s, SOCK_DGRAM, "datagram", false), later = bound(&s, SOCK_STREAM, "later", false);
    int sender = bound(&s, SOCK_DGRAM, "sender", false), client = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un to = name_of(&s, "datagram"), listener = name_of(&s, "stream");
    assert_int_equal(connect(sender, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(connect(client, (struct sockaddr *)&listener, sizeof listener), 0);
    int accepted = accept(stream, NULL, NULL);
    assert_true(accepted >= 0);
    assert_int_equal(list(on_path, &s, NULL), 0);
    assert_int_equal(count(&s, "stream"), 1);
    assert_int_equal(count(&s, "packet"), 1);
    assert_int_equal(count(&s, "datagram"), 1);
    assert_int_equal(count(&s, "later"), 1);
    s.n = 0;
    s.stop = -7;
    assert_int_equal(list(on_path, &s, NULL), -7);
    int all[] = {stream, packet, datagram, later, sender, client, accepted};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        close(all[i]);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct sockaddr_un a = name_of(&s, names[i]);
        unlink(a.sun_path);
    }
    rmdir(s.dir);
}

static void test_kinds(void **state) {
    (void)state;
    assert_kinds(hostsockets_each);
}

static void test_kinds_by_proc(void **state) {
    (void)state;
    assert_kinds(hostsockets_read);
}

/* A name may fill sun_path, and has no zero at its end then: the longest that bind takes. */
static void assert_longest(list_fn *list) {
    struct scene s = {.dir = "/tmp/exeat-sockets.XXXXXX"};
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char path[sizeof a.sun_path + 1];
    assert_non_null(mkdtemp(s.dir));
    memset(path, 'x', sizeof a.sun_path);
    path[sizeof a.sun_path] = '\0';
    memcpy(path, s.dir, strlen(s.dir));
    path[strlen(s.dir)] = '/';
    memcpy(a.sun_path, path, sizeof a.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(list(on_path, &s, NULL), 0);
    assert_int_equal(count(&s, path + strlen(s.dir) + 1), 1);
    close(fd);
    unlink(path);
    rmdir(s.dir);
}

static void test_longest(void **state) {
    (void)state;
    assert_longest(hostsockets_each);
    assert_longest(hostsockets_read);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_kinds_by_proc),
        cmocka_unit_test(test_longest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
