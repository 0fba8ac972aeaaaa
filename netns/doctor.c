#include "netns/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/confine.h"
#include "netns/guard.h"
#include "netns/idmap.h"
#include "netns/link.h"
#include "netns/listen.h"
#include "netns/mounts.h"
#include "netns/nft.h"
#include "netns/trust.h"

/*
 * Two kinds of look: settings that are known to be in the way, which give the reason; and a trial of what sandbox_start does, step
 * by step in a child, which gives the truth. A setting is an error only if the trial failed at the step that it
 * governs, so that a host that works for a reason unknown to us is not talked ill of.
 */
static struct doctor_finding *add(struct doctor_report *r, enum doctor_severity severity, const char *what) {
    static struct doctor_finding spare;
    struct doctor_finding *f = r->n < DOCTOR_FINDINGS_MAX ? &r->list[r->n++] : &spare;
    *f = (struct doctor_finding){.severity = severity};
    snprintf(f->what, sizeof f->what, "%s", what);
    if (severity == DOCTOR_ERROR)
        r->errors++;
    return f;
}

static void __attribute__((format(printf, 2, 3))) why(struct doctor_finding *f, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    vsnprintf(f->why, sizeof f->why, format, ap);
    va_end(ap);
}

static void todo(struct doctor_finding *f, const char *text) {
    snprintf(f->todo, sizeof f->todo, "%s", text);
}

/* The number in a file of /proc/sys, or -1. */
static long setting(const char *path) {
    char text[32] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    return n > 0 ? strtol(text, NULL, 10) : -1;
}

/* --- the trial ------------------------------------------------------------- */

enum step {
    STEP_CLONE,
    STEP_MAP,
    STEP_PROC,
    STEP_LINK,
    STEP_LISTEN,
    STEP_NFT,
    STEP_NEST,
    STEP_FILTER,
    STEP_DONE
};

struct outcome {
    enum step step; /* where it ended */
    int error;      /* of STEP_CLONE */
    bool ipv6, nat_only;
    char text[256];
};

static _Noreturn void leave(int fd, enum step step, struct outcome o, const struct errmsg *msg) {
    o.step = step;
    snprintf(o.text, sizeof o.text, "%s", msg->text);
    (void)!write(fd, &o, sizeof o);
    _exit(0);
}

static int nested(void) {
    pid_t pid = (pid_t)syscall(SYS_clone, (unsigned long)(CLONE_NEWUSER | CLONE_NEWNS | SIGCHLD), NULL, NULL,
                               NULL, NULL);
    if (pid == 0)
        _exit(0);
    if (pid < 0)
        return -1;
    waitpid(pid, NULL, 0);
    return 0;
}

static _Noreturn void trial_child(int go, int out) {
    struct errmsg msg = {""};
    struct sandbox_listeners l = {-1, -1, -1, -1, -1, -1};
    struct listen_ports ports;
    static const uint8_t prefix[8] = {0xfd};
    struct outcome o = {0};
    char c;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_DUMPABLE, 1);
    if (write(out, "u", 1) != 1 || read(go, &c, 1) != 1)
        _exit(0);
    if (mounts_proc(&msg))
        leave(out, STEP_PROC, o, &msg);
    if (link_setup(prefix, false, &o.ipv6, &msg))
        leave(out, STEP_LINK, o, &msg);
    if (listen_open(o.ipv6, &l, &ports, &msg))
        leave(out, STEP_LISTEN, o, &msg);
    if (nft_setup(prefix, o.ipv6, &ports, &o.nat_only, &msg))
        leave(out, STEP_NFT, o, &msg);
    if (nested() < 0) {
        errmsg_errno(&msg, ERR_UNSUPPORTED, "nested user namespace");
        leave(out, STEP_NEST, o, &msg);
    }
    if (guard_load(&msg))
        leave(out, STEP_FILTER, o, &msg);
    leave(out, STEP_DONE, o, &msg);
}

/* Does as sandbox_start does, and says how far it came. */
static struct outcome trial(void) {
    struct outcome o = {.step = STEP_CLONE};
    struct errmsg msg = {""};
    int out[2], go[2];
    char c;
    if (pipe2(out, O_CLOEXEC) < 0 || pipe2(go, O_CLOEXEC) < 0) {
        snprintf(o.text, sizeof o.text, "pipe: %s", strerror(errno));
        return o;
    }
    unsigned long flags = CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | SIGCHLD;
    pid_t pid = (pid_t)syscall(SYS_clone, flags, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        close(out[0]);
        close(go[1]);
        trial_child(go[0], out[1]);
    }
    if (pid < 0) {
        o.error = errno;
        snprintf(o.text, sizeof o.text, "%s", strerror(errno));
    }
    close(out[1]);
    close(go[0]);
    if (pid > 0 && read(out[0], &c, 1) == 1) {
        o.step = STEP_MAP;
        if (idmap_write(pid, idmap_is_root(), &msg)) {
            snprintf(o.text, sizeof o.text, "%s", msg.text);
        } else {
            struct outcome got;
            (void)!write(go[1], "g", 1);
            if (read(out[0], &got, sizeof got) == (ssize_t)sizeof got)
                o = got;
            else
                snprintf(o.text, sizeof o.text, "the trial's process has died");
        }
    }
    close(out[0]);
    close(go[1]);
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    return o;
}

