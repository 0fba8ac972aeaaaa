#include "netns/guard.h"

#include <errno.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/tiocl.h>

#include "base/confine.h"

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

static int rules(scmp_filter_ctx ctx) {
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

/* Kernels before 6.12 (Landlock 6) can't: there a signal to the whole process group reaches exeat's. */
static void scope_signals(void) {
    struct {
        uint64_t fs, net, scoped;
    } attr = {.scoped = 2 /* LANDLOCK_SCOPE_SIGNAL */};
    if (confine_landlock_abi() < 6)
        return;
    int fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
    if (fd < 0)
        return;
    (void)syscall(SYS_landlock_restrict_self, fd, 0);
    close(fd);
}

int guard_load(struct errmsg *msg) {
    scope_signals();
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
    if (!ctx)
        return errmsg_set(msg, ERR_NOMEM, "seccomp filter: out of memory");
    int r = rules(ctx);
    if (r == 0)
        r = seccomp_load(ctx);
    seccomp_release(ctx);
    if (r < 0)
        return errmsg_set(msg, ERR_UNSUPPORTED, "the command's seccomp filter can't be loaded: %s",
                          strerror(-r));
    return 0;
}
