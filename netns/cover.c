#include "netns/cover.h"

#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "netns/mountinfo.h"
#include "netns/walk.h"

/*
 * A file or socket is covered by an empty file, a directory by an empty tmpfs with the same mode. Only what exists is
 * covered: a socket that appears on the host later, in a directory not listed here, is visible inside. That is why the
 * directories where such sockets are born are covered whole.
 */
struct cover {
    const struct wire_spec *spec;
    struct stage *stage;
    struct mountinfo mounts;
    char empty[PATH_MAX]; /* an empty file */
    char dead[PATH_MAX];  /* a socket that nobody listens on */
    dev_t dead_dev;       /* a socket of this file system is a cover already */
    struct errmsg *msg;
};

/* Directories of services, agents, displays and terminal multiplexers: each takes commands from whoever may connect.
 * Patterns of glob(3). */
static const char *const directories[] = {
    "/run/dbus",
    "/run/docker",
    "/run/containerd",
    "/run/podman",
    "/run/crio",
    "/run/buildkit",
    "/run/k3s",
    "/run/libvirt",
    "/run/lxd",
    "/run/incus",
    "/run/snapd",
    "/run/nscd",
    "/run/avahi-daemon",
    "/run/cups",
    "/run/pcscd",
    "/run/rpcbind",
    "/run/screen",
    "/run/uuidd",
    "/run/vmware",
    "/run/sssd",
    "/var/lib/sss/pipes",
    "/var/lib/docker",
    "/tmp/.X11-unix",
    "/tmp/.ICE-unix",
    "/tmp/ssh-?\??\??\??\??\?",
    "/tmp/ssh-?\??\??\??\??\??\?",
    "/tmp/gpg-?\??\??\?",
    "/tmp/keyring-?\??\??\?",
    "/tmp/tmux-[0-9]*",
    "/tmp/screens",
    "/tmp/uscreens",
    "/tmp/emacs[0-9]*",
};

/* Sockets, FIFOs and devices, whether or not the host's list of sockets has them (another net namespace's are not in it). */
static const char *const files[] = {
    "/run/docker.sock",
    "/run/podman.sock",
    "/run/snapd.socket",
    "/run/snapd-snap.socket",
    "/run/acpid.socket",
    "/run/rpcbind.sock",
    "/run/initctl",
    "/dev/initctl",
    "/var/lib/lxd/unix.socket",
    "/var/lib/incus/unix.socket",
    "/var/snap/lxd/common/lxd/unix.socket",
    "/dev/vsock",
    "/dev/vhost-vsock",
    "/dev/vmci",
    "/dev/uinput",
};

static int lay_over(struct cover *c, const char *path, const struct stat *st) {
    char options[128];
    if (!S_ISDIR(st->st_mode))
        return mount_bind(S_ISSOCK(st->st_mode) ? c->dead : c->empty, path, false, c->msg);
    /* as root all owners are mapped; without, the directory is the caller's, or everybody's, or nobody's to write to */
    bool mine = c->spec->root || st->st_uid == geteuid() || st->st_mode & S_IWOTH;
    snprintf(options, sizeof options, "mode=%o,uid=%u,gid=%u,size=64m,nr_inodes=16k",
             (unsigned)st->st_mode & (mine ? 07777 : 01555),
             c->spec->root ? (unsigned)st->st_uid : (unsigned)geteuid(),
             c->spec->root ? (unsigned)st->st_gid : (unsigned)getegid());
    return mount_tmpfs(path, options, c->msg);
}

static int cover_one(void *arg, const char *path) {
    struct cover *c = arg;
    struct stat st;
    int r = 0;
    /* What the host takes away and makes anew between the look and the mount is looked at again. */
    for (int tries = 0; tries < 10; tries++) {
        if (lstat(path, &st) < 0 || S_ISLNK(st.st_mode))
            return 0;
        if (S_ISSOCK(st.st_mode) && st.st_dev == c->dead_dev)
            return 0;
        r = lay_over(c, path, &st);
        if (r == 0)
            return 0;
    }
    return r;
}

/* Covers one path and its aliases. What is not there, or not for us to see, needs no cover: the command may see
 * no more than we do. */
static int cover_path(struct cover *c, const char *path) {
    char real[PATH_MAX];
    if (!realpath(path, real))
        return 0;
    int r = mountinfo_aliases(&c->mounts, real, cover_one, c);
    if (r == 0)
        r = cover_one(c, real);
    if (r)
        errmsg_prefix(c->msg, "cover");
    return r;
}

static int cover_socket(void *arg, const char *path) {
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
        return 0;
    return cover_path(arg, path);
}