/* --- what stands behind it ------------------------------------------------- */

static const char apparmor_recipe[] =
    "write /etc/apparmor.d/exeat, with the path at which exeat is installed:\n"
    "    abi <abi/4.0>,\n"
    "    include <tunables/global>\n"
    "    profile exeat /usr/bin/exeat flags=(unconfined) {\n"
    "        userns,\n"
    "        include if exists <local/exeat>\n"
    "    }\n"
    "load it: sudo apparmor_parser -r /etc/apparmor.d/exeat\n"
    "(or, for every program of the host: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0)";

static void explain_apparmor(struct doctor_finding *f) {
    why(f, "kernel.apparmor_restrict_unprivileged_userns is 1: AppArmor takes the capabilities of programs "
           "without a profile "
           "away inside a user namespace (Ubuntu 23.10 and later)");
    todo(f, apparmor_recipe);
}

static bool apparmor_restricts(void) {
    return geteuid() != 0 && setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1;
}

static void explain_clone(struct doctor_finding *f, const struct outcome *o) {
    static const char *const limits[] = {"user", "net", "mnt", "pid", "ipc"};
    char path[96];
    if (o->error == EAGAIN) {
        why(f, "no further process can be started: %s", o->text);
        todo(f, "raise the limit of processes (ulimit -u; in a container or a service, the limit of pids or "
                "tasks)");
        return;
    }
    if (geteuid() != 0 && setting("/proc/sys/kernel/unprivileged_userns_clone") == 0) {
        why(f, "kernel.unprivileged_userns_clone is 0 (Debian's switch)");
        todo(f,
             "sudo sysctl kernel.unprivileged_userns_clone=1\n"
             "(to keep it: put the line kernel.unprivileged_userns_clone=1 into /etc/sysctl.d/exeat.conf)");
        return;
    }
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        snprintf(path, sizeof path, "/proc/sys/user/max_%s_namespaces", limits[i]);
        if (setting(path) != 0)
            continue;
        why(f, "user.max_%s_namespaces is 0", limits[i]);
        snprintf(f->todo, sizeof f->todo, "sudo sysctl user.max_%s_namespaces=16384", limits[i]);
        return;
    }
    if (apparmor_restricts()) {
        explain_apparmor(f);
        return;
    }
    why(f, "%s", o->text);
    todo(f, "in a container: permit user namespaces, for Docker with --security-opt seccomp=unconfined "
            "--security-opt "
            "apparmor=unconfined, or a seccomp profile that permits clone and unshare with CLONE_NEWUSER; in "
            "a chroot they can't be "
            "made; else the kernel lacks CONFIG_USER_NS or CONFIG_NET_NS");
}

static void explain_step(struct doctor_report *r, const struct outcome *o) {
    static const char *const what[] = {
        [STEP_CLONE] = "user namespaces: can't be made",
        [STEP_MAP] = "user namespaces: ids can't be mapped",
        [STEP_PROC] = "mount namespace: /proc can't be mounted",
        [STEP_LINK] = "net namespace: loopback can't be set up",
        [STEP_LISTEN] = "net namespace: no listening sockets",
        [STEP_NFT] = "nftables: rules can't be set in a namespace",
        [STEP_NEST] = "user namespaces: can't be nested",
        [STEP_FILTER] = "seccomp: no filter can be loaded",
    };
    struct doctor_finding *f = add(r, DOCTOR_ERROR, what[o->step]);
    if (o->step == STEP_CLONE) {
        explain_clone(f, o);
        return;
    }
    if (apparmor_restricts()) {
        explain_apparmor(f);
        return;
    }
    why(f, "%s", o->text);
    switch (o->step) {
    case STEP_MAP:
        todo(f, "root of a container needs CAP_SETUID, CAP_SETGID and CAP_SETFCAP to map all ids; or run "
                "exeat as another user");
        break;
    case STEP_PROC:
        if (doctor_inside()) {
            todo(f,
                 "this is a sandbox that root started, in which parts of /proc are covered: no other can be "
                 "made in it; start the outer one as another user, or this one outside of it");
            break;
        }
        todo(f, "in a container parts of /proc are masked, and the kernel then lets nobody mount a new one: "
                "for Docker --security-opt "
                "systempaths=unconfined, for Kubernetes procMount: Unmasked, for podman --security-opt "
                "unmask=ALL");
        break;
    case STEP_NFT:
        todo(f, "load the kernel's modules once: sudo modprobe -a nf_tables nft_chain_nat nft_redir "
                "nft_reject_inet nft_ct "
                "(CONFIG_NF_TABLES, CONFIG_NF_TABLES_INET, CONFIG_NFT_REDIR, CONFIG_NFT_REJECT_INET); exeat "
                "does not "
                "start without its rules");
        break;
    case STEP_NEST: todo(f, "raise user.max_user_namespaces; a sandbox takes two"); break;
    case STEP_FILTER: todo(f, "the kernel needs CONFIG_SECCOMP_FILTER"); break;
    default:
        todo(f,
             "something keeps programs from what is theirs inside a user namespace: in a container a seccomp "
             "or AppArmor profile "
             "(for Docker --security-opt seccomp=unconfined --security-opt apparmor=unconfined); else a "
             "security module of the host (see /sys/kernel/security/lsm), which needs a profile that lets "
             "exeat make and use user namespaces");
        break;
    }
}

