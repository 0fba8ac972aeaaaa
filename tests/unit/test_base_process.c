/* Messages between processes, secrets, and what a confined process can no longer do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/block.h"
#include "base/confine.h"
#include "base/filter_rules.h"
#include "base/heap.h"
#include "base/msg.h"
#include "base/secret.h"

static size_t sample(uint8_t *memory, size_t cap) {
    struct msg_out out;
    msg_begin(&out, memory, cap, 0x1234);
    msg_put_u8(&out, 0xff);
    msg_put_u16(&out, 0x0102);
    msg_put_u32(&out, 0xdeadbeef);
    msg_put_u64(&out, UINT64_MAX - 1);
    msg_put_str(&out, "hello");
    msg_put_slice(&out, SLICE_NONE);
    assert_int_equal(out.err, 0);
    return out.n;
}

static int read_sample(const void *bytes, size_t n) {
    struct msg_in in;
    int r = msg_parse(&in, bytes, n);
    if (r)
        return r;
    bool same = msg_get_u8(&in) == 0xff;
    same &= msg_get_u16(&in) == 0x0102;
    same &= msg_get_u32(&in) == 0xdeadbeef;
    same &= msg_get_u64(&in) == UINT64_MAX - 1;
    same &= slice_eq(msg_get_slice(&in), SLICE("hello"));
    same &= msg_get_slice(&in).n == 0;
    r = msg_end(&in);
    if (r == 0 && in.type == 0x1234)
        assert_true(same);
    return r;
}

static void messages_survive_or_fail(void **state) {
    (void)state;
    uint8_t memory[256];
    size_t n = sample(memory, sizeof memory);
    assert_int_equal(read_sample(memory, n), 0);
    for (size_t cut = 0; cut < n; cut++)
        assert_int_equal(read_sample(memory, cut), ERR_PEER);
    memory[n] = 0;
    assert_int_equal(read_sample(memory, n + 1), ERR_PEER);
    /* a length field turned enormous never reaches beyond the message */
    uint8_t huge[] = {1, 0, 1, 0, 0xff, 0xff, 0xff, 0xff, 'x'};
    struct msg_in in;
    assert_int_equal(msg_parse(&in, huge, sizeof huge), 0);
    assert_int_equal(msg_get_slice(&in).n, 0);
    assert_int_equal(msg_end(&in), ERR_PEER);
    memory[0] = 2;
    assert_int_equal(read_sample(memory, n), ERR_PEER);
}

static void messages_have_limits(void **state) {
    (void)state;
    uint8_t small[16];
    struct msg_out out;
    msg_begin(&out, small, sizeof small, 1);
    msg_put_str(&out, "123456789");
    assert_int_equal(out.err, ERR_LIMIT);
    int pair[2];
    assert_int_equal(msg_pair(pair), 0);
    assert_int_equal(msg_send(pair[0], &out), ERR_LIMIT);
    close(pair[0]);
    struct msg_in in;
    static uint8_t memory[MSG_MAX];
    assert_int_equal(msg_recv(pair[1], &in, memory, sizeof memory), ERR_EOF);
    close(pair[1]);
}

