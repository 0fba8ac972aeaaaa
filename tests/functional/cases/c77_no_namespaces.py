"""C77: a host that lets nobody make namespaces: exeat says what, why and what to do, and runs nothing unfiltered."""
import errno
import json
import os

import exeat
import tap
import without
import work

RUN = ["run", "--", "sh", "-c", "echo it ran; cat /proc/net/dev"]


def under(before, *words):
    """A command of exeat's on a host like that."""
    return exeat.run(None, [], program_args=before + [exeat.program(), *words])


def nothing_runs(before, *words):
    """The doctor finds an error, whose words are these; a run fails with the same, and the command has not begun."""
    r = under(before, "doctor")
    tap.equal(r.code, 1)
    for word in ("error", "to do") + words:
        tap.contains(r.out, word)
    r = under(before, "doctor", "--json")
    tap.equal(r.code, 1)
    report = json.loads(r.out)
    tap.equal(report["ok"], False)
    findings = [f for f in report["findings"] if f["severity"] == "error"]
    tap.ok(findings and all(f["why"] and f["todo"] for f in findings), report)

    r = under(before, *RUN)
    tap.equal(r.code, 125)
    tap.equal(r.out, "")
    tap.contains(r.err, "no sandbox can be made")
    for f in findings:
        tap.contains(r.err, f["what"])


@tap.test
def a_limit_of_namespaces():
    reason = exeat.user_namespaces()
    if reason:
        tap.skip("no user namespaces here: " + reason)
    for limit in ("max_user_namespaces", "max_net_namespaces", "max_pid_namespaces", "max_mnt_namespaces"):
        nothing_runs(["unshare", "-Ur", "sh", "-c", 'echo 0 > /proc/sys/user/%s && exec "$@"' % limit, "sh"], "user." + limit)


@tap.test
def a_limit_of_processes():
    r = under(["prlimit", "--nproc=1"], "doctor")
    tap.equal(r.code, 1)
    tap.contains(r.out, "ulimit -u")


@tap.test
def clone_is_forbidden():
    """clone(CLONE_NEWUSER) gives EPERM"""
    nothing_runs(without.user_namespaces(), "user namespaces", "CLONE_NEWUSER")


@tap.test
def loopback_cannot_be_set_up():
    """RTM_NEWADDR and all else of netlink gives EPERM, inside too"""
    nothing_runs(without.netlink(), "net namespace", "netlink")


@tap.test
def no_rules_can_be_set():
    """Though all else of the network can be made (C78): nftables is not there, be IPv6 or not"""
    nothing_runs(without.netfilter(), "nftables")
    nothing_runs(without.ipv6() + without.netfilter(), "nftables")


@tap.test
def no_file_system_can_be_mounted():
    nothing_runs(without.mounts(), "mount namespace")


@tap.test
def ids_cannot_be_mapped():
    """EPERM of uid_map alone: root without CAP_SETFCAP may map every id but 0, as in a container that has dropped it"""
    reason = exeat.user_namespaces()
    if reason:
        tap.skip("no user namespaces here: " + reason)
    lacking = ["unshare", "-Ur", "setpriv", "--bounding-set=-setfcap", "--inh-caps=-setfcap"]
    tap.equal(work.sh(*lacking, "unshare", "-U", "sh", "-c", "echo made", user=exeat.as_user(), cwd="/").strip(), "made")
    nothing_runs(lacking, "user namespace", "uid_map")


@tap.test
def a_user_who_is_nobody_there():
    """Who has no id in his user namespace may make none; a container without a mapping is like that"""
    reason = exeat.user_namespaces()
    if reason:
        tap.skip("no user namespaces here: " + reason)
    folder = work.folder("home.", user=exeat.as_user(), mode=0o777)
    r = exeat.run(None, [], program_args=["unshare", "-U", exeat.program(), "run", "--state", folder + "/s", "--log", folder + "/log"] + RUN[1:])
    tap.equal((r.code, r.out), (125, ""))
    tap.contains(r.err, "exeat: ")


