#!/usr/bin/env python3
"""Whatever dies, and whenever: nothing is left, and the command has no way out any more (C84)."""
import os
import random
import signal
import socket
import time

import exeat
import leftovers
import tap
import work

ROLES = ("keeper", "worker", "scribe", "init")


def roles_of(pid):
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


# A command that tries to get out for ever, in several processes, and tells when it began.
GREEDY = """
: > began
setsid sh -c 'while :; do curl -s -m 2 http://x.test/ >/dev/null; done' &
while :; do curl -s -m 2 -k https://x.test/ > /dev/null; done
"""


def greedy(**options):
    return exeat.Sandbox(None, GREEDY, flags=["-q"], env=leftovers.mark(), **options)


def began(sandbox):
    tap.eventually(lambda: os.path.exists(os.path.join(sandbox.home, "began")), 15, "command has not begun")


@tap.test(timeout=120)
def the_supervisor_is_killed_at_any_moment():
    """C84: SIGKILL of the supervisor at 20 random points of start-up and run leaves nothing."""
    host = leftovers.Host()
    with exeat.Sandbox(None, ["sleep", "100"], env={}) as other:
        tap.eventually(lambda: "init" in roles_of(other.pid), 10)
        time.sleep(0.3)
        for i in range(20):
            with greedy() as sandbox:
                time.sleep(random.random() * (0.25 if i % 2 else 1.0))
                kill(sandbox.pid)
                sandbox.process.wait(5)
            gone(host, {other.pid, *roles_of(other.pid).values()})
        tap.equal(other.process.poll(), None, "the other sandbox has ended")
        tap.equal(set(roles_of(other.pid)), set(ROLES), "the other sandbox has lost a process")
        kill(other.pid, signal.SIGTERM)
        tap.equal(other.wait(10).code, 128 + signal.SIGTERM)
    host.check()


def gone(host, besides=()):
    """All processes of ours but those of another live sandbox end at once."""
    def left():
        found = leftovers.processes(host.program)
        return {p: line for p, line in found.items() if p not in besides and not child_of(p, besides)}
    try:
        tap.eventually(lambda: not left(), 3)
    except AssertionError:
        raise AssertionError("still running: %r" % left()) from None


def child_of(pid, parents):
    """Whether one of the parents is an ancestor."""
    while pid > 1:
        if pid in parents:
            return True
        try:
            with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as f:
                pid = int(f.read().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False


@tap.test(timeout=120)
def any_role_is_killed_while_the_command_runs():
    """Its death ends the command at once, with a line that says so, and status 125."""
    host = leftovers.Host()
    for role in ROLES:
        for number in (signal.SIGKILL, signal.SIGSEGV):
            if role == "init" and number != signal.SIGKILL:
                continue  # pid 1 of a namespace: no other signal reaches it
            with greedy() as sandbox:
                began(sandbox)
                time.sleep(random.random() * 0.3)
                at = time.monotonic()
                kill(roles_of(sandbox.pid)[role], number)
                r = sandbox.wait(10)
                tap.note(role, r.err)
                tap.equal(r.code, 125, role)
                tap.ok(time.monotonic() - at < 6, "took %.1f s" % (time.monotonic() - at))
                tap.contains(r.err, "exeat: the " + ("sandbox" if role == "init" else role))
            gone(host)
    host.check()


@tap.test(timeout=120)
def any_role_is_killed_during_start_up():
    """Whichever it is: no command, or a command that ended; status 125; nothing left."""
    host = leftovers.Host()
    for i in range(16):
        role = ROLES[i % 4]
        with greedy() as sandbox:
            end = time.monotonic() + 5
            while time.monotonic() < end and sandbox.process.poll() is None:
                found = roles_of(sandbox.pid)
                if role in found:
                    time.sleep(random.random() * 0.02)
                    kill(found[role])
                    break
            r = sandbox.wait(10)
            tap.note(role, r)
            tap.equal(r.code, 125, role)
            tap.contains(r.err, "exeat")
        gone(host)
    host.check()


@tap.test
def a_frozen_worker_is_no_way_out():
    """A worker that is stopped answers nothing; nobody else does."""
    with exeat.Sandbox(None, ": > began; curl -s -m 1 http://x.test/; echo $?", flags=["-q"]) as sandbox:
        tap.eventually(lambda: "worker" in roles_of(sandbox.pid), 10)
        worker = roles_of(sandbox.pid)["worker"]
        began(sandbox)
        kill(worker, signal.SIGSTOP)
        time.sleep(1.5)
        kill(worker, signal.SIGCONT)
        r = sandbox.wait(15)
    tap.ok(r.out in ("28\n", "0\n") or "x.test" in r.out, r.out)


@tap.test
def the_supervisor_is_terminated_during_start_up():
    host = leftovers.Host()
    for _ in range(6):
        with greedy() as sandbox:
            time.sleep(random.random() * 0.1)
            kill(sandbox.pid, signal.SIGTERM)
            r = sandbox.wait(10)
            tap.ok(r.code in (-signal.SIGTERM, 128 + signal.SIGTERM), r)
        gone(host)
    host.check()


@tap.test
def an_ordinary_end_leaves_nothing_either():
    host = leftovers.Host()
    state = work.folder("state.", user=exeat.as_user(), mode=0o700)
    for _ in range(3):
        with exeat.Sandbox(None, "sleep 100 & curl -s http://x.test/ >/dev/null; exit 3", state=state, flags=["-q"],
                           env=leftovers.mark()) as sandbox:
            tap.equal(sandbox.wait(10).code, 3)
    host.check()
    tap.equal(sorted(os.listdir(state)), ["ca-key.pem", "ca.pem"])


@tap.test
def a_redis_that_never_answers_does_not_hold_the_end():
    """exeat ends within 5 s of the command."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        for url in ("redis://127.0.0.1:%d" % silent.getsockname()[1], "redis://127.0.0.1:1", "unix:/nowhere/redis.sock"):
            with exeat.Sandbox(None, "curl -s http://x.test/ >/dev/null; : > ended; exit 3", redis=url) as sandbox:
                ended = os.path.join(sandbox.home, "ended")
                tap.eventually(lambda: os.path.exists(ended), 15)
                at = time.monotonic()
                r = sandbox.wait(10)
                took = time.monotonic() - at
            tap.equal(r.code, 3)
            tap.ok(took < 5, "took %.1f s with %s" % (took, url))
            tap.equal(len(r.verdicts()), 1)


tap.main()
