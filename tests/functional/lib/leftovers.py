"""What a run must not leave on the host: processes, mounts, namespaces, rules, sockets.

    before = leftovers.Host()
    ...
    before.check()            # waits a little, then fails with what is left

Only what is new and ours counts: processes of the program under test and their children (told by a word in
their environment), mounts and firewall rules of this very namespace, abstract sockets.
"""
import os
import shutil
import subprocess
import time

MARK = "EXEAT_TEST_MARK"


def mark():
    """To be put in the environment of a sandboxed command: its processes are then found."""
    return {MARK: "m%d" % os.getpid()}


def processes(program=None):
    """{pid: command line} of the program's processes and of those that carry the mark."""
    found = {}
    wanted = ("%s=m%d" % (MARK, os.getpid())).encode()
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open("/proc/%s/cmdline" % entry, "rb") as f:
                line = f.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
            with open("/proc/%s/stat" % entry, encoding="utf-8", errors="replace") as f:
                state = f.read().rpartition(")")[2].split()[0]
            # exeat, exeat-init, exeat-keeper, exeat-worker, exeat-scribe
            ours = program is not None and (_exe(entry) or "").startswith(program)
            if not ours:
                ours = wanted in _environ(entry).split(b"\0")
        except OSError:
            continue
        if ours and state != "Z":
            found[int(entry)] = line
    return found


def _exe(pid):
    try:
        return os.readlink("/proc/%s/exe" % pid)
    except OSError:
        return None


def _environ(pid):
    try:
        with open("/proc/%s/environ" % pid, "rb") as f:
            return f.read()
    except OSError:
        return b""


def _lines(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read().splitlines()


def _ipv6(name):
    return _lines("/proc/net/" + name) if os.path.exists("/proc/net/" + name) else []


def _rules():
    if shutil.which("nft") is None or os.getuid() != 0:
        return []
    return subprocess.run(["nft", "list", "ruleset"], capture_output=True, text=True, check=False).stdout.splitlines()


class Host:
    """The state of the host at one moment."""

    def __init__(self, program=None):
        if program is None:
            import exeat
            program = exeat.program()
        self.program = program
        self.state = self._look()

    def _look(self):
        return {
            "processes": {"%d %s" % p for p in processes(self.program).items()},
            "mounts": set(_lines("/proc/self/mountinfo")),
            "named namespaces": set(os.listdir("/run/netns")) if os.path.isdir("/run/netns") else set(),
            # escape.py, which may run beside this, has sockets of its own
            "abstract sockets": {line.split()[-1] for line in _lines("/proc/net/unix")
                                 if " @" in line and " @exeat-escape-" not in line},
            "links": set(os.listdir("/sys/class/net")),
            "routes": set(_lines("/proc/net/route")),
            # without what counts how often it was used
            "routes of IPv6": {" ".join([*f[:5], f[-1]]) for f in map(str.split, _ipv6("ipv6_route"))},
            "addresses of IPv6": set(_ipv6("if_inet6")),
            "rules": set(_rules()),
        }

    def left(self):
        """{kind: what is there that was not}."""
        now = self._look()
        new = {kind: sorted(now[kind] - self.state[kind]) for kind in now}
        return {kind: things for kind, things in new.items() if things}

    def check(self, seconds=20.0):
        end = time.monotonic() + seconds
        while True:
            left = self.left()
            # A test beside this one may own a socket or a mount for a moment; what is ours stays.
            if not left:
                return
            if time.monotonic() > end:
                raise AssertionError("left behind: %r" % left)
            time.sleep(0.05)
