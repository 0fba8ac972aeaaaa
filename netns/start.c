/* The supervisor's side of a sandbox: it makes init, tells it what to do, hears from it, and ends it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/msg.h"
#include "base/version.h"
#include "netns/idmap.h"
#include "netns/listen.h"
#include "netns/wire.h"

#define CHILD_FD_MIN 10 /* descriptors that must not be in the way of 0 to 3 */

/* The process group that had the terminal when we started, if that was ours. */
static bool was_foreground;

void sandbox_inherit_take(struct sandbox_inherit *out) {
    sigset_t blocked;
    *out = (struct sandbox_inherit){0};
    /* a descriptor of ours that became 0, 1 or 2 would be written to as if it were the user's */
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) < 0)
            break;
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    for (int s = 1; s <= 64; s++) {
        struct sigaction action;
        if (sigismember(&blocked, s) == 1)
            out->blocked |= 1ull << (s - 1);
        if (sigaction(s, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            out->ignored |= 1ull << (s - 1);
    }
    out->umask = umask(0);
    umask(out->umask);
    getrlimit(RLIMIT_NOFILE, &out->nofile);
    getrlimit(RLIMIT_CORE, &out->core);
    getrlimit(RLIMIT_MEMLOCK, &out->memlock);
    int tty = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (tty >= 0) {
        was_foreground = tcgetpgrp(tty) == getpgrp();
        close(tty);
    }
}

void sandbox_take_terminal(void) {
    int tty = was_foreground ? open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC) : -1;
    if (tty < 0)
        return;
    if (tcgetpgrp(tty) != getpgrp())
        (void)tcsetpgrp(tty, getpgrp());
    close(tty);
}

/* --- the child, until it executes itself ----------------------------------- */

/* Waits for one message without a field. */
static int expect(int fd, uint16_t type, int timeout_ms) {
    uint8_t memory[WIRE_MAX];
    struct msg_in m;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int n;
    do
        n = poll(&p, 1, timeout_ms);
    while (n < 0 && errno == EINTR);
    if (n <= 0 || msg_recv(fd, &m, memory, sizeof memory))
        return ERR_EOF;
    int r = msg_end(&m) || m.type != type ? ERR_PEER : 0;
    msg_close_fds(&m);
    return r;
}

static int tell(int fd, uint16_t type) {
    uint8_t memory[16];
    struct msg_out m;
    msg_begin(&m, memory, sizeof memory, type);
    return msg_send(fd, &m);
}

/* Capabilities go through exec for a user other than root only as ambient ones. */
static int keep_capabilities(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0)
        return -1;
    for (int i = 0; i < 2; i++)
        data[i].inheritable = data[i].permitted;
    if (syscall(SYS_capset, &header, data) < 0)
        return -1;
    for (int cap = 0; cap < 64; cap++)
        if (data[cap / 32].permitted & 1u << (cap % 32) &&
            prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
            return -1;
    return 0;
}

static _Noreturn void child(int exe, int fd, int parent_fd, char *const *envp) {
    char name[] = "exeat", role[] = SANDBOX_ROLE;
    char *argv[] = {name, role, (char *)(uintptr_t)version_build, NULL};
    /* while our end of the pair is open here, the supervisor's death would not be seen */
    close(parent_fd);
    if (dup2(fd, SANDBOX_ROLE_FD) < 0)
        _exit(125);
    close(fd);
    /* if the supervisor was dead before the first of these two, WIRE_MAPPED never comes; dumpable, or the files
     * that the maps are written to belong to somebody else */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0 ||
        tell(SANDBOX_ROLE_FD, WIRE_UP) || expect(SANDBOX_ROLE_FD, WIRE_MAPPED, SANDBOX_START_MS) ||
        keep_capabilities() < 0)
        _exit(125);
    syscall(SYS_execveat, exe, "", argv, envp, AT_EMPTY_PATH);
    _exit(125);
}

/* --- the supervisor's side ------------------------------------------------- */

/* If its first process is gone by now, what it said of the reason is yet to be read: sandbox_ready tells. */
static int sent(int r, struct errmsg *msg) {
    return r && r != ERR_EOF ? errmsg_set(msg, r, "sandbox: %s", msg_send_text(r)) : 0;
}

static int send_spec(struct sandbox *sb, int memfd, struct errmsg *msg) {
    uint8_t memory[16];
    struct msg_out m;
    msg_begin(&m, memory, sizeof memory, WIRE_SPEC);
    msg_put_u8(&m, sb->root);
    msg_put_fd(&m, memfd);
    return sent(msg_send(sb->fd, &m), msg);
}

int sandbox_trust(struct sandbox *sb, const struct sandbox_trust *trust, struct errmsg *msg) {
    uint8_t memory[16];
    struct msg_out m;
    int memfd = -1;
    int r = wire_trust_write(trust, &memfd, msg);
    if (r)
        return r;
    msg_begin(&m, memory, sizeof memory, WIRE_TRUST);
    msg_put_fd(&m, memfd);
    r = sent(msg_send(sb->fd, &m), msg);
    close(memfd);
    return r;
}

static int read_ready(struct sandbox *sb, struct msg_in *m, struct errmsg *msg) {
    struct sandbox_listeners *l = &sb->listeners;
    sb->ipv6 = msg_get_u8(m) == 1;
    l->tcp4 = msg_get_fd(m);
    l->dns_udp4 = msg_get_fd(m);
    l->dns_tcp4 = msg_get_fd(m);
    if (sb->ipv6) {
        l->tcp6 = msg_get_fd(m);
        l->dns_udp6 = msg_get_fd(m);
        l->dns_tcp6 = msg_get_fd(m);
    }
    return msg_end(m) ? errmsg_set(msg, ERR_PEER, "sandbox: unexpected message") : 0;
}

