#include "netns/walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/heap.h"

#define THREADS_MAX    4
#define THREAD_FOLDERS 128 /* fewer are read in the time that a thread takes to begin */
#define NAMES_MAX      ((size_t)WALK_ENTRIES * PATH_MAX)

/*
 * One level after the other. Its folders' paths below the top stand one behind the other, each with a NUL: threads take them in turn, and
 * add what they find, with the lock. The time goes into opening and reading folders, which is done without it.
 */
struct walk {
    pthread_mutex_t lock;
    int top;
    int levels; /* below this one */
    unsigned budget;
    bool failed;
    struct buf now, below, sockets;
    size_t at;       /* in `now` */
    size_t nfolders; /* in `below` */
};

static unsigned char type_of(int dir, const struct dirent64 *e) {
    struct stat st;
    /* some file systems leave it to us to look */
    if (e->d_type == DT_UNKNOWN && fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return S_ISDIR(st.st_mode) ? DT_DIR : S_ISSOCK(st.st_mode) ? DT_SOCK : DT_UNKNOWN;
    return e->d_type;
}

/* What a call has read of the folder at `path`. */
static void take_entries(struct walk *w, int dir, const char *path, const char *memory, ssize_t n) {
    const struct dirent64 *e;
    for (ssize_t at = 0; w->budget && at < n; at += e->d_reclen) {
        e = (const struct dirent64 *)(memory + at);
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        w->budget--;
        unsigned char type = type_of(dir, e);
        bool folder = type == DT_DIR && w->levels > 0;
        if ((type != DT_SOCK && !folder) || strlen(path) + 1 + strlen(e->d_name) >= PATH_MAX)
            continue;
        struct buf *list = folder ? &w->below : &w->sockets;
        if (*path) {
            buf_puts(list, path);
            buf_putc(list, '/');
        }
        buf_puts(list, e->d_name);
        buf_putc(list, 0);
        w->nfolders += folder;
    }
}

/* The next folder, or NULL. */
static const char *take_folder(struct walk *w) {
    struct slice rest = slice_from(buf_slice(&w->now), w->at);
    if (rest.n == 0 || w->budget == 0)
        return NULL;
    w->at += strlen(rest.p) + 1;
    return rest.p;
}

static void *read_folders(void *arg) {
    _Alignas(struct dirent64) char memory[32768];
    struct walk *w = arg;
    const char *path;
    pthread_mutex_lock(&w->lock);
    while ((path = take_folder(w))) {
        pthread_mutex_unlock(&w->lock);
        /* a link that has taken a folder's place higher up leads to names that the caller looks at again */
        int fd =
            openat(w->top, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        bool more = fd >= 0;
        while (more) {
            ssize_t n = getdents64(fd, memory, sizeof memory);
            pthread_mutex_lock(&w->lock);
            take_entries(w, fd, path, memory, n);
            more = n > 0 && w->budget;
            pthread_mutex_unlock(&w->lock);
        }
        if (fd >= 0)
            close(fd);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static size_t helpers(size_t folders) {
    cpu_set_t cpus;
    size_t n = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? (size_t)CPU_COUNT(&cpus) : 1;
    n = n < THREADS_MAX ? n : THREADS_MAX;
    n = n < folders / THREAD_FOLDERS ? n : folders / THREAD_FOLDERS;
    return n ? n - 1 : 0;
}

/* Reads the folders in `now`; then those that were found in them are there. */
static void read_level(struct walk *w) {
    pthread_t threads[THREADS_MAX];
    size_t n = 0, want = helpers(w->nfolders);
    w->at = 0;
    w->nfolders = 0;
    if (want)
        heap_one();
    while (n < want && pthread_create(&threads[n], NULL, read_folders, w) == 0)
        n++;
    read_folders(w);
    while (n > 0)
        pthread_join(threads[--n], NULL);
    w->failed |= w->below.failed;
    struct buf done = w->now;
    w->now = w->below;
    w->below = done;
    buf_clear(&w->below);
}

static int tell(const struct walk *w, const char *dir, int (*each)(void *arg, const char *path), void *arg) {
    struct slice all = buf_slice(&w->sockets);
    char path[PATH_MAX];
    int r = 0;
    for (size_t at = 0; r == 0 && at < all.n; at += strlen(all.p + at) + 1)
        if (snprintf(path, sizeof path, "%s/%s", dir, all.p + at) < (int)sizeof path)
            r = each(arg, path);
    return r;
}

int walk_sockets(const char *dir, int depth, int (*each)(void *arg, const char *path), void *arg,
                 struct errmsg *msg) {
    struct walk w = {.lock = PTHREAD_MUTEX_INITIALIZER, .budget = WALK_ENTRIES, .nfolders = 1};
    w.top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w.top < 0)
        return 0;
    buf_init(&w.now, NAMES_MAX);
    buf_init(&w.below, NAMES_MAX);
    buf_init(&w.sockets, NAMES_MAX);
    buf_putc(&w.now, 0); /* the top itself */
    for (w.levels = depth - 1; w.levels >= 0 && buf_len(&w.now); w.levels--)
        read_level(&w);
    int r = w.failed || w.now.failed || w.sockets.failed
                ? errmsg_set(msg, ERR_NOMEM, "%s: out of memory", dir)
                : tell(&w, dir, each, arg);
    buf_release(&w.now);
    buf_release(&w.below);
    buf_release(&w.sockets);
    close(w.top);
    return r;
}
