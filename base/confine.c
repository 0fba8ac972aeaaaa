#include "base/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

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

int confine_drop_capabilities(struct errmsg *msg) {
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

/* What every role needs to run a loop over descriptors it has. */
static const int calls_common[] = {
    SCMP_SYS(read),
    SCMP_SYS(write),
    SCMP_SYS(readv),
    SCMP_SYS(writev),
    SCMP_SYS(recvfrom),
    SCMP_SYS(recvmsg),
    SCMP_SYS(sendto),
    SCMP_SYS(sendmsg),
    SCMP_SYS(close),
    SCMP_SYS(shutdown),
    SCMP_SYS(fcntl),
    SCMP_SYS(fstat),
    SCMP_SYS(lseek),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(epoll_create1),
    SCMP_SYS(epoll_ctl),
    SCMP_SYS(epoll_wait),
    SCMP_SYS(epoll_pwait),
    SCMP_SYS(epoll_pwait2),
    SCMP_SYS(eventfd2),
    SCMP_SYS(timerfd_create),
    SCMP_SYS(timerfd_settime),
    SCMP_SYS(munmap),
    SCMP_SYS(mremap),
    SCMP_SYS(madvise),
    SCMP_SYS(brk),
    SCMP_SYS(mlock),
    SCMP_SYS(munlock),
    SCMP_SYS(futex),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(time),
    SCMP_SYS(getpid),
    SCMP_SYS(gettid),
    SCMP_SYS(getppid),
    SCMP_SYS(getuid),
    SCMP_SYS(geteuid),
    SCMP_SYS(getgid),
    SCMP_SYS(getegid),
    SCMP_SYS(getrandom),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(sched_yield),
    SCMP_SYS(getrusage),
    SCMP_SYS(sysinfo),
    SCMP_SYS(uname),
    SCMP_SYS(rseq),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(dup),
    SCMP_SYS(getsockopt),
    SCMP_SYS(getsockname),
    SCMP_SYS(getpeername),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(tgkill),
    SCMP_SYS(newfstatat),
};

static const int calls_network[] = {
    SCMP_SYS(accept4),  SCMP_SYS(connect),  SCMP_SYS(setsockopt),
    SCMP_SYS(recvmmsg), SCMP_SYS(sendmmsg), SCMP_SYS(bind),
};

static const int calls_scribe[] = {SCMP_SYS(fsync), SCMP_SYS(fdatasync), SCMP_SYS(ftruncate)};

/* What no role of ours ever calls: whoever calls it runs somebody else's code. */
static const int calls_deadly[] = {
    SCMP_SYS(execve),
    SCMP_SYS(execveat),
    SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_readv),
    SCMP_SYS(fork),
    SCMP_SYS(vfork),
    SCMP_SYS(process_vm_writev),
    SCMP_SYS(mount),
    SCMP_SYS(setns),
    SCMP_SYS(unshare),
    SCMP_SYS(bpf),
    SCMP_SYS(io_uring_setup),
    SCMP_SYS(kexec_load),
    SCMP_SYS(init_module),
    SCMP_SYS(pidfd_getfd),
    SCMP_SYS(userfaultfd),
};

static int allow(scmp_filter_ctx ctx, const int *calls, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (seccomp_rule_add(ctx, SCMP_ACT_ALLOW, calls[i], 0) < 0)
            return -1;
    return 0;
}

static int allow_socket(scmp_filter_ctx ctx, int family) {
    return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
                            SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)family));
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int confine_rules(scmp_filter_ctx ctx, enum confine_role role) {
    for (size_t i = 0; i < COUNT(calls_deadly); i++)
        if (seccomp_rule_add(ctx, SCMP_ACT_KILL_PROCESS, calls_deadly[i], 0) < 0)
            return -1;
    if (allow(ctx, calls_common, COUNT(calls_common)) < 0)
        return -1;
    /* memory is never both new and executable */
    if (seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)) <
            0 ||
        seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                         SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)) < 0)
        return -1;
    if (seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
                         SCMP_A1(SCMP_CMP_EQ, 0x541b /* FIONREAD */)) < 0 ||
        seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
                         SCMP_A1(SCMP_CMP_EQ, 0x5421 /* FIONBIO */)) < 0)
        return -1;
    if (role == CONFINE_KEEPER)
        return 0;
    if (allow(ctx, calls_network, COUNT(calls_network)) < 0 || allow_socket(ctx, AF_INET) < 0 ||
        allow_socket(ctx, AF_INET6) < 0)
        return -1;
    if (role == CONFINE_SCRIBE)
        return allow_socket(ctx, AF_UNIX) < 0 || allow(ctx, calls_scribe, COUNT(calls_scribe)) < 0 ? -1 : 0;
    return 0;
}

static int confine_filter(enum confine_role role, struct errmsg *msg) {
    if (!CONFINE_FILTER)
        return 0;
    /* what is not listed fails with EPERM: a library's probe for a newer call then takes its older way */
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    if (!ctx)
        return errmsg_set(msg, ERR_NOMEM, "seccomp filter: out of memory");
    int r = confine_rules(ctx, role);
    if (r == 0)
        r = seccomp_load(ctx);
    seccomp_release(ctx);
    return r < 0 ? errmsg_set(msg, ERR_UNSUPPORTED, "seccomp filter can't be loaded: %s", strerror(-r)) : 0;
}

int confine_role(enum confine_role role, struct errmsg *msg) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return errmsg_errno(msg, ERR_IO, "no_new_privs");
    int r = confine_drop_capabilities(msg);
    if (r == 0)
        r = confine_landlock(role, msg);
    if (r == 0)
        r = confine_filter(role, msg);
    return r;
}
