/* What a service and who joins it say to each other: what is to be hidden, what is handed over, and who may have a name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proxy/process/config.h"
#include "proxy/process/handover.h"
#include "proxy/process/hidden.h"
#include "proxy/process/ipc.h"
#include "proxy/process/service_socket.h"
#include "tests/unit/mutate.h"

#define TYPE 0x0310

/* --- hidden ----------------------------------------------------------------------------------------------------------- */

static uint8_t memory[MSG_MAX];

static struct slice put(const struct hidden *h) {
    struct msg_out out;
    msg_begin(&out, memory, sizeof memory, TYPE);
    hidden_put(h, &out);
    assert_int_equal(out.err, 0);
    return slice_make(out.p, out.n);
}

static void what_is_hidden_is_told(void **state) {
    char *files[] = {(char *)(uintptr_t) "/a/credentials", (char *)(uintptr_t) "/b c", NULL};
    char *variables[] = {(char *)(uintptr_t) "A_TOKEN", NULL};
    struct hidden h = {
        .files = files, .nfiles = 2, .variables = variables, .nvariables = 1, .redis_path = "/r"};
    struct hidden got = {.files = NULL};
    struct msg_in in;
    (void)state;
    struct slice bytes = put(&h);
    assert_int_equal(msg_parse(&in, bytes.p, bytes.n), 0);
    assert_int_equal(hidden_get(&got, &in), 0);
    assert_int_equal(msg_end(&in), 0);
    assert_int_equal(got.nfiles, 2);
    assert_string_equal(got.files[0], "/a/credentials");
    assert_string_equal(got.files[1], "/b c");
    assert_null(got.files[2]);
    assert_int_equal(got.nvariables, 1);
    assert_string_equal(got.variables[0], "A_TOKEN");
    assert_null(got.variables[1]);
    assert_string_equal(got.redis_path, "/r");
    hidden_release(&got);
    assert_null(got.files);
}

static void nothing_is_hidden(void **state) {
    struct hidden none = {.files = NULL}, got = {.files = NULL};
    struct msg_in in;
    (void)state;
    struct slice bytes = put(&none);
    assert_int_equal(msg_parse(&in, bytes.p, bytes.n), 0);
    assert_int_equal(hidden_get(&got, &in), 0);
    assert_int_equal(msg_end(&in), 0);
    assert_null(got.files);
    assert_null(got.variables);
    assert_string_equal(got.redis_path, "");
    hidden_release(&got);
}

static void get_hidden(struct slice bytes, void *arg) {
    struct hidden got = {.files = NULL};
    struct msg_in in;
    (void)arg;
    if (msg_parse(&in, bytes.p, bytes.n) == 0 && hidden_get(&got, &in) == 0)
        (void)!msg_end(&in);
    assert_true(got.nfiles <= HIDDEN_MAX && got.nvariables <= HIDDEN_MAX);
    hidden_release(&got);
}

static void what_is_hidden_may_be_malformed(void **state) {
    char *files[] = {(char *)(uintptr_t) "/a", (char *)(uintptr_t) "/b", NULL};
    struct hidden h = {.files = files, .nfiles = 2, .redis_path = "/r"}, got = {.files = NULL};
    struct msg_out out;
    struct msg_in in;
    (void)state;
    static uint8_t copy[MSG_MAX];
    struct slice bytes = put(&h);
    memcpy(copy, bytes.p, bytes.n);
    mutate_truncate(slice_make(copy, bytes.n), get_hidden, NULL);
    mutate_flip(slice_make(copy, bytes.n), get_hidden, NULL);

    /* more than there may be, and a path that has no room */
    msg_begin(&out, memory, sizeof memory, TYPE);
    msg_put_u32(&out, HIDDEN_MAX + 1);
    assert_int_equal(msg_parse(&in, out.p, out.n), 0);
    assert_int_equal(hidden_get(&got, &in), ERR_PEER);
    hidden_release(&got);
    char path[sizeof got.redis_path + 1];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = 0;
    msg_begin(&out, memory, sizeof memory, TYPE);
    msg_put_u32(&out, 0);
    msg_put_u32(&out, 0);
    msg_put_str(&out, path);
    assert_int_equal(msg_parse(&in, out.p, out.n), 0);
    assert_int_equal(hidden_get(&got, &in), ERR_PEER);
    hidden_release(&got);
}

