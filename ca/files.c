#include "ca/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/write.h"

int files_lock(int dirfd, int *lock, struct errmsg *msg) {
    /* a descriptor of its own: the caller's may be O_PATH, and a lock belongs to the open file */
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errmsg_errno(msg, ERR_IO, "the state directory can't be opened");
    int r;
    do
        r = flock(fd, LOCK_EX);
    while (r < 0 && errno == EINTR);
    if (r < 0) {
        errmsg_errno(msg, ERR_IO, "the state directory can't be locked");
        close(fd);
        return ERR_IO;
    }
    *lock = fd;
    return 0;
}

int files_check_dir(int dirfd, struct errmsg *msg) {
    struct stat st;
    if (fstat(dirfd, &st) < 0)
        return errmsg_errno(msg, ERR_IO, "the state directory");
    if (!S_ISDIR(st.st_mode))
        return errmsg_set(msg, ERR_DENIED, "the state directory is no directory");
    if (st.st_uid != geteuid())
        return errmsg_set(msg, ERR_DENIED,
                          "the state directory belongs to user %u, not to user %u who runs exeat",
                          (unsigned)st.st_uid, (unsigned)geteuid());
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return errmsg_set(msg, ERR_DENIED,
                          "others may write to the state directory (mode %03o): chmod go-w takes that away",
                          (unsigned)(st.st_mode & 07777));
    return 0;
}

static int check_file(int fd, const char *name, size_t max, bool private, size_t *size, struct errmsg *msg) {
    struct stat st;
    if (fstat(fd, &st) < 0)
        return errmsg_errno(msg, ERR_IO, "%s", name);
    if (!S_ISREG(st.st_mode))
        return errmsg_set(msg, ERR_DENIED, "%s is no regular file", name);
    if (st.st_uid != geteuid())
        return errmsg_set(msg, ERR_DENIED, "%s belongs to user %u, not to user %u who runs exeat", name,
                          (unsigned)st.st_uid, (unsigned)geteuid());
    if (private && st.st_mode & (S_IRWXG | S_IRWXO))
        return errmsg_set(
            msg, ERR_DENIED,
            "%s is open to others (mode %03o): chmod 600 it if nobody can have read the key, else "
            "remove it and the certificate, and both are made anew",
            name, (unsigned)(st.st_mode & 07777));
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return errmsg_set(msg, ERR_DENIED, "others may write to %s (mode %03o): chmod go-w takes that away",
                          name, (unsigned)(st.st_mode & 07777));
    if (st.st_size < 0 || (size_t)st.st_size > max)
        return errmsg_set(msg, ERR_LIMIT, "%s is larger than %zu bytes", name, max);
    *size = (size_t)st.st_size;
    return 0;
}

int files_read(int dirfd, const char *name, size_t max, bool private, struct secret *out,
               struct errmsg *msg) {
    size_t size = 0;
    /* O_NONBLOCK: a FIFO in the file's place must not hold us up */
    int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        if (errno == ENOENT)
            return ERR_NOTFOUND;
        if (errno == ELOOP)
            return errmsg_set(msg, ERR_DENIED, "%s is a symbolic link", name);
        return errmsg_errno(msg, ERR_IO, "%s can't be opened", name);
    }
    int r = check_file(fd, name, max, private, &size, msg);
    if (r)
        goto out;
    r = secret_reserve(out, size);
    if (r) {
        errmsg_set(msg, r, "%s: %s", name, err_text(r));
        goto out;
    }
    while (out->n < size) {
        ssize_t n = read(fd, out->bytes + out->n, size - out->n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            r = n < 0 ? errmsg_errno(msg, ERR_IO, "%s can't be read", name)
                      : errmsg_set(msg, ERR_IO, "%s became shorter while it was read", name);
            goto out;
        }
        out->n += (size_t)n;
    }
out:
    if (r)
        secret_release(out);
    close(fd);
    return r;
}

int files_write(int dirfd, const char *name, mode_t mode, struct slice bytes, struct errmsg *msg) {
    char fresh[64];
    snprintf(fresh, sizeof fresh, ".%s.new", name);
    /* a fixed name, good since the lock is held: what a crash left behind is taken away by the next one */
    if (unlinkat(dirfd, fresh, 0) < 0 && errno != ENOENT)
        return errmsg_errno(msg, ERR_IO, "%s can't be removed", fresh);
    int fd = openat(dirfd, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0)
        return errmsg_errno(msg, ERR_IO, "%s can't be made", fresh);
    /* the umask may have taken bits of the certificate's mode, which is for all to read */
    if (fchmod(fd, mode) < 0 || write_all(fd, bytes) < 0 || fsync(fd) < 0 ||
        renameat(dirfd, fresh, dirfd, name) < 0) {
        errmsg_errno(msg, ERR_IO, "%s can't be written", name);
        unlinkat(dirfd, fresh, 0);
        close(fd);
        return ERR_IO;
    }
    close(fd);
    int dir = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir >= 0) {
        (void)fsync(dir); /* some file systems can't; the rename has happened all the same */
        close(dir);
    }
    return 0;
}