/* Who may have no more of them gets none of a message's, and what it says all the same. */
static void descriptors_that_are_lost(void **state) {
    (void)state;
    int pair[2];
    static uint8_t memory[MSG_MAX];
    uint8_t space[64];
    struct rlimit files, few;
    struct msg_in in;
    struct msg_out out;
    assert_int_equal(msg_pair(pair), 0);
    msg_begin(&out, space, sizeof space, 7);
    msg_put_u32(&out, 77);
    for (int i = 0; i < 3; i++)
        msg_put_fd(&out, pair[0]);
    assert_int_equal(msg_send(pair[0], &out), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    int next = dup(pair[0]); /* the lowest that is free, and one more */
    few = (struct rlimit){(rlim_t)next + 1, files.rlim_max};
    close(next);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    int r = msg_recv(pair[1], &in, memory, sizeof memory);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    assert_int_equal(r, 0);
    assert_true(in.cut);
    assert_int_equal(in.nfds, 0);
    assert_int_equal(msg_get_u32(&in), 77);
    assert_int_equal(msg_end(&in), ERR_PEER);
    assert_int_equal(msg_get_fd(&in), -1);
    int free_again = dup(pair[0]); /* what came was closed */
    assert_int_equal(free_again, next);
    close(free_again);
    close(pair[0]);
    close(pair[1]);
}

static void descriptors_travel(void **state) {
    (void)state;
    int pair[2];
    static uint8_t memory[MSG_MAX];
    assert_int_equal(msg_pair(pair), 0);
    struct msg_in in;
    assert_int_equal(msg_recv(pair[1], &in, memory, sizeof memory), ERR_AGAIN);

    uint8_t space[64];
    struct msg_out out;
    msg_begin(&out, space, sizeof space, 7);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    msg_put_fd(&out, fd);
    msg_put_fd(&out, fd);
    assert_int_equal(msg_send(pair[0], &out), 0);
    assert_int_equal(msg_recv(pair[1], &in, memory, sizeof memory), 0);
    assert_int_equal(in.nfds, 2);
    int got = msg_get_fd(&in);
    assert_true(got >= 0 && fcntl(got, F_GETFD) == FD_CLOEXEC);
    assert_int_equal(msg_end(&in), ERR_PEER); /* one was not taken */
    int other = in.fds[1];
    msg_close_fds(&in);
    assert_int_equal(fcntl(other, F_GETFD), -1);
    assert_int_equal(fcntl(got, F_GETFD), FD_CLOEXEC);
    assert_int_equal(msg_get_fd(&in), -1);
    close(got);
    close(fd);
    close(pair[0]);
    close(pair[1]);
}

static void secrets(void **state) {
    (void)state;
    struct secret s = {0};
    assert_int_equal(secret_set(&s, SLICE("SECRET-A")), 0);
    assert_true(slice_eq(secret_slice(&s), SLICE("SECRET-A")));
    /* a child does not see it: its pages arrive there as zeroes */
    pid_t child = fork();
    if (child == 0)
        _exit(s.bytes[0] == 0 && s.bytes[7] == 0 ? 0 : 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(secret_reserve(&s, SECRET_MAX + 1), ERR_LIMIT);
    assert_null(s.bytes);
    secret_release(&s);
}

#ifndef __SANITIZE_ADDRESS__ /* its runtime can't live under the filter */
enum { TRY_OPEN, TRY_UNIX, TRY_INET, TRY_EXEC, TRY_PTRACE, TRY_EXECUTABLE, TRY_NOTHING };

static int attempt(int what) {
    switch (what) {
    case TRY_OPEN: return open("/etc/hostname", O_RDONLY) < 0 && open("/dev/null", O_WRONLY) < 0 ? 0 : 1;
    case TRY_UNIX: return socket(AF_UNIX, SOCK_STREAM, 0) < 0 ? 0 : 1;
    case TRY_INET: return socket(AF_INET, SOCK_STREAM, 0) >= 0 ? 0 : 1;
    case TRY_EXEC: {
        char name[] = "true";
        char *argv[] = {name, NULL};
        execv("/bin/true", argv);
        return 1;
    }
    case TRY_PTRACE: ptrace(PTRACE_TRACEME, 0, NULL, NULL); return 1;
    case TRY_EXECUTABLE:
        return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
                       MAP_FAILED
                   ? 0
                   : 1;
    default: {
        struct rlimit core;
        void *p = malloc(1 << 20);
        int ok =
            p && getrlimit(RLIMIT_CORE, &core) != 0; /* not on the list: refused, and nobody dies of it */
        free(p);
        return ok && errno == EPERM ? 0 : 1;
    }
    }
}

/* The exit status of a child confined so, or 128 + the signal that ended it. */
static int confined(enum confine_role role, int what) {
    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0) {
        struct errmsg msg;
        if (confine_begin(parent, &msg) || prctl(PR_GET_DUMPABLE) != 0 || confine_role(role, &msg))
            _exit(99);
        _exit(attempt(what));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void confinement(void **state) {
    (void)state;
    for (int role = CONFINE_WORKER; role <= CONFINE_SCRIBE; role++) {
        assert_int_equal(confined((enum confine_role)role, TRY_OPEN), 0);
        assert_int_equal(confined((enum confine_role)role, TRY_EXEC), 128 + SIGSYS);
        assert_int_equal(confined((enum confine_role)role, TRY_PTRACE), 128 + SIGSYS);
        assert_int_equal(confined((enum confine_role)role, TRY_EXECUTABLE), 0);
        assert_int_equal(confined((enum confine_role)role, TRY_NOTHING), 0);
    }
    assert_int_equal(confined(CONFINE_WORKER, TRY_UNIX), 0);
    assert_int_equal(confined(CONFINE_KEEPER, TRY_UNIX), 0);
    assert_int_equal(confined(CONFINE_SCRIBE, TRY_UNIX), 1);
    assert_int_equal(confined(CONFINE_WORKER, TRY_INET), 0);
    assert_int_equal(confined(CONFINE_SCRIBE, TRY_INET), 0);
    assert_int_equal(confined(CONFINE_KEEPER, TRY_INET), 1);
}
#endif

/* What was made at build time is what libseccomp makes of the rules now. */
static void filters_are_the_rules(void **state) {
    (void)state;
    for (int which = 0; which < FILTER_COUNT; which++) {
        static char bytes[65536];
        struct sock_fprog program = filter_program((enum filter)which);
        scmp_filter_ctx ctx = filter_rules((enum filter)which);
        int fd = memfd_create("filter", MFD_CLOEXEC);
        assert_non_null(ctx);
        assert_true(fd >= 0);
        assert_int_equal(seccomp_export_bpf(ctx, fd), 0);
        ssize_t n = pread(fd, bytes, sizeof bytes, 0);
        assert_true(program.len > 20);
        assert_int_equal(n, program.len * sizeof program.filter[0]);
        assert_memory_equal(bytes, program.filter, (size_t)n);
        seccomp_release(ctx);
        close(fd);
    }
}

static void orphan_does_not_start(void **state) {
    (void)state;
    struct errmsg msg;
    pid_t child = fork();
    if (child == 0)
        _exit(confine_begin(getpid(), &msg) == ERR_EOF ? 0 : 1); /* itself is not its parent */
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

#ifndef __SANITIZE_ADDRESS__ /* which has a heap of its own */
static size_t resident_pages(void) {
    size_t pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*u %zu", &pages), 1);
    fclose(f);
    return pages;
}

/* A crowd has left, and a few small things of it lie all over the heap. */
static void the_heap_gives_back(void **state) {
    enum { CROWD = 4096, BIG = 16384 };
    static char *big[CROWD], *left[CROWD];
    (void)state;
    size_t before = resident_pages();
    for (int i = 0; i < CROWD; i++) {
        big[i] = malloc(BIG);
        left[i] = malloc(32);
        assert_true(big[i] && left[i]);
        memset(big[i], 1, BIG);
    }
    for (int i = 0; i < CROWD; i++)
        free(big[i]);
    size_t crowded = resident_pages();
    heap_give_back();
    size_t after = resident_pages();
    for (int i = 0; i < CROWD; i++)
        free(left[i]);
    assert_true(after - before < (crowded - before) / 2);
}

/* What nobody has goes, what somebody has stays as it is. */
static void the_start_settles(void **state) {
    enum { SIZE = 8192, MIDDLE = SIZE / 2 };
    (void)state;
    char *kept = block_take(SIZE), *given = block_take(SIZE);
    assert_true(kept && given);
    memset(kept, 1, SIZE);
    memset(given, 1, SIZE);
    memset(&msg_room, 1, sizeof msg_room);
    block_give(given);
    heap_settle();
    for (int i = 0; i < SIZE; i++)
        assert_int_equal(kept[i], 1);
    char *again = block_take(SIZE);
    assert_ptr_equal(again, given);
    assert_int_equal(again[MIDDLE], 0);
    assert_int_equal(msg_room.in[MSG_MAX / 2], 0);
    assert_int_equal(msg_room.out[MSG_MAX / 2], 0);
    block_give(again);
    block_give(kept);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_survive_or_fail),
        cmocka_unit_test(messages_have_limits),
        cmocka_unit_test(descriptors_travel),
        cmocka_unit_test(descriptors_that_are_lost),
        cmocka_unit_test(secrets),
#ifndef __SANITIZE_ADDRESS__
        cmocka_unit_test(the_heap_gives_back),
        cmocka_unit_test(the_start_settles),
        cmocka_unit_test(confinement),
#endif
        cmocka_unit_test(filters_are_the_rules),
        cmocka_unit_test(orphan_does_not_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
