#include "netns/command.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "netns/guard.h"
#include "netns/idmap.h"

static bool read_byte(int fd) {
    char c;
    ssize_t n;
    do
        n = read(fd, &c, 1);
    while (n < 0 && errno == EINTR);
    return n == 1;
}

/* As the user started exeat. Raising a limit back needs no privilege up to the hard one. */
static void restore(const struct sandbox_inherit *in) {
    const struct {
        int which;
        struct rlimit limit;
    } limits[] = {{RLIMIT_NOFILE, in->nofile}, {RLIMIT_CORE, in->core}, {RLIMIT_MEMLOCK, in->memlock}};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct rlimit now, want = limits[i].limit;
        if (getrlimit((__rlimit_resource_t)limits[i].which, &now) == 0) {
            want.rlim_max = want.rlim_max < now.rlim_max ? want.rlim_max : now.rlim_max;
            want.rlim_cur = want.rlim_cur < want.rlim_max ? want.rlim_cur : want.rlim_max;
        }
        (void)setrlimit((__rlimit_resource_t)limits[i].which, &want);
    }
    umask(in->umask);
    sigset_t blocked;
    sigemptyset(&blocked);
    for (int s = 1; s <= 64; s++) {
        /* dispositions first: a blocked signal that waits must meet the one it was sent to */
        signal(s, in->ignored & 1ull << (s - 1) ? SIG_IGN : SIG_DFL);
        if (in->blocked & 1ull << (s - 1))
            sigaddset(&blocked, s);
    }
    sigprocmask(SIG_SETMASK, &blocked, NULL);
}

static _Noreturn void child(const struct wire_spec *spec, int up, int go, int result) {
    struct errmsg msg;
    int32_t error = 0;
    /* dumpable, or init could not write the maps; what is in memory here is the command's own */
    if (prctl(PR_SET_DUMPABLE, 1) < 0 || write(up, "u", 1) != 1 || !read_byte(go))
        _exit(125);
    if (guard_load(&msg)) {
        (void)!write(up, msg.text, strlen(msg.text));
        _exit(125);
    }
    if (write(up, "g", 1) != 1)
        _exit(125);
    close(up);
    if (!read_byte(go))
        _exit(125);
    /* the supervisor's socket, and whatever else was left open */
    if (syscall(SYS_close_range, 3, ~0u, 4 /* CLOSE_RANGE_CLOEXEC */) < 0)
        _exit(125);
    restore(&spec->inherit);
    execvp(spec->argv[0], spec->argv);
    error = errno;
    (void)!write(result, &error, sizeof error);
    _exit(error == ENOENT ? 127 : 126);
}

struct pipes {
    int up[2], go[2], result[2];
};

static void close_pipes(struct pipes *p) {
    int *all[] = {&p->up[0], &p->up[1], &p->go[0], &p->go[1], &p->result[0], &p->result[1]};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (*all[i] >= 0)
            close(*all[i]);
        *all[i] = -1;
    }
}

/* Maps its ids, lets it load its filter. */
static int prepare(const struct wire_spec *spec, pid_t pid, struct pipes *p, struct errmsg *msg) {
    if (!read_byte(p->up[0]))
        return errmsg_set(msg, ERR_EOF, "the command's process has died");
    int r = idmap_write(pid, spec->root, msg);
    if (r)
        return r;
    if (write(p->go[1], "m", 1) != 1)
        return errmsg_errno(msg, ERR_IO, "the command's process");
    char said[256];
    ssize_t n = read(p->up[0], said, sizeof said - 1);
    if (n == 1 && said[0] == 'g')
        return 0;
    said[n > 0 ? n : 0] = 0;
    return errmsg_set(msg, ERR_UNSUPPORTED, "%s", n > 0 ? said : "the command's process has died");
}

int command_fork(const struct wire_spec *spec, struct command *c, struct errmsg *msg) {
    struct pipes p = {{-1, -1}, {-1, -1}, {-1, -1}};
    pid_t pid = -1;
    int r;
    if (pipe2(p.up, O_CLOEXEC) < 0 || pipe2(p.go, O_CLOEXEC) < 0 || pipe2(p.result, O_CLOEXEC) < 0) {
        r = errmsg_errno(msg, ERR_IO, "pipe");
        goto out;
    }
    pid = (pid_t)syscall(SYS_clone, (unsigned long)(CLONE_NEWUSER | CLONE_NEWNS | SIGCHLD), NULL, NULL, NULL,
                         NULL);
    if (pid == 0) {
        close(p.up[0]);
        close(p.go[1]);
        close(p.result[0]);
        child(spec, p.up[1], p.go[0], p.result[1]);
    }
    if (pid < 0) {
        r = errmsg_errno(msg, ERR_UNSUPPORTED, "nested user namespace can't be made");
        goto out;
    }
    close(p.up[1]);
    close(p.go[0]);
    close(p.result[1]);
    p.up[1] = p.go[0] = p.result[1] = -1;
    r = prepare(spec, pid, &p, msg);
    if (r == 0) {
        *c = (struct command){.pid = pid, .go = p.go[1], .result = p.result[0]};
        p.go[1] = p.result[0] = -1;
    }
out:
    if (r && pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    close_pipes(&p);
    return r;
}

int command_go(struct command *c) {
    int32_t error = 0;
    ssize_t n = -1;
    if (write(c->go, "x", 1) == 1) {
        do
            n = read(c->result, &error, sizeof error);
        while (n < 0 && errno == EINTR);
    }
    close(c->go);
    close(c->result);
    c->go = c->result = -1;
    return n == (ssize_t)sizeof error ? error : 0;
}
