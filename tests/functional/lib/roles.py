"""The processes of a running sandbox, and their deaths.

    with roles.greedy() as sandbox:             # a command that tries to get out for ever
        roles.began(sandbox)
        roles.kill(roles.of(sandbox.pid)["worker"])
    roles.gone(leftovers.Host())                # nothing of ours runs any more
"""
import os
import signal

import exeat
import leftovers
import tap

ROLES = ("keeper", "worker", "scribe", "init")

# A command that tries to get out for ever, in several processes, and tells when it began.
GREEDY = """
: > began
setsid sh -c 'while :; do curl -s -m 2 http://x.test/ >/dev/null; done' &
while :; do curl -s -m 2 -k https://x.test/ > /dev/null; done
"""


def of(pid):
    """{role: pid} of a supervisor's children."""
    found = {}
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as f:
            children = f.read().split()
    except OSError:
        return found
    for child in children:
        try:
            with open("/proc/%s/cmdline" % child, "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if len(words) > 1 and words[1].startswith(b"--role="):
            found[words[1][7:].decode()] = int(child)
    return found


def kill(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def greedy(**options):
    return exeat.Sandbox(None, GREEDY, flags=["-q"], env=leftovers.mark(), **options)


def began(sandbox):
    tap.eventually(lambda: os.path.exists(os.path.join(sandbox.home, "began")), message="command has not begun")


def gone(host, besides=()):
    """All processes of ours but those of other live sandboxes (told by their supervisors) end at once."""
    def left():
        found = leftovers.processes(host.program)
        return {p: line for p, line in found.items() if not _child_of(p, besides)}
    try:
        tap.eventually(lambda: not left())
    except AssertionError:
        raise AssertionError("still running: %r" % left()) from None


def _child_of(pid, parents):
    """Whether one of the parents is an ancestor, or the process itself."""
    while pid > 1:
        if pid in parents:
            return True
        try:
            with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as f:
                pid = int(f.read().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False
