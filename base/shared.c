#include "base/shared.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int map(int fd, size_t size, struct shared *out, struct errmsg *msg) {
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        int r = errmsg_errno(msg, ERR_IO, "mmap");
        close(fd);
        return r;
    }
    *out = (struct shared){p, size, fd};
    return 0;
}

static int make(const char *name, size_t size, struct shared *out, struct errmsg *msg) {
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return errmsg_errno(msg, ERR_IO, "memfd");
    if (ftruncate(fd, (off_t)size) < 0 || fcntl(fd, F_ADD_SEALS, SEALS) < 0) {
        int r = errmsg_errno(msg, ERR_IO, "a file in memory of %zu bytes can't be had", size);
        close(fd);
        return r;
    }
    return map(fd, size, out, msg);
}

/* The memory is all that is needed: descriptors are few, where one process has many sandboxes. */
static int attach(int fd, size_t size, struct shared *out, struct errmsg *msg) {
    struct stat st;
    /* without the seals the other side could cut the file, and reading would be a SIGBUS */
    if (fstat(fd, &st) < 0 || st.st_size != (off_t)size || fcntl(fd, F_GET_SEALS) != SEALS) {
        if (fd >= 0)
            close(fd);
        return errmsg_set(msg, ERR_PEER, "not one of ours");
    }
    int r = map(fd, size, out, msg);
    if (r == 0) {
        close(fd);
        out->fd = -1;
    }
    return r;
}

static void unmap(struct shared *s) {
    munmap(s->p, s->size);
    if (s->fd >= 0)
        close(s->fd);
}

int shared_hold(int fd, const char *name, const char *what, size_t bytes, size_t size, struct shared **out,
                struct errmsg *msg) {
    struct shared *holder = calloc(1, size), memory;
    int r = fd == SHARED_NEW ? make(name, bytes, &memory, msg) : attach(fd, bytes, &memory, msg);
    if (r == 0 && !holder) {
        unmap(&memory);
        r = errmsg_set(msg, ERR_NOMEM, "out of memory");
    }
    if (r) {
        free(holder);
        errmsg_prefix(msg, "%s", what);
        return r;
    }
    *holder = memory;
    *out = holder;
    return 0;
}

void shared_free(struct shared *s) {
    if (s)
        unmap(s);
    free(s);
}
