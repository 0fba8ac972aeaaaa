#include "proxy/process/state.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

static char *joined(const char *a, const char *b) {
    char *path = NULL;
    return asprintf(&path, "%s/%s", a, b) < 0 ? NULL : path;
}

char *state_path(const char *named, struct errmsg *msg) {
    char *path = NULL;
    const char *xdg = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    if (named && named[0] == '/') {
        path = strdup(named);
    } else if (named) {
        char *cwd = getcwd(NULL, 0);
        path = cwd ? joined(cwd, named) : NULL;
        free(cwd);
    } else if (xdg && xdg[0] == '/') {
        path = joined(xdg, "exeat");
    } else {
        struct passwd *user = home && home[0] == '/' ? NULL : getpwuid(getuid());
        if (user)
            home = user->pw_dir;
        if (!home || home[0] != '/') {
            errmsg_set(msg, ERR_NOTFOUND,
                       "there is no home directory to keep the state in: set HOME, or give --state DIR");
            return NULL;
        }
        path = joined(home, ".local/state/exeat");
    }
    if (!path)
        errmsg_errno(msg, ERR_NOMEM, "state directory's path");
    return path;
}

/* Every folder on the way that is missing. */
static int make_folders(char *path, struct errmsg *msg) {
    for (char *p = path + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char kept = *p;
        *p = 0;
        struct stat st;
        int r = 0;
        if (stat(path, &st) < 0 && mkdir(path, 0700) < 0 && errno != EEXIST)
            r = errmsg_errno(msg, ERR_IO, "state directory: %s can't be made (give another by --state DIR)",
                             path);
        *p = kept;
        if (r < 0 || !kept)
            return r;
    }
}

int state_open(const char *path, struct errmsg *msg) {
    char *copy = strdup(path);
    if (!copy) {
        errmsg_set(msg, ERR_NOMEM, "out of memory");
        return -1;
    }
    int r = make_folders(copy, msg);
    free(copy);
    if (r < 0)
        return -1;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        errmsg_errno(msg, ERR_IO, "state directory %s can't be opened (give another by --state DIR)", path);
        return -1;
    }
    return fd;
}

int state_open_log(int dirfd, const char *path, const char *named, struct errmsg *msg) {
    int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY;
    int fd = named ? open(named, flags, 0600) : openat(dirfd, STATE_LOG_FILE, flags | O_NOFOLLOW, 0600);
    if (fd < 0) {
        if (named)
            errmsg_errno(msg, ERR_IO,
                         "decision log %s can't be opened for writing (give another by --log FILE)", named);
        else
            errmsg_errno(msg, ERR_IO,
                         "decision log %s/" STATE_LOG_FILE
                         " can't be opened for writing (give another by --log FILE)",
                         path);
    }
    return fd;
}

void state_end_line(int log_fd) {
    char path[32], last = '\n';
    struct stat st;
    if (fstat(log_fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", log_fd); /* which is open for writing alone */
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (pread(fd, &last, 1, st.st_size - 1) == 1 && last != '\n' && write(log_fd, "\n", 1) < 0)
        log_warn("the last line of the decision log has no end");
    close(fd);
}