static int cover_glob(struct cover *c, const char *pattern) {
    glob_t found;
    struct stat st;
    int r = 0;
    if (glob(pattern, GLOB_NOSORT, NULL, &found))
        return 0;
    for (size_t i = 0; r == 0 && i < found.gl_pathc; i++)
        if (stat(found.gl_pathv[i], &st) == 0 && S_ISDIR(st.st_mode))
            r = cover_path(c, found.gl_pathv[i]);
    globfree(&found);
    return r;
}

/* Directories of the user's own: the runtime directory, for root everybody's (a new one each, for programs want to
 * have it), and the agent's. */
static int cover_runtime(struct cover *c) {
    char path[64];
    const char *xdg = getenv("XDG_RUNTIME_DIR");
    struct stat st;
    int r = 0;
    /* as the specification wants it to be; where somebody has set it to /tmp, that stays what it is */
    if (xdg && xdg[0] == '/' && stat(xdg, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == getuid() &&
        (st.st_mode & 077) == 0)
        r = cover_path(c, xdg);
    snprintf(path, sizeof path, "/run/user/%u", (unsigned)getuid());
    /* where ssh-agent puts its sockets since OpenSSH 10.1 */
    const char *home = getenv("HOME");
    char agent[PATH_MAX];
    if (r == 0 && home && home[0] == '/' &&
        snprintf(agent, sizeof agent, "%s/.ssh/agent", home) < (int)sizeof agent)
        r = cover_path(c, agent);
    if (r == 0)
        r = c->spec->root ? cover_glob(c, "/run/user/*") : cover_path(c, path);
    return r;
}

/* A second /proc shows the host's processes; namespaces bar most of it, root's sysctls they do not. */
static int cover_procs(struct cover *c) {
    for (size_t i = 0; i < c->mounts.n; i++) {
        const struct mount *m = &c->mounts.list[i];
        if (strcmp(m->type, "proc") || strcmp(m->point, "/proc") == 0 || strncmp(m->point, "/proc/", 6) == 0)
            continue;
        int r = cover_one(c, m->point);
        if (r)
            return r;
    }
    return 0;
}

/* On a tmpfs that stays writable, or connect would say that it can't be written to, and not that nobody is there. */
static int dead_socket(struct cover *c) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    const char *dir = c->stage->scratch;
    int r = 0;
    /* by a short name, sun_path holds no more */
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int back = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    a.sun_path[0] = 's';
    if (fd < 0 || back < 0 || chdir(dir) < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 ||
        chmod("s", 0666) < 0)
        r = errmsg_errno(c->msg, ERR_IO, "cover: socket");
    if (back >= 0 && fchdir(back) < 0 && r == 0)
        r = errmsg_errno(c->msg, ERR_IO, "cover: working directory");
    if (fd >= 0)
        close(fd);
    if (back >= 0)
        close(back);
    struct stat st;
    if (snprintf(c->dead, sizeof c->dead, "%s/s", dir) >= (int)sizeof c->dead)
        r = errmsg_set(c->msg, ERR_LIMIT, "cover: too long a path");
    if (r == 0 && lstat(c->dead, &st) < 0)
        r = errmsg_errno(c->msg, ERR_IO, "cover: socket");
    if (r == 0)
        c->dead_dev = st.st_dev;
    return r;
}

static int cover_lists(struct cover *c) {
    int r = 0;
    for (const char **p = c->spec->cover; r == 0 && p && *p; p++)
        r = cover_path(c, *p);
    if (r == 0)
        r = cover_runtime(c);
    for (size_t i = 0; r == 0 && i < sizeof directories / sizeof directories[0]; i++)
        r = cover_glob(c, directories[i]);
    for (size_t i = 0; r == 0 && i < sizeof files / sizeof files[0]; i++)
        r = cover_path(c, files[i]);
    for (const char **p = c->spec->sockets; r == 0 && p && *p; p++)
        r = cover_socket(c, *p);
    if (r == 0)
        r = walk_sockets("/run", 5, cover_socket, c, c->msg);
    if (r == 0)
        r = walk_sockets("/tmp", 3, cover_socket, c, c->msg);
    if (r == 0)
        r = cover_procs(c);
    return r;
}

int cover_aliases(const struct wire_spec *spec, const char *path, struct errmsg *msg) {
    struct cover c = {.spec = spec, .msg = msg};
    int r = mountinfo_read(&c.mounts, msg);
    if (r == 0)
        r = mountinfo_aliases(&c.mounts, path, cover_one, &c);
    mountinfo_release(&c.mounts);
    return r;
}

int cover_all(const struct wire_spec *spec, struct stage *stage, struct errmsg *msg) {
    struct cover c = {.spec = spec, .stage = stage, .msg = msg};
    int r = mountinfo_read(&c.mounts, msg);
    if (r == 0)
        r = stage_file(stage, NULL, SLICE_NONE, 0444, c.empty, msg);
    if (r == 0)
        r = dead_socket(&c);
    if (r == 0)
        r = cover_lists(&c);
    mountinfo_release(&c.mounts);
    return r;
}
