#include "proxy/process/sources.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/write.h"

#define MEMORY_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

int sources_init(struct sources *s) {
    *s = (struct sources){.path = getenv("EXEAT_POLICY_PATH")};
    s->cwd = realpath(".", NULL);
    return 0;
}

void sources_release(struct sources *s) {
    free(s->cwd);
    s->cwd = NULL;
}

static int read_all(int fd, struct buf *text, struct errmsg *msg) {
    char chunk[16384];
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            const char *why = strerror(errno);
            return errmsg_set(msg, ERR_IO, "%s", why);
        }
        if (n == 0)
            return 0;
        int r = buf_put(text, slice_make(chunk, (size_t)n));
        if (r < 0)
            return errmsg_set(msg, r, r == ERR_LIMIT ? "the file is too long" : "out of memory");
    }
}

/* The file's own name: its real path, from the working directory on if it lies below. */
static int put_resolved(const struct sources *s, const char *path, struct buf *resolved) {
    char *real = realpath(path, NULL);
    const char *told = real ? real : path; /* a pipe of the shell's has no real path */
    size_t n = s->cwd ? strlen(s->cwd) : 0;
    if (real && n && strncmp(real, s->cwd, n) == 0 && real[n] == '/')
        told = real + n + 1;
    int r = buf_puts(resolved, told);
    free(real);
    return r;
}

/* ERR_NOTFOUND: there is no such file, and the next folder may have it. */
static int try_open(const struct sources *s, const char *path, struct buf *resolved, struct buf *text,
                    struct errmsg *msg) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        int err = errno == ENOENT || errno == ENOTDIR ? ERR_NOTFOUND : ERR_IO;
        const char *why = strerror(errno);
        return errmsg_set(msg, err, "%s", err == ERR_NOTFOUND ? "no such file" : why);
    }
    struct stat st;
    int r = 0;
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
        r = errmsg_set(msg, ERR_IO, "it is a directory; name a file in it");
    if (r == 0)
        r = put_resolved(s, path, resolved);
    if (r == 0)
        r = read_all(fd, text, msg);
    close(fd);
    return r;
}

static int try_folder(const struct sources *s, const char *folder, size_t n, const char *name,
                      struct buf *resolved, struct buf *text, struct errmsg *msg) {
    char path[4096];
    int len = snprintf(path, sizeof path, "%.*s/%s", (int)n, folder, name);
    if (n > 4096 || len < 0 || (size_t)len >= sizeof path)
        return errmsg_set(msg, ERR_LIMIT, "the path is too long");
    return try_open(s, path, resolved, text, msg);
}

static bool has_file(const char *folder, size_t n, const char *name, char path[static 4096]) {
    int len = snprintf(path, 4096, "%.*s/%s", (int)n, folder, name);
    return n < 4096 && len > 0 && len < 4096 && access(path, R_OK) == 0;
}

/* A file of the command line is where it was said to be, or nowhere; but who meant a ready-made one is told its path. */
static void tell_ready_made(const struct sources *s, const char *name, struct errmsg *msg) {
    char path[4096];
    for (const char *p = s->path; p && *p;) {
        size_t n = strcspn(p, ":");
        if (n && has_file(p, n, name, path)) {
            errmsg_set(msg, ERR_NOTFOUND, "no such file here; there is %s", path);
            return;
        }
        p += n + (p[n] == ':');
    }
    if (has_file(EXEAT_POLICYDIR, strlen(EXEAT_POLICYDIR), name, path))
        errmsg_set(msg, ERR_NOTFOUND, "no such file here; there is %s", path);
}

int sources_read(void *arg, const char *from, const char *name, struct buf *resolved, struct buf *text,
                 struct errmsg *msg) {
    const struct sources *s = arg;
    if (!from || name[0] == '/') {
        int err = try_open(s, name, resolved, text, msg);
        if (err == ERR_NOTFOUND && !strchr(name, '/'))
            tell_ready_made(s, name, msg);
        return err;
    }
    const char *slash = strrchr(from, '/');
    int r = slash ? try_folder(s, from, slash == from ? 1 : (size_t)(slash - from), name, resolved, text, msg)
                  : try_open(s, name, resolved, text, msg);
    for (const char *p = s->path; r == ERR_NOTFOUND && p && *p;) {
        size_t n = strcspn(p, ":");
        if (n)
            r = try_folder(s, p, n, name, resolved, text, msg);
        p += n + (p[n] == ':');
    }
    if (r == ERR_NOTFOUND)
        r = try_folder(s, EXEAT_POLICYDIR, strlen(EXEAT_POLICYDIR), name, resolved, text, msg);
    if (r == ERR_NOTFOUND)
        errmsg_set(msg, r, "no such file, neither beside the file that includes it nor in %s%s%s%s",
                   s->path ? s->path : "", s->path ? " nor in " : "", EXEAT_POLICYDIR,
                   s->path ? "" : " (EXEAT_POLICY_PATH names further folders)");
    return r;
}

int memory_file(const char *name, struct slice bytes, struct errmsg *msg) {
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        errmsg_errno(msg, ERR_IO, "%s, a file in memory, can't be made", name);
        return -1;
    }
    if (write_all(fd, bytes) < 0 || fcntl(fd, F_ADD_SEALS, MEMORY_SEALS | F_SEAL_SEAL) < 0) {
        errmsg_errno(msg, ERR_IO, "%s, a file in memory, can't be written", name);
        close(fd);
        return -1;
    }
    return fd;
}

int memory_file_map(int fd, size_t max, struct slice *out) {
    *out = SLICE_NONE;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & MEMORY_SEALS) != MEMORY_SEALS)
        return ERR_PEER;
    struct stat st;
    if (fstat(fd, &st) < 0)
        return ERR_IO;
    if (st.st_size == 0)
        return 0;
    if ((uint64_t)st.st_size > max)
        return ERR_LIMIT;
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return ERR_IO;
    *out = slice_make(p, (size_t)st.st_size);
    return 0;
}

void memory_file_unmap(struct slice *mapped) {
    if (mapped->n)
        munmap((void *)(uintptr_t)mapped->p, mapped->n);
    *mapped = SLICE_NONE;
}
