#include <errno.h>
#include <poll.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/msg.h"
#include "base/version.h"
#include "netns/command.h"
#include "netns/link.h"
#include "netns/listen.h"
#include "netns/mounts.h"
#include "netns/nft.h"
#include "netns/wire.h"

/*
 * pid 1 of the sandbox. In this order, each step ending the start when it fails:
 *
 *   1. tied to the supervisor's life, untraceable, without any descriptor but its socket and the user's three
 *   2. the specification
 *   3. lo, addresses, routes; listeners; rules. Nothing runs inside yet, so no order of these leaves a gap
 *   4. mounts: what is covered; what is trusted, once that has come; then the working directory anew, so that it can't be a way
 *      below them
 *   5. the command's process in namespaces of its own, which locks all of the above
 *   6. no capability but CAP_KILL (the command may have changed its user), no new privileges
 *   7. listeners go out; then it waits for its supervisor and its children, and for nothing else
 */
struct init {
    int fd;                /* to the supervisor */
    int signals;           /* signalfd of SIGCHLD */
    struct wire_spec spec; /* until the command is another program */
    struct command command;
    bool running; /* the command is another program by now */
    bool told;    /* its end was reported */
};

static void report(struct init *in, enum sandbox_event_kind kind, int value) {
    uint8_t memory[32];
    struct msg_out m;
    msg_begin(&m, memory, sizeof memory, WIRE_EVENT);
    msg_put_u8(&m, (uint8_t)kind);
    msg_put_u32(&m, (uint32_t)value);
    (void)msg_send(in->fd, &m);
}

static void report_failure(int fd, int err, const struct errmsg *msg) {
    uint8_t memory[WIRE_MAX];
    struct msg_out m;
    msg_begin(&m, memory, sizeof memory, WIRE_FAILED);
    msg_put_u32(&m, (uint32_t)-err);
    msg_put_str(&m, msg->text);
    (void)msg_send(fd, &m);
}

/* Blocks until a message has come; the end of the socket is an error. */
static int receive(int fd, struct msg_in *m, uint8_t *memory, size_t cap) {
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, -1) < 0 && errno != EINTR)
            return ERR_IO;
        int r = msg_recv(fd, m, memory, cap);
        if (r != ERR_AGAIN)
            return r;
    }
}

/* A socket stays in the network namespace that it was made in, and most can be connected to somebody else, or send to
 * anybody. One end of a unix stream can't. */
static bool is_pipe_like(int fd) {
    int domain = -1, type = -1;
    socklen_t n = sizeof domain;
    struct sockaddr_storage peer;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) < 0 || domain != AF_UNIX)
        return false;
    n = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) < 0 || type == SOCK_DGRAM)
        return false;
    n = sizeof peer;
    return getpeername(fd, (struct sockaddr *)&peer, &n) == 0;
}

static int settle(int fd, struct errmsg *msg) {
    sigset_t all;
    struct stat st;
    /* all blocked: as pid 1 we get none by default, and none is wanted but SIGCHLD, by descriptor */
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    for (int s = 1; s <= 64; s++)
        signal(s, SIG_DFL);
    umask(022);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
        return errmsg_errno(msg, ERR_IO, "sandbox: prctl");
    prctl(PR_SET_NAME, "exeat-init");
    if (syscall(SYS_close_range, (unsigned)fd + 1, ~0u, 0) < 0)
        return errmsg_errno(msg, ERR_UNSUPPORTED, "close_range (Linux 5.9 or later is needed)");
    for (int i = 0; i <= 2; i++) {
        if (fstat(i, &st) < 0)
            continue;
        if (S_ISDIR(st.st_mode))
            return errmsg_set(
                msg, ERR_USAGE,
                "descriptor %d is a directory, which would be a way round what is covered inside", i);
        if (S_ISSOCK(st.st_mode) && !is_pipe_like(i))
            return errmsg_set(
                msg, ERR_USAGE,
                "descriptor %d is a socket of the host's network, which would be a way out: put a pipe "
                "between (cat | exeat run ... | cat)",
                i);
    }
    return 0;
}