/* The log's and the vault's own file, once each; not what is no regular file; a second name is an error that names it. */
static void files_are_collected(void **state) {
    char dir[] = "/tmp/exeat-hidden.XXXXXX", vault[64], log[64], second[64];
    struct hidden h = {.files = NULL};
    struct errmsg msg;
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(vault, sizeof vault, "%s/credentials", dir);
    snprintf(log, sizeof log, "%s/log", dir);
    snprintf(second, sizeof second, "%s/second", dir);
    close(open(vault, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    close(open(log, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_equal(hidden_collect(&h, vault, NULL, log, &msg), 0);
    assert_int_equal(h.nfiles, 2);
    assert_string_equal(h.files[0], vault);
    assert_string_equal(h.files[1], log);
    hidden_release(&h);
    assert_int_equal(hidden_collect(&h, NULL, NULL, "/dev/null", &msg), 0);
    assert_int_equal(h.nfiles, 0);
    hidden_release(&h);
    assert_int_equal(link(vault, second), 0);
    assert_int_equal(hidden_collect(&h, vault, NULL, NULL, &msg), ERR_USAGE);
    assert_non_null(strstr(msg.text, vault));
    hidden_release(&h);
    unlink(second);
    unlink(vault);
    unlink(log);
    rmdir(dir);
}

/* --- handed over ------------------------------------------------------------------------------------------------------ */

/* As it comes from who joins: `n` listeners are told of, and there are `nfds` descriptors. */
static int pass(uint32_t n, uint32_t told, size_t nfds, bool more, struct msg_out *out) {
    static uint8_t to[1024];
    struct msg_out from;
    struct msg_in in;
    msg_begin(&from, memory, sizeof memory, TYPE);
    msg_put_u32(&from, n);
    for (uint32_t i = 0; i < told; i++)
        msg_put_u8(&from, (uint8_t)(i % 3));
    if (more)
        msg_put_u8(&from, 0);
    assert_int_equal(msg_parse(&in, from.p, from.n), 0);
    in.nfds = nfds;
    for (size_t i = 0; i < nfds; i++)
        in.fds[i] = (int)i + 100;
    msg_begin(out, to, sizeof to, IPC_SANDBOX);
    return handover_pass(&in, out);
}

static void a_sandbox_is_passed_on(void **state) {
    struct msg_out out;
    struct msg_in in;
    (void)state;
    for (uint32_t n = 0; n <= 6; n++) {
        assert_int_equal(pass(n, n, HANDOVER_FDS + n, false, &out), 0);
        assert_int_equal(out.nfds, HANDOVER_FDS + n);
        for (size_t i = 0; i < out.nfds; i++)
            assert_int_equal(out.fds[i], i + 100);
        assert_int_equal(msg_parse(&in, out.p, out.n), 0);
        assert_int_equal(msg_get_u32(&in), n);
        for (uint32_t i = 0; i < n; i++)
            assert_int_equal(msg_get_u8(&in), i % 3);
        assert_int_equal(in.at, in.n);
    }
    assert_int_equal(pass(7, 7, HANDOVER_FDS + 7, false, &out), ERR_PEER); /* more than there are */
    assert_int_equal(pass(2, 2, HANDOVER_FDS + 1, false, &out), ERR_PEER);
    assert_int_equal(pass(2, 2, HANDOVER_FDS + 3, false, &out), ERR_PEER);
    assert_int_equal(pass(2, 1, HANDOVER_FDS + 2, false, &out), ERR_PEER);
    assert_int_equal(pass(2, 2, HANDOVER_FDS + 2, true, &out), ERR_PEER);
    assert_int_equal(pass(UINT32_MAX, 0, HANDOVER_FDS, false, &out), ERR_PEER);
}

/* --- who joins -------------------------------------------------------------------------------------------------------- */

static void names_of_sandboxes(void **state) {
    static const char *const good[] = {"a", "A9", "a.b_c-d", "0"}, *const bad[] = {"",         ".a",  "-a",
                                                                                   "_",        "a b", "a\n",
                                                                                   "\xc3\xa4", "a/b"};
    char longest[CONFIG_NAME_MAX + 2];
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(config_is_name(slice_str(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(config_is_name(slice_str(bad[i])));
    memset(longest, 'x', sizeof longest);
    assert_true(config_is_name(slice_make(longest, CONFIG_NAME_MAX)));
    assert_false(config_is_name(slice_make(longest, CONFIG_NAME_MAX + 1)));
    assert_false(config_is_name(slice_make("a\0b", 3)));
}

static void the_namespace_is_ours_or_not(void **state) {
    (void)state;
    int own = service_namespace(), other = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    assert_true(own >= 0 && other >= 0);
    assert_true(service_same_namespace(own));
    assert_false(service_same_namespace(other));
    assert_false(service_same_namespace(-1));
    close(own);
    close(other);
}

/* The lock is who is there, and a socket that is left over is nobody's. */
static void one_service_of_a_directory(void **state) {
    char dir[] = "/tmp/exeat-service.XXXXXX";
    struct errmsg msg;
    struct stat st;
    int lock, other;
    (void)state;
    assert_non_null(mkdtemp(dir));
    int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(service_connect(dir, &msg), -1);
    assert_non_null(strstr(msg.text, "no service works with"));
    int fd = service_listen(dir, at, &lock, &msg);
    assert_true(fd >= 0 && lock >= 0);
    assert_int_equal(fstatat(at, SERVICE_SOCKET, &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(service_listen(dir, at, &other, &msg), -1);
    assert_int_equal(other, -1);
    assert_non_null(strstr(msg.text, "another service"));
    int client = service_connect(dir, &msg);
    assert_true(client >= 0);
    int taken = accept(fd, NULL, NULL);
    assert_true(taken >= 0 && service_same_user(taken));
    close(taken);
    close(client);
    close(fd);
    close(lock);
    assert_int_equal(service_connect(dir, &msg), -1); /* it is dead */
    fd = service_listen(dir, at, &lock, &msg);
    assert_true(fd >= 0);
    service_unlisten(at, lock);
    assert_int_equal(fstatat(at, SERVICE_SOCKET, &st, 0), -1);
    close(fd);
    close(lock);
    assert_int_equal(unlinkat(at, SERVICE_LOCK, 0), 0);
    close(at);
    rmdir(dir);
}

/* Somebody has cleared the directory of what is old: another service begins, and keeps its socket when the first one ends. */
static void a_lock_that_was_taken_away(void **state) {
    char dir[] = "/tmp/exeat-service.XXXXXX";
    struct errmsg msg;
    struct stat st;
    int lock, other;
    (void)state;
    assert_non_null(mkdtemp(dir));
    int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = service_listen(dir, at, &lock, &msg);
    assert_true(fd >= 0);
    assert_int_equal(unlinkat(at, SERVICE_LOCK, 0), 0);
    int second = service_listen(dir, at, &other, &msg);
    assert_true(second >= 0);
    service_unlisten(at, lock);
    close(fd);
    close(lock);
    int client = service_connect(dir, &msg);
    assert_true(client >= 0);
    close(client);
    service_unlisten(at, other);
    assert_int_equal(fstatat(at, SERVICE_SOCKET, &st, 0), -1);
    close(second);
    close(other);
    unlinkat(at, SERVICE_LOCK, 0);
    close(at);
    rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_hidden_is_told),          cmocka_unit_test(nothing_is_hidden),
        cmocka_unit_test(what_is_hidden_may_be_malformed), cmocka_unit_test(files_are_collected),
        cmocka_unit_test(a_sandbox_is_passed_on),          cmocka_unit_test(names_of_sandboxes),
        cmocka_unit_test(the_namespace_is_ours_or_not),    cmocka_unit_test(one_service_of_a_directory),
        cmocka_unit_test(a_lock_that_was_taken_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
