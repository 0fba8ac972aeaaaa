#include "netns/trust.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/addr.h"
#include "base/buf.h"
#include "base/write.h"
#include "netns/mountinfo.h"

/* Directories that OpenSSL, GnuTLS and others search by the hash of a subject. */
static const char *const hashed[] = {
    "/etc/ssl/certs",
    "/usr/lib/ssl/certs",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted/pem/directory-hash",
    "/var/lib/ca-certificates/openssl",
    "/var/lib/ca-certificates/pem",
};

#define COPY_MAX (8u << 20) /* a larger file is bound instead of copied */

struct trust {
    const struct wire_trust *what;
    bool root;
    struct stage *stage;
    struct errmsg *msg;
    char bundle[PATH_MAX]; /* in the stage */
    char done[sizeof hashed / sizeof hashed[0]][PATH_MAX];
    size_t ndone;
};

static bool join(const char *dir, const char *name, char path[PATH_MAX]) {
    return snprintf(path, PATH_MAX, "%s/%s", dir, name) < PATH_MAX;
}

/* The name of `path` where it is right in `dir`, else NULL. */
static const char *name_in(const char *dir, const char *path) {
    size_t n = strlen(dir);
    return strncmp(path, dir, n) == 0 && path[n] == '/' && !strchr(path + n + 1, '/') ? path + n + 1 : NULL;
}

static bool is_bundle(const struct trust *t, const char *path) {
    for (const char **b = t->what->bundle_paths; b && *b; b++)
        if (strcmp(*b, path) == 0)
            return true;
    return false;
}

static int read_file(const char *path, struct buf *out) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return ERR_IO;
    int r;
    for (;;) {
        char *room;
        r = buf_reserve(out, 65536, &room);
        ssize_t n = r ? 0 : read(fd, room, 65536);
        if (r || n == 0)
            break;
        if (n < 0 && errno != EINTR) {
            r = ERR_IO;
            break;
        }
        buf_commit(out, n > 0 ? (size_t)n : 0);
    }
    close(fd);
    return r;
}

/* --- directories of hashed certificates ------------------------------------ */

/* "a94d09e5.0" */
static bool hash_name(const char *name) {
    return strlen(name) >= 10 && strspn(name, "0123456789abcdef") == 8 && name[8] == '.' && name[9] >= '0' &&
           name[9] <= '9';
}

/* The same link in another directory. */
static int copy_link(struct trust *t, int from, int to, const char *name) {
    char target[PATH_MAX];
    ssize_t n = readlinkat(from, name, target, sizeof target - 1);
    target[n > 0 ? n : 0] = 0;
    return n > 0 && symlinkat(target, to, name) < 0 ? errmsg_errno(t->msg, ERR_IO, "%s", name) : 0;
}

static bool is_link(int dir, const struct dirent *e) {
    struct stat st;
    if (e->d_type != DT_UNKNOWN)
        return e->d_type == DT_LNK;
    return fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
}

static int copy_entry(struct trust *t, const char *from, const char *to) {
    struct stat st;
    if (lstat(from, &st) < 0)
        return 0;
    if (S_ISDIR(st.st_mode)) {
        if (mkdir(to, 0755) < 0)
            return errmsg_errno(t->msg, ERR_IO, "%s", to);
        return mount_bind(from, to, true, t->msg);
    }
    if (!S_ISREG(st.st_mode))
        return 0;
    if (is_bundle(t, from))
        return write_new(to, t->what->bundle_pem, 0644, t->msg);
    struct buf b;
    buf_init(&b, COPY_MAX);
    int r = read_file(from, &b);
    if (r == 0)
        r = write_new(to, buf_slice(&b), st.st_mode & 0777, t->msg);
    else if ((r = write_new(to, SLICE_NONE, 0644, t->msg)) == 0)
        r = mount_bind(from, to, false, t->msg);
    buf_release(&b);
    return r;
}