static void check_kernel(struct doctor_report *r) {
    struct utsname u;
    unsigned major = 0, minor = 0;
    if (uname(&u) == 0 && sscanf(u.release, "%u.%u", &major, &minor) == 2 &&
        (major < 5 || (major == 5 && minor < 13))) {
        struct doctor_finding *f = add(r, DOCTOR_ERROR, "kernel: too old");
        why(f, "this is Linux %u.%u", major, minor);
        todo(f, "Linux 5.13 or later is needed");
    }
    if (confine_landlock_abi() < 1) {
        struct doctor_finding *f = add(r, DOCTOR_ERROR, "Landlock: not there");
        why(f, "the worker, which reads hostile bytes, could not be kept from files");
        todo(f, "the kernel needs CONFIG_SECURITY_LANDLOCK, and landlock among the names in lsm= on its "
                "command line "
                "(see /sys/kernel/security/lsm)");
    } else {
        add(r, DOCTOR_OK, "Landlock");
    }
    if (prctl(PR_GET_SECCOMP) < 0 && errno == EINVAL) {
        struct doctor_finding *f = add(r, DOCTOR_ERROR, "seccomp: not there");
        todo(f, "the kernel needs CONFIG_SECCOMP_FILTER");
    }
}

static void check_ipv6(struct doctor_report *r, bool ipv6) {
    if (ipv6) {
        add(r, DOCTOR_OK, "IPv6 inside");
        return;
    }
    struct doctor_finding *f = add(r, DOCTOR_NOTE, "IPv6: not inside");
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    why(f,
        fd < 0 ? "the kernel has no IPv6 sockets" : "IPv6 is switched off (ipv6.disable=1 or disable_ipv6)");
    todo(f, "nothing: sandboxes are served over IPv4 alone, and names get no IPv6 address");
    if (fd >= 0)
        close(fd);
}

static void check_tproxy(struct doctor_report *r, bool nat_only) {
    if (!nat_only) {
        add(r, DOCTOR_OK, "connections to ports 80 and 443 led to exeat by TPROXY");
        return;
    }
    struct doctor_finding *f = add(r, DOCTOR_NOTE, "TPROXY: not inside");
    why(f, "all TCP is led to exeat by NAT, which costs time for each packet and room in the table of "
           "conntrack");
    todo(f, "nothing has to be done; to have it, load the kernel's module: sudo modprobe nft_tproxy "
            "(CONFIG_NFT_TPROXY)");
}

bool doctor_inside(void) {
    static const char mark[] = TRUST_RESOLV_MARK;
    char text[sizeof mark - 1];
    int fd = open("/etc/resolv.conf", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool inside = read(fd, text, sizeof text) == (ssize_t)sizeof text && memcmp(text, mark, sizeof text) == 0;
    close(fd);
    return inside;
}

void doctor_check(struct doctor_report *report) {
    *report = (struct doctor_report){0};
    check_kernel(report);
    struct outcome o = trial();
    static const char *const good[] = {[STEP_MAP] = "user, net, mount, pid and ipc namespaces",
                                       [STEP_PROC] = "ids mapped",
                                       [STEP_LINK] = "/proc inside",
                                       [STEP_LISTEN] = "loopback, addresses and routes inside",
                                       [STEP_NFT] = "listening sockets inside",
                                       [STEP_NEST] = "nftables inside",
                                       [STEP_FILTER] = "nested user namespaces",
                                       [STEP_DONE] = "seccomp"};
    for (enum step s = STEP_MAP; s <= o.step; s++)
        add(report, DOCTOR_OK, good[s]);
    if (o.step != STEP_DONE)
        explain_step(report, &o);
    if (o.step > STEP_LINK)
        check_ipv6(report, o.ipv6);
    if (o.step > STEP_NFT)
        check_tproxy(report, o.nat_only);
}
