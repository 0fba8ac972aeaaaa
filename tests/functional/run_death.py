#!/usr/bin/env python3
"""Whatever dies, and whenever: nothing is left, and the command has no way out any more (see C84 too)."""
import glob
import os
import random
import signal
import socket
import time

import exeat
import leftovers
import roles
import tap
import work


@tap.test
def any_role_is_killed_while_the_command_runs():
    """Its death ends the command at once, with a line that says so, and status 125."""
    host = leftovers.Host()
    for role in roles.ROLES:
        for number in (signal.SIGKILL, signal.SIGSEGV):
            if role == "init" and number != signal.SIGKILL:
                continue  # pid 1 of a namespace: no other signal reaches it
            with roles.greedy() as sandbox:
                roles.began(sandbox)
                time.sleep(random.random() * 0.3)
                roles.kill(roles.of(sandbox.pid)[role], number)
                r = sandbox.wait(30)
                tap.note(role, r.err)
                tap.equal(r.code, 125, role)
                tap.contains(r.err, "exeat: the " + ("sandbox" if role == "init" else role))
            roles.gone(host)
    host.check()


# Asks for one page after the other, on kept connections, and writes down what was answered before it asks for the next.
ASKING = '''
import os, socket, sys
who = sys.argv[1]
told = os.open("answered." + who, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
c = socket.create_connection(("x.test", 80))
answers = c.makefile("rb")
for i in range(1000000):
    c.sendall(b"GET /%s/%d HTTP/1.1\\r\\nHost: x.test\\r\\n\\r\\n" % (who.encode(), i))
    length = 0
    line = answers.readline()
    if not line.startswith(b"HTTP/1.1 403 "):
        break
    os.write(told, b"/%s/%d\\n" % (who.encode(), i))
    while line not in (b"\\r\\n", b""):
        line = answers.readline()
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    answers.read(length)
'''


def answered(sandbox):
    """URLs of what ASKING was answered."""
    found = set()
    for path in glob.glob(os.path.join(sandbox.home, "answered.*")):
        with open(path, encoding="ascii") as f:
            found |= {"http://x.test" + line.rstrip("\n") for line in f if line.endswith("\n")}
    return found


@tap.test
def a_scribe_that_is_killed_takes_no_record_with_it():
    """Whatever a client has been answered is in the log, once, and so is how each exchange ended."""
    host = leftovers.Host()
    for attempt in range(6):
        command = ": > began; until test -e ask.py; do sleep 0.05; done; for i in 1 2 3 4 5 6 7 8; do python3 ask.py $i & done; sleep 60"
        with exeat.Sandbox(None, command, flags=["-q"], workers=4, env=leftovers.mark()) as sandbox:
            roles.began(sandbox)
            work.write(os.path.join(sandbox.home, "ask.py"), ASKING)
            tap.eventually(lambda: len(glob.glob(os.path.join(sandbox.home, "answered.*"))) == 8 and len(answered(sandbox)) > 100)
            time.sleep(0.2 + random.random() * 0.3)
            scribe = roles.of(sandbox.pid)["scribe"]
            if attempt % 3 == 2:  # it is far behind, and more waits than there is room for in the rings, but no more than workers keep
                roles.kill(scribe, signal.SIGSTOP)
                enough = len(answered(sandbox)) + 2000
                tap.eventually(lambda: len(answered(sandbox)) > enough)
            roles.kill(scribe)
            sandbox.cut = 1
            r = sandbox.wait(20)
        tap.equal(r.code, 125)
        tap.contains(r.err, "exeat: the scribe was ended by signal 9")
        tap.lacks(r.err, "lost")
        verdicts = r.verdicts()
        recorded = {v["url"]: v["id"] for v in verdicts}
        tap.equal(sorted(answered(sandbox) - set(recorded))[:5], [])
        tap.ok(len(verdicts) - len(recorded) < 200, "%d are there twice" % (len(verdicts) - len(recorded)))
        tap.equal({v["id"] for v in verdicts} - {o["id"] for o in r.outcomes()}, set())
        roles.gone(host)
    host.check()


@tap.test
def scribes_that_are_killed_one_after_the_other():
    """Up to three in place of the first take no record with them either; where there are more it is said."""
    host = leftovers.Host()
    for limit in (3, 3, 3, 3, 100, 100):
        command = ": > began; until test -e ask.py; do sleep 0.05; done; for i in 1 2 3 4; do python3 ask.py $i & done; sleep 60"
        with exeat.Sandbox(None, command, flags=["-q"], workers=4, env=leftovers.mark()) as sandbox:
            roles.began(sandbox)
            work.write(os.path.join(sandbox.home, "ask.py"), ASKING)
            tap.eventually(lambda: len(answered(sandbox)) > 300)
            killed = set()
            while len(killed) < limit and sandbox.process.poll() is None:
                scribe = roles.of(sandbox.pid).get("scribe")
                if scribe and scribe not in killed:
                    killed.add(scribe)
                    time.sleep(random.random() * 0.005)
                    roles.kill(scribe)
            sandbox.cut = len(killed)
            r = sandbox.wait(30)
        tap.note(limit, len(killed), r.err)
        tap.equal(r.code, 125)
        missing = answered(sandbox) - {v["url"] for v in r.verdicts()}
        tap.ok(not missing or (len(killed) > 3 and "may not have been written" in r.err), len(missing))
        roles.gone(host)
    host.check()