/* Our root in `to`, by the first number of its hash that is free in `dir`. */
static int add_root(struct trust *t, const char *dir, const char *to) {
    char path[PATH_MAX], name[16];
    for (int i = 0; i < 16; i++) {
        snprintf(name, sizeof name, "%08x.%d", t->what->ca_hash, i);
        if (join(dir, name, path) && faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
            return join(to, name, path) ? write_new(path, t->what->ca_pem, 0644, t->msg)
                                        : errmsg_set(t->msg, ERR_LIMIT, "%s: too long a path", to);
    }
    return errmsg_set(t->msg, ERR_LIMIT, "%s: no name is free for the root certificate", dir);
}

/* A copy of `dir` with our root in it, made in `copy`. Nearly all are links: two for each of a hundred and fifty roots. */
static int copy_directory(struct trust *t, const char *dir, const char *copy) {
    DIR *d = opendir(dir);
    int to_fd = open(copy, O_PATH | O_DIRECTORY | O_CLOEXEC), r = 0;
    for (struct dirent *e; r == 0 && d && (e = readdir(d));) {
        char from[PATH_MAX], to[PATH_MAX];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (!join(dir, e->d_name, from) || !join(copy, e->d_name, to))
            continue;
        r = is_link(dirfd(d), e) ? copy_link(t, dirfd(d), to_fd, e->d_name) : copy_entry(t, from, to);
    }
    if (to_fd >= 0)
        close(to_fd);
    if (d)
        closedir(d);
    return r;
}

/* Is there one at all? Copying what will not be used costs. */
static bool has_hashes(const char *dir) {
    DIR *d = opendir(dir);
    bool found = false;
    for (struct dirent *e; d && !found && (e = readdir(d));)
        found = hash_name(e->d_name);
    if (d)
        closedir(d);
    return found;
}

/* A copy laid over the directory, where merging can't be. */
static int lay_copy(struct trust *t, const char *real) {
    char copy[PATH_MAX];
    int r = stage_dir(t->stage, copy, t->msg);
    if (r == 0)
        r = mount_tmpfs(copy, "mode=755,size=64m", t->msg);
    if (r == 0)
        r = copy_directory(t, real, copy);
    if (r == 0)
        r = add_root(t, copy, copy);
    /* as root update-ca-certificates may work in it; for others it is what it was, not theirs to change */
    if (r == 0 && !t->root)
        r = mount_attributes(copy, MOUNT_ATTR_RDONLY, 0, false, t->msg);
    if (r == 0 && mount(copy, real, NULL, MS_MOVE, NULL) < 0)
        r = errmsg_errno(t->msg, ERR_IO, "mount on %s", real);
    return r;
}

/* The system's bundles that are in the directory. */
static int add_bundles(struct trust *t, const char *dir, const char *to) {
    for (const char **b = t->what->bundle_paths; b && *b; b++) {
        char path[PATH_MAX];
        const char *name = name_in(dir, *b);
        if (name && join(to, name, path) && link(t->bundle, path) < 0)
            return errmsg_errno(t->msg, ERR_IO, "%s", path);
    }
    return 0;
}

static int mounts_below(const char *dir, bool *found, struct errmsg *msg) {
    struct mountinfo mounts;
    int r = mountinfo_read(&mounts, msg);
    *found = r == 0 && mountinfo_below(&mounts, dir);
    if (r == 0)
        mountinfo_release(&mounts);
    return r;
}

/*
 * What is ours is laid before what is there, of which nothing is copied: with its hundreds of links that took a third of the time
 * in which a sandbox is made, and 300 KiB of the kernel's memory. What is mounted inside may be a cover of ours: then, and where
 * the kernel refuses, ERR_UNSUPPORTED.
 */
static int merge_directory(struct trust *t, const char *real) {
    char top[PATH_MAX], changes[PATH_MAX], name[16];
    bool covered;
    int r = mounts_below(real, &covered, t->msg);
    if (r || covered)
        return r ? r : ERR_UNSUPPORTED;
    r = stage_dir(t->stage, top, t->msg);
    if (r == 0)
        r = add_root(t, real, top);
    if (r == 0)
        r = add_bundles(t, real, top);
    if (r || !t->root)
        return r ? r : mount_merged(top, real, NULL);
    /* root changes it as it likes */
    snprintf(name, sizeof name, "%zu", t->ndone);
    if (!join(t->stage->scratch, name, changes) || mkdir(changes, 0755) < 0)
        return errmsg_errno(t->msg, ERR_IO, "%s", t->stage->scratch);
    return mount_merged(top, real, changes);
}

static int trust_directory(struct trust *t, const char *path) {
    char real[PATH_MAX];
    struct stat st;
    if (!realpath(path, real) || stat(real, &st) < 0 || !S_ISDIR(st.st_mode) || !has_hashes(real))
        return 0;
    for (size_t i = 0; i < t->ndone; i++)
        if (strcmp(t->done[i], real) == 0)
            return 0;
    int r = merge_directory(t, real);
    if (r == ERR_UNSUPPORTED)
        r = lay_copy(t, real);
    memcpy(t->done[t->ndone++], real, sizeof real);
    return r;
}

/* --- files ----------------------------------------------------------------- */

static int lay_over(struct trust *t, const char *path, const char *source) {
    char real[PATH_MAX];
    struct stat st;
    if (!realpath(path, real) || stat(real, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    return mount_bind(source, real, false, t->msg);
}

static int trust_bundles(struct trust *t) {
    for (const char **b = t->what->bundle_paths; b && *b; b++) {
        char real[PATH_MAX];
        bool copied = false;
        if (!realpath(*b, real))
            continue;
        /* in a directory of hashed certificates it is there as a file, which update-ca-certificates can replace */
        for (size_t i = 0; i < t->ndone; i++)
            copied = copied || (is_bundle(t, real) && name_in(t->done[i], real));
        int r = copied ? 0 : lay_over(t, real, t->bundle);
        if (r)
            return r;
    }
    return 0;
}

static int trust_overlays(struct trust *t) {
    for (size_t i = 0; i < t->what->noverlays; i++) {
        char source[PATH_MAX];
        int r = stage_file(t->stage, NULL, t->what->overlays[i].bytes, 0444, source, t->msg);
        if (r == 0)
            r = lay_over(t, t->what->overlays[i].path, source);
        if (r)
            return r;
    }
    return 0;
}

static int names_resolver(struct trust *t) {
    char source[PATH_MAX];
    int r = stage_file(t->stage, NULL, SLICE(TRUST_RESOLV_CONF), 0444, source, t->msg);
    return r ? r : lay_over(t, "/etc/resolv.conf", source);
}

/*
 * The C library's own table is older than RFC 6724 (2.1) and prefers a ULA to IPv4, as nobody else does: musl and Go have this
 * one. Both addresses of a name lead to the same listener here, and IPv4 is the shorter way.
 */
static int names_preference(struct trust *t) {
    static const char table[] = "# exeat: RFC 6724, 2.1\n"
                                "precedence ::1/128 50\nprecedence ::/0 40\nprecedence ::ffff:0:0/96 35\n"
                                "precedence 2002::/16 30\nprecedence 2001::/32 5\nprecedence fc00::/7 3\n"
                                "precedence ::/96 1\nprecedence fec0::/10 1\nprecedence 3ffe::/16 1\n";
    char source[PATH_MAX];
    int r = stage_file(t->stage, NULL, SLICE(table), 0444, source, t->msg);
    return r ? r : lay_over(t, "/etc/gai.conf", source);
}

/* Only what names loopback stays: other hosts must get the address that stands for their name. */
static void keep_local(struct slice text, const char *self, struct buf *out) {
    bool named = false, more = true;
    while (more) {
        struct slice line, literal;
        struct addr addr;
        more = slice_cut(text, '\n', &line, &text);
        struct slice words = slice_trim(line);
        literal = slice_sub(words, 0, strcspn(words.n ? words.p : "", " \t\n#"));
        if (!addr_parse(slice_sub(words, 0, literal.n), 0, &addr) || addr_kind(&addr) != ADDR_LOOPBACK)
            continue;
        buf_put(out, line);
        buf_putc(out, '\n');
        named = named || (self[0] && line.n >= strlen(self) && memmem(line.p, line.n, self, strlen(self)));
    }
    if (self[0] && !named)
        buf_printf(out, "127.0.1.1\t%s\n", self);
}

static int names_hosts(struct trust *t) {
    struct buf in, out;
    char source[PATH_MAX], self[HOST_NAME_MAX + 1] = "";
    buf_init(&in, COPY_MAX);
    buf_init(&out, COPY_MAX);
    gethostname(self, sizeof self - 1);
    int r = 0;
    if (read_file("/etc/hosts", &in) == 0) {
        /* NUL-terminated: words are looked for with strcspn */
        const char *text = buf_cstr(&in);
        if (text)
            keep_local(buf_slice(&in), self, &out);
        r = text && !out.failed ? 0 : errmsg_set(t->msg, ERR_NOMEM, "/etc/hosts: out of memory");
        if (r == 0)
            r = stage_file(t->stage, NULL, buf_slice(&out), 0444, source, t->msg);
        if (r == 0)
            r = lay_over(t, "/etc/hosts", source);
    }
    buf_release(&in);
    buf_release(&out);
    return r;
}

int trust_setup(const struct wire_trust *what, bool root, struct stage *stage, struct errmsg *msg) {
    struct trust t = {.what = what, .root = root, .stage = stage, .msg = msg};
    int r = stage_file(stage, SANDBOX_CA, what->ca_pem, 0444, t.bundle, msg);
    if (r == 0)
        r = stage_file(stage, SANDBOX_BUNDLE, what->bundle_pem, 0444, t.bundle, msg);
    for (size_t i = 0; r == 0 && i < sizeof hashed / sizeof hashed[0]; i++)
        r = trust_directory(&t, hashed[i]);
    if (r == 0)
        r = trust_bundles(&t);
    if (r == 0)
        r = trust_overlays(&t);
    if (r == 0)
        r = names_resolver(&t);
    if (r == 0)
        r = names_preference(&t);
    if (r == 0)
        r = names_hosts(&t);
    return r;
}
