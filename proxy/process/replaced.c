#include "proxy/process/replaced.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"

/* Of the file, and of the folder that its name is in. */
#define FILE_EVENTS   (IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF)
#define FOLDER_EVENTS (IN_CREATE | IN_MOVED_TO | IN_MOVE_SELF | IN_DELETE_SELF | IN_ONLYDIR)

/* It is held on to: the number of one that is gone could be the next one's. */
struct file {
    char *path;
    int fd;
};

struct replaced {
    int fd;
    struct event *event;
    struct file *files;
    size_t n, room;
    void (*is_replaced)(void *arg, const char *path);
    void *arg;
};

static bool is_there(const struct file *f) {
    struct stat held, there;
    return fstat(f->fd, &held) == 0 && stat(f->path, &there) == 0 && held.st_dev == there.st_dev &&
           held.st_ino == there.st_ino;
}

/* A folder that may not be listed may hold a file that can be read: that its name is lost shows by the file, too. */
static int watch(struct replaced *r, const char *path) {
    char *folder = strdup(path);
    if (!folder)
        return ERR_NOMEM;
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = 0;
    bool watched =
        inotify_add_watch(r->fd, path, FILE_EVENTS | IN_MASK_ADD) >= 0 &&
        (inotify_add_watch(r->fd, slash ? folder : ".", FOLDER_EVENTS | IN_MASK_ADD) >= 0 || errno == EACCES);
    free(folder);
    return watched ? 0 : ERR_IO;
}

static void on_event(evutil_socket_t fd, short what, void *arg) {
    static char events[16384]; /* what they say shows by itself; more of them in the next turn */
    struct replaced *r = arg;
    (void)what;
    (void)!read(fd, events, sizeof events);
    for (size_t i = 0; i < r->n; i++)
        if (!is_there(&r->files[i])) {
            event_del(r->event); /* once is enough */
            r->is_replaced(r->arg, r->files[i].path);
            return;
        }
}

/* What is neither a file nor a folder, a pipe perhaps, is covered by nothing in the first place. */
static bool is_covered(int fd) {
    struct stat st;
    return fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode));
}

static int add(struct replaced *r, const char *path, struct errmsg *msg) {
    struct file *longer = array_room(r->files, r->n, &r->room, sizeof *r->files);
    char *copy = strdup(path);
    if (longer)
        r->files = longer;
    if (!longer || !copy) {
        free(copy);
        return errmsg_set(msg, ERR_NOMEM, "out of memory");
    }
    struct file *f = &r->files[r->n++];
    *f = (struct file){.path = copy, .fd = open(path, O_PATH | O_CLOEXEC)};
    if (f->fd >= 0 && !is_covered(f->fd)) {
        r->n--;
        close(f->fd);
        free(copy);
        return 0;
    }
    return f->fd < 0 || watch(r, path) < 0 ? errmsg_errno(msg, ERR_IO, "%s can't be watched", path) : 0;
}

static int add_all(struct replaced *r, const struct prepared *p, struct errmsg *msg) {
    int result = p->vault ? add(r, p->config->vault, msg) : 0;
    for (size_t i = 0; result == 0 && p->vault && i < vault_count(p->vault); i++) {
        struct vault_source source = vault_source(p->vault, i);
        if (source.kind == VAULT_FROM_FILE)
            result = add(r, source.name, msg);
    }
    return result < 0 ? result : add(r, p->state_dir, msg);
}

int replaced_watch(struct event_base *base, const struct prepared *p,
                   void (*is_replaced)(void *arg, const char *path), void *arg, struct replaced **out,
                   struct errmsg *msg) {
    *out = NULL;
    if (!p->vault && p->config->kind != CONFIG_SERVE)
        return 0;
    struct replaced *r = calloc(1, sizeof *r);
    if (!r)
        return errmsg_set(msg, ERR_NOMEM, "out of memory");
    r->is_replaced = is_replaced;
    r->arg = arg;
    r->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    int result =
        r->fd < 0 ? errmsg_errno(msg, ERR_IO, "files can't be watched (sysctl fs.inotify.max_user_instances)")
                  : add_all(r, p, msg);
    if (result == 0) {
        r->event = event_new(base, r->fd, EV_READ | EV_PERSIST, on_event, r);
        if (!r->event || event_add(r->event, NULL) < 0)
            result = errmsg_set(msg, ERR_NOMEM, "out of memory");
    }
    if (result < 0) {
        replaced_free(r);
        return result;
    }
    *out = r;
    return 0;
}

void replaced_free(struct replaced *r) {
    if (!r)
        return;
    if (r->event)
        event_free(r->event);
    if (r->fd >= 0)
        close(r->fd);
    for (size_t i = 0; i < r->n; i++) {
        if (r->files[i].fd >= 0)
            close(r->files[i].fd);
        free(r->files[i].path);
    }
    free(r->files);
    free(r);
}
