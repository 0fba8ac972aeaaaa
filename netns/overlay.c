#include "netns/overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/write.h"

int mount_error(struct errmsg *msg, const char *what, const char *path) {
    return errmsg_errno(msg, errno == EPERM || errno == EACCES ? ERR_UNSUPPORTED : ERR_IO, "%s %s", what,
                        path);
}

int mount_bind(const char *source, const char *target, bool recursive, struct errmsg *msg) {
    if (mount(source, target, NULL, MS_BIND | (recursive ? MS_REC : 0), NULL) < 0)
        return mount_error(msg, "mount over", target);
    return 0;
}

int mount_attributes(const char *path, uint64_t set, uint64_t clear, bool recursive, struct errmsg *msg) {
    struct mount_attr attr = {.attr_set = set, .attr_clr = clear};
    if (mount_setattr(AT_FDCWD, path, recursive ? AT_RECURSIVE : 0, &attr, sizeof attr) < 0)
        return mount_error(msg, "mount attributes of", path);
    return 0;
}

int mount_tmpfs(const char *path, const char *options, struct errmsg *msg) {
    if (mount("exeat", path, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
        return mount_error(msg, "mount on", path);
    return 0;
}

int mount_merged(const char *top, const char *target, const char *changes) {
    char options[4 * PATH_MAX + 128], upper[PATH_MAX], work[PATH_MAX];
    static const char special[] = ":,\\\"";
    if (strpbrk(top, special) || strpbrk(target, special) || (changes && strpbrk(changes, special)))
        return ERR_UNSUPPORTED;
    int n = snprintf(options, sizeof options, "lowerdir=%s:%s", top, target);
    if (changes) {
        if (snprintf(upper, sizeof upper, "%s/upper", changes) >= (int)sizeof upper ||
            snprintf(work, sizeof work, "%s/work", changes) >= (int)sizeof work || mkdir(upper, 0755) < 0 ||
            mkdir(work, 0755) < 0)
            return ERR_UNSUPPORTED;
        snprintf(options + n, sizeof options - (size_t)n, ",upperdir=%s,workdir=%s,userxattr", upper, work);
    }
    unsigned long flags = MS_NOSUID | MS_NODEV | (changes ? 0 : MS_RDONLY);
    return mount("exeat", target, "overlay", flags, options) < 0 ? ERR_UNSUPPORTED : 0;
}

int stage_file(struct stage *stage, const char *name, struct slice bytes, unsigned mode, char *path,
               struct errmsg *msg) {
    int n = name ? snprintf(path, PATH_MAX, "%s/%s", stage->dir, name)
                 : snprintf(path, PATH_MAX, "%s/.%u", stage->dir, stage->next++);
    if (n >= PATH_MAX)
        return errmsg_set(msg, ERR_LIMIT, "%s: too long a path", stage->dir);
    return write_new(path, bytes, mode, msg);
}

int stage_dir(struct stage *stage, char *path, struct errmsg *msg) {
    if (snprintf(path, PATH_MAX, "%s/.%u", stage->dir, stage->next++) >= PATH_MAX)
        return errmsg_set(msg, ERR_LIMIT, "%s: too long a path", stage->dir);
    return mkdir(path, 0755) < 0 ? errmsg_errno(msg, ERR_IO, "%s", path) : 0;
}

int stage_scratch(struct stage *stage, struct errmsg *msg) {
    int r = stage_dir(stage, stage->scratch, msg);
    return r ? r : mount_tmpfs(stage->scratch, "mode=755,size=64m,nr_inodes=16k", msg);
}

int stage_seal(const struct stage *stage, struct errmsg *msg) {
    /* that mount alone: unmounting it would wait for a grace period of RCU, 4 ms on a machine that is busy */
    int r = mount_attributes(stage->scratch, MOUNT_ATTR_RDONLY, 0, false, msg);
    if (r == 0 && mount(NULL, stage->dir, NULL, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0)
        r = mount_error(msg, "remount of", stage->dir);
    return r;
}
