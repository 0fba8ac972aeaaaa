#include "base/write.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int write_all(int fd, struct slice bytes) {
    while (bytes.n) {
        ssize_t n = write(fd, bytes.p, bytes.n);
        if (n < 0 && errno != EINTR)
            return ERR_IO;
        if (n > 0)
            bytes = slice_from(bytes, (size_t)n);
    }
    return 0;
}

int write_new(const char *path, struct slice bytes, unsigned mode, struct errmsg *msg) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0)
        return errmsg_errno(msg, ERR_IO, "%s", path);
    int r = write_all(fd, bytes);
    if (r)
        errmsg_errno(msg, r, "%s", path);
    close(fd);
    return r;
}
