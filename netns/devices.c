#include "netns/devices.h"

#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "netns/mountinfo.h"

/* Kept in /dev, where the host has them (glob patterns). */
static const char *const nodes[] = {
    "/dev/null", "/dev/zero", "/dev/full",    "/dev/random", "/dev/urandom", "/dev/tty", "/dev/fuse",
    "/dev/kvm",  "/dev/kfd",  "/dev/nvidia*", "/dev/dxg",    "/dev/dri",     "/dev/net",
};

static const struct {
    const char *name, *target;
} links[] = {
    {"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
    {"stderr", "/proc/self/fd/2"}, {"core", "/proc/kcore"},
};

/* Settings that reach beyond the sandbox. */
static const char *const settings[] = {
    "/proc/sys",  "/proc/sysrq-trigger", "/proc/irq",  "/proc/bus",    "/proc/fs",
    "/proc/acpi", "/proc/scsi",          "/proc/mtrr", "/proc/driver",
};

/* File systems through which the kernel is set, wherever they are mounted. */
static const char *const kernel_types[] = {"sysfs",       "cgroup",   "cgroup2",   "debugfs",  "tracefs",
                                           "securityfs",  "configfs", "pstore",    "efivarfs", "bpf",
                                           "binfmt_misc", "fusectl",  "selinuxfs", "resctrl"};

static int add_node(const char *dev, const char *path, struct errmsg *msg) {
    struct stat st;
    char to[PATH_MAX];
    if (stat(path, &st) < 0)
        return 0;
    snprintf(to, sizeof to, "%s/%s", dev, path + strlen("/dev/"));
    if (S_ISDIR(st.st_mode)) {
        if (mkdir(to, 0755) < 0)
            return errmsg_errno(msg, ERR_IO, "%s", to);
    } else {
        int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd < 0)
            return errmsg_errno(msg, ERR_IO, "%s", to);
        close(fd);
    }
    int r = mount_bind(path, to, true, msg);
    /* fails where the host itself has it without devices: then it stays as it was */
    if (r == 0)
        (void)mount_attributes(to, 0, MOUNT_ATTR_NODEV, true, NULL);
    return r;
}

static int add_nodes(const char *dev, struct errmsg *msg) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < sizeof nodes / sizeof nodes[0]; i++) {
        glob_t found;
        if (glob(nodes[i], GLOB_NOSORT, NULL, &found))
            continue;
        for (size_t k = 0; r == 0 && k < found.gl_pathc; k++)
            r = add_node(dev, found.gl_pathv[k], msg);
        globfree(&found);
    }
    return r;
}

/* The terminal that the command was started on keeps its name: then it is the host's instance, else a new one. */
static int add_terminals(const char *dev, struct errmsg *msg) {
    char pts[PATH_MAX], ptmx[PATH_MAX];
    struct statfs fs;
    bool inherited = false;
    for (int fd = 0; fd <= 2; fd++)
        inherited = inherited || (fstatfs(fd, &fs) == 0 && fs.f_type == DEVPTS_SUPER_MAGIC);
    snprintf(pts, sizeof pts, "%s/pts", dev);
    snprintf(ptmx, sizeof ptmx, "%s/ptmx", dev);
    if (mkdir(pts, 0755) < 0 || symlink("pts/ptmx", ptmx) < 0)
        return errmsg_errno(msg, ERR_IO, "%s", pts);
    if (inherited) {
        int r = mount_bind("/dev/pts", pts, true, msg);
        if (r == 0)
            (void)mount_attributes(pts, 0, MOUNT_ATTR_NODEV, true, NULL);
        return r;
    }
    if (mount("devpts", pts, "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620,gid=5") <
            0 &&
        mount("devpts", pts, "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620") < 0)
        return errmsg_errno(msg, ERR_IO, "mount on /dev/pts");
    return 0;
}

static int add_own(const char *dev, struct errmsg *msg) {
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", dev, links[i].name);
        if (symlink(links[i].target, path) < 0)
            return errmsg_errno(msg, ERR_IO, "%s", path);
    }
    snprintf(path, sizeof path, "%s/shm", dev);
    int r =
        mkdir(path, 01777) < 0 ? errmsg_errno(msg, ERR_IO, "%s", path) : mount_tmpfs(path, "mode=1777", msg);
    snprintf(path, sizeof path, "%s/mqueue", dev);
    /* the kernel may lack it: then the host has none either */
    if (r == 0 && mkdir(path, 0755) == 0)
        (void)mount("mqueue", path, "mqueue", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    return r;
}

static int setup_dev(struct stage *stage, struct errmsg *msg) {
    char dev[PATH_MAX];
    int r = stage_dir(stage, dev, msg);
    if (r == 0)
        r = mount_tmpfs(dev, "mode=755,size=16m", msg);
    if (r == 0)
        r = add_nodes(dev, msg);
    if (r == 0)
        r = add_terminals(dev, msg);
    if (r == 0)
        r = add_own(dev, msg);
    if (r == 0 && mount(dev, "/dev", NULL, MS_MOVE, NULL) < 0)
        r = errmsg_errno(msg, ERR_IO, "mount on /dev");
    return r;
}

static int setup_settings(struct errmsg *msg) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < sizeof settings / sizeof settings[0]; i++) {
        if (access(settings[i], F_OK) < 0)
            continue;
        r = mount_bind(settings[i], settings[i], true, msg);
        if (r == 0)
            r = mount_attributes(settings[i], MOUNT_ATTR_RDONLY, 0, true, msg);
    }
    return r;
}

static int setup_kernel(struct errmsg *msg) {
    struct mountinfo info;
    int r = mountinfo_read(&info, msg);
    for (size_t i = 0; r == 0 && i < info.n; i++)
        for (size_t k = 0; r == 0 && k < sizeof kernel_types / sizeof kernel_types[0]; k++)
            /* one that is hidden by a later mount can't be named, nor reached */
            if (strcmp(info.list[i].type, kernel_types[k]) == 0 && access(info.list[i].point, F_OK) == 0)
                r = mount_attributes(info.list[i].point, MOUNT_ATTR_RDONLY, 0, false, msg);
    mountinfo_release(&info);
    return r;
}

int devices_setup(struct stage *stage, struct errmsg *msg) {
    int r = mount_attributes("/", MOUNT_ATTR_NODEV, 0, true, msg);
    if (r == 0)
        r = setup_dev(stage, msg);
    if (r == 0)
        r = setup_settings(msg);
    if (r == 0)
        r = setup_kernel(msg);
    return r;
}