# What a start may ask the kernel for, by the numbers of x86-64; for some, with one argument only.
CALLS = {"clone": (56, 0, 0), "unshare": (272, 0, 0), "clone3": (435, 0, 0), "setns": (308, 0, 0), "mount": (165, 0, 0), "umount2": (166, 0, 0),
         "pivot_root": (155, 0, 0), "sethostname": (170, 0, 0), "capset": (126, 0, 0), "capget": (125, 0, 0), "seccomp": (317, 0, 0),
         "setresuid": (117, 0, 0), "setresgid": (119, 0, 0), "setgroups": (116, 0, 0), "landlock_create_ruleset": (444, 0, 0),
         "landlock_restrict_self": (446, 0, 0), "open_tree": (428, 0, 0), "move_mount": (429, 0, 0), "mount_setattr": (442, 0, 0),
         "memfd_create": (319, 0, 0), "pidfd_open": (434, 0, 0), "bpf": (321, 0, 0), "socketpair": (53, 0, 0), "setsockopt": (54, 0, 0),
         "bind": (49, 0, 0), "listen": (50, 0, 0), "sendmsg": (46, 0, 0), "recvmsg": (47, 0, 0), "ioctl": (16, 0, 0), "prctl": (157, 0, 0)}
CALLS.update({"clone of " + name: (56, flag, flag) for name, flag in (
    ("mounts", 0x20000), ("users", 0x10000000), ("pids", 0x20000000), ("net", 0x40000000), ("names", 0x4000000), ("ipc", 0x8000000))})
CALLS.update({"unshare of " + name[9:]: (272, *row[1:]) for name, row in list(CALLS.items()) if name.startswith("clone of ")})
CALLS.update({"socket of family %d" % family: (41, family, 0xffffffff) for family in (1, 2, 10, 16, 17)})


@tap.test(timeout=300)
def whatever_is_refused_nothing_runs_unfiltered():
    """Each call that a start may need fails, as a container's seccomp makes it: it is done without, or nothing has run."""
    ran = 0
    for name, row in CALLS.items():
        for error in (errno.EPERM, errno.ENOSYS):
            r = under(without.call(*row, error), *RUN)
            what = "%s %s: %s" % (name, errno.errorcode[error], r)
            if "it ran" in r.out:
                interfaces = [line.split(":")[0].strip() for line in r.out.splitlines() if ":" in line]
                tap.equal(interfaces, ["lo"], what)
                ran += 1
            else:
                tap.ok(r.code != 0 and r.out == "", what)
                tap.ok(r.err, what)
    tap.ok(0 < ran < 2 * len(CALLS), "%d" % ran)


@tap.test
def apparmor_takes_the_capabilities():
    """As on Ubuntu 24.04: the sysctl is 1, the namespace is made, and nothing may be done in it; the recipe is printed"""
    ids = work.account(None)
    if not work.is_root() or ids is None:
        tap.skip("needs root to show another /proc/sys/kernel")
    folder = work.folder("kernel.")
    work.write(os.path.join(folder, "apparmor_restrict_unprivileged_userns"), "1\n")
    script = ('mount --bind %s /proc/sys/kernel && exec setpriv --reuid=%d --regid=%d --clear-groups -- "$@"' % (folder, *ids))
    before = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"]
    home = work.folder("home.", user=exeat.as_user(), mode=0o700)
    for way in (without.user_namespaces(), without.netlink()):
        for words, code in ((["doctor"], 1), (RUN, 125)):
            r = exeat.run(None, [], program_args=before + way + [exeat.program(), *words], user="root", home=home,
                          env={"XDG_STATE_HOME": home})
            tap.equal(r.code, code)
            tap.lacks(r.out, "it ran")
            for word in ("kernel.apparmor_restrict_unprivileged_userns", "userns,", "apparmor_parser -r"):
                tap.contains(r.out + r.err, word)


tap.main()
