#include "proxy/process/service_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static int address(const char *state_dir, struct sockaddr_un *a, struct errmsg *msg) {
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(a->sun_path, sizeof a->sun_path, "%s/" SERVICE_SOCKET, state_dir);
    if (n < 0 || (size_t)n >= sizeof a->sun_path)
        return errmsg_set(
            msg, ERR_LIMIT,
            "the path of the state directory is too long for a socket in it: give one of at most "
            "%zu bytes by --state DIR: %s",
            sizeof a->sun_path - sizeof "/" SERVICE_SOCKET, state_dir);
    return 0;
}

/* Who has it is the one service of this directory, and whatever socket is there is nobody's. */
static int lock_state(const char *state_dir, int state_fd, struct errmsg *msg) {
    int fd = openat(state_fd, SERVICE_LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    if (fd >= 0 && errno == EWOULDBLOCK)
        errmsg_set(
            msg, ERR_EXISTS,
            "another service works with %s already: give this one a directory of its own by --state DIR",
            state_dir);
    else
        errmsg_errno(msg, ERR_IO, "%s/" SERVICE_LOCK, state_dir);
    if (fd >= 0)
        close(fd);
    return -1;
}

int service_listen(const char *state_dir, int state_fd, int *lock, struct errmsg *msg) {
    struct sockaddr_un a;
    *lock = -1;
    if (address(state_dir, &a, msg) < 0 || (*lock = lock_state(state_dir, state_fd, msg)) < 0)
        return -1;
    service_unlisten(state_fd, *lock);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && chmod(a.sun_path, 0600) == 0 &&
        listen(fd, SOMAXCONN) == 0)
        return fd;
    errmsg_errno(msg, ERR_IO, "%s", a.sun_path);
    service_unlisten(state_fd, *lock);
    if (fd >= 0)
        close(fd);
    return -1;
}

void service_unlisten(int state_fd, int lock) {
    struct stat ours, there;
    if (fstat(lock, &ours) == 0 && fstatat(state_fd, SERVICE_LOCK, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        ours.st_dev == there.st_dev && ours.st_ino == there.st_ino)
        (void)unlinkat(state_fd, SERVICE_SOCKET, 0);
}

int service_connect(const char *state_dir, struct errmsg *msg) {
    static const struct timeval limit = {.tv_sec = SERVICE_CONNECT_S};
    struct sockaddr_un a;
    if (address(state_dir, &a, msg) < 0)
        return -1;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    bool there = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0 &&
                 connect(fd, (struct sockaddr *)&a, sizeof a) == 0;
    if (there && !service_same_user(fd))
        errmsg_set(
            msg, ERR_DENIED,
            "the service at %s is another user's, which would see all that the sandbox sends: start one "
            "of your own by 'exeat serve', with another --state",
            a.sun_path);
    else if (there && fcntl(fd, F_SETFL, O_NONBLOCK) == 0)
        return fd;
    else if (errno == ENOENT || errno == ECONNREFUSED)
        errmsg_set(msg, ERR_NOTFOUND,
                   "no service works with %s: start one by 'exeat serve', with the same --state, or run "
                   "without --service",
                   state_dir);
    else if (errno == EAGAIN)
        errmsg_set(msg, ERR_TIMEOUT, "the service at %s does not answer", a.sun_path);
    else
        errmsg_errno(msg, ERR_IO, "the service at %s can't be reached", a.sun_path);
    if (fd >= 0)
        close(fd);
    return -1;
}

bool service_same_user(int fd) {
    struct ucred peer;
    socklen_t n = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && peer.uid == geteuid();
}

int service_namespace(void) {
    return open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
}

bool service_same_namespace(int fd) {
    struct stat own, other;
    return stat("/proc/self/ns/user", &own) == 0 && fstat(fd, &other) == 0 && own.st_dev == other.st_dev &&
           own.st_ino == other.st_ino;
}
