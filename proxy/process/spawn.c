#include "proxy/process/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
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
#include "proxy/process/ipc.h"
#include "proxy/process/role.h"

static const char *const names[ROLE_COUNT] = {
    [ROLE_KEEPER] = "keeper", [ROLE_WORKER] = "worker", [ROLE_SCRIBE] = "scribe"};

const char *role_name(enum role role) {
    return names[role];
}

/* --- which program ---------------------------------------------------------------------------------------------------- */

#define SELF "/proc/self/exe"

/* The path of a part beside this program, as it was built. */
static int path_beside(const char *name, char *path, size_t cap) {
    char self[PATH_MAX];
    ssize_t n = readlink(SELF, self, sizeof self - 1);
    if (n <= 0)
        return ERR_IO;
    self[n] = 0;
    char *slash = strrchr(self, '/');
    if (!slash || (size_t)snprintf(path, cap, "%.*s/%s", (int)(slash - self), self, name) >= cap)
        return ERR_IO;
    return 0;
}

/* Why a file is no part of this program, or NULL: but for root, nobody may write to it who can't write to this one. In a folder that all
 * may write to, what stands beside this program is anybody's. */
static const char *objection(int fd) {
    struct stat self, part;
    if (stat(SELF, &self) < 0 || fstat(fd, &part) < 0)
        return strerror(errno);
    if (!S_ISREG(part.st_mode))
        return "it is no regular file";
    if (part.st_uid != self.st_uid && part.st_uid != 0)
        return "it has another owner than exeat, and not root";
    bool same_group = part.st_gid == self.st_gid && (self.st_mode & S_IWGRP);
    if ((part.st_mode & S_IWOTH) || ((part.st_mode & S_IWGRP) && !same_group))
        return "others may write to it";
    return NULL;
}

/* A descriptor to execute, or -1 with a message. O_PATH: opening waits for nothing, whatever stands there. */
static int open_part(const char *path, int flags, struct errmsg *msg) {
    int fd = open(path, O_PATH | O_CLOEXEC | flags);
    const char *why = fd < 0 ? strerror(errno) : objection(fd);
    if (!why)
        return fd;
    errmsg_set(msg, ERR_IO, "%s: %s", path, why);
    if (fd >= 0)
        close(fd);
    return -1;
}

int spawn_open(const char *part, char path[PATH_MAX], struct errmsg *msg) {
    char name[32];
    struct errmsg beside = {SELF ": its path is not known"}, installed;
    snprintf(name, sizeof name, "exeat-%s", part);
    int fd = path_beside(name, path, PATH_MAX) == 0 ? open_part(path, O_NOFOLLOW, &beside) : -1;
    if (fd >= 0)
        return fd;
    snprintf(path, PATH_MAX, "%s/%s", EXEAT_LIBEXECDIR, name);
    fd = open_part(path, 0, &installed);
    if (fd < 0)
        errmsg_set(msg, ERR_IO, "%s is a part of exeat and can't be used:\n  %s\n  %s\n%s", name, beside.text,
                   installed.text, "Install exeat (make install), or keep all its programs in one folder.");
    return fd;
}

/* --- the child -------------------------------------------------------------------------------------------------------- */

/* In the child: signals as a program finds them that nobody prepared. */
static void reset_signals(void) {
    for (int sig = 1; sig < NSIG; sig++)
        if (sig != SIGKILL && sig != SIGSTOP)
            signal(sig, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* In the child, which runs in the parent's memory until it is another program: returns only when that can't be, and why is in errno. */
static void child_exec(int program, int socket, pid_t parent, char *const argv[], char *const env[]) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        return;
    setsid();
    reset_signals();
    umask(077);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    /* out of the way of the numbers that are about to be taken */
    int high_socket = fcntl(socket, F_DUPFD_CLOEXEC, 10);
    int high_program = fcntl(program, F_DUPFD_CLOEXEC, 10);
    if (null < 0 || high_socket < 0 || high_program < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0)
        return;
    if (fcntl(2, F_GETFD) < 0 && dup2(null, 2) < 0)
        return;
    if (dup2(high_socket, IPC_FD) < 0 || dup3(high_program, IPC_FD + 1, O_CLOEXEC) < 0)
        return;
    if (syscall(SYS_close_range, IPC_FD + 2, ~0u, 0) < 0)
        return;
    syscall(SYS_execveat, IPC_FD + 1, "", argv, env, AT_EMPTY_PATH);
}

/* Never returns. The error is told in *failed, which is the parent's. */
static void child_run(int program, int socket, pid_t parent, char *const argv[], char *const env[],
                      volatile int *failed) {
    child_exec(program, socket, parent, argv, env);
    *failed = errno;
    _exit(127);
}

/* Forks and executes. The process, or -1 with errno, when none runs. */
static pid_t start(int program, int socket, char *const argv[], char *const env[]) {
    pid_t me = getpid();
    volatile int failed = 0;
    /* a handler of ours must not run in the child; vfork, for a copy of our page tables is thrown away at once */
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t child = vfork();
    if (child == 0)
        child_run(program, socket, me, argv, env, &failed);
    int saved = child < 0 ? errno : failed;
    if (child > 0 && saved) {
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
            continue;
        child = -1;
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = saved;
    return child;
}

int spawn_role(enum role role, char *const env[], pid_t *pid, int *fd, struct errmsg *msg) {
    char option[32], parent[16], path[PATH_MAX];
    snprintf(option, sizeof option, ROLE_OPTION "%s", names[role]);
    snprintf(parent, sizeof parent, "%d", (int)getpid());
    char name[] = "exeat";
    char *argv[] = {name, option, parent, (char *)(uintptr_t)version_build, NULL};
    int pair[2];
    int program = spawn_open(names[role], path, msg);
    if (program < 0)
        return ERR_IO;
    if (msg_pair(pair) < 0) {
        errmsg_errno(msg, ERR_IO, "socket pair");
        close(program);
        return ERR_IO;
    }
    pid_t child = start(program, pair[1], argv, env);
    if (child < 0)
        errmsg_errno(msg, ERR_IO, "the %s can't be started: %s", names[role], path);
    close(program);
    close(pair[1]);
    if (child < 0) {
        close(pair[0]);
        return ERR_IO;
    }
    *pid = child;
    *fd = pair[0];
    return 0;
}
