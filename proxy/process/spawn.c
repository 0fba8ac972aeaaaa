#include "proxy/process/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/confine.h"
#include "base/log.h"
#include "base/msg.h"
#include "proxy/process/ipc.h"
#include "proxy/process/roles.h"

#define ROLE_OPTION "--role="

static const struct {
    const char *name;
    int (*run)(void);
} roles[ROLE_COUNT] = {
    [ROLE_KEEPER] = {"keeper", keeper_run},
    [ROLE_WORKER] = {"worker", worker_run},
    [ROLE_SCRIBE] = {"scribe", scribe_run},
};

const char *role_name(enum role role) {
    return roles[role].name;
}

int spawn_open_self(struct errmsg *msg) {
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        errmsg_errno(msg, ERR_IO, "/proc/self/exe can't be opened (is /proc mounted?)");
    return fd;
}

/* In the child: signals as a program finds them that nobody prepared. */
static void reset_signals(void) {
    for (int sig = 1; sig < NSIG; sig++)
        if (sig != SIGKILL && sig != SIGSTOP)
            signal(sig, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* In the child, which runs in the parent's memory until it is another program: never returns, and changes nothing there. */
static void child_exec(int self, int socket, pid_t parent, char *const argv[], char *const env[]) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(127);
    setsid();
    reset_signals();
    umask(077);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    /* out of the way of the numbers that are about to be taken */
    int high_socket = fcntl(socket, F_DUPFD_CLOEXEC, 10);
    int high_self = fcntl(self, F_DUPFD_CLOEXEC, 10);
    if (null < 0 || high_socket < 0 || high_self < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0)
        _exit(127);
    if (fcntl(2, F_GETFD) < 0 && dup2(null, 2) < 0)
        _exit(127);
    if (dup2(high_socket, IPC_FD) < 0 || dup3(high_self, IPC_FD + 1, O_CLOEXEC) < 0)
        _exit(127);
    if (syscall(SYS_close_range, IPC_FD + 2, ~0u, 0) < 0)
        _exit(127);
    syscall(SYS_execveat, IPC_FD + 1, "", argv, env, AT_EMPTY_PATH);
    _exit(127);
}

int spawn_role(enum role role, int self, char *const env[], pid_t *pid, int *fd, struct errmsg *msg) {
    char option[32], parent[16];
    snprintf(option, sizeof option, ROLE_OPTION "%s", roles[role].name);
    snprintf(parent, sizeof parent, "%d", (int)getpid());
    char name[] = "exeat";
    char *argv[] = {name, option, parent, NULL};
    int pair[2];
    if (msg_pair(pair) < 0)
        return errmsg_errno(msg, ERR_IO, "socket pair");
    pid_t me = getpid();
    /* a handler of ours must not run in the child; vfork, for a copy of our page tables is thrown away at once */
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t child = vfork();
    if (child == 0)
        child_exec(self, pair[1], me, argv, env);
    int saved = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(pair[1]);
    errno = saved;
    if (child < 0) {
        errmsg_errno(msg, ERR_IO, "the %s can't be started", roles[role].name);
        close(pair[0]);
        return ERR_IO;
    }
    *pid = child;
    *fd = pair[0];
    return 0;
}

#ifdef __SANITIZE_ADDRESS__
/* Looking for leaks takes longer at every end than most tests do; the soak asks for it, by ASAN_OPTIONS. And the limit for core
 * dumps is the command's as it is the user's: the sanitizer would set it to nothing. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "detect_leaks=0:disable_coredump=0";
}

size_t __sanitizer_get_current_allocated_bytes(void); /* not in gcc's headers */

/* What is allocated, told to standard error on SIGURG: the soak looks for growth by it. What the process takes
 * of the system is no measure in such a build: freed memory and where each piece was allocated are kept as
 * well. (The supervisor's own handler comes in this one's place.) */
static void on_ask_held(int sig) {
    char text[96];
    struct timespec now = {0};
    int saved = errno;
    (void)sig;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int n =
        snprintf(text, sizeof text, "exeat: process %d holds %zu bytes at %.3f\n", (int)getpid(),
                 __sanitizer_get_current_allocated_bytes(), (double)now.tv_sec + (double)now.tv_nsec / 1e9);
    if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0)
        text[0] = '\0'; /* nobody reads it: nothing to be done */
    errno = saved;
}

__attribute__((constructor)) static void tell_held(void) {
    struct sigaction on_ask = {.sa_handler = on_ask_held, .sa_flags = SA_RESTART};
    sigaction(SIGURG, &on_ask, NULL);
}
#endif

int spawn_role_main(int argc, char **argv) {
    if (argc != 3 || strncmp(argv[1], ROLE_OPTION, strlen(ROLE_OPTION)) != 0)
        return -1;
    for (int i = 0; i < ROLE_COUNT; i++) {
        if (strcmp(argv[1] + strlen(ROLE_OPTION), roles[i].name) != 0)
            continue;
        int type = 0;
        socklen_t n = sizeof type;
        if (getsockopt(IPC_FD, SOL_SOCKET, SO_TYPE, &type, &n) < 0 || type != SOCK_SEQPACKET)
            return -1; /* somebody typed it */
        prctl(PR_SET_NAME, roles[i].name);
        fcntl(IPC_FD, F_SETFD, FD_CLOEXEC);
        log_setup(roles[i].name, LOG_LEVEL_WARN);
#ifndef __SANITIZE_ADDRESS__ /* a search for leaks would find what OpenSSL keeps */
        /* a role frees what is secret by itself; the rest of OpenSSL goes with the process */
        OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
#endif
        struct errmsg msg;
        uint64_t parent;
        if (!slice_u64(slice_str(argv[2]), INT_MAX, &parent) || parent == 0)
            return -1;
        if (confine_begin((pid_t)parent, &msg) < 0) {
            log_error("%s", msg.text);
            return 1;
        }
        return roles[i].run();
    }
    return -1;
}