static int read_spec(struct init *in, struct errmsg *msg) {
    uint8_t memory[WIRE_MAX];
    struct msg_in m;
    int r = receive(in->fd, &m, memory, sizeof memory);
    if (r)
        return errmsg_set(msg, r, "sandbox: %s", err_text(r));
    bool root = msg_get_u8(&m) == 1;
    int memfd = msg_get_fd(&m);
    if (m.type != WIRE_SPEC || msg_end(&m))
        r = errmsg_set(msg, ERR_PEER, "sandbox: unexpected message");
    msg_close_fds(&m);
    if (r == 0)
        r = wire_spec_read(memfd, &in->spec, msg);
    in->spec.root = root;
    if (memfd >= 0)
        close(memfd);
    return r;
}

static int read_trust(struct init *in, struct wire_trust *trust, struct errmsg *msg) {
    uint8_t memory[WIRE_MAX];
    struct msg_in m;
    int r = receive(in->fd, &m, memory, sizeof memory);
    if (r)
        return errmsg_set(msg, r, "sandbox: %s", err_text(r));
    int memfd = msg_get_fd(&m);
    if (m.type != WIRE_TRUST || msg_end(&m))
        r = errmsg_set(msg, ERR_PEER, "sandbox: unexpected message");
    msg_close_fds(&m);
    if (r == 0)
        r = wire_trust_read(memfd, trust, msg);
    if (memfd >= 0)
        close(memfd);
    return r;
}

static int send_ready(struct init *in, bool ipv6, const struct sandbox_listeners *l, struct errmsg *msg) {
    uint8_t memory[32];
    struct msg_out m;
    msg_begin(&m, memory, sizeof memory, WIRE_READY);
    msg_put_u8(&m, ipv6);
    msg_put_fd(&m, l->tcp4);
    msg_put_fd(&m, l->dns_udp4);
    msg_put_fd(&m, l->dns_tcp4);
    if (ipv6) {
        msg_put_fd(&m, l->tcp6);
        msg_put_fd(&m, l->dns_udp6);
        msg_put_fd(&m, l->dns_tcp6);
    }
    int r = msg_send(in->fd, &m);
    return r ? errmsg_set(msg, r, "sandbox: %s", msg_send_text(r)) : 0;
}

static int drop_capabilities(struct errmsg *msg) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    data[0].effective = data[0].permitted = 1u << CAP_KILL;
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    for (int cap = 0; cap < 64; cap++)
        if (cap != CAP_KILL && prctl(PR_CAPBSET_READ, cap) == 1 && prctl(PR_CAPBSET_DROP, cap) < 0)
            return errmsg_errno(msg, ERR_IO, "sandbox: bounding set");
    if (syscall(SYS_capset, &header, data) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return errmsg_errno(msg, ERR_IO, "sandbox: capabilities can't be dropped");
    return 0;
}

static int set_up_mounts(struct init *in, struct errmsg *msg) {
    struct wire_trust trust = {0};
    struct stage stage;
    char dir[PATH_MAX];
    int r = mounts_cover(&in->spec, &stage, dir, msg);
    if (r == 0)
        r = read_trust(in, &trust, msg);
    if (r == 0)
        r = mounts_finish(&in->spec, &trust, &stage, msg);
    wire_trust_release(&trust);
    return r;
}

/* Not a part of netns_init_main, whose place on the stack stays. */
static __attribute__((noinline)) int set_up(struct init *in, struct errmsg *msg) {
    struct sandbox_listeners listeners;
    struct listen_ports ports;
    bool ipv6, nat_only;
    int r = settle(in->fd, msg);
    if (r == 0)
        r = read_spec(in, msg);
    if (r == 0)
        r = mounts_proc(msg);
    if (r == 0)
        r = link_setup(in->spec.prefix6, in->spec.root, &ipv6, msg);
    if (r == 0)
        r = listen_open(ipv6, &listeners, &ports, msg);
    if (r)
        return r;
    r = nft_setup(in->spec.prefix6, ipv6, &ports, &nat_only, msg);
    if (r == 0)
        r = set_up_mounts(in, msg);
    if (r == 0)
        r = command_fork(&in->spec, &in->command, msg);
    if (r == 0)
        r = drop_capabilities(msg);
    if (r == 0)
        r = send_ready(in, ipv6, &listeners, msg);
    listen_close(&listeners);
    return r;
}

