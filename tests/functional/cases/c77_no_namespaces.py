"""C77: a host that lets nobody make namespaces: exeat says what, why and what to do, and runs nothing unfiltered."""
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
def clone_is_forbidden():
    """clone(CLONE_NEWUSER) gives EPERM"""
    nothing_runs(without.user_namespaces(), "user namespaces", "CLONE_NEWUSER")


@tap.test
def loopback_cannot_be_set_up():
    """RTM_NEWADDR and all else of netlink gives EPERM, inside too"""
    nothing_runs(without.netlink(), "net namespace", "netlink")


@tap.test
def no_file_system_can_be_mounted():
    nothing_runs(without.mounts(), "mount namespace")


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
