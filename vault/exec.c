/*
 * Running a helper. No shell; the program gets its words as they stand in the file. What it writes goes
 * straight into a secret, what it complains of goes nowhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "vault/internal.h"

struct helper {
    pid_t pid;
    int pidfd;
    int out;    /* what it writes */
    int failed; /* errno of a failed exec; closed by a successful one */
};

/* execvp without its way of handing what is no program to a shell. Returns with errno set. */
static void run(char *const *argv) {
    char path[4096];
    const char *search = getenv("PATH");
    struct slice rest = slice_str(search ? search : "/usr/local/bin:/usr/bin:/bin"), dir;
    int e = ENOENT;
    bool more = true;
    if (strchr(argv[0], '/')) {
        execv(argv[0], argv);
        return;
    }
    while (more) {
        more = slice_cut(rest, ':', &dir, &rest);
        if (dir.n == 0 || snprintf(path, sizeof path, "%.*s/%s", SLICE_ARG(dir), argv[0]) >= (int)sizeof path)
            continue;
        execv(path, argv);
        if (errno != ENOENT && errno != ENOTDIR)
            e = errno;
    }
    errno = e;
}

/* In the child: no function here may allocate. */
static void child(char *const *argv, const char *folder, int in, int out, int failed) {
    sigset_t none;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int s = 1; s < NSIG; s++)
        (void)signal(s, SIG_DFL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (null >= 0 && dup2(in < 0 ? null : in, 0) >= 0 && dup2(out, 1) >= 0 && dup2(null, 2) >= 0 &&
        (folder[0] == '\0' || chdir(folder) == 0)) {
        /* our sockets and files are none of its business; `failed` closes by the exec itself */
        (void)syscall(SYS_close_range, 3u, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */);
        run(argv);
    }
    int e = errno;
    (void)!write(failed, &e, sizeof e);
    _exit(127);
}

/* A descriptor from which `input` can be read; -1 for none. */
static int input_of(struct slice input) {
    int fd = input.n ? memfd_create("exeat-helper", MFD_CLOEXEC) : -1;
    if (fd < 0)
        return -1;
    if (write(fd, input.p, input.n) != (ssize_t)input.n || lseek(fd, 0, SEEK_SET) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int start(char *const *argv, const char *folder, struct slice input, struct helper *h,
                 struct errmsg *msg) {
    int out[2] = {-1, -1}, failed[2] = {-1, -1};
    int r = 0, in = input_of(input);
    if ((input.n && in < 0) || pipe2(out, O_CLOEXEC) < 0 || pipe2(failed, O_CLOEXEC) < 0 ||
        (h->pid = fork()) < 0) {
        r = errmsg_errno(msg, ERR_IO, "'%s' can't be started", argv[0]);
        h->pid = -1;
    } else if (h->pid == 0) {
        child(argv, folder, in, out[1], failed[1]);
    }
    if (in >= 0)
        close(in);
    if (out[1] >= 0)
        close(out[1]);
    if (failed[1] >= 0)
        close(failed[1]);
    h->out = out[0];
    h->failed = failed[0];
    if (r == 0) {
        h->pidfd = (int)syscall(SYS_pidfd_open, h->pid, 0);
        if (h->pidfd < 0 || fcntl(h->out, F_SETFL, O_NONBLOCK) < 0)
            r = errmsg_errno(msg, ERR_IO, "'%s' can't be waited for", argv[0]);
    }
    return r;
}

/* Takes what is there. False when there will be no more. */
static bool take(struct helper *h, struct secret *out, size_t max, bool *too_long) {
    for (;;) {
        char over;
        size_t room = max - out->n;
        ssize_t n = read(h->out, room ? out->bytes + out->n : &over, room ? room : 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return true;
        if (n <= 0)
            return false;
        if (room == 0) {
            secret_wipe(&over, 1);
            *too_long = true;
            return false;
        }
        out->n += (size_t)n;
    }
}

/* Until the helper has ended; one that leaves a child behind with our pipe in its hands is not waited for any
 * longer. */
static int collect(struct helper *h, unsigned ms, size_t max, struct secret *out, const char *name,
                   struct errmsg *msg) {
    uint64_t until = clock_monotonic_ms() + ms;
    bool too_long = false, open = true;
    for (;;) {
        struct pollfd fds[2] = {{.fd = h->pidfd, .events = POLLIN},
                                {.fd = open ? h->out : -1, .events = POLLIN}};
        uint64_t now = clock_monotonic_ms();
        int n = now < until ? poll(fds, 2, (int)(until - now)) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errmsg_errno(msg, ERR_IO, "'%s' can't be waited for", name);
        if (n == 0)
            return errmsg_set(msg, ERR_TIMEOUT, "'%s' did not end within %u s", name, (ms + 999) / 1000);
        bool ended = fds[0].revents != 0;
        if (open && (ended || fds[1].revents))
            open = take(h, out, max, &too_long);
        if (too_long)
            return errmsg_set(msg, ERR_LIMIT, "'%s' wrote more than %zu bytes", name, max);
        if (ended)
            return 0;
    }
}

static int result(const struct helper *h, int status, const char *name, struct errmsg *msg) {
    int e = 0;
    if (read(h->failed, &e, sizeof e) == sizeof e) {
        errno = e;
        return errmsg_errno(msg, ERR_IO, "'%s' can't be run", name);
    }
    if (WIFSIGNALED(status))
        return errmsg_set(msg, ERR_IO, "'%s' was ended by signal %d", name, WTERMSIG(status));
    if (WEXITSTATUS(status))
        return errmsg_set(msg, ERR_IO, "'%s' failed with exit status %d", name, WEXITSTATUS(status));
    return 0;
}

int vault_exec(char *const *argv, const char *folder, struct slice input, unsigned ms, size_t max,
               struct secret *out, struct errmsg *msg) {
    struct helper h = {.pid = -1, .pidfd = -1, .out = -1, .failed = -1};
    int status = 0;
    int r = secret_reserve(out, max);
    if (r)
        return errmsg_set(msg, r, "%s", err_text(r));
    r = start(argv, folder, input, &h, msg);
    if (r == 0)
        r = collect(&h, ms, max, out, argv[0], msg);
    if (h.pid > 0) {
        if (r) {
            kill(-h.pid, SIGKILL);
            kill(h.pid, SIGKILL);
        }
        while (waitpid(h.pid, &status, 0) < 0 && errno == EINTR)
            ;
        if (r == 0)
            r = result(&h, status, argv[0], msg);
    }
    if (h.pidfd >= 0)
        close(h.pidfd);
    if (h.out >= 0)
        close(h.out);
    if (h.failed >= 0)
        close(h.failed);
    if (r)
        secret_release(out);
    return r;
}
