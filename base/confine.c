#include "base/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/filter.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CONFINE_FILTER 0
#else
#define CONFINE_FILTER 1
#endif

int confine_begin(pid_t parent, struct errmsg *msg) {
    struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_CORE, &none) < 0)
        return errmsg_errno(msg, ERR_IO, "core dumps can't be turned off");
    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        return errmsg_errno(msg, ERR_IO, "process can't be made untraceable");
    if (parent) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
            return errmsg_errno(msg, ERR_IO, "parent's death can't be watched");
        /* it may have died before the line above */
        if (getppid() != parent)
            return errmsg_set(msg, ERR_EOF, "parent process is gone");
    }
    return 0;
}

/* Every capability, of the bounding set too where permitted. */
static int drop_capabilities(struct errmsg *msg) {
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    for (int cap = 0; cap <= 63; cap++)
        if (prctl(PR_CAPBSET_READ, cap) == 1)
            (void)prctl(PR_CAPBSET_DROP,
                        cap); /* fails without CAP_SETPCAP: then there is nothing to gain by it either */
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0, 0, 0}, {0, 0, 0}};
    if (syscall(SYS_capset, &header, data) < 0)
        return errmsg_errno(msg, ERR_IO, "capabilities can't be dropped");
    return 0;
}

int confine_landlock_abi(void) {
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1 /* LANDLOCK_CREATE_RULESET_VERSION */);
    return abi < 0 ? 0 : (int)abi;
}

/* The kernel's current layout; older headers know a shorter one, and older kernels take a shorter size. */
struct ruleset_attr {
    uint64_t handled_access_fs;
    uint64_t handled_access_net;
    uint64_t scoped;
};

/* Of a build with sanitizers: their search for leaks finds the process's threads and mappings in /proc. */
static int landlock_permit_proc(int ruleset) {
    if (CONFINE_FILTER)
        return 0;
    struct landlock_path_beneath_attr attr = {
        .allowed_access = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
        .parent_fd = open("/proc", O_PATH | O_CLOEXEC),
    };
    if (attr.parent_fd < 0)
        return -1;
    long r = syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &attr, 0);
    int saved = errno;
    close(attr.parent_fd);
    errno = saved;
    return (int)r;
}

static int confine_landlock(enum confine_role role, struct errmsg *msg) {
    int abi = confine_landlock_abi();
    if (abi < 1)
        return errmsg_set(
            msg, ERR_UNSUPPORTED,
            "this kernel has no Landlock (since Linux 5.13, CONFIG_SECURITY_LANDLOCK, lsm=landlock,…)");
    struct ruleset_attr attr = {.handled_access_fs = 0x1fff}; /* the 13 rights of ABI 1 */
    size_t size = sizeof attr.handled_access_fs;
    if (abi >= 2)
        attr.handled_access_fs |= 1ull << 13; /* REFER */
    if (abi >= 3)
        attr.handled_access_fs |= 1ull << 14; /* TRUNCATE */
    if (abi >= 4) {
        size += sizeof attr.handled_access_net;
        /* nobody binds TCP; the keeper connects nowhere either */
        attr.handled_access_net = role == CONFINE_KEEPER ? 3 : 1;
    }
    if (abi >= 5)
        attr.handled_access_fs |= 1ull << 15; /* IOCTL_DEV */
    if (abi >= 6) {
        size += sizeof attr.scoped;
        attr.scoped = 3; /* abstract unix sockets, signals */
    }
    int fd = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
    if (fd < 0)
        return errmsg_errno(msg, ERR_IO, "Landlock rule set");
    /* not one rule is added, in what is shipped: nothing is permitted */
    long r = landlock_permit_proc(fd);
    if (r == 0)
        r = syscall(SYS_landlock_restrict_self, fd, 0);
    int saved = errno;
    close(fd);
    errno = saved;
    return r < 0 ? errmsg_errno(msg, ERR_IO, "Landlock") : 0;
}

static int confine_filter(enum confine_role role, struct errmsg *msg) {
    static const enum filter filters[] = {
        [CONFINE_WORKER] = FILTER_WORKER, [CONFINE_KEEPER] = FILTER_KEEPER, [CONFINE_SCRIBE] = FILTER_SCRIBE};
    if (!CONFINE_FILTER || filter_load(filters[role]) == 0)
        return 0;
    return errmsg_errno(msg, ERR_UNSUPPORTED, "seccomp filter can't be loaded");
}

int confine_role(enum confine_role role, struct errmsg *msg) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return errmsg_errno(msg, ERR_IO, "no_new_privs");
    int r = drop_capabilities(msg);
    if (r == 0)
        r = confine_landlock(role, msg);
    if (r == 0)
        r = confine_filter(role, msg);
    return r;
}
