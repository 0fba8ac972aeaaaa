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
#include <unistd.h>

#include "base/msg.h"
#include "proxy/process/ipc.h"
#include "proxy/process/role.h"

static const char *const names[ROLE_COUNT] = {
    [ROLE_KEEPER] = "keeper", [ROLE_WORKER] = "worker", [ROLE_SCRIBE] = "scribe"};

const char *role_name(enum role role) {
    return names[role];
}

/* --- which program ---------------------------------------------------------------------------------------------------- */

#define SELF "/proc/self/exe"

/* Beside this program, as it was built, or NULL where there is none. */
static char *beside(const char *name) {
    char self[PATH_MAX], *path = NULL;
    ssize_t n = readlink(SELF, self, sizeof self - 1);
    if (n <= 0)
        return NULL;
    self[n] = 0;
    char *slash = strrchr(self, '/');
    if (!slash || asprintf(&path, "%.*s/%s", (int)(slash - self), self, name) < 0)
        return NULL;
    return path;
}

/* What stands beside this program in a folder that all may write to is somebody else's, unless it has this one's owner. */
static bool trusted(int fd) {
    struct stat self, other;
    return stat(SELF, &self) == 0 && fstat(fd, &other) == 0 && S_ISREG(other.st_mode) &&
           (other.st_uid == self.st_uid || other.st_uid == 0) && (other.st_mode & S_IWOTH) == 0;
}

/* The program of a role: of this very build, beside this one, or where `make install` puts it. */
static int open_program(enum role role, struct errmsg *msg) {
    char name[32];
    snprintf(name, sizeof name, "exeat-%s", names[role]);
    char *path = beside(name);
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    free(path);
    if (fd >= 0 && trusted(fd))
        return fd;
    if (fd >= 0)
        close(fd);
    char installed[PATH_MAX];
    snprintf(installed, sizeof installed, "%s/%s", EXEAT_LIBEXECDIR, name);
    fd = open(installed, O_RDONLY | O_CLOEXEC);
    return fd >= 0 ? fd
                   : errmsg_errno(msg, ERR_IO, "%s, a part of exeat that is looked for beside it and as %s",
                                  name, installed);
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

/* In the child, which runs in the parent's memory until it is another program: never returns, and changes nothing there. */
static void child_exec(int program, int socket, pid_t parent, char *const argv[], char *const env[]) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(127);
    setsid();
    reset_signals();
    umask(077);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    /* out of the way of the numbers that are about to be taken */
    int high_socket = fcntl(socket, F_DUPFD_CLOEXEC, 10);
    int high_program = fcntl(program, F_DUPFD_CLOEXEC, 10);
    if (null < 0 || high_socket < 0 || high_program < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0)
        _exit(127);
    if (fcntl(2, F_GETFD) < 0 && dup2(null, 2) < 0)
        _exit(127);
    if (dup2(high_socket, IPC_FD) < 0 || dup3(high_program, IPC_FD + 1, O_CLOEXEC) < 0)
        _exit(127);
    if (syscall(SYS_close_range, IPC_FD + 2, ~0u, 0) < 0)
        _exit(127);
    syscall(SYS_execveat, IPC_FD + 1, "", argv, env, AT_EMPTY_PATH);
    _exit(127);
}

int spawn_role(enum role role, char *const env[], pid_t *pid, int *fd, struct errmsg *msg) {
    char option[32], parent[16], version[] = PACKAGE_VERSION;
    snprintf(option, sizeof option, ROLE_OPTION "%s", names[role]);
    snprintf(parent, sizeof parent, "%d", (int)getpid());
    char name[] = "exeat";
    char *argv[] = {name, option, parent, version, NULL};
    int pair[2];
    int program = open_program(role, msg);
    if (program < 0)
        return ERR_IO;
    if (msg_pair(pair) < 0) {
        errmsg_errno(msg, ERR_IO, "socket pair");
        close(program);
        return ERR_IO;
    }
    pid_t me = getpid();
    /* a handler of ours must not run in the child; vfork, for a copy of our page tables is thrown away at once */
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t child = vfork();
    if (child == 0)
        child_exec(program, pair[1], me, argv, env);
    int saved = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(program);
    close(pair[1]);
    errno = saved;
    if (child < 0) {
        errmsg_errno(msg, ERR_IO, "the %s can't be started", names[role]);
        close(pair[0]);
        return ERR_IO;
    }
    *pid = child;
    *fd = pair[0];
    return 0;
}
