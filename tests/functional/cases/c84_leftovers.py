"""C84: a supervisor that is killed at any moment leaves nothing behind; the next sandbox works; one beside it is untouched."""
import os
import random
import signal
import time

import client
import exeat
import leftovers
import roles
import tap
import work
from pki import Pki
from servers import RawServer

pki = Pki()
POLICY = "allow GET https://a.test/**\n"
# Asks until it is told to end: a sandbox that lives through all of it, and is served.
STEADY = '''
    begin, count = time.monotonic(), 0
    while not os.path.exists("end"):
        c = tls("a.test")
        if c.get("/").status != 200:
            raise SystemExit(1)
        c.close()
        count += 1
        open("served", "w").write(str(count))
        spin(0.05)
    report(count)
'''


def steady(server):
    """The sandbox, started, in the way that client.run() starts one."""
    path = work.write(os.path.join(work.folder("client."), "client.py"), client.program(STEADY))
    return exeat.Sandbox(POLICY, ["python3", path], resolve=[server.resolve("a.test")], upstream_ca=pki.ca)


@tap.test(timeout=180)
def the_supervisor_is_killed_at_any_moment(t):
    """SIGKILL of the supervisor at 20 random points of start-up and run leaves nothing; each next start works."""
    server = t.use(RawServer(tls=pki.leaf("a.test")))
    host = leftovers.Host()
    with steady(server) as other:
        tap.eventually(lambda: os.path.exists(os.path.join(other.home, "served")))
        for i in range(20):
            with roles.greedy() as sandbox:
                time.sleep(random.random() * (0.25 if i % 2 else 1.0))
                roles.kill(sandbox.pid)
                sandbox.process.wait(30)
            roles.gone(host, {other.pid})
            if i % 4 == 3:
                r = exeat.run(POLICY, ["curl", "-s", "https://a.test/"], resolve=[server.resolve("a.test")], upstream_ca=pki.ca)
                tap.equal((r.code, r.out), (0, "ok"), "the next sandbox")
        tap.equal(other.process.poll(), None, "the other sandbox has ended")
        tap.equal(set(roles.of(other.pid)), set(roles.ROLES), "the other sandbox has lost a process")
        work.write(os.path.join(other.home, "end"), "")
        r = other.wait(30)
        tap.equal(r.code, 0, r.err)
        tap.equal(len(r.verdicts(verdict="deny")), 0)
        tap.ok(len(r.verdicts(verdict="allow")) > 20, r)
    host.check()


@tap.test
def two_sandboxes_of_one_state_folder_need_no_turns(t):
    """Nothing that one holds stands in the other's way: no name, no lock, no address, whatever became of the first."""
    server = t.use(RawServer(tls=pki.leaf("a.test")))
    state = work.folder("state.", user=exeat.as_user(), mode=0o700)
    with roles.greedy(state=state) as first, roles.greedy(state=state) as second:
        roles.began(first)
        roles.began(second)
        roles.kill(first.pid)
        first.process.wait(30)
        r = exeat.run(POLICY, ["curl", "-s", "https://a.test/"], resolve=[server.resolve("a.test")], upstream_ca=pki.ca, state=state)
        tap.equal((r.code, r.out), (0, "ok"))
        tap.equal(second.process.poll(), None)
        roles.kill(second.pid, signal.SIGTERM)
        second.process.wait(30)
    tap.equal(sorted(os.listdir(state)), ["ca-key.pem", "ca.pem"])


@tap.test(timeout=180)
def every_signal_that_ends_it_by_either_user(t):
    """Whoever runs it, and however it is ended: at random points, and the next start with the same state works"""
    server = t.use(RawServer(tls=pki.leaf("a.test")))
    host = leftovers.Host()
    for user in {exeat.as_user(), "root"} if work.is_root() else {None}:
        home = work.folder("home.", user=user, mode=0o700)
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGSEGV, signal.SIGABRT):
            for latest in (0.1, 0.5):
                with roles.greedy(user=user, state=home + "/state") as sandbox:
                    time.sleep(random.random() * latest)
                    roles.kill(sandbox.pid, number)
                    sandbox.process.wait(30)
                roles.gone(host)
            r = exeat.run(POLICY, ["curl", "-s", "https://a.test/"], resolve=[server.resolve("a.test")], upstream_ca=pki.ca, user=user,
                          state=home + "/state")
            tap.equal((r.code, r.out), (0, "ok"), "the next sandbox of %s behind %s" % (user, number.name))
            # nothing half made of the first start, which was ended in its midst
            tap.equal(sorted(os.listdir(home + "/state")), ["ca-key.pem", "ca.pem"])
    host.check()


@tap.test
def a_role_that_is_stopped_goes_all_the_same():
    """It would hear nothing of a connection that has ended, but what the kernel does to it."""
    host = leftovers.Host()
    for role in roles.ROLES:
        with roles.greedy() as sandbox:
            roles.began(sandbox)
            roles.kill(roles.of(sandbox.pid)[role], signal.SIGSTOP)
            roles.kill(sandbox.pid)
            sandbox.process.wait(30)
        roles.gone(host)
    host.check()


@tap.test
def an_ordinary_end_leaves_nothing_either():
    host = leftovers.Host()
    state = work.folder("state.", user=exeat.as_user(), mode=0o700)
    for _ in range(3):
        with exeat.Sandbox(None, "sleep 100 & curl -s http://x.test/ >/dev/null; exit 3", state=state, flags=["-q"],
                           env=leftovers.mark()) as sandbox:
            tap.equal(sandbox.wait(30).code, 3)
    host.check()
    tap.equal(sorted(os.listdir(state)), ["ca-key.pem", "ca.pem"])


tap.main()
