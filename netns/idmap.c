#include "netns/idmap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"

bool idmap_is_root(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (geteuid() != 0 || syscall(SYS_capget, &header, data) < 0)
        return false;
    unsigned need = 1u << CAP_SETUID | 1u << CAP_SETGID;
    return (data[0].effective & need) == need;
}

static int put_file(pid_t child, const char *name, const char *text, struct errmsg *msg) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)child, name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));
    int saved = errno;
    if (fd >= 0)
        close(fd);
    if (n == (ssize_t)strlen(text))
        return 0;
    errno = n < 0 ? saved : EIO;
    return errmsg_errno(msg, errno == EPERM || errno == EACCES ? ERR_UNSUPPORTED : ERR_IO,
                        "user namespace: ids can't be mapped (%s)", name);
}

/* Every range of our own map, each id to itself. */
static int all_ids(const char *file, struct buf *out, struct errmsg *msg) {
    FILE *f = fopen(file, "re");
    if (!f)
        return errmsg_errno(msg, ERR_IO, "%s", file);
    unsigned inside, outside, count;
    while (fscanf(f, "%u %u %u", &inside, &outside, &count) == 3)
        buf_printf(out, "%u %u %u\n", inside, inside, count);
    fclose(f);
    if (out->failed || buf_len(out) == 0)
        return errmsg_set(msg, ERR_IO, "%s can't be read", file);
    return 0;
}

static int write_map(pid_t child, const char *name, unsigned id, bool root, struct errmsg *msg) {
    char own[64];
    struct buf text;
    buf_init(&text, 16384);
    snprintf(own, sizeof own, "/proc/self/%s", name);
    int r = 0;
    if (root)
        r = all_ids(own, &text, msg);
    else
        buf_printf(&text, "%u %u 1\n", id, id);
    const char *s = r == 0 ? buf_cstr(&text) : NULL;
    if (r == 0)
        r = s ? put_file(child, name, s, msg) : ERR_NOMEM;
    buf_release(&text);
    return r;
}

int idmap_write(pid_t child, bool root, struct errmsg *msg) {
    int r = 0;
    /* without it the kernel lets nobody but root map a group */
    if (!root)
        r = put_file(child, "setgroups", "deny", msg);
    if (r == 0)
        r = write_map(child, "gid_map", getegid(), root, msg);
    if (r == 0)
        r = write_map(child, "uid_map", geteuid(), root, msg);
    return r;
}
