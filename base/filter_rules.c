#include "base/filter_rules.h"

#include <errno.h>
#include <linux/tiocl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

/* --- the roles: nothing but what is listed ---------------------------------------------------------------------------- */

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

static int role_rules(scmp_filter_ctx ctx, enum filter which) {
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
    if (which == FILTER_KEEPER)
        return 0;
    if (allow(ctx, calls_network, COUNT(calls_network)) < 0 || allow_socket(ctx, AF_INET) < 0 ||
        allow_socket(ctx, AF_INET6) < 0)
        return -1;
    if (which == FILTER_SCRIBE)
        return allow_socket(ctx, AF_UNIX) < 0 || allow(ctx, calls_scribe, COUNT(calls_scribe)) < 0 ? -1 : 0;
    return 0;
}

/* --- the command: everything but what is listed ----------------------------------------------------------------------- */

/* The kernel takes families and ioctl numbers as 32 bits: the upper half of the register must not matter here either. */
#define LOW32 0xffffffffu

#ifndef TIOCLINUX
#define TIOCLINUX 0x541c
#endif

static int deny(scmp_filter_ctx ctx, int error, int call) {
    return seccomp_rule_add(ctx, SCMP_ACT_ERRNO((unsigned)error), call, 0);
}

static int deny_ioctl(scmp_filter_ctx ctx, unsigned request) {
    return seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
                            SCMP_A1(SCMP_CMP_MASKED_EQ, LOW32, request));
}

static int deny_families(scmp_filter_ctx ctx) {
    static const int allowed[] = {AF_UNSPEC, AF_UNIX, AF_INET, AF_INET6, AF_NETLINK,
                                  AF_PACKET, AF_KEY,  AF_ALG,  AF_XDP};
    for (unsigned family = 0; family < AF_MAX; family++) {
        bool ok = false;
        for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++)
            ok = ok || allowed[i] == (int)family;
        if (!ok && seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                                    SCMP_A0(SCMP_CMP_MASKED_EQ, LOW32, family)) < 0)
            return -1;
    }
    /* those that later kernels bring, and a set upper half */
    return seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                            SCMP_A0(SCMP_CMP_GE, (scmp_datum_t)AF_MAX));
}

/* The other sets of system calls that the same kernel offers to 32-bit programs. */
static int add_architectures(scmp_filter_ctx ctx) {
    uint32_t native = seccomp_arch_native();
    int r = 0;
    if (native == SCMP_ARCH_X86_64) {
        r = seccomp_arch_add(ctx, SCMP_ARCH_X86);
        if (r == 0)
            r = seccomp_arch_add(ctx, SCMP_ARCH_X32);
    } else if (native == SCMP_ARCH_AARCH64) {
        r = seccomp_arch_add(ctx, SCMP_ARCH_ARM);
    }
    return r;
}

static int command_rules(scmp_filter_ctx ctx) {
    if (seccomp_attr_set(ctx, SCMP_FLTATR_CTL_NNP, 0) < 0 ||
        seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS)) < 0 ||
        add_architectures(ctx) < 0)
        return -1;
    if (deny(ctx, ENOSYS, SCMP_SYS(io_uring_setup)) < 0 || deny(ctx, ENOSYS, SCMP_SYS(io_uring_enter)) < 0 ||
        deny(ctx, ENOSYS, SCMP_SYS(io_uring_register)) < 0 || deny(ctx, ENOSYS, SCMP_SYS(add_key)) < 0 ||
        deny(ctx, ENOSYS, SCMP_SYS(request_key)) < 0 || deny(ctx, ENOSYS, SCMP_SYS(keyctl)) < 0)
        return -1;
    if (deny_ioctl(ctx, TIOCSTI) < 0 || deny_ioctl(ctx, TIOCLINUX) < 0)
        return -1;
    return deny_families(ctx);
}

#define API_LEVEL 3 /* of libseccomp: SCMP_ACT_KILL_PROCESS, of Linux 4.14 */

scmp_filter_ctx filter_rules(enum filter which) {
    bool role = which != FILTER_COMMAND;
    /* what is made here is for any kernel that exeat runs on, whichever this one is, and even where seccomp is forbidden */
    if (seccomp_api_get() < API_LEVEL && seccomp_api_set(API_LEVEL) < 0)
        return NULL;
    /* what is not listed fails with EPERM: a library's probe for a newer call then takes its older way */
    scmp_filter_ctx ctx = seccomp_init(role ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_ALLOW);
    if (!ctx || (role ? role_rules(ctx, which) : command_rules(ctx)) == 0)
        return ctx;
    seccomp_release(ctx);
    return NULL;
}