/* --- while the command runs ------------------------------------------------ */

static void command_changed(struct init *in, const siginfo_t *info) {
    switch (info->si_code) {
    case CLD_STOPPED: report(in, SANDBOX_STOPPED, info->si_status); return;
    case CLD_CONTINUED: report(in, SANDBOX_CONTINUED, 0); return;
    case CLD_EXITED: report(in, SANDBOX_EXITED, info->si_status); break;
    default: report(in, SANDBOX_KILLED, info->si_status); break;
    }
    in->told = true;
}

/* Everybody's orphans are ours. */
static void reap(struct init *in) {
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WCONTINUED | WNOHANG) < 0 || info.si_pid == 0)
            return;
        if (info.si_pid == in->command.pid && !in->told)
            command_changed(in, &info);
    }
}

static void send_signal(struct init *in, int signal) {
    pid_t target = in->command.pid;
    if (!in->running)
        return;
    /* a shell that has stopped itself has a group of its own, all of it stopped; exeat's own group shows as 0 in
     * here and has been continued from outside */
    pid_t group = signal == SIGCONT ? getpgid(target) : 0;
    if (group > 1)
        target = -group;
    kill(target, signal);
}

static bool obey(struct init *in) {
    uint8_t memory[WIRE_MAX];
    struct msg_in m;
    int r = msg_recv(in->fd, &m, memory, sizeof memory);
    if (r == ERR_AGAIN)
        return true;
    if (r)
        return false; /* the supervisor is gone */
    if (m.type == WIRE_SIGNAL) {
        int signal = msg_get_u8(&m);
        if (msg_end(&m) == 0)
            send_signal(in, signal);
    } else if (m.type == WIRE_EXEC && !in->running && msg_end(&m) == 0) {
        int error = command_go(&in->command);
        in->running = true;
        /* the command has its own copy */
        wire_spec_release(&in->spec);
        if (error) {
            report(in, SANDBOX_EXEC_FAILED, error);
            in->told = true;
        }
    }
    msg_close_fds(&m);
    return true;
}

static int loop(struct init *in) {
    struct pollfd p[2] = {{.fd = in->fd, .events = POLLIN}, {.fd = in->signals, .events = POLLIN}};
    bool settled = false;
    while (!in->told) {
        int n = poll(p, 2, in->running && !settled ? HEAP_SETTLE_MS : -1);
        if (n < 0 && errno != EINTR)
            return 125;
        if (n == 0) {
            heap_settle();
            settled = true;
        }
        if (p[1].revents & POLLIN) {
            struct signalfd_siginfo info;
            (void)!read(in->signals, &info, sizeof info);
            reap(in);
        }
        if (p[0].revents && !in->told && !obey(in))
            return 125;
    }
    /* when pid 1 ends, the kernel ends what the command has left behind */
    return 0;
}

/*
 * Until the supervisor has read what was reported, and ends us: if this process went with a message of the
 * supervisor's unread, or before it was sent, the supervisor would be told of that first, and lose the reason.
 */
static void wait_for_end(int fd) {
    uint8_t memory[WIRE_MAX];
    struct msg_in m;
    while (receive(fd, &m, memory, sizeof memory) == 0)
        msg_close_fds(&m);
}

int netns_init_main(int fd, const char *version) {
    struct init in = {.fd = fd, .signals = -1};
    struct errmsg msg = {""};
    sigset_t child;
    int r = version_check(version, &msg);
    if (r == 0)
        r = set_up(&in, &msg);
    if (r == 0) {
        sigemptyset(&child);
        sigaddset(&child, SIGCHLD);
        in.signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
        if (in.signals < 0)
            r = errmsg_errno(&msg, ERR_IO, "sandbox: signalfd");
    }
    if (r) {
        report_failure(fd, r, &msg);
        wait_for_end(fd);
        return 125;
    }
    return loop(&in);
}