static int read_failed(struct msg_in *m, struct errmsg *msg) {
    int err = -(int)msg_get_u32(m);
    struct slice text = msg_get_slice(m);
    int r = msg_end(m) || err >= 0 ? ERR_PEER : err;
    return errmsg_set(msg, r, "%.*s", SLICE_ARG(text));
}

int sandbox_ready(struct sandbox *sb, struct errmsg *msg) {
    uint8_t memory[WIRE_MAX];
    struct msg_in m;
    int r = msg_recv(sb->fd, &m, memory, sizeof memory);
    if (r == ERR_AGAIN)
        return r;
    if (r == ERR_EOF)
        return errmsg_set(msg, ERR_EOF, "sandbox: its first process has died");
    if (r)
        return errmsg_set(msg, r, "sandbox: %s", err_text(r));
    if (m.type == WIRE_READY)
        r = read_ready(sb, &m, msg);
    else if (m.type == WIRE_FAILED)
        r = read_failed(&m, msg);
    else
        r = errmsg_set(msg, ERR_PEER, "sandbox: unexpected message");
    msg_close_fds(&m);
    return r;
}

/* The program that init is, out of the way of the numbers that are about to be taken. -1 with errno. */
static int open_program(const struct sandbox_spec *spec) {
    if (spec->program > 0)
        return fcntl(spec->program, F_DUPFD_CLOEXEC, CHILD_FD_MIN);
    int exe = open("/proc/self/exe", O_PATH | O_CLOEXEC);
    int high = exe < 0 ? -1 : fcntl(exe, F_DUPFD_CLOEXEC, CHILD_FD_MIN);
    if (exe >= 0)
        close(exe);
    return high;
}

/* Forks into the new namespaces. Signals are blocked meanwhile: a handler of the supervisor's must not run in the child. */
static int fork_init(const struct sandbox_spec *spec, struct sandbox *sb, struct errmsg *msg) {
    int pair[2];
    sigset_t all, before;
    int high = open_program(spec);
    if (high < 0)
        return errmsg_errno(msg, ERR_IO, "the program of init");
    if (msg_pair(pair)) {
        close(high);
        return errmsg_errno(msg, ERR_IO, "sandbox: socket pair");
    }
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    unsigned long flags = CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | SIGCHLD;
    pid_t pid = (pid_t)syscall(SYS_clone, flags, NULL, NULL, NULL, NULL);
    if (pid == 0)
        child(high, pair[1], pair[0], spec->envp);
    int saved = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(high);
    close(pair[1]);
    sb->init = pid;
    sb->fd = pair[0];
    if (pid >= 0)
        return 0;
    close(pair[0]);
    sb->fd = -1;
    errno = saved;
    return errmsg_errno(msg, ERR_UNSUPPORTED, "namespaces can't be made");
}

int sandbox_start(const struct sandbox_spec *spec, struct sandbox *sb, struct errmsg *msg) {
    int memfd = -1;
    *sb = (struct sandbox){.init = -1, .fd = -1, .listeners = {-1, -1, -1, -1, -1, -1}};
    sb->root = idmap_is_root();
    int r = wire_spec_write(spec, &memfd, msg);
    if (r)
        return r;
    r = fork_init(spec, sb, msg);
    if (r == 0)
        r = expect(sb->fd, WIRE_UP, SANDBOX_START_MS)
                ? errmsg_set(msg, ERR_EOF, "sandbox: its first process has died")
                : 0;
    if (r == 0)
        r = idmap_write(sb->init, sb->root, msg);
    if (r == 0 && tell(sb->fd, WIRE_MAPPED))
        r = errmsg_set(msg, ERR_EOF, "sandbox: its first process has died");
    if (r == 0)
        r = send_spec(sb, memfd, msg);
    close(memfd);
    if (r)
        sandbox_release(sb);
    return r;
}

int sandbox_exec(struct sandbox *sb, struct errmsg *msg) {
    int r = tell(sb->fd, WIRE_EXEC);
    return r ? errmsg_set(msg, r, "sandbox: its first process has died") : 0;
}

int sandbox_event(struct sandbox *sb, struct sandbox_event *event) {
    uint8_t memory[WIRE_MAX];
    struct msg_in m;
    int r = msg_recv(sb->fd, &m, memory, sizeof memory);
    if (r == ERR_AGAIN)
        return r;
    *event = (struct sandbox_event){.kind = SANDBOX_GONE};
    if (r)
        return 0;
    uint8_t kind = msg_get_u8(&m);
    uint32_t value = msg_get_u32(&m);
    if (m.type == WIRE_EVENT && msg_end(&m) == 0 && kind < SANDBOX_GONE)
        *event = (struct sandbox_event){.kind = (enum sandbox_event_kind)kind, .value = (int)value};
    msg_close_fds(&m);
    return 0;
}

int sandbox_exec_status(int error) {
    return error == ENOENT ? 127 : 126;
}

void sandbox_signal(struct sandbox *sb, int signal) {
    uint8_t memory[16];
    struct msg_out m;
    if (sb->fd < 0)
        return;
    msg_begin(&m, memory, sizeof memory, WIRE_SIGNAL);
    msg_put_u8(&m, (uint8_t)signal);
    (void)msg_send(sb->fd, &m);
}

void sandbox_kill(struct sandbox *sb) {
    if (sb->init > 0)
        kill(sb->init, SIGKILL);
}

void sandbox_release(struct sandbox *sb) {
    sandbox_kill(sb);
    if (sb->init > 0) {
        while (waitpid(sb->init, NULL, 0) < 0 && errno == EINTR) {}
    }
    if (sb->fd >= 0)
        close(sb->fd);
    listen_close(&sb->listeners);
    sb->init = -1;
    sb->fd = -1;
}
