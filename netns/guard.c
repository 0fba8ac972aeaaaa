#include "netns/guard.h"

#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/confine.h"
#include "base/filter.h"

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
    if (filter_load(FILTER_COMMAND) < 0)
        return errmsg_errno(msg, ERR_UNSUPPORTED, "the command's seccomp filter can't be loaded");
    return 0;
}
