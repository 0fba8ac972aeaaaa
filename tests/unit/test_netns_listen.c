/* What another process hands over as a listener, and what is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "netns/sandbox.h"

static int bound(int family, int type, int protocol) {
    struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(family, type | SOCK_CLOEXEC, protocol);
    if (fd < 0)
        return -1;
    bool v4 = family == AF_INET;
    if (bind(fd, v4 ? (struct sockaddr *)&a4 : (struct sockaddr *)&a6, v4 ? sizeof a4 : sizeof a6) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void good(int fd, int type) {
    if (fd < 0) /* a host without IPv6 */
        return;
    if (type == SOCK_STREAM)
        assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    assert_int_equal(netns_listener(fd, type), 0);
    assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    assert_int_equal(netns_listener(fd, type == SOCK_STREAM ? SOCK_DGRAM : SOCK_STREAM), ERR_PEER);
    close(fd);
}

static void listeners(void **state) {
    (void)state;
    good(bound(AF_INET, SOCK_STREAM, 0), SOCK_STREAM);
    good(bound(AF_INET, SOCK_DGRAM, 0), SOCK_DGRAM);
    good(bound(AF_INET6, SOCK_STREAM, 0), SOCK_STREAM);
    good(bound(AF_INET6, SOCK_DGRAM, 0), SOCK_DGRAM);
}

static void none(int fd) {
    assert_true(fd >= 0);
    assert_int_equal(netns_listener(fd, SOCK_STREAM), ERR_PEER);
    assert_int_equal(netns_listener(fd, SOCK_DGRAM), ERR_PEER);
    close(fd);
}

static void others(void **state) {
    int pair[2], ends[2];
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    (void)state;
    assert_int_equal(netns_listener(-1, SOCK_STREAM), ERR_PEER);
    none(bound(AF_INET, SOCK_STREAM, 0)); /* it does not listen */
    assert_int_equal(pipe(pair), 0);
    none(pair[0]);
    none(pair[1]);
    none(eventfd(1, 0));
    none(memfd_create("m", 0));
    none(open("/dev/null", O_RDWR));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    none(ends[0]);
    none(ends[1]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
    none(ends[0]);
    none(ends[1]);
    int local = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(local, (struct sockaddr *)&a, sizeof a.sun_family),
                     0); /* a name of the kernel's choice */
    assert_int_equal(listen(local, 8), 0);
    none(local);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listeners),
        cmocka_unit_test(others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