@tap.test
def a_scribe_that_none_can_follow_on():
    """Its program is not there any more: it is said, and all else ends as ever."""
    program = exeat.program() + "-scribe"
    with exeat.Sandbox(None, ": > began; sleep 600") as sandbox:
        roles.began(sandbox)
        os.rename(program, program + ".away")
        try:
            roles.kill(roles.of(sandbox.pid)["scribe"])
            r = sandbox.wait(30)
        finally:
            os.rename(program + ".away", program)
    tap.equal(r.code, 125)
    tap.contains(r.err, "no other scribe can be started")
    tap.contains(r.err, "exeat: the scribe was ended by signal 9")


@tap.test
def any_role_is_killed_during_start_up():
    """Whichever it is: no command, or a command that ended; status 125; nothing left."""
    host = leftovers.Host()
    for i in range(16):
        role = roles.ROLES[i % 4]
        with roles.greedy() as sandbox:
            end = time.monotonic() + 20
            while time.monotonic() < end and sandbox.process.poll() is None:
                found = roles.of(sandbox.pid)
                if role in found:
                    time.sleep(random.random() * 0.02)
                    roles.kill(found[role])
                    break
            r = sandbox.wait(30)
            tap.note(role, r)
            tap.equal(r.code, 125, role)
            tap.contains(r.err, "exeat")
        roles.gone(host)
    host.check()


@tap.test
def a_frozen_worker_is_no_way_out():
    """A worker that is stopped answers nothing; nobody else does."""
    with exeat.Sandbox(None, ": > began; until test -e go; do sleep 0.02; done; curl -s -m 1 http://x.test/; echo $?; : > asked;"
                       "until test -e over; do sleep 0.02; done", flags=["-q"]) as sandbox:
        roles.began(sandbox)
        worker = roles.of(sandbox.pid)["worker"]
        roles.kill(worker, signal.SIGSTOP)
        work.write(os.path.join(sandbox.home, "go"), "")
        tap.eventually(lambda: os.path.exists(os.path.join(sandbox.home, "asked")))
        roles.kill(worker, signal.SIGCONT)
        work.write(os.path.join(sandbox.home, "over"), "")
        r = sandbox.wait(30)
    tap.equal(r.out, "28\n")


@tap.test
def the_supervisor_is_terminated_during_start_up():
    host = leftovers.Host()
    for _ in range(6):
        with roles.greedy() as sandbox:
            time.sleep(random.random() * 0.1)
            roles.kill(sandbox.pid, signal.SIGTERM)
            r = sandbox.wait(30)
            tap.ok(r.code in (-signal.SIGTERM, 128 + signal.SIGTERM), r)
        roles.gone(host)
    host.check()


@tap.test
def a_redis_that_never_answers_does_not_hold_the_end():
    """exeat ends within 5 s of the command, or some more where the machine is busy: it would wait for ever."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        for url in ("redis://127.0.0.1:%d" % silent.getsockname()[1], "redis://127.0.0.1:1", "unix:/nowhere/redis.sock"):
            with exeat.Sandbox(None, "curl -s http://x.test/ >/dev/null; : > ended; exit 3", redis=url) as sandbox:
                ended = os.path.join(sandbox.home, "ended")
                tap.eventually(lambda: os.path.exists(ended))
                at = time.monotonic()
                r = sandbox.wait(30)
                took = time.monotonic() - at
            tap.equal(r.code, 3)
            tap.ok(took < 25, "took %.1f s with %s" % (took, url))
            tap.equal(len(r.verdicts()), 1)


@tap.test
def roles_that_need_long_to_end_are_waited_for_as_long_as_they_do():
    """Together they take longer than one may: what the worker has said is in the log."""
    with exeat.Sandbox(None, ": > began; until test -e go; do sleep 0.05; done; curl -s http://x.test/ >/dev/null; : > asked; "
                             "until test -e end; do sleep 0.05; done; exit 3") as sandbox:
        def tell(word):
            open(os.path.join(sandbox.home, word), "w", encoding="ascii").close()
        roles.began(sandbox)
        found = roles.of(sandbox.pid)
        os.kill(found["scribe"], signal.SIGSTOP)
        tell("go")
        tap.eventually(lambda: os.path.exists(os.path.join(sandbox.home, "asked")))
        os.kill(found["worker"], signal.SIGSTOP)
        tell("end")
        time.sleep(2.8)
        os.kill(found["worker"], signal.SIGCONT)
        tap.eventually(lambda: "worker" not in roles.of(sandbox.pid))
        time.sleep(2.8)
        os.kill(found["scribe"], signal.SIGCONT)
        r = sandbox.wait(30)
    tap.equal((r.code, len(r.verdicts())), (3, 1))
    tap.lacks(r.err, "last decisions")


@tap.test
def a_role_that_does_not_end_is_not_waited_for():
    with exeat.Sandbox(None, ": > began; until test -e go; do sleep 0.05; done; exit 3") as sandbox:
        roles.began(sandbox)
        os.kill(roles.of(sandbox.pid)["scribe"], signal.SIGSTOP)
        open(os.path.join(sandbox.home, "go"), "w", encoding="ascii").close()
        r = sandbox.wait(30)
    tap.equal(r.code, 3)
    tap.contains(r.err, "the last decisions may not have been written")


tap.main()
